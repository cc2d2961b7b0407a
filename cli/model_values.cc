#include "cli/model_values.h"

#include <tenon/close_names.h>

#include <algorithm>

#include "cli/status.h"

namespace tenon::cli {

Result<ModelValues> ModelValues::read(const std::string& model) {
  ModelValues values;
  TENON_TRY_ASSIGN(values.nodes_, list_nodes(model));
  values.outermost_.resize(values.nodes_.size());
  // The nodes in a node's bodies come before it.
  size_t outer = values.nodes_.size();
  for (size_t n = values.nodes_.size(); n-- > 0;) {
    const ModelNode& node = values.nodes_[n];
    if (node.body.empty()) outer = n;
    values.outermost_[n] = outer;
    for (const std::string& name : node.outputs)
      if (!name.empty()) values.makers_.emplace(ValueName(node.body, name), n);
  }
  return values;
}

const ModelNode* ModelValues::maker(const ValueName& value) const {
  const auto found = makers_.find(value);
  return found != makers_.end() ? &nodes_[found->second] : nullptr;
}

Result<std::vector<ValueName>> ModelValues::select(const std::vector<std::string>& names) const {
  std::vector<ValueName> selected;
  for (const std::string& name : names) {
    const size_t before = selected.size();
    for (const ModelNode& node : nodes_) {
      for (const std::string& output : node.outputs) {
        const bool fits = name == "all" || node.name == name || output == name;
        if (fits && !output.empty()) selected.emplace_back(node.body, output);
      }
    }
    if (selected.size() > before || name == "all") continue;
    std::vector<std::string_view> known;
    for (const ModelNode& node : nodes_) {
      known.push_back(node.name);
      known.insert(known.end(), node.outputs.begin(), node.outputs.end());
    }
    std::erase(known, "");
    const std::string close = did_you_mean(name, known);
    return not_found("The model has no node and no value \"{}\"{}", name,
                     close.empty() ? "; tenon explain lists its nodes." : close);
  }
  return selected;
}

std::vector<int64_t> ModelValues::position(const ValueName& value, int64_t occurrence) const {
  const auto found = makers_.find(value);
  if (found == makers_.end()) return {static_cast<int64_t>(nodes_.size())};
  const auto node = static_cast<int64_t>(found->second);
  const auto outer = static_cast<int64_t>(outermost_[found->second]);
  return {outer, node == outer ? int64_t{1} : int64_t{0}, occurrence, node};
}

std::string label(const ModelNode& node) {
  const std::string type = node.domain.empty() ? node.op_type : node.domain + "." + node.op_type;
  if (!node.name.empty()) return format("{} \"{}\"", type, node.name);
  const auto output =
      std::find_if(node.outputs.begin(), node.outputs.end(), [](const auto& one) { return !one.empty(); });
  return output == node.outputs.end() ? type : format("{} (output \"{}\")", type, *output);
}

std::string label(const NodeValue& value) {
  if (value.op_type.empty()) return "a constant";
  return value.node.empty() ? format("{} (output \"{}\")", value.op_type, value.name)
                            : format("{} \"{}\"", value.op_type, value.node);
}

std::string label(const ValueName& value, int64_t occurrence) {
  if (value.first.empty()) return format("\"{}\"", value.second);
  return format("\"{}\" in {}, iteration {}", value.second, value.first, occurrence);
}

std::string why_absent(const ModelNode& node, const std::vector<NodeValue>& made) {
  const std::string own = node.name.empty() ? label(node) : node.name;
  for (const NodeValue& value : made) {
    const auto& parts = value.model_nodes;
    if (value.body == node.body && std::find(parts.begin(), parts.end(), own) != parts.end())
      return format("{} {}", value.op_type == "region" ? "inside the region of" : "fused into",
                    value.op_type == "region" ? value.kernel : label(value));
  }
  return "removed by a pass, read by nothing, or no tensor of numbers";
}

}  // namespace tenon::cli
