#include "ops/matmul.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

Node make(std::string op_type, size_t inputs, std::string domain = "") {
  Node node;
  node.op_type = std::move(op_type);
  node.domain = std::move(domain);
  node.since_version = node.domain.empty() ? 13 : 1;
  for (size_t i = 0; i < inputs; ++i) node.inputs.push_back(ValueId(i));
  return node;
}

InputShapes shapes(std::initializer_list<Shape> all) {
  InputShapes made;
  for (const Shape& shape : all) made.push_back(shape);
  return made;
}

std::string message(const Node& node, std::initializer_list<Shape> all) {
  return read_matmul(node, shapes(all)).status().message();
}

TEST(MatMul, BatchDimensionsBroadcast) {
  const Result<MatMulDesc> desc = read_matmul(make("MatMul", 2), shapes({Shape{2, 1, 4, 5}, Shape{3, 5, 6}}));
  ASSERT_TRUE(desc.ok());
  EXPECT_EQ(desc->y, (Shape{2, 3, 4, 6}));
  EXPECT_EQ(desc->m, 4);
  EXPECT_EQ(desc->n, 6);
  EXPECT_EQ(desc->k, 5);
  std::vector<int64_t> a, b;
  for (int64_t i = 0; i < 6; ++i) {
    a.push_back(operand_matrix(desc->batch, desc->a_batch, i));
    b.push_back(operand_matrix(desc->batch, desc->b_batch, i));
  }
  EXPECT_THAT(a, ::testing::ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_THAT(b, ::testing::ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(message(make("MatMul", 2), {Shape{2, 4, 5}, Shape{3, 5, 6}}), HasSubstr("do not broadcast"));
}

TEST(MatMul, VectorsLeaveNoDimension) {
  EXPECT_EQ(read_matmul(make("MatMul", 2), shapes({Shape{5}, Shape{2, 5, 6}}))->y, (Shape{2, 6}));
  EXPECT_EQ(read_matmul(make("MatMul", 2), shapes({Shape{4, 5}, Shape{5}}))->y, Shape{4});
  EXPECT_EQ(read_matmul(make("MatMul", 2), shapes({Shape{5}, Shape{5}}))->y, Shape{});
  EXPECT_THAT(message(make("MatMul", 2), {Shape{}, Shape{5}}), HasSubstr("scalar"));
  EXPECT_THAT(message(make("MatMul", 2, "tenon"), {Shape{5}, Shape{5, 6}}), HasSubstr("rank 2"));
}

TEST(Gemm, TransposesBothOperands) {
  Node node = make("Gemm", 2);
  node.set_int("transA", 1);
  node.set_int("transB", 1);
  node.set_float("alpha", 0.5f);
  const Result<MatMulDesc> desc = read_matmul(node, shapes({Shape{5, 4}, Shape{6, 5}}));
  ASSERT_TRUE(desc.ok());
  EXPECT_EQ(desc->y, (Shape{4, 6}));
  EXPECT_EQ(desc->alpha, 0.5f);
  EXPECT_EQ(desc->a_row(), 1);
  EXPECT_EQ(desc->a_column(), 4);
  EXPECT_EQ(desc->b_row(), 1);
  EXPECT_EQ(desc->b_column(), 5);
  EXPECT_THAT(message(node, {Shape{4, 5}, Shape{6, 5}}), HasSubstr("4 against 5"));
  EXPECT_THAT(message(make("Gemm", 2), {Shape{1, 4, 5}, Shape{5, 6}}), HasSubstr("matrices"));
}

TEST(Gemm, TheAddendBroadcastsToTheProduct) {
  const auto strides = [](const Shape& c) {
    const Result<MatMulDesc> desc = read_matmul(make("Gemm", 3), shapes({Shape{4, 5}, Shape{5, 6}, c}));
    return desc.ok() ? std::pair(desc->addend_row, desc->addend_column) : std::pair<int64_t, int64_t>(-1, -1);
  };
  EXPECT_EQ(strides(Shape{4, 6}), std::pair(6L, 1L));
  EXPECT_EQ(strides(Shape{4, 1}), std::pair(1L, 0L));
  EXPECT_EQ(strides(Shape{1, 6}), std::pair(0L, 1L));
  EXPECT_EQ(strides(Shape{6}), std::pair(0L, 1L));
  EXPECT_EQ(strides(Shape{}), std::pair(0L, 0L));
  EXPECT_EQ(strides(Shape{4}), std::pair(-1L, -1L));
  EXPECT_EQ(strides(Shape{1, 4, 6}), std::pair(-1L, -1L));
}

// ONNX Runtime reads no element of C then: an infinity times 0 would be NaN. It does check C's shape.
TEST(Gemm, ABetaOfZeroLeavesNoAddend) {
  Node node = make("Gemm", 3);
  node.set_float("beta", 0);
  EXPECT_EQ(read_matmul_form(node).addend, kNoInput);
  EXPECT_THAT(message(node, {Shape{4, 5}, Shape{5, 6}, Shape{5}}), HasSubstr("does not broadcast"));
}

TEST(MatMul, TheInternalOneChecksBiasAndResidual) {
  Node node = make("MatMul", 4, "tenon");
  const Result<MatMulDesc> desc = read_matmul(node, shapes({Shape{4, 5}, Shape{5, 6}, Shape{6}, Shape{4, 6}}));
  ASSERT_TRUE(desc.ok());
  EXPECT_EQ(desc->addend, 2u);
  EXPECT_EQ(desc->residual, 3u);
  EXPECT_FALSE(desc->is_bare());
  EXPECT_THAT(message(node, {Shape{4, 5}, Shape{5, 6}, Shape{5}, Shape{4, 6}}), HasSubstr("bias has shape [5]"));
  EXPECT_THAT(message(node, {Shape{4, 5}, Shape{5, 6}, Shape{6}, Shape{6}}), HasSubstr("residual has shape [6]"));
}

TEST(MatMul, QuantisedOperandsHaveTheirParametersBeside) {
  const MatMulForm scaled = read_matmul_form(make("QLinearMatMul", 8));
  EXPECT_EQ(scaled.b, 3u);
  EXPECT_EQ(scaled.b_zero_point, 5u);
  EXPECT_EQ(scaled.y_scale, 6u);
  Node integer = make("MatMulInteger", 4);
  integer.inputs[2] = kNoValue;
  EXPECT_EQ(read_matmul_form(integer).a_zero_point, kNoInput);
  EXPECT_EQ(read_matmul_form(integer).b_zero_point, 3u);
}

TEST(MatMul, AWrittenFormIsReadBack) {
  Node node = make("MatMul", 2, "tenon");
  MatMulForm form = read_matmul_form(node);
  write_matmul_form(form, node);
  EXPECT_TRUE(node.attributes.empty());
  form.trans_b = true;
  form.alpha = 0.25f;
  write_matmul_form(form, node);
  EXPECT_TRUE(read_matmul_form(node).trans_b);
  EXPECT_EQ(read_matmul_form(node).alpha, 0.25f);
}

}  // namespace
}  // namespace tenon
