// The CUDA EP of one session.
#pragma once

#include <memory>

#include "ep/cuda/cuda_session.h"
#include "ep/sdk/plugin_factory.h"

namespace tenon::cuda {

class CudaFactory;

class CudaEp final : public plugin::Ep {
 public:
  static Result<std::unique_ptr<CudaEp>> create(CudaFactory& factory, const std::shared_ptr<CudaSession>& session,
                                                std::unique_ptr<RegionCompiler> compiler);

 private:
  CudaEp(CudaFactory& factory, std::shared_ptr<CudaSession> session, std::unique_ptr<RegionCompiler> compiler);

  Status get_capability(const OrtGraph* graph, OrtEpGraphSupportInfo* support) override;
  Result<std::unique_ptr<plugin::CompiledNode>> compile(const OrtGraph* graph, const OrtNode* fused_node,
                                                        OrtNode** context_node) override;
  Result<const OrtKernelRegistry*> kernel_registry() override { return registry_->get(); }
  Result<std::unique_ptr<plugin::SyncStream>> create_stream(const OrtMemoryDevice* device) override;
  Result<std::unique_ptr<plugin::Allocator>> create_allocator(const OrtMemoryInfo* info) override;
  Result<bool> is_concurrent_run_supported() override;
  Status on_run_start(const OrtRunOptions* options) override;
  Status on_run_end(const OrtRunOptions* options, bool sync_stream) override;
  Status sync() override { return session_->synchronize(); }

  CudaFactory& factory_;
  const std::shared_ptr<CudaSession> session_;
  const std::unique_ptr<RegionCompiler> compiler_;  // null: the EP claims nothing
  std::unique_ptr<plugin::KernelRegistry> registry_;
};

}  // namespace tenon::cuda
