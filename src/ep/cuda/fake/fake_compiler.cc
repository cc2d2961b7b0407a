#include "ep/cuda/fake/fake_compiler.h"

#include <algorithm>

#include "ep/kit/plugin_graph.h"

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
    TENON_TRY_ASSIGN(const CallStream stream, session_->call_stream(call));
    TENON_TRY_ASSIGN(const size_t size_bytes, tensor_size_bytes(src.type, src.shape));
    const CudaDevice& device = *session_->device();
    TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(device));
    // Through scratch memory, as most kernels do (S5.2).
    TENON_TRY_ASSIGN(const auto scratch, session_->scratch().take(std::max<size_t>(size_bytes, 1), stream.stream));
    TENON_CUDA_TRY(device.driver(), MemcpyAsync, reinterpret_cast<CUdeviceptr>(scratch.data()),
                   reinterpret_cast<CUdeviceptr>(src.data), size_bytes, stream.stream->native());
    auto work = std::make_unique<ReluWork>(
        ReluWork{static_cast<const float*>(scratch.data()), static_cast<float*>(dst.data), size_bytes / sizeof(float)});
    TENON_CUDA_TRY(device.driver(), LaunchHostFunc, stream.stream->native(), &run_relu, work.get());
    (void)work.release();  // run_relu's
    return stream.synchronous ? stream.stream->synchronize() : Status();
  }
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
