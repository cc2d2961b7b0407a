#include "runtime/node_cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>

namespace tenon {

namespace {

using Tensor = NodeRun::Tensor;

// How the operations of an operator follow from its shapes.
enum class Work : uint8_t {
  kElements,       // one for each element
  kConv,           // each output element: a product with one filter
  kConvTranspose,  // each input element: a product with one filter
  kMatMul,         // each output element: a row of the first operand
  kGemm,           // the same, where either may be transposed
  kAttention,      // scores and their product with the values
  kRecurrent,      // each step: products with two matrices of weights
  kNone,           // moves bytes alone
};

struct Row {
  std::string_view op_type;
  Work work;
  size_t weights = 1;  // the input with filters, or the first matrix of weights
};

// Operators of all domains by their names. Quantised products have a scale and a zero point behind each operand.
constexpr Row kRows[] = {
    {"Conv", Work::kConv},
    {"ConvInteger", Work::kConv},
    {"FusedConv", Work::kConv},
    {"NhwcFusedConv", Work::kConv},
    {"QLinearConv", Work::kConv, 3},
    {"QuantizedConv", Work::kConv, 3},
    {"DeformConv", Work::kConv},
    {"ConvTranspose", Work::kConvTranspose},
    {"MatMul", Work::kMatMul},
    {"FusedMatMul", Work::kMatMul},
    {"MatMulInteger", Work::kMatMul},
    {"MatMulIntegerToFloat", Work::kMatMul},
    {"DynamicQuantizeMatMul", Work::kMatMul},
    {"MatMulNBits", Work::kMatMul},
    {"QLinearMatMul", Work::kMatMul},
    {"QuantizedMatMul", Work::kMatMul},
    {"TransposeMatMul", Work::kMatMul},
    {"Gemm", Work::kGemm},
    {"FusedGemm", Work::kGemm},
    {"QGemm", Work::kGemm, 3},
    {"Attention", Work::kAttention},
    {"PackedAttention", Work::kAttention},
    {"MultiHeadAttention", Work::kAttention},
    {"GroupQueryAttention", Work::kAttention},
    {"LSTM", Work::kRecurrent},
    {"GRU", Work::kRecurrent},
    {"RNN", Work::kRecurrent},
    {"DynamicQuantizeLSTM", Work::kRecurrent},
    {"Concat", Work::kNone},
    {"Expand", Work::kNone},
    {"Flatten", Work::kNone},
    {"Gather", Work::kNone},
    {"GatherElements", Work::kNone},
    {"GatherND", Work::kNone},
    {"Identity", Work::kNone},
    {"LookupOrDefault", Work::kNone},
    {"Pad", Work::kNone},
    {"Reorder", Work::kNone},
    {"Reshape", Work::kNone},
    {"ScatterElements", Work::kNone},
    {"ScatterND", Work::kNone},
    {"Shape", Work::kNone},
    {"Slice", Work::kNone},
    {"Split", Work::kNone},
    {"Squeeze", Work::kNone},
    {"Tile", Work::kNone},
    {"Transpose", Work::kNone},
    {"Unsqueeze", Work::kNone},
};

// They read no more of their first input than they give.
constexpr std::array<std::string_view, 8> kPartReaders = {"Gather", "GatherElements", "GatherND", "LookupOrDefault",
                                                          "Shape",  "Slice",          "Split",    "Size"};
// These read only the shape of it.
constexpr std::array<std::string_view, 2> kShapeReaders = {"Shape", "Size"};

double elements(std::span<const Tensor> tensors, size_t index) {
  return index < tensors.size() ? static_cast<double>(tensors[index].shape.element_count()) : 0;
}

double bytes_of(std::span<const Tensor> tensors, size_t index) {
  if (index >= tensors.size()) return 0;
  const Result<size_t> bytes = tensor_size_bytes(tensors[index].type, tensors[index].shape);
  return bytes.ok() ? static_cast<double>(*bytes) : 0;
}

// Of the dimension `axis`, counted from the end where it is negative; 0 where there is none.
double dim(std::span<const Tensor> tensors, size_t index, int axis) {
  if (index >= tensors.size()) return 0;
  const Shape& shape = tensors[index].shape;
  const int at = axis < 0 ? axis + shape.rank() : axis;
  return at >= 0 && at < shape.rank() ? static_cast<double>(shape[at]) : 0;
}

double attention(const NodeRun& node) {
  const std::span<const Tensor> in = node.inputs;
  if (node.op_type == "PackedAttention" || in.size() < 2) {
    const double steps = dim(in, 0, 1);
    return 4 * elements(in, 0) / 3 * steps;
  }
  // com.microsoft.Attention multiplies by the packed weights first.
  if (in[1].shape.rank() == 2) {
    const double rows = elements(in, 0) / std::max(dim(in, 1, 0), 1.0);
    return 2 * rows * elements(in, 1) + 4 * rows * dim(in, 1, 1) / 3 * dim(in, 0, 1);
  }
  return 4 * elements(in, 0) * dim(in, 1, in[1].shape.rank() == 4 ? 2 : 1);
}

double operations(const NodeRun& node) {
  const std::span<const Tensor> in = node.inputs, out = node.outputs;
  const auto* row =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& one) { return one.op_type == node.op_type; });
  double largest = elements(in, 0);
  for (size_t i = 0; i < out.size(); ++i) largest = std::max(largest, elements(out, i));
  if (row == std::end(kRows)) return largest;
  const double filters = std::max(dim(in, row->weights, 0), 1.0);
  switch (row->work) {
    case Work::kElements:
      return largest;
    case Work::kConv:
      return 2 * elements(out, 0) * elements(in, row->weights) / filters;
    case Work::kConvTranspose:
      return 2 * elements(in, 0) * elements(in, row->weights) / filters;
    case Work::kMatMul:
      return 2 * elements(out, 0) * dim(in, 0, -1);
    case Work::kGemm:
      return 2 * std::sqrt(elements(in, 0) * elements(in, row->weights) * elements(out, 0));
    case Work::kAttention:
      return attention(node);
    case Work::kRecurrent:
      return 2 * dim(in, 0, 0) * dim(in, 0, 1) * (elements(in, row->weights) + elements(in, row->weights + 1));
    case Work::kNone:
      return 0;
  }
  return largest;
}

template <size_t kCount>
bool contains(const std::array<std::string_view, kCount>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

NodeCost node_cost(const NodeRun& node) {
  NodeCost cost{.flops = operations(node)};
  double written = 0;
  for (size_t i = 0; i < node.outputs.size(); ++i) written += bytes_of(node.outputs, i);
  cost.bytes = written;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    double read = bytes_of(node.inputs, i);
    if (i == 0 && contains(kPartReaders, node.op_type)) read = std::min(read, written);
    if (i == 0 && contains(kShapeReaders, node.op_type)) read = 0;
    cost.bytes += read;
  }
  return cost;
}

}  // namespace tenon
