// Which kernels elementwise chains become; needs no device.
#include "ep/cuda/compute/elementwise_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <span>

#include "ep/cuda/compute/activation.h"
#include "ep/cuda/compute/kernel_template_testing.h"

namespace tenon::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

GeneratedElementwise add_of(DataType type, std::vector<int64_t> dims, const std::vector<int64_t>& strides,
                            std::vector<int64_t> other) {
  return {.dims = std::move(dims),
          .type = type,
          .strides = strides,
          .leaves = {{.type = type, .strides = strides}, {.type = type, .strides = std::move(other)}},
          .steps = {{.type = type, .expression = "$0 + $1", .arguments = {0, 1}}}};
}

// The template arguments after the chain's name.
std::string arguments_of(const TemplateKernel& kernel) { return kernel.instance.substr(kernel.instance.find(',') + 2); }

// ElementwiseParams<false, 1, 2, 0>: as the device has it.
struct OneOperandParams {
  struct Operand {
    int32_t offset, step, strides[1];
  };
  Divisor sizes[1];
  uint64_t fill;
  int32_t begin[1], end[1];
  Operand layouts[2];
  int32_t extents[2];
};

TEST(ElementwiseKernel, DenseOperandsBecomeOneDimensionOfVectors) {
  const auto kernel = elementwise_kernel(add_of(DataType::kFloat16, {2, 3, 8}, {24, 8, 1}, {24, 8, 1}));
  ASSERT_TRUE(kernel.ok());
  // Narrow, of rank 1, in vectors of eight, one a thread, with a dense result.
  EXPECT_THAT(arguments_of(*kernel), HasSubstr("false, 1, 8, 1, 1u, true, 0, "));
  EXPECT_THAT(arguments_of(*kernel), HasSubstr("Read::kVector"));
  EXPECT_EQ(kernel->shape.grid_x, 1U);
  expect_instance_compiles(*kernel);
}

TEST(ElementwiseKernel, ABroadcastRowIsReadByItsOwnStride) {
  const auto kernel = elementwise_kernel(add_of(DataType::kFloat, {4, 6}, {6, 1}, {0, 1}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_THAT(arguments_of(*kernel), HasSubstr("false, 2, 2, 1, 3u"));  // 6 is no multiple of 4
  EXPECT_THAT(kernel->instance, HasSubstr("Read::kVector, 2u>"));       // one stride: along the row
  expect_instance_compiles(*kernel);
}

// Tiles of an operand that lies the other way round go through shared memory; the other operand is read as it lies.
TEST(ElementwiseKernel, ALargeTransposedOperandIsReadInTiles) {
  const auto kernel = elementwise_kernel(add_of(DataType::kFloat, {3, 40, 70}, {2800, 70, 1}, {2800, 1, 40}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel->shape.grid_x, 3U * 2 * 3);
  EXPECT_THAT(kernel->instance, HasSubstr("elementwise_tiles<"));
  EXPECT_THAT(kernel->instance, HasSubstr("Read::kElement, 7u>, tenon::cuda::device::Operand<float, "
                                          "tenon::cuda::device::Read::kTile, 7u>"));
  EXPECT_EQ(kernel->in_place, (std::vector<bool>{true, false}));
  expect_instance_compiles(*kernel);
}

TEST(ElementwiseKernel, ASmallTransposedOperandIsReadElementByElement) {
  const auto kernel = elementwise_kernel({.dims = {4, 8},
                                          .type = DataType::kFloat,
                                          .strides = {8, 1},
                                          .leaves = {{.type = DataType::kFloat, .strides = {1, 4}}}});
  ASSERT_TRUE(kernel.ok());
  EXPECT_THAT(kernel->instance, HasSubstr("Operand<float, tenon::cuda::device::Read::kElement, 3u>"));
  expect_instance_compiles(*kernel);
}

// The chain and how its operands lie make the code; sizes, strides and offsets are parameters.
TEST(ElementwiseKernel, AnotherSizeIsTheSameInstance) {
  const auto a = elementwise_kernel(add_of(DataType::kFloat, {4, 8}, {8, 1}, {0, 1}));
  const auto b = elementwise_kernel(add_of(DataType::kFloat, {70, 1000}, {1000, 1}, {0, 1}));
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->instance, b->instance);
  EXPECT_EQ(a->text, b->text);
  EXPECT_NE(a->params, b->params);
  const auto odd = elementwise_kernel(add_of(DataType::kFloat, {4, 9}, {9, 1}, {0, 1}));
  ASSERT_TRUE(odd.ok());
  EXPECT_NE(a->instance, odd->instance);
}

TEST(ElementwiseKernel, AnotherChainIsAnotherInstance) {
  GeneratedElementwise chain = add_of(DataType::kFloat, {32}, {1}, {1});
  const auto sum = elementwise_kernel(chain);
  chain.steps[0].expression = "$0 * $1";
  const auto product = elementwise_kernel(chain);
  ASSERT_TRUE(sum.ok() && product.ok());
  EXPECT_NE(sum->instance, product->instance);
}

TEST(ElementwiseKernel, ParametersHoldSizesStridesAndOffsets) {
  const auto kernel = elementwise_kernel({.dims = {10},
                                          .type = DataType::kFloat,
                                          .strides = {3},
                                          .offset = 5,
                                          .leaves = {{.type = DataType::kFloat, .strides = {-7}, .offset = 63}}});
  ASSERT_TRUE(kernel.ok());
  const auto params = params_of<OneOperandParams>(*kernel);
  EXPECT_EQ(params.sizes[0].size, 10U);
  EXPECT_EQ(params.layouts[0].offset, 63);
  EXPECT_EQ(params.layouts[0].strides[0], -7);
  EXPECT_EQ(params.layouts[1].offset, 5);
  EXPECT_EQ(params.layouts[1].strides[0], 3);
  EXPECT_EQ(params.extents[0], 10);
  expect_instance_compiles(*kernel);
}

// Outside of the window an operand is its fill, which is a parameter, too.
TEST(ElementwiseKernel, APaddedOperandHasAWindow) {
  const auto kernel = elementwise_kernel(
      {.dims = {10},
       .type = DataType::kInt32,
       .strides = {1},
       .leaves = {{.type = DataType::kInt32, .strides = {1}, .offset = -2, .begin = {2}, .end = {9}, .fill = 77}}});
  ASSERT_TRUE(kernel.ok());
  EXPECT_THAT(kernel->instance, HasSubstr("Read::kWindow, 1u, 0>"));
  const auto params = params_of<OneOperandParams>(*kernel);
  EXPECT_EQ(params.fill, 77U);
  EXPECT_EQ(params.begin[0], 2);
  EXPECT_EQ(params.end[0], 9);
  EXPECT_EQ(params.layouts[0].offset, -2);
  expect_instance_compiles(*kernel);
}

// The indices come after all operands; their limit is a parameter.
TEST(ElementwiseKernel, AGatheredOperandNamesItsIndices) {
  const auto kernel = elementwise_kernel({.dims = {5, 8},
                                          .type = DataType::kFloat,
                                          .strides = {8, 1},
                                          .leaves = {{.type = DataType::kFloat,
                                                      .strides = {0, 1},
                                                      .gathered = true,
                                                      .index_strides = {1, 0},
                                                      .index_stride = 8,
                                                      .index_limit = 100}}});
  ASSERT_TRUE(kernel.ok());
  EXPECT_THAT(kernel->instance, HasSubstr("Gathered<float, tenon::cuda::device::Read::kVector, 2u, long long, 1u, 1>"));
  EXPECT_EQ(kernel->in_place, (std::vector<bool>{false, false}));
  expect_instance_compiles(*kernel);
}

// 32 bits would wrap: element 2^32 would be element 0.
TEST(ElementwiseKernel, ManyElementsAreCountedIn64Bits) {
  const auto kernel = elementwise_kernel(add_of(DataType::kInt8, {(int64_t{1} << 32) + 5}, {1}, {1}));
  ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
  EXPECT_THAT(arguments_of(*kernel), HasSubstr("true, 1, 1, 4, 1u, true, 0"));
  expect_instance_compiles(*kernel);
}

// Every activation and every conversion of a float compiles for a device; what they compute, edge_values_test.py asks.
TEST(ElementwiseKernel, HelpersCompileForADevice) {
  std::vector<GeneratedStep> steps;
  const auto add = [&](DataType type, std::string text, int argument) {
    steps.push_back({.type = type, .expression = std::move(text), .arguments = {argument}});
    return ~static_cast<int>(steps.size() - 1);
  };
  int last = 0;
  for (auto kind = static_cast<int>(Activation::kNone); kind <= static_cast<int>(Activation::kTanh); ++kind) {
    const Epilogue epilogue{.activation = static_cast<Activation>(kind), .alpha = 0.5F, .beta = 1};
    const std::string text = activation_expression(epilogue, "$0");
    EXPECT_THAT(text, Not(HasSubstr("fmax"))) << "fmaxf() and fminf() lose a NaN.";
    EXPECT_THAT(text, Not(HasSubstr("fmin")));
    last = add(DataType::kFloat, text, last);
  }
  add(DataType::kInt64, "long_of($0)", last);
  add(DataType::kUint64, "unsigned_long_of($0)", last);
  add(DataType::kUint32, "unsigned_of($0)", last);
  const int cut = add(DataType::kInt8, "int_of($0)", last);
  const int wide = add(DataType::kDouble, "(double)$0", cut);
  add(DataType::kUint64, "unsigned_long_of($0)", wide);
  add(DataType::kInt32, "power($0, 0.5f)", cut);
  const auto kernel = elementwise_kernel({.dims = {64},
                                          .type = DataType::kFloat,
                                          .strides = {1},
                                          .leaves = {{.type = DataType::kFloat, .strides = {1}}},
                                          .steps = steps});
  ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
  expect_instance_compiles(*kernel);
}

TEST(UnaryExpression, IsTheListsFormulaOnAnOperand) {
  EXPECT_EQ(unary_expression({Unary::kRelu}, "$0"), "(larger(num($0, 0), $0))");
  EXPECT_EQ(unary_expression({Unary::kElu, 0.5}, "sum"),
            "(where_less(sum, num(sum, 0), num(sum, 5.00000000000000000e-01) * expm1_of(sum), sum))");
  EXPECT_THAT(unary_expression({Unary::kClip, 0, std::numeric_limits<double>::infinity()}, "$0"),
              HasSubstr("infinity_()"));
}

// Every formula of ops/activation_list.h compiles for a device: on float and double, some on integers.
TEST(UnaryExpression, EveryFormulaCompilesForADevice) {
  const auto check = [](DataType type, std::span<const Unary> functions) {
    std::vector<GeneratedStep> steps;
    int last = 0;
    for (const Unary function : functions) {
      steps.push_back({.type = type, .expression = unary_expression({function, 0.5, 1}, "$0"), .arguments = {last}});
      last = ~static_cast<int>(steps.size() - 1);
    }
    const auto kernel = elementwise_kernel(
        {.dims = {64}, .type = type, .strides = {1}, .leaves = {{.type = type, .strides = {1}}}, .steps = steps});
    ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
    expect_instance_compiles(*kernel);
  };
  std::vector<Unary> all;
  for (const UnaryRow& row : unary_rows()) all.push_back(row.function);
  for (DataType type : {DataType::kFloat, DataType::kDouble}) check(type, all);
  const Unary of_integers[] = {Unary::kAbs, Unary::kNeg, Unary::kRelu, Unary::kSign};
  for (DataType type : {DataType::kInt8, DataType::kUint64}) check(type, of_integers);
}

// Lowering::find_chains joins nodes up to 24 operands: with the most dimensions that a tensor has, of which none is
// joined, and 64-bit strides.
TEST(ElementwiseKernel, TheLongestChainsParametersFit) {
  GeneratedElementwise kernel{.dims = std::vector<int64_t>(Shape::kMaxRank, 8), .type = DataType::kFloat};
  std::vector<int64_t> even(Shape::kMaxRank), odd(Shape::kMaxRank);
  int64_t stride = 1;
  for (size_t d = Shape::kMaxRank; d-- > 0; stride *= 8) {
    kernel.strides.insert(kernel.strides.begin(), stride);
    (d % 2 == 0 ? even : odd)[d] = stride;
  }
  for (int l = 0; l < 24; ++l) kernel.leaves.push_back({.type = DataType::kFloat, .strides = l % 2 == 0 ? even : odd});
  kernel.steps = {{.type = DataType::kFloat, .expression = "$0 + $1", .arguments = {0, 1}}};
  const auto made = elementwise_kernel(kernel);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  EXPECT_GT(made->params.size(), 2048u);
  EXPECT_LE(made->params.size(), kMostParamsBytes);
  while (kernel.leaves.size() < 100) kernel.leaves.push_back(kernel.leaves.front());
  EXPECT_THAT(elementwise_kernel(kernel).status().message(), HasSubstr("A chain of 100 operands of rank 12"));
}

TEST(ElementwiseKernel, StringsAreRefused) {
  EXPECT_EQ(elementwise_kernel(add_of(DataType::kString, {4}, {1}, {1})).status().code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace tenon::cuda
