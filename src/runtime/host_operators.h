// Nodes inside the bodies of If, Loop and Scan for which an EP of the session has the only code (claim_rest): custom
// operators. Bodies run on the CPU EP, so these nodes do, too: each becomes a region node of provider 0 whose attribute
// "host_operator" is the number of the EP that has its kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ep/api/device_provider.h"
#include "graph/graph.h"

namespace tenon {

// Calls `visit` with every body of the graph's own If, Loop and Scan nodes, and with the bodies in those, the outer one
// first. Each body is a copy that only this graph has, so `visit` may change it.
Status for_each_body(Graph& graph, const std::function<Status(Graph&)>& visit);

// Grants what each EP's claim_rest() takes of the bodies. Regions are numbered from `first_region`; `regions` gets them
// by EP.
Status claim_in_bodies(Graph& graph, const PerDeviceEp<DeviceProvider*>& devices,
                       const PerDeviceEp<std::string>& ep_names, int32_t first_region,
                       PerDeviceEp<std::vector<Region>>& regions);

// The CPU EP together with these nodes: what a session plans its host nodes with.
class HostOperators final : public ExecutionProvider {
 public:
  // Both outlive it; `devices` may still grow.
  HostOperators(const ExecutionProvider& cpu, const PerDeviceEp<DeviceProvider*>& devices)
      : cpu_(cpu), devices_(devices) {}
  std::string_view name() const override { return cpu_.name(); }
  Status can_run(const Graph& graph, const Node& node) const override { return of(node).can_run(graph, node); }
  LayoutChoice choose_layouts(const KernelNode& node) const override { return of(*node.node).choose_layouts(node); }
  Result<std::unique_ptr<Kernel>> create_kernel(const KernelNode& node) const override {
    return of(*node.node).create_kernel(node);
  }

 private:
  const ExecutionProvider& of(const Node& node) const;
  const ExecutionProvider& cpu_;
  const PerDeviceEp<DeviceProvider*>& devices_;
};

}  // namespace tenon
