// Scratch memory tagged by stream (S5.2): a block that was freed on stream A is not handed to stream B before A has
// passed that point. On A itself it is handed out at once, because A's work runs in order.
//
// A block is taken for a stream that the caller names, so no thread and no run has to be registered anywhere: what a
// kernel holds dies with the kernel's block objects.
// Ownership: the pool owns all memory; blocks return theirs when destroyed and must not outlive the pool.
// Threads: every function from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/guarded.h"
#include "base/status.h"

namespace tenon::plugin {

// How far a stream has come. Shared with the pool, and outlives the stream: one that is gone has passed every point.
class StreamProgress {
 public:
  virtual ~StreamProgress() = default;
  // The point after everything that was queued so far.
  virtual uint64_t queued() const = 0;
  virtual bool passed(uint64_t point) const = 0;
};

// The pool calls it with no lock held: it may be the program's allocator, which may wait for a lock of the program's.
class ScratchSource {
 public:
  virtual ~ScratchSource() = default;
  virtual Result<void*> allocate(size_t size_bytes) = 0;
  virtual void free(void* memory) = 0;
};

class ScratchPool {
 public:
  // Free memory above `keep_bytes` goes back to the source as soon as its streams have passed it.
  ScratchPool(std::shared_ptr<ScratchSource> source, size_t keep_bytes);
  ~ScratchPool();
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  class Block {
   public:
    Block() = default;
    Block(Block&& other) noexcept { *this = std::move(other); }
    Block& operator=(Block&& other) noexcept;
    ~Block() { reset(); }

    void* data() const { return data_; }
    size_t size_bytes() const { return size_bytes_; }
    // Frees it at this point of its stream.
    void reset();

   private:
    friend class ScratchPool;
    ScratchPool* pool_ = nullptr;
    void* data_ = nullptr;
    size_t size_bytes_ = 0;
    std::shared_ptr<StreamProgress> stream_;
  };

  // `stream` null: for synchronous work, which is done when the block is freed. Sizes are rounded up; 0 gives no
  // memory.
  Result<Block> take(size_t size_bytes, std::shared_ptr<StreamProgress> stream);

  struct Stats {
    size_t blocks = 0;  // taken or free
    size_t free_blocks = 0;
    size_t free_bytes = 0;
    uint64_t reused = 0;        // takes that were served by a free block
    uint64_t kept_waiting = 0;  // free blocks passed over because another stream had not passed them
  };
  Stats stats() const;

 private:
  struct FreeBlock {
    void* data;
    size_t size_bytes;
    std::shared_ptr<StreamProgress> stream;
    uint64_t point;
    bool ready_for(const StreamProgress* next) const {
      return stream == nullptr || stream.get() == next || stream->passed(point);
    }
  };
  struct State {
    std::vector<FreeBlock> free;
    Stats stats;
  };
  void give_back(Block& block);
  std::vector<void*> trim(State& state);  // what goes back to the source

  const std::shared_ptr<ScratchSource> source_;
  const size_t keep_bytes_;
  Guarded<State> state_;
};

}  // namespace tenon::plugin
