#include "runtime/node_cost.h"

#include <string_view>
#include <vector>

#include "base/testing.h"

namespace tenon {
namespace {

NodeCost cost(std::string_view op_type, const std::vector<Shape>& inputs, const std::vector<Shape>& outputs) {
  NodeRun node;
  node.op_type = op_type;
  for (const Shape& shape : inputs) node.inputs.push_back({DataType::kFloat, shape, false});
  for (const Shape& shape : outputs) node.outputs.push_back({DataType::kFloat, shape, false});
  return node_cost(node);
}

TEST(NodeCost, AProductCountsMultiplicationsAndAdditions) {
  const NodeCost matmul = cost("MatMul", {{5, 2, 3}, {3, 7}}, {{5, 2, 7}});
  EXPECT_EQ(matmul.flops, 2 * 5 * 2 * 3 * 7);
  EXPECT_EQ(matmul.bytes, 4 * (30 + 21 + 70));
  // Gemm's operands may be transposed.
  EXPECT_EQ(cost("Gemm", {{2, 3}, {3, 7}, {7}}, {{2, 7}}).flops, 2 * 2 * 3 * 7);
  EXPECT_EQ(cost("Gemm", {{3, 2}, {7, 3}, {7}}, {{2, 7}}).flops, 2 * 2 * 3 * 7);
  EXPECT_EQ(cost("MatMul", {{3}, {3}}, {{}}).flops, 2 * 3);
}

TEST(NodeCost, AConvolutionCountsItsWindow) {
  // Two groups: each output element reads 4 of 8 channels.
  EXPECT_EQ(cost("Conv", {{1, 8, 10, 10}, {16, 4, 3, 3}}, {{1, 16, 8, 8}}).flops, 2.0 * 16 * 64 * 4 * 9);
  EXPECT_EQ(cost("ConvTranspose", {{1, 8, 5, 5}, {8, 6, 2, 2}}, {{1, 6, 10, 10}}).flops, 2.0 * 8 * 25 * 6 * 4);
  for (const char* op : {"QLinearConv", "QuantizedConv"})
    EXPECT_EQ(cost(op, {{1, 8, 4}, {}, {}, {16, 8, 1}, {}, {}, {}, {}}, {{1, 16, 4}}).flops, 2.0 * 16 * 4 * 8) << op;
  EXPECT_EQ(cost("QuantizedMatMul", {{5, 3}, {}, {}, {3, 7}}, {{5, 7}}).flops, 2.0 * 5 * 3 * 7);
}

TEST(NodeCost, AttentionCountsScoresAndValues) {
  const double expected = 2.0 * (2 * 6 * 9 * 4 * 2);  // 2 heads of 4, 6 queries, 9 keys, in a batch of 2
  EXPECT_EQ(cost("Attention", {{2, 6, 8}, {2, 9, 8}, {2, 9, 8}}, {{2, 6, 8}}).flops, expected * 2);
  EXPECT_EQ(cost("Attention", {{2, 2, 6, 4}, {2, 2, 9, 4}, {2, 2, 9, 4}}, {{2, 2, 6, 4}}).flops, expected * 2);
  EXPECT_EQ(cost("PackedAttention", {{2, 6, 24}}, {{2, 6, 8}}).flops, 2.0 * 2 * (2 * 6 * 6 * 8));
}

TEST(NodeCost, ARecurrenceCountsBothMatricesInEachStep) {
  EXPECT_EQ(cost("LSTM", {{7, 2, 3}, {1, 16, 3}, {1, 16, 4}}, {{7, 1, 2, 4}}).flops, 2.0 * 7 * 2 * (16 * 3 + 16 * 4));
}

TEST(NodeCost, AnyOtherOperatorCountsElements) {
  EXPECT_EQ(cost("Relu", {{3, 4}}, {{3, 4}}).flops, 12);
  EXPECT_EQ(cost("ReduceSum", {{3, 4}}, {{3}}).flops, 12);
  EXPECT_EQ(cost("Transpose", {{3, 4}}, {{4, 3}}).flops, 0);
  EXPECT_EQ(cost("Transpose", {{3, 4}}, {{4, 3}}).bytes, 2 * 48);
}

TEST(NodeCost, ALookupReadsNoMoreThanItGives) {
  EXPECT_EQ(cost("Gather", {{1000, 8}, {2}}, {{2, 8}}).bytes, 64 + 8 + 64);
  EXPECT_EQ(cost("Shape", {{1000, 8}}, {{2}}).bytes, 8);
}

TEST(NodeCost, NoShapeIsTooOdd) {
  EXPECT_EQ(cost("MatMul", {}, {}).flops, 0);
  EXPECT_EQ(cost("Conv", {{0, 8, 4, 4}, {0, 8, 3, 3}}, {{0, 0, 2, 2}}).flops, 0);
  EXPECT_EQ(cost("Attention", {{2}}, {{2}}).flops, 0);
  EXPECT_EQ(cost("Attention", {{2}, {3, 4}}, {{2}}).bytes, 4 * (2 + 12 + 2));
}

}  // namespace
}  // namespace tenon
