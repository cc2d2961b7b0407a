// An EP that claims parts of a model for a device: the runtime's interface to a plugin's OrtEp.
//
// The runtime calls, at load: claim() on the graph as it was read (inferred, before any pass), then compile() with the
// regions that it granted. Each granted region becomes one node {domain "tenon", op "Region"} whose attribute "body" is
// the claimed subgraph, "provider" the number of the EP in the session (1 is the first after the CPU EP, which is 0)
// and "region" the region's number. Passes leave such nodes alone; their shapes are inferred through the body. At plan
// time create_kernel() makes the light object that runs a compiled region.
//
// Lifetime: the session keeps its providers until its plans and streams are gone.
// Threads: claim and compile from the loading thread; the rest from any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tenon/fence.h>

#include "base/deadline.h"
#include "device/device.h"
#include "ep/api/graph_capture.h"
#include "ep/api/ids.h"
#include "ep/api/kernel.h"
#include "graph/graph.h"

namespace tenon {

struct CopyLedger;
struct CopyRecord;
struct Model;
class RunObjects;
class SubgraphKernels;

// Nodes that an EP wants. The runtime checks it: nodes exist, are free, and do not depend on themselves through others.
struct Claim {
  std::vector<NodeId> nodes;    // ascending
  bool fused = false;           // false: one node, served by a kernel; true: all of them as one, compiled
  bool drop_constants = false;  // fused: the EP keeps the constants itself, they are no inputs of the region
  std::string name;             // for messages; may be empty
};

// A granted claim. `body.inputs` and `body.outputs` are in the order in which the region's kernel sees them. Constants
// are values of the body with `constant` set; unless dropped, they are inputs of the region too (after the others).
struct Region {
  int32_t id = 0;  // the node's attribute "region"
  std::string name;
  bool fused = false;
  bool drop_constants = false;
  PerNode<NodeId> nodes;  // node n of the body is node nodes[n] of the graph that claim() got
  Graph body;
};

// Where a region's kernel wants its tensors: the allocator of the EP whose memory it is; none: plain host memory.
struct SpaceChoice {
  std::vector<AllocatorId> inputs;
  std::vector<AllocatorId> outputs;
};

// The data of one run that its kernels see (KernelContext::run), those of the CPU EP too.
struct RunInfo {
  const void* native_options = nullptr;       // the OrtRunOptions of a run that came through the C ABI; may be null
  const std::atomic<bool>* cancel = nullptr;  // set: the run is to end; may be null
  CopyLedger* ledger = nullptr;               // may be null
  bool disallow_copies = false;               // strict mode
  RunObjects* objects = nullptr;              // the strings and objects that kernels make; null outside of runs
  // Fences that the EP has said it takes, and that it alone waits for and signals. Empty: the host does.
  std::span<const Fence> waits = {}, signals = {};
  size_t calls = 0;                         // with fences: how often the EP's kernels are called in the run
  Deadline deadline = Deadline::after(-1);  // the run is to end when it has passed
};

class DeviceProvider : public ExecutionProvider {
 public:
  // Before claim(): the model as it was read, for what its file says of itself. Valid during the call. The default does
  // nothing.
  virtual void set_model(const Model& model);
  // Gives values of `graph` the types that only this EP knows: the outputs of its own operators. True if something
  // changed. Called before claim(), again after the shapes were inferred anew, until nothing changes.
  virtual Result<bool> infer_types(Graph& graph) const;
  // `taken[n]`: node n belongs to an EP of higher preference.
  virtual Result<std::vector<Claim>> claim(const Graph& graph, IdSpan<NodeId, const bool> taken) = 0;
  // After every EP's claim(): nodes that the CPU EP would get, and for which this one has the only code. The default
  // takes none.
  virtual Result<std::vector<Claim>> claim_rest(const Graph& graph, IdSpan<NodeId, const bool> taken);
  // Null, or an EP for what this one's own operators need on the host, where no stream of a device has a say. Asked
  // once, before set_model(); the session keeps it as it keeps this one, behind all others.
  virtual Result<std::unique_ptr<DeviceProvider>> host_companion();
  virtual Status compile(std::span<const Region> regions) = 0;
  // The regions of the last compile() that the EP turned out to be unable to compile, each with its reason. The session
  // gives their nodes to the EPs after it, and has the rest claimed and compiled again. The default compiles all or
  // fails.
  struct RefusedRegion {
    int32_t id = 0;
    Status why;
  };
  virtual std::span<const RefusedRegion> refused_regions() const;
  // After all regions of the session are compiled.
  virtual Status loaded() = 0;

  // The device's allocators. None: the EP works on plain host memory.
  virtual std::span<const std::shared_ptr<DeviceAllocator>> allocators() const = 0;
  // The EP's kernels take tensors in its memory at multiples of this many bytes, a power of two up to
  // kMostBindingAlignment (ep/api/binding_alignment.h); others are copied by the host. 0, the default: anywhere.
  virtual uint32_t binding_alignment() const;
  // For copies that the host cannot do itself; null when it can do all.
  virtual DataTransfer* transfer() const = 0;
  // The copies of constants that compile() has made. Names live as long as the EP. The default made none.
  virtual std::span<const CopyRecord> constant_copies() const;
  // A constant that the EP has already put into memory of this allocator; no tensor when it has not.
  virtual Tensor placed_constant(const ConstantRef& constant, AllocatorId allocator) const;
  // Null unless the EP captures graphs. Asked after compile().
  virtual GraphCapture* graph_capture();
  // The memory that the kernel of a region wants for its tensors; `node.inputs` and outputs as in create_kernel.
  virtual SpaceChoice choose_spaces(const KernelNode& node) const = 0;
  // Null when the device has no streams: its kernels are done when run() returns.
  virtual Result<std::unique_ptr<DeviceStream>> create_stream() = 0;
  // Whether kernels can be enqueued on `stream`, which the EP did not make for this session: one of its own device,
  // made by the same library.
  virtual bool can_use_stream(const DeviceStream& stream) const;
  // False: the session runs one run at a time.
  virtual bool concurrent_runs() const = 0;
  // True for a region that is one If, Loop or Scan whose kernel the EP had the host make: its bodies run on the CPU EP.
  virtual bool host_runs(const Node& region) const;
  // Before any plan: what makes those kernels. It outlives the provider's kernels.
  virtual void set_subgraphs(const SubgraphKernels& subgraphs);
  // Whether the EP orders its work behind this fence, and signals it behind its work, without the host. The default
  // takes none.
  virtual bool takes_fence(const Fence& fence) const;
  // After OK the EP signals `info.signals` in any case, at run_end at the latest.
  virtual Status run_start(const RunInfo& info) = 0;
  virtual Status run_end(const RunInfo& info, bool synchronize) = 0;

  Status can_run(const Graph& graph, const Node& node) const override;
  LayoutChoice choose_layouts(const KernelNode& node) const override;  // all plain
};

// The EPs of a session but for the CPU EP.
using DeviceProviders = IdSpan<EpId, DeviceProvider* const, 1>;

}  // namespace tenon
