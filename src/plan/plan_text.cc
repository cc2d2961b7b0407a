// A plan's report as text.
#include <tenon/plan_report.h>

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
    text_ = format("plan for the {} EP: {} steps, {} nodes without a step, arena {} bytes ({} without sharing)\n",
                   plan_.eps.empty() ? "CPU" : plan_.eps[0], plan_.steps.size(), plan_.without_step.size(),
                   plan_.spaces.empty() ? 0 : plan_.spaces[0].arena_bytes, plan_.unshared_bytes);
    for (size_t i = 1; i < plan_.eps.size(); ++i) text_ += format("EP {}: {}\n", i, plan_.eps[i]);
    for (size_t i = 1; i < plan_.spaces.size(); ++i)
      text_ +=
          format("space {}: {}, arena {} bytes\n", i, space_text(static_cast<int32_t>(i)), plan_.spaces[i].arena_bytes);
    for (const PlanReport::Tensor& input : plan_.inputs) print_bound("input", input);
    for (const PlanReport::Tensor& output : plan_.outputs) print_bound("output", output);
    for (size_t i = 0; i < plan_.steps.size(); ++i) print_step(i, plan_.steps[i]);
    for (const std::string& sentence : plan_.without_step) text_ += format("no step: {}\n", sentence);
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
    return std::move(text_);
  }

 private:
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
  }

  void print_cut() {
    for (const std::string& reason : plan_.cut.reasons) text_ += format("cut: {}\n", reason);
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
