// State that the files of the fake driver share.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/format.h"
#include "ep/cuda/fake/fake_cuda.h"

namespace tenon::cuda::fake {

// One lock for everything but the streams' queues: this is a test's driver.
struct Region {
  enum class Kind : uint8_t { kDevice, kPinned, kRegistered, kExternal, kMapped, kIpc } kind = Kind::kDevice;
  size_t size_bytes = 0;
  bool free_queued = false;
  void* owner = nullptr;        // of kExternal: its object
  CUcontext context = nullptr;  // of the driver's own allocations: where they were made
};

class FakeStream;
struct FakeEvent {
  CUcontext context = nullptr;
  uint64_t recorded = 0;
  uint64_t completed = 0;
};

struct State {
  std::mutex mutex;
  std::condition_variable changed;  // an event has completed, a stream has become idle
  Config config;
  std::map<std::string, int64_t, std::less<>> calls;
  struct Failure {
    int64_t at = 0;
    CUresult result = CUDA_SUCCESS;
  };
  std::map<std::string, Failure, std::less<>> failures;
  // Of FakeControl::fail_at.
  int64_t calls_until_failure = 0;
  CUresult next_failure = CUDA_SUCCESS;
  std::string failed_call;
  std::vector<std::string> violations;
  std::map<uintptr_t, Region> regions;
  std::map<uintptr_t, size_t> freed;  // inaccessible addresses, so that a late use is found
  size_t device_bytes = 0;
  std::map<FakeStream*, std::shared_ptr<FakeStream>> streams;
  std::map<FakeEvent*, std::shared_ptr<FakeEvent>> events;
  std::set<void*> pools;
  CUresult sticky = CUDA_SUCCESS;
  int retained = 0;
  std::map<CUcontext, CUctxCigParam> graphics;  // contexts inside a graphics API's
  int foreign_waits = 0;                        // queued waits for timelines of other APIs that are not reached
  int graphs = 0;                               // graphs and executable graphs that are alive
};
State& state();

// Counts a call; what it must fail with, if anything.
CUresult enter(const char* function);
// The same for a function that needs a current context.
CUresult enter_in_context(const char* function);
void violation(const std::string& text);
// A violation while a stream waits for another API: the driver holds its locks in `function` until no queued work is
// left, which keeps whoever is to signal from doing so.
void expect_no_foreign_waits(const char* function);
#define TENON_FAKE_ENTER(function) \
  if (const CUresult entered = enter(function); entered != CUDA_SUCCESS) return entered
#define TENON_FAKE_CONTEXT(function) \
  if (const CUresult entered = enter_in_context(function); entered != CUDA_SUCCESS) return entered

// Ordered work on a thread of its own. What has failed stays failed, and later work is skipped, but events complete.
class FakeStream {
 public:
  using Work = std::function<CUresult()>;
  static std::shared_ptr<FakeStream> start();
  CUcontext context = nullptr;  // null: a default stream, of whichever is current
  // While the stream is captured, the work goes into the capture instead.
  void queue(Work work, bool always = false);
  bool idle() const;
  void synchronize();
  using Queued = std::pair<Work, bool>;  // work, and whether it also runs after a failure
  // False when the stream is captured already.
  bool begin_capture();
  bool capturing() const;
  std::vector<Queued> end_capture();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

// The thread's; null when it has none.
CUcontext current_context();
// Null, with CUDA_ERROR_INVALID_HANDLE for the caller, when it is none. 0 to 2 are the default streams. Using one while
// another device's context is current is a violation.
std::shared_ptr<FakeStream> find_stream(CUstream stream);

// Puts waits and signals of semaphores on a stream, as the driver's functions and as nodes of a graph do.
// CUDA_ERROR_INVALID_HANDLE, and a violation, for a semaphore that is destroyed.
CUresult queue_semaphore_waits(FakeStream& stream, std::span<const CUexternalSemaphore> semaphores,
                               std::span<const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS> parameters);
CUresult queue_semaphore_signals(FakeStream& stream, std::span<const CUexternalSemaphore> semaphores,
                                 std::span<const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS> parameters);

// The region that holds all of [address, address + size), with the lock held; null for host memory.
Region* find_region(uintptr_t address, size_t size_bytes);
bool was_freed(uintptr_t address, size_t size_bytes);
// With the lock held. Fresh memory is poisoned.
uintptr_t add_memory(Region::Kind kind, size_t size_bytes);
void remove_memory(uintptr_t address);

using Table = std::map<std::string, void*, std::less<>>;
void add_stream_functions(Table& table);
void add_memory_functions(Table& table);
void add_external_functions(Table& table);
void add_graph_functions(Table& table);
void add_kernel_functions(Table& table);

template <typename Function>
void add_function(Table& table, const char* name, Function* function) {
  table[name] = reinterpret_cast<void*>(function);
}

}  // namespace tenon::cuda::fake
