// The EPs of a session, and the nodes of its model that each one runs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tenon/session.h>

#include "ep/api/device_provider.h"
#include "graph/reader.h"
#include "plan/pass_table.h"
#include "plan/regions.h"
#include "runtime/device_runs.h"
#include "runtime/once_copies.h"
#include "runtime/session_spaces.h"

namespace tenon {

// The CPU EP is always there; the others have ids in the order of preference. Lifetime: outlives
// everything that runs on the EPs. Threads: the functions that change it are called while the session loads; const
// access from any.
class SessionEps {
 public:
  SessionEps();
  SessionEps(const SessionEps&) = delete;
  SessionEps& operator=(const SessionEps&) = delete;

  const ExecutionProvider& cpu() const { return *cpu_; }
  // The CPU EP together with the operators that only another EP has, in bodies of If, Loop and Scan.
  const ExecutionProvider& host() const { return *host_; }
  const PerDeviceEp<DeviceProvider*>& devices() const { return devices_; }
  const PerDeviceEp<std::string>& names() const { return names_; }
  std::span<const EpAssignment> assignments() const { return assignments_; }

  // At load, in this order.
  Status make(const SessionOptions& options);
  // The types of operators that only an EP knows.
  Status infer_types(Graph& graph);
  // Asks each EP what it takes of the model, makes regions of that, and has them compiled. `copies` gets those that
  // compiling made.
  Status partition(Model& model, OnceCopies& copies);
  // Makes the first streams, and the table of the memory spaces that EPs with regions and their neighbours have.
  Result<SpaceTable> start(const SessionOptions& options, const Graph& graph, DeviceRuns& runs) const;

  // After partition(): each node has a kernel.
  Status check_nodes(const Graph& graph) const;
  // The bodies that the host runs for other EPs go through the passes too.
  Status prepare_region_bodies(Graph& graph, const PassOptions& passes) const;
  // After the passes, for the nodes that are left.
  Status check_control_flow_nodes(const Graph& graph) const;
  // Errors: kUnsupported where a node is left to the CPU EP and the options disallow that.
  Status check_fallback(const Graph& graph, const SessionOptions& options) const;

 private:
  const DeviceProvider& device(EpId ep) const { return *devices_[ep]; }
  // The first EP that captures graphs; null when none does.
  Result<GraphCapture*> choose_graph_capture(const Graph& graph) const;
  void describe_assignments(const Graph& graph, const Partition& partition);
  // Of each EP, the nodes that it could not compile.
  using Refused = PerDeviceEp<std::vector<uint8_t>>;
  // False where `refused` has grown: the graph is as it was, and another attempt is due.
  Result<bool> try_partition(Graph& graph, Refused& refused);
  // False where an EP refuses a region.
  Result<bool> compile(const Graph& graph, std::span<const Region> regions, const Partition& partition,
                       const PerDeviceEp<std::vector<Region>>& in_bodies, Refused& refused) const;

  std::unique_ptr<ExecutionProvider> cpu_, host_;
  PerDeviceEp<std::unique_ptr<DeviceProvider>> owned_;
  PerDeviceEp<DeviceProvider*> devices_;  // the same
  PerDeviceEp<std::string> names_;
  std::vector<EpAssignment> assignments_;
  std::vector<EpId> active_;  // those that have regions
  std::string failed_claim_;  // the last one, in words; empty: none
};

}  // namespace tenon
