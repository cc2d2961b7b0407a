#include "base/format.h"
#include "plan/plan.h"

namespace tenon {

namespace {

class PlanPrinter {
 public:
  explicit PlanPrinter(const Plan& plan) : plan_(plan) {}

  std::string print() {
    text_ = format("plan for the {} EP: {} steps, {} nodes without a step, arena {} bytes ({} without sharing)\n",
                   plan_.provider, plan_.steps.size(), plan_.aliases.size(), plan_.arena_bytes, plan_.unshared_bytes);
    for (size_t i = 1; i < plan_.ep_names.size(); ++i) text_ += format("EP {}: {}\n", i, plan_.ep_names[i]);
    for (size_t i = 1; i < plan_.places.size(); ++i) {
      text_ += format("place {}: {}, arena {} bytes\n", i, plan_.places[i].to_string(), plan_.arenas[i]);
    }
    for (const PlanInput& input : plan_.inputs) {
      text_ += format("input {}: {}{}\n", input.name, spec_text(input.spec), in_text(input.place));
    }
    for (const PlanOutput& output : plan_.outputs) {
      text_ += format("output {}: {}{}\n", output.name, spec_text(output.spec), in_text(output.place));
    }
    for (size_t i = 0; i < plan_.steps.size(); ++i) print_step(i, plan_.steps[i]);
    for (const std::string& alias : plan_.aliases) text_ += format("no step: {}\n", alias);
    for (const PlanStep& step : plan_.steps) {
      if (step.copy) print_step_copy(*step.copy);
    }
    for (const Tensor& constant : plan_.placed_constants) {
      text_ += format("constant: {} bytes are kept in {}, copied there once for the session\n", constant.size_bytes(),
                      constant.place().to_string());
    }
    for (const PlanCopy& copy : plan_.copies) {
      const PlanOutput* output = nullptr;
      for (const PlanOutput& candidate : plan_.outputs) {
        if (candidate.slot == copy.output) output = &candidate;
      }
      if (output == nullptr) continue;
      const std::string bytes = output->spec.dynamic ? "?" : format("{}", output->spec.size_bytes());
      text_ += format("copy: {} -> output {}, {} bytes, because {}\n", place_text(copy.source), output->name, bytes,
                      reason_text(copy.reason));
    }
    if (plan_.cut) print_cut(*plan_.cut);
    return std::move(text_);
  }

 private:
  static std::string reason_text(CopyReason reason) {
    switch (reason) {
      case CopyReason::kOutputIsInput:
        return "the output is an input or a constant handed through";
      case CopyReason::kOutputShared:
        return "the value is bound as another output too";
      case CopyReason::kOutputUnknownSize:
        return "its size is only known after it was computed";
      case CopyReason::kNotCompatible:
        return "what needs it cannot use memory of that place";
      case CopyReason::kAlignment:
        return "what needs it asks for a stricter alignment";
      default:
        return std::string(copy_reason_name(reason));
    }
  }

  static std::string spec_text(const TensorSpec& spec) {
    std::string text(data_type_name(spec.type));
    text += spec.dynamic ? "[?]" : spec.shape.to_string();
    if (spec.layout == Layout::kBlocked8) text += " blocked8";
    return text;
  }

  std::string place_text(const Location& location) const {
    const auto offset = [&](const std::string& base) {
      return location.offset_bytes == 0 ? base : base + format("+{}", location.offset_bytes);
    };
    switch (location.home) {
      case Home::kAbsent:
        return "-";
      case Home::kConstant:
        return offset(format("const {}", plan_.graph.value(location.index).name));
      case Home::kInput:
        return offset(format("input {}", plan_.inputs[static_cast<size_t>(location.index)].name));
      case Home::kOutput:
        for (const PlanOutput& output : plan_.outputs) {
          if (output.slot == location.index) return offset(format("output {}", output.name));
        }
        return offset("output");
      case Home::kArena:
        if (location.index > 0) return format("@{}:{}", location.index, location.offset_bytes);
        return format("@{}", location.offset_bytes);
      case Home::kPlacedConstant:
        return format("placed constant {}", location.index);
      case Home::kHandle:
        return format("handle {}", location.index);
      case Home::kDynamic:
        return format("dynamic {}", location.index);
    }
    return "?";
  }

  void print_step(size_t index, const PlanStep& step) {
    const Node& node = plan_.graph.nodes[static_cast<size_t>(step.node)];
    text_ += format("step {}: {} [{}] (", index, node.label(plan_.graph),
                    step.kernel ? step.kernel->name() : std::string_view("copy"));
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (i > 0) text_ += ", ";
      text_ += place_text(step.inputs[i]);
    }
    text_ += ") ->";
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      text_ += i == 0 ? " " : ", ";
      text_ += place_text(step.outputs[i]);
      if (node.outputs[i] == kNoValue) continue;
      const Value& value = plan_.graph.value(node.outputs[i]);
      text_ += format(" {}", value.type_text());
      if (value.layout == Layout::kBlocked8) text_ += " blocked8";
    }
    if (step.in_place.first >= 0) text_ += format("; in place of input {}", step.in_place.first);
    if (step.scratch.home == Home::kArena) {
      text_ += format("; scratch @{} {} bytes", step.scratch.offset_bytes, step.kernel->scratch_bytes());
    }
    if (step.provider > 0) text_ += format("; EP {}", step.provider);
    if (step.executor > 0) text_ += format("; on stream {}", step.executor);
    for (const StepWait& wait : step.waits)
      text_ += format("; after point {} of stream {}{}", wait.slot, wait.provider, wait.on_host ? ", on the host" : "");
    if (step.notify >= 0) text_ += format("; then point {}", step.notify);
    text_ += "\n";
  }

  // " in place 1", for what is not in plain host memory.
  static std::string in_text(int32_t place) { return place == 0 ? std::string() : format(" in place {}", place); }

  void print_step_copy(const StepCopy& copy) {
    text_ += format("copy: \"{}\", {} bytes, from {} to {}, because {}\n", copy.what, copy.spec.size_bytes(),
                    plan_.places[static_cast<size_t>(copy.source)].to_string(),
                    plan_.places[static_cast<size_t>(copy.target)].to_string(), reason_text(copy.reason));
  }

  void print_cut(const PlanCut& cut) {
    for (const std::string& reason : cut.reasons) text_ += format("cut: {}\n", reason);
    for (const CutValue& value : cut.values) {
      text_ += format("after the cut: {} at {}, {}{}\n", value.name, place_text(value.location), spec_text(value.spec),
                      value.as_constant ? ", planned for its value" : "");
    }
    text_ += format("after the cut: {} nodes, planned at run time\n", cut.rest.nodes.size());
  }

  const Plan& plan_;
  std::string text_;
};

}  // namespace

std::string Plan::to_text() const { return PlanPrinter(*this).print(); }

}  // namespace tenon
