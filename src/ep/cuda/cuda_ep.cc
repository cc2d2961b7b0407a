#include "ep/cuda/cuda_ep.h"

#include "ep/cuda/cuda_factory.h"
#include "ep/cuda/cuda_plugin_objects.h"
#include "ep/cuda/driver/device_lost.h"
#include "ep/cuda/run_settings.h"

namespace tenon::cuda {

Result<std::unique_ptr<CudaEp>> CudaEp::create(CudaFactory& factory, const std::shared_ptr<CudaSession>& session,
                                               std::unique_ptr<RegionCompiler> compiler) {
  std::unique_ptr<CudaEp> ep(new CudaEp(factory, session, std::move(compiler)));
  // Now, because onnxruntime 1.24 loses an EP whose GetKernelRegistry fails.
  TENON_TRY_ASSIGN(
      ep->registry_,
      plugin::KernelRegistry::create(
          factory.host(), ep->name(),
          plugin::copy_kernel_rows(factory.host(),
                                   [session](const plugin::TensorArgument& src, const plugin::TensorArgument& dst,
                                             void* stream_handle) { return session->copy(src, dst, stream_handle); })));
  return ep;
}

CudaEp::CudaEp(CudaFactory& factory, std::shared_ptr<CudaSession> session, std::unique_ptr<RegionCompiler> compiler)
    : Ep(factory.host(), factory.identity().ep_name,
         {.compile = compiler != nullptr, .kernel_registry = true, .streams = true}),
      factory_(factory),
      session_(std::move(session)),
      compiler_(std::move(compiler)) {}

Status CudaEp::get_capability(const OrtGraph* graph, OrtEpGraphSupportInfo* support) {
  return compiler_ != nullptr ? compiler_->claim(graph, support) : Status();
}

Result<std::unique_ptr<plugin::CompiledNode>> CudaEp::compile(const OrtGraph* graph, const OrtNode* fused_node,
                                                              OrtNode**) {
  TENON_TRY_CONTEXT(session_->until_code_loads(), "while compiling a part of the model");
  return compiler_->compile(graph, fused_node);
}

Result<std::unique_ptr<plugin::SyncStream>> CudaEp::create_stream(const OrtMemoryDevice*) {
  TENON_TRY_ASSIGN(auto stream, session_->make_stream());
  return std::unique_ptr<plugin::SyncStream>(std::make_unique<CudaSyncStream>(host(), std::move(stream), session_));
}

Result<std::unique_ptr<plugin::Allocator>> CudaEp::create_allocator(const OrtMemoryInfo* info) {
  return factory_.make_allocator(info, session_);
}

// S5.3: a host without KernelContext_GetSyncStream may hand a kernel another run's stream; S4.2: one stream takes one
// run at a time.
Result<bool> CudaEp::is_concurrent_run_supported() {
  return host().version() >= 28 && !session_->options().unified_stream;
}

Status CudaEp::on_run_start(const OrtRunOptions* options) {
  // Else hosts would only say that an allocation fails.
  TENON_TRY(check_device(*session_->device()));
  TENON_TRY_ASSIGN(RunSettings settings, RunSettings::read(host(), options));
  if (const auto& ranks = session_->communicator(); ranks != nullptr && ranks->started()) {
    settings.remark = ranks->remark();
    if (settings.deadline.never()) {
      settings.set_timeout(ranks->options().timeout_ms);
      settings.timeout_name = "option collective_timeout_ms";
    }
  }
  TENON_TRY(session_->start_fences(options));
  begin_run(session_.get(), settings);
  session_->runs().start();
  return Status();
}

Status CudaEp::on_run_end(const OrtRunOptions*, bool sync_stream) {
  // First, so that the streams that are waited for have them.
  Status fences = session_->end_fences();
  Status failure = session_->runs().end(sync_stream);
  if (failure.ok()) failure = std::move(fences);
  end_run(session_.get());
  if (const auto& ranks = session_->communicator(); ranks != nullptr && failure.code() == StatusCode::kTimeout)
    ranks->give_up(failure.message());
  session_->device_memory()->collect();
  session_->memory()->collect();
  return failure;
}

}  // namespace tenon::cuda
