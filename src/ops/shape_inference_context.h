// Helpers of shape inference for all families: reading a node's inputs, setting its outputs, checked dimension
// arithmetic.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace tenon::infer {

using Dims = std::vector<Dim>;

inline Dim number(int64_t value) { return Dim{value, {}}; }
// Equal at run time for certain: the same number or the same (not empty) symbol.
bool same(const Dim& a, const Dim& b);
bool same(const Dims& a, const Dims& b);
// Both are numbers, and not the same one. A symbol may turn out to be anything.
inline bool certainly_differ(const Dim& a, const Dim& b) { return a.known() && b.known() && a.value != b.value; }
// The ranks are the same, and no two dimensions certainly differ.
bool may_be_equal(const Dims& a, const Dims& b);
// numpy's rule, as far as is known: what is not known fits.
bool may_broadcast_to(const Dims& from, const Dims& to);
// Errors: a residual that cannot have the shape of Y; it never broadcasts. The message has both shapes.
Status check_residual(const Dims& residual, const Dims& y);
// "[N,3,?]".
std::string text(const Dims& dims);
// Errors: a negative size.
Result<Dims> known_dims(std::span<const int64_t> sizes);
// Product of dims, unknown if one is unknown (and none is 0); an error on overflow.
Result<Dim> product(std::span<const Dim> dims);

// One node and its values. Threads: one.
class Context {
 public:
  Context(Graph& graph, Node& node) : graph_(graph), node_(node) {}

  Graph& graph() { return graph_; }
  Node& node() { return node_; }
  const Node& node() const { return node_; }
  int version() const { return node_.since_version; }

  bool has(size_t input) const { return node_.input(input) != kNoValue; }
  const Value& in(size_t input) const { return graph_.value(node_.inputs[input]); }
  // True if the input is present and its rank is known.
  bool ranked(size_t input) const { return has(input) && in(input).has_rank; }
  int rank(size_t input) const { return static_cast<int>(in(input).dims.size()); }
  const Dims& dims(size_t input) const { return in(input).dims; }
  DataType type(size_t input) const { return has(input) ? in(input).type : DataType::kUndefined; }
  // The elements of a constant int32 or int64 input; nullopt when it is absent, not constant or not an integer tensor.
  std::optional<std::vector<int64_t>> values(size_t input) const;
  std::optional<std::vector<float>> floats(size_t input) const;
  // The number that a constant of one element holds, of any integer or float type; integers beyond 2^53 are rounded.
  std::optional<double> scalar(size_t input) const;

  bool has_output(size_t output) const { return output < node_.outputs.size() && node_.outputs[output] != kNoValue; }
  void set_type(size_t output, DataType type);
  // A sequence, optional or map; nothing for null.
  void set_object(size_t output, ObjectTypeRef type);
  // Errors: a rank above Shape::kMaxRank, a negative dimension, more elements than int64 holds.
  Status set_dims(size_t output, Dims dims);
  // Type and dims of input `input`.
  Status copy(size_t input, size_t output = 0);

  // The number of elements of a 1-D input, which may be known while its values are not; nullopt otherwise.
  std::optional<int64_t> length(size_t input) const;
  // Sets output 0. Errors: a rank above Shape::kMaxRank.
  Status set_unknown_dims(int64_t rank);
  // Errors when the input is missing, or its known rank is another one.
  Status require_rank(size_t input, int rank, const char* what) const;

 private:
  Graph& graph_;
  Node& node_;
};

// numpy's rule; an error names both shapes.
Result<Dims> broadcast(const Dims& a, const Dims& b);

using InferFunction = Status (*)(Context&);
struct Row {
  std::string_view op_type;
  InferFunction infer;
};

// The rows of each family: for ai.onnx, com.microsoft, ai.onnx.ml and domain "tenon".
#define TENON_INFER_FAMILIES(X) \
  X(elementwise_rows)           \
  X(unary_rows)                 \
  X(norm_rows)                  \
  X(attention_rows)             \
  X(softmax_rows)               \
  X(reduce_rows)                \
  X(conv_rows)                  \
  X(pool_rows)                  \
  X(resize_rows)                \
  X(sample_rows)                \
  X(depth_to_space_rows)        \
  X(slice_rows)                 \
  X(pad_rows)                   \
  X(split_rows)                 \
  X(concat_rows)                \
  X(transpose_rows)             \
  X(reshape_rows)               \
  X(gather_rows)                \
  X(order_rows)                 \
  X(generate_rows)              \
  X(matmul_rows)                \
  X(einsum_rows)                \
  X(random_rows)                \
  X(signal_rows)                \
  X(image_rows)                 \
  X(deform_conv_rows)           \
  X(loss_rows)                  \
  X(quantize_rows)              \
  X(recurrent_rows)             \
  X(recurrent_state_rows)       \
  X(rotary_rows)                \
  X(sequence_rows)              \
  X(text_rows)                  \
  X(control_rows)
#define TENON_CONTRIB_INFER_FAMILIES(X) \
  X(contrib_rows)                       \
  X(contrib_search_rows)                \
  X(rotary_rows)                        \
  X(contrib_quantized_attention_rows)   \
  X(contrib_product_rows)               \
  X(contrib_conv_rows)                  \
  X(contrib_quantize_rows)              \
  X(contrib_block_rows)                 \
  X(contrib_bytes_rows)                 \
  X(contrib_recurrent_rows)
#define TENON_ML_INFER_FAMILIES(X) X(ml_rows)
#define TENON_INTERNAL_INFER_FAMILIES(X) \
  X(internal_rows)                       \
  X(internal_matmul_rows)                \
  X(internal_norm_rows)                  \
  X(internal_softmax_rows)               \
  X(internal_attention_rows)             \
  X(internal_cached_attention_rows)      \
  X(internal_rotary_rows)                \
  X(internal_search_rows)                \
  X(region_rows)
#define TENON_DECLARE_(function) std::span<const Row> function();
TENON_INFER_FAMILIES(TENON_DECLARE_)
TENON_CONTRIB_INFER_FAMILIES(TENON_DECLARE_)
TENON_ML_INFER_FAMILIES(TENON_DECLARE_)
TENON_INTERNAL_INFER_FAMILIES(TENON_DECLARE_)
#undef TENON_DECLARE_

}  // namespace tenon::infer
