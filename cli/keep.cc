#include "cli/keep.h"

#include <tenon/plan_report.h>

#include <map>

#include "cli/status.h"

namespace tenon::cli {
namespace {

// The steps of a plan as the makers of values.
std::vector<NodeValue> steps_of(const PlanReport& plan) {
  std::vector<NodeValue> steps;
  for (const PlanReport::Step& step : plan.steps) {
    NodeValue& made =
        steps.emplace_back(NodeValue{.node = step.name, .model_nodes = step.model_nodes, .kernel = step.kernel});
    const bool region = step.domain == "tenon" && step.op_type == "Region";
    made.op_type = region ? "region" : step.domain.empty() ? step.op_type : step.domain + "." + step.op_type;
    if (!step.outputs.empty()) made.name = step.outputs[0].name;
  }
  return steps;
}

}  // namespace

Result<ValueKeeper> ValueKeeper::make(const std::string& model, const std::vector<std::string>& names,
                                      const std::string& folder) {
  TENON_TRY_ASSIGN(ModelValues values, ModelValues::read(model));
  ValueKeeper keeper(model, std::move(values), folder);
  TENON_TRY_ASSIGN(keeper.order_, keeper.values_.select(names));
  keeper.chosen_.insert(keeper.order_.begin(), keeper.order_.end());
  return keeper;
}

bool ValueKeeper::wants(std::string_view body, std::string_view name) {
  return chosen_.contains(ValueName(body, name));
}

Status ValueKeeper::value(const NodeValue& value) {
  made_.emplace(value.body, value.name);
  return writer_.add(value);
}

Status ValueKeeper::finish(Session& session, const std::vector<std::pair<std::string, Tensor>>& inputs) {
  std::map<std::string, Shape> shapes;
  for (const auto& [name, tensor] : inputs) shapes.emplace(name, tensor.shape());
  TENON_TRY_ASSIGN(const PlanReport plan, session.plan_report(shapes, {}));
  const std::vector<NodeValue> steps = steps_of(plan);
  for (const ValueName& name : order_)
    if (!made_.contains(name)) absent_.emplace_back(name, why_absent(*values_.maker(name), steps));
  if (writer_.size() == 0 && !absent_.empty())
    return not_found("The run does not compute {}: {}. With --without all, and without --ep, it computes every value.",
                     label(absent_[0].first, 0), absent_[0].second);
  TENON_TRY(writer_.add_inputs(inputs));
  return writer_.finish(model_, absent_);
}

nlohmann::ordered_json ValueKeeper::json() const {
  auto absent = nlohmann::ordered_json::array();
  for (const auto& [name, why] : absent_)
    absent.push_back({{"value", name.second}, {"body", name.first}, {"why", why}});
  return {{"values", writer_.size()}, {"index", folder_ + "/values.json"}, {"not_computed", absent}};
}

std::string ValueKeeper::text() const {
  std::string text = format("values kept: {} -> {}/values.json\n", writer_.size(), folder_);
  if (absent_.empty()) return text;
  constexpr size_t kMostShown = 5;
  text += format("values not computed: {} (values.json lists them; --without all, and no --ep, computes them)\n",
                 absent_.size());
  for (size_t i = 0; i < absent_.size() && i < kMostShown; ++i)
    text += format("  {}: {}\n", label(absent_[i].first, 0), absent_[i].second);
  return text;
}

}  // namespace tenon::cli
