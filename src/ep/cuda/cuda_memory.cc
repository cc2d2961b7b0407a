#include "ep/cuda/cuda_memory.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "ep/cuda/program_calls.h"

namespace tenon::cuda {

namespace {

// Free pinned memory that is kept: page-locking costs 100 us and more a block.
constexpr size_t kKeptPinnedBytes = size_t{256} << 20;
constexpr size_t kSmallestBlock = 256;

// This thread releases something, under the lock of waits_: what that releases in its turn comes later.
thread_local bool releasing = false;

// A point of every stream that is alive when it is made: memory that anyone may use is free when all have passed
// theirs.
class AllStreamsPoint final : public plugin::StreamProgress {
 public:
  explicit AllStreamsPoint(StreamList& streams) : streams_(streams) {}
  uint64_t queued() const override {
    auto points = points_.lock();
    for (auto& stream : streams_.all()) {
      if (stream->idle()) continue;
      const uint64_t point = stream->queued();
      points->emplace_back(std::move(stream), point);
    }
    return 1;
  }
  bool passed(uint64_t) const override {
    auto points = points_.lock();
    std::erase_if(*points, [](const auto& point) { return point.first->passed(point.second); });
    return points->empty();
  }

 private:
  StreamList& streams_;
  mutable Guarded<std::vector<std::pair<std::shared_ptr<CudaStream>, uint64_t>>> points_;
};

class PinnedSource final : public plugin::ScratchSource {
 public:
  using Release = std::function<void(void* memory)>;
  PinnedSource(std::shared_ptr<CudaDevice> device, Release release)
      : device_(std::move(device)), release_(std::move(release)) {}
  Result<void*> allocate(size_t size_bytes) override {
    TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*device_));
    void* memory = nullptr;
    TENON_CUDA_TRY(device_->driver(), MemHostAlloc, &memory, size_bytes,
                   CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    return memory;
  }
  void free(void* memory) override { release_(memory); }

 private:
  const std::shared_ptr<CudaDevice> device_;
  const Release release_;
};

// The device of this process, if it is open: locked while it is opened, which takes a fraction of a second.
using OpenDevice = Guarded<std::weak_ptr<CudaMemory>>;
OpenDevice& open_device(const CudaDriver& driver, int ordinal) {
  static Guarded<std::map<std::pair<const CudaDriver*, int>, OpenDevice>> all;
  return (*all.lock())[{&driver, ordinal}];  // which stays where it is
}

}  // namespace

Result<std::shared_ptr<CudaMemory>> CudaMemory::of(const CudaDriver& driver, int ordinal) {
  auto known = open_device(driver, ordinal).lock();
  if (auto memory = known->lock()) return memory;
  TENON_TRY_ASSIGN(auto memory, open_new(driver, ordinal, nullptr));
  *known = memory;
  return memory;
}

Result<std::shared_ptr<CudaMemory>> CudaMemory::in_graphics(const CudaDriver& driver, int ordinal,
                                                            const CUctxCigParam& graphics) {
  auto known = open_device(driver, ordinal).lock();
  TENON_INVALID_IF(
      !known->expired(),
      "CUDA device {} is in use already, in a context of its own; graphics interop begins before the first "
      "session, stream, importer and allocation on it.",
      ordinal);
  TENON_TRY_ASSIGN(auto memory, open_new(driver, ordinal, &graphics));
  *known = memory;
  return memory;
}

Result<std::shared_ptr<CudaMemory>> CudaMemory::open_new(const CudaDriver& driver, int ordinal,
                                                         const CUctxCigParam* graphics) {
  TENON_TRY_ASSIGN(auto device, CudaDevice::open(driver, ordinal, graphics));
  std::shared_ptr<CudaMemory> memory(new CudaMemory(std::move(device)));
  TENON_TRY(memory->open());
  ask_at_exit(memory->waits_);
  return memory;
}

Status CudaMemory::open() {
  TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*device_));
  const CudaDriver& driver = device_->driver();
  TENON_UNSUPPORTED_IF(device_->attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) == 0,
                       "CUDA device {} has no memory pools.", device_->ordinal());
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device_->ordinal()};
  TENON_CUDA_TRY(driver, MemPoolCreate, &pool_, &properties);
  // Memory stays with the pool between runs; the driver takes it back when another allocation needs it.
  cuuint64_t keep = UINT64_MAX;
  TENON_CUDA_TRY(driver, MemPoolSetAttribute, pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
  TENON_TRY_ASSIGN(service_, CudaStream::create(device_));
  TENON_TRY_ASSIGN(allocation_, CudaStream::create(device_));
  TENON_TRY_ASSIGN(frees_, CudaStream::create(device_));
  streams_.add(service_);
  const auto release = [this](void* memory) {
    when_unused([memory](const CudaDriver& driver) { (void)driver.MemFreeHost(memory); });
  };
  pinned_pool_ =
      std::make_unique<plugin::ScratchPool>(std::make_shared<PinnedSource>(device_, release), kKeptPinnedBytes);
  return Status();
}

void CudaMemory::wait_for_queued_work() const {
  {
    auto waits = waits_->list.lock();
    std::erase_if(*waits, passed);
    if (!waits->empty()) return;  // for another API, which may never signal
  }
  // Other queued work ends by itself: frees and the last kernels of a session take microseconds.
  constexpr auto kLongest = std::chrono::milliseconds(200);
  const auto end = std::chrono::steady_clock::now() + kLongest;
  while (!streams_.idle() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

// The device and the memory of work that waits for ever and may still use them.
struct CudaMemory::Abandoned {
  std::shared_ptr<CudaDevice> device;
  std::vector<Unused> unused;
  std::unique_ptr<plugin::ScratchPool> pinned_pool;
  std::shared_ptr<Waits> waits;  // `exit` asks them

  // Never destroyed.
  static Guarded<std::vector<Abandoned>>& list() {
    static auto* const all = new Guarded<std::vector<Abandoned>>;
    return *all;
  }
};

CudaMemory::~CudaMemory() {
  wait_for_queued_work();
  if (!streams_.idle()) {
    // Some work waits for what may never come. Waiting for it would hang the program's end, and whatever it uses must
    // stay: the driver clears up when the process is gone.
    Abandoned::list().lock()->push_back({device_, std::move(*unused_.lock()), std::move(pinned_pool_), waits_});
    return;
  }
  const auto scope = ContextScope::enter(*device_);
  if (!scope.ok()) return;
  pinned_pool_ = nullptr;
  // One may add another.
  for (;;) {
    const std::vector<Unused> last = std::exchange(*unused_.lock(), {});
    if (last.empty()) break;
    for (const Unused& unused : last) unused.release(device_->driver());
  }
  if (pool_ != nullptr) (void)device_->driver().MemPoolDestroy(pool_);
}

Status CudaMemory::try_allocate(size_t size_bytes, CUstream stream, CUdeviceptr* out) {
  TENON_CUDA_TRY(device_->driver(), MemAllocFromPoolAsync, out, size_bytes, pool_, stream);
  return Status();
}

Result<void*> CudaMemory::allocate(size_t size_bytes, const std::shared_ptr<CudaStream>& stream) {
  size_bytes = std::max(size_bytes, kSmallestBlock);
  TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*device_));
  const CudaDriver& driver = device_->driver();
  const CUstream native = stream != nullptr ? stream->native() : allocation_->native();
  CUdeviceptr address = 0;
  Status allocated = try_allocate(size_bytes, native, &address);
  if (allocated.code() == StatusCode::kResourceExhausted) {
    // Memory that was freed on other streams comes back when they have passed the free.
    (void)driver.CtxSynchronize();
    (void)driver.MemPoolTrimTo(pool_, 0);
    allocated = try_allocate(size_bytes, native, &address);
  }
  if (!allocated.ok()) {
    size_t free_bytes = 0, total_bytes = 0;
    (void)driver.MemGetInfo(&free_bytes, &total_bytes);
    return std::move(allocated).with_context(
        format("while allocating {} bytes on CUDA device {}, where {} of {} bytes are free", size_bytes,
               device_->ordinal(), free_bytes, total_bytes));
  }
  void* const memory = reinterpret_cast<void*>(static_cast<uintptr_t>(address));
  if (stream == nullptr) {
    if (Status done = allocation_->synchronize(); !done.ok()) {
      (void)driver.MemFreeAsync(address, native);
      return done;
    }
  }
  auto blocks = blocks_.lock();
  blocks->live[memory] = {size_bytes, stream};
  ++blocks->stats.allocations;
  ++blocks->stats.live;
  blocks->stats.live_bytes += static_cast<int64_t>(size_bytes);
  return memory;
}

Status CudaMemory::queue_free(CUdeviceptr memory, const std::shared_ptr<CudaStream>& stream) {
  TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*device_));
  // Whoever is idle has no use of it left.
  auto busy = streams_.all();
  std::erase_if(busy, [&](const auto& other) { return other == stream || other->idle(); });
  if (stream == nullptr || stream->given_back() || !busy.empty()) {
    if (stream != nullptr) TENON_TRY(frees_->wait_for(*stream));
    for (const auto& other : busy) TENON_TRY(frees_->wait_for(*other));
    TENON_CUDA_TRY(device_->driver(), MemFreeAsync, memory, frees_->native());
  } else {
    return stream->queue([&](CUstream native) -> Status {
      TENON_CUDA_TRY(device_->driver(), MemFreeAsync, memory, native);
      return Status();
    });
  }
  return Status();
}

void CudaMemory::free(void* memory) {
  if (memory == nullptr) return;
  std::shared_ptr<CudaStream> stream;
  {
    auto blocks = blocks_.lock();
    const auto found = blocks->live.find(memory);
    if (found == blocks->live.end()) return;
    stream = std::move(found->second.stream);
    --blocks->stats.live;
    blocks->stats.live_bytes -= static_cast<int64_t>(found->second.size_bytes);
    blocks->live.erase(found);
  }
  const auto address = static_cast<CUdeviceptr>(reinterpret_cast<uintptr_t>(memory));
  if (queue_free(address, stream).ok()) return;
  // There was no event to order the free by, or the context is lost: then with all of its memory.
  when_unused(
      [address, frees = frees_](const CudaDriver& driver) { (void)driver.MemFreeAsync(address, frees->native()); });
}

Result<void*> CudaMemory::allocate_pinned(size_t size_bytes) {
  TENON_TRY_ASSIGN(auto block, pinned_pool_->take(std::max(size_bytes, kSmallestBlock),
                                                  std::make_shared<AllStreamsPoint>(streams_)));
  void* const memory = block.data();
  auto pinned = pinned_.lock();
  ++pinned->stats.allocations;
  ++pinned->stats.live;
  pinned->stats.live_bytes += static_cast<int64_t>(block.size_bytes());
  pinned->live.emplace(memory, std::move(block));
  return memory;
}

void CudaMemory::free_pinned(void* memory) {
  plugin::ScratchPool::Block block;
  {
    auto pinned = pinned_.lock();
    const auto found = pinned->live.find(memory);
    if (found == pinned->live.end()) return;
    block = std::move(found->second);
    --pinned->stats.live;
    pinned->stats.live_bytes -= static_cast<int64_t>(block.size_bytes());
    pinned->live.erase(found);
  }
  block.reset();
}

Status CudaMemory::queue_wait(const CudaStream& stream, Awaited awaited, const std::function<Status()>& wait) {
  while (hold_until_ns_ != 0 && monotonic_ns() < hold_until_ns_)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  guard_exit();
  auto waits = waits_->list.lock();
  TENON_TRY(wait());
  const auto known =
      std::find_if(waits->begin(), waits->end(), [&](const Waiting& one) { return one.stream.get() == &stream; });
  if (known != waits->end()) {
    known->behind.reset();
    known->awaited = std::move(awaited);
    return Status();
  }
  // Another stream comes: those that only this list holds may go.
  std::erase_if(*waits, [](const Waiting& one) { return one.stream.use_count() == 1 && one.stream->idle(); });
  waits->push_back({.stream = stream.shared_from_this(), .behind = {}, .awaited = std::move(awaited)});
  return Status();
}

Status CudaMemory::until_nobody_waits(const Deadline& deadline) const {
  constexpr auto kLongestNap = std::chrono::microseconds(1000);
  auto nap = std::chrono::microseconds(50);
  // Whoever queues the next frame's wait before this frame is reached leaves no gap. So new waits are held back for
  // moments, which grow until what is queued fits into one; between them all goes on, because the thread that is held
  // may be the one that is to signal.
  constexpr int64_t kBetweenNs = 100'000'000, kLongestHoldNs = 200'000'000;
  int64_t hold_ns = 20'000'000, next_hold_ns = monotonic_ns() + kBetweenNs;
  for (;;) {
    Awaited awaited;
    {
      auto waits = waits_->list.lock();
      std::erase_if(*waits, passed);
      if (waits->empty()) {
        hold_until_ns_ = 0;
        return Status();
      }
      awaited = waits->front().awaited;
    }
    if (const int64_t now = monotonic_ns(); now >= next_hold_ns) {
      hold_until_ns_ = now + hold_ns;
      next_hold_ns = now + hold_ns + kBetweenNs;
      hold_ns = std::min(2 * hold_ns, kLongestHoldNs);
    }
    if (deadline.passed()) {
      hold_until_ns_ = 0;
      return timed_out(
          "A stream of CUDA device {} waits for value {} of the {}, which nobody has signalled, and the driver loads "
          "code only when none waits.",
          device_->ordinal(), awaited.value, *awaited.timeline);
    }
    std::this_thread::sleep_for(nap);
    nap = std::min(2 * nap, kLongestNap);
  }
}

std::string CudaMemory::Waits::who_waits() const {
  auto waits = list.lock();
  std::erase_if(*waits, passed);
  if (waits->empty()) return "";
  const Waiting& first = waits->front();
  return format("A stream of CUDA device {} waits for value {} of the {}, which nobody has signalled.",
                first.stream->device()->ordinal(), first.awaited.value, *first.awaited.timeline);
}

bool CudaMemory::passed(Waiting& waiting) {
  if (waiting.stream->idle()) return true;
  if (waiting.behind) return waiting.stream->passed(*waiting.behind);
  waiting.behind = waiting.stream->queued();
  return false;
}

void CudaMemory::when_unused(std::function<void(const CudaDriver&)> release) {
  auto point = std::make_shared<AllStreamsPoint>(streams_);
  (void)point->queued();
  unused_.lock()->push_back({std::move(point), std::move(release)});
  release_ready();
}

void CudaMemory::release_when_nobody_waits(std::shared_ptr<void> what) {
  unused_.lock()->push_back({nullptr, [what = std::move(what)](const CudaDriver&) mutable { what = nullptr; }});
  release_ready();
}

void CudaMemory::collect() {
  if (!unused_.lock()->empty()) release_ready();
}

void CudaMemory::release_ready() {
  if (releasing) return;
  const LaterProgramCalls later;
  auto waits = waits_->list.lock();
  std::erase_if(*waits, [](Waiting& waiting) { return passed(waiting); });
  if (!waits->empty()) return;
  // Until there is no more: one may let go of the last holder of another.
  for (;;) {
    std::vector<Unused> ready;
    {
      auto unused = unused_.lock();
      for (size_t i = 0; i < unused->size();) {
        if ((*unused)[i].point != nullptr && !(*unused)[i].point->passed(1)) {
          ++i;
          continue;
        }
        ready.push_back(std::move((*unused)[i]));
        unused->erase(unused->begin() + static_cast<ptrdiff_t>(i));
      }
    }
    if (ready.empty()) return;
    releasing = true;
    if (const auto scope = ContextScope::enter(*device_); scope.ok())
      for (const Unused& unused : ready) unused.release(device_->driver());
    ready.clear();
    releasing = false;
  }
}

CudaMemory::Stats CudaMemory::stats() const { return blocks_.lock()->stats; }
CudaMemory::Stats CudaMemory::pinned_stats() const { return pinned_.lock()->stats; }

}  // namespace tenon::cuda
