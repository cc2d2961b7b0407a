// Code that the kernels of If, Loop and Scan share.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ep/api/kernel.h"
#include "runtime/control_flow.h"

namespace tenon {

// A body of a node with what it captures.
struct BodyOf {
  std::unique_ptr<Body> body;
  size_t first_captured = 0;  // of the node's inputs
  size_t captured = 0;
};
// The body in attribute `name`. Outputs that `wanted` leaves out are not made.
Result<BodyOf> body_of(const BodyHost& host, const KernelNode& node, std::string_view name,
                       const std::vector<bool>& wanted);

// The node's input `index` as a body gets it.
BodyValue input_value(const KernelContext& context, std::span<const TensorSpec> specs, size_t index);
// Appends what the body captures to `values`.
void append_captured(const KernelContext& context, std::span<const TensorSpec> specs, const BodyOf& body,
                     std::vector<BodyValue>& values);

// Memory for output `index` of the node: the planned one, which must have this type and shape, or what the context
// allocates.
Result<void*> open_output(KernelContext& context, std::span<const TensorSpec> specs, size_t index, DataType type,
                          const Shape& shape);
// The state of a Loop or Scan after its last iteration becomes output `index` of the node: memory of its own as it is,
// where the output has no planned memory, anything else by a copy.
Status write_state(KernelContext& context, std::span<const TensorSpec> specs, size_t index, BodyValue state,
                   const char* what);

Status check_cancelled(const RunInfo& info, const Node& node, int64_t iteration);
// The info of the context's run; an empty one for a kernel without a run around it (a test).
const RunInfo& info_of(const KernelContext& context);

// A value that each iteration reads and makes anew, in two pieces of memory by turns.
class CarriedValue {
 public:
  void start(BodyValue initial) {
    current_ = std::move(initial);
    next_ = {};
  }
  const BodyValue& current() const { return current_; }
  // Memory for the next iteration's value.
  Result<void*> place(DataType type, const Shape& shape);
  // The next iteration's value is written to `memory`, which is not ours.
  void place_at(void* memory, DataType type, const Shape& shape);
  // The value after the last iteration; none is left.
  BodyValue take() { return std::move(current_); }
  // The next iteration's value is this one.
  void set_next(BodyValue value) { next_ = std::move(value); }
  // The iteration is over.
  void advance();

 private:
  BodyValue current_, next_, spare_;
};

// Collects one scan output of the iterations in their order: in the node's output itself where its size was planned,
// else in memory that becomes the output. That memory has room for as many iterations as are announced, within
// reason; beyond, it grows by doubling, so that every byte is copied a bounded number of times.
class Stack {
 public:
  // Before the first iteration, one of these. Memory of our own, for `expected` iterations (0: nobody knows). `what` is
  // the output's name, for the ledger.
  void start(int64_t expected, const char* what, const RunInfo& info);
  // The node's output, which was planned.
  void start_in(void* output, size_t size_bytes, const char* what, const RunInfo& info);
  // Each iteration's value is kept in memory of its own, for a helper.
  void start_parts(const char* what, const RunInfo& info);
  // Memory for this iteration's value. Errors: another type or shape than the first iteration's.
  Result<void*> place(DataType type, const Shape& shape);
  void advance();
  int64_t count() const { return count_; }
  DataType type() const { return type_; }
  const Shape& part_shape() const { return shape_; }
  const std::byte* data() const { return data_; }
  std::span<const Tensor> parts() const { return parts_; }
  // The values in order, of this shape altogether, become output `index` of the node.
  Status write(KernelContext& context, std::span<const TensorSpec> specs, size_t index, const Shape& whole);

 private:
  void start(const char* what, const RunInfo& info);
  Status grow(size_t bytes);

  DataType type_ = DataType::kUndefined;
  Shape shape_;
  int64_t count_ = 0;
  size_t part_bytes_ = 0;
  std::byte* data_ = nullptr;          // `memory_`, or the node's output
  std::shared_ptr<std::byte> memory_;  // kept for the next run
  size_t memory_bytes_ = 0;
  size_t capacity_ = 0;  // of `data_`
  bool in_output_ = false;
  int64_t expected_ = 0;
  const char* what_ = "";
  const RunInfo* info_ = nullptr;
  bool keep_parts_ = false;
  std::vector<Tensor> parts_;
};

// Errors: slices along `axis` of a tensor that packs several elements into a byte, if they do not fill bytes of their
// own.
Status check_slices(DataType type, const Shape& slice, int axis, const char* what);

// The shape of a scan output that got no iteration: what the body says of it, 0 where it says nothing.
Shape part_shape_without_iterations(const Graph& body, size_t output);

}  // namespace tenon
