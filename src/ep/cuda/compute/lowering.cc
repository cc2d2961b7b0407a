#include "ep/cuda/compute/lowering.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/format.h"
#include "ep/cuda/compute/kernel_template.h"
#include "ep/cuda/compute/template_op.h"
#include "ep/cuda/compute/weight_bounds.h"
#include "ops/attributes.h"
#include "ops/resize.h"

namespace tenon::cuda {

namespace {

struct Family {
  std::string_view domain, op_type;
  Status (*lower)(Lowering& to, const Node& node);
};

// The families that are not elementwise (ops/elementwise/lower.cc has those).
constexpr std::array kFamilies = {Family{"tenon", "Conv", &lower_conv},
                                  Family{"tenon", "ConvTranspose", &lower_conv_transpose},
                                  Family{"", "ConvTranspose", &lower_conv_transpose},
                                  Family{"", "Conv", &lower_conv},
                                  Family{"tenon", "MatMul", &lower_matmul},
                                  Family{"", "MatMul", &lower_matmul},
                                  Family{"", "Gemm", &lower_matmul},
                                  Family{"tenon", "Attention", &lower_attention},
                                  Family{"tenon", "PackedAttention", &lower_attention},
                                  Family{"tenon", "LayerNorm", &lower_layer_norm},
                                  Family{"", "LayerNormalization", &lower_layer_norm},
                                  Family{"", "Softmax", &lower_softmax},
                                  Family{"", "LogSoftmax", &lower_softmax},
                                  Family{"tenon", "GuardedSoftmax", &lower_softmax},
                                  Family{"", "LSTM", &lower_recurrent},
                                  Family{"", "GRU", &lower_recurrent},
                                  Family{"", "RNN", &lower_recurrent},
                                  Family{"", "TopK", &lower_top_k},
                                  Family{"", "MaxPool", &lower_pool},
                                  Family{"", "AveragePool", &lower_pool},
                                  Family{"", "GlobalAveragePool", &lower_pool},
                                  Family{"", "GlobalMaxPool", &lower_reduction},
                                  Family{"", "ReduceMean", &lower_reduction},
                                  Family{"", "ReduceSum", &lower_reduction},
                                  Family{"", "ReduceMax", &lower_reduction},
                                  Family{"", "ReduceMin", &lower_reduction},
                                  Family{"", "ReduceProd", &lower_reduction},
                                  Family{"", "ReduceL1", &lower_reduction},
                                  Family{"", "ReduceL2", &lower_reduction},
                                  Family{"", "ReduceSumSquare", &lower_reduction},
                                  Family{"", "ArgMax", &lower_reduction},
                                  Family{"", "ArgMin", &lower_reduction},
                                  Family{"", "Reshape", &lower_reshape},
                                  Family{"", "Flatten", &lower_reshape},
                                  Family{"", "Squeeze", &lower_reshape},
                                  Family{"", "Unsqueeze", &lower_reshape},
                                  Family{"", "Identity", &lower_reshape},
                                  Family{"", "Dropout", &lower_reshape},
                                  Family{"", "Concat", &lower_concat},
                                  Family{"", "Split", &lower_split},
                                  Family{"", "ReduceLogSum", &lower_reduction},
                                  Family{"", "ReduceLogSumExp", &lower_reduction},
                                  Family{"", "LpPool", &lower_pool},
                                  Family{"", "InstanceNormalization", &lower_group_norm},
                                  Family{"", "GroupNormalization", &lower_group_norm},
                                  Family{"", "RMSNormalization", &lower_layer_norm},
                                  Family{"", "LpNormalization", &lower_lp_norm},
                                  Family{"", "MeanVarianceNormalization", &lower_lp_norm},
                                  Family{"", "CumSum", &lower_scan},
                                  Family{"", "CumProd", &lower_scan},
                                  Family{"", "GatherElements", &lower_gather_elements},
                                  Family{"", "GatherND", &lower_gather_nd},
                                  Family{"", "Scatter", &lower_scatter_elements},
                                  Family{"", "ScatterElements", &lower_scatter_elements},
                                  Family{"", "ScatterND", &lower_scatter_nd},
                                  Family{"", "OneHot", &lower_one_hot},
                                  Family{"", "Trilu", &lower_trilu},
                                  Family{"", "EyeLike", &lower_eye_like},
                                  Family{"", "ConstantOfShape", &lower_constant_of_shape},
                                  Family{"", "ReverseSequence", &lower_reverse_sequence},
                                  Family{"", "Tile", &lower_tile},
                                  Family{"", "DepthToSpace", &lower_blocks},
                                  Family{"", "SpaceToDepth", &lower_blocks},
                                  Family{"", "Pad", &lower_mirror_pad},
                                  Family{"", "BitCast", &lower_bit_cast},
                                  Family{"", "Einsum", &lower_einsum},
                                  Family{"", "GridSample", &lower_grid_sample},
                                  Family{"", "MatMulInteger", &lower_matmul_integer},
                                  Family{"", "QLinearMatMul", &lower_matmul_integer},
                                  Family{"", "ConvInteger", &lower_conv_integer},
                                  Family{"", "QLinearConv", &lower_conv_integer},
                                  Family{"", "DynamicQuantizeLinear", &lower_dynamic_quantize},
                                  Family{"", "Resize", &lower_resize},
                                  Family{"", "Upsample", &lower_resize},
                                  Family{"", "SimplifiedLayerNormalization", &lower_contrib_norm},
                                  Family{"com.microsoft", "SkipSimplifiedLayerNormalization", &lower_contrib_norm},
                                  Family{"com.microsoft", "SkipLayerNormalization", &lower_contrib_norm},
                                  Family{"com.microsoft", "MatMulNBits", &lower_matmul_nbits},
                                  Family{"com.microsoft", "RotaryEmbedding", &lower_rotary},
                                  Family{"", "RotaryEmbedding", &lower_rotary},
                                  Family{"com.microsoft", "GroupQueryAttention", &lower_grouped_query},
                                  Family{"com.microsoft", "AllReduce", &lower_collective},
                                  Family{"com.microsoft", "AllGather", &lower_collective},
                                  Family{"com.microsoft", "AllToAll", &lower_collective}};

const Family* find_family(const Node& node) {
  const auto found = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family& family) {
    return family.op_type == node.op_type && family.domain == node.domain;
  });
  return found != kFamilies.end() ? &*found : nullptr;
}

// Whose kernels count elements in 32 bits.
bool counts_in_32_bits(const Node& node) {
  static constexpr auto kNames =
      std::to_array<std::string_view>({"Conv", "ConvTranspose", "MatMul", "MatMulNBits", "Gemm", "Attention",
                                       "PackedAttention", "GroupQueryAttention", "LSTM", "GRU", "RNN", "TopK"});
  return std::find(kNames.begin(), kNames.end(), node.op_type) != kNames.end();
}

// Whether each value that the kernel's form depends on, sizes aside, is a constant of the model.
bool has_fixed_form(const Graph& graph, const Node& node) {
  const auto fixed = [&](size_t input) {
    const ValueId id = node.input(input);
    return id == kNoValue || graph.value(id).constant != nullptr;
  };
  if (node.op_type == "Slice") return fixed(4);
  if (node.op_type == "Pad") return fixed(2);
  if (node.op_type == "CumSum" || node.op_type == "CumProd") return fixed(1);
  // Sizes and scales may follow from shapes; where an image is cut does not.
  if (node.op_type == "Resize") {
    const Result<ResizeSettings> settings = read_resize_settings(node);
    if (settings.ok() && settings->coordinates == ResizeSettings::Coordinates::kTfCrop) return fixed(1);
  }
  return true;
}

// Whether a Transpose asks for what an image with channels last is in memory.
bool turns_to_channels_last(const Node& node) {
  const std::span<const int64_t> perm = Attributes(node).integers("perm");
  if (perm.size() < 3 || perm[0] != 0 || perm.back() != 1) return false;
  for (size_t i = 1; i + 1 < perm.size(); ++i)
    if (perm[i] != static_cast<int64_t>(i) + 1) return false;
  return true;
}

}  // namespace

Status can_lower(const Graph& graph, const Node& node) {
  TENON_UNSUPPORTED_IF(find_family(node) == nullptr && !is_elementwise(graph, node),
                       "The CUDA EP has no operator {}{}{}.", node.domain, node.domain.empty() ? "" : ".",
                       node.op_type);
  TENON_UNSUPPORTED_IF(node.domain.empty() && !has_fixed_form(graph, node),
                       "{} depends on a value that is only known at run time.", node.label(graph));
  // Of a recurrent operator each output may be left out.
  const bool recurrent = node.op_type == "LSTM" || node.op_type == "GRU" || node.op_type == "RNN";
  TENON_UNSUPPORTED_IF(node.outputs.empty() || (node.outputs[0] == kNoValue && !recurrent),
                       "{} leaves its first output out.", node.label(graph));
  const DataType resized = graph.value(node.inputs.empty() ? node.outputs[0] : node.inputs[0]).type;
  if (node.op_type == "Resize" || node.op_type == "Upsample") {
    TENON_TRY_ASSIGN(const ResizeSettings settings, read_resize_settings(node));
    TENON_UNSUPPORTED_IF(settings.mode != ResizeSettings::Mode::kNearest && compute_type(resized) != "float",
                         "{} interpolates {}.", node.label(graph), data_type_name(resized));
  }
  if (node.op_type == "MatMul" || node.op_type == "Gemm" || node.op_type == "Conv" || node.op_type == "ConvTranspose")
    TENON_UNSUPPORTED_IF(compute_type(resized) != "float", "{} multiplies {}.", node.label(graph),
                         data_type_name(resized));
  // Sizes that blocks divide are seldom among those that are tried.
  if (node.op_type == "QuantizeLinear" || node.op_type == "DequantizeLinear")
    TENON_UNSUPPORTED_IF(Attributes(node).find_integer("block_size").value_or(0) > 0, "{} has a scale for each block.",
                         node.label(graph));
  if (node.op_type == "GroupQueryAttention") TENON_TRY(can_attend_grouped(graph, node));
  if (node.op_type == "MatMulNBits") TENON_TRY(can_multiply_nbits(graph, node));
  if (const Family* const family = find_family(node); family != nullptr && family->lower == &lower_contrib_norm) {
    // It becomes others (rewrites.cc), unless it gives what those do not.
    for (size_t i = 1; i < node.outputs.size(); ++i)
      TENON_UNSUPPORTED_IF(node.outputs[i] != kNoValue && (i != 3 || node.domain.empty()),
                           "{} gives its mean or its deviations.", node.label(graph));
  }
  if (node.op_type == "TopK") TENON_TRY(can_take_top(graph, node));
  for (const auto& ids : {node.inputs, node.outputs})
    for (ValueId id : ids) {
      if (id == kNoValue) continue;
      const Value& value = graph.value(id);
      TENON_UNSUPPORTED_IF(!value.is_tensor || compute_type(value.type).empty(),
                           "{} has a value of type {}, which the CUDA EP does not compute with.", node.label(graph),
                           data_type_name(value.type));
    }
  return Status();
}

Lowering::Lowering(const Graph& graph, const LoweringOptions& options)
    : graph_(graph),
      options_(options),
      tensors_(graph.values.size(), {kNoTensor, kNoTensor}),
      uses_(graph.use_counts()),
      producers_(graph.producers()),
      output_of_(graph.values.size(), -1),
      readers_(graph.values.size()),
      joined_(graph.nodes.size()) {}

DataType Lowering::type_of(ValueId id) const {
  const DataType type = value(id).type;
  return type == DataType::kFloat && options_.half != DataType::kUndefined ? options_.half : type;
}

const ConstantRef& Lowering::constant(ValueId id) const {
  static const ConstantRef kNone;
  return id == kNoValue ? kNone : value(id).constant;
}

Result<TensorId> Lowering::packed_constant(ValueId id, std::string format, DataType type, const Shape& shape,
                                           std::function<void(const Constant&, std::byte*)> pack) {
  const ConstantRef held = constant(id);
  TENON_INVALID_IF(held == nullptr, "Value \"{}\" is not constant.", id == kNoValue ? "" : value(id).name);
  std::string key =
      tenon::format("{}:{}:{}", static_cast<const void*>(held.get()), std::move(format), data_type_name(type));
  TENON_TRY_ASSIGN(const TensorId tensor,
                   program_.add_constant(type, shape, std::move(key),
                                         [held, pack = std::move(pack)](std::byte* out) { pack(*held, out); }));
  program_.constants[program_.storage_of(tensor).index].source = held;
  return tensor;
}

Result<TensorId> Lowering::float_constant(ValueId id, std::string_view format) {
  return packed_constant(id, std::string(format), DataType::kFloat, value(id).shape(),
                         [](const Constant& from, std::byte* out) { convert_floats(from, DataType::kFloat, out); });
}

Result<TensorId> Lowering::typed_constant(ValueId id) {
  const DataType type = type_of(id);
  TENON_TRY_ASSIGN(const TensorId tensor, packed_constant(id, "plain", type, constant(id)->shape,
                                                          [type](const Constant& from, std::byte* out) {
                                                            if (from.type == type) {
                                                              if (from.size_bytes != 0)
                                                                std::memcpy(out, from.data, from.size_bytes);
                                                            } else {
                                                              convert_floats(from, type, out);
                                                            }
                                                          }));
  if (constant(id)->type == type) program_.constants[program_.storage_of(tensor).index].as_is = true;
  return tensor;
}

Result<TensorId> Lowering::any(ValueId id) {
  TENON_UNSUPPORTED_IF(id == kNoValue, "An input that the operator needs is left out.");
  for (TensorId tensor : tensors_[id])
    if (tensor != kNoTensor) return tensor;
  if (constant(id) != nullptr) {
    TENON_TRY_ASSIGN(const TensorId tensor, typed_constant(id));
    tensors_[id][0] = tensor;
    return tensor;
  }
  if (const Part* const within = part(id)) return copy_part(id, *within);
  return internal_error("Value \"{}\" is read before it is made.", value(id).name);
}

bool Lowering::is_channels_last(ValueId id) const {
  const auto& tensors = tensors_[id];
  return tensors[0] == kNoTensor && tensors[1] != kNoTensor;
}

bool Lowering::wants_channels_last(ValueId id) const {
  constexpr size_t kMostValues = 16;
  std::vector<ValueId> values = {id};
  for (size_t at = 0; at < values.size(); ++at) {
    if (readers_[values[at]].empty() || is_output(values[at]) || values.size() > kMostValues) return false;
    for (NodeId reader : readers_[values[at]]) {
      const Node& node = graph_.nodes[reader];
      // Weights, or the parameters of a norm.
      if (node.inputs[0] != values[at] && !is_elementwise(graph_, node) && node.op_type != "Conv") return false;
      static constexpr auto kImages =
          std::to_array<std::string_view>({"Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool",
                                           "InstanceNormalization", "GroupNormalization"});
      if (std::find(kImages.begin(), kImages.end(), node.op_type) != kImages.end()) continue;
      if (node.op_type == "Transpose" && turns_to_channels_last(node)) continue;
      const ValueId out = node.outputs[0];
      if (node.outputs.size() != 1 || !value(out).fully_known() || !value(values[at]).fully_known()) return false;
      const Shape &from = value(values[at]).shape(), &made = value(out).shape();
      const bool pixels =
          node.op_type == "Reshape" && from.rank() >= 3 && made.rank() >= 3 && from[0] == made[0] && from[1] == made[1];
      const bool steps = is_elementwise(graph_, node) && from == made && node.op_type != "Transpose" &&
                         node.op_type != "Gather" && node.op_type != "Slice" && node.op_type != "Pad";
      if (!pixels && !steps && node.op_type != "Resize" && node.op_type != "Concat") return false;
      if (std::find(values.begin(), values.end(), out) == values.end()) values.push_back(out);
    }
  }
  return true;
}

const Lowering::Part* Lowering::part(ValueId id) const {
  if (id == kNoValue || tensors_[id][0] != kNoTensor || tensors_[id][1] != kNoTensor) return nullptr;
  const auto found = parts_.find(id);
  return found != parts_.end() ? &found->second : nullptr;
}

Result<TensorId> Lowering::copy_part(ValueId id, const Part& part) {
  const DeviceTensor from = program_.tensor(part.from);
  TENON_TRY_ASSIGN(const TensorId out, make(id, from.layout));
  const Shape& shape = value(id).shape();
  if (shape.element_count() == 0) return out;
  TENON_TRY(add_generated(*producer(id), "split",
                          {.dims = {shape.begin(), shape.end()},
                           .type = from.type,
                           .strides = program_.tensor(out).strides(),
                           .leaves = {{.type = from.type, .strides = part.strides, .offset = part.offset}}},
                          {part.from}, {}, out));
  return out;
}

Result<TensorId> Lowering::in_layout(ValueId id, DeviceLayout layout) {
  TENON_UNSUPPORTED_IF(id == kNoValue, "An input that the operator needs is left out.");
  TensorId& wanted = tensors_[id][static_cast<size_t>(layout)];
  if (wanted != kNoTensor) return wanted;
  TENON_TRY_ASSIGN(const TensorId have, any(id));
  if (program_.tensor(have).layout == layout) return have;
  TENON_TRY_ASSIGN(const TensorId converted, convert(have, layout, value(id).name));
  wanted = converted;
  return converted;
}

Result<TensorId> Lowering::convert(TensorId from, DeviceLayout layout, const std::string& label) {
  const DeviceTensor tensor = program_.tensor(from);
  DeviceTensor target = tensor;
  target.layout = layout;
  if (tensor.shape.rank() < 3 || tensor.strides() == target.strides())
    return program_.add_view(from, tensor.type, tensor.shape, layout);
  // One channel or one pixel: the same bytes.
  int64_t pixels = 1;
  for (int i = 2; i < tensor.shape.rank(); ++i) pixels *= tensor.shape[i];
  if (pixels == 1 || tensor.shape[1] == 1) return program_.add_view(from, tensor.type, tensor.shape, layout);
  TENON_TRY_ASSIGN(const TensorId to, program_.add_tensor(tensor.type, tensor.shape, layout));
  const auto dims = tensor.shape.dims();
  Node node;
  node.op_type = "Reorder";
  node.name = label;
  TENON_TRY(add_generated(node, "reorder",
                          {.dims = {dims.begin(), dims.end()},
                           .type = tensor.type,
                           .strides = target.strides(),
                           .leaves = {{.type = tensor.type, .strides = tensor.strides()}}},
                          {from}, {}, to));
  return to;
}

Result<TensorId> Lowering::make(ValueId id, DeviceLayout layout) {
  TENON_UNSUPPORTED_IF(!value(id).fully_known(), "The shape of \"{}\" is not known.", value(id).name);
  const int32_t output = output_of_[id];
  const bool direct = output >= 0 && layout == DeviceLayout::kPlain;
  TENON_TRY_ASSIGN(const TensorId tensor,
                   program_.add_tensor(type_of(id), value(id).shape(), layout,
                                       direct ? StorageKind::kOutput : StorageKind::kArena, direct ? output : 0));
  alias(id, tensor);
  return tensor;
}

void Lowering::alias(ValueId id, TensorId tensor) {
  tensors_[id][static_cast<size_t>(program_.tensor(tensor).layout)] = tensor;
}

Result<std::vector<int64_t>> Lowering::integers(const Node& node, size_t input) const {
  const ConstantRef& held = constant(node.input(input));
  TENON_UNSUPPORTED_IF(held == nullptr, "Input {} of {} is only known at run time.", input, label(node));
  std::optional<std::vector<int64_t>> values = tenon::integers_of(held.get());
  TENON_UNSUPPORTED_IF(!values, "Input {} of {} has type {}.", input, label(node), data_type_name(held->type));
  return std::move(*values);
}

ReadIntegers Lowering::integers_of(const Node& node) const {
  return [this, &node](size_t input) { return integers(node, input); };
}

const Lowering::SplitTensor* Lowering::split_tensor(ValueId id) const {
  const auto found = split_tensors_.find(id);
  return found != split_tensors_.end() ? &found->second : nullptr;
}

const Lowering::Bound* Lowering::bound(ValueId id) const {
  const auto found = bounds_.find(id);
  return found != bounds_.end() ? &found->second : nullptr;
}

Result<Lowering::SplitTensor> Lowering::make_split_tensor(ValueId id, Bound bound) {
  // A bound is of exact numbers, and kernels round.
  constexpr double kRounding = 1.01;
  bound.largest *= kRounding, bound.norm *= kRounding;
  bounds_[id] = bound;
  SplitTensor made;
  for (NodeId reader : readers_[id]) {
    const Node& node = graph_.nodes[reader];
    if (node.inputs[0] == id) made.terms = std::max(made.terms, terms_read(*this, node));
  }
  if (made.terms == 0 || !(bound.largest <= std::numeric_limits<float>::max())) return SplitTensor();
  made.shift = split_shift(static_cast<float>(bound.largest));
  if (!can_shift(made.shift)) return SplitTensor();
  const Shape& shape = value(id).shape();
  const int64_t columns = shape[shape.rank() - 1];
  TENON_TRY_ASSIGN(made.tensor, program_.add_tensor(DataType::kFloat16,
                                                    Shape{shape.element_count() / columns, made.terms * columns}));
  split_tensors_[id] = made;
  return made;
}

bool Lowering::only_split(ValueId id) {
  const auto& readers = readers_[id];
  return std::ssize(readers) == uses_[id] && std::all_of(readers.begin(), readers.end(), [&](NodeId reader) {
           const Node& node = graph_.nodes[reader];
           return node.inputs[0] == id && std::count(node.inputs.begin(), node.inputs.end(), id) == 1 &&
                  terms_read(*this, node) != 0;
         });
}

const Node* Lowering::producer(ValueId id) const {
  const NodeId made = id == kNoValue ? kNoNode : producers_[id];
  return made.valid() ? &graph_.nodes[made] : nullptr;
}

bool Lowering::joined(const Node& node) const { return joined_[NodeId(&node - graph_.nodes.elements().data())]; }

const Node* Lowering::joined_producer(ValueId id) const {
  const NodeId producer = id == kNoValue ? kNoNode : producers_[id];
  return producer.valid() && joined_[producer] ? &graph_.nodes[producer] : nullptr;
}

void Lowering::end_chain(const Node& node) { joined_[NodeId(&node - graph_.nodes.elements().data())] = false; }

// A node joins its only reader where both make the same shape: each element is then still computed once.
void Lowering::find_chains() {
  constexpr size_t kMaxLeaves = 24;
  PerValue<NodeId> reader(graph_.values.size());
  for (NodeId n : graph_.nodes.ids())
    for (ValueId id : graph_.nodes[n].inputs)
      if (id != kNoValue) reader[id] = n;
  PerNode<size_t> leaves(graph_.nodes.size(), 0);
  for (NodeId n : graph_.nodes.ids()) {
    const Node& node = graph_.nodes[n];
    if (!is_elementwise(graph_, node) || node.outputs.size() != 1) continue;
    leaves[n] += node.inputs.size();
    const ValueId out = node.outputs[0];
    if (uses_[out] != 1 || !reader[out].valid()) continue;
    const NodeId r = reader[out];
    const Node& next = graph_.nodes[r];
    // An operator that moves elements reads memory: it can be the first of a chain, not a later one.
    if (!is_elementwise(graph_, next) || next.outputs.size() != 1 || next.op_type == "Transpose" ||
        next.op_type == "Expand" || next.op_type == "Slice" || next.op_type == "Gather" || next.op_type == "Pad")
      continue;
    const Value &made = value(out), &wanted = value(next.outputs[0]);
    if (!made.fully_known() || !wanted.fully_known() || made.shape() != wanted.shape()) continue;
    if (leaves[n] + leaves[r] + next.inputs.size() > kMaxLeaves) continue;
    leaves[r] += leaves[n];
    joined_[n] = true;
  }
}

Status Lowering::add_generated(const Node& node, std::string what, const GeneratedElementwise& kernel,
                               std::vector<TensorId> leaves, std::vector<TensorId> indices, TensorId out) {
  if (count_of(kernel.dims) == 0) return Status();
  TENON_TRY_ASSIGN(TemplateKernel made, elementwise_kernel(kernel));
  leaves.insert(leaves.end(), indices.begin(), indices.end());
  return add_kernel(node, std::move(what), std::move(made), std::move(leaves), std::vector<TensorId>{out});
}

void Lowering::add_copy(const Node& node, TensorId from, TensorId out) {
  program_.add_op(std::make_unique<CopyOp>(node.name, program_.tensor(from).size_bytes(), from, out));
}

Status Lowering::add_zeros(const Node& node, TensorId out) {
  const DeviceTensor tensor = program_.tensor(out);
  return add_generated(node, "zeros",
                       {.dims = {tensor.shape.begin(), tensor.shape.end()},
                        .type = tensor.type,
                        .strides = tensor.strides(),
                        .leaves = {},
                        .steps = {{.type = tensor.type, .expression = "0", .arguments = {}}}},
                       {}, {}, out);
}

Status Lowering::add_kernel(const Node& node, std::string what, TemplateKernel kernel, std::vector<TensorId> reads,
                            std::vector<TensorId> writes) {
  program_.add_kernel({kernel.instance, kernel.header, kernel.text});
  program_.add_op(
      std::make_unique<TemplateOp>(node.name, std::move(what), std::move(kernel), std::move(reads), std::move(writes)));
  return Status();
}

Status Lowering::lower_node(const Node& node) {
  if (joined(node)) return Status();
  for (const auto& ids : {node.inputs, node.outputs})
    for (ValueId id : ids)
      TENON_UNSUPPORTED_IF(id != kNoValue && !value(id).fully_known(),
                           "The shape of \"{}\" of {} is only known at run time.", value(id).name, label(node));
  if (const auto found = lowered_by_.find(&node); found != lowered_by_.end())
    return found->second == nullptr ? Status() : found->second();
  if (is_elementwise(graph_, node)) return lower_elementwise(*this, node);
  const Family* family = find_family(node);
  TENON_UNSUPPORTED_IF(family == nullptr, "The CUDA EP has no operator {}.", node.op_type);
  if (counts_in_32_bits(node))
    for (const auto& ids : {node.inputs, node.outputs})
      for (ValueId id : ids)
        TENON_UNSUPPORTED_IF(id != kNoValue && value(id).shape().element_count() > INT32_MAX,
                             "{} has a tensor of shape {}; its kernels count {} elements.", label(node),
                             value(id).shape().to_string(), INT32_MAX);
  return family->lower(*this, node);
}

Status Lowering::finish_outputs() {
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    const ValueId id = graph_.outputs[i];
    TENON_TRY_ASSIGN(const TensorId have, plain(id));
    const auto index = static_cast<int32_t>(i);
    DeviceStorage& storage = program_.storages[program_.tensor(have).storage];
    if (storage.kind == StorageKind::kOutput && storage.index == index) {
      program_.outputs.push_back(have);
      continue;
    }
    const size_t bytes = program_.tensor(have).size_bytes();
    if (storage.kind == StorageKind::kArena && storage.size_bytes == bytes && program_.tensor(have).offset_bytes == 0) {
      storage.kind = StorageKind::kOutput;
      storage.index = index;
      program_.outputs.push_back(have);
      continue;
    }
    TENON_TRY_ASSIGN(const TensorId out, program_.add_tensor(type_of(id), value(id).shape(), DeviceLayout::kPlain,
                                                             StorageKind::kOutput, index));
    program_.add_op(std::make_unique<CopyOp>(value(id).name, bytes, have, out));
    program_.outputs.push_back(out);
  }
  return Status();
}

Result<Program> Lowering::run() {
  for (size_t i = 0; i < graph_.inputs.size(); ++i) {
    const ValueId id = graph_.inputs[i];
    TENON_UNSUPPORTED_IF(!value(id).fully_known(), "The shape of input \"{}\" is not known.", value(id).name);
    TENON_TRY_ASSIGN(const TensorId tensor, program_.add_tensor(type_of(id), value(id).shape(), DeviceLayout::kPlain,
                                                                StorageKind::kInput, static_cast<int32_t>(i)));
    alias(id, tensor);
    program_.inputs.push_back(tensor);
  }
  for (size_t i = 0; i < graph_.outputs.size(); ++i) output_of_[graph_.outputs[i]] = static_cast<int32_t>(i);
  for (NodeId n : graph_.nodes.ids())
    for (ValueId id : graph_.nodes[n].inputs)
      if (id != kNoValue) readers_[id].push_back(n);
  find_chains();
  TENON_TRY(find_row_products(*this));
  find_group_norms(*this);
  if (options_.bounds != nullptr) find_weight_bounds(*this);
  find_shared_rows(*this);
  for (const Node& node : graph_.nodes) {
    Status lowered = lower_node(node);
    if (!lowered.ok() && options_.culprit != nullptr && !node.outputs.empty() && node.outputs[0] != kNoValue)
      *options_.culprit = value(node.outputs[0]).name;
    TENON_TRY_CONTEXT(std::move(lowered), "while lowering {}", label(node));
  }
  TENON_TRY(finish_outputs());
  program_.workspace_bytes = options_.workspace_bytes;
  TENON_TRY(program_.finish());
  return std::move(program_);
}

Result<Program> lower(const Graph& graph, const LoweringOptions& options) { return Lowering(graph, options).run(); }

}  // namespace tenon::cuda
