#include "ep/cpu/ops/conv/plain.h"

#include "ep/cpu/ops/vector_kernel.h"
#include "ops/unary.h"

namespace tenon::cpu::nn {

Status match_plain_conv(const KernelNode& node) {
  TENON_TRY(match_plain(node, DataType::kFloat));
  TENON_UNSUPPORTED_IF(!input_spec(node, 0).present() || !input_spec(node, 1).present(),
                       "X or the weights are absent.");
  return {};
}

Result<PlainConv> read_plain_conv(const KernelNode& node) {
  PlainConv read;
  TENON_TRY_ASSIGN(read.desc, read_conv(*node.node, node.inputs[0].shape, node.inputs[1].shape));
  const ConvDesc& conv = read.desc;
  const Shape y = conv.output();
  TENON_INVALID_IF(node.outputs[0].shape != y, "The output has shape {} instead of {}.",
                   node.outputs[0].shape.to_string(), y.to_string());
  TENON_UNSUPPORTED_IF(conv.window.axes.empty() || y.element_count() == 0 ||
                           node.inputs[0].shape.element_count() == 0 || node.inputs[1].shape.element_count() == 0,
                       "There is nothing to compute.");
  const TensorSpec &bias = input_spec(node, 2), &residual = input_spec(node, 3);
  TENON_INVALID_IF(bias.present() && bias.shape != Shape{conv.outputs}, "The bias has shape {} for {} channels.",
                   bias.shape.to_string(), conv.outputs);
  TENON_INVALID_IF(residual.present() && residual.shape != y, "The residual has shape {} for output {}.",
                   residual.shape.to_string(), y.to_string());
  if (node.node->domain == "tenon") {
    TENON_TRY_ASSIGN(read.epilogue, read_epilogue(*node.node));
  }
  return read;
}

}  // namespace tenon::cpu::nn
