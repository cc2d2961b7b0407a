// The device memory of one session: of the device's pool, or of the program's own allocator (S4.3), within the
// session's limit.
//
// Ownership: every block goes back exactly once. To the program's allocator, which knows nothing of the session's
// stream, only after the stream has passed the point of the free.
// Lifetime: tensors that outlive the session hold it.
// Threads: every function from any thread; the program's functions are called from those threads.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "ep/cuda/cuda_memory.h"
#include "ep/cuda/cuda_options.h"

namespace tenon::cuda {

class SessionMemory final : public plugin::ScratchSource {
 public:
  // `stream`: the one that all of the session's work runs on; not null when there is an external allocator.
  SessionMemory(std::shared_ptr<CudaMemory> memory, const CudaOptions& options, std::shared_ptr<CudaStream> stream)
      : memory_(std::move(memory)),
        external_(options.external_allocator),
        limit_bytes_(options.memory_limit_bytes),
        stream_(std::move(stream)) {}
  ~SessionMemory() override;

  Result<void*> allocate(size_t size_bytes) override { return allocate(size_bytes, nullptr); }
  // For work on `stream`; null: any stream. Errors: kResourceExhausted names who refused.
  Result<void*> allocate(size_t size_bytes, const std::shared_ptr<CudaStream>& stream);
  void free(void* memory) override;
  // Gives back what the stream has passed by now.
  void collect();

  struct Stats {
    int64_t allocations = 0;
    int64_t live = 0;
    size_t live_bytes = 0;
  };
  Stats stats() const;

 private:
  Result<void*> take(size_t size_bytes, const std::shared_ptr<CudaStream>& stream);

  struct Freed {
    void* memory = nullptr;
    uint64_t point = 0;
  };
  struct State {
    std::unordered_map<void*, size_t> live;
    std::vector<Freed> freed;  // of the external allocator, still in use by the stream
    Stats stats;
  };
  const std::shared_ptr<CudaMemory> memory_;
  const ExternalAllocator external_;
  const size_t limit_bytes_;
  const std::shared_ptr<CudaStream> stream_;
  Guarded<State> state_;
};

}  // namespace tenon::cuda
