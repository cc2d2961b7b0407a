#include "ep/cuda/fake_plugin/fake_compiler.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>

#include "base/format.h"
#include "ep/cuda/kernel_alignment.h"
#include "ep/sdk/plugin_graph.h"

namespace tenon::cuda::fake {

namespace {

struct ReluWork {
  const float* src;
  float* dst;
  size_t count;
};

void CUDA_CB run_relu(void* argument) {
  const std::unique_ptr<ReluWork> work(static_cast<ReluWork*>(argument));
  for (size_t i = 0; i < work->count; ++i) work->dst[i] = std::max(work->src[i], 0.0f);
}

// Its argument stays the node's: a graph runs it again and again.
void CUDA_CB run_captured_relu(void* argument) {
  const auto& work = *static_cast<const ReluWork*>(argument);
  for (size_t i = 0; i < work.count; ++i) work.dst[i] = std::max(work.src[i], 0.0f);
}

class ReluNode final : public plugin::CompiledNode {
 public:
  explicit ReluNode(std::shared_ptr<CudaSession> session)
      : CompiledNode(session->host()), session_(std::move(session)) {}

 private:
  Result<std::unique_ptr<plugin::ComputeState>> create_state() override {
    return std::make_unique<plugin::ComputeState>();
  }
  Status compute(plugin::ComputeState&, OrtKernelContext* context) override {
    const plugin::KernelCall call(host(), context);
    TENON_TRY_ASSIGN(const plugin::TensorArgument src, call.input(0));
    TENON_TRY_ASSIGN(const plugin::TensorArgument dst, call.output(0, src.shape));
    TENON_TRY_ASSIGN(const size_t size_bytes, tensor_size_bytes(src.type, src.shape));
    // As the real node says it, which copies then.
    for (const void* data : {static_cast<const void*>(src.data), static_cast<const void*>(dst.data)})
      if (reinterpret_cast<uintptr_t>(data) % kBindingAlignment != 0)
        session_->log(ORT_LOGGING_LEVEL_WARNING, tenon::format("CUDA copies what is at {}.", data));
    WorkFences fences;
    TENON_TRY_ASSIGN(const CallStream stream, session_->call_stream(call, &fences));
    Status queued = session_->begin_work(stream);
    if (queued.ok()) queued = run({src.data, dst.data, size_bytes}, fences);
    session_->give_back(std::move(fences));
    return session_->end_work(stream, std::move(queued));
  }

  bool may_run_in_place(size_t, size_t, std::span<const Shape>) override { return true; }

  struct Binding {
    void* src = nullptr;
    void* dst = nullptr;
    size_t size_bytes = 0;
    bool operator==(const Binding&) const = default;
  };

  // A binding is queued the first time and captured the second, as ComputePlan does; the kernel fails where a test
  // tells the driver to.
  Status run(const Binding& binding, WorkFences& fences) {
    const CudaDevice& device = *session_->device();
    TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(device));
    const std::lock_guard lock(mutex_);
    if (captured_ && binding == captured_binding_) return captured_->launch(fences);
    if (binding != seen_) {
      seen_ = binding;
      return run_once(binding, fences);
    }
    captured_.reset();
    arguments_.push_back(
        {static_cast<const float*>(binding.src), static_cast<float*>(binding.dst), binding.size_bytes / sizeof(float)});
    if (capture_stream_ == nullptr) {
      TENON_TRY_ASSIGN(capture_stream_, CudaStream::create(session_->device()));
    }
    TENON_TRY_ASSIGN(
        CapturedWork work, CapturedWork::capture(session_->device(), capture_stream_->native(), [&](CUstream native) {
          return cuda_status(device.driver(),
                             device.driver().LaunchHostFunc(native, &run_captured_relu, &arguments_.back()),
                             "cuLaunchHostFunc");
        }));
    captured_.emplace(std::move(work));
    captured_binding_ = binding;
    return captured_->launch(fences);
  }

  Status run_once(const Binding& binding, WorkFences& fences) {
    const CudaDriver& driver = session_->device()->driver();
    const CUstream native = fences.stream->native();
    TENON_TRY(fences.queue_waits());
    // Through scratch memory, as most kernels do (S5.2).
    TENON_TRY_ASSIGN(const auto scratch,
                     session_->scratch().take(std::max<size_t>(binding.size_bytes, 1), fences.stream));
    TENON_CUDA_TRY(driver, MemcpyAsync, reinterpret_cast<CUdeviceptr>(scratch.data()),
                   reinterpret_cast<CUdeviceptr>(binding.src), binding.size_bytes, native);
    auto work =
        std::make_unique<ReluWork>(ReluWork{static_cast<const float*>(scratch.data()), static_cast<float*>(binding.dst),
                                            binding.size_bytes / sizeof(float)});
    TENON_CUDA_TRY(driver, LaunchHostFunc, native, &run_relu, work.get());
    (void)work.release();  // run_relu's
    return fences.queue_signals();
  }

  std::mutex mutex_;
  Binding seen_, captured_binding_;
  std::deque<ReluWork> arguments_;  // a launch may still read an old one
  std::shared_ptr<CudaStream> capture_stream_;
  std::optional<CapturedWork> captured_;
  const std::shared_ptr<CudaSession> session_;
};

class HostCompiler final : public RegionCompiler {
 public:
  explicit HostCompiler(std::shared_ptr<CudaSession> session) : session_(std::move(session)) {}

  Status claim(const OrtGraph* graph, OrtEpGraphSupportInfo* support) override {
    const plugin::HostApi& host = session_->host();
    TENON_TRY_ASSIGN(const std::vector<plugin::GraphNode> nodes, graph_nodes(host, graph));
    for (const plugin::GraphNode& node : nodes) {
      if (node.op_type != "Relu" || node.inputs[0].type != DataType::kFloat) continue;
      OrtNodeFusionOptions fusion{};
      fusion.ort_version_supported = host.version();
      TENON_ORT_EP_TRY(host, EpGraphSupportInfo_AddNodesToFuse, support, &node.node, 1, &fusion);
    }
    return Status();
  }
  Result<std::unique_ptr<plugin::CompiledNode>> compile(const OrtGraph*, const OrtNode*) override {
    return std::unique_ptr<plugin::CompiledNode>(std::make_unique<ReluNode>(session_));
  }

 private:
  const std::shared_ptr<CudaSession> session_;
};

}  // namespace

Result<std::unique_ptr<RegionCompiler>> make_compiler(std::shared_ptr<CudaSession> session) {
  return std::unique_ptr<RegionCompiler>(std::make_unique<HostCompiler>(std::move(session)));
}

}  // namespace tenon::cuda::fake
