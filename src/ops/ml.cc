#include "ops/ml.h"

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "ops/attributes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

namespace {

constexpr std::array<std::string_view, 5> kTransforms = {"NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"};

ConstantRef copied(DataType type, size_t count, const void* data, size_t bytes) {
  std::byte* to = nullptr;
  Result<ConstantRef> made = make_constant(type, Shape{static_cast<int64_t>(count)}, &to);
  if (!made.ok()) return nullptr;
  const auto* from = static_cast<const std::byte*>(data);
  std::copy(from, from + bytes, to);
  return *made;
}

}  // namespace

Result<PostTransform> read_post_transform(const Node& node) {
  if (node.op_type == "TreeEnsemble") {
    const int64_t number = Attributes(node).find_integer("post_transform").value_or(0);
    TENON_INVALID_IF(number < 0 || number >= std::ssize(kTransforms), "{} has the unknown post_transform {}.",
                     node.op_type, number);
    return static_cast<PostTransform>(number);
  }
  const std::string_view name = Attributes(node).find_text("post_transform").value_or("NONE");
  const auto found = std::find(kTransforms.begin(), kTransforms.end(), name);
  TENON_INVALID_IF(found == kTransforms.end(), "{} has the unknown post_transform \"{}\".", node.op_type, name);
  return static_cast<PostTransform>(found - kTransforms.begin());
}

Result<ClassLabels> read_class_labels(const Node& node) {
  const Attributes attributes(node);
  const std::span<const std::string> strings = attributes.texts("classlabels_strings");
  std::span<const int64_t> integers;
  for (const char* name : {"classlabels_ints", "classlabels_int64s"})
    if (node.has(name)) integers = attributes.integers(name);
  TENON_INVALID_IF(strings.empty() == integers.empty(),
                   "{} needs classes that are strings ({} are given) or integers ({}), and not both.", node.op_type,
                   strings.size(), integers.size());
  return ClassLabels{.strings = {strings.begin(), strings.end()}, .integers = {integers.begin(), integers.end()}};
}

Result<FeatureRows> feature_rows(const Node& node, const Shape& x) {
  TENON_INVALID_IF(x.rank() != 1 && x.rank() != 2, "{} takes [C] or [N,C], not {}.", node.op_type, x.to_string());
  return x.rank() == 1 ? FeatureRows{1, x[0]} : FeatureRows{x[0], x[1]};
}

Result<LabelList> read_label_list(const Node& node, std::string_view what) {
  const Attributes attributes(node);
  const auto name = [&](std::string_view type) { return std::string(what) + "_" + std::string(type); };
  LabelList list;
  size_t given = 0;
  const auto take = [&](DataType type, ConstantRef values) {
    ++given;
    list.type = type;
    list.values = std::move(values);
  };
  if (node.has(name("strings"))) {
    const std::span<const std::string> texts = attributes.texts(name("strings"));
    take(DataType::kString,
         make_string_constant(Shape{std::ssize(texts)}, std::vector<std::string>(texts.begin(), texts.end())));
  }
  if (node.has(name("int64s"))) {
    const std::span<const int64_t> numbers = attributes.integers(name("int64s"));
    take(DataType::kInt64, copied(DataType::kInt64, numbers.size(), numbers.data(), numbers.size_bytes()));
  }
  if (node.has(name("floats"))) {
    const std::span<const float> numbers = attributes.numbers(name("floats"));
    take(DataType::kFloat, copied(DataType::kFloat, numbers.size(), numbers.data(), numbers.size_bytes()));
  }
  if (const ConstantRef tensor = attributes.tensor(name("tensor"))) take(tensor->type, tensor);
  TENON_INVALID_IF(given != 1, "{} has {} lists of {}; it takes one.", node.op_type, given, what);
  TENON_INVALID_IF(list.values == nullptr || list.values->shape.rank() > 1, "The {} of {} have to be a vector.", what,
                   node.op_type);
  return list;
}

Result<int64_t> score_columns(const Node& node) {
  const Attributes attributes(node);
  if (node.op_type == "LinearRegressor") return std::max<int64_t>(attributes.integer("targets"), 0);
  if (node.op_type == "SVMRegressor") return 1;
  if (node.op_type == "TreeEnsembleRegressor" || node.op_type == "TreeEnsemble")
    return std::max<int64_t>(attributes.find_integer("n_targets").value_or(1), 0);
  TENON_TRY_ASSIGN(const ClassLabels labels, read_class_labels(node));
  if (node.op_type == "LinearClassifier") {
    // One score that chooses between two classes is written for both.
    const auto targets = std::ssize(attributes.numbers("intercepts"));
    return targets == 1 && labels.size() == 2 ? 2 : targets;
  }
  if (node.op_type == "SVMClassifier") {
    const bool votes = !attributes.integers("vectors_per_class").empty() && attributes.numbers("prob_a").empty();
    return votes ? std::max<int64_t>(2, labels.size() * (labels.size() - 1) / 2) : labels.size();
  }
  return labels.size();
}

namespace infer {
namespace {

Status infer_same(Context& c) { return c.copy(0); }

Status infer_float(Context& c) {
  c.set_type(0, DataType::kFloat);
  return c.ranked(0) ? c.set_dims(0, c.dims(0)) : Status();
}

// N of X, as far as it is known.
Dim rows_of(Context& c) {
  if (!c.ranked(0)) return Dim{};
  return c.rank(0) == 1 ? number(1) : c.rank(0) >= 1 ? c.dims(0)[0] : Dim{};
}

Status infer_feature_extractor(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0) || !c.ranked(1)) return {};
  TENON_INVALID_IF(c.rank(0) < 1, "X is a scalar; ArrayFeatureExtractor needs rank 1 or more.");
  TENON_TRY_ASSIGN(const Dim count, product(c.dims(1)));
  Dims out = c.dims(0);
  if (out.size() == 1) out.insert(out.begin(), number(1));
  out.back() = count;
  return c.set_dims(0, std::move(out));
}

Status infer_category_mapper(Context& c) {
  if (c.type(0) != DataType::kUndefined)
    c.set_type(0, c.type(0) == DataType::kString ? DataType::kInt64 : DataType::kString);
  return c.ranked(0) ? c.set_dims(0, c.dims(0)) : Status();
}

Status infer_label_encoder(Context& c) {
  if (c.version() < 2) return infer_category_mapper(c);
  TENON_TRY_ASSIGN(const LabelList values, read_label_list(c.node(), "values"));
  c.set_type(0, values.type);
  return c.ranked(0) ? c.set_dims(0, c.dims(0)) : Status();
}

Status infer_one_hot_encoder(Context& c) {
  c.set_type(0, DataType::kFloat);
  if (!c.ranked(0)) return {};
  const Attributes attributes(c.node());
  Dims out = c.dims(0);
  out.push_back(
      number(std::max(std::ssize(attributes.integers("cats_int64s")), std::ssize(attributes.texts("cats_strings")))));
  return c.set_dims(0, std::move(out));
}

Status infer_feature_vectorizer(Context& c) {
  c.set_type(0, DataType::kFloat);
  int64_t total = 0;
  for (int64_t width : Attributes(c.node()).integers("inputdimensions")) {
    const std::optional<int64_t> sum = width < 0 ? std::nullopt : checked_add(total, width);
    TENON_INVALID_IF(!sum, "FeatureVectorizer has an input of {} columns.", width);
    total = *sum;
  }
  if (!c.has(0) || !c.ranked(0)) return {};
  return c.set_dims(0, {rows_of(c), number(total)});
}

Status infer_regressor(Context& c) {
  c.set_type(0, c.node().op_type == "TreeEnsemble" ? c.type(0) : DataType::kFloat);
  TENON_TRY(read_post_transform(c.node()).status());
  TENON_TRY_ASSIGN(const int64_t columns, score_columns(c.node()));
  if (!c.ranked(0)) return {};
  return c.set_dims(0, {rows_of(c), number(columns)});
}

Status infer_classifier(Context& c) {
  TENON_TRY(read_post_transform(c.node()).status());
  TENON_TRY_ASSIGN(const ClassLabels labels, read_class_labels(c.node()));
  TENON_TRY_ASSIGN(const int64_t columns, score_columns(c.node()));
  c.set_type(0, labels.type());
  c.set_type(1, DataType::kFloat);
  if (!c.ranked(0)) return {};
  TENON_TRY(c.set_dims(1, {rows_of(c), number(columns)}));
  return c.set_dims(0, {rows_of(c)});
}

Status infer_zip_map(Context& c) {
  TENON_TRY_ASSIGN(const ClassLabels labels, read_class_labels(c.node()));
  c.set_object(0, ObjectType::sequence(ObjectType::map(labels.type(), ObjectType::tensor(DataType::kFloat))));
  return {};
}

Status infer_dict_vectorizer(Context& c) {
  const ObjectTypeRef map = c.has(0) ? c.in(0).object : nullptr;
  if (map != nullptr && map->element != nullptr) c.set_type(0, map->element->type);
  const Attributes attributes(c.node());
  const auto words =
      std::max(std::ssize(attributes.integers("int64_vocabulary")), std::ssize(attributes.texts("string_vocabulary")));
  return c.set_dims(0, {number(1), number(words)});
}

Status infer_cast_map(Context& c) {
  const Attributes attributes(c.node());
  const std::string_view to = attributes.text("cast_to");
  TENON_INVALID_IF(to != "TO_FLOAT" && to != "TO_STRING" && to != "TO_INT64", "CastMap has the unknown cast_to \"{}\".",
                   to);
  c.set_type(0, to == "TO_FLOAT" ? DataType::kFloat : to == "TO_STRING" ? DataType::kString : DataType::kInt64);
  if (attributes.text("map_form") == "SPARSE")
    return c.set_dims(0, {number(1), number(std::max<int64_t>(attributes.integer("max_map"), 0))});
  return c.set_dims(0, {number(1), Dim{}});
}

constexpr Row kRows[] = {
    {"ArrayFeatureExtractor", &infer_feature_extractor},
    {"Binarizer", &infer_same},
    {"CastMap", &infer_cast_map},
    {"CategoryMapper", &infer_category_mapper},
    {"DictVectorizer", &infer_dict_vectorizer},
    {"FeatureVectorizer", &infer_feature_vectorizer},
    {"Imputer", &infer_same},
    {"LabelEncoder", &infer_label_encoder},
    {"LinearClassifier", &infer_classifier},
    {"LinearRegressor", &infer_regressor},
    {"Normalizer", &infer_float},
    {"OneHotEncoder", &infer_one_hot_encoder},
    {"SVMClassifier", &infer_classifier},
    {"SVMRegressor", &infer_regressor},
    {"Scaler", &infer_float},
    {"TreeEnsemble", &infer_regressor},
    {"TreeEnsembleClassifier", &infer_classifier},
    {"TreeEnsembleRegressor", &infer_regressor},
    {"ZipMap", &infer_zip_map},
};

}  // namespace

std::span<const Row> ml_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
