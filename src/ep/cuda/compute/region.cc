#include "ep/cuda/compute/region.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include "base/checked.h"
#include "base/format.h"
#include "ep/cuda/compute/half_islands.h"
#include "ep/cuda/compute/pack_heads.h"
#include "ep/cuda/compute/parallel.h"
#include "ep/cuda/compute/rewrites.h"
#include "graph/huge_chunk.h"
#include "ops/shape_inference.h"
#include "plan/bind_shapes.h"
#include "plan/pass_table.h"

namespace tenon::cuda {

namespace {

bool is_float(DataType type) {
  return type == DataType::kFloat || type == DataType::kFloat16 || type == DataType::kBfloat16 ||
         type == DataType::kDouble;
}

// The one 16-bit type of all the graph's floats; kUndefined when there is another float, or none, or when somebody
// looks at their bits.
DataType uniform_half(const Graph& graph) {
  DataType half = DataType::kUndefined;
  for (const Node& node : graph.nodes)
    for (const auto& ids : {node.inputs, node.outputs})
      for (ValueId id : ids) {
        if (id == kNoValue || !is_float(graph.value(id).type)) continue;
        if (node.op_type == "BitCast") return DataType::kUndefined;
        // The scales of a Resize are float32 in every model, and read when a plan is made.
        if (node.op_type == "Resize" && graph.value(id).constant != nullptr) continue;
        const DataType type = graph.value(id).type;
        if (data_type_size(type) != 2 || (half != DataType::kUndefined && type != half)) return DataType::kUndefined;
        half = type;
      }
  return half;
}

// Numbers that activations are recognised by, which 16 bits round too far for that: where one stands rounded, it is
// meant.
float meant(float value, DataType half) {
  for (const float number : {1.41421356F, 0.70710678F, 0.79788456F, 0.044715F, 0.16666667F}) {
    uint16_t bits = 0;
    Constant rounded{.type = half, .data = reinterpret_cast<const std::byte*>(&bits), .size_bytes = sizeof(bits)};
    store_floats({&number, 1}, half, reinterpret_cast<std::byte*>(&bits));
    if (floats_of(rounded)[0] == value) return number;
  }
  return value;
}

// One piece of memory for all weights that are made at once. Not make_constant(), which would fill a weight's memory
// before it is filled; and page faults of one weight at a time were a tenth of a second for a network.
class WeightMemory {
 public:
  static Result<WeightMemory> create(size_t size_bytes) {
    WeightMemory made;
    const std::optional<size_t> padded = checked_add(size_bytes, kSmallPage - 1);
    if (size_bytes != 0 && padded) made.memory_ = huge_chunk(*padded / kSmallPage * kSmallPage);
    if (size_bytes != 0 && made.memory_ == nullptr)
      return resource_exhausted("The host has no memory for {} bytes of weights.", size_bytes);
    return made;
  }
  static size_t room(size_t size_bytes) { return (size_bytes + kAlignment - 1) / kAlignment * kAlignment; }
  // A constant like another one, which is for the caller to fill. All of them together have the room that was asked
  // for.
  ConstantRef add(const Constant& like, DataType type, size_t size_bytes, std::byte** data) {
    auto made = std::make_shared<Constant>();
    made->type = type;
    made->shape = like.shape;
    made->size_bytes = size_bytes;
    made->data = *data = memory_.get() + used_;
    made->owner = memory_;
    used_ += room(size_bytes);
    return made;
  }

 private:
  static constexpr size_t kAlignment = 64;
  std::shared_ptr<std::byte> memory_;
  size_t used_ = 0;
};

// A part of a constant, of a size that keeps all threads busy to the end.
struct Piece {
  static constexpr size_t kBytes = size_t{2} << 20;
  static constexpr size_t kSmallBytes = size_t{64} << 10;  // below this a thread is not worth its while
  const Constant* from = nullptr;
  size_t offset_bytes = 0, size_bytes = 0;
  std::byte* to = nullptr;
};

void add_pieces(std::vector<Piece>& pieces, const Constant& from, std::byte* to, size_t growth) {
  for (size_t at = 0; at < from.size_bytes; at += Piece::kBytes)
    pieces.push_back({&from, at, std::min(Piece::kBytes, from.size_bytes - at), to + at * growth});
}

void widen(const Piece& piece) {
  const Constant part{
      .type = piece.from->type, .data = piece.from->data + piece.offset_bytes, .size_bytes = piece.size_bytes};
  widen_floats(part, {reinterpret_cast<float*>(piece.to), piece.size_bytes / data_type_size(part.type)});
}

Result<ConstantRef> as_float(const Constant& constant) {
  std::byte* data = nullptr;
  TENON_TRY_ASSIGN(ConstantRef wide, make_constant(DataType::kFloat, constant.shape, &data));
  std::vector<Piece> pieces;
  add_pieces(pieces, constant, data, sizeof(float) / data_type_size(constant.type));
  for (const Piece& piece : pieces) widen(piece);
  if (wide->size_bytes == sizeof(float)) {
    auto* const number = reinterpret_cast<float*>(data);
    *number = meant(*number, constant.type);
  }
  return wide;
}

// Every value and attribute of type `half` becomes one of float32; where not `all`, large weights become zeros.
Status call_floats(Graph& graph, DataType half, bool all) {
  const size_t growth = sizeof(float) / data_type_size(half);
  std::vector<Piece> pieces;
  std::vector<Value*> large;
  size_t room = 0;
  for (Value& value : graph.values) {
    if (value.type != half) continue;
    value.type = DataType::kFloat;
    if (value.constant == nullptr) continue;
    if (value.constant->size_bytes <= Piece::kSmallBytes) {
      TENON_TRY_ASSIGN(value.constant, as_float(*value.constant));
      continue;
    }
    large.push_back(&value);
    room += WeightMemory::room(growth * value.constant->size_bytes);
  }
  TENON_TRY_ASSIGN(WeightMemory memory, WeightMemory::create(room));
  std::vector<ConstantRef> sources;  // which the pieces read
  for (Value* value : large) {
    std::byte* data = nullptr;
    sources.push_back(value->constant);
    value->constant = memory.add(*sources.back(), DataType::kFloat, growth * sources.back()->size_bytes, &data);
    add_pieces(pieces, *sources.back(), data, growth);
  }
  if (all) run_parallel(pieces.size(), [&](size_t i) { widen(pieces[i]); });
  for (Node& node : graph.nodes)
    for (Attribute& attribute : node.attributes.edit()) {
      if (attribute.tensor != nullptr && attribute.tensor->type == half) {
        TENON_TRY_ASSIGN(attribute.tensor, as_float(*attribute.tensor));
      }
      const bool names_type = attribute.name == "to" || attribute.name == "dtype" || attribute.name == "output_dtype";
      if (names_type && attribute.i == static_cast<int64_t>(half)) attribute.i = static_cast<int64_t>(DataType::kFloat);
    }
  return Status();
}

// A Clip without a bound keeps to the numbers of the model's type, which is called float32 from here on.
Status bound_clips(Graph& graph, DataType half) {
  const float most = half == DataType::kFloat16 ? 65504.0F : std::bit_cast<float>(uint32_t{0x7f7f0000});
  constexpr int kBoundsAreInputs = 11;
  for (Node& node : graph.nodes) {
    if (node.op_type != "Clip" || !node.domain.empty() || node.since_version < kBoundsAreInputs) continue;
    if (graph.value(node.outputs[0]).type != DataType::kFloat) continue;
    node.inputs.resize(3, kNoValue);
    for (size_t i = 1; i <= 2; ++i) {
      if (node.inputs[i] != kNoValue) continue;
      std::byte* data = nullptr;
      TENON_TRY_ASSIGN(ConstantRef bound, make_constant(DataType::kFloat, Shape(), &data));
      *reinterpret_cast<float*>(data) = i == 1 ? -most : most;
      const std::string name = graph.value(node.outputs[0]).name + (i == 1 ? " low" : " high");
      node.inputs[i] = graph.add_constant(name, std::move(bound));
    }
  }
  return Status();
}

// Products of bytes, rotations, groups of heads and capped scores in one node are kernels of the CPU EP alone, the
// device has kernels of 16 bits, so that nothing is widened, and one for any Einsum. Norms by the root of the mean
// square stay the operators that they are written as.
PassOptions pass_options() {
  return {
      .evaluate = &evaluate_on_host,
      .skip = {"widen", "einsums", "quantized_moves", "quantized_tables", "quantized_products", "fuse_casts",
               "one_hot_lookup", "root_mean_square_norms", "rotary_embeddings", "capped_attention", "grouped_heads"},
      .observe = {}};
}

}  // namespace

Result<Region> Region::prepare(Graph graph, Weights weights) {
  join_half_islands(graph);
  const DataType half = uniform_half(graph);
  if (half != DataType::kUndefined) {
    TENON_TRY(call_floats(graph, half, weights == Weights::kAll));
    TENON_TRY(bound_clips(graph, half));
  }
  TENON_TRY(infer_shapes(graph));
  // A trial has no weights to join, and both forms are kernels.
  if (weights == Weights::kAll) pack_heads(graph);
  TENON_TRY(run_rewrites(graph));
  TENON_TRY(infer_shapes(graph));
  TENON_TRY(run_passes(graph, PassPhase::kLoad, pass_options()));
  join_scales(graph, half);
  return Region(std::move(graph), half);
}

Status Region::own_constants() {
  // Values may share a constant, and go on doing so: packed weights are found by it.
  std::map<const Constant*, ConstantRef> owned;
  size_t room = 0;
  const auto borrowed = [](const ConstantRef& constant) {
    return constant != nullptr && constant->owner == nullptr && constant->size_bytes != 0 && constant->strings.empty();
  };
  for (const Value& value : graph_.values)
    if (borrowed(value.constant) && owned.try_emplace(value.constant.get()).second)
      room += WeightMemory::room(value.constant->size_bytes);
  TENON_TRY_ASSIGN(WeightMemory memory, WeightMemory::create(room));
  std::vector<ConstantRef> sources;
  std::vector<Piece> pieces;
  for (Value& value : graph_.values) {
    const ConstantRef from = value.constant;
    if (!borrowed(from)) continue;
    ConstantRef& own = owned[from.get()];
    if (own == nullptr) {
      std::byte* data = nullptr;
      own = memory.add(*from, from->type, from->size_bytes, &data);
      sources.push_back(from);
      add_pieces(pieces, *from, data, 1);
    }
    value.constant = own;
  }
  run_parallel(pieces.size(), [&](size_t i) {
    std::memcpy(pieces[i].to, pieces[i].from->data + pieces[i].offset_bytes, pieces[i].size_bytes);
  });
  return Status();
}

void Region::drop_constants() {
  for (Value& value : graph_.values) value.constant = nullptr;
}

Result<Graph> Region::at(std::span<const Shape> inputs) const {
  Graph graph = graph_;
  TENON_INVALID_IF(inputs.size() != graph.inputs.size(), "The region has {} inputs; {} shapes are given.",
                   graph.inputs.size(), inputs.size());
  TENON_TRY(check_input_shapes(graph, inputs));
  set_input_shapes(graph, inputs);
  TENON_TRY(infer_shapes(graph));
  TENON_TRY(run_rewrites(graph));
  TENON_TRY(infer_shapes(graph));
  TENON_TRY(run_passes(graph, PassPhase::kPlan, pass_options()));
  join_images(graph);
  split_skips(graph);
  leave_gates(graph);
  for (ValueId id : graph.outputs)
    TENON_UNSUPPORTED_IF(!graph.value(id).fully_known(), "The shape of output \"{}\" is only known at run time.",
                         graph.value(id).name);
  return graph;
}

Result<Program> Region::lower_at(std::span<const Shape> inputs, bool tf32, size_t workspace_bytes, bool split,
                                 bool clusters, std::string* culprit) const {
  TENON_TRY_ASSIGN(const Graph graph, at(inputs));
  return lower(graph, {.half = half_,
                       .tf32 = tf32,
                       .workspace_bytes = workspace_bytes,
                       .bounds = split ? bounds_.get() : nullptr,
                       .clusters = clusters,
                       .culprit = culprit});
}

std::string precision_note(const Region& region, bool tf32) {
  static constexpr std::string_view kProducts[] = {"Conv",   "ConvTranspose", "MatMul",          "Gemm", "Attention",
                                                   "Einsum", "LSTM",          "PackedAttention", "GRU",  "RNN"};
  if (!tf32 || region.half() != DataType::kUndefined) return "";
  const Graph& graph = region.graph();
  const bool products = std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return std::find(std::begin(kProducts), std::end(kProducts), node.op_type) != std::end(kProducts) &&
           !node.outputs.empty() && node.outputs[0] != kNoValue &&
           graph.value(node.outputs[0]).type == DataType::kFloat;
  });
  return products ? "float32 products in TF32 (use_tf32=1)" : "";
}

}  // namespace tenon::cuda
