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

// The order in which a program gets the entries of a map: by key, as the reference keeps them.
std::vector<size_t> order_of_keys(const OrtValue& keys) {
  std::vector<size_t> order(keys.shape.element_count());
  std::iota(order.begin(), order.end(), size_t{0});
  const int64_t* numbers = keys.is_string_tensor() ? nullptr : keys.tensor.data_as<int64_t>();
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return numbers != nullptr ? numbers[a] < numbers[b] : (*keys.strings)[a] < (*keys.strings)[b];
  });
  return order;
}

// Puts the elements of `part`, which is the program's own copy of a map's keys or values, into that order.
void reorder(OrtValue& part, const std::vector<size_t>& order) {
  if (std::is_sorted(order.begin(), order.end())) return;
  if (part.is_string_tensor()) {
    std::vector<std::string> sorted;
    for (const size_t i : order) sorted.push_back(std::move((*part.strings)[i]));
    *part.strings = std::move(sorted);
    return;
  }
  const size_t size = part.tensor.size_bytes() / order.size();
  char* data = part.tensor.data_as<char>();
  const std::vector<char> before(data, data + part.tensor.size_bytes());
  for (size_t i = 0; i < order.size(); ++i) std::memcpy(data + i * size, before.data() + order[i] * size, size);
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
    if (element.is_tensor()) {
      if (OrtStatus* bad = copy_tensor_value(element, allocator, out)) return bad;
      if (value->kind == ONNX_TYPE_MAP && host_reads((*out)->memory)) reorder(**out, order_of_keys(*value->elements[0]));
      return nullptr;
    }
    *out = new OrtValue(element);
    return nullptr;
  });
}

}  // namespace tenon::abi
