#include "plan/pass_table.h"

#include <tenon/node_values.h>

#include <algorithm>
#include <memory>

#include "base/trace.h"
#include "graph/unused_values.h"
#include "ops/shape_inference.h"
#include "plan/node_trail.h"
#include "plan/passes.h"
#include "plan/regions.h"

namespace tenon {
namespace {

// The order matters: folding first, so that patterns are bare, but for weights that are bytes, and behind Einsum, which
// takes long where it is no product; float32 before the patterns; activations before the products that take them in;
// bias before activation, activation before residual; attention before residuals would take its mask; norms that
// subtract the mean before those that are a part of them.
constexpr Pass kPasses[] = {
    {"einsums", PassPhase::kLoad, &pass_einsums},
    {"fold", PassPhase::kLoad, &pass_fold},
    {"loop_invariants", PassPhase::kLoad, &pass_loop_invariants},
    {"widen", PassPhase::kLoad, &pass_widen},
    {"unify_constants", PassPhase::kLoad, &pass_unify_constants},
    {"common_subexpressions", PassPhase::kLoad, &pass_common_subexpressions},
    {"einsums", PassPhase::kLoad, &pass_einsums},
    {"attention_forms", PassPhase::kLoad, &pass_attention_forms},
    {"layer_norms", PassPhase::kLoad, &pass_layer_norms},
    {"root_mean_square_norms", PassPhase::kLoad, &pass_root_mean_square_norms},
    {"group_norms", PassPhase::kLoad, &pass_group_norms},
    {"rotary_embeddings", PassPhase::kLoad, &pass_rotary_embeddings},
    {"move_transposes", PassPhase::kLoad, &pass_move_transposes},
    {"activations", PassPhase::kLoad, &pass_activations},
    {"quantized_moves", PassPhase::kLoad, &pass_quantized_moves},
    {"quantized_tables", PassPhase::kLoad, &pass_quantized_tables},
    {"quantized_products", PassPhase::kLoad, &pass_quantized_products},
    {"window_pads", PassPhase::kLoad, &pass_window_pads},
    {"dequantize_weights", PassPhase::kLoad, &pass_dequantize_weights},
    {"convolutions", PassPhase::kLoad, &pass_convolutions},
    {"sums_of_two", PassPhase::kLoad, &pass_sums_of_two},
    {"matmuls", PassPhase::kLoad, &pass_matmuls},
    {"unflatten_products", PassPhase::kLoad, &pass_unflatten_products},
    {"sink_squeeze", PassPhase::kLoad, &pass_sink_squeeze},
    {"convolution_scale", PassPhase::kLoad, &pass_convolution_scale},
    {"convolution_bias", PassPhase::kLoad, &pass_convolution_bias},
    {"parallel_convolutions", PassPhase::kLoad, &pass_parallel_convolutions},
    {"convolution_scale", PassPhase::kLoad, &pass_convolution_scale},
    {"convolution_bias", PassPhase::kLoad, &pass_convolution_bias},
    {"normalisation_convolutions", PassPhase::kLoad, &pass_normalisation_convolutions},
    {"matmul_bias", PassPhase::kLoad, &pass_matmul_bias},
    {"fuse_activations", PassPhase::kLoad, &pass_fuse_activations},
    {"global_pool", PassPhase::kLoad, &pass_global_pool},
    {"pack_qkv", PassPhase::kLoad, &pass_pack_qkv},

    {"fold", PassPhase::kPlan, &pass_fold},
    {"einsums", PassPhase::kPlan, &pass_einsums},
    {"attention_forms", PassPhase::kPlan, &pass_attention_forms},
    {"layer_norms", PassPhase::kPlan, &pass_layer_norms},
    {"root_mean_square_norms", PassPhase::kPlan, &pass_root_mean_square_norms},
    {"group_norms", PassPhase::kPlan, &pass_group_norms},
    {"rotary_embeddings", PassPhase::kPlan, &pass_rotary_embeddings},
    {"move_transposes", PassPhase::kPlan, &pass_move_transposes},
    {"activations", PassPhase::kPlan, &pass_activations},
    {"quantized_products", PassPhase::kPlan, &pass_quantized_products},
    {"window_pads", PassPhase::kPlan, &pass_window_pads},
    {"unflatten_products", PassPhase::kPlan, &pass_unflatten_products},
    {"sink_squeeze", PassPhase::kPlan, &pass_sink_squeeze},
    {"convolution_bias", PassPhase::kPlan, &pass_convolution_bias},
    {"matmul_bias", PassPhase::kPlan, &pass_matmul_bias},
    {"fuse_activations", PassPhase::kPlan, &pass_fuse_activations},
    {"one_hot_lookup", PassPhase::kPlan, &pass_one_hot_lookup},
    {"join_constant_adds", PassPhase::kPlan, &pass_join_constant_adds},
    {"attention", PassPhase::kPlan, &pass_attention},
    {"attention_heads", PassPhase::kPlan, &pass_attention_heads},
    {"capped_attention", PassPhase::kPlan, &pass_capped_attention},
    {"grouped_heads", PassPhase::kPlan, &pass_grouped_heads},
    {"moment_norms", PassPhase::kPlan, &pass_moment_norms},
    {"transpose_before_unsqueeze", PassPhase::kPlan, &pass_transpose_before_unsqueeze},
    {"scale_shortcuts", PassPhase::kPlan, &pass_scale_shortcuts},
    {"fuse_residuals", PassPhase::kPlan, &pass_fuse_residuals},
    {"fuse_activations", PassPhase::kPlan, &pass_fuse_activations},
    {"skip_layer_norms", PassPhase::kPlan, &pass_skip_layer_norms},
    {"fold", PassPhase::kPlan, &pass_fold},
    {"fuse_casts", PassPhase::kPlan, &pass_fuse_casts},
};

// A body's captures that nothing reads after its passes keep no value of the outer graph alive.
void drop_unread_captures(Graph& body) {
  const PerValue<int32_t> uses = body.use_counts();
  std::erase_if(body.captures, [&](const auto& capture) { return uses[capture.second] == 0; });
}

Status run_pass(const Pass& pass, Graph& graph, const PassOptions& options) {
  TraceSpan span("pass", pass.name);
  const std::string before = span ? graph.to_text() : "";
  const size_t nodes_before = graph.nodes.size();
  TENON_TRY_CONTEXT(pass.run(graph, options), "while running the pass \"{}\"", pass.name);
  if (span) {
    span.args()
        .add("phase", pass.phase == PassPhase::kLoad ? "load" : "plan")
        .add("changed", graph.to_text() != before)
        .add("nodes_before", nodes_before)
        .add("nodes", graph.nodes.size());
  }
  return {};
}

}  // namespace

std::span<const Pass> pass_table() { return kPasses; }

std::vector<std::string_view> pass_names() {
  std::vector<std::string_view> names;
  for (const Pass& pass : kPasses)
    if (std::find(names.begin(), names.end(), pass.name) == names.end()) names.push_back(pass.name);
  return names;
}

Status run_passes(Graph& graph, PassPhase phase, const PassOptions& options, PassRange range) {
  if (options.observe && range != PassRange::kBehindFirst) options.observe("input", graph);
  bool is_first = true;
  for (const Pass& pass : kPasses) {
    if (pass.phase != phase) continue;
    const bool here = range == PassRange::kAll || is_first == (range == PassRange::kFirst);
    is_first = false;
    if (!here) continue;
    if (std::find(options.skip.begin(), options.skip.end(), pass.name) != options.skip.end()) {
      // Folding finds the shapes on its way, and the planner needs them without it too.
      if (pass.run == &pass_fold) {
        TENON_TRY(infer_shapes(graph));
        graph.remove_dead_nodes();
      }
      continue;
    }
    TENON_TRY(run_pass(pass, graph, options));
    if (options.observe) options.observe(pass.name, graph);
    if (options.trail != nullptr) options.trail->after(pass.name, graph);
  }
  if (phase != PassPhase::kLoad) return {};
  for (Node& node : graph.nodes) {
    if (is_region(node)) continue;  // what an EP compiled stays as it is
    TENON_TRY_CONTEXT(run_subgraph_passes(node, phase, options), "of {}", node.label(graph));
  }
  graph.remove_dead_nodes();
  if (options.trail != nullptr) options.trail->after("", graph);
  return {};
}

Status run_subgraph_passes(Node& node, PassPhase phase, const PassOptions& options) {
  for (Attribute& attribute : node.attributes.edit_bodies()) {
    if (!attribute.graph) continue;
    if (attribute.graph.use_count() > 1) attribute.graph = std::make_shared<Graph>(*attribute.graph);
    PassOptions inner = options;
    inner.observe = nullptr;
    inner.trail = nullptr;
    TENON_TRY_CONTEXT(run_passes(*attribute.graph, phase, inner), "in attribute \"{}\"", attribute.name);
    drop_unread_captures(*attribute.graph);
    if (phase == PassPhase::kLoad) clear_unused_but_shown_values(*attribute.graph);
  }
  return {};
}

}  // namespace tenon
