// CastMap, DictVectorizer and ZipMap: maps to and from tensors.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <numeric>
#include <utility>

#include "ep/cpu/ops/ml/places.h"
#include "ep/cpu/ops/sequence/objects.h"
#include "ops/attributes.h"
#include "ops/ml.h"

namespace tenon::cpu::ref {

namespace {

Result<const Object*> input_map(const KernelContext& context) {
  const Object* object = input_address(context, 0);
  TENON_INVALID_IF(object == nullptr || object->kind() != ObjectKind::kMap, "Input 0 is no map.");
  return object;
}

// A sequence with one map a row: from each class to its score.
Result<RefImpl> make_zip_map(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY_ASSIGN(const ClassLabels labels, read_class_labels(*node.node));
  TENON_TRY_ASSIGN(const FeatureRows x, feature_rows(*node.node, node.inputs[0].shape));
  TENON_INVALID_IF(x.features != labels.size(), "ZipMap has {} classes for {} columns.", labels.size(), x.features);
  Tensor keys;
  if (labels.are_strings()) {
    TENON_TRY_ASSIGN(keys, string_tensor(labels.strings, Shape{labels.size()}));
  } else {
    TENON_TRY_ASSIGN(keys, Tensor::allocate(DataType::kInt64, Shape{labels.size()}));
    std::copy(labels.integers.begin(), labels.integers.end(), keys.data_as<int64_t>());
  }
  RefImpl impl;
  impl.run = [x, keys](KernelContext& context) -> Status {
    TENON_TRY_ASSIGN(Tensor all, Tensor::allocate(DataType::kFloat, Shape{x.rows, x.features}));
    std::copy_n(context.input<float>(0), x.rows * x.features, all.data_as<float>());
    TENON_TRY_ASSIGN(ObjectRef maps, Object::maps(keys, std::move(all)));
    return set_object(context, std::move(maps));
  };
  return impl;
}

Result<RefImpl> make_dict_vectorizer(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Attributes attributes(*node.node);
  const std::span<const std::string> strings = attributes.texts("string_vocabulary");
  const std::span<const int64_t> integers = attributes.integers("int64_vocabulary");
  TENON_INVALID_IF(strings.empty() == integers.empty(),
                   "DictVectorizer needs a vocabulary of strings ({} are given) or integers ({}), and not both.",
                   strings.size(), integers.size());
  const auto words = static_cast<int64_t>(strings.size() + integers.size());
  TENON_TRY(require_output(node, 0, Shape{1, words}));
  const bool by_text = !strings.empty();
  const FindPlaces find = by_text ? find_texts(strings, SameKeys::kFirst) : find_integers(integers, SameKeys::kFirst);
  // A word that is in the vocabulary twice has its value twice.
  std::vector<int64_t> first(words);
  if (by_text) {
    const TextPlaces places(strings, SameKeys::kFirst);
    std::ranges::transform(strings, first.begin(), [&](const std::string& word) { return places.find(word); });
  } else {
    find(integers.data(), 0, words, first.data());
  }
  RefImpl impl;
  impl.run = [by_text, find, first = std::move(first),
              type = output_spec(node, 0).type](KernelContext& context) -> Status {
    TENON_TRY_ASSIGN(const Object* map, input_map(context));
    const Tensor& keys = map->elements()[0]->as_tensor();
    const Tensor& values = map->elements()[1]->as_tensor();
    const DataType key_type = by_text ? DataType::kString : DataType::kInt64;
    TENON_INVALID_IF(keys.type() != key_type || values.type() != type,
                     "The map is from {} to {}, and DictVectorizer wants {} and {}.", data_type_name(keys.type()),
                     data_type_name(values.type()), data_type_name(key_type), data_type_name(type));
    const int64_t count = keys.shape()[0];
    std::vector<int64_t> places(count), key_of(first.size(), -1);
    find(keys.data(), 0, count, places.data());
    // Backwards: of equal keys the first one counts.
    for (int64_t k = count - 1; k >= 0; --k)
      if (places[k] >= 0) key_of[places[k]] = k;
    const size_t bytes = data_type_size(type);
    auto* y = context.output<std::byte>(0);
    for (const int64_t word : first) {
      if (key_of[word] < 0) {
        std::memset(y, 0, bytes);
      } else {
        std::memcpy(y, values.data_as<std::byte>() + key_of[word] * bytes, bytes);
      }
      y += bytes;
    }
    return {};
  };
  return impl;
}

// A map's value as the element that CastMap makes of it.
Status cast_value(const Tensor& values, int64_t i, DataType type, void* to, RunObjects& objects) {
  const bool is_text = values.type() == DataType::kString;
  const float number = is_text ? 0 : values.data_as<float>()[i];
  if (type == DataType::kString) {
    std::string text(is_text ? text_at(values, i) : "");
    if (!is_text) {
      std::array<char, 64> buffer{};
      text.assign(buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr);
    }
    *static_cast<TextAddress*>(to) = objects.add_text(std::move(text));
    return {};
  }
  double value = number;
  if (is_text) {
    const std::string_view text = text_at(values, i);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    TENON_INVALID_IF(error != std::errc() || end != text.data() + text.size(), "The map's value \"{}\" is no number.",
                     text);
  }
  if (type == DataType::kFloat) {
    *static_cast<float*>(to) = static_cast<float>(value);
  } else {
    TENON_INVALID_IF(!(value > -9.2e18 && value < 9.2e18), "The map's value {} is no int64.", value);
    *static_cast<int64_t*>(to) = static_cast<int64_t>(value);
  }
  return {};
}

Result<RefImpl> make_cast_map(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Attributes attributes(*node.node);
  const std::string_view form = attributes.text("map_form");
  TENON_INVALID_IF(form != "DENSE" && form != "SPARSE", "CastMap has the unknown map_form \"{}\".", form);
  const int64_t most = attributes.integer("max_map");
  TENON_INVALID_IF(form == "SPARSE" && most < 0, "CastMap has a max_map of {}.", most);
  RefImpl impl;
  impl.run = [sparse = form == "SPARSE", most, spec = output_spec(node, 0)](KernelContext& context) -> Status {
    TENON_TRY_ASSIGN(RunObjects * objects, run_objects(context));
    TENON_TRY_ASSIGN(const Object* map, input_map(context));
    const Tensor& keys = map->elements()[0]->as_tensor();
    const Tensor& values = map->elements()[1]->as_tensor();
    TENON_INVALID_IF(
        keys.type() != DataType::kInt64 || (values.type() != DataType::kString && values.type() != DataType::kFloat),
        "The map is from {} to {}; CastMap takes int64 to string or float32.", data_type_name(keys.type()),
        data_type_name(values.type()));
    const int64_t count = keys.shape()[0];
    const auto* key = keys.data_as<int64_t>();
    const int64_t columns = sparse ? most : count;
    TENON_TRY_ASSIGN(void* const y, open_output(context, spec, 0, Shape{1, columns}));
    const size_t bytes = data_type_size(spec.type);
    if (y != nullptr) std::memset(y, 0, columns * bytes);
    std::vector<int64_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return key[a] < key[b]; });
    for (int64_t i = 0; i < count; ++i) {
      const int64_t column = sparse ? key[order[i]] : i;
      TENON_INVALID_IF(column < 0, "The map's key {} is negative, which CastMap with SPARSE cannot place.", column);
      if (column >= columns) continue;
      TENON_TRY(cast_value(values, order[i], spec.type, static_cast<std::byte*>(y) + column * bytes, *objects));
    }
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<kObjectSet, &make_cast_map>("CastMap", 1, kAnyVersion, kMlDomain),
    ref_row<kObjectSet, &make_dict_vectorizer>("DictVectorizer", 1, kAnyVersion, kMlDomain),
    ref_row<kFloat32Set, &make_zip_map>("ZipMap", 1, kAnyVersion, kMlDomain),
};

}  // namespace

std::span<const KernelEntry> ref_map_rows() { return kRows; }

}  // namespace tenon::cpu::ref
