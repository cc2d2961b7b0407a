// The text of generated kernels; needs no device.
#include "ep/cuda/compute/codegen.h"

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

void expect_compiles(const GeneratedKernel& kernel) { expect_kernel_compiles({kernel.name, "", kernel.source}); }

TEST(GenerateElementwise, DenseOperandsBecomeOneDimensionOfVectors) {
  const auto kernel = generate_elementwise(add_of(DataType::kFloat16, {2, 3, 8}, {24, 8, 1}, {24, 8, 1}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_THAT(kernel->source, HasSubstr("flat >= 6u"));  // 48 elements, eight at a time
  EXPECT_THAT(kernel->source, HasSubstr("const index_t i0 = ir * 8u"));
  EXPECT_THAT(kernel->source, Not(HasSubstr("i1")));
  EXPECT_EQ(kernel->blocks, 1U);
  expect_compiles(*kernel);
}

TEST(GenerateElementwise, ABroadcastRowIsReadByItsOwnStride) {
  const auto kernel = generate_elementwise(add_of(DataType::kFloat, {4, 6}, {6, 1}, {0, 1}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_THAT(kernel->source, HasSubstr("Pack<float, 2>"));  // 6 is no multiple of 4
  EXPECT_THAT(kernel->source, HasSubstr("(a1 + (i1))"));
  expect_compiles(*kernel);
}

// Squares of an operand that lies the other way round go through shared memory; the other operand is read as it lies.
TEST(GenerateElementwise, ALargeTransposedOperandIsReadInSquares) {
  const auto kernel = generate_elementwise(add_of(DataType::kFloat, {3, 40, 70}, {2800, 70, 1}, {2800, 1, 40}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel->blocks, 3U * 2 * 3);
  EXPECT_THAT(kernel->source, HasSubstr("__shared__ float tile1[32][33]"));
  EXPECT_THAT(kernel->source, HasSubstr("s1 = tile1[across][down + r]"));
  EXPECT_EQ(kernel->in_place, (std::vector<bool>{true, false}));
  expect_compiles(*kernel);
}

TEST(GenerateElementwise, ASmallTransposedOperandIsReadElementByElement) {
  const auto kernel = generate_elementwise({.dims = {4, 8},
                                            .type = DataType::kFloat,
                                            .strides = {8, 1},
                                            .leaves = {{.type = DataType::kFloat, .strides = {1, 4}}}});
  ASSERT_TRUE(kernel.ok());
  EXPECT_THAT(kernel->source, HasSubstr("a0[i0 + i1 * 4]"));
  expect_compiles(*kernel);
}

// An index that a caller got wrong reads another element of the tensor, never memory beside it.
TEST(GenerateElementwise, GatheredIndicesAreHeldInTheTensor) {
  const auto kernel = generate_elementwise({.dims = {5, 8},
                                            .type = DataType::kFloat,
                                            .strides = {8, 1},
                                            .leaves = {{.type = DataType::kFloat,
                                                        .strides = {0, 1},
                                                        .gathered = true,
                                                        .index_strides = {1, 0},
                                                        .index_stride = 8,
                                                        .index_limit = 100}}});
  ASSERT_TRUE(kernel.ok());
  EXPECT_THAT(kernel->source, HasSubstr("if (g0 < 0) g0 += 100"));
  EXPECT_THAT(kernel->source, HasSubstr("g0 = g0 < 0 ? 0 : g0 >= 100 ? 99 : g0"));
  expect_compiles(*kernel);
}

TEST(GenerateElementwise, TheSameTextHasTheSameName) {
  const auto a = generate_elementwise(add_of(DataType::kFloat, {4, 8}, {8, 1}, {8, 1}));
  const auto b = generate_elementwise(add_of(DataType::kFloat, {32}, {1}, {1}));
  const auto c = generate_elementwise(add_of(DataType::kFloat, {33}, {1}, {1}));
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  EXPECT_EQ(a->name, b->name);
  EXPECT_NE(a->name, c->name);
}

// Every activation and every conversion of a float compiles for a device; what they compute, edge_values_test.py asks.
TEST(GenerateElementwise, HelpersCompileForADevice) {
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
  const auto kernel = generate_elementwise({.dims = {64},
                                            .type = DataType::kFloat,
                                            .strides = {1},
                                            .leaves = {{.type = DataType::kFloat, .strides = {1}}},
                                            .steps = steps});
  ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
  expect_compiles(*kernel);
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
    const auto kernel = generate_elementwise(
        {.dims = {64}, .type = type, .strides = {1}, .leaves = {{.type = type, .strides = {1}}}, .steps = steps});
    ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
    expect_compiles(*kernel);
  };
  std::vector<Unary> all;
  for (const UnaryRow& row : unary_rows()) all.push_back(row.function);
  for (DataType type : {DataType::kFloat, DataType::kDouble}) check(type, all);
  const Unary of_integers[] = {Unary::kAbs, Unary::kNeg, Unary::kRelu, Unary::kSign};
  for (DataType type : {DataType::kInt8, DataType::kUint64}) check(type, of_integers);
}

TEST(GenerateElementwise, StringsAreRefused) {
  EXPECT_EQ(generate_elementwise(add_of(DataType::kString, {4}, {1}, {1})).status().code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace tenon::cuda
