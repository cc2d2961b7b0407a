// The device memory of one session: of the device's pool, or of the program's own allocator (S4.3), within the
// session's limit.
//
// Ownership: every block goes back exactly once. To the program's allocator, which knows nothing of streams, only after
// the streams that the session's runs use have passed the point of the free; it is called with the device's context
// current, and no lock of this library is held meanwhile (program_calls.h). A block whose stream waits for what nobody
// signals goes back when a later session of the process frees or ends, or stays. Lifetime: tensors that outlive the
// session hold it. Threads: every function from any thread; the program's functions are called from those threads.
#pragma once

#include <memory>
#include <unordered_map>
#include <utility>
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
  // A block for long: when it goes back to the program's allocator, that is asked to empty its cache (S4.3).
  Result<void*> reserve(size_t size_bytes);
  void free(void* memory) override;
  // The host works on blocks on this stream too: it is the program's, of a run.
  void used_on(const std::shared_ptr<CudaStream>& stream);
  // Gives back what the streams have passed by now.
  void collect();

  struct Stats {
    int64_t allocations = 0;
    int64_t live = 0;
    size_t live_bytes = 0;
  };
  Stats stats() const;

 private:
  struct Block {
    size_t size_bytes = 0;
    bool reserved = false;
  };
  // Of the external allocator, still in use by a stream.
  struct Freed {
    void* memory = nullptr;
    bool reserved = false;
    std::vector<std::pair<std::shared_ptr<CudaStream>, uint64_t>> points;
  };
  struct State {
    std::unordered_map<void*, Block> live;
    std::vector<Freed> freed;
    std::vector<std::weak_ptr<CudaStream>> users;  // besides `stream_`
    Stats stats;
  };
  struct Left;  // by sessions that are gone

  Result<void*> allocate(size_t size_bytes, const std::shared_ptr<CudaStream>& stream, bool reserved);
  Result<void*> take(size_t size_bytes, const std::shared_ptr<CudaStream>& stream);
  Freed mark(void* memory, bool reserved, State& state) const;
  static bool passed(const Freed& freed);
  static void give_back(const CudaDevice& device, const ExternalAllocator& external, const Freed& freed);
  static void collect_left();

  const std::shared_ptr<CudaMemory> memory_;
  const ExternalAllocator external_;
  const size_t limit_bytes_;
  const std::shared_ptr<CudaStream> stream_;
  Guarded<State> state_;
};

}  // namespace tenon::cuda
