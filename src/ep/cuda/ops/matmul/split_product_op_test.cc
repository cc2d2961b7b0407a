// Products that read split f16 operands of the kernel before them, and their results. The latter needs a device.
#include "ep/cuda/ops/matmul/split_product_op.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ep/cuda/compute/device_testing.h"
#include "ep/cuda/compute/region.h"
#include "ep/cuda/ops/conv/op.h"
#include "plan/testing.h"

namespace tenon::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr float kInfinite = std::numeric_limits<float>::infinity(), kNone = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kRows = 48, kInner = 1024, kOuter = 256;

ConstantRef constant(const Shape& shape, const std::vector<float>& values) {
  std::byte* data = nullptr;
  ConstantRef made = *make_constant(DataType::kFloat, shape, &data);
  std::memcpy(data, values.data(), values.size() * sizeof(float));
  return made;
}

// n = LayerNormalization(x), y = n + b2 + Gelu(n w1 + b1) w2.
struct Block {
  std::vector<float> scale = random_floats(kOuter, 1, 0.5F, 2), shift = random_floats(kOuter, 2);
  std::vector<float> w1 = random_floats(kOuter * kInner, 3, -0.1F, 0.1F), b1 = random_floats(kInner, 4);
  std::vector<float> w2 = random_floats(kInner * kOuter, 5, -0.1F, 0.1F), b2 = random_floats(kOuter, 6);
  bool gelu_is_output = false;

  Graph graph(int64_t rows = kRows) const {
    plan_testing::GraphBuilder builder;
    builder.graph.opsets = {{"", 20}, {"tenon", 1}};
    const auto add = [&](const char* name, const Shape& shape, const std::vector<float>& values) {
      return builder.graph.add_constant(name, constant(shape, values));
    };
    const ValueId x = builder.input("x", {{rows, {}}, {kOuter, {}}});
    const ValueId normal = builder.node(
        "LayerNormalization", {x, add("scale", Shape{kOuter}, scale), add("shift", Shape{kOuter}, shift)}, "normal");
    builder.last().set_float("epsilon", 1e-6F);
    const ValueId up = builder.node("MatMul", {normal, add("w1", Shape{kOuter, kInner}, w1)}, "up");
    const ValueId biased = builder.node("Add", {up, add("b1", Shape{kInner}, b1)}, "biased");
    const ValueId gelu = builder.node("Gelu", {biased}, "gelu");
    const ValueId down = builder.node("MatMul", {gelu, add("w2", Shape{kInner, kOuter}, w2)}, "down");
    const ValueId sum = builder.node("Add", {down, add("b2", Shape{kOuter}, b2)}, "sum");
    builder.output(builder.node("Add", {sum, normal}, "y"));
    if (gelu_is_output) builder.output(gelu);
    return builder.graph;
  }

  std::string text(bool tf32 = true, bool split = true, int64_t rows = kRows) const {
    Result<Region> region = Region::prepare(graph(rows));
    EXPECT_TRUE(region.ok()) << region.status().to_string();
    const Result<Program> program =
        region->lower_at(std::vector<Shape>{Shape{rows, kOuter}}, tf32, Program::kWorkspaceBytes, split);
    EXPECT_TRUE(program.ok()) << program.status().to_string();
    return program.ok() ? program->to_text() : "";
  }

  // By additions in double.
  std::vector<double> expected(const std::vector<float>& x, std::vector<double>* gelus) const {
    std::vector<double> y;
    for (size_t row = 0; row < x.size(); row += kOuter) {
      std::vector<double> normal(kOuter), inner(b1.begin(), b1.end()), outer(b2.begin(), b2.end());
      double mean = 0, variance = 0;
      for (size_t i = 0; i < kOuter; ++i) mean += double{x[row + i]} / kOuter;
      for (size_t i = 0; i < kOuter; ++i) variance += (x[row + i] - mean) * (x[row + i] - mean) / kOuter;
      for (size_t i = 0; i < kOuter; ++i)
        normal[i] = (x[row + i] - mean) / std::sqrt(variance + 1e-6) * double{scale[i]} + double{shift[i]};
      for (size_t i = 0; i < kOuter; ++i)
        for (size_t j = 0; j < kInner; ++j) inner[j] += normal[i] * double{w1[i * kInner + j]};
      for (double& value : inner) value *= 0.5 * (1 + std::erf(value / std::sqrt(2.0)));
      for (size_t j = 0; j < kInner; ++j)
        for (size_t i = 0; i < kOuter; ++i) outer[i] += inner[j] * double{w2[j * kOuter + i]};
      for (size_t i = 0; i < kOuter; ++i) y.push_back(outer[i] + normal[i]);
      gelus->insert(gelus->end(), inner.begin(), inner.end());
    }
    return y;
  }
};

TEST(WeightBound, IsThatOfTheColumns) {
  // Three columns: (1, -4), (0, 0), (-0.25, 0).
  const std::vector<float> by_depth = {1, 0, -0.25F, -4, 0, 0}, by_column = {1, -4, 0, 0, -0.25F, 0};
  WeightBounds bounds;
  const WeightBound bound = bounds.of(constant(Shape{2, 3}, by_depth), false);
  EXPECT_EQ(bound.largest, 4);
  EXPECT_EQ(bound.least_largest, 0.25F);
  EXPECT_NEAR(bound.norm, std::sqrt(17.0), 1e-6);
  EXPECT_TRUE(bound.finite);
  EXPECT_EQ(bounds.of(constant(Shape{3, 2}, by_column), true), bound);
}

TEST(WeightBound, OfManyIsTheSameInBothOrders) {
  constexpr int64_t kDepth = 83, kColumns = 601;
  const std::vector<float> w = random_floats(kDepth * kColumns, 1);
  std::vector<float> transposed(w.size());
  double norm = 0;
  for (size_t c = 0; c < kColumns; ++c) {
    double squares = 0;
    for (size_t d = 0; d < kDepth; ++d) {
      transposed[c * kDepth + d] = w[d * kColumns + c];
      squares += double{w[d * kColumns + c]} * double{w[d * kColumns + c]};
    }
    norm = std::max(norm, std::sqrt(squares));
  }
  WeightBounds bounds;
  const WeightBound a = bounds.of(constant(Shape{kDepth, kColumns}, w), false);
  const WeightBound b = bounds.of(constant(Shape{kColumns, kDepth}, transposed), true);
  EXPECT_EQ(a.largest, b.largest);
  EXPECT_EQ(a.least_largest, b.least_largest);
  EXPECT_NEAR(a.norm, norm, 1e-5);
  EXPECT_NEAR(b.norm, norm, 1e-5);
}

TEST(WeightBound, KnowsWhatIsNotFinite) {
  for (float value : {kInfinite, -kInfinite, kNone, 3e38F})  // the square of the last one is infinite
    for (bool rows : {false, true})
      EXPECT_FALSE(WeightBounds().of(constant(Shape{2, 2}, {1, value, 2, 3}), rows).finite) << value;
}

TEST(WeightBounds, AreOfTheConstantThatIsAskedFor) {
  WeightBounds bounds;
  ConstantRef one = constant(Shape{1, 1}, {1}), two = constant(Shape{1, 1}, {2});
  EXPECT_EQ(bounds.of(one, false).largest, 1);
  EXPECT_EQ(bounds.of(two, false).largest, 2);
  EXPECT_EQ(bounds.of(one, true).largest, 1);
  EXPECT_EQ(bounds.of(one, false).largest, 1);
}

TEST(SplitProductOp, ReadsWhatTheKernelBeforeItWrites) {
  const std::string text = Block().text();
  EXPECT_THAT(text, HasSubstr("layer_norm float32 48x256 to terms 2"));
  EXPECT_THAT(text, HasSubstr("split_product 48x1024x256 terms 2 act 8 bias no result to terms 2"));
  EXPECT_THAT(text, HasSubstr("split_product 48x256x1024 terms 2 act 0 bias residual"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;
  EXPECT_THAT(Block().text(false), HasSubstr("1024x256 terms 3 act 8 bias no result to terms 3"));
}

TEST(SplitProductOp, WhatElseIsReadIsWrittenTooAsItIs) {
  Block block;
  block.gelu_is_output = true;
  EXPECT_THAT(block.text(), HasSubstr("terms 2 act 8 bias to terms 2"));
}

TEST(SplitProductOp, IsNotUsedWhereF16PartsWouldNotDo) {
  const std::string product = "split_product";
  EXPECT_THAT(Block().text(true, false), Not(HasSubstr(product)));
  EXPECT_THAT(Block().text(true, true, kRowsThatCostNothing), Not(HasSubstr(product)));
  Block infinite;
  infinite.w1[7] = kInfinite;
  EXPECT_THAT(infinite.text(), Not(HasSubstr(product)));
  Block uneven;  // a column whose weights are 2^-13 of the others'
  for (size_t i = 0; i < kOuter; ++i) uneven.w1[i * kInner + 5] *= 0x1p-13F;
  EXPECT_THAT(uneven.text(), Not(HasSubstr(product)));
  Block tiny;
  for (float& weight : tiny.w1) weight *= 1e-20F;
  EXPECT_THAT(tiny.text(), Not(HasSubstr(product)));
  Block unbounded;  // the norm of rows is not
  unbounded.scale[3] = kInfinite;
  EXPECT_THAT(unbounded.text(), Not(HasSubstr(product)));
  Block second;  // of the second product alone
  second.w2[3] = kNone;
  EXPECT_THAT(second.text(), HasSubstr("split_product 48x1024x256 terms 2 act 8 bias <-"));
  EXPECT_THAT(second.text(), Not(HasSubstr("split_product 48x256x1024")));
}

class SplitProductOnDevice : public DeviceTest {
 protected:
  std::vector<std::vector<float>> run(const Block& block, bool tf32, const std::vector<float>& x) {
    auto context = make_context({.tf32 = tf32, .measure = false});
    auto region = ComputeRegion::create(context, block.graph());
    EXPECT_TRUE(region.ok()) << region.status().to_string();
    auto plan = (*region)->plan(std::vector<Shape>{Shape{kRows, kOuter}});
    EXPECT_TRUE(plan.ok()) << plan.status().to_string();
    if (!plan.ok()) return {};
    EXPECT_THAT(*(*plan)->report(false), HasSubstr("split_product"));
    const DeviceBlockRef in = upload(*context, x.data(), x.size() * sizeof(float));
    std::vector<std::vector<float>> results = {std::vector<float>(kRows * kOuter, kNone)};
    if (block.gelu_is_output) results.emplace_back(kRows * kInner, kNone);
    std::vector<DeviceBlockRef> blocks;
    std::vector<CUdeviceptr> outputs;
    for (const auto& result : results) {
      blocks.push_back(upload(*context, result.data(), result.size() * sizeof(float)));
      outputs.push_back(blocks.back()->address());
    }
    const CUdeviceptr inputs[] = {in->address()};
    const Status status = (*plan)->run(inputs, outputs, context->stream());
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(device_->driver().StreamSynchronize(context->stream()), CUDA_SUCCESS);
    for (size_t i = 0; i < results.size(); ++i) {
      const std::vector<std::byte> bytes = download(outputs[i], results[i].size() * sizeof(float));
      std::memcpy(results[i].data(), bytes.data(), bytes.size());
    }
    return results;
  }
};

double error(const std::vector<float>& got, const std::vector<double>& wanted) {
  double largest = 0, worst = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    largest = std::max(largest, std::fabs(wanted[i]));
    worst = std::max(worst, std::fabs(double{got[i]} - wanted[i]));
  }
  return worst / largest;
}

// Compute: as good as the float32 that it stands for, and with TF32 better than that.
TEST_F(SplitProductOnDevice, AreRight) {
  std::vector<float> x = random_floats(kRows * kOuter, 7, -3, 5);
  x[5] = 1000;  // one number that is nearly all of its row's norm
  for (bool gelu_is_output : {false, true})
    for (float factor : {1.0F, 1e-3F, 30.0F})  // of the weights
      for (bool tf32 : {true, false}) {
        if (!case_is_in_part() || (small_sizes() && factor != 1.0F)) continue;
        Block block;
        block.gelu_is_output = gelu_is_output;
        for (float& weight : block.w1) weight *= factor;
        std::vector<double> gelus;
        const std::vector<double> wanted = block.expected(x, &gelus);
        const auto results = run(block, tf32, x);
        ASSERT_FALSE(results.empty());
        EXPECT_LE(error(results[0], wanted), tf32 ? 5e-4 : 2e-6) << factor;
        if (gelu_is_output) {
          EXPECT_LE(error(results[1], gelus), tf32 ? 5e-4 : 2e-6) << factor;
        }
      }
}

TEST_F(SplitProductOnDevice, ARowThatIsNoNumberIsNoneAndTheOthersStay) {
  std::vector<float> x = random_floats(kRows * kOuter, 7);
  const Block block;
  const auto before = run(block, true, x);
  x[kOuter + 3] = kInfinite;
  x[3 * kOuter + 9] = kNone;
  const auto after = run(block, true, x);
  ASSERT_FALSE(before.empty() || after.empty());
  for (size_t i = 0; i < kRows * kOuter; ++i) {
    if (i / kOuter == 1 || i / kOuter == 3) {
      EXPECT_TRUE(std::isnan(after[0][i])) << i;
    } else {
      EXPECT_EQ(after[0][i], before[0][i]) << i;
    }
  }
}

}  // namespace
}  // namespace tenon::cuda
