// The ranks of a sharded model as NCCL sees them: a session's place among them, and the operations that its plans
// queue.
//
// A thread of its own meets the other ranks, so that sessions of one process may be made one after the other; the first
// run waits for it. A rank that does not take part keeps the others' work on the device for ever, so a run that has
// collectives ends after a time, and the communicator is given up: NCCL then ends its kernels, and the session can only
// be released.
// Lifetime: plans hold it, and their graphs go before it. Releasing it waits for a second at most.
// Threads: one run at a time queues operations; everything else from any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "ep/cuda/driver/cuda_device.h"
#include "ep/cuda/driver/nccl.h"
#include "ep/cuda/rank_options.h"

namespace tenon::cuda {

class Communicator {
 public:
  // `tell` gets a line where ranks are waited for long; it may be empty.
  Communicator(std::shared_ptr<CudaDevice> device, RankOptions options, std::function<void(const std::string&)> tell);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const RankOptions& options() const { return options_; }
  // Begins to meet the other ranks; once. `library` stays. Errors: kUnsupported for a device whose context is a
  // graphics API's.
  Status start(const Nccl& library);
  bool started() const;
  // Comes before each run with collectives, also a captured one: waits for the other ranks.
  // Errors: kTimeout names those that have not come; what start() could not know; kDeviceError once it is given up.
  Status ready();
  // The run's work is not done in time: from now on every run fails. `why` is for their messages.
  void give_up(const std::string& why);
  // A sentence for a run that takes too long; lives as long as this object.
  const char* remark() const { return remark_.c_str(); }

  // Queue on `stream`; the device's context is current, and ready() has answered OK. All ranks call the same ones in
  // the same order. Counts are of elements of one rank.
  Status all_reduce(CUdeviceptr send, CUdeviceptr receive, size_t count, NcclType type, CUstream stream);
  Status all_gather(CUdeviceptr send, CUdeviceptr receive, size_t count, NcclType type, CUstream stream);
  // `count`: of the part for one rank.
  Status all_to_all(CUdeviceptr send, CUdeviceptr receive, size_t count, NcclType type, size_t element_bytes,
                    CUstream stream);

 private:
  struct State;
  static void work(const std::shared_ptr<State>& state);
  // Within the time for a call of NCCL, which waits for other ranks where it connects to them.
  Status call(const std::function<Status(const Nccl& library, NcclComm* native)>& queue);
  Deadline deadline() const;

  const RankOptions options_;
  const std::string remark_;
  const std::shared_ptr<State> state_;
};

}  // namespace tenon::cuda
