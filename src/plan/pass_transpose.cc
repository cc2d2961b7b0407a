// Takes Transposes out between which only operators stand that do not care for the order of dimensions. Models that
// keep their channels last have them around every convolution, with an activation, a factor or a mean in between.
//
// For a permutation p, the operators behind Transpose(p) are moved before it as far as that leaves fewer elements to
// transpose: Transpose(p), Relu, Transpose(inverse of p) becomes Relu. What else is read of a moved operator gets a
// Transpose of its own. Which operators move is a cut of the graph; it is found by taking operators out again, from all
// that could move, while that makes the cut smaller, and by leaving alone each group that gains nothing.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "ops/transpose.h"
#include "plan/passes.h"
#include "plan/permuted_node.h"

namespace tenon {
namespace {

using Perm = std::vector<int64_t>;

Perm inverse_of(const Perm& perm) {
  Perm inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[perm[i]] = static_cast<int64_t>(i);
  return inverse;
}

// A Transpose's permutation; nullopt where the rank is not known.
std::optional<Perm> perm_of(const Rewriter& rewriter, const Node& node) {
  if (!node.domain.empty() || node.op_type != "Transpose" || node.input(0) == kNoValue) return std::nullopt;
  const Value& x = rewriter.value(node.inputs[0]);
  if (!x.has_rank) return std::nullopt;
  Result<Perm> perm = read_perm(node, static_cast<int>(x.dims.size()));
  return perm.ok() ? std::optional(*std::move(perm)) : std::nullopt;
}

class Mover {
 public:
  Mover(Rewriter& rewriter, PerNode<std::optional<Perm>>& transposes)
      : rewriter_(rewriter),
        transposes_(transposes),
        moves_(rewriter.graph().nodes.size()),
        readers_(rewriter.graph().values.size()),
        captured_(rewriter.graph().values.size(), false) {
    const auto add = [&](NodeId id, ValueId value) {
      if (value != kNoValue && (readers_[value].empty() || readers_[value].back() != id)) readers_[value].push_back(id);
    };
    for (NodeId id : rewriter.ids()) {
      for (ValueId input : rewriter.node(id).inputs) add(id, input);
      for (const Attribute& attribute : rewriter.node(id).attributes) {
        if (!attribute.graph) continue;
        for (const auto& [outer, inner] : attribute.graph->captures) {
          add(id, outer);
          captured_[outer] = true;
        }
      }
    }
  }

  // The operators to move before Transposes with `perm`. False: none.
  bool find(const Perm& perm);
  void move();

 private:
  bool moves(NodeId id) const { return moves_[id].has_value(); }
  bool moves_data(NodeId id, ValueId value) const;
  bool is(NodeId id, const Perm& perm) const { return transposes_[id] && *transposes_[id] == perm; }
  bool is_entry(NodeId id) const;
  bool comes_before(ValueId id) const;
  int64_t elements(ValueId id) const;
  int64_t cost(ValueId id) const;
  int64_t cost_around(std::span<const NodeId> nodes) const;
  void grow();
  void shrink();
  void leave_groups_without_gain();
  std::vector<NodeId> group_of(NodeId first, PerNode<bool>& seen) const;

  ValueId current(ValueId id) const;
  ValueId permuted(NodeId reader, ValueId id);
  void move_node(NodeId id);

  Rewriter& rewriter_;
  const PerNode<std::optional<Perm>>& transposes_;
  Perm perm_, back_;
  PerNode<std::optional<PermutedNode>> moves_;
  PerValue<std::vector<NodeId>> readers_;
  PerValue<bool> captured_;              // read in a body
  std::vector<NodeId> found_;            // those that move, in the graph's order
  std::map<ValueId, ValueId> permuted_;  // what a value is in the order of moved operators
  std::map<ValueId, ValueId> instead_;   // what is read instead of outputs of Transposes that went
};

// Whether node `id`, which moves, reads `value` in the other order.
bool Mover::moves_data(NodeId id, ValueId value) const {
  const Node& node = rewriter_.node(id);
  return moves(id) && std::any_of(moves_[id]->data.begin(), moves_[id]->data.end(),
                                  [&](size_t input) { return node.inputs[input] == value; });
}

// Whether the node is a Transpose whose readers can move before it. One that is its own inverse may undo what moved
// already.
bool Mover::is_entry(NodeId id) const {
  if (!is(id, perm_)) return false;
  if (perm_ != back_) return true;
  const NodeId maker = rewriter_.producer_id(rewriter_.node(id).inputs[0]);
  return !maker.valid() || !moves(maker) || !moves_[maker]->permutes_outputs;
}

// Whether the value is there in the order of before the Transposes.
bool Mover::comes_before(ValueId id) const {
  const NodeId maker = rewriter_.producer_id(id);
  return maker.valid() && (is_entry(maker) || (moves(maker) && moves_[maker]->permutes_outputs));
}

int64_t Mover::elements(ValueId id) const {
  constexpr int64_t kOfUnknownSize = 64;
  int64_t count = 1;
  for (const Dim& dim : rewriter_.value(id).dims) {
    const std::optional<int64_t> product = checked_mul(count, dim.known() ? dim.value : kOfUnknownSize);
    if (!product) return INT64_MAX / 1024;
    count = *product;
  }
  return std::min(count, INT64_MAX / 1024);
}

// Elements to transpose because a value is read in another order than it is made.
int64_t Mover::cost(ValueId id) const {
  const bool before = comes_before(id);
  bool differs = before && rewriter_.is_output(id);
  for (NodeId reader : readers_[id]) differs = differs || (is(reader, back_) || moves_data(reader, id)) != before;
  return differs ? elements(id) : 0;
}

// Of all values that the nodes read or make, each once.
int64_t Mover::cost_around(std::span<const NodeId> nodes) const {
  std::vector<ValueId> values;
  const auto add = [&](ValueId id) {
    if (id != kNoValue && rewriter_.constant(id) == nullptr && rewriter_.value(id).has_rank &&
        rewriter_.value(id).dims.size() == perm_.size())
      values.push_back(id);
  };
  for (NodeId id : nodes) {
    const Node& node = rewriter_.node(id);
    for (ValueId input : node.inputs) add(input);
    for (ValueId output : node.outputs) {
      add(output);
      if (output == kNoValue || perm_ != back_) continue;
      for (NodeId reader : readers_[output])
        if (is(reader, perm_)) add(rewriter_.node(reader).outputs[0]);
    }
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  int64_t sum = 0;
  for (ValueId value : values) sum += cost(value);
  return sum;
}

// All operators that could move.
void Mover::grow() {
  found_.clear();
  for (NodeId id : rewriter_.ids()) {
    if (rewriter_.erased(id) || transposes_[id]) continue;
    const Node& node = rewriter_.node(id);
    const bool reached = std::any_of(node.inputs.begin(), node.inputs.end(),
                                     [&](ValueId in) { return in != kNoValue && comes_before(in); });
    if (!reached) continue;
    std::optional<PermutedNode> permuted = permuted_node(rewriter_, node, perm_);
    const auto fits = [&](size_t input) {
      return permuted_input(rewriter_, node.inputs[input], perm_.size()).has_value();
    };
    const auto full = [&](ValueId out) {
      return out == kNoValue || (rewriter_.value(out).has_rank && rewriter_.value(out).dims.size() == perm_.size());
    };
    if (!permuted || !std::all_of(permuted->data.begin(), permuted->data.end(), fits)) continue;
    if (permuted->permutes_outputs && !std::all_of(node.outputs.begin(), node.outputs.end(), full)) continue;
    // A shape that is computed, such as an Expand's, has no other order.
    const bool only_data = std::all_of(permuted->data.begin(), permuted->data.end(), [&](size_t input) {
      return std::count(node.inputs.begin(), node.inputs.end(), node.inputs[input]) ==
             std::count_if(permuted->data.begin(), permuted->data.end(),
                           [&](size_t other) { return node.inputs[other] == node.inputs[input]; });
    });
    if (!only_data) continue;
    moves_[id] = std::move(permuted);
    found_.push_back(id);
  }
}

// Takes operators out while that leaves fewer elements to transpose.
void Mover::shrink() {
  for (bool changed = true; changed;) {
    changed = false;
    for (auto id = found_.rbegin(); id != found_.rend(); ++id) {
      if (!moves(*id)) continue;
      const int64_t with = cost_around(std::span(&*id, 1));
      std::optional<PermutedNode> kept = std::exchange(moves_[*id], std::nullopt);
      if (cost_around(std::span(&*id, 1)) < with) {
        changed = true;
      } else {
        moves_[*id] = std::move(kept);
      }
    }
  }
}

// Moved operators that are connected by values in the other order.
std::vector<NodeId> Mover::group_of(NodeId first, PerNode<bool>& seen) const {
  std::vector<NodeId> group{first};
  seen[first] = true;
  const auto add = [&](NodeId id) {
    if (!id.valid() || !moves(id) || seen[id]) return;
    seen[id] = true;
    group.push_back(id);
  };
  for (size_t i = 0; i < group.size(); ++i) {
    const Node& node = rewriter_.node(group[i]);
    for (ValueId input : node.inputs)
      if (input != kNoValue) add(rewriter_.producer_id(input));
    for (ValueId output : node.outputs)
      if (output != kNoValue)
        for (NodeId reader : readers_[output]) add(reader);
    // Siblings behind one Transpose.
    for (ValueId input : node.inputs)
      if (input != kNoValue && comes_before(input))
        for (NodeId reader : readers_[input]) add(reader);
  }
  return group;
}

void Mover::leave_groups_without_gain() {
  PerNode<bool> seen(moves_.size(), false);
  for (NodeId id : found_) {
    if (!moves(id) || seen[id]) continue;
    const std::vector<NodeId> group = group_of(id, seen);
    const int64_t with = cost_around(group);
    std::vector<std::optional<PermutedNode>> kept;
    kept.reserve(group.size());
    for (NodeId member : group) kept.push_back(std::exchange(moves_[member], std::nullopt));
    if (cost_around(group) <= with) continue;
    for (size_t i = 0; i < group.size(); ++i) moves_[group[i]] = std::move(kept[i]);
  }
  std::erase_if(found_, [&](NodeId id) { return !moves(id); });
}

bool Mover::find(const Perm& perm) {
  perm_ = perm;
  back_ = inverse_of(perm);
  std::fill(moves_.begin(), moves_.end(), std::nullopt);
  grow();
  shrink();
  leave_groups_without_gain();
  return !found_.empty();
}

// The value that a reader in the graph's own order reads.
ValueId Mover::current(ValueId id) const {
  const auto found = instead_.find(id);
  return found == instead_.end() ? id : found->second;
}

// A value in the order of moved operators, for `reader`.
ValueId Mover::permuted(NodeId reader, ValueId id) {
  const std::optional<PermutedInput> how = permuted_input(rewriter_, id, perm_.size());
  if (*how == PermutedInput::kSame) return id;
  if (const auto known = permuted_.find(id); known != permuted_.end()) return known->second;
  const Value value = rewriter_.value(id);
  Value other = value;
  other.name += ":permuted";
  const size_t missing = perm_.size() - value.dims.size();
  for (size_t i = 0; i < missing; ++i) other.dims.insert(other.dims.begin(), Dim{.value = 1, .symbol = ""});
  const std::vector<Dim> dims = other.dims;
  for (size_t i = 0; i < perm_.size(); ++i) other.dims[perm_[i]] = dims[i];
  ValueId made;
  if (*how == PermutedInput::kConstant) {
    auto constant = std::make_shared<Constant>(*value.constant);
    constant->shape = other.shape();
    made = rewriter_.add_constant(std::move(other.name), std::move(constant));
  } else if (const NodeId maker = rewriter_.producer_id(id); maker.valid() && is_entry(maker)) {
    made = current(rewriter_.node(maker).inputs[0]);
  } else {
    other.constant = nullptr;
    const std::string name = other.name;
    made = rewriter_.add_value(std::move(other));
    Node transpose = make_node("Transpose", 13, name, {current(id)}, {made});
    transpose.set_ints("perm", back_);
    rewriter_.insert_before(reader, std::move(transpose));
  }
  return permuted_[id] = made;
}

void Mover::move_node(NodeId id) {
  const PermutedNode& move = *moves_[id];
  Node moved = move.node;
  for (size_t input : move.data) moved.inputs[input] = permuted(id, rewriter_.node(id).inputs[input]);
  for (size_t i = 0; i < moved.inputs.size(); ++i)
    if (std::find(move.data.begin(), move.data.end(), i) == move.data.end()) moved.inputs[i] = current(moved.inputs[i]);
  for (const auto& [input, constant] : move.constants) {
    if (moved.inputs.size() <= input) moved.inputs.resize(input + 1, kNoValue);
    const std::string name = moved.outputs[0] == kNoValue ? "" : rewriter_.value(moved.outputs[0]).name;
    moved.inputs[input] = rewriter_.add_constant(name + ":permuted" + std::to_string(input), constant);
  }
  std::vector<NodeId> gone;
  std::vector<Node> back;  // for readers in the order of before
  for (ValueId& out : moved.outputs) {
    if (!move.permutes_outputs || out == kNoValue) continue;
    const ValueId old = out;
    bool read_as_before = rewriter_.is_output(old);
    ValueId made = kNoValue;
    for (NodeId reader : readers_[old]) {
      if (rewriter_.erased(reader) || moves_data(reader, old)) continue;
      const ValueId turned = is(reader, back_) ? rewriter_.node(reader).outputs[0] : kNoValue;
      if (turned == kNoValue || (made != kNoValue && (rewriter_.is_output(turned) || captured_[turned]))) {
        read_as_before = true;
        continue;
      }
      gone.push_back(reader);
      if (made == kNoValue) {
        made = turned;
      } else {
        instead_[turned] = made;
      }
    }
    if (made == kNoValue) {
      Value value = rewriter_.value(old);
      value.name += ":permuted";
      const std::vector<Dim> dims = value.dims;
      for (size_t i = 0; i < perm_.size(); ++i) value.dims[perm_[i]] = dims[i];
      made = rewriter_.add_value(std::move(value));
    }
    permuted_[old] = made;
    out = made;
    if (!read_as_before) continue;
    Node transpose = make_node("Transpose", 13, rewriter_.value(made).name, {made}, {old});
    transpose.set_ints("perm", perm_);
    back.push_back(std::move(transpose));
  }
  if (back.empty()) {
    rewriter_.replace(id, std::move(moved));
  } else {
    rewriter_.insert_before(id, std::move(moved));
    for (size_t i = 0; i + 1 < back.size(); ++i) rewriter_.insert_before(id, std::move(back[i]));
    rewriter_.replace(id, std::move(back.back()));
  }
  for (NodeId reader : gone) rewriter_.erase(reader);
}

void Mover::move() {
  for (NodeId id : rewriter_.ids()) {
    if (rewriter_.erased(id)) continue;
    if (moves(id)) {
      move_node(id);
      continue;
    }
    const Node& node = rewriter_.node(id);
    if (std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId in) { return current(in) == in; })) continue;
    Node changed = node;
    for (ValueId& input : changed.inputs) input = current(input);
    rewriter_.replace(id, std::move(changed));
  }
}

// The permutations of the graph's Transposes, each once.
std::vector<Perm> different(const PerNode<std::optional<Perm>>& transposes) {
  std::vector<Perm> perms;
  for (const std::optional<Perm>& perm : transposes)
    if (perm && std::find(perms.begin(), perms.end(), *perm) == perms.end()) perms.push_back(*perm);
  return perms;
}

}  // namespace

Status pass_move_transposes(Graph& graph, const PassOptions&) {
  std::vector<Perm> done;
  for (;;) {
    Rewriter rewriter(graph);
    PerNode<std::optional<Perm>> transposes(graph.nodes.size());
    for (NodeId id : rewriter.ids()) transposes[id] = perm_of(rewriter, rewriter.node(id));
    std::vector<Perm> perms = different(transposes);
    std::erase_if(perms, [&](const Perm& perm) { return std::find(done.begin(), done.end(), perm) != done.end(); });
    if (perms.empty()) return {};
    Mover mover(rewriter, transposes);
    const auto found = std::find_if(perms.begin(), perms.end(), [&](const Perm& perm) {
      done.push_back(perm);
      return mover.find(perm);
    });
    if (found == perms.end()) return {};
    mover.move();
    rewriter.finish();
  }
}

}  // namespace tenon
