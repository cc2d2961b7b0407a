// Sequences and maps.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "abi/objects/allocator.h"
#include "abi/objects/env.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "abi/objects/value.h"
#include "device/copy.h"

namespace tenon::abi {

namespace {

OrtStatus* fail(const char* message) { return make_ort_status(ORT_FAIL, message); }

std::shared_ptr<const OrtValue> share(const OrtValue& value) { return std::make_shared<const OrtValue>(value); }

OrtStatus* make_sequence(const OrtValue* const* in, size_t count, OrtValue** out) {
  auto sequence = std::make_unique<OrtValue>();
  sequence->kind = ONNX_TYPE_SEQUENCE;
  for (size_t i = 0; i < count; ++i) {
    if (in[i]->kind != in[0]->kind || !(in[i]->is_tensor() || in[i]->kind == ONNX_TYPE_MAP))
      return fail("All OrtValues should be of the same type, and tensors or maps.");
    if (in[i]->is_tensor() && in[i]->element_type != in[0]->element_type)
      return fail(
          "Sequences must have tensors of the same data type. There was at least one tensor in the input that was "
          "different.");
    sequence->elements.push_back(share(*in[i]));
  }
  *out = sequence.release();
  return nullptr;
}

OrtStatus* make_map(const OrtValue& keys, const OrtValue& values, OrtValue** out) {
  if (!keys.is_tensor() || !values.is_tensor()) return fail("Input is not of type tensor.");
  if (keys.shape.element_count() != values.shape.element_count())
    return fail("Key and value tensors have unequal number of elements.");
  if (keys.element_type != ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 &&
      keys.element_type != ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING)
    return fail("Key type is not supported yet.");
  switch (values.element_type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
      break;
    default:
      return ort_error(ORT_FAIL, "Value type is not supported yet: {}",
                       data_type_name(from_element_type(values.element_type)));
  }
  auto map = std::make_unique<OrtValue>();
  map->kind = ONNX_TYPE_MAP;
  map->elements = {share(keys), share(values)};
  *out = map.release();
  return nullptr;
}

// A copy in memory of `allocator`: the element may be a view of memory that the program frees before the copy.
OrtStatus* copy_tensor_value(const OrtValue& source, OrtAllocator* allocator, OrtValue** out) {
  OrtValue* copy = nullptr;
  if (OrtStatus* bad = kOrtApi.CreateTensorAsOrtValue(allocator, source.shape.begin(), source.shape.dims().size(),
                                                      source.element_type, &copy))
    return bad;
  std::unique_ptr<OrtValue> owned(copy);
  if (source.is_string_tensor()) {
    *owned->strings = *source.strings;
  } else {
    // The function is a copy by its contract, so strict mode has no say.
    CopyLedger ledger;
    const Status status =
        tenon::copy_tensor(owned->tensor, source.tensor, CopyReason::kCallerAsked, "element of GetValue", &ledger);
    if (!status.ok()) return to_ort(status);
    if (const std::shared_ptr<OrtEnv> env = current_env()) add_caller_copies(*env, ledger);
  }
  *out = owned.release();
  return nullptr;
}

// The entries that a program sees of a map, as the reference keeps it: by key, and of equal keys the first.
std::vector<size_t> entries_of(const OrtValue& keys) {
  const std::vector<std::string>* texts = keys.is_string_tensor() ? keys.strings.get() : nullptr;
  const int64_t* numbers = texts == nullptr ? keys.tensor.data_as<int64_t>() : nullptr;
  const auto less = [&](size_t a, size_t b) {
    return texts != nullptr ? (*texts)[a] < (*texts)[b] : numbers[a] < numbers[b];
  };
  std::vector<size_t> entries(keys.shape.element_count());
  std::iota(entries.begin(), entries.end(), size_t{0});
  std::stable_sort(entries.begin(), entries.end(), less);
  const auto end = std::unique(entries.begin(), entries.end(), [&](size_t a, size_t b) { return !less(a, b); });
  entries.erase(end, entries.end());
  return entries;
}

// The keys or the values of a map in host memory, in that order.
OrtStatus* copy_part_of_map(const OrtValue& keys, const OrtValue& part, OrtAllocator* allocator, OrtValue** out) {
  const std::vector<size_t> entries = entries_of(keys);
  const int64_t count = std::ssize(entries);
  OrtValue* made = nullptr;
  if (OrtStatus* bad = kOrtApi.CreateTensorAsOrtValue(allocator, &count, 1, part.element_type, &made)) return bad;
  std::unique_ptr<OrtValue> owned(made);
  if (!host_reads(made->memory))
    return make_ort_status(ORT_INVALID_ARGUMENT, "The parts of a map are copied to memory of the host only.");
  *out = owned.release();
  if (part.is_string_tensor()) {
    for (size_t i = 0; i < entries.size(); ++i) (*made->strings)[i] = (*part.strings)[entries[i]];
    return nullptr;
  }
  const size_t size = data_type_size(part.tensor.type());
  for (size_t i = 0; i < entries.size(); ++i)
    std::memcpy(made->tensor.data_as<char>() + i * size, part.tensor.data_as<char>() + entries[i] * size, size);
  return nullptr;
}

}  // namespace

OrtStatus* ort_api::CreateValue(const OrtValue* const* in, size_t num_values, enum ONNXType value_type,
                                OrtValue** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateValue", {{"in", in}, {"out", out}})) return bad;
  if (num_values == 0) return fail("Number of values should be at least 1.");
  if (std::find(in, in + num_values, nullptr) != in + num_values)
    return make_ort_status(ORT_INVALID_ARGUMENT, "A value of CreateValue is null.");
  return guarded([&]() -> OrtStatus* {
    if (value_type == ONNX_TYPE_SEQUENCE) return make_sequence(in, num_values, out);
    if (value_type != ONNX_TYPE_MAP) return fail("Input is not of type sequence or map.");
    if (num_values != 2) return fail("For map type num_values MUST be 2");
    return make_map(*in[0], *in[1], out);
  });
}

OrtStatus* ort_api::GetValueCount(const OrtValue* value, size_t* out) noexcept {
  if (OrtStatus* bad = check_pointers("GetValueCount", {{"value", value}, {"out", out}})) return bad;
  if (value->kind != ONNX_TYPE_SEQUENCE && value->kind != ONNX_TYPE_MAP)
    return fail("Input is not of type sequence or map.");
  *out = value->elements.size();
  return nullptr;
}

OrtStatus* ort_api::GetValue(const OrtValue* value, int index, OrtAllocator* allocator, OrtValue** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("GetValue", {{"value", value}, {"allocator", allocator}, {"out", out}}))
    return bad;
  if (value->kind != ONNX_TYPE_SEQUENCE && value->kind != ONNX_TYPE_MAP)
    return fail("Input is not of type sequence or map.");
  if (index < 0 || static_cast<size_t>(index) >= value->elements.size())
    return value->kind == ONNX_TYPE_MAP
               ? fail("Invalid index requested for map type.")
               : ort_error(ORT_FAIL, "Index ({}) is outside a sequence of {} values.", index, value->elements.size());
  return guarded([&]() -> OrtStatus* {
    const OrtValue& element = *value->elements[index];
    if (value->kind == ONNX_TYPE_MAP) return copy_part_of_map(*value->elements[0], element, allocator, out);
    if (element.is_tensor()) return copy_tensor_value(element, allocator, out);
    *out = new OrtValue(element);
    return nullptr;
  });
}

}  // namespace tenon::abi
