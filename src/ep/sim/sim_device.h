// The simulated device: memory, streams, the order of frees, copies, and the check that scratch memory is never used by
// two streams at once.
//
// Ownership: shared by the factories, sessions and imports that use it.
// Threads: every function from any thread.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/guarded.h"
#include "ep/sdk/scratch.h"
#include "ep/sim/sim_counters.h"
#include "ep/sim/sim_memory.h"
#include "ep/sim/sim_stream.h"

namespace tenon::sim {

class SimDevice : public std::enable_shared_from_this<SimDevice> {
 public:
  static constexpr size_t kDefaultLimitBytes = size_t{4} << 30;

  static std::shared_ptr<SimDevice> create(int32_t number, size_t limit_bytes = kDefaultLimitBytes);
  ~SimDevice();

  int32_t number() const { return number_; }
  SimMemory& memory() { return memory_; }
  SimFaults& faults() { return process_faults(); }

  std::shared_ptr<SimStream> create_stream(std::string name);
  // Releases what all streams have passed. Also done by every allocation.
  void collect();
  // Every stream's queue so far. What they failed with stays with them.
  void run_everything();

  Result<void*> allocate(size_t size_bytes, SimMemory::Kind kind);
  // Takes effect when every stream has passed what it has queued now: the host frees memory that queued work still
  // uses.
  void free(void* address);
  // The same for memory that was adopted, and for anything else that queued work may still need.
  void release_later(std::function<void()> release);

  // Bytes from one space to another; device addresses are resolved when the copy runs.
  struct Copy {
    const void* src = nullptr;
    bool src_on_device = false;
    void* dst = nullptr;
    bool dst_on_device = false;
    size_t size_bytes = 0;
  };
  // Queued on `stream`; without one, everything that is queued anywhere runs first, and the copy is done on return.
  Status copy(const Copy& copy, const std::shared_ptr<SimStream>& stream);

  // Scratch memory for kernels (S5.2). `use` numbers one use of a block: between begin and end, no other use may begin.
  // These run as work of streams. Errors: kInternal names both streams; it is counted as an order violation.
  uint64_t next_scratch_use();
  Status begin_scratch(void* block, size_t size_bytes, uint64_t use, const std::string& stream);
  Status check_scratch(void* block, uint64_t use);
  Status end_scratch(void* block, size_t size_bytes, uint64_t use);
  std::shared_ptr<plugin::ScratchSource> scratch_source();

 private:
  struct Pending {
    std::function<void()> release;
    std::vector<std::pair<std::shared_ptr<plugin::StreamProgress>, uint64_t>> points;
  };
  struct ScratchUse {
    uint64_t use = 0;
    std::string stream;
  };
  SimDevice(int32_t number, size_t limit_bytes) : number_(number), memory_(limit_bytes) {}
  Status copy_now(const Copy& copy);

  const int32_t number_;
  SimMemory memory_;
  Guarded<std::vector<std::weak_ptr<SimStream>>> streams_;
  Guarded<std::vector<Pending>> pending_;
  Guarded<std::unordered_map<void*, ScratchUse>> scratch_;
  std::atomic<uint64_t> scratch_uses_{0};
};

}  // namespace tenon::sim
