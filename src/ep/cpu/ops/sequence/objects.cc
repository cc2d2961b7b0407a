#include "ep/cpu/ops/sequence/objects.h"

#include <cstring>
#include <utility>

namespace tenon::cpu::ref {

Result<RunObjects*> run_objects(const KernelContext& context) {
  if (context.run == nullptr || context.run->objects == nullptr)
    return unsupported("Strings and objects are made by runs only.");
  return context.run->objects;
}

void keep_texts(const KernelContext& context, const ConstantRef& texts) {
  if (texts->type != DataType::kString || context.run == nullptr || context.run->objects == nullptr) return;
  context.run->objects->keep_texts(texts, texts->strings);
}

Result<Tensor> input_tensor(const KernelContext& context, const TensorSpec& spec, size_t index) {
  TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(spec.type, spec.shape));
  return Tensor::view(spec.type, spec.shape, const_cast<void*>(context.inputs[index]), bytes);
}

Result<ObjectRef> input_object(const KernelContext& context, const TensorSpec& spec, size_t index) {
  TENON_TRY_ASSIGN(const Tensor view, input_tensor(context, spec, index));
  TENON_TRY_ASSIGN(Tensor copy, deep_copy(view));
  return Object::tensor(std::move(copy));
}

Result<const Object*> input_sequence(const KernelContext& context, size_t index) {
  const Object* object = input_address(context, index);
  TENON_INVALID_IF(object == nullptr || object->kind() != ObjectKind::kSequence, "Input {} is no sequence.", index);
  return object;
}

Status set_object(KernelContext& context, ObjectRef object) {
  TENON_TRY_ASSIGN(RunObjects * objects, run_objects(context));
  *context.output<const Object*>(0) = objects->keep(std::move(object));
  return {};
}

Status set_tensor(KernelContext& context, const TensorSpec& spec, const Tensor& tensor) {
  TENON_INVALID_IF(tensor.type() != spec.type, "The element is a {} tensor, and the model says {}.",
                   data_type_name(tensor.type()), data_type_name(spec.type));
  TENON_TRY_ASSIGN(void* const output, open_output(context, spec, 0, tensor.shape()));
  if (tensor.size_bytes() > 0 && output != nullptr) std::memcpy(output, tensor.data(), tensor.size_bytes());
  return {};
}

int64_t index_input(const KernelContext& context, const TensorSpec& spec, size_t index, int64_t fallback) {
  if (!spec.present()) return fallback;
  return spec.type == DataType::kInt32 ? *context.input<int32_t>(index) : *context.input<int64_t>(index);
}

Status check_index_input(const KernelNode& node, size_t index) {
  const TensorSpec& spec = input_spec(node, index);
  if (!spec.present()) return {};
  TENON_INVALID_IF((spec.type != DataType::kInt32 && spec.type != DataType::kInt64) || spec.shape.element_count() != 1,
                   "{} has a position of {}{}, not one integer.", node.node->op_type, data_type_name(spec.type),
                   spec.shape.to_string());
  return {};
}

}  // namespace tenon::cpu::ref
