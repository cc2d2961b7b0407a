// Loop: a body runs until the trip count is reached or the condition is false; scan outputs are stacked.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "ops/shape_inference.h"
#include "plan/control_flow.h"
#include "runtime/control_flow_parts.h"
#include "runtime/idle_pool.h"

namespace tenon {

namespace {

constexpr size_t kFirstCarried = 2;  // of the node's and the body's inputs: after trip count and condition

// The state of one run of a Loop; kept for the next one.
struct LoopFrame {
  alignas(64) int64_t iteration = 0;
  alignas(64) std::array<uint8_t, 64> condition{};
  alignas(64) std::array<uint8_t, 64> next_condition{};
  std::vector<CarriedValue> carried;
  std::vector<void*> opened;  // by carried value: the node's output, once the last iteration writes there
  std::vector<Stack> stacks;
  std::vector<BodyValue> values;
};

class LoopOutputs final : public BodyOutputs {
 public:
  LoopOutputs(LoopFrame& frame, KernelContext& context, std::span<const TensorSpec> specs)
      : frame_(frame), context_(context), specs_(specs) {}

  void begin_iteration(bool last) { last_ = last; }

  Result<void*> place(size_t index, DataType type, const Shape& shape) override {
    if (index == 0) {
      TENON_INVALID_IF(type != DataType::kBool || shape.element_count() != 1,
                       "The body's condition is {}{}, not one bool.", data_type_name(type), shape.to_string());
      return static_cast<void*>(frame_.next_condition.data());
    }
    const size_t carried = index - 1;
    if (carried < frame_.carried.size()) {
      if (!last_ || carried >= specs_.size() || !specs_[carried].present())
        return frame_.carried[carried].place(type, shape);
      TENON_TRY_ASSIGN(void* output, open_output(context_, specs_, carried, type, shape));
      // Nothing, where there are no bytes; a kernel would take that for an output that is absent.
      if (output == nullptr) return frame_.carried[carried].place(type, shape);
      frame_.carried[carried].place_at(output, type, shape);
      frame_.opened[carried] = output;
      return output;
    }
    return frame_.stacks[carried - frame_.carried.size()].place(type, shape);
  }

  Status hand_over(HandedOver&& output, const RunInfo& info) override {
    BodyValue& value = output.value;
    if (output.index == 0) {
      // No transfer between tensors: the loop reads one bool.
      TENON_TRY(place(0, value.type, value.shape).status());
      frame_.next_condition[0] = *static_cast<const uint8_t*>(value.data);
      return {};
    }
    // A carried value that is already in memory of its own needs no copy.
    if (output.index > frame_.carried.size()) return BodyOutputs::hand_over(std::move(output), info);
    const size_t from = std::max(output.input, 0);
    if (value.memory == nullptr) {
      if (from < kFirstCarried) return BodyOutputs::hand_over(std::move(output), info);
      // Captured values are borrowed for the whole run.
      if (from - kFirstCarried < frame_.carried.size()) {
        const BodyValue& source = frame_.carried[from - kFirstCarried].current();
        value.memory = source.memory;
        value.capacity_bytes = source.capacity_bytes;
      }
    }
    frame_.carried[output.index - 1].set_next(std::move(value));
    return {};
  }

 private:
  LoopFrame& frame_;
  KernelContext& context_;
  const std::span<const TensorSpec> specs_;
  bool last_ = false;
};

class LoopKernel final : public Kernel {
 public:
  LoopKernel(const KernelNode& node, BodyOf body, std::vector<const char*> names, Shape iteration_shape,
             Shape condition_shape, const SubgraphHelper* helper)
      : inputs_(node.inputs.begin(), node.inputs.end()),
        outputs_(node.outputs.begin(), node.outputs.end()),
        node_(*node.node),
        body_(std::move(body)),
        names_(std::move(names)),
        counts_(next_condition(body_.body->graph()) == true),
        carried_(own_inputs(*node.node) - kFirstCarried),
        iteration_shape_(iteration_shape),
        condition_shape_(condition_shape),
        helper_(helper) {}

  Status run(KernelContext& context) const override {
    const auto frame = idle_.take();
    Status status = iterate(context, *frame);
    if (status.ok()) status = write_outputs(context, *frame);
    // Borrowed values are gone after the run.
    for (CarriedValue& value : frame->carried) value.start({});
    frame->values.clear();
    return status;
  }
  std::string_view name() const override { return "loop"; }

 private:
  Status iterate(KernelContext& context, LoopFrame& frame) const {
    const auto* trip_count = context.input<int64_t>(0);
    const auto* condition = context.input<uint8_t>(1);
    frame.condition[0] = condition == nullptr || *condition != 0 ? 1 : 0;
    frame.carried.resize(carried_);
    for (size_t i = 0; i < carried_; ++i) frame.carried[i].start(input_value(context, inputs_, kFirstCarried + i));
    frame.opened.assign(carried_, nullptr);
    const RunInfo& info = info_of(context);
    frame.stacks.resize(outputs_.size() - std::min(outputs_.size(), carried_));
    for (size_t s = 0; s < frame.stacks.size(); ++s) {
      start_stack(context, frame.stacks[s], carried_ + s,
                  trip_count != nullptr ? std::max<int64_t>(*trip_count, 0) : 0);
    }
    LoopOutputs outputs(frame, context, outputs_);
    for (int64_t i = 0; (trip_count == nullptr || i < *trip_count) && frame.condition[0] != 0; ++i) {
      TENON_TRY(check_cancelled(info, node_, i));
      frame.iteration = i;
      outputs.begin_iteration(counts_ && trip_count != nullptr && i + 1 == *trip_count);
      frame.values.clear();
      frame.values.push_back({.data = &frame.iteration, .type = DataType::kInt64, .shape = iteration_shape_});
      frame.values.push_back({.data = frame.condition.data(), .type = DataType::kBool, .shape = condition_shape_});
      for (const CarriedValue& value : frame.carried) frame.values.push_back(value.current());
      append_captured(context, inputs_, body_, frame.values);
      TENON_TRY_CONTEXT(body_.body->run(frame.values, outputs, info), "in iteration {}", i);
      frame.values.clear();  // so that memory has one owner
      frame.condition[0] = frame.next_condition[0];
      for (CarriedValue& value : frame.carried) value.advance();
      for (size_t s = 0; s < frame.stacks.size(); ++s) {
        if (outputs_[carried_ + s].present()) frame.stacks[s].advance();
      }
    }
    return {};
  }

  void start_stack(const KernelContext& context, Stack& stack, size_t index, int64_t expected) const {
    const RunInfo& info = info_of(context);
    const TensorSpec& spec = outputs_[index];
    if (helper_ != nullptr) {
      stack.start_parts(names_[index], info);
    } else if (spec.present() && !spec.dynamic && context.outputs[index] != nullptr) {
      stack.start_in(context.outputs[index], spec.size_bytes(), names_[index], info);
    } else {
      stack.start(expected, names_[index], info);
    }
  }

  Status write_outputs(KernelContext& context, LoopFrame& frame) const {
    for (size_t i = 0; i < carried_ && i < outputs_.size(); ++i) {
      if (!outputs_[i].present() || frame.opened[i] != nullptr) continue;
      TENON_TRY(write_state(context, outputs_, i, frame.carried[i].take(), names_[i]));
    }
    size_t made = carried_ + 1;  // of the body's outputs that are made
    for (size_t s = 0; s < frame.stacks.size(); ++s) {
      const size_t index = carried_ + s;
      if (!outputs_[index].present()) continue;
      TENON_TRY(write_stack(context, index, frame.stacks[s], made++));
    }
    return {};
  }

  Status write_stack(KernelContext& context, size_t index, Stack& stack, size_t body_output) const {
    const bool empty = stack.count() == 0;
    const Shape part = empty ? part_shape_without_iterations(body_.body->graph(), body_output) : stack.part_shape();
    TENON_UNSUPPORTED_IF(part.rank() == Shape::kMaxRank, "Scan output {} would have more than {} dimensions.", index,
                         Shape::kMaxRank);
    Shape shape{stack.count()};
    for (int64_t dim : part.dims()) shape.push_back(dim);
    if (helper_ == nullptr) return stack.write(context, outputs_, index, shape);
    const DataType type = empty ? outputs_[index].type : stack.type();
    TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(type, shape));
    TENON_TRY_ASSIGN(void* target, open_output(context, outputs_, index, type, shape));
    if (bytes == 0) return {};
    TENON_TRY_ASSIGN(Tensor output, Tensor::view(type, shape, target, bytes));
    return helper_->concat(stack.parts(), output, names_[index], info_of(context));
  }

  const std::vector<TensorSpec> inputs_, outputs_;
  const Node node_;
  const BodyOf body_;
  const std::vector<const char*> names_;  // by output
  const bool counts_;                     // only the trip count ends the loop, once it has begun
  const size_t carried_;
  const Shape iteration_shape_, condition_shape_;
  const SubgraphHelper* const helper_;
  IdlePool<LoopFrame> idle_;
};

// Some models declare the iteration number and the condition as vectors of one.
Shape counter_shape(const Graph& body, size_t input) {
  const Value& value = body.value(body.inputs[input]);
  return value.has_rank && value.dims.size() == 1 ? Shape{1} : Shape();
}

}  // namespace

Result<std::unique_ptr<Kernel>> make_loop_kernel(const BodyHost& host, const KernelNode& node,
                                                 const SubgraphHelper* helper) {
  const std::string label = node.node->label(*node.graph);
  const size_t own = own_inputs(*node.node);
  TENON_INVALID_IF(own < kFirstCarried, "{} has {} inputs; a Loop has at least {}.", label, own, kFirstCarried);
  const auto is_one = [&](size_t index, DataType type) {
    const TensorSpec& spec = node.inputs[index];
    return !spec.present() || (spec.type == type && spec.shape.element_count() == 1);
  };
  TENON_INVALID_IF(!is_one(0, DataType::kInt64), "The trip count of {} is not one int64.", label);
  TENON_INVALID_IF(!is_one(1, DataType::kBool), "The condition of {} is not one bool.", label);
  const size_t carried = own - kFirstCarried;
  std::vector<bool> wanted(1 + std::max(carried, node.outputs.size()), true);
  for (size_t i = carried; i < node.outputs.size(); ++i) wanted[1 + i] = node.outputs[i].present();
  TENON_TRY_ASSIGN(BodyOf body, body_of(host, node, "body", wanted));
  const Graph& graph = body.body->graph();
  const size_t made = std::count(wanted.begin(), wanted.end(), true);
  TENON_INVALID_IF(graph.inputs.size() != kFirstCarried + carried + body.captured || graph.outputs.size() != made,
                   "The body of {} has {} inputs and {} outputs for {} carried values and {} outputs of the node.",
                   label, graph.inputs.size() - body.captured, graph.outputs.size(), carried, node.outputs.size());
  const Shape iteration = counter_shape(graph, 0), condition = counter_shape(graph, 1);
  std::vector<const char*> names;
  for (size_t i = 0; i < std::max(carried, node.outputs.size()); ++i) names.push_back(host.name_of_output(node, i));
  return std::unique_ptr<Kernel>(
      std::make_unique<LoopKernel>(node, std::move(body), std::move(names), iteration, condition, helper));
}

}  // namespace tenon
