// An EP in plain C++ whose device makes mistakes repeatable: its streams run only when something waits for them, its
// own memory cannot be touched by the host and is poisoned when it is new and when it is given back. Every step of it
// is a fault point.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tenon/session.h>

#include "runtime/ep_registry.h"

namespace tenon::api_testing {

struct FakeOptions {
  std::string name = "FakeEP";
  int32_t device_id = 0;
  std::vector<std::string> ops = {"Neg"};  // that it claims
  std::vector<std::string> refuse = {};    // of those, what it cannot compile after all
  bool fuse = true;                        // neighbours become one region; otherwise each node is a kernel
  bool device_memory = true;               // has DEFAULT memory, and wants its tensors there if it has no other
  bool host_accessible = false;            // has HOST_ACCESSIBLE memory, and wants its tensors there
  bool streams = true;
  bool concurrent = true;
  bool handles = false;            // its DEFAULT memory gives handles, which lie side by side and are no addresses
  uint32_t alignment = 0;          // that its DEFAULT memory has and asks for
  uint32_t binding_alignment = 0;  // that its kernels need
  bool drop_constants = false;
  bool in_place = false;       // its kernels may write over what they read
  bool stages_copies = false;  // copies of host memory read it when they are enqueued
  int capture_after = 0;       // captures a graph in this run, and replays it as nothing; 0: captures none
  // Fences that the EP takes from the host: it waits when a run starts, and signals when it ends.
  std::function<bool(const Fence&)> takes_fence = {};
  // Instead of claiming what `ops` says.
  std::function<Result<std::vector<Claim>>(const Graph& graph, IdSpan<NodeId, const bool> taken)> claim = {};
};

// The number of calls that the EP got, and of its objects that are alive.
struct FakeCounts {
  std::atomic<int> regions{0}, compiled{0}, loaded{0}, kernels{0}, run_starts{0}, run_ends{0}, streams{0},
      streams_made{0}, blocks{0}, copies{0}, waits_on_host{0}, waits_on_device{0}, end_runs{0}, running{0},
      most_running{0}, waits_taken{0}, signals_taken{0},
      misaligned{0};  // tensors that kernels got at other addresses than they take
};

// Registered as long as it lives, under the EP's name.
class FakeDevice {
 public:
  explicit FakeDevice(FakeOptions options);
  ~FakeDevice();
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;

  FakeCounts& counts() { return *counts_; }
  MemorySpace space() const;                  // of its DEFAULT memory
  MemorySpace host_accessible_space() const;  // of its HOST_ACCESSIBLE memory
  // Puts the EP first in the session's list.
  SessionOptions session_options() const;
  // A stream of the caller's own.
  std::unique_ptr<DeviceStream> make_stream() const;

 private:
  FakeOptions options_;
  std::shared_ptr<FakeCounts> counts_;
};

// The work that is enqueued on such a stream, in all, and how much of it has been carried out.
void enqueue(DeviceStream& stream, std::function<Status()> work);
size_t queued(const DeviceStream& stream);
size_t done(const DeviceStream& stream);
// Carries out the first `count` items that are left; all by default.
Status work(DeviceStream& stream, size_t count = SIZE_MAX);

// A copy of a tensor, wherever it is, in plain host memory.
Tensor on_host(const Tensor& tensor);
// A copy of `tensor` in `space`, for binding to `session`.
Tensor in_place(Session& session, const Tensor& tensor, const MemorySpace& space);

}  // namespace tenon::api_testing
