// Custom operators as a DeviceProvider: one kernel a node, on plain host memory.
#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "abi/objects/allocator.h"
#include "abi/objects/session_options.h"
#include "abi/objects/slots.h"
#include "base/log.h"
#include "ep/host/custom_op_region.h"
#include "ep/host/custom_ops.h"
#include "ep/host/kernel_info.h"
#include "ep/host/plugin_regions.h"
#include "ops/attributes.h"
#include "runtime/ep_registry.h"

namespace tenon::abi {

namespace {

// The session as the kernels of custom operators see it through their info: allocator, logger, config entries.
class CustomOpHost final : public KernelHost {
 public:
  explicit CustomOpHost(const OrtSessionOptions& options) : config_(options.config_entries) {
    const std::shared_ptr<const OrtLogger> of_env = current_logger();
    const bool own = options.log_function != nullptr;
    logger_.id = options.log_id;
    logger_.function = own ? options.log_function : of_env->function;
    logger_.function_parameter = own ? options.log_parameter : of_env->function_parameter;
    logger_.severity = options.log_severity_level < 0 ? of_env->severity.load()
                                                      : static_cast<OrtLoggingLevel>(options.log_severity_level);
  }

  OrtAllocator* allocator(OrtMemType) const override { return default_allocator(); }
  OrtAllocator* allocator(const OrtMemoryInfo& info) const override {
    return info.device == OrtMemoryDevice{} ? default_allocator() : nullptr;
  }
  const OrtLogger* logger() const override { return &logger_; }
  const OrtKeyValuePairs& config() const override { return config_; }
  const OrtEp* ep() const override { return nullptr; }

 private:
  const OrtKeyValuePairs config_;
  OrtLogger logger_;
};

class CustomOpProvider final : public DeviceProvider {
 public:
  CustomOpProvider(std::string name, CustomOps ops, std::shared_ptr<const KernelHost> host,
                   std::shared_ptr<const void> keep = nullptr)
      : keep_(std::move(keep)), name_(std::move(name)), ops_(std::move(ops)), host_(std::move(host)) {}

  std::string_view name() const override { return name_; }

  Result<bool> infer_types(Graph& graph) const override { return ops_.infer_types(graph); }

  // The EPs of the session come first, as in the reference.
  Result<std::vector<Claim>> claim(const Graph&, IdSpan<NodeId, const bool>) override { return std::vector<Claim>(); }

  Result<std::vector<Claim>> claim_rest(const Graph& graph, IdSpan<NodeId, const bool> taken) override {
    std::vector<Claim> claims;
    for (NodeId n : graph.nodes.ids()) {
      if (taken[n]) continue;
      const Node& node = graph.nodes[n];
      std::string why_not;
      const OrtCustomOp* op = ops_.find(graph, node, &why_not);
      if (op == nullptr) {
        if (!why_not.empty()) log_warning("dispatch", "No custom operator serves {}: {}.", node.label(graph), why_not);
        continue;
      }
      TENON_TRY_ASSIGN(const std::string ep, custom_op_ep(op));
      if (ep.empty()) claims.push_back({.nodes = {n}, .name = node.label(graph)});
    }
    return claims;
  }

  Status compile(std::span<const Region> regions) override {
    for (const Region& region : regions) {
      const Node& node = region.body.nodes[NodeId(0)];
      const OrtCustomOp* op = ops_.find(region.body, node);
      if (op == nullptr) return internal_error("No custom operator serves {} any more.", node.label(region.body));
      TENON_TRY_ASSIGN(auto made, make_custom_op_region(op, region, host_, {}, keep_));
      regions_[region.id] = std::move(made);
    }
    return {};
  }

  Status loaded() override { return {}; }
  std::span<const std::shared_ptr<DeviceAllocator>> allocators() const override { return {}; }
  DataTransfer* transfer() const override { return nullptr; }
  SpaceChoice choose_spaces(const KernelNode& node) const override { return region_of(*node.node)->spaces; }
  Result<std::unique_ptr<DeviceStream>> create_stream() override { return std::unique_ptr<DeviceStream>(); }
  // The reference runs the kernels of a session from any thread.
  bool concurrent_runs() const override { return true; }
  Status run_start(const RunInfo&) override { return {}; }
  Status run_end(const RunInfo&, bool) override { return {}; }

  Result<std::unique_ptr<Kernel>> create_kernel(const KernelNode& node) const override {
    return make_region_kernel(region_of(*node.node), node, host_, {});
  }

 private:
  std::shared_ptr<PluginRegion> region_of(const Node& node) const {
    const auto found = regions_.find(static_cast<int32_t>(Attributes(node).integer("region")));
    TENON_CHECK(found != regions_.end());
    return found->second;
  }

  const std::shared_ptr<const void> keep_;
  const std::string name_;
  const CustomOps ops_;
  const std::shared_ptr<const KernelHost> host_;
  std::map<int32_t, std::shared_ptr<PluginRegion>> regions_;
};

// Offers no device, so that it appears in no list.
class CustomOpFactory final : public EpFactory {
 public:
  CustomOpFactory(std::string name, CustomOps ops, std::shared_ptr<const CustomOpHost> host)
      : name_(std::move(name)), ops_(std::move(ops)), host_(std::move(host)) {}

  const std::string& name() const override { return name_; }
  std::span<const EpDevice> devices() const override { return {}; }
  bool needs_device() const override { return false; }
  Result<std::unique_ptr<DeviceProvider>> create_provider(const EpChoice&, std::span<const size_t>,
                                                          const SessionOptions&) override {
    return std::unique_ptr<DeviceProvider>(std::make_unique<CustomOpProvider>(name_, ops_, host_));
  }
  std::vector<std::shared_ptr<DeviceAllocator>> shared_allocators(size_t) override { return {}; }
  DataTransfer* transfer() override { return nullptr; }

 private:
  const std::string name_;
  const CustomOps ops_;
  const std::shared_ptr<const CustomOpHost> host_;
};

}  // namespace

std::unique_ptr<DeviceProvider> make_custom_op_provider(CustomOps ops, std::shared_ptr<const KernelHost> host,
                                                        std::shared_ptr<const void> keep) {
  return std::make_unique<CustomOpProvider>("CPUExecutionProvider", std::move(ops), std::move(host), std::move(keep));
}

Result<std::unique_ptr<CustomOpEp>> CustomOpEp::create(const OrtSessionOptions& options) {
  static std::atomic<uint64_t> count = 0;
  std::unique_ptr<CustomOpEp> ep(new CustomOpEp(format("custom operators {}", ++count)));
  TENON_TRY(::tenon::EpRegistry::instance().add(
      ep->name_, {std::make_shared<CustomOpFactory>(ep->name_, CustomOps(options.custom_op_domains),
                                                    std::make_shared<const CustomOpHost>(options))}));
  return ep;
}

CustomOpEp::~CustomOpEp() { (void)::tenon::EpRegistry::instance().remove(name_); }

}  // namespace tenon::abi
