// Measured times for the steps of a plan's report.
#include <algorithm>
#include <map>

#include <tenon/plan_report.h>

namespace tenon {

namespace {

bool computes(const PlanReport::Step& step, const NodeTime& time) {
  if (time.name.empty()) return step.name.empty() && step.node == time.node && step.op_type == time.op_type;
  return step.name == time.name ||
         std::find(step.model_nodes.begin(), step.model_nodes.end(), time.name) != step.model_nodes.end();
}

}  // namespace

void add_node_time(std::vector<NodeTime>& run, NodeTime node) {
  for (auto inside = run.rbegin(); inside != run.rend() && inside->begin_ns >= node.begin_ns; ++inside) ++inside->depth;
  run.push_back(std::move(node));
}

size_t PlanReport::add_times(std::span<const NodeTime> times) {
  // Nodes may share a name. Then the index decides, where the times have it.
  size_t timed = 0;
  std::map<std::pair<std::string, std::string>, std::vector<const NodeTime*>> by_name;
  for (const NodeTime& time : times)
    if (time.depth == 0) by_name[{time.name, time.name.empty() ? time.op_type : std::string()}].push_back(&time);
  for (Step& step : steps) {
    std::vector<int64_t> durations;
    const auto collect = [&](const std::string& name, const std::string& op_type) {
      const auto found = by_name.find({name, op_type});
      if (found == by_name.end()) return;
      const bool here = std::any_of(found->second.begin(), found->second.end(),
                                    [&](const NodeTime* time) { return time->node == step.node; });
      for (const NodeTime* time : found->second) {
        if (computes(step, *time) && (!here || time->node == step.node)) durations.push_back(time->duration_ns);
      }
    };
    if (step.copy >= 0 || step.kernel == "copy") continue;
    collect(step.name, step.name.empty() ? step.op_type : std::string());
    if (durations.empty()) {
      for (const std::string& node : step.model_nodes)
        if (!node.empty()) collect(node, std::string());
    }
    step.runs = static_cast<int32_t>(durations.size());
    step.time_ns = 0;
    if (durations.empty()) continue;
    ++timed;
    const auto middle = durations.begin() + static_cast<std::ptrdiff_t>(durations.size() / 2);
    std::nth_element(durations.begin(), middle, durations.end());
    step.time_ns = *middle;
  }
  return timed;
}

}  // namespace tenon
