// If, Loop and Scan: infers bodies from the types of their inputs and captured values.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/status.h"
#include "ops/axes.h"
#include "ops/control_flow.h"
#include "ops/shape_inference.h"
#include "ops/shape_inference_context.h"

namespace tenon::infer {
namespace {

// The body, ours alone: copies of a graph share their subgraphs, and inference writes into them.
Graph* own_body(Node& node, const char* name) {
  for (Attribute& attribute : node.attributes.edit_bodies()) {
    if (attribute.name != name || !attribute.graph) continue;
    if (attribute.graph.use_count() > 1) attribute.graph = std::make_shared<Graph>(*attribute.graph);
    return attribute.graph.get();
  }
  return nullptr;
}

void copy_type(const Value& from, Value& to) {
  to.type = from.type;
  to.is_tensor = from.is_tensor;
  to.object = from.object;
  to.has_rank = from.has_rank;
  to.dims = from.dims;
}

void copy_captures(const Graph& outer, Graph& body) {
  for (const auto& [outer_id, inner_id] : body.captures) {
    copy_type(outer.value(outer_id), body.value(inner_id));
    body.value(inner_id).constant = outer.value(outer_id).constant;
  }
}

// Leaves in `to` the shape that holds for both: equal dims stay, others become unknown.
void merge(const Value& from, Value& to) {
  if (!to.has_rank || !from.has_rank || to.dims.size() != from.dims.size()) {
    to.has_rank = false;
    to.dims.clear();
    return;
  }
  for (size_t i = 0; i < to.dims.size(); ++i)
    if (!same(to.dims[i], from.dims[i])) to.dims[i] = Dim{};
}

// A symbol inside a body may mean another number in each iteration, or nothing outside: only numbers leave.
void drop_foreign_symbols(Value& value) {
  for (Dim& dim : value.dims)
    if (!dim.known()) dim.symbol.clear();
}

Status infer_if(Context& c) {
  Node& node = c.node();
  bool first = true;
  for (const char* name : {"then_branch", "else_branch"}) {
    Graph* body = own_body(node, name);
    if (!body) continue;
    copy_captures(c.graph(), *body);
    // The branch that is not taken need not fit the shapes of this run: its failure says nothing.
    const bool fits = infer_shapes(*body).ok();
    for (size_t i = 0; i < node.outputs.size() && i < body->outputs.size(); ++i) {
      if (!c.has_output(i)) continue;
      Value inferred = body->value(body->outputs[i]);
      inferred.has_rank = inferred.has_rank && fits;
      drop_foreign_symbols(inferred);
      Value& out = c.graph().value(node.outputs[i]);
      if (first) {
        copy_type(inferred, out);
      } else {
        merge(inferred, out);
      }
    }
    first = false;
  }
  return {};
}

// Bodies in bodies are inferred again for each round of the outer one, so deep ones get a single round.
constexpr int kMaxDepthWithRounds = 3;
thread_local int loop_depth = 0;

struct LoopDepth {
  LoopDepth() { ++loop_depth; }
  ~LoopDepth() { --loop_depth; }
};

void forget_outputs(Graph& body) {
  for (ValueId id : body.outputs) {
    body.value(id).has_rank = false;
    body.value(id).dims.clear();
  }
}

void forget_carried(Graph& body, size_t first, size_t count) {
  for (size_t i = 0; i < count && first + i < body.inputs.size(); ++i) {
    Value& in = body.value(body.inputs[first + i]);
    in.has_rank = false;
    in.dims.clear();
  }
}

// Infers `body` with the carried inputs given; those whose shape changes over an iteration lose what differs, until
// nothing changes. `first` is the first carried input, `first_out` its output.
void infer_carried(Graph& body, size_t first, size_t first_out, size_t count) {
  const LoopDepth depth;
  if (loop_depth > kMaxDepthWithRounds) {
    forget_carried(body, first, count);
    // A body that does not fit leaves its outputs unknown, as any other.
    if (!infer_shapes(body).ok()) forget_outputs(body);
    return;
  }
  // Each round makes at least one dimension unknown; a few suffice, and the last one gives up the ranks.
  for (int round = 0; round < 4; ++round) {
    const bool fits = infer_shapes(body).ok();
    bool changed = false;
    for (size_t i = 0; i < count && first + i < body.inputs.size() && first_out + i < body.outputs.size(); ++i) {
      Value& in = body.value(body.inputs[first + i]);
      Value after = body.value(body.outputs[first_out + i]);
      drop_foreign_symbols(after);
      if (!in.has_rank) continue;
      Value merged = in;
      if (fits && round < 2) {
        merge(after, merged);
      } else {
        merged.has_rank = false;
        merged.dims.clear();
      }
      // A dimension that was unknown before stays unknown and is no change.
      changed = changed || merged.has_rank != in.has_rank || merged.dims != in.dims;
      in.has_rank = merged.has_rank;
      in.dims = merged.dims;
    }
    if (!changed) return;
  }
}

// One number or bool. Some models declare it as a vector of one, and get that.
void set_counter(Value& value, DataType type) {
  value.type = type;
  value.set_shape(value.has_rank && value.dims.size() == 1 ? Shape{1} : Shape());
}

std::optional<bool> constant_flag(const ConstantRef& constant) {
  if (!constant || constant->type != DataType::kBool || constant->size_bytes == 0) return std::nullopt;
  return *constant->data != std::byte{0};
}

// How often the body runs, where constants alone say so.
std::optional<int64_t> iterations(const Context& c, const Graph& body) {
  const std::optional<bool> begins = c.has(1) ? constant_flag(c.in(1).constant) : true;
  if (begins == false) return 0;
  const std::optional<bool> next = next_condition(body);
  const std::optional<std::vector<int64_t>> trips = c.values(0);
  if (!begins || !next || (c.has(0) && (!trips || trips->size() != 1))) return std::nullopt;
  if (!trips) return *next ? std::nullopt : std::optional<int64_t>(1);  // for ever, or once
  const int64_t most = std::max<int64_t>(trips->front(), 0);
  return *next ? most : std::min<int64_t>(most, 1);
}

// The length of what a Loop stacks. One that no memory can hold stays unknown: such a loop fails when it runs.
void add_length(Value& stacked, std::optional<int64_t> length) {
  if (!stacked.has_rank) return;
  if (length) {
    std::vector<int64_t> sizes = {*length};
    for (const Dim& dim : stacked.dims)
      if (dim.known()) sizes.push_back(dim.value);
    if (!checked_product(sizes)) length.reset();
  }
  stacked.dims.insert(stacked.dims.begin(), length ? Dim{.value = *length, .symbol = {}} : Dim{});
}

Status infer_loop(Context& c) {
  Node& node = c.node();
  Graph* body = own_body(node, "body");
  if (!body) return {};
  copy_captures(c.graph(), *body);
  const size_t carried = node.inputs.size() < 2 ? 0 : node.inputs.size() - 2;
  TENON_INVALID_IF(body->inputs.size() != carried + 2 || body->outputs.size() < carried + 1,
                   "The body has {} inputs and {} outputs for {} carried values.", body->inputs.size(),
                   body->outputs.size(), carried);
  set_counter(body->value(body->inputs[0]), DataType::kInt64);
  set_counter(body->value(body->inputs[1]), DataType::kBool);
  for (size_t i = 0; i < carried; ++i)
    if (c.has(i + 2)) copy_type(c.in(i + 2), body->value(body->inputs[i + 2]));
  infer_carried(*body, 2, 1, carried);
  const std::optional<int64_t> length = iterations(c, *body);
  for (size_t i = 0; i < node.outputs.size() && i + 1 < body->outputs.size(); ++i) {
    if (!c.has_output(i)) continue;
    Value& out = c.graph().value(node.outputs[i]);
    if (i < carried) {
      copy_type(body->value(body->inputs[i + 2]), out);
      drop_foreign_symbols(out);
      continue;
    }
    copy_type(body->value(body->outputs[i + 1]), out);
    drop_foreign_symbols(out);
    add_length(out, length);
  }
  return {};
}

// Version 8: everything has a batch before all other dimensions, which the body does not see.
Status infer_batched_scan(Context& c, const ScanDesc& scan, Graph& body) {
  Node& node = c.node();
  const size_t own = node.inputs.size() - 1, states = scan.states;  // the first one has the lengths
  TENON_INVALID_IF(body.outputs.size() < states, "The body has {} outputs for {} states.", body.outputs.size(), states);
  Dim batch, length;
  for (size_t i = 0; i < own; ++i) {
    if (!c.has(i + 1)) continue;
    Value& in = body.value(body.inputs[i]);
    copy_type(c.in(i + 1), in);
    const size_t taken = i < states ? 1 : 2;
    if (!in.has_rank) continue;
    TENON_INVALID_IF(in.dims.size() < taken, "Input {} has {} dimensions, not {} or more.", i + 1, in.dims.size(),
                     taken);
    if (!batch.known()) batch = in.dims[0];
    if (taken == 2 && !length.known()) length = in.dims[1];
    in.dims.erase(in.dims.begin(), in.dims.begin() + static_cast<std::ptrdiff_t>(taken));
  }
  infer_carried(body, 0, 0, states);
  for (size_t i = 0; i < node.outputs.size() && i < body.outputs.size(); ++i) {
    if (!c.has_output(i)) continue;
    Value& out = c.graph().value(node.outputs[i]);
    copy_type(i < states ? body.value(body.inputs[i]) : body.value(body.outputs[i]), out);
    drop_foreign_symbols(out);
    if (!out.has_rank) continue;
    if (i >= states) out.dims.insert(out.dims.begin(), length);
    out.dims.insert(out.dims.begin(), batch);
  }
  return {};
}

Status infer_scan(Context& c) {
  Node& node = c.node();
  Graph* body = own_body(node, "body");
  if (!body) return {};
  copy_captures(c.graph(), *body);
  TENON_TRY_ASSIGN(const ScanDesc scan, read_scan(node, node.inputs.size()));
  TENON_INVALID_IF(body->inputs.size() != node.inputs.size() - scan.first_state,
                   "A Scan of {} inputs has a body with {}.", node.inputs.size() - scan.first_state,
                   body->inputs.size());
  if (scan.batched) return infer_batched_scan(c, scan, *body);
  const size_t states = scan.states;
  TENON_INVALID_IF(body->outputs.size() < states, "The body has {} outputs for {} states.", body->outputs.size(),
                   states);
  Dim length;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!c.has(i)) continue;
    Value& in = body->value(body->inputs[i]);
    copy_type(c.in(i), in);
    if (i < states || !in.has_rank) continue;
    TENON_TRY_ASSIGN(const int axis, normalized_axis(scan.inputs[i - states].axis, static_cast<int>(in.dims.size())));
    const Dim& dim = in.dims[axis];
    TENON_INVALID_IF(length.known() && dim.known() && length.value != dim.value,
                     "The scanned inputs have lengths {} and {}.", length.value, dim.value);
    if (!length.known()) length = dim;
    in.dims.erase(in.dims.begin() + axis);
  }
  infer_carried(*body, 0, 0, states);
  for (size_t i = 0; i < node.outputs.size() && i < body->outputs.size(); ++i) {
    if (!c.has_output(i)) continue;
    Value& out = c.graph().value(node.outputs[i]);
    copy_type(i < states ? body->value(body->inputs[i]) : body->value(body->outputs[i]), out);
    drop_foreign_symbols(out);
    if (i < states || !out.has_rank) continue;
    TENON_TRY_ASSIGN(const int axis,
                     normalized_axis(scan.outputs[i - states].axis, static_cast<int>(out.dims.size()) + 1));
    out.dims.insert(out.dims.begin() + axis, length);
  }
  return {};
}

// A part of the graph that an EP runs as one node: the symbols inside are those outside. What the body declares about
// operators that nobody here knows stays, for a region that is nothing else (EPContext) has no other source of shapes.
Status infer_region(Context& c) {
  Node& node = c.node();
  Graph* body = own_body(node, "body");
  if (!body) return {};
  for (size_t i = 0; i < node.inputs.size() && i < body->inputs.size(); ++i) {
    if (c.has(i)) copy_type(c.in(i), body->value(body->inputs[i]));
    if (c.has(i) && c.in(i).constant) body->value(body->inputs[i]).constant = c.in(i).constant;
  }
  TENON_TRY(infer_shapes(*body));
  for (size_t i = 0; i < node.outputs.size() && i < body->outputs.size(); ++i) {
    if (c.has_output(i)) copy_type(body->value(body->outputs[i]), c.graph().value(node.outputs[i]));
  }
  return {};
}

constexpr Row kRegionRows[] = {
    {"Region", &infer_region},
};

constexpr Row kRows[] = {
    {"If", &infer_if},
    {"Loop", &infer_loop},
    {"Scan", &infer_scan},
};

// GreedySearch, Sampling, BeamSearch: what bodies declare of their inputs says what they make.
Status infer_search(Context& c) {
  Node& node = c.node();
  for (const char* name : {"decoder", "encoder", "init_decoder"}) {
    Graph* body = own_body(node, name);
    if (body == nullptr) continue;
    copy_captures(c.graph(), *body);
    TENON_TRY_CONTEXT(infer_shapes(*body), "in attribute \"{}\"", name);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i)
    if (c.has_output(i)) c.set_type(i, i == 0 ? DataType::kInt32 : DataType::kFloat);
  return {};
}
constexpr Row kSearchRows[] = {{"BeamSearch", &infer_search},
                               {"GreedySearch", &infer_search},
                               {"Sampling", &infer_search},
                               {"WhisperBeamSearch", &infer_search}};

}  // namespace

std::span<const Row> control_rows() { return kRows; }
std::span<const Row> contrib_search_rows() { return kSearchRows; }
std::span<const Row> region_rows() { return kRegionRows; }

}  // namespace tenon::infer

namespace tenon {

std::optional<bool> next_condition(const Graph& body) {
  if (body.inputs.size() < 2 || body.outputs.empty()) return std::nullopt;
  ValueId id = body.outputs[0];
  for (bool moved = true; moved;) {
    moved = false;
    if (const ConstantRef& constant = body.value(id).constant) return infer::constant_flag(constant);
    if (id == body.inputs[1]) return true;
    for (const Node& node : body.nodes) {
      if (node.op_type != "Identity" || !node.domain.empty() || node.outputs[0] != id) continue;
      id = node.inputs[0];
      moved = true;
      break;
    }
  }
  return std::nullopt;
}

}  // namespace tenon
