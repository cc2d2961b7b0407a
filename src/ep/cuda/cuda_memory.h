// The memory of one device of this process, shared by its sessions: a stream-ordered pool of the driver, pinned host
// memory, and the streams that may use them.
//
// Ownership: what was allocated goes back with free(), also while queued work still uses it: it is handed out again
// only after that. The pool's memory goes back to the driver when the last user of the device is gone. Threads: every
// function from any thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "ep/cuda/cuda_stream.h"
#include "ep/cuda/exit_guard.h"

namespace tenon::cuda {

class CudaMemory {
 public:
  // The memory of a device that is open already, or a new one: one for each device of the process.
  static Result<std::shared_ptr<CudaMemory>> of(const CudaDriver& driver, int ordinal);
  // Opens the device in a context inside a graphics API's; of() finds it there while it lives.
  // Errors: kInvalidArgument when the device is open already.
  static Result<std::shared_ptr<CudaMemory>> in_graphics(const CudaDriver& driver, int ordinal,
                                                         const CUctxCigParam& graphics);
  ~CudaMemory();
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  const std::shared_ptr<CudaDevice>& device() const { return device_; }
  StreamList& streams() { return streams_; }
  // For copies that nobody gave a stream, and for work of a call without one.
  const std::shared_ptr<CudaStream>& service_stream() const { return service_; }

  // Memory that work on `stream` may use at once; null: any stream may. Aligned to 256 bytes at least. 0 bytes give the
  // smallest block. Errors: kResourceExhausted with what is free.
  Result<void*> allocate(size_t size_bytes, const std::shared_ptr<CudaStream>& stream);
  void free(void* memory);
  // Page-locked host memory that the device addresses too.
  Result<void*> allocate_pinned(size_t size_bytes);
  void free_pinned(void* memory);

  // Queues a wait for another API's timeline: `wait` is the driver's call. All of them come by here, because some of
  // the driver's releases hold its locks until no queued work is left, and whoever is to signal would wait for those
  // locks.
  struct Awaited {
    std::shared_ptr<const std::string> timeline;  // its name for messages
    uint64_t value = 0;
  };
  Status queue_wait(const CudaStream& stream, Awaited awaited, const std::function<Status()>& wait);
  // Returns when no stream waits for another API. What loads code comes behind it: the driver loads it only when
  // nothing waits, and until then keeps the thread, and its locks. Errors: kTimeout after the deadline, naming what
  // is waited for; nobody has hung by then. Frames that follow each other without a gap are held back for moments.
  Status until_nobody_waits(const Deadline& deadline) const;
  // Releases something of the driver's as soon as every stream has passed what is queued now and none waits for another
  // API: at once where that is so, else with a later call. `release` runs with the device's context current, and under
  // a lock of this class: it calls functions of the program by call_program() (program_calls.h).
  void when_unused(std::function<void(const CudaDriver&)> release);
  // Lets go of `what` when no stream waits for another API: at once where that is so, else with a later call. For what
  // is done on its streams, but whose release the driver would hold up: kernels' modules, the libraries' handles.
  void release_when_nobody_waits(std::shared_ptr<void> what);
  // Releases what has become unused by now.
  void collect();

  struct Stats {
    int64_t allocations = 0;
    int64_t live = 0;
    int64_t live_bytes = 0;
  };
  Stats stats() const;
  Stats pinned_stats() const;

 private:
  explicit CudaMemory(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {}
  static Result<std::shared_ptr<CudaMemory>> open_new(const CudaDriver& driver, int ordinal,
                                                      const CUctxCigParam* graphics);
  Status open();
  Status try_allocate(size_t size_bytes, CUstream stream, CUdeviceptr* out);
  // Returns when all streams are idle, at once when one waits for another API, and after a while in any case.
  void wait_for_queued_work() const;
  // Runs those whose time has come; the others stay in `unused_`.
  void release_ready();
  Status queue_free(CUdeviceptr memory, const std::shared_ptr<CudaStream>& stream);

  struct Block {
    size_t size_bytes = 0;
    std::shared_ptr<CudaStream> stream;
  };
  struct Blocks {
    std::unordered_map<void*, Block> live;
    Stats stats;
  };
  struct Unused {
    std::shared_ptr<plugin::StreamProgress> point;  // null: none
    std::function<void(const CudaDriver&)> release;
  };
  struct Pinned {
    std::unordered_map<void*, plugin::ScratchPool::Block> live;
    Stats stats;
  };

  const std::shared_ptr<CudaDevice> device_;
  StreamList streams_;
  std::shared_ptr<CudaStream> service_;
  std::shared_ptr<CudaStream> allocation_;  // waits for nothing, so that an allocation never waits for a computation
  std::shared_ptr<CudaStream> frees_;       // waits for whoever may use what is freed there, and does nothing else
  CUmemoryPool pool_ = nullptr;
  Guarded<Blocks> blocks_;
  std::unique_ptr<plugin::ScratchPool> pinned_pool_;
  Guarded<Pinned> pinned_;
  Guarded<std::vector<Unused>> unused_;
  // Streams with waits for other APIs that may not have been reached. A frame costs no event: points are marked only
  // when something is to be released. The list is locked while a wait is queued, and while something is released.
  struct Waiting {
    std::shared_ptr<const CudaStream> stream;
    std::optional<uint64_t> behind;  // a point after its last wait
    Awaited awaited;                 // by that
  };
  struct Abandoned;
  struct Waits final : Waiters {
    Guarded<std::vector<Waiting>> list;
    std::string who_waits() const override;
  };
  static bool passed(Waiting& waiting);
  const std::shared_ptr<Waits> waits_ = std::make_shared<Waits>();
  mutable std::atomic<int64_t> hold_until_ns_ = 0;  // waits are not queued before
};

}  // namespace tenon::cuda
