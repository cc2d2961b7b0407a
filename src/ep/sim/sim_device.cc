#include "ep/sim/sim_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tenon::sim {

std::shared_ptr<SimDevice> SimDevice::create(int32_t number, size_t limit_bytes) {
  return std::shared_ptr<SimDevice>(new SimDevice(number, limit_bytes));
}

SimDevice::~SimDevice() {
  for (Pending& pending : *pending_.lock()) pending.release();
}

std::shared_ptr<SimStream> SimDevice::create_stream(std::string name) {
  std::shared_ptr<SimStream> stream = SimStream::create(std::move(name));
  auto streams = streams_.lock();
  std::erase_if(*streams, [](const auto& weak) { return weak.expired(); });
  streams->push_back(stream);
  return stream;
}

void SimDevice::run_everything() {
  std::vector<std::shared_ptr<SimStream>> live;
  {
    auto streams = streams_.lock();
    for (const auto& weak : *streams)
      if (auto stream = weak.lock()) live.push_back(std::move(stream));
  }
  // A failure is reported by its own stream's synchronize().
  for (const auto& stream : live) (void)stream->run_until(stream->queued());
  collect();
}

Result<void*> SimDevice::allocate(size_t size_bytes, SimMemory::Kind kind) {
  TENON_TRY(faults().hit(kind == SimMemory::Kind::kDefault ? SimStep::allocate : SimStep::allocate_host));
  collect();
  Result<void*> address = memory_.allocate(size_bytes, kind);
  if (address.ok() || address.status().code() != StatusCode::kResourceExhausted) return address;
  run_everything();  // frees that wait for streams
  return memory_.allocate(size_bytes, kind);
}

void SimDevice::free(void* address) {
  if (address == nullptr) return;
  release_later([this, address] { (void)memory_.release(address); });
}

void SimDevice::release_later(std::function<void()> release) {
  Pending pending{.release = std::move(release)};
  {
    auto streams = streams_.lock();
    for (const auto& weak : *streams) {
      const auto stream = weak.lock();
      if (stream == nullptr) continue;
      const uint64_t point = stream->queued();
      if (!stream->progress()->passed(point)) pending.points.emplace_back(stream->progress(), point);
    }
  }
  if (pending.points.empty()) return pending.release();
  pending_.lock()->push_back(std::move(pending));
}

void SimDevice::collect() {
  std::vector<Pending> ready;
  {
    auto pending = pending_.lock();
    const auto passed = std::stable_partition(pending->begin(), pending->end(), [](const Pending& entry) {
      return std::any_of(entry.points.begin(), entry.points.end(),
                         [](const auto& point) { return !point.first->passed(point.second); });
    });
    std::move(passed, pending->end(), std::back_inserter(ready));
    pending->erase(passed, pending->end());
  }
  for (Pending& entry : ready) entry.release();
}

Status SimDevice::copy(const Copy& copy, const std::shared_ptr<SimStream>& stream) {
  TENON_TRY(faults().hit(SimStep::copy));
  if (stream == nullptr) {
    run_everything();
    return copy_now(copy);
  }
  // The host may reuse its source as soon as this returns, so that is read now.
  if (!copy.src_on_device) {
    const auto* bytes = static_cast<const std::byte*>(copy.src);
    auto staged = std::make_shared<std::vector<std::byte>>(bytes, bytes + copy.size_bytes);
    stream->enqueue("copy to the device", [this, copy, staged] {
      Copy from_staging = copy;
      from_staging.src = staged->data();
      return copy_now(from_staging);
    });
    return Status();
  }
  // A host that reads its destination before it has waited for the stream finds poison there.
  if (!copy.dst_on_device) poison(copy.dst, copy.size_bytes);
  stream->enqueue(copy.dst_on_device ? "copy on the device" : "copy to the host",
                  [this, copy] { return copy_now(copy); });
  return Status();
}

Status SimDevice::copy_now(const Copy& copy) {
  const void* src = copy.src;
  void* dst = copy.dst;
  if (copy.src_on_device) {
    TENON_TRY_ASSIGN(src, memory_.resolve(copy.src, copy.size_bytes));
  }
  if (copy.dst_on_device) {
    TENON_TRY_ASSIGN(dst, memory_.resolve(copy.dst, copy.size_bytes));
  }
  std::memmove(dst, src, copy.size_bytes);
  ++counters().total_copies;
  counters().total_copied_bytes += static_cast<int64_t>(copy.size_bytes);
  return Status();
}

uint64_t SimDevice::next_scratch_use() {
  ++counters().total_scratch_takes;
  return ++scratch_uses_;
}

Status SimDevice::begin_scratch(void* block, size_t size_bytes, uint64_t use, const std::string& stream) {
  {
    auto scratch = scratch_.lock();
    const auto [entry, added] = scratch->try_emplace(block, ScratchUse{use, stream});
    if (!added) {
      ++counters().total_order_violations;
      Status status = internal_error(
          "Scratch block {} is handed to stream \"{}\" (use {}) while stream \"{}\" still uses it (use {}).", block,
          stream, use, entry->second.stream, entry->second.use);
      // The block changes hands all the same, as on a real device: its first user computes with poison.
      entry->second = {use, stream};
      TENON_TRY_ASSIGN(std::byte * bytes, memory_.resolve(block, size_bytes));
      poison(bytes, size_bytes);
      return status;
    }
  }
  TENON_TRY_ASSIGN(std::byte * bytes, memory_.resolve(block, size_bytes));
  poison(bytes, size_bytes);
  return Status();
}

Status SimDevice::check_scratch(void* block, uint64_t use) {
  auto scratch = scratch_.lock();
  const auto entry = scratch->find(block);
  if (entry != scratch->end() && entry->second.use == use) return Status();
  ++counters().total_order_violations;
  return internal_error("Scratch block {} of use {} now belongs to {}.", block, use,
                        entry == scratch->end() ? "nobody" : format("use {}", entry->second.use));
}

Status SimDevice::end_scratch(void* block, size_t size_bytes, uint64_t use) {
  TENON_TRY(check_scratch(block, use));
  scratch_.lock()->erase(block);
  TENON_TRY_ASSIGN(std::byte * bytes, memory_.resolve(block, size_bytes));
  poison(bytes, size_bytes);
  return Status();
}

namespace {

class DeviceScratch final : public plugin::ScratchSource {
 public:
  explicit DeviceScratch(std::shared_ptr<SimDevice> device) : device_(std::move(device)) {}
  Result<void*> allocate(size_t size_bytes) override {
    return device_->allocate(size_bytes, SimMemory::Kind::kDefault);
  }
  void free(void* memory) override { device_->free(memory); }

 private:
  const std::shared_ptr<SimDevice> device_;
};

}  // namespace

std::shared_ptr<plugin::ScratchSource> SimDevice::scratch_source() {
  return std::make_shared<DeviceScratch>(shared_from_this());
}

}  // namespace tenon::sim
