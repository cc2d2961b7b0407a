// The values of a model by name, and what became of those that a run has not computed.
#pragma once

#include <tenon/model_summary.h>
#include <tenon/node_values.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::cli {

// Body and name, as NodeValue has them.
using ValueName = std::pair<std::string, std::string>;

class ModelValues {
 public:
  static Result<ModelValues> read(const std::string& model);

  const std::vector<ModelNode>& nodes() const { return nodes_; }
  // The node that makes the value; null for one that no node of the model makes.
  const ModelNode* maker(const ValueName& value) const;
  // The values that `--keep` selects: "all", a node's name, or a value's. Errors: kNotFound with the names that are
  // close.
  Result<std::vector<ValueName>> select(const std::vector<std::string>& names) const;
  // Values in this order come after those that they are made from. Iterations of a body follow each other.
  std::vector<int64_t> position(const ValueName& value, int64_t occurrence) const;

 private:
  std::vector<ModelNode> nodes_;
  std::vector<size_t> outermost_;  // by node: the node of the model's own graph that it is, or that it is in
  std::map<ValueName, size_t> makers_;
};

// `Relu "relu3"`, or `Relu (output "y")` for a node without a name.
std::string label(const ModelNode& node);
// The same for the node of a plan that has made a value.
std::string label(const NodeValue& value);
// `"y"`, `"y" in loop1, iteration 3`.
std::string label(const ValueName& value, int64_t occurrence);

// Why a run that has made `made` has not made the outputs of `node`: "fused into tenon.Conv \"relu3\"".
std::string why_absent(const ModelNode& node, const std::vector<NodeValue>& made);

}  // namespace tenon::cli
