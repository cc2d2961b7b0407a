// An OrtEp of one session behind the core's DeviceProvider.
//
// The order of calls on the EP is ONNX Runtime's (docs/reference/plugin-host.md): CreateEp, GetName,
// IsConcurrentRunSupported, CreateDataTransfer, GetKernelRegistry, GetCapability, Compile, IsStreamAware, CreateState,
// OnSessionInitializationEnd; OnRunStart, Compute, OnRunEnd; ReleaseState, ReleaseNodeComputeInfos, ReleaseEp.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ep/api/device_provider.h"
#include "ep/host/custom_ops.h"
#include "ep/host/plugin_context.h"
#include "ep/host/plugin_ep.h"
#include "ep/host/plugin_regions.h"

namespace tenon::abi {

class PluginProvider final : public DeviceProvider, private GraphCapture {
 public:
  static Result<std::unique_ptr<DeviceProvider>> create(std::shared_ptr<PluginFactory> factory, const EpChoice& choice,
                                                        std::span<const size_t> devices, const SessionOptions& options);
  ~PluginProvider() override;

  std::string_view name() const override { return name_; }
  Result<std::unique_ptr<Kernel>> create_kernel(const KernelNode& node) const override;
  void set_model(const Model& model) override;
  // Nodes of the EP's own operators that no EP takes run in host memory, by the operators' own kernels.
  Result<std::unique_ptr<DeviceProvider>> host_companion() override;
  Result<std::vector<Claim>> claim(const Graph& graph, IdSpan<NodeId, const bool> taken) override;
  Status compile(std::span<const Region> regions) override;
  std::span<const RefusedRegion> refused_regions() const override { return refused_; }
  Status loaded() override;
  std::span<const std::shared_ptr<DeviceAllocator>> allocators() const override { return allocators_.elements(); }
  uint32_t binding_alignment() const override { return binding_alignment_; }
  std::span<const CopyRecord> constant_copies() const override { return constant_copies_.records; }
  DataTransfer* transfer() const override { return transfer_.get(); }
  GraphCapture* graph_capture() override;
  Tensor placed_constant(const ConstantRef& constant, AllocatorId allocator) const override;
  SpaceChoice choose_spaces(const KernelNode& node) const override;
  Result<std::unique_ptr<DeviceStream>> create_stream() override;
  bool can_use_stream(const DeviceStream& stream) const override;
  bool concurrent_runs() const override { return concurrent_; }
  bool host_runs(const Node& region) const override;
  void set_subgraphs(const SubgraphKernels& subgraphs) override { subgraphs_ = &subgraphs; }
  bool takes_fence(const Fence& fence) const override;
  Status run_start(const RunInfo& info) override;
  Status run_end(const RunInfo& info, bool synchronize) override;

 private:
  class Host;

  PluginProvider(std::shared_ptr<PluginFactory> factory, std::span<const size_t> devices);
  Status create_ep(const EpChoice& choice, const SessionOptions& options);
  Status ask_ep();
  bool needs_whole_model() const override { return captures_whole_model_; }
  int32_t graph_of(const RunInfo& info) const override;
  Result<bool> is_captured(int32_t graph) const override;
  Status replay(int32_t graph) override;
  Status release(int32_t graph) override;
  // The operators of the EP's own domains: their types are known from them.
  Status ask_custom_ops();
  // A model that an EP has compiled says for which EPs: this one must still be able to run it.
  Status check_compatibility() const;
  // Checks the EP's flags for the data of EPContext nodes, where the program has functions for that.
  Status check_context_data() const;
  // Before CreateEp by the devices' metadata, which also fills in the switch that older EPs read; after it, by the EP's
  // own word.
  Status check_weightless_devices();
  Status check_weightless_ep() const;
  // Reads the device's metadata entry (ep/api/binding_alignment.h).
  Status read_binding_alignment();
  Status create_allocators();
  Status check_compiling(std::span<const Region* const> regions) const;
  // `failed` gets what Compile says; then there is no region.
  Status compile_fused(std::span<const Region* const> regions, Status& failed);
  // OK also where the EP fails at some of them, which are then in refused_.
  Status compile_or_refuse(std::span<const Region* const> regions);
  Status create_kernel_region(const Region& region);
  Result<std::shared_ptr<PluginRegion>> create_custom_op_region(const OrtCustomOp* op, const Region& region) const;
  // Where the kernels of a registry find their constants when they are created, as in the reference.
  Result<Tensor> place_constant(const ConstantRef& constant, const std::string& name, AllocatorId allocator);
  const PluginRegion& region_of(const Node& node) const;
  // Whose memory tensors of this kind are in; none: plain host memory.
  AllocatorId allocator_of(OrtMemType mem_type) const;

  const std::shared_ptr<PluginFactory> factory_;
  std::vector<const OrtEpDevice*> devices_;
  std::string name_;
  std::string preferred_before_;  // the EP of higher preference, for the view that GetCapability gets
  std::shared_ptr<PluginEp> ep_;
  std::shared_ptr<Host> host_;
  std::shared_ptr<const GraphOrigin> origin_;
  std::shared_ptr<ContextModel> context_model_;
  CustomOps custom_ops_;
  const OrtKernelRegistry* registry_ = nullptr;  // the EP's
  std::unique_ptr<PluginTransfer> transfer_;
  IdVector<AllocatorId, std::shared_ptr<DeviceAllocator>> allocators_;
  IdVector<AllocatorId, OrtMemoryInfo> memory_;
  AllocatorId default_allocator_, host_accessible_allocator_;
  std::optional<OrtMemoryDevice> stream_device_;
  bool concurrent_ = true;
  bool captures_whole_model_ = true;
  bool takes_fences_ = false;  // of the first device
  bool in_place_ = false;      // alike: in_place.h
  const SubgraphKernels* subgraphs_ = nullptr;
  std::map<int32_t, std::shared_ptr<PluginRegion>> regions_;
  std::vector<RefusedRegion> refused_;  // of the last compile()
  struct PlacedConstant {
    ConstantRef source;
    Tensor tensor;
  };
  std::map<std::pair<const Constant*, AllocatorId>, PlacedConstant> placed_constants_;
  CopyLedger constant_copies_;            // of those
  bool disallow_copies_ = false;          // strict mode
  std::set<std::string> constant_names_;  // in that ledger
  uint32_t binding_alignment_ = 0;
  PluginMember<decltype(OrtEp::OnRunStart)> on_run_start_;
  PluginMember<decltype(OrtEp::OnRunEnd)> on_run_end_;
};

}  // namespace tenon::abi
