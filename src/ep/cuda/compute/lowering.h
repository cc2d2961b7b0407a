// Turns a graph whose shapes are numbers into a program: chooses layouts, joins elementwise chains, packs weights.
//
// Lifetime: lives during one lower() call. Nothing here needs a device.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ep/cuda/compute/elementwise_kernel.h"
#include "ep/cuda/compute/kernel_template.h"
#include "ep/cuda/compute/program.h"
#include "ep/cuda/compute/weight_bounds.h"
#include "graph/graph.h"
#include "ops/integer_inputs.h"
#include "ops/norm.h"
#include "ops/pool.h"
#include "ops/softmax.h"

namespace tenon::cuda {

// The most rows of a product that one kernel computes with everything around it (ops/matmul/few_rows.h).
inline constexpr int64_t kMostFewRows = 16;

struct LoweringOptions {
  // Float32 values are kept in this type (kFloat16, kBfloat16): how a graph of 16-bit floats is computed, whose passes
  // saw float32 (region.h). kUndefined: as they are.
  DataType half = DataType::kUndefined;
  // Weights of float32 products are rounded to TF32 here: the tensor cores would cut them off, which errs twice as
  // much.
  bool tf32 = false;
  size_t workspace_bytes = Program::kWorkspaceBytes;
  // Of the weights, for products of f16 parts that an earlier kernel has written (matmul/split_product_op.h). Null:
  // there are no such products, for example because cuBLASLt is not there.
  WeightBounds* bounds = nullptr;
  // The device has clusters of blocks, whose shared memory all of them reach (compute capability 9.0).
  bool clusters = false;
  // Gets the name of the first output of the node that cannot be lowered, where there is one.
  std::string* culprit = nullptr;
};

// Errors: kUnsupported names the node that cannot be lowered.
Result<Program> lower(const Graph& graph, const LoweringOptions& options);

// OK, or why no region can have this node: operator, version, types; shapes may be unknown.
Status can_lower(const Graph& graph, const Node& node);

class Lowering {
 public:
  Lowering(const Graph& graph, const LoweringOptions& options);
  Result<Program> run();

  const Graph& graph() const { return graph_; }
  Program& program() { return program_; }
  const Value& value(ValueId id) const { return graph_.value(id); }
  const ConstantRef& constant(ValueId id) const;
  const LoweringOptions& options() const { return options_; }
  // How the device keeps the value.
  DataType type_of(ValueId id) const;
  // The value in memory, in whatever layout it lies; in a certain one. Converted once for each.
  Result<TensorId> any(ValueId id);
  Result<TensorId> plain(ValueId id) { return in_layout(id, DeviceLayout::kPlain); }
  Result<TensorId> channels_last(ValueId id) { return in_layout(id, DeviceLayout::kChannelsLast); }
  Result<TensorId> in_layout(ValueId id, DeviceLayout layout);
  bool is_channels_last(ValueId id) const;
  // In memory with channels last, and perhaps in another layout too.
  bool has_channels_last(ValueId id) const {
    return tensors_[id][static_cast<size_t>(DeviceLayout::kChannelsLast)] != kNoTensor;
  }
  // Whether all who read the value take it with channels last; elementwise nodes and reshapes of pixels hand on what
  // they get.
  bool wants_channels_last(ValueId id) const;
  // Memory for an output; graph outputs go straight to their memory where the layout allows.
  Result<TensorId> make(ValueId id, DeviceLayout layout = DeviceLayout::kPlain);
  // The output is the same memory as `tensor`.
  void alias(ValueId id, TensorId tensor);
  // A value that lies within another tensor, with the strides of that tensor. Elementwise chains read it there; for
  // anybody else any() copies it out.
  struct Part {
    TensorId from = kNoTensor;
    std::vector<int64_t> strides;
    int64_t offset = 0;
  };
  void add_part(ValueId id, Part part) { parts_[id] = std::move(part); }
  // Null where the value has memory of its own.
  const Part* part(ValueId id) const;
  // A constant as numbers in float32, for parameters that kernels read as such.
  Result<TensorId> float_constant(ValueId id, std::string_view format = "f32");
  // In the type that the device keeps floats in.
  Result<TensorId> typed_constant(ValueId id);
  // A constant that is not in the graph as such: `format` and the value make the key.
  Result<TensorId> packed_constant(ValueId id, std::string format, DataType type, const Shape& shape,
                                   std::function<void(const Constant&, std::byte*)> pack);
  // The integers of a constant input.
  Result<std::vector<int64_t>> integers(const Node& node, size_t input) const;
  // The same as a function; borrows the node.
  ReadIntegers integers_of(const Node& node) const;
  std::string label(const Node& node) const { return node.label(graph_); }

  // A value of float32 as f16 parts, all times 2^shift, that products read instead of it.
  struct SplitTensor {
    TensorId tensor = kNoTensor;  // float16 [rows][terms][columns]
    int32_t terms = 0, shift = 0;
  };
  // Upper bounds of a value, whatever the inputs are: of its magnitude and of the Euclidean norm of a row.
  struct Bound {
    double largest = 0, norm = 0;
  };
  // Null where nothing is known.
  const Bound* bound(ValueId id) const;
  // Split f16 products take these shifts: the scales of three such numbers together are a number of float32.
  static constexpr bool can_shift(int32_t shift) { return shift >= -40 && shift <= 40; }
  // Null where nobody has made them.
  const SplitTensor* split_tensor(ValueId id) const;
  // For the kernel that makes the value. Without terms where nobody wants f16 parts of it, or the bound is too
  // large; then there is nothing to be written.
  Result<SplitTensor> make_split_tensor(ValueId id, Bound bound);
  // Whether everybody who reads the value reads f16 parts of it, once they are made.
  bool only_split(ValueId id);

  // Elementwise chains: a node that is read only by a chain of its shape becomes part of it.
  bool joined(const Node& node) const;
  const Node* joined_producer(ValueId id) const;
  // The node becomes the end of its chain: its reader finds the result in memory.
  void end_chain(const Node& node);

  // For operators that compute several nodes: who makes and who reads a value, and what is lowered with another node.
  const Node* producer(ValueId id) const;
  // One for each use.
  const std::vector<NodeId>& readers(ValueId id) const { return readers_[id]; }
  // Read exactly once, and no output of the graph.
  bool read_once(ValueId id) const { return uses_[id] == 1 && output_of_[id] < 0; }
  bool is_output(ValueId id) const { return output_of_[id] >= 0; }
  // The node is lowered by `lower`, or not at all because another node's makes its outputs.
  void lower_by(const Node& node, std::function<Status()> lower) { lowered_by_[&node] = std::move(lower); }
  void lower_elsewhere(const Node& node) { lower_by(node, nullptr); }
  bool is_claimed(const Node& node) const { return lowered_by_.contains(&node); }
  bool is_lowered_by_other(const Node& node) const { return joined(node) || is_claimed(node); }

  // Adds an elementwise or moving kernel; the parts of its description that need tensors are filled in by the caller.
  Status add_generated(const Node& node, std::string what, const GeneratedElementwise& kernel,
                       std::vector<TensorId> leaves, std::vector<TensorId> indices, TensorId out);
  // The same for any template.
  Status add_kernel(const Node& node, std::string what, TemplateKernel kernel, std::vector<TensorId> reads,
                    std::vector<TensorId> writes);
  // `out` gets the bytes of `from`, which has as many.
  void add_copy(const Node& node, TensorId from, TensorId out);
  // `out` is a sum of nothing.
  Status add_zeros(const Node& node, TensorId out);

 private:
  Status lower_node(const Node& node);
  void find_chains();
  Status finish_outputs();
  Result<TensorId> convert(TensorId from, DeviceLayout layout, const std::string& label);
  Result<TensorId> copy_part(ValueId id, const Part& part);

  const Graph& graph_;
  const LoweringOptions options_;
  Program program_;
  PerValue<std::array<TensorId, 2>> tensors_;  // by layout
  PerValue<int32_t> uses_;
  PerValue<NodeId> producers_;
  PerValue<int32_t> output_of_;
  PerValue<std::vector<NodeId>> readers_;  // one for each use
  std::map<ValueId, Part> parts_;
  std::map<ValueId, SplitTensor> split_tensors_;
  std::map<ValueId, Bound> bounds_;
  PerNode<bool> joined_;
  std::map<const Node*, std::function<Status()>> lowered_by_;
};

// One family each.
Status lower_conv(Lowering& to, const Node& node);
Status lower_conv_transpose(Lowering& to, const Node& node);
Status lower_matmul(Lowering& to, const Node& node);
// The bounds of the weights of all products that may read f16 parts, at once.
void find_weight_bounds(Lowering& to);
// Finds products of few rows of the same input, gates, residuals and normalisations that one kernel computes, and says
// so to the lowering: their nodes are lowered together.
Status find_row_products(Lowering& to);
// Finds products of the same rows whose results are read wherever their columns lie: they are lowered as one.
void find_shared_rows(Lowering& to);
// The terms of the split product that would read the node's first operand as f16 parts; 0: it would not.
int32_t terms_read(Lowering& to, const Node& node);
Status lower_attention(Lowering& to, const Node& node);
Status lower_layer_norm(Lowering& to, const Node& node);
// Norms of ONNX Runtime's own, which became others before unless they give what those do not.
Status lower_contrib_norm(Lowering& to, const Node& node);
Status lower_matmul_nbits(Lowering& to, const Node& node);
Status lower_rotary(Lowering& to, const Node& node);
Status lower_grouped_query(Lowering& to, const Node& node);
// can_lower() for what these refuse whatever the sizes are.
Status can_attend_grouped(const Graph& graph, const Node& node);
Status can_multiply_nbits(const Graph& graph, const Node& node);
Status can_take_top(const Graph& graph, const Node& node);
Status lower_softmax(Lowering& to, const Node& node);
Status lower_pool(Lowering& to, const Node& node);
Status lower_recurrent(Lowering& to, const Node& node);
Status lower_top_k(Lowering& to, const Node& node);
Status lower_reduction(Lowering& to, const Node& node);
Status lower_elementwise(Lowering& to, const Node& node);  // also Gather, Transpose, Expand, Slice, Pad
Status lower_reshape(Lowering& to, const Node& node);
Status lower_concat(Lowering& to, const Node& node);
Status lower_split(Lowering& to, const Node& node);
Status lower_resize(Lowering& to, const Node& node);
Status lower_tile(Lowering& to, const Node& node);
Status lower_blocks(Lowering& to, const Node& node);  // DepthToSpace, SpaceToDepth
Status lower_mirror_pad(Lowering& to, const Node& node);
Status lower_bit_cast(Lowering& to, const Node& node);
Status lower_gather_elements(Lowering& to, const Node& node);
Status lower_gather_nd(Lowering& to, const Node& node);
Status lower_scatter_elements(Lowering& to, const Node& node);
Status lower_scatter_nd(Lowering& to, const Node& node);
Status lower_one_hot(Lowering& to, const Node& node);
Status lower_trilu(Lowering& to, const Node& node);
Status lower_eye_like(Lowering& to, const Node& node);
Status lower_constant_of_shape(Lowering& to, const Node& node);
Status lower_reverse_sequence(Lowering& to, const Node& node);
Status lower_scan(Lowering& to, const Node& node);  // CumSum, CumProd
Status lower_group_norm(Lowering& to, const Node& node);
// Finds what is computed with an instance or group normalisation where its data have channels last: a sum with a number
// for each channel before it, and functions and a sum behind it. Such nodes are lowered together.
void find_group_norms(Lowering& to);
Status lower_lp_norm(Lowering& to, const Node& node);
Status lower_einsum(Lowering& to, const Node& node);
Status lower_grid_sample(Lowering& to, const Node& node);
Status lower_matmul_integer(Lowering& to, const Node& node);  // and QLinearMatMul
Status lower_conv_integer(Lowering& to, const Node& node);    // and QLinearConv
Status lower_dynamic_quantize(Lowering& to, const Node& node);
Status lower_collective(Lowering& to, const Node& node);  // AllReduce, AllGather, AllToAll

// Whether a node is an elementwise step or something that such a step can read through.
bool is_elementwise(const Graph& graph, const Node& node);

// Numbers of one type as those of another, floats and 16-bit floats and doubles among each other.
void convert_floats(const Constant& from, DataType to, std::byte* out);
std::vector<float> floats_of(const Constant& constant);
// The same into memory of the caller, for a type of floats.
void widen_floats(const Constant& constant, std::span<float> values);
void store_floats(std::span<const float> values, DataType type, std::byte* out);
// `values` as TF32, where `tf32` and the type is float32.
void round_weights(std::span<float> values, DataType type, bool tf32);

}  // namespace tenon::cuda
