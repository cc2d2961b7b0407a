#include "ops/trees.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "ops/attributes.h"

namespace tenon {

namespace {

using Mode = TreeEnsembleDesc::Mode;

constexpr std::array<std::string_view, 6> kModes = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                                    "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};

float half_to_float(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction != 0 ? __builtin_nanf("") : sign * __builtin_inff();
  if (exponent == 0) return sign * static_cast<float>(fraction) * 0x1p-24f;
  float value = static_cast<float>(1024 + fraction) * 0x1p-25f;
  for (int i = 0; i < exponent; ++i) value *= 2;
  return sign * value;
}

// Numbers of an attribute that is a list of floats, or a tensor ("<name>_as_tensor", or `name` itself).
Result<std::vector<double>> numbers_of(const Node& node, const std::string& name) {
  const Attributes attributes(node);
  const std::string as_tensor = name + "_as_tensor";
  ConstantRef tensor;
  for (const std::string& one : {as_tensor, name})
    if (tensor == nullptr && node.has(one)) tensor = attributes.tensor(one);
  std::vector<double> values;
  if (tensor == nullptr) {
    const std::span<const float> floats = node.has(name) ? attributes.numbers(name) : std::span<const float>();
    values.assign(floats.begin(), floats.end());
  } else if (tensor->type == DataType::kFloat) {
    const std::span<const float> floats = tensor->as<float>();
    values.assign(floats.begin(), floats.end());
  } else if (tensor->type == DataType::kDouble) {
    const std::span<const double> doubles = tensor->as<double>();
    values.assign(doubles.begin(), doubles.end());
  } else if (tensor->type == DataType::kFloat16) {
    for (uint16_t bits : tensor->as<uint16_t>()) values.push_back(half_to_float(bits));
  } else {
    return invalid_argument("The attribute \"{}\" of {} is a {} tensor, not one of floats.", name, node.op_type,
                            data_type_name(tensor->type));
  }
  return values;
}

// A list that has one entry for each node, or is left out.
template <typename List>
Status check_length(const Node& node, std::string_view name, const List& list, size_t nodes, bool optional) {
  TENON_INVALID_IF(list.size() != nodes && !(optional && list.empty()), "{} has {} {} for {} nodes.", node.op_type,
                   list.size(), name, nodes);
  return {};
}

// No node is under itself, so that a descent ends. Trees may share parts.
Status check_descent(const Node& node, const TreeEnsembleDesc& desc) {
  enum class Seen : uint8_t { kNever, kAbove, kDone };
  std::vector<Seen> seen(desc.branches.size(), Seen::kNever);
  std::vector<std::pair<int32_t, int>> path;  // a branch, and how many of its children were visited
  for (const int32_t root : desc.roots) {
    if (root >= 0 && seen[root] == Seen::kNever) path.emplace_back(root, 0);
    while (!path.empty()) {
      auto& [at, visited] = path.back();
      if (visited == 2) {
        seen[at] = Seen::kDone;
        path.pop_back();
        continue;
      }
      seen[at] = Seen::kAbove;
      const int32_t child = visited++ == 0 ? desc.branches[at].yes : desc.branches[at].no;
      if (child < 0 || seen[child] == Seen::kDone) continue;
      TENON_INVALID_IF(seen[child] == Seen::kAbove, "Node {} of {} is under itself.", child, node.op_type);
      path.emplace_back(child, 0);
    }
  }
  return {};
}

Status add_feature(const Node& node, TreeEnsembleDesc& desc, int64_t feature) {
  TENON_INVALID_IF(feature < 0 || feature >= INT32_MAX, "A node of {} asks for feature {}.", node.op_type, feature);
  desc.most_feature = std::max(desc.most_feature, feature);
  return {};
}

// The versions in which nodes have the numbers of a tree and of a node in it.
class NumberedNodes {
 public:
  NumberedNodes(const Node& node, TreeEnsembleDesc& desc) : node_(node), desc_(desc), attributes_(node) {}

  Status read(std::string_view kind) {
    trees_ = attributes_.integers("nodes_treeids");
    numbers_ = attributes_.integers("nodes_nodeids");
    const std::span<const std::string> modes = attributes_.texts("nodes_modes");
    const std::span<const int64_t> features = attributes_.integers("nodes_featureids");
    const std::span<const int64_t> yes = attributes_.integers("nodes_truenodeids");
    const std::span<const int64_t> no = attributes_.integers("nodes_falsenodeids");
    const std::span<const int64_t> missing = attributes_.integers("nodes_missing_value_tracks_true");
    TENON_TRY_ASSIGN(const std::vector<double> thresholds, numbers_of(node_, "nodes_values"));
    const size_t nodes = trees_.size();
    TENON_TRY(check_length(node_, "nodes_nodeids", numbers_, nodes, false));
    TENON_TRY(check_length(node_, "nodes_modes", modes, nodes, false));
    TENON_TRY(check_length(node_, "nodes_featureids", features, nodes, false));
    TENON_TRY(check_length(node_, "nodes_truenodeids", yes, nodes, false));
    TENON_TRY(check_length(node_, "nodes_falsenodeids", no, nodes, false));
    TENON_TRY(check_length(node_, "nodes_values", thresholds, nodes, false));
    TENON_TRY(check_length(node_, "nodes_missing_value_tracks_true", missing, nodes, true));
    TENON_INVALID_IF(nodes == 0 || nodes > size_t{INT32_MAX}, "{} has {} nodes.", node_.op_type, nodes);
    TENON_TRY(place_nodes(modes));
    TENON_TRY(read_weights(kind));
    for (size_t i = 0; i < nodes; ++i) {
      if (places_[i] < 0) continue;
      TENON_TRY(add_feature(node_, desc_, features[i]));
      TreeEnsembleDesc::Branch& branch = desc_.branches[places_[i]];
      branch.mode = static_cast<Mode>(std::find(kModes.begin(), kModes.end(), modes[i]) - kModes.begin());
      branch.missing_is_yes = !missing.empty() && missing[i] != 0;
      branch.feature = features[i];
      branch.threshold = thresholds[i];
      TENON_TRY_ASSIGN(branch.yes, place_of(trees_[i], yes[i]));
      TENON_TRY_ASSIGN(branch.no, place_of(trees_[i], no[i]));
    }
    return {};
  }

 private:
  Status place_nodes(std::span<const std::string> modes) {
    std::map<int64_t, bool> known_trees;
    for (size_t i = 0; i < trees_.size(); ++i) {
      const bool is_leaf = modes[i] == "LEAF";
      TENON_INVALID_IF(!is_leaf && std::find(kModes.begin(), kModes.end(), modes[i]) == kModes.end(),
                       "Node {} of {} has the unknown mode \"{}\".", i, node_.op_type, modes[i]);
      places_.push_back(is_leaf ? -1 - static_cast<int32_t>(desc_.leaves.size())
                                : static_cast<int32_t>(desc_.branches.size()));
      if (is_leaf) {
        desc_.leaves.emplace_back();
      } else {
        desc_.branches.emplace_back();
      }
      const bool is_new = by_number_.emplace(std::pair(trees_[i], numbers_[i]), places_[i]).second;
      TENON_INVALID_IF(!is_new, "{} has two nodes {} in tree {}.", node_.op_type, numbers_[i], trees_[i]);
      // The first node of a tree is its root.
      if (known_trees.emplace(trees_[i], true).second) desc_.roots.push_back(places_[i]);
    }
    return {};
  }

  Result<int32_t> place_of(int64_t tree, int64_t number) const {
    const auto found = by_number_.find({tree, number});
    TENON_INVALID_IF(found == by_number_.end(), "{} has no node {} in tree {}, which another node leads to.",
                     node_.op_type, number, tree);
    return found->second;
  }

  // `kind` is "class" or "target".
  Status read_weights(std::string_view kind) {
    const auto name = [&](std::string_view rest) { return std::string(kind) + "_" + std::string(rest); };
    const std::span<const int64_t> trees = attributes_.integers(name("treeids"));
    const std::span<const int64_t> numbers = attributes_.integers(name("nodeids"));
    const std::span<const int64_t> ids = attributes_.integers(name("ids"));
    TENON_TRY_ASSIGN(const std::vector<double> values, numbers_of(node_, name("weights")));
    TENON_INVALID_IF(numbers.size() != trees.size() || ids.size() != trees.size() || values.size() != trees.size(),
                     "{} has {} {}_treeids, {} nodeids, {} ids and {} weights.", node_.op_type, trees.size(), kind,
                     numbers.size(), ids.size(), values.size());
    std::vector<std::vector<TreeEnsembleDesc::Weight>> by_leaf(desc_.leaves.size());
    for (size_t i = 0; i < trees.size(); ++i) {
      TENON_TRY_ASSIGN(const int32_t place, place_of(trees[i], numbers[i]));
      TENON_INVALID_IF(ids[i] < 0 || ids[i] >= desc_.targets, "A weight of {} is for {} {} of {}.", node_.op_type, kind,
                       ids[i], desc_.targets);
      if (place < 0) by_leaf[-1 - place].push_back({ids[i], values[i]});
    }
    for (size_t leaf = 0; leaf < by_leaf.size(); ++leaf) {
      desc_.leaves[leaf] = {desc_.weights.size(), by_leaf[leaf].size()};
      desc_.weights.insert(desc_.weights.end(), by_leaf[leaf].begin(), by_leaf[leaf].end());
    }
    return {};
  }

  const Node& node_;
  TreeEnsembleDesc& desc_;
  const Attributes attributes_;
  std::span<const int64_t> trees_, numbers_;
  std::vector<int32_t> places_;
  std::map<std::pair<int64_t, int64_t>, int32_t> by_number_;
};

// TreeEnsemble: nodes and leaves by their places.
Status read_placed_nodes(const Node& node, TreeEnsembleDesc& desc) {
  const Attributes attributes(node);
  const std::span<const int64_t> features = attributes.integers("nodes_featureids");
  const std::span<const int64_t> yes = attributes.integers("nodes_truenodeids");
  const std::span<const int64_t> no = attributes.integers("nodes_falsenodeids");
  const std::span<const int64_t> yes_leaf = attributes.integers("nodes_trueleafs");
  const std::span<const int64_t> no_leaf = attributes.integers("nodes_falseleafs");
  const std::span<const int64_t> missing = attributes.integers("nodes_missing_value_tracks_true");
  const std::span<const int64_t> roots = attributes.integers("tree_roots");
  const std::span<const int64_t> targets = attributes.integers("leaf_targetids");
  const ConstantRef modes = attributes.tensor("nodes_modes");
  TENON_INVALID_IF(modes == nullptr || modes->type != DataType::kUint8, "{} has no nodes_modes of uint8.",
                   node.op_type);
  const std::span<const uint8_t> mode = modes->as<uint8_t>();
  TENON_TRY_ASSIGN(const std::vector<double> splits, numbers_of(node, "nodes_splits"));
  TENON_TRY_ASSIGN(const std::vector<double> weights, numbers_of(node, "leaf_weights"));
  TENON_TRY_ASSIGN(const std::vector<double> members, numbers_of(node, "membership_values"));
  const size_t nodes = features.size();
  TENON_TRY(check_length(node, "nodes_truenodeids", yes, nodes, false));
  TENON_TRY(check_length(node, "nodes_falsenodeids", no, nodes, false));
  TENON_TRY(check_length(node, "nodes_trueleafs", yes_leaf, nodes, false));
  TENON_TRY(check_length(node, "nodes_falseleafs", no_leaf, nodes, false));
  TENON_TRY(check_length(node, "nodes_modes", mode, nodes, false));
  TENON_TRY(check_length(node, "nodes_splits", splits, nodes, false));
  TENON_TRY(check_length(node, "nodes_missing_value_tracks_true", missing, nodes, true));
  TENON_INVALID_IF(weights.size() != targets.size() || weights.size() > size_t{INT32_MAX},
                   "{} has {} leaf_weights and {} leaf_targetids.", node.op_type, weights.size(), targets.size());
  for (size_t leaf = 0; leaf < targets.size(); ++leaf) {
    TENON_INVALID_IF(targets[leaf] < 0 || targets[leaf] >= desc.targets, "Leaf {} of {} is for target {} of {}.", leaf,
                     node.op_type, targets[leaf], desc.targets);
    desc.weights.push_back({targets[leaf], weights[leaf]});
    desc.leaves.push_back({leaf, 1});
  }
  const auto place = [&](int64_t number, bool is_leaf) -> Result<int32_t> {
    const size_t count = is_leaf ? desc.leaves.size() : nodes;
    TENON_INVALID_IF(number < 0 || number >= static_cast<int64_t>(count), "{} has no {} {}; it has {}.", node.op_type,
                     is_leaf ? "leaf" : "node", number, count);
    return static_cast<int32_t>(is_leaf ? -1 - number : number);
  };
  desc.members = members;
  size_t member = 0;
  for (size_t i = 0; i < nodes; ++i) {
    TreeEnsembleDesc::Branch branch;
    TENON_INVALID_IF(mode[i] > 6, "Node {} of {} has the unknown mode {}.", i, node.op_type, mode[i]);
    TENON_TRY(add_feature(node, desc, features[i]));
    branch.mode = static_cast<Mode>(mode[i]);
    branch.missing_is_yes = !missing.empty() && missing[i] != 0;
    branch.feature = features[i];
    branch.threshold = splits[i];
    if (branch.mode == Mode::kMember) {
      // The sets of all such nodes, in their order, each with a NaN behind it.
      branch.first_member = member;
      while (member < members.size() && members[member] == members[member]) ++member;
      branch.members = member - branch.first_member;
      TENON_INVALID_IF(member == members.size(), "The membership_values of {} end before those of node {} do.",
                       node.op_type, i);
      ++member;
    }
    TENON_TRY_ASSIGN(branch.yes, place(yes[i], yes_leaf[i] != 0));
    TENON_TRY_ASSIGN(branch.no, place(no[i], no_leaf[i] != 0));
    desc.branches.push_back(branch);
  }
  for (const int64_t root : roots) {
    TENON_TRY_ASSIGN(const int32_t found, place(root, false));
    desc.roots.push_back(found);
  }
  return {};
}

Result<TreeEnsembleDesc::Aggregate> read_aggregate(const Node& node) {
  constexpr std::array<std::string_view, 4> kNames = {"AVERAGE", "SUM", "MIN", "MAX"};
  const Attributes attributes(node);
  if (node.op_type == "TreeEnsembleClassifier") return TreeEnsembleDesc::Aggregate::kSum;
  if (node.op_type == "TreeEnsemble") {
    const int64_t number = attributes.find_integer("aggregate_function").value_or(1);
    TENON_INVALID_IF(number < 0 || number >= std::ssize(kNames), "{} has the unknown aggregate_function {}.",
                     node.op_type, number);
    return static_cast<TreeEnsembleDesc::Aggregate>(number);
  }
  const std::string_view name = attributes.find_text("aggregate_function").value_or("SUM");
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  TENON_INVALID_IF(found == kNames.end(), "{} has the unknown aggregate_function \"{}\".", node.op_type, name);
  return static_cast<TreeEnsembleDesc::Aggregate>(found - kNames.begin());
}

}  // namespace

Result<TreeEnsembleDesc> read_tree_ensemble(const Node& node) {
  TreeEnsembleDesc desc;
  TENON_TRY_ASSIGN(desc.targets, score_columns(node));
  TENON_TRY_ASSIGN(desc.aggregate, read_aggregate(node));
  TENON_TRY_ASSIGN(desc.transform, read_post_transform(node));
  TENON_INVALID_IF(desc.targets < 1 || desc.targets > INT32_MAX, "{} has {} targets.", node.op_type, desc.targets);
  if (node.op_type == "TreeEnsemble") {
    TENON_TRY(read_placed_nodes(node, desc));
  } else {
    TENON_TRY_ASSIGN(desc.base_values, numbers_of(node, "base_values"));
    TENON_TRY(NumberedNodes(node, desc).read(node.op_type == "TreeEnsembleClassifier" ? "class" : "target"));
  }
  TENON_TRY(check_descent(node, desc));
  return desc;
}

}  // namespace tenon
