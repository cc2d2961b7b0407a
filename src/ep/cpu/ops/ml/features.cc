// ArrayFeatureExtractor, Binarizer, FeatureVectorizer, Imputer, Normalizer, OneHotEncoder and Scaler.
#include "ep/cpu/ops/ml/features.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>

#include "ep/cpu/ops/gather/indices.h"
#include "ep/cpu/ops/ml/feature_loops.h"
#include "ep/cpu/ops/ml/places.h"
#include "ep/cpu/ops/sequence/objects.h"
#include "ep/cpu/simd/elementwise.h"
#include "ep/cpu/simd/norm.h"
#include "ops/attributes.h"

namespace tenon::cpu::ref {

namespace {

constexpr int64_t kGrain = 4096;

Result<RefImpl> make_feature_extractor(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  const Shape& x = node.inputs[0].shape;
  TENON_INVALID_IF(x.rank() < 1, "ArrayFeatureExtractor takes no scalar.");
  TENON_INVALID_IF(node.inputs[1].type != DataType::kInt64, "ArrayFeatureExtractor has indices of {}, not of int64.",
                   data_type_name(node.inputs[1].type));
  const int64_t columns = x[x.rank() - 1], count = node.inputs[1].shape.element_count();
  Shape out = x;
  if (x.rank() == 1) out = Shape{1, count};
  out[out.rank() - 1] = count;
  TENON_TRY(require_output(node, 0, out));
  int64_t rows = 1;
  for (int d = 0; d + 1 < x.rank(); ++d) rows *= x[d];
  RefImpl impl;
  impl.run = [=, bytes = data_type_size(node.inputs[0].type)](KernelContext& context) -> Status {
    const auto* indices = context.input<int64_t>(1);
    for (int64_t i = 0; i < count; ++i) {
      if (indices[i] < 0 || indices[i] >= columns)
        return out_of_range("Index {} of ArrayFeatureExtractor is outside [0, {}).", indices[i], columns);
    }
    const auto* from = context.input<std::byte>(0);
    auto* to = context.output<std::byte>(0);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < count; ++i, to += bytes)
        std::memcpy(to, from + (row * columns + indices[i]) * bytes, bytes);
    }
    return {};
  };
  return impl;
}

Result<RefImpl> make_binarizer(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  RefImpl impl;
  impl.elementwise = true;
  impl.run = [chosen = feature_loops(node.inputs[0].type).binarize, count = node.inputs[0].shape.element_count(),
              threshold = Attributes(*node.node).number("threshold")](KernelContext& context) -> Status {
    context.pool->parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
      chosen(context.inputs[0], context.outputs[0], begin, end - begin, threshold);
    });
    return {};
  };
  return impl;
}

Result<RefImpl> make_feature_vectorizer(RefNode& node) {
  const std::span<const int64_t> widths = Attributes(*node.node).integers("inputdimensions");
  TENON_INVALID_IF(widths.size() != node.inputs.size() || widths.empty(),
                   "FeatureVectorizer has {} inputs and {} inputdimensions.", node.inputs.size(), widths.size());
  struct Part {
    ReadFeatures read;
    int64_t columns, width;
  };
  std::vector<Part> parts;
  int64_t rows = 0, total = 0;
  for (size_t i = 0; i < widths.size(); ++i) {
    TENON_TRY(require_inputs(node, i + 1));
    TENON_TRY_ASSIGN(const ReadFeatures read, feature_reader(node, i));
    TENON_TRY_ASSIGN(const FeatureRows x, feature_rows(*node.node, node.inputs[i].shape));
    TENON_INVALID_IF(i > 0 && x.rows != rows, "Input {} of FeatureVectorizer has {} rows, and input 0 {}.", i, x.rows,
                     rows);
    TENON_INVALID_IF(widths[i] < 0, "FeatureVectorizer has an input of {} columns.", widths[i]);
    rows = x.rows;
    parts.push_back({read, x.features, widths[i]});
    total += widths[i];
  }
  TENON_TRY(require_output(node, 0, Shape{rows, total}));
  RefImpl impl;
  impl.run = [parts, rows, total](KernelContext& context) -> Status {
    int64_t column = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      const Part& part = parts[i];
      // Columns that the input lacks are zeros, and more than its width are left out.
      const int64_t taken = std::min(part.columns, part.width);
      for (int64_t row = 0; row < rows; ++row) {
        float* to = context.output<float>(0) + row * total + column;
        part.read(context.inputs[i], row * part.columns, taken, to);
        std::fill(to + taken, to + part.width, 0.0f);
      }
      column += part.width;
    }
    return {};
  };
  return impl;
}

// body(i, column, n) for runs of elements [i, i + n) of one row, which begin in that column. `columns` is 0 where
// columns do not matter.
template <typename Body>
void each_run(int64_t begin, int64_t end, int64_t columns, const Body& body) {
  if (columns == 0) return body(begin, 0, end - begin);
  while (begin < end) {
    const int64_t column = begin % columns, n = std::min(columns - column, end - begin);
    body(begin, column, n);
    begin += n;
  }
}

// The standard has [C] and [N,C]. Of more dimensions ONNX Runtime takes the second one, and goes through its numbers
// again and again in the order of the elements.
int64_t feature_count(const Shape& x) { return x.rank() == 0 ? 1 : x[x.rank() == 1 ? 0 : 1]; }

template <typename T>
Result<RefImpl> make_typed_imputer(RefNode& node) {
  const Attributes attributes(*node.node);
  const Shape& x = node.inputs[0].shape;
  std::vector<T> imputed;
  T replaced = 0;
  if constexpr (std::is_floating_point_v<T>) {
    for (float value : attributes.numbers("imputed_value_floats")) imputed.push_back(value);
    replaced = attributes.number("replaced_value_float");
  } else {
    for (int64_t value : attributes.integers("imputed_value_int64s")) imputed.push_back(static_cast<T>(value));
    replaced = static_cast<T>(attributes.integer("replaced_value_int64"));
  }
  const int64_t columns = feature_count(x);
  TENON_INVALID_IF(imputed.empty(), "Imputer has no value to put in for {}.", data_type_name(node.inputs[0].type));
  TENON_INVALID_IF(imputed.size() != 1 && std::ssize(imputed) != columns,
                   "Imputer has {} values for {} columns; it takes 1, or one a column.", imputed.size(), columns);
  RefImpl impl;
  impl.elementwise = true;
  const int64_t stride = imputed.size() == 1 ? 0 : 1;
  impl.run = [imputed, replaced, stride, count = x.element_count(), columns = stride * columns,
              loop = feature_loops(node.inputs[0].type).impute](KernelContext& context) -> Status {
    context.pool->parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
      each_run(begin, end, columns, [&](int64_t first, int64_t column, int64_t n) {
        loop(context.inputs[0], context.outputs[0], first, n, &replaced, imputed.data() + column, stride);
      });
    });
    return {};
  };
  return impl;
}

Result<RefImpl> make_imputer(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  switch (node.inputs[0].type) {
    case DataType::kFloat:
      return make_typed_imputer<float>(node);
    case DataType::kDouble:
      return make_typed_imputer<double>(node);
    case DataType::kInt32:
      return make_typed_imputer<int32_t>(node);
    default:
      return make_typed_imputer<int64_t>(node);
  }
}

enum class Norm : uint8_t { kMax, kL1, kL2 };

// Rows of n numbers; y may be x. A row of zeros stays one.
void normalize(const float* x, float* y, int64_t rows, int64_t n, Norm norm) {
  constexpr int64_t kRows = 64;
  const Reduction reduction = norm == Norm::kMax  ? Reduction::kMax
                              : norm == Norm::kL1 ? Reduction::kL1
                                                  : Reduction::kL2;
  const auto divide = eltwise_table().binary[static_cast<int>(Binary::kDiv)];
  std::array<float, kRows> lengths;
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t count = std::min(kRows, rows - first);
    norm_table().reduce_rows(x + first * n, lengths.data(), count, n, reduction);
    for (int64_t r = 0; r < count; ++r) {
      const float length = lengths[r] == 0 ? 1.0f : lengths[r];
      divide(x + (first + r) * n, 1, &length, 0, y + (first + r) * n, n);
    }
  }
}

Result<RefImpl> make_normalizer(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  TENON_TRY_ASSIGN(const FeatureRows x, feature_rows(*node.node, node.inputs[0].shape));
  TENON_TRY_ASSIGN(const ReadFeatures read, feature_reader(node, 0));
  const std::string_view name = Attributes(*node.node).text("norm");
  TENON_INVALID_IF(name != "MAX" && name != "L1" && name != "L2", "Normalizer has the unknown norm \"{}\".", name);
  const Norm norm = name == "MAX" ? Norm::kMax : name == "L1" ? Norm::kL1 : Norm::kL2;
  const bool is_float = node.inputs[0].type == DataType::kFloat;
  RefImpl impl;
  impl.run = [=](KernelContext& context) -> Status {
    if (x.features == 0) return {};
    context.pool->parallel_for(x.rows, row_grain(x.features), [&](int64_t begin, int64_t end) {
      float* const y = context.output<float>(0) + begin * x.features;
      const float* from = y;
      if (is_float) {
        from = context.input<float>(0) + begin * x.features;
      } else {
        read(context.inputs[0], begin * x.features, (end - begin) * x.features, y);
      }
      normalize(from, y, end - begin, x.features, norm);
    });
    return {};
  };
  return impl;
}

Result<RefImpl> make_scaler(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& x = node.inputs[0].shape;
  TENON_TRY(require_output(node, 0, x));
  TENON_TRY_ASSIGN(const ReadFeatures read, feature_reader(node, 0));
  const Attributes attributes(*node.node);
  const std::span<const float> scale = attributes.numbers("scale"), offset = attributes.numbers("offset");
  const int64_t columns = feature_count(x);
  const auto fits = [&](size_t count) { return count == 1 || static_cast<int64_t>(count) == columns; };
  TENON_INVALID_IF(!fits(scale.size()) || !fits(offset.size()),
                   "Scaler has {} scales and {} offsets for {} columns; it takes 1, or one a column.", scale.size(),
                   offset.size(), columns);
  // One of each for each column.
  const auto spread = [columns](std::span<const float> values) {
    return values.size() == 1 ? std::vector<float>(columns, values[0])
                              : std::vector<float>(values.begin(), values.end());
  };
  RefImpl impl;
  impl.run = [read, columns, count = x.element_count(), scale = spread(scale),
              offset = spread(offset)](KernelContext& context) -> Status {
    float* y = context.output<float>(0);
    const auto& binary = eltwise_table().binary;
    const auto subtract = binary[static_cast<int>(Binary::kSub)], multiply = binary[static_cast<int>(Binary::kMul)];
    context.pool->parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
      read(context.inputs[0], begin, end - begin, y + begin);
      each_run(begin, end, columns, [&](int64_t first, int64_t column, int64_t n) {
        float* const to = y + first;
        subtract(to, 1, offset.data() + column, 1, to, n);
        multiply(to, 1, scale.data() + column, 1, to, n);
      });
    });
    return {};
  };
  return impl;
}

Result<RefImpl> make_one_hot_encoder(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Attributes attributes(*node.node);
  const std::span<const int64_t> integers = attributes.integers("cats_int64s");
  const std::span<const std::string> strings = attributes.texts("cats_strings");
  TENON_INVALID_IF(integers.empty() == strings.empty(),
                   "OneHotEncoder needs categories that are strings ({} are given) or integers ({}), and not both.",
                   strings.size(), integers.size());
  const DataType type = node.inputs[0].type;
  TENON_INVALID_IF((type == DataType::kString) != integers.empty(), "OneHotEncoder of {} has categories of {}.",
                   data_type_name(type), integers.empty() ? "strings" : "integers");
  const auto categories = static_cast<int64_t>(integers.size() + strings.size());
  Shape out = node.inputs[0].shape;
  TENON_UNSUPPORTED_IF(out.rank() >= Shape::kMaxRank, "OneHotEncoder adds a dimension to {}, which has {} already.",
                       out.to_string(), out.rank());
  out.push_back(categories);
  TENON_TRY(require_output(node, 0, out));
  FindPlaces find;
  if (type == DataType::kString) {
    find = find_texts(strings, SameKeys::kLast);
  } else {
    TENON_TRY_ASSIGN(const IndexRows rows, index_rows(node, 0));  // floats are truncated
    find = [rows, find = find_integers(integers, SameKeys::kLast)](const void* x, int64_t first, int64_t n,
                                                                   int64_t* places) {
      rows.load(x, first, n, places);
      find(places, 0, n, places);
    };
  }
  RefImpl impl;
  impl.run = [find, categories, zeros = attributes.flag("zeros"),
              count = node.inputs[0].shape.element_count()](KernelContext& context) -> Status {
    std::atomic<int64_t> failed{-1};
    context.pool->parallel_for(count, row_grain(categories), [&](int64_t begin, int64_t end) {
      std::array<int64_t, kPlacesPiece> places;
      for (int64_t i = begin; i < end; i += kPlacesPiece) {
        const int64_t n = std::min(kPlacesPiece, end - i);
        float* const y = context.output<float>(0) + i * categories;
        std::fill(y, y + n * categories, 0.0f);
        find(context.inputs[0], i, n, places.data());
        for (int64_t j = 0; j < n; ++j) {
          if (places[j] >= 0) {
            y[j * categories + places[j]] = 1;
          } else if (!zeros) {
            failed.store(i + j, std::memory_order_relaxed);
          }
        }
      }
    });
    const int64_t at = failed.load(std::memory_order_relaxed);
    TENON_INVALID_IF(at >= 0, "Element {} is no category of OneHotEncoder, whose zeros is 0.", at);
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row < kFeatureSet | kStringSet,
    &make_feature_extractor > ("ArrayFeatureExtractor", 1, kAnyVersion, kMlDomain),
    ref_row<kFeatureSet, &make_binarizer>("Binarizer", 1, kAnyVersion, kMlDomain),
    ref_row<kFeatureSet, &make_feature_vectorizer>("FeatureVectorizer", 1, kAnyVersion, kMlDomain),
    ref_row<kFeatureSet, &make_imputer>("Imputer", 1, kAnyVersion, kMlDomain),
    ref_row<kFeatureSet, &make_normalizer>("Normalizer", 1, kAnyVersion, kMlDomain),
    ref_row<kFeatureSet | kStringSet, &make_one_hot_encoder>("OneHotEncoder", 1, kAnyVersion, kMlDomain),
    ref_row<kFeatureSet, &make_scaler>("Scaler", 1, kAnyVersion, kMlDomain),
};

}  // namespace

Result<ReadFeatures> feature_reader(const KernelNode& node, size_t input) {
  const DataType type = input_spec(node, input).type;
  const ReadFeatures read = feature_loops(type).read;
  TENON_UNSUPPORTED_IF(read == nullptr, "{} is not computed on {}.", node.node->op_type, data_type_name(type));
  return read;
}

int64_t row_grain(int64_t work) { return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, work)); }

std::span<const KernelEntry> ref_feature_rows() { return kRows; }

}  // namespace tenon::cpu::ref
