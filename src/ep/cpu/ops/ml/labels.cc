// LabelEncoder and CategoryMapper: each element is looked up in a table.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "ep/cpu/ops/ml/places.h"
#include "ep/cpu/ops/sequence/objects.h"
#include "ep/cpu/ops/small_types.h"
#include "ops/attributes.h"
#include "ops/ml.h"

namespace tenon::cpu::ref {

namespace {

constexpr int64_t kGrain = 2048;

// By the bits, so that NaN finds NaN and 0 finds -0.
template <typename T>
uint64_t key_of(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (value == T(0)) value = T(0);
    uint64_t bits = 0;
    if (value != value) return ~bits;
    std::memcpy(&bits, &value, sizeof(value));
    return bits;
  } else {
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  }
}

template <typename T>
FindPlaces find_numbers(const Constant& list) {
  if constexpr (std::is_same_v<T, int64_t>) return find_integers(list.as<T>(), SameKeys::kFirst);
  std::vector<uint64_t> keys;
  for (T key : list.as<T>()) keys.push_back(key_of(key));
  return [table = std::make_shared<const NumberPlaces>(keys, SameKeys::kFirst)](const void* x, int64_t first, int64_t n,
                                                                                int64_t* places) {
    std::array<uint64_t, kPlacesPiece> wanted;
    const T* const from = static_cast<const T*>(x) + first;
    for (int64_t i = 0; i < n; ++i) wanted[i] = key_of(from[i]);
    table->find(wanted.data(), n, places);
  };
}

using KeyTypes = TypeList<float, double, int16_t, int32_t, int64_t>;
constexpr TypeSet kKeySet = type_set(KeyTypes()) | kStringSet;

Result<FindPlaces> make_find(const KernelNode& node, const LabelList& keys) {
  TENON_INVALID_IF(keys.type != node.inputs[0].type, "{} of {} has keys of {}.", node.node->op_type,
                   data_type_name(node.inputs[0].type), data_type_name(keys.type));
  if (keys.type == DataType::kString) return find_texts(keys.values->strings, SameKeys::kFirst);
  FindPlaces find =
      select(KeyTypes(), keys.type, [&]<typename T>() -> FindPlaces { return find_numbers<T>(*keys.values); });
  TENON_UNSUPPORTED_IF(!find, "{} is not computed with keys of {}.", node.node->op_type, data_type_name(keys.type));
  return find;
}

// The element for what is in no list. `tensor` is the attribute default_tensor, where there is one.
Result<ConstantRef> default_value(const Node& node, DataType type) {
  const Attributes attributes(node);
  if (const ConstantRef tensor = attributes.tensor("default_tensor"); tensor != nullptr && node.since_version >= 4) {
    TENON_INVALID_IF(tensor->type != type || tensor->shape.element_count() != 1,
                     "The default_tensor of {} is {}{}, not one {}.", node.op_type, data_type_name(tensor->type),
                     tensor->shape.to_string(), data_type_name(type));
    return tensor;
  }
  if (type == DataType::kString) return make_string_constant({}, {std::string(attributes.text("default_string"))});
  std::byte* data = nullptr;
  TENON_TRY_ASSIGN(ConstantRef made, make_constant(type, {}, &data));
  select(KeyTypes(), type, [&]<typename T>() -> bool {
    const T value = is_float<T>      ? static_cast<T>(attributes.number("default_float"))
                    : sizeof(T) == 8 ? static_cast<T>(attributes.integer("default_int64"))
                                     : static_cast<T>(0);
    std::memcpy(data, &value, sizeof(value));
    return true;
  });
  return made;
}

// to[i] = the element of `bytes` bytes at places[i] of `values`, or `fallback` for -1.
template <size_t bytes>
void put(std::byte* to, const std::byte* values, const std::byte* fallback, const int64_t* places, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    std::memcpy(to + i * bytes, places[i] < 0 ? fallback : values + places[i] * bytes, bytes);
}

// Looks up with `find`, and gives the element of `values` there, or `fallback`. Both last as long as the kernel.
RefImpl look_up(FindPlaces find, ConstantRef values, ConstantRef fallback, int64_t count) {
  RefImpl impl;
  impl.run = [find = std::move(find), values = std::move(values), fallback = std::move(fallback),
              count](KernelContext& context) -> Status {
    keep_texts(context, values);
    keep_texts(context, fallback);
    const auto bytes = static_cast<int64_t>(data_type_size(values->type));
    const auto put_all = bytes == 8 ? &put<8> : bytes == 4 ? &put<4> : &put<2>;  // by the sizes of KeyTypes
    context.pool->parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
      std::array<int64_t, kPlacesPiece> places;
      for (int64_t i = begin; i < end; i += kPlacesPiece) {
        const int64_t n = std::min(kPlacesPiece, end - i);
        find(context.inputs[0], i, n, places.data());
        put_all(context.output<std::byte>(0) + i * bytes, values->data, fallback->data, places.data(), n);
      }
    });
    return {};
  };
  return impl;
}

// Classes by their place: LabelEncoder 1 and CategoryMapper. `integers` has the place of each string, or is null. Of
// equal keys the last counts, as in ONNX Runtime.
Result<RefImpl> make_mapping(RefNode& node, std::span<const std::string> strings, std::span<const int64_t> integers) {
  const Attributes attributes(*node.node);
  const int64_t count = node.inputs[0].shape.element_count();
  const ConstantRef words =
      make_string_constant(Shape{std::ssize(strings)}, std::vector<std::string>(strings.begin(), strings.end()));
  const ConstantRef numbers = make_int64_constant(integers);
  const std::string other(attributes.text("default_string"));
  const int64_t other_number = attributes.integer("default_int64");
  if (node.inputs[0].type == DataType::kString)
    return look_up(find_texts(strings, SameKeys::kLast), numbers, make_int64_constant({&other_number, 1}), count);
  return look_up(find_integers(integers, SameKeys::kLast), words, make_string_constant({}, {other}), count);
}

Result<RefImpl> make_category_mapper(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  const Attributes attributes(*node.node);
  const std::span<const std::string> strings = attributes.texts("cats_strings");
  const std::span<const int64_t> integers = attributes.integers("cats_int64s");
  TENON_INVALID_IF(strings.size() != integers.size(), "CategoryMapper has {} strings and {} integers.", strings.size(),
                   integers.size());
  return make_mapping(node, strings, integers);
}

Result<RefImpl> make_label_encoder(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  if (node.node->since_version < 2) {
    const std::span<const std::string> classes = Attributes(*node.node).texts("classes_strings");
    std::vector<int64_t> places(classes.size());
    for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i);
    return make_mapping(node, classes, places);
  }
  TENON_TRY_ASSIGN(const LabelList keys, read_label_list(*node.node, "keys"));
  TENON_TRY_ASSIGN(const LabelList values, read_label_list(*node.node, "values"));
  TENON_INVALID_IF(keys.values->shape.element_count() != values.values->shape.element_count(),
                   "LabelEncoder has {} keys and {} values.", keys.values->shape.element_count(),
                   values.values->shape.element_count());
  TENON_INVALID_IF(output_spec(node, 0).type != values.type, "LabelEncoder makes {}, but its output was planned as {}.",
                   data_type_name(values.type), data_type_name(output_spec(node, 0).type));
  TENON_UNSUPPORTED_IF(!has_type(kKeySet, values.type), "LabelEncoder makes no {}.", data_type_name(values.type));
  TENON_TRY_ASSIGN(FindPlaces find, make_find(node, keys));
  TENON_TRY_ASSIGN(ConstantRef fallback, default_value(*node.node, values.type));
  return look_up(std::move(find), values.values, std::move(fallback), node.inputs[0].shape.element_count());
}

constexpr KernelEntry kRows[] = {
    ref_row<kKeySet, &make_category_mapper>("CategoryMapper", 1, kAnyVersion, kMlDomain),
    ref_row<kKeySet, &make_label_encoder>("LabelEncoder", 1, kAnyVersion, kMlDomain),
};

}  // namespace

std::span<const KernelEntry> ref_label_rows() { return kRows; }

}  // namespace tenon::cpu::ref
