// Objects that the parts of one CUDA session share, and the interface to the compiler of its regions.
//
// Lifetime: the EP holds the session; compiled nodes hold it too.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ep/cuda/communicator.h"
#include "ep/cuda/cuda_memory.h"
#include "ep/cuda/cuda_options.h"
#include "ep/cuda/session_fences.h"
#include "ep/cuda/session_memory.h"
#include "ep/sdk/plugin_ep.h"
#include "ep/sdk/plugin_kernel.h"
#include "ep/sdk/plugin_runs.h"

namespace tenon::cuda {

// The stream that one call of a kernel or compiled node runs on.
struct CallStream {
  std::shared_ptr<CudaStream> stream;
  // The stream of the host's run, where that is another one: the program's (RunOptionsSetSyncStream), while all of the
  // session's work goes to `stream`. Else null.
  std::shared_ptr<CudaStream> run;
  bool synchronous = false;  // the host gave none: the call waits for its work before it returns

  // Where the host goes on behind the call's work.
  const std::shared_ptr<CudaStream>& behind() const { return run != nullptr ? run : stream; }
};

// `timeout_ms`: the option load_timeout_ms of a session.
Status until_code_loads(const CudaMemory& memory, int64_t timeout_ms);

class CudaSession {
 public:
  static Result<std::shared_ptr<CudaSession>> create(const plugin::HostApi& host, std::shared_ptr<CudaMemory> memory,
                                                     CudaOptions options, const OrtLogger* logger);
  ~CudaSession();

  const plugin::HostApi& host() const { return host_; }
  const std::shared_ptr<CudaDevice>& device() const { return memory_->device(); }
  const std::shared_ptr<CudaMemory>& memory() const { return memory_; }
  const CudaOptions& options() const { return options_; }
  plugin::PluginRuns<CudaStream>& runs() { return runs_; }
  // Null where the session is the only rank. It begins to meet the others when a region needs it.
  const std::shared_ptr<Communicator>& communicator() const { return communicator_; }
  // Of a run that begins or ends on this thread.
  Status start_fences(const OrtRunOptions* options);
  Status end_fences() { return fences_.end(unified_ != nullptr ? unified_ : own_); }
  // Scratch memory, tagged by stream (S5.2).
  plugin::ScratchPool& scratch() { return *scratch_; }
  // For constants, plans and tensors; of the external allocator where there is one.
  const std::shared_ptr<SessionMemory>& device_memory() const { return device_memory_; }

  // S4.1, S5.1: the user's stream, the session's unified one, or the call's own. The run's end waits for it. `fences`
  // get what the work has to wait for and to signal.
  Result<CallStream> call_stream(const plugin::KernelCall& call, WorkFences* fences);
  void give_back(WorkFences fences) { fences_.give_back(std::move(fences)); }
  // The stream of a native handle that the host passed; the session's when `native` is null. What the run waits for is
  // queued there.
  Result<CallStream> stream_of(void* native);
  // Between these the work of a call is queued. begin_work() comes after the call's outputs are allocated: the work
  // comes after all that the run's stream has queued. end_work() comes in any case: what the host queues on the run's
  // stream comes after the work. It takes what the work answered, and answers the first failure.
  Status begin_work(const CallStream& call) const;
  Status end_work(const CallStream& call, Status worked) const;
  // Everything that the session has queued on streams of its own is done on return.
  Status synchronize();
  // A stream for the host: the unified one, or a new one.
  Result<std::shared_ptr<CudaStream>> make_stream();
  // Comes before anything that makes the driver load code: CudaMemory::until_nobody_waits within the run's deadline, or
  // within load_timeout_ms where there is none.
  Status until_code_loads() const { return cuda::until_code_loads(*memory_, options_.load_timeout_ms); }
  // Copies between host and device, queued on the call's stream or on the copy stream in its order (S4.2).
  Status copy(const plugin::TensorArgument& src, const plugin::TensorArgument& dst, void* stream_handle);
  void log(OrtLoggingLevel level, const std::string& message) const { host_.log(logger_, level, message); }

 private:
  CudaSession(const plugin::HostApi& host, std::shared_ptr<CudaMemory> memory, CudaOptions options,
              const OrtLogger* logger)
      : host_(host), memory_(std::move(memory)), options_(std::move(options)), logger_(logger) {}

  Result<CallStream> find_stream(void* native);
  Status queue_copy(const plugin::TensorArgument& src, const plugin::TensorArgument& dst, const CallStream& call);

  const plugin::HostApi host_;
  const std::shared_ptr<CudaMemory> memory_;
  const CudaOptions options_;
  const OrtLogger* const logger_;
  std::shared_ptr<SessionMemory> device_memory_;
  std::unique_ptr<plugin::ScratchPool> scratch_;
  std::shared_ptr<CudaStream> unified_;  // null: streams are the runs' own
  std::shared_ptr<CudaStream> copies_;   // null: copies run on the compute stream
  std::shared_ptr<CudaStream> own_;      // for calls that the host gives no stream
  plugin::PluginRuns<CudaStream> runs_;
  SessionFences fences_;
  std::shared_ptr<Communicator> communicator_;
};

// Claims nodes and compiles regions; compute/ has the implementation.
class RegionCompiler {
 public:
  virtual ~RegionCompiler() = default;
  // Adds what the EP takes to `support`, as groups of nodes to fuse.
  virtual Status claim(const OrtGraph* graph, OrtEpGraphSupportInfo* support) = 0;
  virtual Result<std::unique_ptr<plugin::CompiledNode>> compile(const OrtGraph* graph, const OrtNode* fused_node) = 0;
};
using MakeRegionCompiler = std::function<Result<std::unique_ptr<RegionCompiler>>(std::shared_ptr<CudaSession>)>;

}  // namespace tenon::cuda
