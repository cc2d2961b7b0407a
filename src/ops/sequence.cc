#include "ops/sequence.h"

#include <algorithm>

#include "ops/attributes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

Result<int64_t> wrap_sequence_index(int64_t index, int64_t size, bool inserts) {
  const int64_t end = size + (inserts ? 1 : 0);
  if (index < -size || index >= end)
    return out_of_range("Index {} is outside [{}, {}) for a sequence of {} elements.", index, -size, end, size);
  return index < 0 ? index + size : index;
}

Result<SplitToSequenceDesc> read_split_to_sequence(const Node& node, const Shape& x) {
  const Attributes attributes(node);
  TENON_TRY_ASSIGN(const int axis, normalized_axis(attributes.integer("axis"), x.rank()));
  return SplitToSequenceDesc{.span = axis_span(x, axis), .keep_axis = attributes.flag("keepdims")};
}

Result<std::vector<int64_t>> sequence_split_sizes(std::span<const int64_t> split, bool is_scalar, int64_t length) {
  std::vector<int64_t> sizes;
  if (is_scalar) {
    const int64_t size = split[0];
    TENON_INVALID_IF(size <= 0, "SplitToSequence splits into parts of {}; a part has at least 1.", size);
    for (int64_t at = 0; at < length; at += std::min(size, length - at)) sizes.push_back(std::min(size, length - at));
    return sizes;
  }
  int64_t left = length;
  for (int64_t size : split) {
    TENON_INVALID_IF(size < 0 || size > left, "SplitToSequence has a part of {} where {} of {} elements are left.",
                     size, left, length);
    left -= size;
    sizes.push_back(size);
  }
  TENON_INVALID_IF(left != 0, "The parts of SplitToSequence leave {} of {} elements.", left, length);
  return sizes;
}

ConcatFromSequenceDesc read_concat_from_sequence(const Node& node) {
  const Attributes attributes(node);
  return {.axis = attributes.integer("axis"), .new_axis = attributes.flag("new_axis")};
}

namespace infer {
namespace {

// The elements' type of a sequence or optional; null where it is not known.
ObjectTypeRef element_of(const Context& c, size_t input) {
  return c.has(input) && c.in(input).object != nullptr ? c.in(input).object->element : nullptr;
}

ObjectTypeRef type_of(const Context& c, size_t input) {
  if (!c.has(input)) return nullptr;
  if (!c.in(input).is_tensor) return c.in(input).object;
  return c.type(input) == DataType::kUndefined ? nullptr : ObjectType::tensor(c.type(input));
}

// An output that is what a sequence or optional holds.
void set_element(Context& c, const ObjectTypeRef& element) {
  if (element == nullptr) return;
  if (element->kind == ObjectKind::kTensor) {
    c.set_type(0, element->type);
  } else {
    c.set_object(0, element);
  }
}

Status infer_construct(Context& c) {
  for (size_t i = 1; i < c.node().inputs.size(); ++i) {
    TENON_INVALID_IF(c.type(i) != DataType::kUndefined && c.type(0) != DataType::kUndefined && c.type(i) != c.type(0),
                     "Input {} is {}, and input 0 {}; a sequence has tensors of one type.", i,
                     data_type_name(c.type(i)), data_type_name(c.type(0)));
  }
  if (ObjectTypeRef element = type_of(c, 0)) c.set_object(0, ObjectType::sequence(std::move(element)));
  return {};
}

Status infer_empty(Context& c) {
  const auto type = static_cast<DataType>(Attributes(c.node()).find_integer("dtype").value_or(1));
  TENON_INVALID_IF(data_type_bits(type) == 0 || type == DataType::kObject, "SequenceEmpty has the unknown dtype {}.",
                   static_cast<int>(type));
  c.set_object(0, ObjectType::sequence(ObjectType::tensor(type)));
  return {};
}

Status infer_insert(Context& c) {
  const ObjectTypeRef element = element_of(c, 0);
  TENON_INVALID_IF(element != nullptr && c.type(1) != DataType::kUndefined && element->type != c.type(1),
                   "The element is {}, and the sequence {}.", data_type_name(c.type(1)), c.in(0).object->to_string());
  return c.copy(0);
}

Status infer_same(Context& c) { return c.copy(0); }

Status infer_at(Context& c) {
  set_element(c, element_of(c, 0));
  return {};
}

Status infer_length(Context& c) {
  c.set_type(0, DataType::kInt64);
  return c.set_dims(0, {});
}

Status infer_split_to_sequence(Context& c) {
  if (ObjectTypeRef element = type_of(c, 0)) c.set_object(0, ObjectType::sequence(std::move(element)));
  return {};
}

Status infer_optional(Context& c) {
  ObjectTypeRef content = type_of(c, 0);
  if (content == nullptr && !c.has(0)) {
    const Attribute* type = c.node().find("type");
    TENON_INVALID_IF(type == nullptr || type->type == nullptr,
                     "An Optional without an input needs the attribute \"type\", which says what it may hold.");
    content = type->type;
  }
  if (content != nullptr) c.set_object(0, ObjectType::optional(std::move(content)));
  return {};
}

Status infer_has_element(Context& c) {
  c.set_type(0, DataType::kBool);
  return c.set_dims(0, {});
}

Status infer_get_element(Context& c) {
  TENON_INVALID_IF(!c.has(0), "OptionalGetElement has no input.");
  if (c.in(0).object == nullptr || c.in(0).object->kind != ObjectKind::kOptional) return c.copy(0);
  set_element(c, element_of(c, 0));
  return {};
}

Status infer_sequence_map(Context& c) {
  const Graph* body = Attributes(c.node()).graph("body");
  if (body == nullptr) return {};
  for (size_t i = 0; i < c.node().outputs.size() && i < body->outputs.size(); ++i) {
    const DataType type = body->value(body->outputs[i]).type;
    if (type != DataType::kUndefined) c.set_object(i, ObjectType::sequence(ObjectType::tensor(type)));
  }
  return {};
}

constexpr Row kRows[] = {
    {"ConcatFromSequence", &infer_at},
    {"Optional", &infer_optional},
    {"OptionalGetElement", &infer_get_element},
    {"OptionalHasElement", &infer_has_element},
    {"SequenceAt", &infer_at},
    {"SequenceConstruct", &infer_construct},
    {"SequenceEmpty", &infer_empty},
    {"SequenceErase", &infer_same},
    {"SequenceInsert", &infer_insert},
    {"SequenceLength", &infer_length},
    {"SequenceMap", &infer_sequence_map},
    {"SplitToSequence", &infer_split_to_sequence},
};

}  // namespace

std::span<const Row> sequence_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
