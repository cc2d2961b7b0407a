// Graphs of the fake driver: captured work, child graphs, waits and signals of semaphores.
//
// Its rules are the driver's: a node depends on nodes of its own graph; an executable graph is a snapshot, whose
// semaphores and values change by node, never their number, and only for later launches; launches of one follow each
// other; one that is destroyed while it runs goes afterwards.
#include <algorithm>

#include "ep/cuda/fake/fake_state.h"

namespace tenon::cuda::fake {

namespace {

struct Node {
  enum class Kind : uint8_t { kWork, kChild, kWait, kSignal } kind = Kind::kWork;
  FakeStream::Queued work;
  std::vector<std::shared_ptr<Node>> child;
  std::vector<CUexternalSemaphore> semaphores;
  std::vector<CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS> waits;
  std::vector<CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS> signals;
};
using Nodes = std::vector<std::shared_ptr<Node>>;  // in an order that their dependencies allow

struct Exec {
  std::map<const Node*, std::shared_ptr<Node>> by_node;  // this graph's own copy of each
  Nodes nodes;
  struct Launches {
    uint64_t begun = 0;
    uint64_t ended = 0;
  };
  std::shared_ptr<Launches> launches = std::make_shared<Launches>();
};

// With the state's lock held.
struct Graphs {
  std::map<Nodes*, std::unique_ptr<Nodes>> graphs;
  std::map<Exec*, std::shared_ptr<Exec>> execs;
};
Graphs& graphs() {
  static Graphs* const all = new Graphs;
  return *all;
}

Nodes* find_graph(CUgraph graph) {
  {
    const std::lock_guard lock(state().mutex);
    const auto found = graphs().graphs.find(reinterpret_cast<Nodes*>(graph));
    if (found != graphs().graphs.end()) return found->second.get();
  }
  violation("Something is used as a graph that is none.");
  return nullptr;
}

std::shared_ptr<Exec> find_exec(CUgraphExec exec) {
  {
    const std::lock_guard lock(state().mutex);
    const auto found = graphs().execs.find(reinterpret_cast<Exec*>(exec));
    if (found != graphs().execs.end()) return found->second;
  }
  violation("Something is used as an executable graph that is none.");
  return nullptr;
}

CUgraph add_graph(Nodes nodes) {
  auto graph = std::make_unique<Nodes>(std::move(nodes));
  Nodes* const key = graph.get();
  const std::lock_guard lock(state().mutex);
  graphs().graphs[key] = std::move(graph);
  ++state().graphs;
  return reinterpret_cast<CUgraph>(key);
}

CUresult add_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count, Node node) {
  Nodes* const nodes = find_graph(graph);
  if (nodes == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (size_t i = 0; i < count; ++i) {
    const bool known = std::any_of(nodes->begin(), nodes->end(), [&](const auto& other) {
      return reinterpret_cast<CUgraphNode>(other.get()) == dependencies[i];
    });
    if (!known) return CUDA_ERROR_INVALID_VALUE;
  }
  // A node that waits for less than all before it might run beside them; here nothing does.
  if (count == 0 && !nodes->empty()) return CUDA_ERROR_NOT_SUPPORTED;
  nodes->push_back(std::make_shared<Node>(std::move(node)));
  *out = reinterpret_cast<CUgraphNode>(nodes->back().get());
  return CUDA_SUCCESS;
}

CUresult CUDAAPI begin_capture(CUstream stream, CUstreamCaptureMode) {
  TENON_FAKE_CONTEXT("cuStreamBeginCapture");
  const auto found = find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return found->begin_capture() ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_STATE;
}

CUresult CUDAAPI end_capture(CUstream stream, CUgraph* out) {
  TENON_FAKE_CONTEXT("cuStreamEndCapture");
  const auto found = find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!found->capturing()) return CUDA_ERROR_ILLEGAL_STATE;
  Nodes nodes;
  for (FakeStream::Queued& work : found->end_capture())
    nodes.push_back(std::make_shared<Node>(Node{.work = std::move(work)}));
  *out = add_graph(std::move(nodes));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI graph_create(CUgraph* out, unsigned flags) {
  TENON_FAKE_CONTEXT("cuGraphCreate");
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *out = add_graph({});
  return CUDA_SUCCESS;
}

CUresult CUDAAPI graph_destroy(CUgraph graph) {
  TENON_FAKE_CONTEXT("cuGraphDestroy");
  Nodes* const nodes = find_graph(graph);
  if (nodes == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::lock_guard lock(state().mutex);
  graphs().graphs.erase(nodes);
  --state().graphs;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI add_child(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                           CUgraph child) {
  TENON_FAKE_CONTEXT("cuGraphAddChildGraphNode");
  const Nodes* const nodes = find_graph(child);
  if (nodes == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return add_node(out, graph, dependencies, count, {.kind = Node::Kind::kChild, .child = *nodes});
}

template <typename Parameters>
bool set_parameters(Node& node, const Parameters* parameters) {
  if (parameters == nullptr || parameters->numExtSems == 0) return false;
  node.semaphores.assign(parameters->extSemArray, parameters->extSemArray + parameters->numExtSems);
  const auto assign = [&](auto& to) {
    to.assign(parameters->paramsArray, parameters->paramsArray + parameters->numExtSems);
  };
  if constexpr (std::is_same_v<Parameters, CUDA_EXT_SEM_WAIT_NODE_PARAMS>)
    assign(node.waits);
  else
    assign(node.signals);
  return true;
}

CUresult CUDAAPI add_wait(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                          const CUDA_EXT_SEM_WAIT_NODE_PARAMS* parameters) {
  TENON_FAKE_CONTEXT("cuGraphAddExternalSemaphoresWaitNode");
  Node node{.kind = Node::Kind::kWait};
  if (!set_parameters(node, parameters)) return CUDA_ERROR_INVALID_VALUE;
  return add_node(out, graph, dependencies, count, std::move(node));
}

CUresult CUDAAPI add_signal(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                            const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS* parameters) {
  TENON_FAKE_CONTEXT("cuGraphAddExternalSemaphoresSignalNode");
  Node node{.kind = Node::Kind::kSignal};
  if (!set_parameters(node, parameters)) return CUDA_ERROR_INVALID_VALUE;
  return add_node(out, graph, dependencies, count, std::move(node));
}

CUresult CUDAAPI instantiate(CUgraphExec* out, CUgraph graph, unsigned long long /*flags*/) {
  TENON_FAKE_CONTEXT("cuGraphInstantiateWithFlags");
  const Nodes* const nodes = find_graph(graph);
  if (nodes == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  auto exec = std::make_shared<Exec>();
  for (const auto& node : *nodes) {
    exec->nodes.push_back(std::make_shared<Node>(*node));
    exec->by_node[node.get()] = exec->nodes.back();
  }
  *out = reinterpret_cast<CUgraphExec>(exec.get());
  const std::lock_guard lock(state().mutex);
  Exec* const key = exec.get();
  graphs().execs[key] = std::move(exec);
  ++state().graphs;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI exec_destroy(CUgraphExec exec) {
  TENON_FAKE_CONTEXT("cuGraphExecDestroy");
  const auto found = find_exec(exec);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::lock_guard lock(state().mutex);
  graphs().execs.erase(found.get());
  --state().graphs;
  return CUDA_SUCCESS;
}

template <typename Parameters>
CUresult set_node(CUgraphExec exec, CUgraphNode node, Node::Kind kind, const Parameters* parameters) {
  const auto found = find_exec(exec);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const auto own = found->by_node.find(reinterpret_cast<const Node*>(node));
  if (own == found->by_node.end() || own->second->kind != kind) return CUDA_ERROR_INVALID_VALUE;
  if (parameters == nullptr || parameters->numExtSems != own->second->semaphores.size())
    return CUDA_ERROR_INVALID_VALUE;
  return set_parameters(*own->second, parameters) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI set_wait(CUgraphExec exec, CUgraphNode node, const CUDA_EXT_SEM_WAIT_NODE_PARAMS* parameters) {
  TENON_FAKE_CONTEXT("cuGraphExecExternalSemaphoresWaitNodeSetParams");
  return set_node(exec, node, Node::Kind::kWait, parameters);
}

CUresult CUDAAPI set_signal(CUgraphExec exec, CUgraphNode node, const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS* parameters) {
  TENON_FAKE_CONTEXT("cuGraphExecExternalSemaphoresSignalNodeSetParams");
  return set_node(exec, node, Node::Kind::kSignal, parameters);
}

CUresult queue_nodes(FakeStream& stream, const Nodes& nodes) {
  for (const auto& node : nodes) {
    CUresult queued = CUDA_SUCCESS;
    switch (node->kind) {
      case Node::Kind::kWork:
        stream.queue(node->work.first, node->work.second);
        break;
      case Node::Kind::kChild:
        queued = queue_nodes(stream, node->child);
        break;
      case Node::Kind::kWait:
        queued = queue_semaphore_waits(stream, node->semaphores, node->waits);
        break;
      case Node::Kind::kSignal:
        queued = queue_semaphore_signals(stream, node->semaphores, node->signals);
        break;
    }
    if (queued != CUDA_SUCCESS) return queued;
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI launch(CUgraphExec exec, CUstream stream) {
  TENON_FAKE_CONTEXT("cuGraphLaunch");
  const auto found = find_exec(exec);
  const auto queue = find_stream(stream);
  if (found == nullptr || queue == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const auto launches = found->launches;
  uint64_t before = 0;
  {
    const std::lock_guard lock(state().mutex);
    before = launches->begun++;
  }
  queue->queue(
      [launches, before] {
        std::unique_lock lock(state().mutex);
        state().changed.wait(lock, [&] { return launches->ended >= before; });
        return CUDA_SUCCESS;
      },
      true);
  const CUresult queued = queue_nodes(*queue, found->nodes);
  queue->queue(
      [launches, before] {
        {
          const std::lock_guard lock(state().mutex);
          launches->ended = before + 1;
        }
        state().changed.notify_all();
        return CUDA_SUCCESS;
      },
      true);
  return queued;
}

}  // namespace

void add_graph_functions(Table& table) {
  add_function(table, "cuStreamBeginCapture", &begin_capture);
  add_function(table, "cuStreamEndCapture", &end_capture);
  add_function(table, "cuGraphCreate", &graph_create);
  add_function(table, "cuGraphDestroy", &graph_destroy);
  add_function(table, "cuGraphAddChildGraphNode", &add_child);
  add_function(table, "cuGraphAddExternalSemaphoresWaitNode", &add_wait);
  add_function(table, "cuGraphAddExternalSemaphoresSignalNode", &add_signal);
  add_function(table, "cuGraphInstantiateWithFlags", &instantiate);
  add_function(table, "cuGraphExecDestroy", &exec_destroy);
  add_function(table, "cuGraphExecExternalSemaphoresWaitNodeSetParams", &set_wait);
  add_function(table, "cuGraphExecExternalSemaphoresSignalNodeSetParams", &set_signal);
  add_function(table, "cuGraphLaunch", &launch);
}

}  // namespace tenon::cuda::fake
