// Sequences and optionals.
#include "ops/sequence.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "ep/cpu/ops/sequence/objects.h"
#include "ops/concat.h"

namespace tenon::cpu::ref {

namespace {

Status require_object(const KernelNode& node, size_t index) {
  TENON_TRY(require_inputs(node, index + 1));
  TENON_INVALID_IF(node.inputs[index].type != DataType::kObject, "Input {} of {} is a {} tensor, not a sequence.",
                   index, node.node->op_type, data_type_name(node.inputs[index].type));
  return {};
}

Result<RefImpl> make_construct(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  RefImpl impl;
  impl.run = [inputs = std::vector<TensorSpec>(node.inputs.begin(), node.inputs.end())](KernelContext& context) {
    std::vector<ObjectRef> elements;
    for (size_t i = 0; i < inputs.size(); ++i) {
      TENON_TRY_ASSIGN(ObjectRef element, input_object(context, inputs[i], i));
      elements.push_back(std::move(element));
    }
    return set_object(context, Object::sequence(std::move(elements)));
  };
  return impl;
}

Result<RefImpl> make_empty(RefNode& /*node*/) {
  RefImpl impl;
  impl.run = [](KernelContext& context) { return set_object(context, Object::sequence({})); };
  return impl;
}

Result<RefImpl> make_insert(RefNode& node) {
  TENON_TRY(require_object(node, 0));
  TENON_TRY(require_inputs(node, 2));
  TENON_TRY(check_index_input(node, 2));
  RefImpl impl;
  impl.run = [element_spec = node.inputs[1], index_spec = input_spec(node, 2)](KernelContext& context) -> Status {
    TENON_TRY_ASSIGN(const Object* sequence, input_sequence(context, 0));
    TENON_TRY_ASSIGN(RunObjects * objects, run_objects(context));
    const std::span<const ObjectRef> before = sequence->elements();
    const auto size = static_cast<int64_t>(before.size());
    TENON_TRY_ASSIGN(const int64_t index,
                     wrap_sequence_index(index_input(context, index_spec, 2, size), size, /*inserts=*/true));
    TENON_TRY_ASSIGN(ObjectRef element, input_object(context, element_spec, 1));
    TENON_INVALID_IF(size > 0 && before[0]->as_tensor().type() != element->as_tensor().type(),
                     "A {} tensor is inserted into a sequence of {} tensors.", data_type_name(element_spec.type),
                     data_type_name(before[0]->as_tensor().type()));
    // A loop that appends in each iteration shares one list.
    if (index == size) return set_object(context, Object::appended(*sequence, std::move(element), objects->number()));
    std::vector<ObjectRef> elements(before.begin(), before.end());
    elements.insert(elements.begin() + index, std::move(element));
    return set_object(context, Object::sequence(std::move(elements)));
  };
  return impl;
}

Result<RefImpl> make_erase(RefNode& node) {
  TENON_TRY(require_object(node, 0));
  TENON_TRY(check_index_input(node, 1));
  RefImpl impl;
  impl.run = [index_spec = input_spec(node, 1)](KernelContext& context) -> Status {
    TENON_TRY_ASSIGN(const Object* sequence, input_sequence(context, 0));
    const std::span<const ObjectRef> before = sequence->elements();
    TENON_TRY_ASSIGN(const int64_t index, wrap_sequence_index(index_input(context, index_spec, 1, -1),
                                                              static_cast<int64_t>(before.size()), /*inserts=*/false));
    std::vector<ObjectRef> elements(before.begin(), before.end());
    elements.erase(elements.begin() + index);
    return set_object(context, Object::sequence(std::move(elements)));
  };
  return impl;
}

Result<RefImpl> make_at(RefNode& node) {
  TENON_TRY(require_object(node, 0));
  TENON_TRY(require_inputs(node, 2));
  TENON_TRY(check_index_input(node, 1));
  RefImpl impl;
  impl.run = [index_spec = node.inputs[1], spec = output_spec(node, 0)](KernelContext& context) -> Status {
    TENON_TRY_ASSIGN(const Object* sequence, input_sequence(context, 0));
    const std::span<const ObjectRef> elements = sequence->elements();
    TENON_TRY_ASSIGN(const int64_t index, wrap_sequence_index(index_input(context, index_spec, 1, 0),
                                                              static_cast<int64_t>(elements.size()), false));
    if (spec.type == DataType::kObject) return set_object(context, elements[index]);
    return set_tensor(context, spec, elements[index]->as_tensor());
  };
  return impl;
}

Result<RefImpl> make_length(RefNode& node) {
  TENON_TRY(require_object(node, 0));
  TENON_TRY(require_output(node, 0, Shape()));
  RefImpl impl;
  impl.run = [](KernelContext& context) -> Status {
    TENON_TRY_ASSIGN(const Object* sequence, input_sequence(context, 0));
    *context.output<int64_t>(0) = static_cast<int64_t>(sequence->elements().size());
    return {};
  };
  return impl;
}

Shape part_shape(const Shape& whole, const SplitToSequenceDesc& desc, int64_t size, bool keep_axis) {
  Shape shape;
  for (int d = 0; d < whole.rank(); ++d) {
    if (d != desc.span.axis) {
      shape.push_back(whole[d]);
    } else if (keep_axis) {
      shape.push_back(size);
    }
  }
  return shape;
}

// Whether the parts are of one size, lie in one piece each, and are so small that memory of their own for each costs
// more than its use: they share one then, which one of them keeps.
bool are_small_parts(const Tensor& whole, const SplitToSequenceDesc& desc, std::span<const int64_t> sizes) {
  constexpr int64_t kMostBytes = 1024;
  const bool equal = std::adjacent_find(sizes.begin(), sizes.end(), std::not_equal_to<>()) == sizes.end();
  return !sizes.empty() && equal && desc.span.outer == 1 && data_type_bits(whole.type()) % 8 == 0 &&
         sizes[0] * desc.span.inner > 0 &&
         sizes[0] * desc.span.inner * static_cast<int64_t>(data_type_size(whole.type())) <= kMostBytes;
}

// Elements [begin, begin + size) of the axis. Strings belong to `whole`, and the parts share them where they lie in one
// piece: a string is not copied then, and a part is few allocations.
Result<ObjectRef> part_of(const Tensor& whole, const SplitToSequenceDesc& desc, int64_t begin, int64_t size,
                          bool keep_axis) {
  const Shape shape = part_shape(whole.shape(), desc, size, keep_axis);
  if (whole.type() == DataType::kString && desc.span.outer == 1) {
    const int64_t first = begin * desc.span.inner;
    TENON_TRY_ASSIGN(Tensor shared, Tensor::view(whole.type(), shape, whole.data_as<TextAddress>() + first,
                                                 size * desc.span.inner * sizeof(TextAddress), whole.owner()));
    return Object::tensor(std::move(shared));
  }
  TENON_TRY_ASSIGN(const Tensor part, Tensor::allocate(whole.type(), shape));
  const size_t element_bytes = data_type_size(whole.type());
  const size_t row_bytes = size * desc.span.inner * element_bytes;
  for (int64_t o = 0; o < desc.span.outer && row_bytes > 0; ++o) {
    std::memcpy(part.data_as<std::byte>() + o * row_bytes,
                whole.data_as<std::byte>() + (o * desc.span.length + begin) * desc.span.inner * element_bytes,
                row_bytes);
  }
  if (whole.type() != DataType::kString) return Object::tensor(part);
  TENON_TRY_ASSIGN(Tensor copy, deep_copy(part));
  return Object::tensor(std::move(copy));
}

Result<RefImpl> make_split_to_sequence(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY_ASSIGN(const SplitToSequenceDesc desc, read_split_to_sequence(*node.node, node.inputs[0].shape));
  const TensorSpec& split = input_spec(node, 1);
  TENON_INVALID_IF(
      split.present() && ((split.type != DataType::kInt32 && split.type != DataType::kInt64) || split.shape.rank() > 1),
      "SplitToSequence has parts of {}{}, not integers.", data_type_name(split.type), split.shape.to_string());
  RefImpl impl;
  impl.run = [x = node.inputs[0], split, desc](KernelContext& context) -> Status {
    TENON_TRY_ASSIGN(Tensor whole, input_tensor(context, x, 0));
    std::vector<int64_t> sizes;
    if (split.present()) {
      std::vector<int64_t> given;
      given.reserve(split.shape.element_count());
      for (int64_t i = 0; i < split.shape.element_count(); ++i) {
        given.push_back(split.type == DataType::kInt32 ? context.input<int32_t>(1)[i] : context.input<int64_t>(1)[i]);
      }
      TENON_TRY_ASSIGN(sizes, sequence_split_sizes(given, split.shape.rank() == 0, desc.span.length));
    } else {
      sizes.assign(desc.span.length, 1);
    }
    const bool keep_axis = split.present() || desc.keep_axis;
    const bool small = are_small_parts(whole, desc, sizes);
    if (small || x.type == DataType::kString) {
      TENON_TRY_ASSIGN(whole, deep_copy(whole));  // the run may not keep the input's strings
    }
    if (small) {
      const Shape part = part_shape(whole.shape(), desc, sizes[0], keep_axis);
      TENON_TRY_ASSIGN(ObjectRef parts, Object::parts(std::move(whole), part));
      return set_object(context, std::move(parts));
    }
    std::vector<ObjectRef> parts;
    parts.reserve(sizes.size());
    int64_t begin = 0;
    for (int64_t size : sizes) {
      TENON_TRY_ASSIGN(ObjectRef part, part_of(whole, desc, begin, size, keep_axis));
      parts.push_back(std::move(part));
      begin += size;
    }
    return set_object(context, Object::sequence(std::move(parts)));
  };
  return impl;
}

// The shape of an element with an axis of one at `axis`.
Shape with_axis(const Shape& shape, int axis) {
  Shape wider;
  for (int d = 0; d <= shape.rank(); ++d) {
    if (d == axis) wider.push_back(1);
    if (d < shape.rank()) wider.push_back(shape[d]);
  }
  return wider;
}

Result<RefImpl> make_concat_from_sequence(RefNode& node) {
  TENON_TRY(require_object(node, 0));
  RefImpl impl;
  impl.run = [desc = read_concat_from_sequence(*node.node),
              spec = output_spec(node, 0)](KernelContext& context) -> Status {
    TENON_TRY_ASSIGN(const Object* sequence, input_sequence(context, 0));
    const std::span<const ObjectRef> elements = sequence->elements();
    TENON_INVALID_IF(elements.empty(), "ConcatFromSequence has an empty sequence, so its output has no shape.");
    const int rank = elements[0]->as_tensor().shape().rank() + (desc.new_axis ? 1 : 0);
    TENON_UNSUPPORTED_IF(rank > Shape::kMaxRank, "ConcatFromSequence makes a tensor of rank {}; the highest is {}.",
                         rank, Shape::kMaxRank);
    TENON_TRY_ASSIGN(const int axis, resolve_axis(desc.axis, rank));
    Shape out;
    std::vector<Shape> shapes;
    shapes.reserve(elements.size());
    for (size_t i = 0; i < elements.size(); ++i) {
      const Tensor& tensor = elements[i]->as_tensor();
      TENON_INVALID_IF(tensor.type() != spec.type, "Element {} is a {} tensor, and the output {}.", i,
                       data_type_name(tensor.type()), data_type_name(spec.type));
      shapes.push_back(desc.new_axis ? with_axis(tensor.shape(), axis) : tensor.shape());
      bool fits = shapes[i].rank() == rank;
      for (int d = 0; fits && d < rank; ++d) fits = d == axis || shapes[i][d] == shapes[0][d];
      TENON_INVALID_IF(!fits, "Element {} has shape {}, which does not join {} along axis {}.", i,
                       tensor.shape().to_string(), elements[0]->as_tensor().shape().to_string(), axis);
      if (i == 0) {
        out = shapes[0];
      } else {
        out[axis] += shapes[i][axis];
      }
    }
    TENON_TRY_ASSIGN(void* const output, open_output(context, spec, 0, out));
    const AxisSpan span = axis_span(out, axis);
    const auto element_bytes = static_cast<int64_t>(data_type_size(spec.type));
    int64_t at = 0;
    for (size_t i = 0; i < elements.size(); ++i) {
      const int64_t row_bytes = shapes[i][axis] * span.inner * element_bytes;
      const auto* from = elements[i]->as_tensor().data_as<std::byte>();
      for (int64_t o = 0; o < span.outer && row_bytes > 0; ++o) {
        std::memcpy(static_cast<std::byte*>(output) + (o * span.length + at) * span.inner * element_bytes,
                    from + o * row_bytes, row_bytes);
      }
      at += shapes[i][axis];
    }
    return {};
  };
  return impl;
}

Result<RefImpl> make_optional(RefNode& node) {
  RefImpl impl;
  impl.run = [x = input_spec(node, 0)](KernelContext& context) -> Status {
    if (!x.present()) return set_object(context, nullptr);
    if (x.type == DataType::kObject) {
      *context.output<const Object*>(0) = input_address(context, 0);
      return {};
    }
    TENON_TRY_ASSIGN(ObjectRef object, input_object(context, x, 0));
    return set_object(context, std::move(object));
  };
  return impl;
}

Result<RefImpl> make_has_element(RefNode& node) {
  TENON_TRY(require_output(node, 0, Shape()));
  RefImpl impl;
  impl.run = [x = input_spec(node, 0)](KernelContext& context) -> Status {
    const bool has = x.present() && (x.type != DataType::kObject || input_address(context, 0) != nullptr);
    *context.output<uint8_t>(0) = has ? 1 : 0;
    return {};
  };
  return impl;
}

Result<RefImpl> make_get_element(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  RefImpl impl;
  impl.run = [x = node.inputs[0], spec = output_spec(node, 0)](KernelContext& context) -> Status {
    if (x.type != DataType::kObject) {
      TENON_TRY_ASSIGN(const Tensor tensor, input_tensor(context, x, 0));
      return set_tensor(context, spec, tensor);
    }
    const Object* object = input_address(context, 0);
    TENON_INVALID_IF(object == nullptr, "OptionalGetElement is asked for what an empty optional holds.");
    if (spec.type == DataType::kObject) {
      *context.output<const Object*>(0) = object;
      return {};
    }
    TENON_INVALID_IF(object->kind() != ObjectKind::kTensor, "The optional holds no tensor, and the model says {}.",
                     data_type_name(spec.type));
    return set_tensor(context, spec, object->as_tensor());
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    packed_ref_row<kAnySet, &make_construct>("SequenceConstruct", 11),
    packed_ref_row<kAnySet, &make_empty>("SequenceEmpty", 11),
    packed_ref_row<kAnySet, &make_insert>("SequenceInsert", 11),
    packed_ref_row<kAnySet, &make_erase>("SequenceErase", 11),
    packed_ref_row<kAnySet, &make_at>("SequenceAt", 11),
    packed_ref_row<kAnySet, &make_length>("SequenceLength", 11),
    ref_row<kAnySet, &make_split_to_sequence>("SplitToSequence", 11),
    ref_row<kAnySet, &make_concat_from_sequence>("ConcatFromSequence", 11),
    packed_ref_row<kAnySet, &make_optional>("Optional", 15),
    packed_ref_row<kAnySet, &make_has_element>("OptionalHasElement", 15),
    packed_ref_row<kAnySet, &make_get_element>("OptionalGetElement", 15),
};

}  // namespace

std::span<const KernelEntry> ref_sequence_rows() { return kRows; }

}  // namespace tenon::cpu::ref
