// A plugin's execution provider and its compiled nodes as C++ classes behind OrtEp and OrtNodeComputeInfo.
//
// Ownership: the factory owns the EP, the EP owns its compiled nodes, a compiled node owns its states.
// Lifetime: graphs are valid only during get_capability() and compile().
// Threads: compute() from many threads at once when is_concurrent_run_supported().
#pragma once

#include <memory>
#include <span>
#include <string>

#include "ep/api/in_place.h"
#include "ep/sdk/plugin_memory.h"
#include "ep/sdk/plugin_profiler.h"
#include "ep/sdk/plugin_stream.h"

namespace tenon::plugin {

class ComputeState {
 public:
  virtual ~ComputeState() = default;
};

class CompiledNode : private InPlaceComputeInfo {
 public:
  explicit CompiledNode(const HostApi& host);
  virtual ~CompiledNode() = default;
  CompiledNode(const CompiledNode&) = delete;
  CompiledNode& operator=(const CompiledNode&) = delete;

  static OrtNodeComputeInfo* release_to_host(std::unique_ptr<CompiledNode> node);
  static std::unique_ptr<CompiledNode> take_back(OrtNodeComputeInfo* node);

 protected:
  virtual Result<std::unique_ptr<ComputeState>> create_state() = 0;
  virtual Status compute(ComputeState& state, OrtKernelContext* context) = 0;
  // in_place.h; asked only by a host that knows it. `inputs`: the shapes of the node's inputs.
  virtual bool may_run_in_place(size_t input, size_t output, std::span<const Shape> inputs) {
    (void)input, (void)output, (void)inputs;
    return false;
  }
  // in_place.h; asked only by a host that knows it, before the first run. Null: nothing.
  virtual const char* description() const { return nullptr; }
  const HostApi& host() const { return host_; }

 private:
  static CompiledNode& of(OrtNodeComputeInfo* table);
  const HostApi host_;
};

class Ep : private OrtEp {
 public:
  // Members of the table that are null unless the EP says that it has them; also null in hosts that are too old.
  struct Features {
    bool compile = false;
    bool kernel_registry = false;
    bool streams = false;
    bool profiler = false;
    bool ep_context = false;
  };

  Ep(const HostApi& host, std::string name, Features features);
  virtual ~Ep() = default;
  Ep(const Ep&) = delete;
  Ep& operator=(const Ep&) = delete;

  static OrtEp* release_to_host(std::unique_ptr<Ep> ep);
  static std::unique_ptr<Ep> take_back(OrtEp* ep);
  // The EP behind the host's pointer; it must be one of ours.
  static Ep* from(const OrtEp* ep) { return static_cast<Ep*>(const_cast<OrtEp*>(ep)); }

  const HostApi& host() const { return host_; }
  const std::string& name() const { return name_; }

 protected:
  virtual Status get_capability(const OrtGraph* graph, OrtEpGraphSupportInfo* support) = 0;
  // `context_node` is null when none is asked for; the host owns what is put there.
  virtual Result<std::unique_ptr<CompiledNode>> compile(const OrtGraph* graph, const OrtNode* fused_node,
                                                        OrtNode** context_node);
  virtual Result<const OrtKernelRegistry*> kernel_registry();
  virtual Result<std::unique_ptr<SyncStream>> create_stream(const OrtMemoryDevice* device);
  virtual Result<std::unique_ptr<Profiler>> create_profiler();
  // Null: the factory's allocator serves.
  virtual Result<std::unique_ptr<Allocator>> create_allocator(const OrtMemoryInfo* info) = 0;
  virtual Result<bool> is_concurrent_run_supported() = 0;
  virtual Status on_run_start(const OrtRunOptions*) { return Status(); }
  virtual Status on_run_end(const OrtRunOptions*, bool sync_stream) { return (void)sync_stream, Status(); }
  // Everything that the EP has queued is done when this returns.
  virtual Status sync() { return Status(); }
  virtual Status on_session_initialization_end() { return Status(); }
  // The information that a compiled model needs to be loaded again; "" for none.
  virtual std::string compatibility_info(const OrtGraph*) { return ""; }

 private:
  Status compile_all(const OrtGraph** graphs, const OrtNode** fused_nodes, size_t count, OrtNodeComputeInfo** infos,
                     OrtNode** context_nodes);

  const HostApi host_;
  const std::string name_;
  std::string compatibility_info_;
};

}  // namespace tenon::plugin
