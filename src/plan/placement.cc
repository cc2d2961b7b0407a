#include "plan/placement.h"

#include <algorithm>
#include <map>
#include <utility>

#include "device/memory_space.h"
#include "ops/attributes.h"
#include "plan/kernel_node.h"
#include "plan/views.h"

namespace tenon {

namespace {

// A memory that a value may live in: the table's space, and what is known of this value's address there.
struct Memory {
  SpaceId space = kHostSpace;
  MemorySpace as;
};

class Placer {
 public:
  Placer(Graph& graph, std::span<const OutputSlot> output_slots, const Providers& providers, const SpaceTable& table,
         const BoundSpaces& bound, const KernelNode& base)
      : graph_(graph), slots_(output_slots), providers_(providers), table_(table), bound_(bound), base_(base) {}

  Result<Placement> run() {
    TENON_TRY(collect());
    for (ValueId id : classes_.ids()) {
      if (root_[id] == id) classes_[id].memory = choose(classes_[id]);
    }
    TENON_TRY(rewrite());
    for (ValueId id : graph_.values.ids()) placement_.space.push_back(memory_of(id).space);
    return std::move(placement_);
  }

 private:
  // A value with the views of its whole: they share their memory.
  struct Class {
    Memory memory;
    SpaceId made = kHostSpace;  // where its maker wants to write it
    bool fixed = false;
    bool dynamic = false;
    std::vector<SpaceId> wants;
    std::vector<MemorySpace> outputs;
  };

  Class& class_of(ValueId id) { return classes_[root_[id]]; }
  const Memory& memory_of(ValueId id) { return class_of(id).memory; }
  Memory planned(SpaceId space) const { return {space, table_.at(space)}; }
  bool usable(const Memory& from, SpaceId wanted) const {
    return devices_are_memory_compatible(from.as, table_.at(wanted));
  }

  bool is_whole_view(const Node& node) const {
    if (ep_of(node) != kCpuEp || node.input(0) == kNoValue || graph_.value(node.inputs[0]).constant) return false;
    const std::vector<size_t> offsets = view_offsets(graph_, node);
    return offsets.size() == 1 && offsets[0] == 0 &&
           spec_of(graph_.value(node.inputs[0])).size_bytes() == spec_of(graph_.value(node.outputs[0])).size_bytes();
  }

  const std::optional<MemorySpace>* bound_output(size_t i) const {
    if (!slots_[i].valid() || slots_[i].index() >= bound_.outputs.size()) return nullptr;
    const std::optional<MemorySpace>& space = bound_.outputs[slots_[i].index()];
    return space ? &space : nullptr;
  }

  Status collect() {
    classes_.resize(graph_.values.size());
    for (ValueId id : graph_.values.ids()) {
      root_.push_back(id);
      classes_[id].memory = planned(kHostSpace);
      classes_[id].fixed = graph_.value(id).constant != nullptr;
      classes_[id].dynamic = !graph_.value(id).fully_known();
    }
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      Class& input = class_of(graph_.inputs[i]);
      input.fixed = true;
      if (bound_.inputs.empty()) continue;
      input.memory = {table_.find(bound_.inputs[i]), bound_.inputs[i]};
      TENON_UNSUPPORTED_IF(!input.memory.space.valid(),
                           "Input \"{}\" lives in {}, which neither the host nor an EP of the session can address.",
                           graph_.value(graph_.inputs[i]).name, bound_.inputs[i].to_string());
    }
    wanted_.resize(graph_.nodes.size());
    for (NodeId n : graph_.nodes.ids()) TENON_TRY(collect(n));
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      if (const auto* space = bound_output(i)) class_of(graph_.outputs[i]).outputs.push_back(**space);
    }
    return {};
  }

  Status collect(NodeId n) {
    const Node& node = graph_.nodes[n];
    if (is_whole_view(node)) {
      root_[node.outputs[0]] = root_[node.inputs[0]];
      return {};
    }
    std::vector<SpaceId>& wanted = wanted_[n];
    wanted.assign(node.inputs.size(), kHostSpace);
    std::vector<SpaceId> made(node.outputs.size(), kHostSpace);
    if (const EpId ep = ep_of(node); ep != kCpuEp) {
      const auto& provider = *providers_.devices[ep];
      const KernelNodeData data(graph_, node, base_);
      TENON_TRY_ASSIGN(const SpaceChoice choice, chosen_spaces(provider, data.view));
      for (size_t i = 0; i < wanted.size(); ++i) {
        TENON_TRY_ASSIGN(wanted[i], table_.choice(provider, ep, choice.inputs[i]));
      }
      for (size_t o = 0; o < made.size(); ++o) {
        TENON_TRY_ASSIGN(made[o], table_.choice(provider, ep, choice.outputs[o]));
      }
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (id == kNoValue || graph_.value(id).constant) continue;
      std::vector<SpaceId>& wants = class_of(id).wants;
      if (std::find(wants.begin(), wants.end(), wanted[i]) == wants.end()) wants.push_back(wanted[i]);
    }
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.outputs[o] != kNoValue) class_of(node.outputs[o]).made = made[o];
    }
    return {};
  }

  // The caller's output can be the value's own memory.
  bool written_in_place(const Class& one, const Memory& memory, const MemorySpace& output) const {
    return same_memory(memory.as, output) && (one.fixed || devices_are_memory_compatible(output, table_.at(one.made)));
  }

  // Its maker could write there if it began elsewhere.
  bool lacks_alignment(const Class& one, MemorySpace output) const {
    const MemorySpace& made = table_.at(one.made);
    if (one.fixed || output.alignment >= made.alignment) return false;
    output.alignment = made.alignment;
    return devices_are_memory_compatible(output, made);
  }

  // The memory in `space`, as the first caller's output that can be it.
  Memory with_output(const Class& one, SpaceId space) const {
    Memory memory = planned(space);
    for (const MemorySpace& output : one.outputs) {
      if (written_in_place(one, memory, output)) return {space, output};
    }
    return memory;
  }

  size_t copies(const Class& one, const Memory& memory) const {
    size_t count = 0;
    for (SpaceId wanted : one.wants) count += usable(memory, wanted) ? 0 : 1;
    for (const MemorySpace& output : one.outputs) count += written_in_place(one, memory, output) ? 0 : 1;
    return count;
  }

  Memory choose(const Class& one) const {
    if (one.fixed) return one.memory;
    if (one.dynamic) return planned(one.made);
    std::vector<SpaceId> candidates = {one.made};
    for (const MemorySpace& output : one.outputs) candidates.push_back(table_.find(output));
    candidates.insert(candidates.end(), one.wants.begin(), one.wants.end());
    // Memory that nobody asks for may serve all: HOST_ACCESSIBLE memory between the host and DEFAULT memory.
    for (SpaceId space : table_.spaces.ids()) candidates.push_back(space);
    Memory best = with_output(one, one.made);
    for (SpaceId candidate : candidates) {
      if (!candidate.valid()) continue;
      const Memory memory = with_output(one, candidate);
      // Its maker has to be able to write there.
      if (usable(memory, one.made) && copies(one, memory) < copies(one, best)) best = memory;
    }
    return best;
  }

  Status rewrite() {
    PerNode<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    graph_.nodes.reserve(nodes.size());
    for (NodeId n : nodes.ids()) {
      Node& node = nodes[n];
      std::vector<SpaceId>& wanted = wanted_[n];
      for (size_t i = 0; i < wanted.size(); ++i) {
        const ValueId id = node.inputs[i];
        if (id == kNoValue || graph_.value(id).constant || usable(memory_of(id), wanted[i])) continue;
        TENON_TRY_ASSIGN(node.inputs[i], copied(id, planned(wanted[i])));
      }
      const bool region = ep_of(node) != kCpuEp;
      graph_.nodes.push_back(std::move(node));
      placement_.wanted.push_back(region ? std::move(wanted) : std::vector<SpaceId>());
    }
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const auto* space = bound_output(i);
      const ValueId id = graph_.outputs[i];
      // An output that has no known size, or no maker in this graph, is copied after the steps.
      if (space == nullptr || class_of(id).dynamic || graph_.value(id).constant) continue;
      if (written_in_place(class_of(id), memory_of(id), **space)) continue;
      TENON_TRY_ASSIGN(graph_.outputs[i], copied(id, {table_.find(**space), **space}, /*shared=*/false,
                                                 lacks_alignment(class_of(id), **space)));
    }
    return {};
  }

  // The value in other memory; made once for all that read it there.
  Result<ValueId> copied(ValueId id, const Memory& target, bool shared = true, bool lacks_alignment = false) {
    TENON_UNSUPPORTED_IF(!target.space.valid(),
                         "\"{}\" has to be copied to {}, which no EP of the session can address.",
                         graph_.value(id).name, target.as.to_string());
    if (shared) {
      if (const auto found = copies_.find({id, target.space}); found != copies_.end()) return found->second;
    }
    EpId mover = table_.mover(memory_of(id).as, target.as);
    ValueId from = id;
    if (!mover.valid() && !host_can_address(memory_of(id).as) && !host_can_address(target.as)) {
      TENON_TRY_ASSIGN(from, copied(id, planned(kHostSpace)));
      mover = table_.mover(memory_of(from).as, target.as);
    }
    TENON_UNSUPPORTED_IF(!mover.valid(), "\"{}\" has to be copied from {} to {}, and no EP of the session can do that.",
                         graph_.value(id).name, memory_of(id).as.to_string(), target.as.to_string());
    MemorySpace anyhow = target.as;
    anyhow.alignment = 0;
    // A reader is asked whether it can use the value; for a caller's output it is the maker that would write there.
    const bool only_alignment = shared ? devices_are_memory_compatible(memory_of(from).as, anyhow) : lacks_alignment;
    Value value = graph_.value(from);
    value.constant = nullptr;
    const ValueId result = graph_.add_value(std::move(value));
    root_.push_back(result);
    Class& made = classes_[classes_.push_back({})];
    made.memory = target;
    made.made = target.space;
    made.fixed = true;
    Node copy;
    copy.op_type = "Copy";
    copy.domain = "tenon";
    copy.since_version = 1;
    copy.inputs = {from};
    copy.outputs = {result};
    copy.set_int("reason", static_cast<int64_t>(only_alignment ? CopyReason::kAlignment : CopyReason::kNotCompatible));
    copy.set_int("mover", mover.value());
    graph_.nodes.push_back(std::move(copy));
    placement_.wanted.emplace_back();
    if (shared) copies_[{id, target.space}] = result;
    return result;
  }

  Graph& graph_;
  std::span<const OutputSlot> slots_;
  const Providers& providers_;
  const SpaceTable& table_;
  const BoundSpaces& bound_;
  const KernelNode& base_;
  PerValue<ValueId> root_;  // the first of its class
  PerValue<Class> classes_;
  PerNode<std::vector<SpaceId>> wanted_;  // by node as it was
  std::map<std::pair<ValueId, SpaceId>, ValueId> copies_;
  Placement placement_;
};

}  // namespace

bool is_copy(const Node& node) { return node.op_type == "Copy" && node.domain == "tenon"; }

CopyReason copy_reason(const Node& node) { return static_cast<CopyReason>(Attributes(node).integer("reason")); }

EpId copy_mover(const Node& node) { return EpId(Attributes(node).integer("mover")); }

Result<Placement> place_values(Graph& graph, std::span<const OutputSlot> output_slots, const Providers& providers,
                               const SpaceTable& table, const BoundSpaces& bound, const KernelNode& base) {
  return Placer(graph, output_slots, providers, table, bound, base).run();
}

}  // namespace tenon
