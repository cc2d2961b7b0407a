// Rewrites of operators and forms that only GPU kernels gain from: products that a host made two-dimensional, Gemm's
// parts, products with vectors, softmax over a middle dimension, GatherND at constant places, group normalisations that
// were written as several operators. They run before the shared passes (docs/reference/passes.md), in both phases.
#pragma once

#include "graph/graph.h"

namespace tenon::cuda {

Status run_rewrites(Graph& graph);

// After the load passes: factors of columns become part of constant weights. `half`: the type that weights are kept in,
// kUndefined where it is their own.
void join_scales(Graph& graph, DataType half);

// After the plan passes, which find the shapes that sizes were computed for: group normalisations once more, sums of
// images with transposed products, and rolls.
void join_images(Graph& graph);

// After the plan passes: norms by the root mean square leave the addition before them to the product that it follows
// (matmul/few_rows.h); their kernels add nothing themselves.
void split_skips(Graph& graph);

// After them too: act(x w) * (x v) of many rows, where a product library's epilogue lacks the activation, becomes two
// bare products and an elementwise kernel: a kernel for the activation alone would read and write all of it once more.
void leave_gates(Graph& graph);

}  // namespace tenon::cuda
