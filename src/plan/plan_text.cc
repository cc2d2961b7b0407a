// A plan's report as text.
#include <tenon/plan_report.h>

#include <algorithm>

#include "base/format.h"

namespace tenon {

namespace {

std::string time_text(int64_t ns) {
  const auto us = static_cast<double>(ns) / 1e3;
  return us < 1e3 ? format("{:.1f} us", us) : format("{:.3f} ms", us / 1e3);
}

class PlanPrinter {
 public:
  explicit PlanPrinter(const PlanReport& plan) : plan_(plan) {}

  std::string print() {
    text_ = format("plan for {}: {} steps, {} nodes without a step, arena {} bytes ({} without sharing)\n", purpose(),
                   plan_.steps.size(), plan_.without_step.size(),
                   plan_.spaces.empty() ? 0 : plan_.spaces[0].arena_bytes, plan_.unshared_bytes);
    for (size_t i = 1; i < plan_.eps.size(); ++i) text_ += format("EP {}: {}\n", i, plan_.eps[i]);
    for (size_t i = 1; i < plan_.spaces.size(); ++i)
      text_ +=
          format("space {}: {}, arena {} bytes\n", i, space_text(static_cast<int32_t>(i)), plan_.spaces[i].arena_bytes);
    for (const PlanReport::Tensor& input : plan_.inputs) print_bound("input", input);
    for (const PlanReport::Tensor& output : plan_.outputs) print_bound("output", output);
    for (size_t i = 0; i < plan_.steps.size(); ++i) print_step(i, plan_.steps[i]);
    for (const PlanReport::View& view : plan_.without_step) text_ += format("no step: {}\n", view.to_string());
    for (const PlanReport::Step& step : plan_.steps) {
      if (step.copy < 0) continue;
      const CopyRecord& copy = plan_.copies.ledger.records[step.copy];
      text_ += format("copy: \"{}\", {} bytes, from {} to {}, because {}\n", copy.what, copy.bytes,
                      copy.source.to_string(), copy.target.to_string(), copy_reason_text(copy.reason));
    }
    for (const PlanReport::PlacedConstant& constant : plan_.constants)
      text_ += format("constant: {} bytes are kept in {}, copied there once for the session\n", constant.bytes,
                      space_text(constant.space));
    for (const PlanReport::OutputCopy& copy : plan_.output_copies)
      text_ += format("copy: {} -> output {}, {} bytes, because {}\n", copy.source.to_string(),
                      plan_.outputs[copy.output].name, copy.known_bytes ? format("{}", copy.bytes) : "?",
                      copy_reason_text(copy.reason));
    print_cut();
    for (const std::string& sentence : plan_.copies.open) text_ += format("not known before a run: {}\n", sentence);
    for (const PlanReport::ModelNode& node : plan_.nodes)
      text_ += format("node {}: {}{}\n", node.label, node.fate_text(),
                      node.ep > 0 ? format(", EP {}", plan_.eps[static_cast<size_t>(node.ep)]) : "");
    return std::move(text_);
  }

 private:
  // "x float32[2,4] on cpu, SimEP": the inputs, and the EPs that have steps.
  std::string purpose() const {
    std::string text;
    for (const PlanReport::Tensor& input : plan_.inputs)
      text += format("{}{} {}", text.empty() ? "" : ", ", input.name, input.type_text());
    std::string eps;
    for (size_t ep = 0; ep < plan_.eps.size(); ++ep) {
      const bool used = std::any_of(plan_.steps.begin(), plan_.steps.end(), [&](const PlanReport::Step& step) {
        return step.ep == static_cast<int32_t>(ep) && step.kernel != "copy";
      });
      if (used) eps += format("{}{}", eps.empty() ? "" : ", ", plan_.eps[ep]);
    }
    return format("{} on {}", text.empty() ? "no input" : text, eps.empty() ? "no EP" : eps);
  }

  std::string space_text(int32_t space) const { return plan_.spaces[space].memory.to_string(); }

  void print_bound(const char* kind, const PlanReport::Tensor& tensor) {
    text_ += format("{} {}: {}", kind, tensor.name, tensor.type_text());
    if (tensor.location.space != 0) text_ += format(" in space {}", tensor.location.space);
    text_ += "\n";
  }

  void print_step(size_t index, const PlanReport::Step& step) {
    text_ += format("step {}: {} [{}] (", index, step.label, step.kernel);
    for (size_t i = 0; i < step.inputs.size(); ++i)
      text_ += format("{}{}", i > 0 ? ", " : "", step.inputs[i].location.to_string());
    text_ += ") ->";
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const PlanReport::Tensor& output = step.outputs[i];
      text_ += format("{}{}", i == 0 ? " " : ", ", output.location.to_string());
      if (output.type != DataType::kUndefined) text_ += format(" {}", output.type_text());
    }
    if (step.in_place_input >= 0) text_ += format("; in place of input {}", step.in_place_input);
    if (step.scratch_bytes > 0)
      text_ += format("; scratch @{} {} bytes", step.scratch.offset_bytes, step.scratch_bytes);
    if (step.ep > 0) text_ += format("; EP {}", step.ep);
    if (step.stream > 0) text_ += format("; on stream {}", step.stream);
    for (const PlanReport::Wait& wait : step.waits)
      text_ += format("; after point {} of stream {}{}", wait.point, wait.stream, wait.on_host ? ", on the host" : "");
    if (step.point >= 0) text_ += format("; then point {}", step.point);
    if (step.runs > 0) text_ += "; " + time_text(step.time_ns);
    text_ += "\n";
    if (step.region.empty()) return;
    text_ += "  region:";
    for (const PlanReport::RegionNode& node : step.region) {
      text_ += format(" {}{}{}", node.domain.empty() ? "" : node.domain + ".", node.op_type,
                      node.name.empty() ? "" : format(" \"{}\"", node.name));
      if (&node != &step.region.back()) text_ += ',';
    }
    text_ += "\n";
  }

  void print_cut() {
    for (const PlanReport::Cut::Reason& reason : plan_.cut.reasons) text_ += format("cut: {}\n", reason.to_string());
    for (const PlanReport::Tensor& value : plan_.cut.values)
      text_ += format("after the cut: {} at {}, {}{}\n", value.name, value.location.to_string(), value.type_text(),
                      value.planned_for_value ? ", planned for its value" : "");
    if (plan_.cut.nodes > 0) text_ += format("after the cut: {} nodes, planned at run time\n", plan_.cut.nodes);
  }

  const PlanReport& plan_;
  std::string text_;
};

}  // namespace

std::string_view copy_reason_text(CopyReason reason) {
  switch (reason) {
    case CopyReason::kOutputIsInput:
      return "the output is an input or a constant handed through";
    case CopyReason::kOutputShared:
      return "the value is bound as another output too";
    case CopyReason::kOutputUnknownSize:
      return "its size is only known after it was computed";
    case CopyReason::kNotCompatible:
      return "its reader cannot use memory of that space";
    case CopyReason::kAlignment:
      return "its reader needs a stricter alignment";
    case CopyReason::kOverlap:
    case CopyReason::kCallerAsked:
    case CopyReason::kCarriedState:
    case CopyReason::kScanSlices:
      break;
  }
  return copy_reason_name(reason);
}

std::string PlanReport::Location::to_string() const {
  const auto with_offset = [&](const char* base) {
    std::string text = name.empty() ? base : format("{} {}", base, name);
    if (offset_bytes > 0) text += format("+{}", offset_bytes);
    return text;
  };
  switch (kind) {
    case Kind::kAbsent:
      return "-";
    case Kind::kConstant:
      return with_offset("const");
    case Kind::kInput:
      return with_offset("input");
    case Kind::kOutput:
      return with_offset("output");
    case Kind::kArena:
      return space > 0 ? format("@{}:{}", space, offset_bytes) : format("@{}", offset_bytes);
    case Kind::kPlacedConstant:
      return format("placed constant {}", index);
    case Kind::kHandle:
      return format("handle {}", index);
    case Kind::kDynamic:
      return format("dynamic {}", index);
  }
  return "?";
}

std::string_view fate_name(PlanReport::ModelNode::Fate fate) {
  using Fate = PlanReport::ModelNode::Fate;
  switch (fate) {
    case Fate::kStep:
      return "step";
    case Fate::kFused:
      return "fused";
    case Fate::kRegion:
      return "region";
    case Fate::kView:
      return "view";
    case Fate::kFolded:
      return "folded";
    case Fate::kBypassed:
      return "bypassed";
    case Fate::kUnused:
      return "unused";
    case Fate::kLater:
      return "later";
  }
  return "step";
}

std::string PlanReport::ModelNode::fate_text() const {
  std::string by;
  for (const std::string& pass : passes) by += format("{}{}", by.empty() ? "" : ", ", pass);
  if (!by.empty()) by = format(" by the pass{} {}", passes.size() > 1 ? "es" : "", by);
  switch (fate) {
    case Fate::kStep:
      return format("step {}", step);
    case Fate::kFused:
      return format("step {}, fused{}", step, by);
    case Fate::kRegion:
      return step >= 0 ? format("step {}, in a region", step) : "in a region without a step";
    case Fate::kView:
      return "no step, a view";
    case Fate::kFolded:
      return format("folded into a constant{}", by);
    case Fate::kBypassed:
      return format("bypassed{}: its readers read another value", by);
    case Fate::kUnused:
      return format("left out{}: nobody reads its results", by);
    case Fate::kLater:
      return "planned in the run, after the cut";
  }
  return {};
}

std::string PlanReport::View::to_string() const {
  if (joins_inputs) return format("{}: its inputs are written straight into \"{}\"", label, value);
  std::string text = format("{}: a view of \"{}\"", label, value);
  for (const size_t offset : offsets_bytes)
    if (offset != 0) text += format(" +{}", offset);
  return text;
}

std::string PlanReport::Cut::Reason::to_string() const {
  if (value.empty()) return format("the output shapes of {} depend on its data", node);
  return format("the output shapes of {} depend on the value of \"{}\"", node, value);
}

std::string PlanReport::Tensor::type_text() const {
  std::string text(data_type_name(type));
  text += '[';
  if (!has_shape) text += '?';
  for (size_t i = 0; i < dims.size(); ++i)
    text += format("{}{}", i > 0 ? "," : "", dims[i] >= 0 ? std::to_string(dims[i]) : "?");
  text += ']';
  return blocked8 ? text + " blocked8" : text;
}

std::string PlanReport::to_text() const { return PlanPrinter(*this).print(); }

}  // namespace tenon
