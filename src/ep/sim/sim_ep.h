// The simulated EP of one session.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ep/sdk/plugin_ep.h"
#include "ep/sdk/plugin_factory.h"
#include "ep/sdk/plugin_kernel.h"
#include "ep/sdk/plugin_options.h"
#include "ep/sim/sim_executor.h"
#include "ep/sim/sim_program.h"

namespace tenon::sim {

class SimFactory;

inline constexpr std::string_view kSimCompatibility = "tenon-sim;program=1";

class SimEp final : public plugin::Ep {
 public:
  // `device` null: the CPU device.
  static Result<std::unique_ptr<SimEp>> create(SimFactory& factory, std::shared_ptr<SimDevice> device,
                                               const plugin::EpRequest& request);

 private:
  SimEp(SimFactory& factory, std::shared_ptr<SimRuntime> runtime, plugin::OptionValues options, bool compiles);

  Status make_registry();
  Status get_capability(const OrtGraph* graph, OrtEpGraphSupportInfo* support) override;
  Result<std::unique_ptr<plugin::CompiledNode>> compile(const OrtGraph* graph, const OrtNode* fused_node,
                                                        OrtNode** context_node) override;
  Result<const OrtKernelRegistry*> kernel_registry() override;
  Result<std::unique_ptr<plugin::SyncStream>> create_stream(const OrtMemoryDevice* device) override;
  Result<std::unique_ptr<plugin::Profiler>> create_profiler() override;
  Result<std::unique_ptr<plugin::Allocator>> create_allocator(const OrtMemoryInfo* info) override;
  Result<bool> is_concurrent_run_supported() override;
  Status on_run_start(const OrtRunOptions* options) override;
  Status on_run_end(const OrtRunOptions* options, bool sync_stream) override;
  Status sync() override;
  Status on_session_initialization_end() override;
  std::string compatibility_info(const OrtGraph* graph) override;

  bool excluded(const std::string& op_type) const;
  bool is_own_context(const plugin::GraphNode& node) const;
  Result<std::shared_ptr<SimProgram>> read_context(const plugin::GraphNode& node) const;
  Result<OrtNode*> write_context(const plugin::GraphNode& fused, const SimProgram& program);

  SimFactory& factory_;
  const std::shared_ptr<SimRuntime> runtime_;
  const plugin::OptionValues options_;
  const bool compiles_;
  std::string context_folder_;  // where the context model lies; "" when it is not known
  bool context_embedded_ = true;
  std::unique_ptr<plugin::KernelRegistry> registry_;
  std::atomic<uint64_t> streams_made_{0};
  SimCounters::Live counted_{counters().eps};
};

// The rows of the kernel registry, for mode=kernels.
std::vector<plugin::KernelRow> sim_kernel_rows(const plugin::HostApi& host, const std::shared_ptr<SimRuntime>& runtime);
// The copies between host and device, for both modes.
std::vector<plugin::KernelRow> sim_copy_rows(const plugin::HostApi& host, const std::shared_ptr<SimRuntime>& runtime);

}  // namespace tenon::sim
