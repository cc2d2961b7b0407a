// Scan: a body runs once for each slice of its scan inputs; its scan outputs are concatenated along an axis.
//
// The loop slices along axis 0, where a slice is contiguous. Other axes are transposed to axis 0 before the loop and
// back after it, by the helper of the node's EP if there is one. Version 8 has no axes: it runs the loop for each entry
// of a batch (the first dimension of all tensors), and entries may have different lengths.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "device/copy.h"
#include "ops/axes.h"
#include "ops/control_flow.h"
#include "plan/control_flow.h"
#include "runtime/control_flow_parts.h"
#include "runtime/idle_pool.h"
#include "runtime/memory.h"

namespace tenon {

namespace {

Shape without_axis(const Shape& shape, int axis) {
  Shape slice;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != axis) slice.push_back(shape[i]);
  }
  return slice;
}

// Room for it was checked.
Shape with_axis(const Shape& shape, int axis, int64_t dim) {
  Shape whole;
  for (int i = 0; i <= shape.rank(); ++i) {
    if (i == axis) whole.push_back(dim);
    if (i < shape.rank()) whole.push_back(shape[i]);
  }
  return whole;
}

struct ScanInput {
  size_t index = 0;  // of the node's inputs
  int axis = 0;
  bool reverse = false;
  Shape slice;
  size_t slice_bytes = 0;
  const char* name = "";
};

// The properties of a Scan that do not change from run to run.
struct ScanSpec {
  std::vector<TensorSpec> inputs, outputs;
  std::vector<const char*> output_names;  // by output of the node or state
  size_t first_state = 0;                 // of the node's inputs; 1 in version 8, after the lengths
  size_t states = 0;
  std::vector<ScanInput> scans;
  std::vector<ScanAxis> scan_outputs;
  int64_t length = 0;
  int64_t batch = -1;  // -1: none
  BodyOf body;
  const SubgraphHelper* helper = nullptr;
};

// A scan output of the run under way, with its axis first.
struct Collected {
  DataType type = DataType::kUndefined;
  Shape slice;
  size_t slice_bytes = 0;
  std::byte* data = nullptr;
  std::byte* output = nullptr;               // the node's, where it is another memory than `data`
  std::shared_ptr<std::byte> before_moving;  // `data`, then
  bool open = false;
};

// The state of one run; kept for the next one.
struct ScanFrame {
  std::vector<CarriedValue> states;
  std::vector<Collected> collected;
  std::vector<std::byte*> state_outputs;  // the node's output for a state (version 8: all entries'); null: not opened
  std::vector<Tensor> moved;              // by scan input, where its axis was moved
  std::vector<BodyValue> values;
};

// Moves `axis` of `whole` first, or back. The slices of other axes do not lie side by side, so all of them are copied.
Status move_axis(const Shape& whole, int axis, size_t element_bytes, const void* src, void* dst, bool back,
                 const char* what, const RunInfo& info) {
  constexpr CopyReason kReason = CopyReason::kScanSlices;
  if (info.disallow_copies) return copy_disallowed(what, MemorySpace{}, MemorySpace{}, kReason);
  copy_moving_axis(whole, axis, back, element_bytes, static_cast<const std::byte*>(src), static_cast<std::byte*>(dst),
                   kReason, what, info.ledger);
  return {};
}

// The helper's permutation for the same.
std::vector<size_t> permutation_of(int axis, int rank, bool back) {
  std::vector<size_t> permutation;
  if (!back) permutation.push_back(axis);
  for (int i = 0; i < rank; ++i) {
    if (back) permutation.push_back(i == axis ? 0 : i < axis ? i + 1 : i);
    if (!back && i != axis) permutation.push_back(i);
  }
  return permutation;
}

class ScanOutputs final : public BodyOutputs {
 public:
  ScanOutputs(const ScanSpec& spec, ScanFrame& frame, KernelContext& context)
      : spec_(spec), frame_(frame), context_(context) {}

  // The iterations that follow are those of this entry of the batch, which has `length` of them.
  void begin_entry(int64_t entry, int64_t length) {
    entry_ = entry;
    length_ = length;
  }
  void begin_iteration(int64_t iteration) { iteration_ = iteration; }

  Result<void*> place(size_t index, DataType type, const Shape& shape) override {
    if (index < spec_.states) {
      if (iteration_ + 1 != length_ || !wants_state(index)) return frame_.states[index].place(type, shape);
      TENON_TRY_ASSIGN(void* output, open_state(index, type, shape));
      // Nothing, where there are no bytes; a kernel would take that for an output that is absent.
      if (output == nullptr) return frame_.states[index].place(type, shape);
      frame_.states[index].place_at(output, type, shape);
      return output;
    }
    const size_t scan = index - spec_.states;
    Collected& collected = frame_.collected[scan];
    if (!collected.open) TENON_TRY(open(scan, type, shape));
    TENON_INVALID_IF(type != collected.type || shape != collected.slice,
                     "Scan output {} is {}{} in iteration {}, but {}{} in the first one; all have to be the same.",
                     index, data_type_name(type), shape.to_string(), iteration_, data_type_name(collected.type),
                     collected.slice.to_string());
    const int64_t at = spec_.scan_outputs[scan].reverse ? length_ - 1 - iteration_ : iteration_;
    return static_cast<void*>(collected.data + static_cast<size_t>(entry_ * spec_.length + at) * collected.slice_bytes);
  }

  // A state that is already in memory of its own needs no copy. Slices of inputs stay for the whole run.
  Status hand_over(HandedOver&& output, const RunInfo& info) override {
    BodyValue& value = output.value;
    if (output.index >= spec_.states || (value.memory == nullptr && output.input < 0))
      return BodyOutputs::hand_over(std::move(output), info);
    if (value.memory == nullptr && static_cast<size_t>(output.input) < spec_.states) {
      const BodyValue& source = frame_.states[output.input].current();
      value.memory = source.memory;
      value.capacity_bytes = source.capacity_bytes;
    }
    frame_.states[output.index].set_next(std::move(value));
    return {};
  }

  bool wants_state(size_t index) const { return index < spec_.outputs.size() && spec_.outputs[index].present(); }
  // The node's output for a state after the last iteration: all of it, or this entry of the batch.
  Result<void*> open_state(size_t index, DataType type, const Shape& shape) {
    std::byte*& memory = frame_.state_outputs[index];
    if (spec_.batch < 0) {
      TENON_TRY_ASSIGN(void* output, open_output(context_, spec_.outputs, index, type, shape));
      memory = static_cast<std::byte*>(output);
      return output;
    }
    const TensorSpec& initial = spec_.inputs[spec_.first_state + index];
    TENON_INVALID_IF(shape != without_axis(initial.shape, 0) || type != initial.type,
                     "State {} is {}{} after entry {} of the batch, but began as {}{}.", index, data_type_name(type),
                     shape.to_string(), entry_, data_type_name(initial.type),
                     without_axis(initial.shape, 0).to_string());
    if (memory == nullptr) {
      TENON_TRY_ASSIGN(void* output, open_output(context_, spec_.outputs, index, initial.type, initial.shape));
      memory = static_cast<std::byte*>(output);
    }
    return static_cast<void*>(memory + entry_ * (initial.size_bytes() / spec_.batch));
  }
  // Of the entry of the batch, after its last iteration.
  Status write_state(size_t index) {
    if (!wants_state(index)) return {};
    BodyValue state = frame_.states[index].take();
    const char* name = spec_.output_names[index];
    if (spec_.batch < 0) {
      // The last iteration has opened the output, and may have left it for another memory all the same.
      std::byte* opened = frame_.state_outputs[index];
      return opened != nullptr ? copy_value(opened, state, CopyReason::kCarriedState, name, info_of(context_))
                               : tenon::write_state(context_, spec_.outputs, index, std::move(state), name);
    }
    TENON_TRY_ASSIGN(void* target, open_state(index, state.type, state.shape));
    return copy_value(target, state, CopyReason::kCarriedState, name, info_of(context_));
  }

  // Makes room for scan output `scan`, whose slices have this shape.
  Status open(size_t scan, DataType type, const Shape& slice) {
    Collected& collected = frame_.collected[scan];
    const size_t index = spec_.states + scan;
    const int rank = slice.rank() + 1;
    TENON_UNSUPPORTED_IF(rank + (spec_.batch >= 0 ? 1 : 0) > Shape::kMaxRank,
                         "Scan output {} would have more than {} dimensions.", index, Shape::kMaxRank);
    const int64_t wanted = spec_.scan_outputs[scan].axis;
    TENON_INVALID_IF(wanted < -rank || wanted >= rank, "The axis {} of scan output {} is out of range for rank {}.",
                     wanted, index, rank);
    const int axis = static_cast<int>(wanted < 0 ? wanted + rank : wanted);
    TENON_TRY(check_slices(type, slice, axis, spec_.output_names[index]));
    Shape whole = with_axis(slice, axis, spec_.length);
    if (spec_.batch >= 0) whole = with_axis(whole, 0, spec_.batch);
    TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(type, whole));
    TENON_TRY_ASSIGN(collected.slice_bytes, tensor_size_bytes(type, slice));
    TENON_TRY_ASSIGN(void* memory, open_output(context_, spec_.outputs, index, type, whole));
    collected.data = static_cast<std::byte*>(memory);
    if (axis != 0) {
      TENON_TRY_ASSIGN(collected.before_moving, allocate_zeroed(bytes));
      collected.output = std::exchange(collected.data, collected.before_moving.get());
    } else if (spec_.batch >= 0 && bytes > 0) {
      std::memset(collected.data, 0, bytes);  // what is beyond an entry's length
    }
    collected.type = type;
    collected.slice = slice;
    collected.open = true;
    return {};
  }

 private:
  const ScanSpec& spec_;
  ScanFrame& frame_;
  KernelContext& context_;
  int64_t entry_ = 0, length_ = 0, iteration_ = 0;
};

class ScanKernel final : public Kernel {
 public:
  ScanKernel(const Node& node, ScanSpec spec) : node_(node), spec_(std::move(spec)) {}

  Status run(KernelContext& context) const override {
    const auto frame = idle_.take();
    Status status = scan(context, *frame);
    // Borrowed values are gone after the run.
    for (CarriedValue& state : frame->states) state.start({});
    frame->values.clear();
    frame->moved.clear();
    return status;
  }
  std::string_view name() const override { return "scan"; }

 private:
  Status scan(KernelContext& context, ScanFrame& frame) const {
    frame.states.resize(spec_.states);
    frame.collected.assign(spec_.scan_outputs.size(), Collected{});
    frame.state_outputs.assign(spec_.states, nullptr);
    frame.moved.assign(spec_.scans.size(), Tensor());
    for (size_t i = 0; i < spec_.scans.size(); ++i) TENON_TRY(move_input(context, frame, i));
    ScanOutputs outputs(spec_, frame, context);
    for (int64_t entry = 0; entry < std::max<int64_t>(spec_.batch, 1); ++entry) {
      if (spec_.batch == 0) break;
      TENON_TRY_ASSIGN(const int64_t length, length_of(context, entry));
      start_states(context, frame, entry);
      outputs.begin_entry(entry, length);
      for (int64_t i = 0; i < length; ++i) TENON_TRY(iterate(context, frame, outputs, entry, i, length));
      for (size_t i = 0; i < spec_.states; ++i) TENON_TRY(outputs.write_state(i));
    }
    if (spec_.batch == 0) TENON_TRY(write_empty_states(context));
    const Graph& body = spec_.body.body->graph();
    size_t made = spec_.states;  // of the body's outputs that are made
    for (size_t i = 0; i < frame.collected.size(); ++i) {
      const TensorSpec& spec = spec_.outputs[spec_.states + i];
      if (!spec.present()) continue;
      if (!frame.collected[i].open) {
        TENON_TRY(outputs.open(i, spec.type, part_shape_without_iterations(body, made)));
      }
      ++made;
      TENON_TRY(move_output(context, frame.collected[i], i));
    }
    return {};
  }

  Status move_input(KernelContext& context, ScanFrame& frame, size_t scan) const {
    const ScanInput& input = spec_.scans[scan];
    if (input.axis == 0) return {};
    const TensorSpec& spec = spec_.inputs[input.index];
    const void* data = context.inputs[input.index];
    TENON_TRY_ASSIGN(Tensor moved, Tensor::allocate(spec.type, with_axis(input.slice, 0, spec_.length)));
    if (moved.size_bytes() > 0 && spec_.helper != nullptr) {
      TENON_TRY_ASSIGN(const Tensor whole,
                       Tensor::view(spec.type, spec.shape, const_cast<void*>(data), spec.size_bytes()));
      TENON_TRY(spec_.helper->transpose(permutation_of(input.axis, spec.shape.rank(), false), whole, moved, input.name,
                                        info_of(context)));
    } else if (moved.size_bytes() > 0) {
      TENON_TRY(move_axis(spec.shape, input.axis, data_type_size(spec.type), data, moved.data(), false, input.name,
                          info_of(context)));
    }
    frame.moved[scan] = std::move(moved);
    return {};
  }

  Status move_output(const KernelContext& context, const Collected& collected, size_t scan) const {
    if (collected.before_moving == nullptr) return {};
    const int rank = collected.slice.rank() + 1;
    const int64_t wanted = spec_.scan_outputs[scan].axis;
    const int axis = static_cast<int>(wanted < 0 ? wanted + rank : wanted);
    const Shape whole = with_axis(collected.slice, axis, spec_.length);
    TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(collected.type, whole));
    if (bytes == 0) return {};
    const char* name = spec_.output_names[spec_.states + scan];
    if (spec_.helper == nullptr) {
      return move_axis(whole, axis, data_type_size(collected.type), collected.data, collected.output, true, name,
                       info_of(context));
    }
    TENON_TRY_ASSIGN(const Tensor from,
                     Tensor::view(collected.type, with_axis(collected.slice, 0, spec_.length), collected.data, bytes));
    TENON_TRY_ASSIGN(Tensor to, Tensor::view(collected.type, whole, collected.output, bytes));
    return spec_.helper->transpose(permutation_of(axis, rank, true), from, to, name, info_of(context));
  }

  Result<int64_t> length_of(const KernelContext& context, int64_t entry) const {
    const int64_t* lengths = spec_.batch >= 0 ? context.input<int64_t>(0) : nullptr;
    if (lengths == nullptr) return spec_.length;
    TENON_INVALID_IF(lengths[entry] < 0 || lengths[entry] > spec_.length,
                     "Entry {} of the batch has length {}, which is not between 0 and {}.", entry, lengths[entry],
                     spec_.length);
    return lengths[entry];
  }

  BodyValue entry_of(const KernelContext& context, size_t index, int64_t entry) const {
    BodyValue value = input_value(context, spec_.inputs, index);
    if (spec_.batch < 0) return value;
    value.shape = without_axis(value.shape, 0);
    const size_t bytes = spec_.inputs[index].size_bytes() / spec_.batch;
    value.data = static_cast<const std::byte*>(value.data) + entry * bytes;
    return value;
  }

  void start_states(const KernelContext& context, ScanFrame& frame, int64_t entry) const {
    for (size_t i = 0; i < spec_.states; ++i) {
      frame.states[i].start(entry_of(context, spec_.first_state + i, entry));
    }
  }

  Status iterate(KernelContext& context, ScanFrame& frame, ScanOutputs& outputs, int64_t entry, int64_t iteration,
                 int64_t length) const {
    const RunInfo& info = info_of(context);
    TENON_TRY(check_cancelled(info, node_, iteration));
    outputs.begin_iteration(iteration);
    frame.values.clear();
    for (const CarriedValue& state : frame.states) frame.values.push_back(state.current());
    for (size_t i = 0; i < spec_.scans.size(); ++i) {
      const ScanInput& input = spec_.scans[i];
      const size_t at = entry * spec_.length + (input.reverse ? length - 1 - iteration : iteration);
      const void* whole = input.axis == 0 ? context.inputs[input.index] : frame.moved[i].data();
      frame.values.push_back({.data = static_cast<const std::byte*>(whole) + at * input.slice_bytes,
                              .type = spec_.inputs[input.index].type,
                              .shape = input.slice});
    }
    append_captured(context, spec_.inputs, spec_.body, frame.values);
    TENON_TRY_CONTEXT(spec_.body.body->run(frame.values, outputs, info), "in iteration {}", iteration);
    frame.values.clear();  // so that memory has one owner
    for (CarriedValue& state : frame.states) state.advance();
    return {};
  }

  // A batch without entries.
  Status write_empty_states(KernelContext& context) const {
    for (size_t i = 0; i < spec_.states && i < spec_.outputs.size(); ++i) {
      if (!spec_.outputs[i].present()) continue;
      TENON_TRY(tenon::write_state(context, spec_.outputs, i, input_value(context, spec_.inputs, spec_.first_state + i),
                                   spec_.output_names[i]));
    }
    return {};
  }

  const Node node_;
  const ScanSpec spec_;
  IdlePool<ScanFrame> idle_;
};

// Axes, lengths and directions of the scan inputs.
Status read_scans(const BodyHost& host, const KernelNode& node, const ScanDesc& desc, ScanSpec& spec) {
  const std::string label = node.node->label(*node.graph);
  const bool batched = spec.batch >= 0;
  for (size_t i = 0; i < desc.inputs.size(); ++i) {
    ScanInput input;
    input.index = spec.first_state + spec.states + i;
    Shape shape = node.inputs[input.index].shape;
    TENON_INVALID_IF(shape.rank() < (batched ? 2 : 1), "Scan input {} of {} has shape {}, which has nothing to scan.",
                     i, label, shape.to_string());
    if (batched) {
      TENON_INVALID_IF(shape[0] != spec.batch, "Scan input {} of {} has {} entries in its batch, not {}.", i, label,
                       shape[0], spec.batch);
      shape = without_axis(shape, 0);
    }
    Result<int> axis = normalized_axis(desc.inputs[i].axis, shape.rank());
    if (!axis.ok()) return std::move(axis).status().with_context(format("for scan input {} of {}", i, label));
    input.axis = *axis;
    input.reverse = desc.inputs[i].reverse;
    if (i == 0) spec.length = shape[input.axis];
    TENON_INVALID_IF(shape[input.axis] != spec.length, "Scan input {} of {} has {} slices, but the first one has {}.",
                     i, label, shape[input.axis], spec.length);
    input.slice = without_axis(shape, input.axis);
    if (const ValueId id = node.node->inputs[input.index]; id != kNoValue)
      input.name = host.keep(node.graph->value(id).name);
    TENON_TRY(check_slices(node.inputs[input.index].type, input.slice, input.axis, input.name));
    TENON_TRY_ASSIGN(input.slice_bytes, tensor_size_bytes(node.inputs[input.index].type, input.slice));
    spec.scans.push_back(input);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Kernel>> make_scan_kernel(const BodyHost& host, const KernelNode& node,
                                                 const SubgraphHelper* helper) {
  const std::string label = node.node->label(*node.graph);
  const size_t own = own_inputs(*node.node);
  Result<ScanDesc> desc = read_scan(*node.node, own);
  if (!desc.ok()) return std::move(desc).status().with_context(format("in {}", label));
  ScanSpec spec;
  spec.first_state = desc->first_state;
  spec.states = desc->states;
  spec.helper = helper;
  for (size_t i = spec.first_state; i < own; ++i) {
    TENON_INVALID_IF(!node.inputs[i].present(), "Input {} of {} is absent.", i, label);
    TENON_INVALID_IF(desc->batched && node.inputs[i].shape.rank() == 0, "Input {} of {} has no batch.", i, label);
    if (!desc->batched) continue;
    if (spec.batch < 0) spec.batch = node.inputs[i].shape[0];
    TENON_INVALID_IF(node.inputs[i].shape[0] != spec.batch, "Input {} of {} has {} entries in its batch, not {}.", i,
                     label, node.inputs[i].shape[0], spec.batch);
  }
  if (desc->batched && node.inputs[0].present()) {
    TENON_INVALID_IF(node.inputs[0].type != DataType::kInt64 || node.inputs[0].shape.element_count() != spec.batch,
                     "The lengths of {} are {}{}, not {} of int64.", label, data_type_name(node.inputs[0].type),
                     node.inputs[0].shape.to_string(), spec.batch);
  }
  TENON_TRY(read_scans(host, node, *desc, spec));
  for (size_t i = 0; i < std::max(spec.states, node.outputs.size()); ++i)
    spec.output_names.push_back(host.name_of_output(node, i));
  spec.scan_outputs = std::move(desc->outputs);
  std::vector<bool> wanted(std::max(spec.states, node.outputs.size()), true);
  for (size_t i = spec.states; i < node.outputs.size(); ++i) wanted[i] = node.outputs[i].present();
  TENON_TRY_ASSIGN(spec.body, body_of(host, node, "body", wanted));
  const Graph& graph = spec.body.body->graph();
  const size_t made = std::count(wanted.begin(), wanted.end(), true);
  TENON_INVALID_IF(graph.inputs.size() != own - spec.first_state + spec.body.captured || graph.outputs.size() != made,
                   "The body of {} has {} inputs and {} outputs for {} inputs and {} outputs of the node.", label,
                   graph.inputs.size() - spec.body.captured, graph.outputs.size(), own - spec.first_state,
                   node.outputs.size());
  spec.inputs.assign(node.inputs.begin(), node.inputs.end());
  spec.outputs.assign(node.outputs.begin(), node.outputs.end());
  return std::unique_ptr<Kernel>(std::make_unique<ScanKernel>(*node.node, std::move(spec)));
}

}  // namespace tenon
