// A claimed part of a model as a graph: prepared once, then once for each set of input shapes.
//
// Graphs of 16-bit floats are computed as if they were float32 and only kept in 16 bits: then every pass that knows
// float32 serves them too, and weights are joined and scaled before they are rounded.
// Ownership: constants are shared with the graph that was given; those without an owner are the caller's until
// own_constants().
#pragma once

#include <tenon/types.h>

#include <memory>
#include <span>

#include "ep/cuda/compute/lowering.h"
#include "graph/graph.h"

namespace tenon::cuda {

class Region {
 public:
  // Of 16-bit models: whether large weights become float32 too. Without that the region serves only to see whether it
  // can be lowered.
  enum class Weights : uint8_t { kAll, kSmallOnes };
  // Errors: what inference and passes say.
  static Result<Region> prepare(Graph graph, Weights weights = Weights::kAll);

  // Constants that were borrowed from the graph become the region's own. Errors: kResourceExhausted.
  Status own_constants();
  // After this no more programs can be made.
  void drop_constants();

  // How float32 values are kept; kUndefined: as float32.
  DataType half() const { return half_; }
  const Graph& graph() const { return graph_; }
  // The graph for these shapes, planned. Errors: kUnsupported where a shape is only known at run time.
  Result<Graph> at(std::span<const Shape> inputs) const;
  // `split`: products may read f16 parts that kernels before them have written, which takes cuBLASLt. `clusters` and
  // `culprit`: see LoweringOptions.
  Result<Program> lower_at(std::span<const Shape> inputs, bool tf32, size_t workspace_bytes = Program::kWorkspaceBytes,
                           bool split = false, bool clusters = false, std::string* culprit = nullptr) const;

 private:
  Region(Graph graph, DataType half) : graph_(std::move(graph)), half_(half) {}
  Graph graph_;
  DataType half_;
  std::unique_ptr<WeightBounds> bounds_ = std::make_unique<WeightBounds>();
};

// A remark for readers of a plan where the region's products of float32 are in TF32; "" elsewhere.
std::string precision_note(const Region& region, bool tf32);

// Computes a node of constants on the host: what shapes and masks are made of, up to so many elements. An error leaves
// the node to the device.
inline constexpr int64_t kMostOnHost = int64_t{1} << 20;
Result<std::vector<ConstantRef>> evaluate_on_host(const Graph& graph, const Node& node);

}  // namespace tenon::cuda
