// LSTM, GRU and RNN: one product of all inputs with W, then the steps.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/format.h"
#include "base/same_text.h"
#include "ep/cuda/compute/conv_op.h"
#include "ep/cuda/compute/lowering.h"
#include "ep/cuda/compute/product_op.h"
#include "ep/cuda/compute/recurrent_op.h"

namespace tenon::cuda {

namespace {

enum Input : size_t { kX, kW, kR, kBias, kLengths, kInitialH, kInitialC, kPeepholes };

struct FunctionRow {
  std::string_view name;
  CellActivation kind;
  bool has_alpha = false, has_beta = false;
  float alpha = 0, beta = 0;  // where the attributes give none
};
constexpr std::array kFunctions = {FunctionRow{"Affine", kCellAffine, true, true, 1, 0},
                                   FunctionRow{"Elu", kCellElu, true, false, 1},
                                   FunctionRow{"HardSigmoid", kCellHardSigmoid, true, true, 0.2F, 0.5F},
                                   FunctionRow{"LeakyRelu", kCellLeakyRelu, true, false, 0.01F},
                                   FunctionRow{"Relu", kCellRelu},
                                   FunctionRow{"ScaledTanh", kCellScaledTanh, true, true, 1, 1},
                                   FunctionRow{"Sigmoid", kCellSigmoid},
                                   FunctionRow{"Softplus", kCellSoftplus},
                                   FunctionRow{"Softsign", kCellSoftsign},
                                   FunctionRow{"Tanh", kCellTanh},
                                   FunctionRow{"ThresholdedRelu", kCellThresholdedRelu, true, false, 1}};

// By direction. Lists of alphas and betas have values for the functions that take one, as far as they go.
Status read_functions(Lowering& to, const Node& node, RecurrentParams& params) {
  const auto directions = static_cast<size_t>(params.directions);
  const size_t each = params.cell == kCellLstm ? 3 : params.cell == kCellGru ? 2 : 1;
  std::vector<std::string> names;
  if (const Attribute* given = node.find("activations")) names = given->strings;
  if (names.empty())
    for (size_t i = 0; i < directions * each; ++i)
      names.emplace_back(params.cell != kCellRnn && i % each == 0 ? "Sigmoid" : "Tanh");
  // The schema's default of an RNN is for two directions, and tools write it out for one.
  if (params.cell == kCellRnn && names.size() == 2) names.resize(directions);
  TENON_UNSUPPORTED_IF(names.size() != directions * each, "{} has {} activations instead of {}.", to.label(node),
                       names.size(), directions * each);
  const Attribute *alphas = node.find("activation_alpha"), *betas = node.find("activation_beta");
  size_t alpha = 0, beta = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto row = std::find_if(kFunctions.begin(), kFunctions.end(), [&](const FunctionRow& candidate) {
      return same_ignoring_case(candidate.name, names[i]);
    });
    TENON_UNSUPPORTED_IF(row == kFunctions.end(), "{} asks for the activation \"{}\".", to.label(node), names[i]);
    CellFunction& function = params.functions[i / each][i % each];
    function = {.kind = row->kind, .alpha = row->alpha, .beta = row->beta};
    if (row->has_alpha && alphas != nullptr && alpha < alphas->floats.size()) function.alpha = alphas->floats[alpha++];
    if (row->has_beta && betas != nullptr && beta < betas->floats.size()) function.beta = betas->floats[beta++];
  }
  return Status();
}

Status check_inputs(Lowering& to, const Node& node, const RecurrentParams& params, int64_t columns, bool batch_first) {
  const DataType type = to.type_of(node.inputs[kX]);
  TENON_UNSUPPORTED_IF(type != DataType::kFloat && type != DataType::kFloat16 && type != DataType::kBfloat16,
                       "{} is computed in {}.", to.label(node), data_type_name(type));
  const int64_t width = static_cast<int64_t>(params.gates) * params.hidden;
  const Shape state = batch_first ? Shape{params.batch, params.directions, params.hidden}
                                  : Shape{params.directions, params.batch, params.hidden};
  const Shape wanted[] = {to.value(node.inputs[kX]).shape(),
                          Shape{params.directions, width, columns},
                          Shape{params.directions, width, params.hidden},
                          Shape{params.directions, 2 * width},
                          Shape{params.batch},
                          state,
                          state,
                          Shape{params.directions, 3 * int64_t{params.hidden}}};
  for (size_t i = 0; i < node.inputs.size() && i < std::size(wanted); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    const Value& value = to.value(node.inputs[i]);
    TENON_INVALID_IF(value.shape() != wanted[i], "Input {} of {} has shape {} instead of {}.", i, to.label(node),
                     value.shape().to_string(), wanted[i].to_string());
    const DataType has = to.type_of(node.inputs[i]);
    TENON_UNSUPPORTED_IF(has != (i == kLengths ? DataType::kInt32 : type), "Input {} of {} is {}.", i, to.label(node),
                         data_type_name(has));
  }
  return Status();
}

// All inputs times W, with the steps and sequences as rows, as X has them.
Result<TensorId> multiply_inputs(Lowering& to, const Node& node, const RecurrentParams& params, const Shape& x) {
  const DataType type = to.type_of(node.inputs[kX]);
  const int64_t rows = x[0] * x[1], columns = int64_t{params.directions} * params.gates * params.hidden;
  TENON_TRY_ASSIGN(const TensorId out, to.program().add_tensor(type, Shape{rows, columns}));
  if (rows == 0) return out;
  TENON_UNSUPPORTED_IF(x[2] == 0, "{} has inputs without elements.", to.label(node));
  TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[kX]));
  const ValueId weights = node.inputs[kW];
  if (to.constant(weights) == nullptr) {
    TENON_TRY_ASSIGN(const TensorId w, to.plain(weights));
    const BlasProblem problem{.type = type, .rows = rows, .columns = columns, .depth = x[2], .transposed_w = true};
    to.program().add_op(std::make_unique<ProductOp>(node.name, problem, from, w, out));
    return out;
  }
  ConvParams product;
  product.in_c = product.depth = static_cast<int32_t>(x[2]);
  product.channels = static_cast<int32_t>(columns);
  product.pixels = static_cast<int32_t>(rows);
  ConvTensors tensors{.x = from, .y = out};
  TENON_TRY_ASSIGN(tensors.w, to.packed_constant(weights, "recurrent", type, Shape{columns, x[2]},
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
  TENON_INVALID_IF(node.inputs.size() < 3 || node.inputs[kW] == kNoValue || node.inputs[kR] == kNoValue,
                   "{} lacks an input.", to.label(node));
  const Shape x = to.value(node.inputs[kX]).shape(), r = to.value(node.inputs[kR]).shape();
  TENON_INVALID_IF(x.rank() != 3 || r.rank() != 3, "{} has inputs of shapes {} and {}.", to.label(node), x.to_string(),
                   r.to_string());
  const std::string_view direction = node.string_or("direction", "forward");
  TENON_UNSUPPORTED_IF(direction != "forward" && direction != "reverse" && direction != "bidirectional",
                       "{} has the direction \"{}\".", to.label(node), direction);
  const bool batch_first = node.int_or("layout", 0) != 0;
  RecurrentParams params;
  params.cell = node.op_type == "LSTM" ? kCellLstm : node.op_type == "GRU" ? kCellGru : kCellRnn;
  params.gates = params.cell == kCellLstm ? 4 : params.cell == kCellGru ? 3 : 1;
  params.length = static_cast<int32_t>(x[batch_first ? 1 : 0]);
  params.batch = static_cast<int32_t>(x[batch_first ? 0 : 1]);
  params.hidden = static_cast<int32_t>(node.int_or("hidden_size", r[2]));
  params.directions = direction == "bidirectional" ? 2 : 1;
  params.reverse = direction == "reverse" ? 1 : 0;
  params.linear_before_reset = node.int_or("linear_before_reset", 0) != 0 ? 1 : 0;
  params.couple_gates = node.int_or("input_forget", 0) != 0 ? 1 : 0;
  params.constant_weights = to.constant(node.inputs[kR]) != nullptr ? 1 : 0;
  params.clip = node.float_or("clip", 0);
  TENON_INVALID_IF(params.hidden < 1, "{} has a hidden size of {}.", to.label(node), params.hidden);
  TENON_TRY(read_functions(to, node, params));
  TENON_TRY(check_inputs(to, node, params, x[2], batch_first));

  const int64_t row = int64_t{params.directions} * params.gates * params.hidden, hidden = params.hidden;
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
    if (node.input(input) == kNoValue || (params.cell != kCellLstm && input > kInitialH)) continue;
    TENON_TRY_ASSIGN(*tensor, to.plain(node.inputs[input]));
  }
  TENON_TRY_ASSIGN(tensors.inputs, multiply_inputs(to, node, params, x));
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
