// Shared by the reference kernels: one Kernel class over a function, checks, broadcasting and copies of boxes.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "ep/api/kernel.h"
#include "ep/cpu/ops/reference_types.h"

namespace tenon::cpu::ref {

// A prepared reference kernel: `run` holds copies of everything that it needs.
struct RefImpl {
  std::function<Status(KernelContext&)> run;
  size_t scratch_bytes = 0;
  // Each element of output 0 depends on no other element than the one at its own index of each input of the same shape.
  bool elementwise = false;
  // Of the kernel, for plans and traces.
  std::string_view name = "ref";
};
// A node as a maker sees it. Tensors of less than a byte an element are shown as uint8, one code in each, unless the
// row says that its maker takes packed tensors.
struct RefNode : KernelNode {
  // Outputs that were not planned although their shape follows from the inputs' shapes; see require_output.
  std::vector<std::pair<size_t, Shape>> settled;
  // The type of output 0 before packed tensors were shown as uint8.
  DataType output_type = DataType::kUndefined;
};
using RefMaker = Result<RefImpl> (*)(RefNode&);

// OK if every tensor is plain, packed ones are of a type in `types`, and the type of input `input` (of output 0 for a
// node without inputs) is in `types`.
Status check_types(const KernelNode& node, TypeSet types, size_t input);
// Packed tensors are unpacked before each run, and what the run makes is packed behind it.
Result<std::unique_ptr<Kernel>> wrap(const KernelNode& node, RefMaker maker);
// For makers that take packed tensors as they are.
Result<std::unique_ptr<Kernel>> wrap_packed(const KernelNode& node, RefMaker maker);

template <TypeSet types, size_t input = 0>
Status match_ref(const KernelNode& node) {
  return check_types(node, types, input);
}
template <RefMaker maker>
Result<std::unique_ptr<Kernel>> create_ref(const KernelNode& node) {
  return wrap(node, maker);
}

template <RefMaker maker>
Result<std::unique_ptr<Kernel>> create_packed_ref(const KernelNode& node) {
  return wrap_packed(node, maker);
}

// A row of the reference list: {since, until} are since_versions of the schema.
template <TypeSet types, RefMaker maker, size_t input = 0>
constexpr KernelEntry ref_row(std::string_view op_type, int since, int until = kAnyVersion,
                              std::string_view domain = "") {
  return {domain, op_type, since, until, "ref", &match_ref<types, input>, &create_ref<maker>};
}
// The same for a maker that takes packed tensors as they are.
template <TypeSet types, RefMaker maker, size_t input = 0>
constexpr KernelEntry packed_ref_row(std::string_view op_type, int since, int until = kAnyVersion,
                                     std::string_view domain = "") {
  return {domain, op_type, since, until, "ref", &match_ref<types, input>, &create_packed_ref<maker>};
}

// The list of each family, beside its kernels.
#define TENON_REFERENCE_FAMILIES(X) \
  X(ref_unary_rows)                 \
  X(ref_binary_rows)                \
  X(ref_cast_rows)                  \
  X(ref_reduce_rows)                \
  X(ref_softmax_rows)               \
  X(ref_conv_rows)                  \
  X(ref_pool_rows)                  \
  X(ref_norm_rows)                  \
  X(ref_matmul_rows)                \
  X(ref_attention_rows)             \
  X(ref_rotary_rows)                \
  X(ref_contrib_rows)               \
  X(ref_state_rows)                 \
  X(ref_reshape_rows)               \
  X(ref_move_rows)                  \
  X(ref_pad_rows)                   \
  X(ref_gather_rows)                \
  X(ref_scatter_rows)               \
  X(ref_order_rows)                 \
  X(ref_resize_rows)                \
  X(ref_generate_rows)              \
  X(ref_random_rows)                \
  X(ref_sample_rows)                \
  X(ref_roi_rows)                   \
  X(ref_detect_rows)                \
  X(ref_image_rows)                 \
  X(ref_deform_conv_rows)           \
  X(ref_det_rows)                   \
  X(ref_unique_rows)                \
  X(ref_loss_rows)                  \
  X(ref_dft_rows)                   \
  X(ref_window_rows)                \
  X(ref_einsum_rows)                \
  X(ref_reorder_rows)               \
  X(ref_recurrent_rows)             \
  X(ref_quantize_rows)              \
  X(ref_matmul_integer_rows)        \
  X(ref_conv_integer_rows)          \
  X(ref_quantized_recurrent_rows)   \
  X(ref_contrib_product_rows)       \
  X(ref_quantized_attention_rows)   \
  X(ref_bytes_rows)                 \
  X(ref_block_rows)                 \
  X(ref_byte_group_rows)            \
  X(ref_sequence_rows)              \
  X(ref_text_rows)                  \
  X(ref_text_vector_rows)           \
  X(ref_label_rows)                 \
  X(ref_map_rows)                   \
  X(ref_feature_rows)               \
  X(ref_linear_model_rows)          \
  X(ref_tree_rows)
#define TENON_DECLARE_(function) std::span<const KernelEntry> function();
TENON_REFERENCE_FAMILIES(TENON_DECLARE_)
#undef TENON_DECLARE_

// --- specs ---

// The spec of an input; an absent one when the node has fewer.
const TensorSpec& input_spec(const KernelNode& node, size_t index);
const TensorSpec& output_spec(const KernelNode& node, size_t index);
// Refuses an absent input and names it.
Status require_inputs(const KernelNode& node, size_t count);
// The planned shape of output `index` must be `shape`. Where none was planned, it gets memory for `shape` before each
// run.
Status require_output(RefNode& node, size_t index, const Shape& shape);
// Counts from the end when negative; an error outside [-rank, rank).
Result<int> resolve_axis(const KernelNode& node, int64_t axis, int rank);
Result<int> resolve_axis(int64_t axis, int rank);

// Memory for an output whose shape is found at run time: the planned memory if there is one (its shape must be equal),
// else what the context allocates. Null for an absent output.
Result<void*> open_output(KernelContext& context, const TensorSpec& spec, size_t index, const Shape& shape);

// Reads a short vector of int32 or int64 (axes, sizes, ...) at run time, without allocating.
struct ShortVector {
  int count = 0;
  std::array<int64_t, 2 * Shape::kMaxRank> values{};
  std::span<const int64_t> span() const { return std::span(values).first(count); }
};
Result<ShortVector> read_ints(const KernelContext& context, size_t index, const TensorSpec& spec);
// The same from an attribute.
Result<ShortVector> short_vector(std::span<const int64_t> values);

// --- walking ---

using Strides = std::array<int64_t, Shape::kMaxRank>;
// Row-major strides in elements.
Strides dense_strides(const Shape& shape);

// Loops over `dims` with up to kOperands offsets (in elements) that move along; the innermost loop is the callback's.
struct Walk {
  static constexpr int kOperands = 4;
  int rank = 0;  // of the outer loops
  int operands = 0;
  std::array<int64_t, Shape::kMaxRank> dims{};
  std::array<std::array<int64_t, kOperands>, Shape::kMaxRank> strides{};
  int64_t inner = 1;  // length of the innermost loop
  std::array<int64_t, kOperands> inner_strides{};

  // body(offsets, inner, inner_strides) -> bool; stops and returns false when body does.
  template <typename Body>
  bool run(const Body& body) const {
    if (inner == 0) return true;
    std::array<int64_t, kOperands> at{};
    std::array<int64_t, Shape::kMaxRank> index{};
    for (int d = 0; d < rank; ++d) {
      if (dims[d] == 0) return true;
    }
    while (true) {
      if (!body(at)) return false;
      int d = rank - 1;
      for (; d >= 0; --d) {
        for (int k = 0; k < operands; ++k) at[k] += strides[d][k];
        if (++index[d] < dims[d]) break;
        for (int k = 0; k < operands; ++k) at[k] -= strides[d][k] * dims[d];
        index[d] = 0;
      }
      if (d < 0) return true;
    }
  }
};
// Merges neighbouring dimensions that every operand crosses evenly.
Walk make_walk(const Shape& dims, std::initializer_list<Strides> strides);
// Strides for reading `shape` as `out` (numpy's rules): 0 where it is repeated.
Result<Strides> broadcast_strides(const Shape& shape, const Shape& out);
// The shape that all broadcast to.
Result<Shape> broadcast_shape(const Shape& a, const Shape& b);

// Copies a box; strides in elements of `element_bytes` (1, 2, 4, 8 or 16).
void copy_box(size_t element_bytes, const Shape& dims, const void* src, const Strides& src_strides, void* dst,
              const Strides& dst_strides);

}  // namespace tenon::cpu::ref
