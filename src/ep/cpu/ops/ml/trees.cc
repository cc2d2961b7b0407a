// TreeEnsemble, TreeEnsembleClassifier and TreeEnsembleRegressor: rows by blocks, in which each tree is read once.
#include <algorithm>
#include <memory>
#include <utility>

#include "ep/cpu/ops/ml/features.h"
#include "ep/cpu/ops/ml/flat_trees.h"
#include "ep/cpu/ops/ml/scores.h"
#include "ep/cpu/ops/sequence/objects.h"
#include "ops/trees.h"

namespace tenon::cpu::ref {

namespace {

using Aggregate = TreeEnsembleDesc::Aggregate;

// Rows of a block: a tree's nodes stay in the cache while they go down.
constexpr int64_t kBlockRows = 64;
// Steps down trees that are worth another thread.
constexpr int64_t kGrainSteps = 20'000;

// The trees and what to do with their leaves, in the type of the thresholds.
template <typename T>
struct Forest {
  explicit Forest(const TreeEnsembleDesc& desc) : trees(desc), leaves(desc.leaves), aggregate(desc.aggregate) {
    weights.reserve(desc.weights.size());
    for (const TreeEnsembleDesc::Weight& weight : desc.weights) weights.emplace_back(weight.target, T(weight.value));
    targets = desc.targets;
    // One weight a leaf, added up: its place is the leaf's.
    sums_one = aggregate == Aggregate::kSum || aggregate == Aggregate::kAverage;
    for (const TreeEnsembleDesc::Leaf& leaf : leaves) sums_one = sums_one && leaf.weights == 1;
    if (!sums_one) return;
    for (const TreeEnsembleDesc::Leaf& leaf : leaves) by_leaf.push_back(weights[leaf.first_weight]);
  }

  // Sums (or the like) of a block of rows, `targets` each, and which of them a tree has spoken for.
  void run(const T* x, int64_t features, int64_t rows, T* scores, uint8_t* spoken) const {
    int32_t found[kBlockRows];
    std::fill(scores, scores + rows * targets, T(0));
    std::fill(spoken, spoken + rows * targets, uint8_t{0});
    // Rows that are too few to go down a tree together go down several trees at once, one after the other.
    const int64_t few = rows % FlatTrees<T>::kTogether;
    for (int64_t r = rows - few; r < rows; ++r) run_row(x + r * features, scores + r * targets, spoken + r * targets);
    rows -= few;
    if (rows == 0) return;
    for (size_t tree = 0; tree < trees.trees(); ++tree) {
      trees.find_leaves(tree, x, features, rows, found);
      if (sums_one) {
        for (int64_t r = 0; r < rows; ++r) {
          const auto& [target, value] = by_leaf[found[r]];
          scores[r * targets + target] += value;
          spoken[r * targets + target] = 1;
        }
        continue;
      }
      for (int64_t r = 0; r < rows; ++r) add(leaves[found[r]], scores + r * targets, spoken + r * targets);
    }
  }

  // The same for one row.
  void run_row(const T* x, T* scores, uint8_t* spoken) const {
    int32_t found[kBlockRows];
    for (size_t tree = 0; tree < trees.trees(); tree += kBlockRows) {
      const size_t count = std::min<size_t>(kBlockRows, trees.trees() - tree);
      trees.find_leaves_of_row(tree, count, x, found);
      if (sums_one && targets == 1) {
        T sum = scores[0];
        for (size_t i = 0; i < count; ++i) sum += by_leaf[found[i]].second;
        scores[0] = sum;
        spoken[0] = 1;
        continue;
      }
      for (size_t i = 0; i < count; ++i) add(leaves[found[i]], scores, spoken);
    }
  }

  void add(const TreeEnsembleDesc::Leaf& leaf, T* scores, uint8_t* spoken) const {
    for (size_t w = leaf.first_weight; w < leaf.first_weight + leaf.weights; ++w) {
      const auto& [target, value] = weights[w];
      T& score = scores[target];
      if (aggregate == Aggregate::kMin) {
        score = spoken[target] == 0 ? value : std::min(score, value);
      } else if (aggregate == Aggregate::kMax) {
        score = spoken[target] == 0 ? value : std::max(score, value);
      } else {
        score += value;
      }
      spoken[target] = 1;
    }
  }

  FlatTrees<T> trees;
  std::vector<TreeEnsembleDesc::Leaf> leaves;
  std::vector<std::pair<int64_t, T>> weights, by_leaf;  // by_leaf if sums_one
  Aggregate aggregate;
  int64_t targets = 1;
  bool sums_one = false;
};

using ReadBlock = void (*)(const void* x, int64_t first, int64_t count, void* to);
template <typename From, typename To>
void read_block(const void* x, int64_t first, int64_t count, void* to) {
  const From* from = static_cast<const From*>(x) + first;
  for (int64_t i = 0; i < count; ++i) static_cast<To*>(to)[i] = static_cast<To>(from[i]);
}

// finish(first row, rows, scores, spoken) for each block.
template <typename T, typename Finish>
void run_blocks(const Forest<T>& forest, KernelContext& context, const FeatureRows& x, ReadBlock read,
                const Finish& finish) {
  const int64_t blocks = (x.rows + kBlockRows - 1) / kBlockRows;
  const int64_t block_steps = kBlockRows * (forest.trees.steps() + static_cast<int64_t>(forest.trees.trees()));
  context.pool->parallel_for(blocks, std::max<int64_t>(1, kGrainSteps / std::max<int64_t>(1, block_steps)),
                             [&](int64_t begin, int64_t end) {
                               std::vector<T> scores(std::min(kBlockRows, x.rows) * forest.targets);
                               std::vector<uint8_t> spoken(scores.size());
                               std::vector<T> copied(read != nullptr ? std::min(kBlockRows, x.rows) * x.features : 0);
                               for (int64_t block = begin; block < end; ++block) {
                                 const int64_t first = block * kBlockRows, rows = std::min(kBlockRows, x.rows - first);
                                 const T* from = context.input<T>(0) + (read == nullptr ? first * x.features : 0);
                                 if (read != nullptr) {
                                   read(context.inputs[0], first * x.features, rows * x.features, copied.data());
                                   from = copied.data();
                                 }
                                 forest.run(from, x.features, rows, scores.data(), spoken.data());
                                 finish(first, rows, scores.data(), spoken.data());
                               }
                             });
}

Result<FeatureRows> rows_for(const RefNode& node, const TreeEnsembleDesc& desc) {
  TENON_TRY_ASSIGN(const FeatureRows x, feature_rows(*node.node, node.inputs[0].shape));
  TENON_INVALID_IF(desc.most_feature >= x.features && (desc.most_feature > 0 || x.features > 0 || x.rows > 0),
                   "{} asks for feature {}, and its input {} has {}.", node.node->op_type, desc.most_feature,
                   node.inputs[0].shape.to_string(), x.features);
  const size_t nodes = 2 * (desc.branches.size() + desc.members.size()) + desc.leaves.size();
  TENON_UNSUPPORTED_IF(nodes > FlatTrees<double>::kMostNodes, "{} has trees of {} nodes; the limit is {}.",
                       node.node->op_type, nodes, FlatTrees<double>::kMostNodes);
  return x;
}

// Null for the type of the thresholds itself.
template <typename T>
ReadBlock reader_for(DataType type) {
  if (type == TypeNumber<T>::value) return nullptr;
  return select(FeatureTypes() + TypeList<Float16>(), type,
                []<typename From>() -> ReadBlock { return &read_block<From, T>; });
}

// --- regressors ---

template <typename T>
Result<RefImpl> make_typed_regressor(RefNode& node, const TreeEnsembleDesc& desc) {
  TENON_TRY_ASSIGN(const FeatureRows x, rows_for(node, desc));
  TENON_TRY(require_output(node, 0, Shape{x.rows, desc.targets}));
  TENON_INVALID_IF(desc.base_values.size() > 1 && std::ssize(desc.base_values) != desc.targets,
                   "{} has {} base_values for {} targets.", node.node->op_type, desc.base_values.size(), desc.targets);
  std::vector<double> base = desc.base_values;
  if (std::ssize(base) != desc.targets) base.clear();
  const double share = desc.aggregate == Aggregate::kAverage ? 1.0 / static_cast<double>(desc.roots.size()) : 1.0;
  RefImpl impl;
  impl.run = [x, base, share, transform = desc.transform, type = output_spec(node, 0).type,
              read = reader_for<T>(node.inputs[0].type),
              forest = std::make_shared<const Forest<T>>(desc)](KernelContext& context) -> Status {
    const int64_t targets = forest->targets;
    run_blocks(*forest, context, x, read, [&](int64_t first, int64_t rows, T* scores, const uint8_t*) {
      std::vector<float> row(targets);
      for (int64_t r = 0; r < rows; ++r) {
        T* sums = scores + r * targets;
        for (int64_t t = 0; t < targets; ++t)
          sums[t] = static_cast<T>(sums[t] * share + (base.empty() ? 0.0 : base[t]));
        if (transform != PostTransform::kNone) {
          for (int64_t t = 0; t < targets; ++t) row[t] = static_cast<float>(sums[t]);
          // One target is no distribution; what ONNX Runtime does to it is the inverse of the normal one's alone.
          if (targets > 1 || transform == PostTransform::kProbit) transform_scores(row, transform);
          for (int64_t t = 0; t < targets; ++t) sums[t] = static_cast<T>(row[t]);
        }
        const int64_t at = (first + r) * targets;
        for (int64_t t = 0; t < targets; ++t) {
          if (type == DataType::kDouble) {
            context.output<double>(0)[at + t] = sums[t];
          } else if (type == DataType::kFloat16) {
            context.output<Float16>(0)[at + t] = Float16(static_cast<float>(sums[t]));
          } else {
            context.output<float>(0)[at + t] = static_cast<float>(sums[t]);
          }
        }
      }
    });
    return {};
  };
  return impl;
}

Result<RefImpl> make_regressor(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY_ASSIGN(const TreeEnsembleDesc desc, read_tree_ensemble(*node.node));
  if (node.inputs[0].type == DataType::kDouble) return make_typed_regressor<double>(node, desc);
  return make_typed_regressor<float>(node, desc);
}

// --- classifiers ---

// How the sums of a row become scores and a class.
struct Decision {
  ClassLabels labels;
  std::vector<double> base;
  PostTransform transform = PostTransform::kNone;
  bool one_sum = false;       // all weights are for one of two classes
  bool all_positive = false;  // the weights

  // `scores` has a place for each class. The place of the class that wins.
  int64_t decide(std::span<float> scores, std::span<uint8_t> spoken) const {
    if (scores.size() > 2 || scores.size() == 1) return decide_among(scores, spoken);
    const bool second = spoken[1] != 0;
    if (base.size() == 2) {
      if (second) {
        scores[1] = static_cast<float>(base[1]) + scores[0];
        scores[0] = -scores[1];
      } else {
        scores[0] += static_cast<float>(base[0]);
        scores[1] += static_cast<float>(base[1]);
      }
    } else if (base.size() == 1) {
      scores[0] += static_cast<float>(base[0]);
    }
    const float weight = second ? scores[1] : scores[0];
    const bool wins = one_sum && all_positive ? weight > 0.5f : weight > 0;
    if (second || base.size() == 2) {
      transform_scores(scores, transform);
    } else {
      expand_score(scores, one_sum && all_positive ? SecondClass::kComplement : SecondClass::kOpposite, transform);
    }
    return wins ? 1 : 0;
  }

 private:
  int64_t decide_among(std::span<float> scores, std::span<uint8_t> spoken) const {
    for (size_t i = 0; i < base.size() && i < scores.size(); ++i) {
      scores[i] += static_cast<float>(base[i]);
      spoken[i] = 1;
    }
    int64_t best = -1;
    for (int64_t i = 0; i < std::ssize(scores); ++i) {
      if (spoken[i] != 0 && (best < 0 || scores[i] > scores[best])) best = i;
    }
    transform_scores(scores, transform);
    return std::max<int64_t>(best, 0);
  }
};

Decision decision_of(const TreeEnsembleDesc& desc, ClassLabels labels) {
  Decision decision{.labels = std::move(labels), .base = desc.base_values, .transform = desc.transform};
  decision.all_positive = true;
  decision.one_sum = desc.targets == 2 && !desc.weights.empty();
  for (const TreeEnsembleDesc::Weight& weight : desc.weights) {
    decision.all_positive = decision.all_positive && weight.value >= 0;
    decision.one_sum = decision.one_sum && weight.target == desc.weights[0].target;
  }
  return decision;
}

template <typename T>
Result<RefImpl> make_typed_classifier(RefNode& node, const TreeEnsembleDesc& desc, ClassLabels labels) {
  TENON_TRY_ASSIGN(const FeatureRows x, rows_for(node, desc));
  TENON_TRY(require_output(node, 0, Shape{x.rows}));
  TENON_TRY(require_output(node, 1, Shape{x.rows, desc.targets}));
  RefImpl impl;
  const ConstantRef texts = make_string_constant(Shape{std::ssize(labels.strings)}, labels.strings);
  impl.run = [x, texts, decision = decision_of(desc, std::move(labels)), read = reader_for<T>(node.inputs[0].type),
              forest = std::make_shared<const Forest<T>>(desc)](KernelContext& context) -> Status {
    const int64_t classes = forest->targets;
    keep_texts(context, texts);
    auto* const scores_out = context.output<float>(1);
    run_blocks(*forest, context, x, read, [&](int64_t first, int64_t rows, T* sums, uint8_t* spoken) {
      std::vector<float> scores(classes);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < classes; ++c) scores[c] = static_cast<float>(sums[r * classes + c]);
        const int64_t best = decision.decide(scores, {spoken + r * classes, static_cast<size_t>(classes)});
        if (context.outputs[0] != nullptr) {
          if (decision.labels.are_strings()) {
            context.output<TextAddress>(0)[first + r] = &texts->strings[best];
          } else {
            context.output<int64_t>(0)[first + r] = decision.labels.integers[best];
          }
        }
        if (scores_out != nullptr) std::copy(scores.begin(), scores.end(), scores_out + (first + r) * classes);
      }
    });
    return {};
  };
  return impl;
}

Result<RefImpl> make_classifier(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY_ASSIGN(const TreeEnsembleDesc desc, read_tree_ensemble(*node.node));
  TENON_TRY_ASSIGN(ClassLabels labels, read_class_labels(*node.node));
  TENON_INVALID_IF(desc.base_values.size() > 2 && std::ssize(desc.base_values) != desc.targets,
                   "TreeEnsembleClassifier has {} base_values for {} classes.", desc.base_values.size(), desc.targets);
  if (node.inputs[0].type == DataType::kDouble) return make_typed_classifier<double>(node, desc, std::move(labels));
  return make_typed_classifier<float>(node, desc, std::move(labels));
}

constexpr TypeSet kTreeSet = kFeatureSet | type_set(TypeList<Float16>());

constexpr KernelEntry kRows[] = {
    ref_row<kTreeSet, &make_regressor>("TreeEnsemble", 5, kAnyVersion, kMlDomain),
    ref_row<kFeatureSet, &make_classifier>("TreeEnsembleClassifier", 1, kAnyVersion, kMlDomain),
    ref_row<kFeatureSet, &make_regressor>("TreeEnsembleRegressor", 1, kAnyVersion, kMlDomain),
};

}  // namespace

std::span<const KernelEntry> ref_tree_rows() { return kRows; }

}  // namespace tenon::cpu::ref
