// Regions: the parts of a graph that EPs other than the CPU one run, and the nodes that stand for them.
//
// The order of calls at load: check_claims() with what an EP claims, once for each EP in order of preference, then
// build_regions() once with all that was granted.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ep/api/device_provider.h"
#include "graph/graph.h"

namespace tenon {

// Which EP runs `node`.
EpId ep_of(const Node& node);

bool is_region(const Node& node);
// The claimed subgraph of a region node.
const Graph& region_body(const Node& node);

// The claims that the EPs of a session have been granted so far.
class Partition {
 public:
  struct Grant {
    EpId ep;
    Claim claim;
  };
  using GrantId = StrongId<Grant>;

  explicit Partition(const Graph& graph);
  ~Partition();
  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;

  // By node of the graph that the partition was made of, also after build(); for DeviceProvider::claim.
  IdSpan<NodeId, const bool> taken() const;
  // Grants the claims that hold; the others are dropped, and each leaves a sentence in dropped(). Errors: a claim that
  // no EP can mean (several nodes for one kernel), naming the EP.
  Status add(EpId ep, const std::string& ep_name, std::vector<Claim> claims);
  const std::vector<std::string>& dropped() const { return dropped_; }
  const std::vector<Grant>& grants() const { return grants_.elements(); }

  // Puts one region node in the place of each granted claim; the regions come in the order of grants(), with numbers
  // from `first_region` on.
  Result<std::vector<Region>> build(Graph& graph, int32_t first_region = 0) const;

 private:
  // Why the claim does not hold; empty when it does.
  std::string problem(const Claim& claim) const;
  // A node outside the claim through which it would depend on itself; kNoNode if there is none.
  NodeId way_back(const Claim& claim) const;

  const Graph& graph_;
  std::unique_ptr<bool[]> taken_;
  PerNode<GrantId> group_;                // the grant that a node belongs to, none for most
  PerNode<std::vector<NodeId>> readers_;  // of a node's outputs
  IdVector<GrantId, Grant> grants_;
  std::vector<std::string> dropped_;
};

// The providers of a session: the CPU EP, and the others.
struct Providers {
  const ExecutionProvider* cpu = nullptr;
  DeviceProviders devices;

  const ExecutionProvider& of(const Node& node) const {
    const EpId ep = ep_of(node);
    return ep == kCpuEp ? *cpu : *devices[ep];
  }
};

}  // namespace tenon
