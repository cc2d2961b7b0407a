// ArrayFeatureExtractor, Binarizer, FeatureVectorizer, Imputer, Normalizer, OneHotEncoder and Scaler.
#include "ep/cpu/ops/ml/features.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "ep/cpu/ops/gather/indices.h"
#include "ep/cpu/ops/sequence/objects.h"
#include "ops/attributes.h"

namespace tenon::cpu::ref {

namespace {

template <typename T>
void read_as_float(const void* x, int64_t first, int64_t count, float* to) {
  const T* from = static_cast<const T*>(x) + first;
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

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

using Binarize = void (*)(const void* x, void* y, int64_t begin, int64_t end, float threshold);
template <typename T>
void binarize(const void* x, void* y, int64_t begin, int64_t end, float threshold) {
  for (int64_t i = begin; i < end; ++i)
    static_cast<T*>(y)[i] = static_cast<T>(static_cast<const T*>(x)[i] > threshold ? 1 : 0);
}

Result<RefImpl> make_binarizer(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  const Binarize chosen =
      select(FeatureTypes(), node.inputs[0].type, []<typename T>() -> Binarize { return &binarize<T>; });
  RefImpl impl;
  impl.elementwise = true;
  impl.run = [chosen, count = node.inputs[0].shape.element_count(),
              threshold = Attributes(*node.node).number("threshold")](KernelContext& context) -> Status {
    context.pool->parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
      chosen(context.inputs[0], context.outputs[0], begin, end, threshold);
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
  const int64_t columns = x.rank() == 0 ? 1 : x[x.rank() - 1];
  TENON_INVALID_IF(imputed.empty(), "Imputer has no value to put in for {}.", data_type_name(node.inputs[0].type));
  TENON_INVALID_IF(imputed.size() != 1 && std::ssize(imputed) != columns,
                   "Imputer has {} values for {} columns; it takes 1, or one a column.", imputed.size(), columns);
  RefImpl impl;
  impl.elementwise = true;
  impl.run = [imputed, replaced, count = x.element_count(), columns](KernelContext& context) -> Status {
    const bool replaces_nan = replaced != replaced;
    const T* from = context.input<T>(0);
    T* to = context.output<T>(0);
    context.pool->parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const bool goes = replaces_nan ? from[i] != from[i] : from[i] == replaced;
        to[i] = goes ? imputed[imputed.size() == 1 ? 0 : i % columns] : from[i];
      }
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

// A row of zeros stays one.
void normalize(float* row, int64_t count, Norm norm) {
  if (norm == Norm::kMax) {
    float most = row[0];
    for (int64_t i = 1; i < count; ++i) most = std::max(most, row[i]);
    if (most == 0) return;
    for (int64_t i = 0; i < count; ++i) row[i] /= most;
    return;
  }
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += norm == Norm::kL1 ? std::fabs(row[i]) : double{row[i]} * row[i];
  if (sum == 0) return;
  if (norm == Norm::kL1) {
    for (int64_t i = 0; i < count; ++i) row[i] = static_cast<float>(row[i] / sum);
    return;
  }
  const double inverse = 1 / std::sqrt(sum);
  for (int64_t i = 0; i < count; ++i) row[i] = static_cast<float>(row[i] * inverse);
}

Result<RefImpl> make_normalizer(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  TENON_TRY_ASSIGN(const FeatureRows x, feature_rows(*node.node, node.inputs[0].shape));
  TENON_TRY_ASSIGN(const ReadFeatures read, feature_reader(node, 0));
  const std::string_view name = Attributes(*node.node).text("norm");
  TENON_INVALID_IF(name != "MAX" && name != "L1" && name != "L2", "Normalizer has the unknown norm \"{}\".", name);
  const Norm norm = name == "MAX" ? Norm::kMax : name == "L1" ? Norm::kL1 : Norm::kL2;
  RefImpl impl;
  impl.run = [=](KernelContext& context) -> Status {
    if (x.features == 0) return {};
    context.pool->parallel_for(x.rows, row_grain(x.features), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        float* to = context.output<float>(0) + row * x.features;
        read(context.inputs[0], row * x.features, x.features, to);
        normalize(to, x.features, norm);
      }
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
  const int64_t columns = x.rank() == 0 ? 1 : x[x.rank() - 1];
  const auto fits = [&](size_t count) { return count == 1 || static_cast<int64_t>(count) == columns; };
  TENON_INVALID_IF(!fits(scale.size()) || !fits(offset.size()),
                   "Scaler has {} scales and {} offsets for {} columns; it takes 1, or one a column.", scale.size(),
                   offset.size(), columns);
  RefImpl impl;
  impl.run = [read, columns, count = x.element_count(), scale = std::vector<float>(scale.begin(), scale.end()),
              offset = std::vector<float>(offset.begin(), offset.end())](KernelContext& context) -> Status {
    float* y = context.output<float>(0);
    context.pool->parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
      read(context.inputs[0], begin, end - begin, y + begin);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t column = i % columns;
        y[i] = (y[i] - offset[offset.size() == 1 ? 0 : column]) * scale[scale.size() == 1 ? 0 : column];
      }
    });
    return {};
  };
  return impl;
}

// The place of a category, -1 where there is none.
using FindCategory = std::function<int64_t(const void* x, int64_t i)>;

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
  FindCategory find;
  if (type == DataType::kString) {
    std::unordered_map<std::string, int64_t> places;
    for (size_t i = 0; i < strings.size(); ++i) places[strings[i]] = static_cast<int64_t>(i);
    find = [places](const void* x, int64_t i) {
      const auto found = places.find(std::string(text_of(static_cast<const TextAddress*>(x)[i])));
      return found == places.end() ? -1 : found->second;
    };
  } else {
    TENON_TRY_ASSIGN(const IndexReader read, index_reader(node, 0));  // floats are truncated
    std::unordered_map<int64_t, int64_t> places;
    for (size_t i = 0; i < integers.size(); ++i) places[integers[i]] = static_cast<int64_t>(i);
    find = [places, read](const void* x, int64_t i) {
      const auto found = places.find(read(x, i));
      return found == places.end() ? -1 : found->second;
    };
  }
  RefImpl impl;
  impl.run = [find, categories, zeros = attributes.flag("zeros"),
              count = node.inputs[0].shape.element_count()](KernelContext& context) -> Status {
    float* y = context.output<float>(0);
    std::fill(y, y + count * categories, 0.0f);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t place = find(context.inputs[0], i);
      TENON_INVALID_IF(place < 0 && !zeros, "Element {} is no category of OneHotEncoder, whose zeros is 0.", i);
      if (place >= 0) y[i * categories + place] = 1;
    }
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
  const ReadFeatures read =
      select(FeatureTypes(), type, []<typename T>() -> ReadFeatures { return &read_as_float<T>; });
  TENON_UNSUPPORTED_IF(read == nullptr, "{} is not computed on {}.", node.node->op_type, data_type_name(type));
  return read;
}

int64_t row_grain(int64_t work) { return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, work)); }

std::span<const KernelEntry> ref_feature_rows() { return kRows; }

}  // namespace tenon::cpu::ref
