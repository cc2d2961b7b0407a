// Shared by kernels of strings, sequences, optionals and maps: the run's objects, and tensors to and from them.
#pragma once

#include "ep/api/device_provider.h"
#include "ep/api/run_objects.h"
#include "ep/cpu/ops/reference_kernel.h"

namespace tenon::cpu::ref {

inline constexpr TypeSet kStringSet = TypeSet{1} << static_cast<int>(DataType::kString);
inline constexpr TypeSet kObjectSet = TypeSet{1} << static_cast<int>(DataType::kObject);
inline constexpr TypeSet kAnySet = ~TypeSet{0};

// Where the run under way keeps what its kernels make. Errors: there is no run (constant folding).
Result<RunObjects*> run_objects(const KernelContext& context);

// An output of the run may hold addresses of the constant's texts, and then needs no copies of them. Nothing happens
// for other types, and outside of runs.
void keep_texts(const KernelContext& context, const ConstantRef& texts);

// An input as a tensor: a view that lasts as long as the step.
Result<Tensor> input_tensor(const KernelContext& context, const TensorSpec& spec, size_t index);
// A copy of it, as an object.
Result<ObjectRef> input_object(const KernelContext& context, const TensorSpec& spec, size_t index);

// The sequence that is input `index`. Errors: the value is an empty optional, or no sequence.
Result<const Object*> input_sequence(const KernelContext& context, size_t index);
inline const Object* input_address(const KernelContext& context, size_t index) {
  return *context.input<const Object*>(index);
}

// Writes the address of `object` to output 0, and keeps it.
Status set_object(KernelContext& context, ObjectRef object);
// Copies a tensor that the run keeps into output 0, whose shape is found now.
Status set_tensor(KernelContext& context, const TensorSpec& spec, const Tensor& tensor);

// One number of an optional integer input; `fallback` where it is absent. Its type and size were checked.
int64_t index_input(const KernelContext& context, const TensorSpec& spec, size_t index, int64_t fallback);
Status check_index_input(const KernelNode& node, size_t index);

}  // namespace tenon::cpu::ref
