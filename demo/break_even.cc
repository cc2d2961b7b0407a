#include "demo/break_even.h"

#include <tenon/ep.h>
#include <tenon/importer.h>
#include <tenon/session.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "demo/submitter.h"
#include "programs/clock.h"
#include "programs/relu_model.h"

namespace tenon::demo {
namespace {

constexpr int64_t kPatienceNs = 5'000'000'000;

// The host polls: a driver's blocking wait for another API's signal may be 10 ms late.
Status poll(const VulkanTimeline& timeline, uint64_t value) {
  const int64_t end_ns = now_ns() + kPatienceNs;
  for (;;) {
    TENON_TRY_ASSIGN(const uint64_t reached, timeline.value());
    if (reached >= value) return {};
    if (now_ns() >= end_ns)
      return timed_out("A Vulkan timeline is at {} and does not reach {} within 5 s.", reached, value);
  }
}

// A small kernel of the EP beside each measurement: where the GPU has to change from one API's context to the other's
// to compute, a copy alone may not show that, and nobody brings memory over for nothing.
class Work {
 public:
  static Result<std::unique_ptr<Work>> open(const std::string& ep_name) {
    std::unique_ptr<Work> work(new Work);
    constexpr int64_t kCount = 256;
    TENON_TRY_ASSIGN(work->session_,
                     Session::load_from_bytes(test::relu_model({kCount}), {.eps = {{.ep_name = ep_name}}}));
    TENON_TRY_ASSIGN(Binding binding, work->session_->make_binding());
    work->binding_.emplace(std::move(binding));
    const MemorySpace space = work->session_->input_spaces()[0].space;
    TENON_TRY_ASSIGN(const Tensor x, work->session_->allocate(DataType::kFloat, {kCount}, space));
    TENON_TRY_ASSIGN(const Tensor y, work->session_->allocate(DataType::kFloat, {kCount}, space));
    TENON_TRY(work->binding_->bind_input("x", x));
    TENON_TRY(work->binding_->bind_output("y", y));
    return work;
  }
  // Done on return.
  Status run(const RunOptions& options = {}) { return session_->run(*binding_, options); }

 private:
  Work() = default;
  std::shared_ptr<Session> session_;
  std::optional<Binding> binding_;
};

// A buffer of the Vulkan device with the EP's view of it, host memory beside both, and a timeline that both move.
class Probe {
 public:
  static Result<std::unique_ptr<Probe>> open(const std::shared_ptr<VulkanDevice>& device, Importer& importer,
                                             Work& work, size_t size_bytes) {
    std::unique_ptr<Probe> probe(new Probe(work));
    TENON_TRY_ASSIGN(probe->buffer_, SharedBuffer::create_on_device(device, size_bytes));
    TENON_TRY_ASSIGN(probe->staging_, LocalBuffer::create(device, size_bytes));
    TENON_TRY_ASSIGN(probe->shared_, VulkanTimeline::create(device, true));
    TENON_TRY_ASSIGN(probe->own_, VulkanTimeline::create(device, false));
    TENON_TRY_ASSIGN(probe->submitter_, Submitter::create(device));
    TENON_TRY_ASSIGN(probe->down_,
                     probe->submitter_->record_copy(probe->buffer_->buffer(), probe->staging_->buffer(), size_bytes));
    TENON_TRY_ASSIGN(probe->up_,
                     probe->submitter_->record_copy(probe->staging_->buffer(), probe->buffer_->buffer(), size_bytes));
    // Memory comes first: it says which device made it, and is refused where that is another one.
    TENON_TRY_ASSIGN(OwnedHandle memory, probe->buffer_->dup_fd());
    ExternalMemoryDescriptor descriptor;
    descriptor.kind = ExternalMemoryKind::kVulkanOpaqueFd;
    descriptor.size_bytes = probe->buffer_->allocation_bytes();
    descriptor.dedicated = true;
    descriptor.device_uuid = device->uuid;
    const Shape shape{static_cast<int64_t>(size_bytes)};
    TENON_TRY_ASSIGN(const auto import, importer.import_memory(memory, descriptor));
    TENON_TRY_ASSIGN(probe->imported_, ExternalMemory::create_tensor(import, DataType::kUint8, shape));
    TENON_TRY_ASSIGN(OwnedHandle timeline, probe->shared_->export_fd());
    TENON_TRY_ASSIGN(probe->timeline_, importer.import_timeline(timeline, TimelineKind::kVulkanTimelineFd, "probe"));
    TENON_TRY_ASSIGN(probe->host_, Tensor::view(DataType::kUint8, shape, probe->staging_->mapped(), size_bytes));
    return probe;
  }

  // Vulkan signals, and the EP works behind it.
  Status import_in() {
    ++value_;
    TENON_TRY(submitter_->submit(Submitter::kNothing, nullptr, 0, *shared_, value_));
    const Fence waits[] = {{timeline_, value_}};
    return work_.run({.waits = waits});
  }
  // Vulkan copies to the host, the host to the EP's memory; then the EP works.
  Status copy_in() {
    TENON_TRY(submitter_->submit(down_, nullptr, 0, *own_, ++own_value_));
    TENON_TRY(poll(*own_, own_value_));
    TENON_TRY(copy(imported_, host_));
    return work_.run();
  }
  // The EP works and signals, and a submission of Vulkan's that waits for it is done.
  Status import_out() {
    ++value_;
    TENON_TRY(submitter_->submit(Submitter::kNothing, shared_.get(), value_, *own_, ++own_value_));
    const Fence signals[] = {{timeline_, value_}};
    TENON_TRY(work_.run({.signals = signals}));
    return poll(*own_, own_value_);
  }
  // The EP works, its memory is copied to the host, and from there by Vulkan.
  Status copy_out() {
    TENON_TRY(work_.run());
    TENON_TRY(copy(host_, imported_));
    TENON_TRY(submitter_->submit(up_, nullptr, 0, *own_, ++own_value_));
    return poll(*own_, own_value_);
  }

 private:
  explicit Probe(Work& work) : work_(work) {}

  Work& work_;
  std::unique_ptr<SharedBuffer> buffer_;
  std::unique_ptr<LocalBuffer> staging_;
  std::shared_ptr<VulkanTimeline> shared_, own_;
  uint64_t value_ = 0, own_value_ = 0;
  std::shared_ptr<Timeline> timeline_;
  Tensor imported_, host_;
  std::unique_ptr<Submitter> submitter_;  // waits, before the buffers go
  size_t down_ = 0, up_ = 0;
};

Result<double> median_us(int rounds, const std::function<Status()>& work) {
  std::vector<double> times;
  for (int round = -3; round < rounds; ++round) {
    const int64_t begin_ns = now_ns();
    TENON_TRY(work());
    if (round >= 0) times.push_back(static_cast<double>(now_ns() - begin_ns) / 1000);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// So that no figure has the GPU's way out of its sleep in it.
Status warm_up(const std::shared_ptr<VulkanDevice>& device, Importer& importer, Work& work, size_t size_bytes) {
  TENON_TRY_ASSIGN(const std::unique_ptr<Probe> probe, Probe::open(device, importer, work, size_bytes));
  const int64_t end_ns = now_ns() + 300'000'000;
  while (now_ns() < end_ns) {
    TENON_TRY(probe->copy_in());
    TENON_TRY(probe->import_in());
    TENON_TRY(probe->copy_out());
    TENON_TRY(probe->import_out());
  }
  return {};
}

// Copies of one size both ways, and what fences cost beside them.
Status measure_size(const std::shared_ptr<VulkanDevice>& device, Importer& importer, Work& work, size_t size_bytes,
                    int rounds, BreakEven* result) {
  TENON_TRY_ASSIGN(const std::unique_ptr<Probe> probe, Probe::open(device, importer, work, size_bytes));
  TENON_TRY_ASSIGN(const double in, median_us(rounds, [&] { return probe->copy_in(); }));
  TENON_TRY_ASSIGN(const double out, median_us(rounds, [&] { return probe->copy_out(); }));
  result->in.copies.push_back({size_bytes, in});
  result->out.copies.push_back({size_bytes, out});
  if (result->in.copies.size() > 1) return {};
  TENON_TRY_ASSIGN(result->in.import_us, median_us(3 * rounds, [&] { return probe->import_in(); }));
  TENON_TRY_ASSIGN(result->out.import_us, median_us(3 * rounds, [&] { return probe->import_out(); }));
  return {};
}

}  // namespace

double WayCosts::copy_us(size_t bytes) const {
  if (copies.empty()) return 0;
  if (copies.size() == 1) return copies[0].us;
  size_t upper = 1;
  while (upper + 1 < copies.size() && copies[upper].bytes < bytes) ++upper;
  const Copy &a = copies[upper - 1], &b = copies[upper];
  const double slope = (b.us - a.us) / (static_cast<double>(b.bytes) - static_cast<double>(a.bytes));
  return std::max(0.0, a.us + slope * (static_cast<double>(bytes) - static_cast<double>(a.bytes)));
}

std::optional<size_t> WayCosts::break_even_bytes() const {
  if (copies.empty() || copies.back().us < import_us) return std::nullopt;
  size_t first = copies.size() - 1;
  while (first > 0 && copies[first - 1].us >= import_us) --first;
  if (first == 0) return copies[0].bytes;
  const Copy &a = copies[first - 1], &b = copies[first];
  const double share = (import_us - a.us) / (b.us - a.us);
  return a.bytes + static_cast<size_t>(share * static_cast<double>(b.bytes - a.bytes));
}

Result<std::string> ep_device_name(const std::string& ep_name) {
  for (const EpDevice& device : ep_devices()) {
    if (device.ep_name != ep_name) continue;
    const auto name = device.metadata.find("cuda_device_name");
    return name != device.metadata.end() ? name->second : device.hardware.vendor;
  }
  return not_found("The EP \"{}\" offers no device on this machine; the log says why.", ep_name);
}

Result<std::string> vulkan_device_name(const std::string& name_part) {
  TENON_TRY_ASSIGN(const auto device, VulkanDevice::create(name_part));
  return device->name;
}

Result<BreakEven> measure_break_even(const BreakEvenOptions& options) {
  if (options.sizes.empty() || options.rounds < 1) return invalid_argument("There is nothing to measure.");
  BreakEven result;
  result.ep_name = options.ep_name;
  TENON_TRY_ASSIGN(result.ep_device, ep_device_name(options.ep_name));
  TENON_TRY_ASSIGN(const auto importer, Importer::create(options.ep_name));
  TENON_TRY_ASSIGN(const auto device, VulkanDevice::create(options.vulkan_device));
  result.vulkan_device = device->name;
  if (!device->can_export_timelines || !importer->can_import(TimelineKind::kVulkanTimelineFd) ||
      !importer->can_import(ExternalMemoryKind::kVulkanOpaqueFd))
    return unsupported("The EP \"{}\" and the Vulkan device \"{}\" share no buffers and timelines.", options.ep_name,
                       device->name);
  TENON_TRY_ASSIGN(const std::unique_ptr<Work> work, Work::open(options.ep_name));
  TENON_TRY_WITH_CONTEXT(warm_up(device, *importer, *work, options.sizes[0]), "while warming up");
  for (const size_t size_bytes : options.sizes)
    TENON_TRY_WITH_CONTEXT(measure_size(device, *importer, *work, size_bytes, options.rounds, &result),
                           format("while measuring with {} bytes", size_bytes));
  return result;
}

}  // namespace tenon::demo
