// Common to the operators of ai.onnx.ml (opsets 1 to 5): classes, transforms of scores, rows of features.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tenon/types.h>

#include "base/status.h"
#include "graph/graph.h"

namespace tenon {

inline constexpr std::string_view kMlDomain = "ai.onnx.ml";

// The last step of classifiers and regressors.
enum class PostTransform : uint8_t { kNone, kLogistic, kSoftmax, kSoftmaxZero, kProbit };
// Errors: a name, or for TreeEnsemble a number, that there is not.
Result<PostTransform> read_post_transform(const Node& node);

// The classes of a classifier: strings or integers.
struct ClassLabels {
  std::vector<std::string> strings;
  std::vector<int64_t> integers;

  bool are_strings() const { return !strings.empty(); }
  int64_t size() const { return static_cast<int64_t>(are_strings() ? strings.size() : integers.size()); }
  DataType type() const { return are_strings() ? DataType::kString : DataType::kInt64; }
};
// From the attributes classlabels_strings and classlabels_ints (classlabels_int64s). Errors: both, or none.
Result<ClassLabels> read_class_labels(const Node& node);

// X of models: rows of features. A vector is one row.
struct FeatureRows {
  int64_t rows = 1;
  int64_t features = 0;
};
// Errors: a scalar, a rank above 2.
Result<FeatureRows> feature_rows(const Node& node, const Shape& x);

// One of both sides of LabelEncoder, by the attribute (keys_ or values_) that is there.
struct LabelList {
  DataType type = DataType::kUndefined;
  ConstantRef values;  // a vector
};
// `what` is "keys" or "values". Errors: none or several of them, a tensor that is no vector.
Result<LabelList> read_label_list(const Node& node, std::string_view what);

// The widths of a classifier's scores, of a regressor's targets. Errors: attributes that do not fit each other.
Result<int64_t> score_columns(const Node& node);

}  // namespace tenon
