// LSTM, GRU and RNN: one product of all inputs with W, then the steps.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/format.h"
#include "ep/cuda/compute/lowering.h"
#include "ep/cuda/ops/conv/op.h"
#include "ep/cuda/ops/matmul/op.h"
#include "ep/cuda/ops/recurrent/op.h"
#include "ops/recurrent.h"

namespace tenon::cuda {

namespace {

using enum RecurrentDesc::Input;

Status check_types(Lowering& to, const Node& node) {
  const DataType type = to.type_of(node.inputs[kX]);
  TENON_UNSUPPORTED_IF(type != DataType::kFloat && type != DataType::kFloat16 && type != DataType::kBfloat16,
                       "{} is computed in {}.", to.label(node), data_type_name(type));
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    const DataType has = to.type_of(node.inputs[i]);
    TENON_UNSUPPORTED_IF(has != (i == kLengths ? DataType::kInt32 : type), "Input {} of {} is {}.", i, to.label(node),
                         data_type_name(has));
  }
  return Status();
}

// All inputs times W, with the steps and sequences as rows, as X has them.
Result<TensorId> multiply_inputs(Lowering& to, const Node& node, const RecurrentDesc& desc) {
  const DataType type = to.type_of(node.inputs[kX]);
  const int64_t rows = desc.length * desc.batch, columns = desc.directions * desc.width(), depth = desc.input;
  TENON_TRY_ASSIGN(const TensorId out, to.program().add_tensor(type, Shape{rows, columns}));
  if (rows == 0) return out;
  if (depth == 0) {
    TENON_TRY(to.add_zeros(node, out));
    return out;
  }
  TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[kX]));
  const ValueId weights = node.inputs[kW];
  if (to.constant(weights) == nullptr) {
    TENON_TRY_ASSIGN(const TensorId w, to.plain(weights));
    const BlasProblem problem{.type = type, .rows = rows, .columns = columns, .depth = depth, .transposed_w = true};
    to.program().add_op(std::make_unique<ProductOp>(node.name, problem, from, w, out));
    return out;
  }
  ConvParams product;
  product.in_c = product.depth = static_cast<int32_t>(depth);
  product.channels = static_cast<int32_t>(columns);
  product.pixels = static_cast<int32_t>(rows);
  ConvTensors tensors{.x = from, .y = out};
  TENON_TRY_ASSIGN(tensors.w, to.packed_constant(weights, "recurrent", type, Shape{columns, depth},
                                                 [type, tf32 = to.options().tf32](const Constant& w, std::byte* bytes) {
                                                   std::vector<float> values = floats_of(w);
                                                   round_weights(values, type, tf32);
                                                   store_floats(values, type, bytes);
                                                 }));
  to.program().add_op(std::make_unique<ConvOp>(node.name, type, product, Epilogue{}, tensors));
  return out;
}

}  // namespace

Status lower_recurrent(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const RecurrentDesc desc, read_recurrent(node, input_shapes(to.graph(), node)));
  TENON_TRY(check_types(to, node));
  const bool lstm = desc.cell == RecurrentDesc::Cell::kLstm, gru = desc.cell == RecurrentDesc::Cell::kGru;
  RecurrentParams params;
  params.cell = lstm ? kCellLstm : gru ? kCellGru : kCellRnn;
  params.gates = static_cast<int32_t>(desc.gates);
  params.length = static_cast<int32_t>(desc.length);
  params.batch = static_cast<int32_t>(desc.batch);
  params.hidden = static_cast<int32_t>(desc.hidden);
  params.directions = static_cast<int32_t>(desc.directions);
  params.reverse = desc.reverse ? 1 : 0;
  params.linear_before_reset = desc.linear_before_reset ? 1 : 0;
  params.couple_gates = desc.couple_gates ? 1 : 0;
  params.constant_weights = to.constant(node.inputs[kR]) != nullptr ? 1 : 0;
  params.clip = desc.clip;
  const size_t each = desc.functions;
  for (size_t i = 0; i < desc.gate_functions.size(); ++i) {
    const UnaryDesc& function = desc.gate_functions[i];
    params.functions[i / each][i % each] = {function.function, static_cast<float>(function.alpha),
                                            static_cast<float>(function.beta)};
  }

  const int64_t row = desc.directions * desc.width(), hidden = desc.hidden;
  const bool batch_first = desc.batch_first;
  params.inputs_time = batch_first ? row : row * params.batch;
  params.inputs_sequence = batch_first ? row * params.length : row;
  params.y_direction = batch_first ? hidden : hidden * params.batch;
  params.y_sequence = batch_first ? hidden * params.directions * params.length : hidden;
  params.y_time = hidden * params.directions * (batch_first ? 1 : params.batch);
  params.state_direction = batch_first ? hidden : hidden * params.batch;
  params.state_sequence = batch_first ? hidden * params.directions : hidden;

  RecurrentTensors tensors;
  const std::array<std::pair<size_t, TensorId*>, 6> optional = {{{kR, &tensors.r},
                                                                 {kBias, &tensors.bias},
                                                                 {kLengths, &tensors.lengths},
                                                                 {kInitialH, &tensors.initial_h},
                                                                 {kInitialC, &tensors.initial_c},
                                                                 {kPeepholes, &tensors.peepholes}}};
  for (const auto& [input, tensor] : optional) {
    // A GRU and an RNN end with the initial state.
    if (node.input(input) == kNoValue || (!lstm && input > kInitialH)) continue;
    TENON_TRY_ASSIGN(*tensor, to.plain(node.inputs[input]));
  }
  TENON_TRY_ASSIGN(tensors.inputs, multiply_inputs(to, node, desc));
  TensorId* const outputs[] = {&tensors.y, &tensors.y_h, &tensors.y_c};
  bool any = false;
  for (size_t i = 0; i < node.outputs.size() && i < std::size(outputs); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    TENON_TRY_ASSIGN(*outputs[i], to.make(node.outputs[i]));
    any = any || to.value(node.outputs[i]).shape().element_count() != 0;
  }
  if (any) to.program().add_op(std::make_unique<RecurrentOp>(node.name, to.type_of(node.inputs[kX]), params, tensors));
  return Status();
}

}  // namespace tenon::cuda
