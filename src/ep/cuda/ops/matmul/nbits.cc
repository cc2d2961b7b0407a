// MatMulNBits: products with weights of 4 or 8 bits. Of few rows straight from the bytes (few_rows.cuh); of more rows
// the weights become numbers first, which is little beside the product.
#include <bit>
#include <memory>

#include "base/format.h"
#include "ep/cuda/ops/conv/op.h"
#include "ep/cuda/ops/matmul/few_rows.h"
#include "ep/cuda/ops/matmul/lower.h"
#include "ep/cuda/ops/narrow_sizes.h"
#include "ops/attributes.h"
#include "ops/block_quantized.h"

namespace tenon::cuda {

namespace {

// Errors: kUnsupported for what the kernels do not take.
Result<RowCandidate> read_nbits(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const NBitsDesc desc, read_matmul_nbits(node, input_shapes(to.graph(), node)));
  const DataType type = to.type_of(node.inputs[NBitsDesc::kA]);
  TENON_UNSUPPORTED_IF(!is_kernel_float(type), "{} multiplies {}.", to.label(node), data_type_name(type));
  TENON_TRY(can_multiply_nbits(to.graph(), node));
  RowCandidate found{.x = node.inputs[NBitsDesc::kA],
                     .w = node.inputs[NBitsDesc::kB],
                     .scales = node.inputs[NBitsDesc::kScales],
                     .zeros = node.input(NBitsDesc::kZeroPoints),
                     .bias = node.input(NBitsDesc::kBias),
                     .rows = desc.m,
                     .depth = desc.k,
                     .columns = desc.n,
                     .bits = static_cast<int>(desc.bits),
                     .block_size = desc.block_size};
  TENON_UNSUPPORTED_IF(to.type_of(found.w) != DataType::kUint8 || to.type_of(found.scales) != type,
                       "{} has weights of {} and scales of {}.", to.label(node), data_type_name(to.type_of(found.w)),
                       data_type_name(to.type_of(found.scales)));
  TENON_UNSUPPORTED_IF(found.zeros != kNoValue && to.type_of(found.zeros) != DataType::kUint8,
                       "{} has zero points of {}.", to.label(node), data_type_name(to.type_of(found.zeros)));
  return found;
}

}  // namespace

Status can_multiply_nbits(const Graph& graph, const Node& node) {
  const Attributes attributes(node);
  const int64_t bits = attributes.integer("bits"), block = attributes.find_integer("block_size").value_or(0),
                depth = attributes.find_integer("K").value_or(0);
  TENON_UNSUPPORTED_IF(bits != 4 && bits != 8, "{} has weights of {} bits.", node.label(graph), bits);
  TENON_UNSUPPORTED_IF(block < 16 || !std::has_single_bit(static_cast<uint64_t>(block)) || depth % 8 != 0,
                       "{} has blocks of {} in a depth of {}.", node.label(graph), block, depth);
  TENON_UNSUPPORTED_IF(node.input(NBitsDesc::kGroupIndex) != kNoValue, "{} has a group for each element.",
                       node.label(graph));
  for (size_t input : {NBitsDesc::kB, NBitsDesc::kScales, NBitsDesc::kZeroPoints, NBitsDesc::kBias}) {
    const ValueId id = node.input(input);
    TENON_UNSUPPORTED_IF(id != kNoValue && graph.value(id).constant == nullptr, "{} has weights that a run computes.",
                         node.label(graph));
  }
  const ValueId zeros = node.input(NBitsDesc::kZeroPoints);
  TENON_UNSUPPORTED_IF(zeros != kNoValue && graph.value(zeros).type != DataType::kUint8, "{} has zero points of {}.",
                       node.label(graph), data_type_name(graph.value(zeros).type));
  return Status();
}

std::optional<RowCandidate> nbits_candidate(Lowering& to, const Node& node) {
  const Result<RowCandidate> found = read_nbits(to, node);
  if (!found.ok() || !takes_few_rows(to.type_of(found->x), found->rows, found->depth, found->columns, found->bits))
    return std::nullopt;
  return *found;
}

Status lower_matmul_nbits(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const RowCandidate operand, read_nbits(to, node));
  const DataType type = to.type_of(operand.x);
  RowProduct product{.type = type,
                     .rows = operand.rows,
                     .depth = operand.depth,
                     .bits = operand.bits,
                     .block_size = operand.block_size};
  RowProduct::Matrix matrix{.columns = operand.columns};
  TENON_TRY_ASSIGN(matrix.w, to.typed_constant(operand.w));
  TENON_TRY_ASSIGN(matrix.scales, to.typed_constant(operand.scales));
  if (operand.zeros != kNoValue) {
    TENON_TRY_ASSIGN(matrix.zeros, to.typed_constant(operand.zeros));
  }
  product.matrices = {matrix};
  ConvTensors tensors;
  TENON_TRY_ASSIGN(tensors.x, to.plain(operand.x));
  if (operand.bias != kNoValue) {
    TENON_TRY_ASSIGN(tensors.bias, to.float_constant(operand.bias));
    TENON_TRY_ASSIGN(tensors.bias_typed, to.typed_constant(operand.bias));
  }
  TENON_TRY_ASSIGN(tensors.y, to.make(node.outputs[0]));
  if (operand.rows == 0) return Status();
  TENON_TRY(check_sizes(to, node, {operand.rows, operand.depth, operand.columns}));
  TENON_TRY_ASSIGN(tensors.w, add_widened(to, node, product));
  ConvParams params;
  params.in_c = params.depth = narrow(operand.depth);
  params.channels = narrow(operand.columns);
  params.pixels = narrow(operand.rows);
  params.constant_weights = 0;
  to.program().add_op(std::make_unique<ConvOp>(node.name, type, params, Epilogue{}, tensors));
  return Status();
}

}  // namespace tenon::cuda
