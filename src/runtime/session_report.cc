#include "runtime/session_report.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "device/copy.h"
#include "plan/bind_shapes.h"
#include "runtime/binding_checks.h"

namespace tenon {

Result<PlanReport> SessionReporter::report(const std::map<std::string, Shape>& shapes,
                                           const std::map<std::string, MemorySpace>& bound, bool strict) const {
  TENON_TRY_ASSIGN(const BoundSpaces where, bound_spaces(bound));
  TENON_TRY_ASSIGN(const std::vector<Shape> all, input_shapes(shapes));
  TENON_TRY(check_input_shapes(graph, all));
  ExplainedCopies explained{.ledger = copies.at_load(), .open = {}};
  NodeTrail followed = trail;
  TENON_TRY_ASSIGN(const std::shared_ptr<Plan> plan, plans.explain(all, where, explained.ledger, followed));
  PlanReport report = report_plan(
      *plan, where.outputs, [this](const std::string& text) { return texts.keep(text); }, std::move(explained),
      &followed);
  if (strict) {
    TENON_TRY(refuse_copies(*plan, outputs));
    if (const auto& records = report.copies.ledger.records; !records.empty()) {
      const CopyRecord& first = records.front();
      return copy_disallowed(first.what, first.source, first.target, first.reason);
    }
  }
  return report;
}

Result<std::vector<Shape>> SessionReporter::input_shapes(const std::map<std::string, Shape>& named) const {
  for (const auto& [name, shape] : named) {
    const bool known =
        std::any_of(inputs.begin(), inputs.end(), [&](const ValueInfo& info) { return info.name == name; });
    if (!known) return not_found("The model has no input \"{}\"; it has {}.", name, listed_names(inputs));
  }
  std::vector<Shape> all;
  for (const ValueInfo& info : inputs) {
    if (const auto given = named.find(info.name); given != named.end()) {
      all.push_back(stands_for_scalar(info, given->second) ? Shape() : given->second);
      continue;
    }
    Shape shape;
    for (int64_t dim : info.dims) {
      TENON_INVALID_IF(dim < 0, "The shape of input \"{}\" is not given, and the model leaves it open ({}).", info.name,
                       info.to_string());
      shape.push_back(dim);
    }
    TENON_INVALID_IF(!info.has_shape, "The shape of input \"{}\" is not given, and the model declares none.",
                     info.name);
    all.push_back(shape);
  }
  return all;
}

Result<BoundSpaces> SessionReporter::bound_spaces(const std::map<std::string, MemorySpace>& named) const {
  BoundSpaces bound;
  bound.inputs.resize(inputs.size());
  bound.outputs.assign(outputs.size(), MemorySpace{});
  for (const auto& [name, given] : named) {
    TENON_INVALID_IF(given.alignment != 0 && !std::has_single_bit(given.alignment),
                     "The alignment of \"{}\" is {}, which is no power of two.", name, given.alignment);
    const SpaceId id = spaces.table().find(given);
    TENON_UNSUPPORTED_IF(!id.valid(), "\"{}\" cannot live in {}, which no EP of the session can address.", name,
                         given.to_string());
    MemorySpace space = given;
    // As the space's allocator gives it.
    if (space.alignment == 0) space.alignment = spaces.table().at(id).alignment;
    bool known = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].name != name) continue;
      bound.inputs[i] = space;
      known = true;
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].name != name) continue;
      bound.outputs[i] = space;
      known = true;
    }
    if (!known)
      return not_found("The model has no input or output \"{}\"; it has {}, and {}.", name, listed_names(inputs),
                       listed_names(outputs));
  }
  return bound;
}

}  // namespace tenon
