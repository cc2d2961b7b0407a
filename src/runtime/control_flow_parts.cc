#include "runtime/control_flow_parts.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/system.h"
#include "ops/attributes.h"
#include "plan/control_flow.h"
#include "runtime/memory.h"
#include "runtime/run_state.h"

namespace tenon {

namespace {

// For iterations that are announced and may not come.
constexpr size_t kMostReserved = size_t{64} << 20;

}  // namespace

Result<BodyOf> body_of(const BodyHost& host, const KernelNode& node, std::string_view name,
                       const std::vector<bool>& wanted) {
  const Graph* const graph = Attributes(*node.node).graph(name);
  TENON_INVALID_IF(graph == nullptr, "Node {} has no subgraph \"{}\".", node.node->label(*node.graph), name);
  const CapturedInputs captured = captured_inputs(*node.node, name);
  return BodyOf{std::make_unique<Body>(host, *graph, wanted), captured.first, captured.count};
}

BodyValue input_value(const KernelContext& context, std::span<const TensorSpec> specs, size_t index) {
  BodyValue value;
  value.data = context.inputs[index];
  value.type = specs[index].type;
  value.shape = specs[index].shape;
  return value;
}

void append_captured(const KernelContext& context, std::span<const TensorSpec> specs, const BodyOf& body,
                     std::vector<BodyValue>& values) {
  for (size_t i = 0; i < body.captured; ++i) {
    values.push_back(input_value(context, specs, body.first_captured + i));
  }
}

Result<void*> open_output(KernelContext& context, std::span<const TensorSpec> specs, size_t index, DataType type,
                          const Shape& shape) {
  const TensorSpec& spec = specs[index];
  TENON_INVALID_IF(spec.type != type, "Output {} is {}, but was planned as {}.", index, data_type_name(type),
                   data_type_name(spec.type));
  if (spec.dynamic) return context.allocate_output(index, shape);
  TENON_INVALID_IF(spec.shape != shape, "Output {} has shape {}, but was planned with {}.", index, shape.to_string(),
                   spec.shape.to_string());
  return context.outputs[index];
}

Status write_state(KernelContext& context, std::span<const TensorSpec> specs, size_t index, BodyValue state,
                   const char* what) {
  const TensorSpec& spec = specs[index];
  auto* adopting = dynamic_cast<AdoptingContext*>(&context);
  const bool own = state.memory.use_count() == 1 && state.data == state.memory.get() && spec.type == state.type;
  if (spec.dynamic && own && adopting != nullptr &&
      adopting->adopt_output(index, state.shape, state.memory, state.capacity_bytes))
    return {};
  TENON_TRY_ASSIGN(void* target, open_output(context, specs, index, state.type, state.shape));
  return copy_value(target, state, CopyReason::kCarriedState, what, info_of(context));
}

Status check_cancelled(const RunInfo& info, const Node& node, int64_t iteration) {
  if (is_to_end(info)) [[unlikely]]
    return why_it_ends(info, format("in iteration {} of {}", iteration, node.op_type));
  return {};
}

const RunInfo& info_of(const KernelContext& context) {
  static const RunInfo kNone;
  return context.run != nullptr ? *context.run : kNone;
}

Result<void*> CarriedValue::place(DataType type, const Shape& shape) {
  TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(type, shape));
  next_.type = type;
  next_.shape = shape;
  // Somebody else may have been handed the same memory.
  if (spare_.memory != nullptr && spare_.memory.use_count() == 1 && spare_.capacity_bytes >= bytes) {
    next_.memory = std::move(spare_.memory);
    next_.capacity_bytes = spare_.capacity_bytes;
  } else {
    TENON_TRY_ASSIGN(next_.memory, allocate_zeroed(bytes));
    next_.capacity_bytes = bytes;
  }
  next_.data = next_.memory.get();
  return static_cast<void*>(next_.memory.get());
}

void CarriedValue::place_at(void* memory, DataType type, const Shape& shape) {
  next_ = {};
  next_.data = memory;
  next_.type = type;
  next_.shape = shape;
}

void CarriedValue::advance() {
  spare_ = std::move(current_);
  current_ = std::move(next_);
  next_ = {};
}

void Stack::start(const char* what, const RunInfo& info) {
  type_ = DataType::kUndefined;
  count_ = 0;
  part_bytes_ = 0;
  expected_ = 0;
  what_ = what;
  info_ = &info;
  in_output_ = keep_parts_ = false;
  parts_.clear();
}

void Stack::start(int64_t expected, const char* what, const RunInfo& info) {
  start(what, info);
  expected_ = expected;
  data_ = memory_.get();
  capacity_ = memory_bytes_;
}

void Stack::start_in(void* output, size_t size_bytes, const char* what, const RunInfo& info) {
  start(what, info);
  in_output_ = true;
  data_ = static_cast<std::byte*>(output);
  capacity_ = size_bytes;
}

void Stack::start_parts(const char* what, const RunInfo& info) {
  start(what, info);
  keep_parts_ = true;
}

Status check_slices(DataType type, const Shape& slice, int axis, const char* what) {
  if (data_type_size(type) != 0) return {};
  TENON_UNSUPPORTED_IF(axis != 0 || slice.element_count() * data_type_bits(type) % 8 != 0,
                       "Slices {}{} along axis {} of \"{}\" do not fill whole bytes, and are not scanned.",
                       data_type_name(type), slice.to_string(), axis, what);
  return {};
}

Result<void*> Stack::place(DataType type, const Shape& shape) {
  if (count_ == 0) {
    TENON_TRY(check_slices(type, shape, 0, what_));
    TENON_TRY_ASSIGN(part_bytes_, tensor_size_bytes(type, shape));
    type_ = type;
    shape_ = shape;
  }
  TENON_INVALID_IF(type != type_ || shape != shape_,
                   "A scan output is {}{} in iteration {}, but {}{} in the first one; all have to be the same.",
                   data_type_name(type), shape.to_string(), count_, data_type_name(type_), shape_.to_string());
  if (keep_parts_) {
    if (parts_.size() == static_cast<size_t>(count_)) {
      TENON_TRY_ASSIGN(Tensor part, Tensor::allocate(type, shape));
      parts_.push_back(std::move(part));
    }
    return parts_.back().data();
  }
  const auto before = checked_mul<size_t>(part_bytes_, count_);
  const auto after = before ? checked_add(*before, part_bytes_) : std::nullopt;
  if (!after) return resource_exhausted("{} values of {} bytes exceed what memory can hold.", count_ + 1, part_bytes_);
  TENON_INVALID_IF(in_output_ && *after > capacity_,
                   "Scan output \"{}\" was planned with {} bytes, and {} iterations give {}.", what_, capacity_,
                   count_ + 1, *after);
  TENON_TRY(grow(*after));
  return static_cast<void*>(data_ + *before);
}

void Stack::advance() { ++count_; }

Status Stack::grow(size_t bytes) {
  if (in_output_ || (data_ != nullptr && bytes <= capacity_)) return {};
  size_t capacity = std::max(bytes, part_bytes_ * std::min<size_t>(8, SIZE_MAX / 8 / std::max<size_t>(part_bytes_, 1)));
  if (const auto all = checked_mul<size_t>(part_bytes_, expected_); all && *all <= kMostReserved)
    capacity = std::max(capacity, *all);
  if (capacity_ <= SIZE_MAX / 4) capacity = std::max(capacity, capacity_ * 2);
  // The last growth before memory ends takes what is needed.
  capacity = std::max(bytes, std::min(capacity, memory_bytes()));
  TENON_TRY_ASSIGN(std::shared_ptr<std::byte> memory, allocate_zeroed(capacity));
  const size_t used = part_bytes_ * count_;
  const BodyValue moved{.data = data_, .type = DataType::kUint8, .shape = Shape{static_cast<int64_t>(used)}};
  TENON_TRY(copy_value(memory.get(), moved, CopyReason::kScanSlices, what_, *info_));
  memory_ = std::move(memory);
  memory_bytes_ = capacity_ = capacity;
  data_ = memory_.get();
  return {};
}

Status Stack::write(KernelContext& context, std::span<const TensorSpec> specs, size_t index, const Shape& whole) {
  const DataType type = count_ == 0 ? specs[index].type : type_;
  auto* adopting = dynamic_cast<AdoptingContext*>(&context);
  if (specs[index].dynamic && specs[index].type == type && !in_output_ && memory_ != nullptr && adopting != nullptr &&
      adopting->adopt_output(index, whole, memory_, memory_bytes_)) {
    data_ = nullptr;
    return {};
  }
  TENON_TRY_ASSIGN(void* target, open_output(context, specs, index, type, whole));
  const BodyValue value{.data = data_, .type = type, .shape = whole};
  return copy_value(target, value, CopyReason::kScanSlices, what_, *info_);
}

Shape part_shape_without_iterations(const Graph& body, size_t output) {
  Shape shape;
  if (output >= body.outputs.size()) return shape;
  const Value& value = body.value(body.outputs[output]);
  if (!value.has_rank || value.dims.size() >= Shape::kMaxRank) return shape;
  for (const Dim& dim : value.dims) shape.push_back(dim.known() ? dim.value : 0);
  return shape;
}

}  // namespace tenon
