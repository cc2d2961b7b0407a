// Tree ensembles of ai.onnx.ml: TreeEnsembleClassifier and TreeEnsembleRegressor (versions 1 to 5), TreeEnsemble (5).
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"
#include "ops/ml.h"

namespace tenon {

struct TreeEnsembleDesc {
  enum class Mode : uint8_t { kLessOrEqual, kLess, kGreaterOrEqual, kGreater, kEqual, kNotEqual, kMember };
  enum class Aggregate : uint8_t { kAverage, kSum, kMin, kMax };

  // A node that asks for a feature. `yes` and `no` are places: of a branch, or of leaf -1 - place where it is negative.
  struct Branch {
    Mode mode = Mode::kLessOrEqual;
    bool missing_is_yes = false;  // NaN goes to `yes`
    int64_t feature = 0;
    double threshold = 0;
    size_t first_member = 0, members = 0;  // kMember
    int32_t yes = 0, no = 0;
  };
  struct Weight {
    int64_t target = 0;
    double value = 0;
  };
  struct Leaf {
    size_t first_weight = 0, weights = 0;
  };

  std::vector<Branch> branches;
  std::vector<Leaf> leaves;
  std::vector<Weight> weights;
  std::vector<double> members;
  std::vector<int32_t> roots;  // a place for each tree
  std::vector<double> base_values;
  int64_t targets = 1;  // a classifier's classes
  int64_t most_feature = -1;
  Aggregate aggregate = Aggregate::kSum;
  PostTransform transform = PostTransform::kNone;
};

// Errors: lists of different lengths; nodes, leaves, targets and modes that there are not; a node that is under itself.
Result<TreeEnsembleDesc> read_tree_ensemble(const Node& node);

}  // namespace tenon
