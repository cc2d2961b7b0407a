// numpy's arrays and tensors: each a view of the other's memory where that is possible.
#pragma once

#include <tenon/object.h>
#include <tenon/object_type.h>
#include <tenon/tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core.h"

namespace tenon::python {

// Loads numpy's C API; once, when the module is imported.
void import_numpy();

bool is_array(nb::handle object);
// The element type of an array; kUndefined for one that no tensor has. An array of strings of any kind is kString.
DataType element_type(nb::handle array);
// RuntimeError with the type's number and name.
[[noreturn]] void raise_no_element_type(nb::handle array);
// A numpy type (numpy.float32, "float32", a dtype) as an element type. Errors: TypeError of numpy's, RuntimeError.
DataType element_type_of_dtype(nb::handle dtype);
// numpy's type for an element type, or null: numpy, and ml_dtypes where it is installed, have none.
nb::object dtype_of(DataType type);

// A view of an array that is contiguous, aligned, of the machine's byte order and not of strings; nothing for others.
// Without `owned` the caller keeps the array alive.
std::optional<Tensor> view_of(nb::handle array, bool owned);
// Strings of an input, whose memory the next run's take where no tensor shows them any more.
struct InputTexts {
  std::vector<std::string> texts;
  std::vector<const std::string*> addresses;
};
// A copy of an array's strings, without a call of Python code; nothing for an array that needs one. `spare` (null: none
// yet) holds them, and those before if they have no other owner.
std::optional<Tensor> plain_strings_of(nb::handle array, std::shared_ptr<InputTexts>& spare);
// A tensor for any array: its memory where it is fit, else a copy (strings always). `copied` (may be null) is set.
Tensor tensor_of_array(nb::handle array, bool* copied = nullptr);
// The same memory with another type of the same size, as ortvalue_from_numpy_with_onnx_type does.
Tensor tensor_of_array_as(nb::handle array, DataType type);

// A value for an input: an array, a list that numpy makes one of, a list of values for a sequence, a dictionary for a
// map, None for an optional. `type` null: a tensor of `tensor_type`. `name` is for messages.
Tensor tensor_of_object(nb::handle object, DataType tensor_type, const ObjectTypeRef& type, const std::string& name);

// An array over a tensor's memory, which it keeps alive; of strings a copy, of a sequence a list, of a map a
// dictionary, of an empty optional None. Errors: RuntimeError for types that numpy does not have.
nb::object to_python(const Tensor& tensor);
// A new array with a copy of the tensor's values in memory of numpy's own.
nb::object to_python_copy(const Tensor& tensor);

}  // namespace tenon::python
