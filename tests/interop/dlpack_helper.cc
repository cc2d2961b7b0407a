// C functions over tenon::tensor_from_dlpack and tensor_to_dlpack, for dlpack_numpy_test.py.
#include <tenon/dlpack.h>

#include <cstring>
#include <memory>
#include <string>

#include "interop/dlpack_types.h"

using tenon::Tensor;

namespace {
std::string last_error;
}

extern "C" {

const char* helper_last_error() { return last_error.c_str(); }

// A float32 [rows, columns] tensor that counts up; null on error.
Tensor* helper_make_ramp(int64_t rows, int64_t columns) {
  auto tensor = Tensor::allocate(tenon::DataType::kFloat, {rows, columns});
  if (!tensor.ok()) return nullptr;
  for (int64_t i = 0; i < rows * columns; ++i) tensor->data_as<float>()[i] = static_cast<float>(i);
  return new Tensor(*std::move(tensor));
}

DLManagedTensorVersioned* helper_export(const Tensor* tensor, int read_only) {
  auto managed = tenon::tensor_to_dlpack_versioned(read_only != 0 ? tensor->as_read_only() : *tensor);
  return managed.ok() ? *managed : nullptr;
}

DLManagedTensor* helper_export_unversioned(const Tensor* tensor) {
  auto managed = tenon::tensor_to_dlpack(*tensor);
  return managed.ok() ? *managed : nullptr;
}

Tensor* helper_import(DLManagedTensorVersioned* managed, int allow_read_only) {
  auto tensor = tenon::tensor_from_dlpack(managed, allow_read_only != 0);
  last_error = tensor.ok() ? "" : tensor.status().to_string();
  return tensor.ok() ? new Tensor(*std::move(tensor)) : nullptr;
}

void* helper_data(const Tensor* tensor) { return tensor->data(); }
int helper_type(const Tensor* tensor) { return static_cast<int>(tensor->type()); }
void helper_release(Tensor* tensor) { delete tensor; }
}
