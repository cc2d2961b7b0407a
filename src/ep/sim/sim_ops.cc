#include "ep/sim/sim_ops.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ep/sim/sim_elementwise.h"
#include "ep/sim/sim_linear.h"
#include "ops/reshape.h"

namespace tenon::sim {

namespace {

Result<std::vector<SimTensor>> infer_reshape(const SimInputs& inputs, const Node& node) {
  const SimTensor& data = inputs.tensors[0];
  const SimTensor& shape = inputs.tensors[1];
  TENON_INVALID_IF(shape.type != DataType::kInt64 || shape.shape.rank() != 1 || inputs.host[1] == nullptr,
                   "Reshape's shape is a {} tensor of shape {}.", data_type_name(shape.type), shape.shape.to_string());
  TENON_UNSUPPORTED_IF(shape.shape[0] > Shape::kMaxRank, "Reshape to {} dimensions.", shape.shape[0]);
  std::vector<int64_t> target(shape.shape[0]);
  std::memcpy(target.data(), inputs.host[1], target.size() * sizeof(int64_t));
  TENON_TRY_ASSIGN(const Shape result, reshaped(data.shape, target, read_allow_zero(node)));
  return std::vector<SimTensor>{{data.type, result}};
}

Result<std::vector<SimTensor>> infer_flatten(const SimInputs& inputs, const Node& node) {
  const SimTensor& data = inputs.tensors[0];
  TENON_TRY_ASSIGN(const int axis, read_flatten_axis(node, data.shape.rank()));
  TENON_TRY_ASSIGN(const Shape result, flattened(data.shape, axis));
  return std::vector<SimTensor>{{data.type, result}};
}

constexpr DataType kFloatOnly[] = {DataType::kFloat};
constexpr DataType kFloats[] = {DataType::kFloat, DataType::kDouble};
constexpr DataType kNumbers[] = {DataType::kFloat, DataType::kDouble, DataType::kInt32, DataType::kInt64};

constexpr std::pair<const char*, AttributeKind> kGemmAttributes[] = {{"alpha", AttributeKind::kFloat},
                                                                     {"beta", AttributeKind::kFloat},
                                                                     {"transA", AttributeKind::kInt},
                                                                     {"transB", AttributeKind::kInt}};
constexpr std::pair<const char*, AttributeKind> kConvAttributes[] = {{"auto_pad", AttributeKind::kString},
                                                                     {"dilations", AttributeKind::kInts},
                                                                     {"group", AttributeKind::kInt},
                                                                     {"pads", AttributeKind::kInts},
                                                                     {"strides", AttributeKind::kInts}};
constexpr std::pair<const char*, AttributeKind> kReshapeAttributes[] = {{"allowzero", AttributeKind::kInt}};
constexpr std::pair<const char*, AttributeKind> kFlattenAttributes[] = {{"axis", AttributeKind::kInt}};

constexpr int kNewest = 1000;

#define UNARY(name, since, until, parameter, types, run) \
  {name, since, until, parameter, types, {}, 1, 1, -1, infer_same, nullptr, nullptr, run}
#define BINARY(name, since, run) \
  {name, since, kNewest, "T", kNumbers, {}, 2, 2, -1, infer_broadcast, nullptr, nullptr, run}

constexpr SimOp kOps[] = {
    UNARY("Relu", 6, 13, "T", kFloats, run_relu),
    UNARY("Relu", 14, kNewest, "T", kNumbers, run_relu),
    UNARY("Sigmoid", 6, kNewest, "T", kFloats, run_sigmoid),
    UNARY("Tanh", 6, kNewest, "T", kFloats, run_tanh),
    UNARY("Neg", 6, kNewest, "T", kNumbers, run_neg),
    UNARY("Identity", 1, 13, "T", kNumbers, run_identity),
    UNARY("Identity", 14, kNewest, "V", kNumbers, run_identity),
    BINARY("Add", 7, run_add),
    BINARY("Sub", 7, run_sub),
    BINARY("Mul", 7, run_mul),
    BINARY("Div", 7, run_div),
    {"MatMul", 1, kNewest, "T", kFloatOnly, {}, 2, 2, -1, infer_product, product_scratch, prepare_product, run_product},
    {"Gemm", 7, kNewest, "T", kFloatOnly, kGemmAttributes, 2, 3, -1, infer_product, product_scratch, prepare_product,
     run_product},
    {"Conv", 1, kNewest, "T", kFloatOnly, kConvAttributes, 2, 3, -1, infer_conv, nullptr, nullptr, run_conv},
    {"Reshape", 5, kNewest, "T", kNumbers, kReshapeAttributes, 2, 2, 1, infer_reshape, nullptr, nullptr, run_identity},
    {"Flatten", 1, kNewest, "T", kNumbers, kFlattenAttributes, 1, 1, -1, infer_flatten, nullptr, nullptr, run_identity},
};
#undef UNARY
#undef BINARY

}  // namespace

std::span<const SimOp> sim_ops() { return kOps; }

const SimOp* find_op(std::string_view domain, std::string_view op_type, int since) {
  if (!domain.empty()) return nullptr;
  for (const SimOp& op : kOps)
    if (op.op_type == op_type && since >= op.since && since <= op.until) return &op;
  return nullptr;
}

bool takes(const SimOp& op, DataType type) {
  return std::find(op.types.begin(), op.types.end(), type) != op.types.end();
}

Status check_operands(const SimOp& op, std::span<const SimTensor> inputs) {
  TENON_INVALID_IF(inputs.size() < op.least_inputs || inputs.size() > op.most_inputs,
                   "{} has {} inputs; it takes {} to {}.", op.op_type, inputs.size(), op.least_inputs, op.most_inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool absent = inputs[i].type == DataType::kUndefined;
    TENON_INVALID_IF(absent && i < op.least_inputs, "{} has no input {}.", op.op_type, i);
    if (absent || static_cast<int>(i) == op.host_input) continue;
    TENON_UNSUPPORTED_IF(!takes(op, inputs[i].type), "{} has elements of type {}.", op.op_type,
                         data_type_name(inputs[i].type));
  }
  return Status();
}

}  // namespace tenon::sim
