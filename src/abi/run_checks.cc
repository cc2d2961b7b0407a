// Checks values against the model's declared types and shapes, with the reference's messages.
#include <algorithm>

#include "abi/objects/status.h"
#include "abi/objects/value_tensor.h"
#include "abi/run.h"

namespace tenon::abi {
namespace {

// As the reference writes types: "tensor(float)".
std::string type_text(DataType type) {
  std::string_view name = data_type_name(type);
  if (type == DataType::kFloat) name = "float";
  if (type == DataType::kDouble) name = "double";
  return format("tensor({})", name);
}

DataType type_of_value(const OrtValue& value) {
  return value.is_string_tensor() ? DataType::kString : value.tensor.type();
}

std::string shape_text(const Shape& shape) {
  std::string text = "{";
  for (int i = 0; i < shape.rank(); ++i) text += format("{}{}", i > 0 ? "," : "", shape[i]);
  return text + "}";
}

OrtStatus* wrong_dimensions(const ValueInfo& info, const Shape& shape, std::string_view kind) {
  std::string text = format("Got invalid dimensions for {}: {} for the following indices\n", kind, info.name);
  for (size_t i = 0; i < info.dims.size(); ++i) {
    const int64_t got = shape[static_cast<int>(i)];
    if (info.dims[i] >= 0 && info.dims[i] != got)
      text += format(" index: {} Got: {} Expected: {}\n", i, got, info.dims[i]);
  }
  return make_ort_status(ORT_INVALID_ARGUMENT, text + " Please fix either the inputs/outputs or the model.");
}

OrtStatus* check(const ValueInfo& info, const OrtValue& value, std::string_view kind) noexcept {
  if (value.kind == ONNX_TYPE_SPARSETENSOR && info.object == nullptr)  // 2 is a tensor
    return ort_error(ORT_INVALID_ARGUMENT, "{} with name: '{}' expected to be of type: 2 but received a sparse tensor",
                     kind, info.name);
  if (info.object != nullptr) {
    if (fits(value, info.object)) return nullptr;
    return guarded([&] {
      return ort_error(ORT_INVALID_ARGUMENT, "Unexpected {} data type. The value for {} is of kind {}, expected: ({})",
                       kind, info.name, static_cast<int>(value.kind), info.object->to_string());
    });
  }
  if (!value.is_tensor())
    return ort_error(ORT_INVALID_ARGUMENT, "The value for {} {} is not a tensor.", kind, info.name);
  const DataType type = type_of_value(value);
  const Shape& shape = value.is_string_tensor() ? value.shape : value.tensor.shape();
  if (type != info.type && info.type != DataType::kUndefined) [[unlikely]] {
    return guarded([&] {
      return ort_error(ORT_INVALID_ARGUMENT, "Unexpected {} data type. Actual: ({}) , expected: ({})", kind,
                       type_text(type), type_text(info.type));
    });
  }
  // A value of one element is a scalar where the model declares one: for runs of the main core.
  const bool scalar = info.has_shape && info.dims.empty() && kind == "input" &&
                      std::all_of(shape.dims().begin(), shape.dims().end(), [](int64_t dim) { return dim == 1; });
  if (info.has_shape && !scalar) {
    if (shape.dims().size() != info.dims.size()) [[unlikely]] {
      return ort_error(
          ORT_INVALID_ARGUMENT,
          "Invalid rank for {}: {} Got: {} Expected: {} Please fix either the inputs/outputs or the model.", kind,
          info.name, shape.rank(), info.dims.size());
    }
    for (size_t i = 0; i < info.dims.size(); ++i) {
      if (info.dims[i] >= 0 && info.dims[i] != shape[static_cast<int>(i)]) [[unlikely]]
        return guarded([&] { return wrong_dimensions(info, shape, kind); });
    }
  }
  return nullptr;
}

}  // namespace

size_t find_value(std::span<const ValueInfo> infos, std::string_view name, size_t hint) noexcept {
  if (hint < infos.size() && infos[hint].name == name) return hint;
  for (size_t i = 0; i < infos.size(); ++i)
    if (infos[i].name == name) return i;
  return kNotFound;
}

void add_scalar_feed(const ValueInfo& info, const OrtValue& value, ScalarFeed& feed) noexcept {
  if (!declares_scalar(info) || !value.is_tensor()) return;
  const Shape& shape = value.is_string_tensor() ? value.shape : value.tensor.shape();
  if (shape.rank() == 0) return;
  const bool one = std::all_of(shape.begin(), shape.end(), [](int64_t dim) { return dim == 1; });
  feed = one ? std::max(feed, ScalarFeed::kOneElement) : ScalarFeed::kOthers;
}

OrtStatus* check_feed(const ValueInfo& info, const OrtValue& value) noexcept { return check(info, value, "input"); }

OrtStatus* check_fetch(const ValueInfo& info, const OrtValue& value) noexcept {
  if (OrtStatus* bad = check(info, value, "output")) return bad;
  if (!value.tensor.read_only()) [[likely]]
    return nullptr;
  return guarded([&] {
    Status refused = check_writable(value, "be bound as an output");
    return to_ort(std::move(refused).with_context(format("while binding output \"{}\"", info.name)));
  });
}

OrtStatus* check_fetched(const ValueInfo& info, const OrtValue& value, const Shape& shape) noexcept {
  const Shape& given = value.is_string_tensor() ? value.shape : value.tensor.shape();
  if (given == shape) return nullptr;
  return guarded([&] {
    return ort_error(ORT_INVALID_ARGUMENT,
                     "The output OrtValue provided for output '{}' has shape {} but the computed output shape for this "
                     "run is {}. When calling Run() with pre-allocated output OrtValues on a model with dynamic output "
                     "shapes, either supply unallocated output OrtValues or ensure the pre-allocated shapes match the "
                     "expected output shapes for each run.",
                     info.name, shape_text(given), shape_text(shape));
  });
}

}  // namespace tenon::abi
