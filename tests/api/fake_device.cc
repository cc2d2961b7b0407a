#include "fake_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "base/fault.h"
#include "device/memory_space.h"
#include "plan/regions.h"

namespace tenon::api_testing {

namespace {

constexpr uint32_t kVendor = 0x7e50;
constexpr int kFresh = 0xA5;
constexpr int kFreed = 0xDD;

// Device memory is mapped twice: where the host has its addresses it is closed, the device uses the other mapping.
class DeviceMemory {
 public:
  static DeviceMemory& instance() {
    static DeviceMemory memory;
    return memory;
  }

  Result<std::shared_ptr<void>> allocate(size_t size_bytes, const std::shared_ptr<FakeCounts>& counts) {
    const size_t size = (size_bytes + 4095) / 4096 * 4096;
    const int fd = ::memfd_create("tenon-test-device", MFD_CLOEXEC);
    if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(size)) != 0) return resource_exhausted("memfd_create failed.");
    void* closed = ::mmap(nullptr, size, PROT_NONE, MAP_SHARED, fd, 0);
    void* open = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    if (closed == MAP_FAILED || open == MAP_FAILED) return resource_exhausted("mmap failed.");
    std::memset(open, kFresh, size);
    {
      const std::lock_guard lock(mutex_);
      blocks_[static_cast<std::byte*>(closed)] = {static_cast<std::byte*>(open), size};
    }
    ++counts->blocks;
    return std::shared_ptr<void>(closed, [this, open, size, counts](void* block) {
      {
        const std::lock_guard lock(mutex_);
        blocks_.erase(static_cast<std::byte*>(block));
      }
      std::memset(open, kFreed, size);
      ::munmap(open, size);
      ::munmap(block, size);
      --counts->blocks;
    });
  }

  // A name for memory that nobody finds at the name, or behind it.
  Result<std::shared_ptr<void>> allocate_handle(size_t size_bytes, const std::shared_ptr<FakeCounts>& counts) {
    constexpr size_t kNames = size_t{1} << 20, kApart = 16;
    const std::lock_guard lock(mutex_);
    if (names_ == nullptr)
      names_ = static_cast<std::byte*>(::mmap(nullptr, kNames, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (next_name_ + kApart > kNames) return resource_exhausted("There are no more handles.");
    auto memory = std::make_shared<std::vector<std::byte>>(size_bytes, static_cast<std::byte>(kFresh));
    std::byte* name = names_ + next_name_;
    next_name_ += kApart;
    handles_[name] = memory;
    ++counts->blocks;
    return std::shared_ptr<void>(name, [this, counts](void* freed) {
      const std::lock_guard freeing(mutex_);
      handles_.erase(static_cast<std::byte*>(freed));
      --counts->blocks;
    });
  }

  // Where the device finds an address; the same address for memory of the host.
  void* open(const void* address) {
    const std::lock_guard lock(mutex_);
    auto* at = static_cast<std::byte*>(const_cast<void*>(address));
    if (const auto handle = handles_.find(at); handle != handles_.end()) return handle->second->data();
    auto block = blocks_.upper_bound(at);
    if (block == blocks_.begin()) return at;
    --block;
    if (at >= block->first + block->second.second) return at;
    return block->second.first + (at - block->first);
  }

 private:
  std::mutex mutex_;
  std::map<std::byte*, std::pair<std::byte*, size_t>> blocks_;
  std::map<std::byte*, std::shared_ptr<std::vector<std::byte>>> handles_;
  std::byte* names_ = nullptr;
  size_t next_name_ = 0;
};

void* opened(const void* address) { return DeviceMemory::instance().open(address); }

// Work of all streams runs under one lock: a stream that waits for another runs it.
std::recursive_mutex& device_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

class FakeStream final : public DeviceStream, public std::enable_shared_from_this<FakeStream> {
 public:
  // Outlives the stream for those who wait for its points.
  struct Queue {
    std::deque<std::function<Status()>> items;
    size_t done = 0;
    Status failure;

    size_t point() const { return done + items.size(); }
    Status run_until(size_t point) {
      const std::lock_guard lock(device_mutex());
      while (done < point && !items.empty()) {
        std::function<Status()> item = std::move(items.front());
        items.pop_front();
        ++done;
        if (failure.ok()) failure = item();
      }
      return failure;
    }
  };

  explicit FakeStream(std::shared_ptr<FakeCounts> counts) : counts_(std::move(counts)) {
    ++counts_->streams;
    ++counts_->streams_made;
  }
  ~FakeStream() override { --counts_->streams; }

  void enqueue(std::function<Status()> work) {
    const std::lock_guard lock(device_mutex());
    queue_->items.push_back(std::move(work));
  }
  size_t point() const { return queue_->point(); }
  const std::shared_ptr<Queue>& queue() const { return queue_; }

  Result<std::unique_ptr<DeviceNotification>> create_notification() override;
  Status flush() override { return fault_point("fake flush"); }
  Status end_run() override {
    ++counts_->end_runs;
    return fault_point("fake end of the stream's run");
  }
  void* native_handle() const override { return nullptr; }

 private:
  std::shared_ptr<FakeCounts> counts_;
  std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
};

class FakeNotification final : public DeviceNotification {
 public:
  FakeNotification(FakeStream& stream, std::shared_ptr<FakeCounts> counts)
      : queue_(stream.queue()), counts_(std::move(counts)) {}

  Status activate() override {
    TENON_FAULT_POINT("fake notification");
    point_ = queue_->point();
    return {};
  }
  Status wait_on_device(DeviceStream& waiter) override {
    TENON_FAULT_POINT("fake wait on the device");
    ++counts_->waits_on_device;
    static_cast<FakeStream&>(waiter).enqueue([queue = queue_, point = point_] { return queue->run_until(point); });
    return {};
  }
  Status wait_on_host() override {
    ++counts_->waits_on_host;
    TENON_TRY(queue_->run_until(point_));
    return fault_point("fake wait on the host");
  }

 private:
  const std::shared_ptr<FakeStream::Queue> queue_;
  std::shared_ptr<FakeCounts> counts_;
  size_t point_ = 0;
};

Result<std::unique_ptr<DeviceNotification>> FakeStream::create_notification() {
  TENON_FAULT_POINT("fake create notification");
  return std::unique_ptr<DeviceNotification>(std::make_unique<FakeNotification>(*this, counts_));
}

class FakeAllocator final : public DeviceAllocator {
 public:
  FakeAllocator(MemorySpace space, std::shared_ptr<FakeCounts> counts, bool handles = false)
      : space_(space), handles_(handles), counts_(std::move(counts)) {}
  const MemorySpace& space() const override { return space_; }
  bool gives_handles() const override { return handles_; }
  Result<std::shared_ptr<void>> allocate(size_t size_bytes, DeviceStream*) override {
    TENON_FAULT_POINT("fake allocate");
    if (handles_) return DeviceMemory::instance().allocate_handle(size_bytes, counts_);
    if (!host_can_address(space_)) return DeviceMemory::instance().allocate(size_bytes, counts_);
    void* block = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return resource_exhausted("mmap failed.");
    std::memset(block, kFresh, size_bytes);
    ++counts_->blocks;
    return std::shared_ptr<void>(block, [size_bytes, counts = counts_](void* memory) {
      ::munmap(memory, size_bytes);
      --counts->blocks;
    });
  }

 private:
  MemorySpace space_;
  const bool handles_;
  std::shared_ptr<FakeCounts> counts_;
};

class FakeTransfer final : public DataTransfer {
 public:
  FakeTransfer(MemorySpace space, bool stages, std::shared_ptr<FakeCounts> counts)
      : space_(space), stages_(stages), counts_(std::move(counts)) {}
  bool can_copy(const MemorySpace& src, const MemorySpace& dst) const override {
    const auto mine = [this](const MemorySpace& space) { return same_memory(space, space_); };
    return (mine(src) && mine(dst)) || (mine(src) && host_can_address(dst)) || (host_can_address(src) && mine(dst));
  }
  Status copy(const Tensor& dst, const Tensor& src, DeviceStream* stream) override {
    TENON_FAULT_POINT("fake copy");
    ++counts_->copies;
    auto work = [to = dst.data(), from = src.data(), bytes = src.size_bytes()]() -> Status {
      TENON_FAULT_POINT("fake copy on the device");
      std::memmove(opened(to), opened(from), bytes);
      return {};
    };
    if (stream == nullptr) return work();
    if (stages_ && host_can_address(src.space())) {
      std::vector<std::byte> bytes(src.data_as<std::byte>(), src.data_as<std::byte>() + src.size_bytes());
      static_cast<FakeStream*>(stream)->enqueue([to = dst.data(), bytes = std::move(bytes)]() -> Status {
        std::memcpy(opened(to), bytes.data(), bytes.size());
        return {};
      });
      return {};
    }
    static_cast<FakeStream*>(stream)->enqueue(std::move(work));
    return {};
  }

 private:
  MemorySpace space_;
  bool stages_;
  std::shared_ptr<FakeCounts> counts_;
};

// Runs a body of float nodes (and NonZero alone), one after the other.
class FakeKernel final : public Kernel {
 public:
  FakeKernel(Graph body, const KernelNode& node, const FakeOptions& options, std::shared_ptr<FakeCounts> counts)
      : body_(std::move(body)),
        in_place_(options.in_place),
        alignment_(std::max(options.binding_alignment, 1U)),
        counts_(std::move(counts)) {
    for (const TensorSpec& spec : node.inputs) inputs_.push_back(spec);
    for (const TensorSpec& spec : node.outputs) outputs_.push_back(spec);
  }
  std::string_view name() const override { return "fake kernel"; }
  bool may_run_in_place(size_t, size_t) const override { return in_place_; }

  Status run(KernelContext& context) const override {
    TENON_FAULT_POINT("fake kernel");
    auto* stream = static_cast<FakeStream*>(context.stream);
    std::vector<const void*> inputs(context.inputs.begin(), context.inputs.end());
    std::vector<void*> outputs(context.outputs.begin(), context.outputs.end());
    const auto count = [this](const void* at) {
      counts_->misaligned += reinterpret_cast<uintptr_t>(at) % alignment_ == 0 ? 0 : 1;
    };
    std::for_each(inputs.begin(), inputs.end(), count);
    std::for_each(outputs.begin(), outputs.end(), count);
    if (body_.nodes[NodeId(0)].op_type == "NonZero") {
      // The size follows from the data: everything before has to be done.
      if (stream != nullptr) TENON_TRY(stream->queue()->run_until(stream->point()));
      TENON_TRY_ASSIGN(outputs[0], context.allocate_output(0, {1, count_nonzero(inputs[0])}));
    }
    auto work = [this, inputs, outputs]() -> Status {
      TENON_FAULT_POINT("fake kernel on the device");
      compute(inputs, outputs);
      return {};
    };
    if (stream == nullptr) return work();
    stream->enqueue(std::move(work));
    return {};
  }

 private:
  int64_t count_nonzero(const void* input) const {
    const auto* x = static_cast<const float*>(opened(input));
    return inputs_[0].shape.element_count() - std::count(x, x + inputs_[0].shape.element_count(), 0.0f);
  }

  void compute(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) const {
    std::map<ValueId, std::vector<float>> values;
    for (ValueId id : body_.values.ids()) {
      const ConstantRef& constant = body_.value(id).constant;
      if (constant && constant->type == DataType::kFloat) {
        const auto data = constant->as<float>();
        values[id].assign(data.begin(), data.end());
      }
    }
    for (size_t i = 0; i < body_.inputs.size(); ++i) {
      if (inputs_[i].type != DataType::kFloat) continue;
      const auto* x = static_cast<const float*>(opened(inputs[i]));
      values[body_.inputs[i]].assign(x, x + inputs_[i].shape.element_count());
    }
    if (body_.nodes[NodeId(0)].op_type == "NonZero") {
      auto* y = static_cast<int64_t*>(opened(outputs[0]));
      const std::vector<float>& x = values[body_.inputs[0]];
      for (size_t i = 0; i < x.size(); ++i) {
        if (x[i] != 0) *y++ = static_cast<int64_t>(i);
      }
      return;
    }
    for (const Node& node : body_.nodes) values[node.outputs[0]] = result_of(node, values);
    for (size_t o = 0; o < body_.outputs.size(); ++o) {
      const std::vector<float>& y = values[body_.outputs[o]];
      if (!y.empty()) std::memcpy(opened(outputs[o]), y.data(), y.size() * sizeof(float));
    }
  }

  static std::vector<float> result_of(const Node& node, std::map<ValueId, std::vector<float>>& values) {
    std::vector<float> y = values[node.inputs[0]];
    const std::vector<float> other =
        node.inputs.size() > 1 && node.inputs[1] != kNoValue ? values[node.inputs[1]] : std::vector<float>();
    for (size_t i = 0; i < y.size(); ++i) {
      if (node.op_type == "Neg") y[i] = -y[i];
      if (node.op_type == "Abs") y[i] = std::fabs(y[i]);
      if (node.op_type == "Add") y[i] += other[i % other.size()];
      if (node.op_type == "Mul") y[i] *= other[i % other.size()];
    }
    return y;
  }

  Graph body_;
  const bool in_place_;
  const uint32_t alignment_;
  const std::shared_ptr<FakeCounts> counts_;
  std::vector<TensorSpec> inputs_, outputs_;
};

// One graph, which every run makes or uses.
class FakeGraphs final : public GraphCapture {
 public:
  FakeGraphs(int capture_after, std::shared_ptr<FakeCounts> counts)
      : capture_after_(capture_after), counts_(std::move(counts)) {}
  bool needs_whole_model() const override { return false; }
  int32_t graph_of(const RunInfo&) const override { return 0; }
  Result<bool> is_captured(int32_t) const override { return counts_->run_ends >= capture_after_; }
  Status replay(int32_t) override { return {}; }
  Status release(int32_t) override { return unsupported("The graph stays."); }

 private:
  const int capture_after_;
  const std::shared_ptr<FakeCounts> counts_;
};

class FakeProvider final : public DeviceProvider {
 public:
  FakeProvider(FakeOptions options, std::shared_ptr<FakeCounts> counts,
               std::vector<std::shared_ptr<DeviceAllocator>> allocators, std::shared_ptr<FakeTransfer> transfer)
      : options_(std::move(options)),
        counts_(std::move(counts)),
        allocators_(std::move(allocators)),
        transfer_(std::move(transfer)),
        graphs_(options_.capture_after, counts_) {}

  std::string_view name() const override { return options_.name; }
  uint32_t binding_alignment() const override { return options_.binding_alignment; }

  Result<std::vector<Claim>> claim(const Graph& graph, IdSpan<NodeId, const bool> taken) override {
    TENON_FAULT_POINT("fake claim");
    if (options_.claim) return options_.claim(graph, taken);
    std::vector<Claim> claims;
    bool open = false;  // the next neighbour joins the last claim
    for (NodeId n : graph.nodes.ids()) {
      const bool mine = !taken[n] && std::find(options_.ops.begin(), options_.ops.end(), graph.nodes[n].op_type) !=
                                         options_.ops.end();
      if (mine && open) claims.back().nodes.push_back(n);
      if (mine && !open) {
        claims.push_back({.nodes = {n}, .fused = options_.fuse, .drop_constants = options_.drop_constants});
      }
      open = mine && options_.fuse;
    }
    return claims;
  }
  Status compile(std::span<const Region> regions) override {
    TENON_FAULT_POINT("fake compile");
    ++counts_->compiled;
    counts_->regions += static_cast<int>(regions.size());
    refused_.clear();
    for (const Region& region : regions) {
      bodies_[region.id] = region.body;
      for (const Node& node : region.body.nodes) {
        if (std::find(options_.refuse.begin(), options_.refuse.end(), node.op_type) == options_.refuse.end()) continue;
        refused_.push_back({.id = region.id, .why = unsupported("The fake device has no {}.", node.op_type)});
        break;
      }
    }
    return {};
  }
  std::span<const RefusedRegion> refused_regions() const override { return refused_; }
  Status loaded() override {
    ++counts_->loaded;
    return fault_point("fake loaded");
  }
  std::span<const std::shared_ptr<DeviceAllocator>> allocators() const override { return allocators_; }
  DataTransfer* transfer() const override { return transfer_.get(); }
  SpaceChoice choose_spaces(const KernelNode& node) const override {
    const auto last = static_cast<int32_t>(allocators_.size()) - 1;  // none: -1
    return {std::vector<AllocatorId>(node.inputs.size(), AllocatorId(last)),
            std::vector<AllocatorId>(node.outputs.size(), AllocatorId(last))};
  }
  Result<std::unique_ptr<Kernel>> create_kernel(const KernelNode& node) const override {
    TENON_FAULT_POINT("fake create kernel");
    ++counts_->kernels;
    const auto region = static_cast<int32_t>(node.node->find("region")->i);
    return std::unique_ptr<Kernel>(std::make_unique<FakeKernel>(bodies_.at(region), node, options_, counts_));
  }
  Result<std::unique_ptr<DeviceStream>> create_stream() override {
    TENON_FAULT_POINT("fake create stream");
    if (!options_.streams) return std::unique_ptr<DeviceStream>();
    return std::unique_ptr<DeviceStream>(std::make_unique<FakeStream>(counts_));
  }
  bool can_use_stream(const DeviceStream& stream) const override {
    return dynamic_cast<const FakeStream*>(&stream) != nullptr;
  }
  bool concurrent_runs() const override { return options_.concurrent; }
  GraphCapture* graph_capture() override { return options_.capture_after > 0 ? &graphs_ : nullptr; }
  bool takes_fence(const Fence& fence) const override { return options_.takes_fence && options_.takes_fence(fence); }
  Status run_start(const RunInfo& info) override {
    TENON_FAULT_POINT("fake run start");
    for (const Fence& fence : info.waits) TENON_TRY(fence.wait());
    counts_->waits_taken += static_cast<int>(info.waits.size());
    counts_->signals_taken += static_cast<int>(info.signals.size());
    ++counts_->run_starts;
    const int running = ++counts_->running;
    int most = counts_->most_running;
    while (running > most && !counts_->most_running.compare_exchange_weak(most, running)) {
    }
    return {};
  }
  Status run_end(const RunInfo& info, bool) override {
    for (const Fence& fence : info.signals) TENON_TRY(fence.signal());
    ++counts_->run_ends;
    --counts_->running;
    return fault_point("fake run end");
  }

 private:
  FakeOptions options_;
  std::shared_ptr<FakeCounts> counts_;
  std::vector<std::shared_ptr<DeviceAllocator>> allocators_;
  std::shared_ptr<FakeTransfer> transfer_;
  FakeGraphs graphs_;
  std::map<int32_t, Graph> bodies_;
  std::vector<RefusedRegion> refused_;
};

MemorySpace space_of(const FakeOptions& options, MemoryKind kind) {
  return {.device_type = DeviceType::kGpu,
          .kind = kind,
          .vendor_id = kVendor,
          .device_id = options.device_id,
          .alignment = kind == MemoryKind::kDefault ? options.alignment : 0};
}

class FakeFactory final : public EpFactory {
 public:
  FakeFactory(FakeOptions options, std::shared_ptr<FakeCounts> counts)
      : options_(std::move(options)), counts_(std::move(counts)) {
    if (options_.device_memory) {
      const MemorySpace space = space_of(options_, MemoryKind::kDefault);
      allocators_.push_back(std::make_shared<FakeAllocator>(space, counts_, options_.handles));
      transfer_ = std::make_shared<FakeTransfer>(space, options_.stages_copies, counts_);
    }
    if (options_.host_accessible) {
      allocators_.push_back(std::make_shared<FakeAllocator>(space_of(options_, MemoryKind::kHostAccessible), counts_));
    }
    EpDevice& device = devices_.emplace_back();
    device.ep_name = options_.name;
    device.library = options_.name;
    device.hardware.type = DeviceType::kGpu;
    for (const auto& allocator : allocators_) device.memory.push_back(allocator->space());
  }
  const std::string& name() const override { return options_.name; }
  std::span<const EpDevice> devices() const override { return devices_; }
  Result<std::unique_ptr<DeviceProvider>> create_provider(const EpChoice&, std::span<const size_t>,
                                                          const SessionOptions&) override {
    TENON_FAULT_POINT("fake create provider");
    return std::unique_ptr<DeviceProvider>(std::make_unique<FakeProvider>(options_, counts_, allocators_, transfer_));
  }
  std::vector<std::shared_ptr<DeviceAllocator>> shared_allocators(size_t) override { return allocators_; }
  DataTransfer* transfer() override { return transfer_.get(); }

 private:
  FakeOptions options_;
  std::shared_ptr<FakeCounts> counts_;
  std::vector<std::shared_ptr<DeviceAllocator>> allocators_;
  std::shared_ptr<FakeTransfer> transfer_;
  std::vector<EpDevice> devices_;
};

}  // namespace

FakeDevice::FakeDevice(FakeOptions options) : options_(std::move(options)), counts_(std::make_shared<FakeCounts>()) {
  TENON_CHECK(EpRegistry::instance().add(options_.name, {std::make_shared<FakeFactory>(options_, counts_)}).ok());
}

FakeDevice::~FakeDevice() { TENON_CHECK(EpRegistry::instance().remove(options_.name).ok()); }

MemorySpace FakeDevice::space() const { return space_of(options_, MemoryKind::kDefault); }

MemorySpace FakeDevice::host_accessible_space() const { return space_of(options_, MemoryKind::kHostAccessible); }

SessionOptions FakeDevice::session_options() const { return {.threads = 1, .eps = {{.ep_name = options_.name}}}; }

std::unique_ptr<DeviceStream> FakeDevice::make_stream() const { return std::make_unique<FakeStream>(counts_); }

void enqueue(DeviceStream& stream, std::function<Status()> work) {
  static_cast<FakeStream&>(stream).enqueue(std::move(work));
}

size_t queued(const DeviceStream& stream) { return static_cast<const FakeStream&>(stream).point(); }

size_t done(const DeviceStream& stream) { return static_cast<const FakeStream&>(stream).queue()->done; }

Status work(DeviceStream& stream, size_t count) {
  const size_t left = queued(stream) - done(stream);
  return static_cast<FakeStream&>(stream).queue()->run_until(done(stream) + std::min(count, left));
}

Tensor on_host(const Tensor& tensor) {
  Tensor host = Tensor::allocate(tensor.type(), tensor.shape()).value();
  const Status copied = copy(host, tensor);
  TENON_CHECK(copied.ok());
  return host;
}

Tensor in_place(Session& session, const Tensor& tensor, const MemorySpace& space) {
  Tensor target = session.allocate(tensor.type(), tensor.shape(), space).value();
  const Status copied = copy(target, tensor);
  TENON_CHECK(copied.ok());
  return target;
}

}  // namespace tenon::api_testing
