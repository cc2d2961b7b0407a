// The passes that pass_table.cc orders; one contract for all: the graph is inferred and sorted before and after, graph
// inputs and outputs keep their ids, and only float32 values and, by the pass_quantized ones, bytes are fused.
#pragma once

#include <optional>
#include <vector>

#include "plan/pass_table.h"

namespace tenon {

class Rewriter;

// pass_cse.cc
Status pass_unify_constants(Graph& graph, const PassOptions& options);
Status pass_common_subexpressions(Graph& graph, const PassOptions& options);
// pass_loop.cc
Status pass_loop_invariants(Graph& graph, const PassOptions& options);
// pass_widen.cc: float16 and bfloat16 become float32
Status pass_widen(Graph& graph, const PassOptions& options);
// pass_casts.cc: the casts that are left go into elementwise operators, norms and reductions
Status pass_fuse_casts(Graph& graph, const PassOptions& options);
// pass_shape.cc
Status pass_fold(Graph& graph, const PassOptions& options);
Status pass_sink_squeeze(Graph& graph, const PassOptions& options);
Status pass_global_pool(Graph& graph, const PassOptions& options);
Status pass_join_constant_adds(Graph& graph, const PassOptions& options);
Status pass_scale_shortcuts(Graph& graph, const PassOptions& options);
Status pass_transpose_before_unsqueeze(Graph& graph, const PassOptions& options);
// pass_activation.cc
Status pass_activations(Graph& graph, const PassOptions& options);
// pass_conv.cc: Conv and ConvTranspose with constant weights
Status pass_convolutions(Graph& graph, const PassOptions& options);  // ONNX's become tenon's
// Sum of two becomes Add; Sum, Max and Min of more, where a convolution is near, become those of two, which stay in the
// convolution's layout and join it.
Status pass_sums_of_two(Graph& graph, const PassOptions& options);
Status pass_convolution_scale(Graph& graph, const PassOptions& options);  // BatchNormalization and Mul into weights
Status pass_convolution_bias(Graph& graph, const PassOptions& options);
Status pass_parallel_convolutions(Graph& graph, const PassOptions& options);  // sums of convolutions of one input
// BatchNormalization behind a convolution that could not take it in: a depthwise convolution of one tap, which stays
// in the layout of its input and takes in what follows.
Status pass_normalisation_convolutions(Graph& graph, const PassOptions& options);
// pass_transpose.cc: Transposes between which the order of dimensions does not matter go
Status pass_move_transposes(Graph& graph, const PassOptions& options);
// pass_pad.cc: a Pad in front of a convolution or a pool becomes its padding
Status pass_window_pads(Graph& graph, const PassOptions& options);
// A normalisation by constants, as x * factor + shift for each channel.
struct ChannelLines {
  std::vector<double> factor, shift;
};
// Those of `node`, a BatchNormalization; none where it trains, or a parameter is no constant of float32.
std::optional<ChannelLines> batch_norm_lines(const Rewriter& rewriter, const Node& node, size_t channels);
// pass_matmul.cc
Status pass_matmuls(Graph& graph, const PassOptions& options);  // MatMul and Gemm become tenon.MatMul
Status pass_unflatten_products(Graph& graph, const PassOptions& options);
Status pass_matmul_bias(Graph& graph, const PassOptions& options);  // also BatchNormalization of columns
// pass_quantized_moves.cc: Shape, Reshape, Transpose, ... move bytes, not what they stand for
Status pass_quantized_moves(Graph& graph, const PassOptions& options);
// pass_quantized.cc
Status pass_quantized_tables(Graph& graph, const PassOptions& options);    // functions between bytes and bytes
Status pass_quantized_products(Graph& graph, const PassOptions& options);  // products of bytes, with what is around
Status pass_dequantize_weights(Graph& graph, const PassOptions& options);  // pass_shape.cc: the others become float32
// pass_epilogue.cc
Status pass_fuse_activations(Graph& graph, const PassOptions& options);
Status pass_fuse_residuals(Graph& graph, const PassOptions& options);
// pass_layer_norm.cc
Status pass_layer_norms(Graph& graph, const PassOptions& options);
Status pass_root_mean_square_norms(Graph& graph, const PassOptions& options);
Status pass_skip_layer_norms(Graph& graph, const PassOptions& options);
Status pass_moment_norms(Graph& graph, const PassOptions& options);       // pass_moment_norm.cc
Status pass_rotary_embeddings(Graph& graph, const PassOptions& options);  // pass_rotary.cc
Status pass_grouped_heads(Graph& graph, const PassOptions& options);      // pass_grouped_heads.cc
// pass_group_norm.cc
Status pass_group_norms(Graph& graph, const PassOptions& options);
// Reshape(InstanceNormalization(Reshape(x))), whose first Reshape calls groups channels: GroupNormalization. Whether
// node `here` was replaced.
bool group_norm_of_reshapes(Rewriter& rewriter, NodeId here);
// A factor or a summand for each channel behind a norm of channels: part of its scale and bias. Whether node `here` was
// replaced.
bool scale_into_group_norm(Rewriter& rewriter, NodeId here);
// pass_einsum.cc
Status pass_einsums(Graph& graph, const PassOptions& options);
// pass_attention_forms.cc
Status pass_attention_forms(Graph& graph, const PassOptions& options);
// MatMul(a * c, b * d) with numbers c and d: MatMul(a, b) * (c * d). `of_weights`: also where a or b is a constant,
// which takes the factor from activations written out, such as GELU. Whether node `here` was replaced.
bool hoist_factors(Rewriter& rewriter, NodeId here, bool of_weights);
// pass_attention.cc
Status pass_pack_qkv(Graph& graph, const PassOptions& options);
Status pass_attention(Graph& graph, const PassOptions& options);
// pass_attention_heads.cc
Status pass_attention_heads(Graph& graph, const PassOptions& options);
Status pass_capped_attention(Graph& graph, const PassOptions& options);
// pass_lookup.cc
Status pass_one_hot_lookup(Graph& graph, const PassOptions& options);

}  // namespace tenon
