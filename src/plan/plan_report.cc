// A plan as data.
#include <tenon/plan_report.h>

#include <algorithm>

#include "base/format.h"
#include "device/copy.h"
#include "plan/control_flow.h"
#include "plan/node_origins.h"
#include "plan/node_trail.h"
#include "plan/plan.h"
#include "plan/regions.h"

namespace tenon {

namespace {

// A node whose bodies the host runs: an If, Loop or Scan, or a region that is one.
bool has_bodies(const Node& node) {
  if (is_control_flow(node)) return true;
  if (!is_region(node)) return false;
  const Graph& body = region_body(node);
  return std::any_of(body.nodes.begin(), body.nodes.end(), is_control_flow);
}

class Reporter {
 public:
  Reporter(const Plan& plan, std::span<const std::optional<MemorySpace>> outputs,
           const std::function<const char*(const std::string&)>& keep_text, ExplainedCopies copies,
           const NodeTrail* trail)
      : plan_(plan), bound_(outputs), keep_text_(keep_text) {
    if (trail != nullptr) report_.nodes = trail->report(plan);
    report_.copies = std::move(copies);
  }

  PlanReport take() {
    report_.eps = plan_.ep_names.empty() ? std::vector<std::string>{plan_.provider} : plan_.ep_names.elements();
    for (SpaceId id : plan_.spaces.ids())
      report_.spaces.push_back({plan_.spaces[id], plan_.arenas.contains(id) ? plan_.arenas[id] : 0});
    if (report_.spaces.empty()) report_.spaces.emplace_back();
    report_.spaces[0].arena_bytes = plan_.arena_bytes;
    report_.unshared_bytes = plan_.unshared_bytes;
    for (size_t i = 0; i < plan_.inputs.size(); ++i)
      report_.inputs.push_back(
          tensor(plan_.inputs[i].name, plan_.inputs[i].spec, {StorageKind::kInput, static_cast<int32_t>(i), 0}));
    for (const PlanOutput& output : plan_.outputs)
      report_.outputs.push_back(tensor(output.name, output.spec, {StorageKind::kOutput, output.slot.value(), 0}));
    for (const PlanStep& step : plan_.steps) add_step(step);
    for (const PlanView& view : plan_.views) add_view(view);
    for (const Tensor& constant : plan_.placed_constants)
      report_.constants.push_back({space_of(constant.space()), constant.size_bytes()});
    for (const PlanCopy& copy : plan_.copies) add_output_copy(copy);
    if (plan_.cut) add_cut(*plan_.cut);
    return std::move(report_);
  }

 private:
  using Kind = PlanReport::Location::Kind;

  const MemorySpace& memory_of(SpaceId space) const { return report_.spaces[space.index()].memory; }

  int32_t space_of(MemorySpace memory) const {
    for (size_t i = 0; i < report_.spaces.size(); ++i) {
      memory.alignment = report_.spaces[i].memory.alignment;
      if (memory == report_.spaces[i].memory) return static_cast<int32_t>(i);
    }
    return 0;
  }

  // Null for an output that the rest after a cut writes.
  const PlanOutput* output_of(OutputSlot slot) const {
    const auto found = std::find_if(plan_.outputs.begin(), plan_.outputs.end(),
                                    [slot](const PlanOutput& output) { return output.slot == slot; });
    return found == plan_.outputs.end() ? nullptr : &*found;
  }
  int32_t index_of(const PlanOutput& output) const { return static_cast<int32_t>(&output - plan_.outputs.data()); }

  PlanReport::Location location(const Location& from) const {
    PlanReport::Location to{
        .kind = Kind::kAbsent, .index = from.index, .space = 0, .offset_bytes = from.offset_bytes, .name = {}};
    const size_t index = from.place();
    switch (from.kind) {
      case StorageKind::kAbsent:
        break;
      case StorageKind::kConstant:
        to.kind = Kind::kConstant;
        to.name = plan_.graph.value(ValueId(from.index)).name;
        to.index = -1;
        break;
      case StorageKind::kInput:
        to.kind = Kind::kInput;
        to.name = plan_.inputs[index].name;
        to.space = plan_.inputs[index].space.value();
        break;
      case StorageKind::kOutput:
        to.kind = Kind::kOutput;
        to.index = -1;
        if (const PlanOutput* output = output_of(OutputSlot(from.index))) {
          to.index = index_of(*output);
          to.name = output->name;
          to.space = output->space.value();
        }
        break;
      case StorageKind::kArena:
        to.kind = Kind::kArena;
        to.space = from.index;
        break;
      case StorageKind::kDynamic:
        to.kind = Kind::kDynamic;
        to.space = plan_.dynamic_spaces.contains(DynamicId(from.index))
                       ? plan_.dynamic_spaces[DynamicId(from.index)].value()
                       : 0;
        break;
      case StorageKind::kPlacedConstant:
        to.kind = Kind::kPlacedConstant;
        to.space = space_of(plan_.placed_constants[index].space());
        break;
      case StorageKind::kHandle:
        to.kind = Kind::kHandle;
        to.space = plan_.handle_buffers[index].space.value();
        break;
    }
    return to;
  }

  PlanReport::Tensor tensor(const std::string& name, const TensorSpec& spec, const Location& where) const {
    PlanReport::Tensor made;
    made.name = name;
    made.type = spec.type;
    made.has_shape = !spec.dynamic;
    if (!spec.dynamic) {
      made.dims.assign(spec.shape.begin(), spec.shape.end());
      made.size_bytes = spec.size_bytes();
    }
    made.blocked8 = spec.layout == Layout::kBlocked8;
    made.location = location(where);
    return made;
  }

  PlanReport::Tensor tensor(ValueId id, const Location& where) const {
    PlanReport::Tensor made;
    made.location = location(where);
    if (id == kNoValue) return made;
    const Value& value = plan_.graph.value(id);
    made.name = value.name;
    made.type = value.type;
    made.has_shape = value.has_rank;
    for (const Dim& dim : value.dims) made.dims.push_back(dim.known() ? dim.value : -1);
    made.blocked8 = value.layout == Layout::kBlocked8;
    if (value.fully_known() && data_type_bits(value.type) > 0)
      made.size_bytes =
          TensorSpec{.type = value.type, .shape = value.shape(), .layout = value.layout, .dynamic = false}.size_bytes();
    return made;
  }

  // The record's index, or -1 where there is nothing to copy.
  int32_t note(const CopyRecord& record) {
    std::vector<CopyRecord>& records = report_.copies.ledger.records;
    const size_t before = records.size();
    note_copy(record, &report_.copies.ledger);
    return records.size() > before ? static_cast<int32_t>(before) : -1;
  }

  void add_view(const PlanView& view) {
    const Node& node = plan_.graph.nodes[view.node];
    report_.without_step.push_back({.label = node.label(plan_.graph),
                                    .model_nodes = model_nodes_of(node),
                                    .joins_inputs = view.joins_inputs,
                                    .value = plan_.graph.value(view.value).name,
                                    .offsets_bytes = view.offsets_bytes});
  }

  void add_unknown(PlanReport::UnknownCopies::Kind kind, const std::string& name, std::string sentence) {
    report_.unknown_copies.push_back({kind, name});
    report_.copies.open.push_back(std::move(sentence));
  }

  void add_step(const PlanStep& step) {
    const Node& node = plan_.graph.nodes[step.node];
    PlanReport::Step& made = report_.steps.emplace_back();
    made.label = node.label(plan_.graph);
    made.name = node.name;
    made.op_type = node.op_type;
    made.domain = node.domain;
    made.node = step.node.value();
    made.model_nodes = model_nodes_of(node);
    if (is_region(node))
      for (const Node& inner : region_body(node).nodes)
        made.region.push_back({inner.name, inner.op_type, inner.domain});
    made.kernel = step.kernel ? step.kernel->name() : std::string_view("copy");
    made.ep = step.ep.value();
    made.stream = step.executor.value();
    for (const StepWait& wait : step.waits)
      made.waits.push_back({wait.stream.value(), wait.point.value(), wait.on_host});
    made.point = step.notify.value();
    for (size_t i = 0; i < step.inputs.size(); ++i) made.inputs.push_back(tensor(node.inputs[i], step.inputs[i]));
    for (size_t i = 0; i < step.outputs.size(); ++i) made.outputs.push_back(tensor(node.outputs[i], step.outputs[i]));
    made.in_place_input = step.in_place.first;
    made.scratch = location(step.scratch);
    if (step.kernel && step.scratch.kind == StorageKind::kArena) made.scratch_bytes = step.kernel->scratch_bytes();
    if (step.copy) {
      made.copy = note({.bytes = step.copy->spec.size_bytes(),
                        .source = memory_of(step.copy->source),
                        .target = memory_of(step.copy->target),
                        .reason = step.copy->reason,
                        .what = step.copy->what});
    } else if (step.ep == kCpuEp ? is_control_flow(node) : step.executor == kCpuEp && has_bodies(node)) {
      add_unknown(PlanReport::UnknownCopies::Kind::kBody, made.label,
                  format("The bodies of {} may hand values over by copies, as their data say.", made.label));
    }
  }

  void add_output_copy(const PlanCopy& copy) {
    const PlanOutput* const found = output_of(copy.output);
    if (found == nullptr) return;
    const PlanOutput& output = *found;
    PlanReport::OutputCopy made{.source = location(copy.source), .output = index_of(output), .reason = copy.reason};
    if (output.spec.dynamic) {
      add_unknown(PlanReport::UnknownCopies::Kind::kOutput, output.name,
                  format("Output \"{}\" is copied where it is bound, and its size is only known after it was computed.",
                         output.name));
    } else {
      made.known_bytes = true;
      made.bytes = output.spec.size_bytes();
      const size_t slot = copy.output.index();
      const bool bound = slot < bound_.size() && bound_[slot];
      made.copy = note({.bytes = made.bytes,
                        .source = memory_of(copy.space),
                        .target = bound ? *bound_[slot] : memory_of(output.space),
                        .reason = copy.reason,
                        .what = keep_text_(output.name)});
    }
    report_.output_copies.push_back(std::move(made));
  }

  void add_cut(const PlanCut& cut) {
    for (const CutReason& reason : cut.reasons) report_.cut.reasons.push_back({reason.node, reason.value});
    report_.cut.nodes = cut.rest.nodes.size();
    for (const CutValue& value : cut.values) {
      report_.cut.values.push_back(tensor(value.name, value.spec, value.location));
      report_.cut.values.back().planned_for_value = value.as_constant;
    }
    add_unknown(PlanReport::UnknownCopies::Kind::kRest, {},
                format("{} nodes are planned at run time, when their shapes are known.", cut.rest.nodes.size()));
  }

  const Plan& plan_;
  std::span<const std::optional<MemorySpace>> bound_;
  const std::function<const char*(const std::string&)>& keep_text_;
  PlanReport report_;
};

}  // namespace

PlanReport report_plan(const Plan& plan, std::span<const std::optional<MemorySpace>> outputs,
                       const std::function<const char*(const std::string&)>& keep_text, ExplainedCopies copies,
                       const NodeTrail* trail) {
  return Reporter(plan, outputs, keep_text, std::move(copies), trail).take();
}

std::string Plan::to_text() const {
  // The report's names live no longer than the plan, and end here.
  return report_plan(*this, {}, [](const std::string& text) { return text.c_str(); }, {}).to_text();
}

}  // namespace tenon
