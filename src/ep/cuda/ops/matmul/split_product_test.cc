// The f16 parts of float32 numbers, and products of them against sums in double. Those need a device.
#include "ep/cuda/ops/matmul/split_product.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ep/cuda/compute/device_testing.h"
#include "ep/cuda/ops/conv/op.h"
#include "plan/testing.h"

namespace tenon::cuda {
namespace {

using ::testing::HasSubstr;

constexpr float kInfinite = std::numeric_limits<float>::infinity(), kNone = std::numeric_limits<float>::quiet_NaN();

struct Split {
  std::vector<std::vector<float>> terms;  // of one row, scaled back
};

Split split_row(const std::vector<float>& row, int32_t terms) {
  const SplitProblem problem{.rows = 1, .columns = 1, .depth = static_cast<int32_t>(row.size()), .terms = terms};
  std::vector<std::byte> bytes(problem.parts_bytes() + sizeof(int32_t));
  split_weights(row, problem, bytes.data());
  int32_t exponent = 0;
  std::memcpy(&exponent, bytes.data() + problem.parts_bytes(), sizeof(exponent));
  std::vector<float> parts(row.size() * terms);
  widen_floats({.type = DataType::kFloat16,
                .shape = Shape{static_cast<int64_t>(parts.size())},
                .data = bytes.data(),
                .size_bytes = problem.parts_bytes()},
               parts);
  Split split;
  for (size_t begin = 0; begin < parts.size(); begin += row.size()) {
    auto& term = split.terms.emplace_back();
    for (size_t i = 0; i < row.size(); ++i) term.push_back(std::ldexp(parts[begin + i], exponent));
  }
  return split;
}

TEST(SplitWeights, TwoPartsHaveTwentyTwoBits) {
  for (float scale : {1.0F, 1e-30F, 1e30F}) {
    std::vector<float> row = random_floats(64, 3);
    for (float& value : row) value *= scale;
    for (int32_t terms : {2, 3}) {
      const Split split = split_row(row, terms);
      const auto& high = split.terms.back();
      const auto& low = split.terms[split.terms.size() - 2];
      for (size_t i = 0; i < row.size(); ++i) {
        EXPECT_LE(std::fabs(high[i] - row[i]), std::ldexp(std::fabs(row[i]), -11));
        EXPECT_LE(std::fabs(high[i] + low[i] - row[i]), std::ldexp(scale, -38) + std::ldexp(std::fabs(row[i]), -22));
      }
      if (terms == 3) {
        EXPECT_EQ(split.terms[0], high);
      }
    }
  }
}

// Anywhere else it would meet a part of the other sign, and infinity less infinity is no number.
TEST(SplitWeights, AnInfinityIsInTheLastTermAlone) {
  const std::vector<float> row = {1, -kInfinite, 0.3F, 0, 3e38F, 1e-45F, -2, 5};
  for (int32_t terms : {2, 3}) {
    const Split split = split_row(row, terms);
    EXPECT_EQ(split.terms.back()[1], -kInfinite);
    for (size_t s = 0; s + 1 < split.terms.size(); ++s) {
      EXPECT_EQ(split.terms[s][1], 0);
    }
    EXPECT_NEAR(split.terms.back()[4], 3e38F, 3e38F * 0x1p-11F);
  }
}

TEST(SplitWeights, ARowOfNothingIsNothing) {
  for (const auto& term : split_row(std::vector<float>(8), 3).terms) EXPECT_EQ(term, std::vector<float>(8));
}

TEST(ChooseSplit, SmallOnesAndOtherTypesAreNotSplit) {
  ConvParams params;
  params.pixels = 128, params.depth = params.in_c = 3072, params.channels = 768;
  EXPECT_EQ(choose_split(DataType::kFloat, true, 1024, params).terms, 3);
  EXPECT_EQ(choose_split(DataType::kFloat, false, 1024, params).terms, 3);
  EXPECT_EQ(choose_split(DataType::kFloat16, false, 1024, params).terms, 0);
  EXPECT_EQ(choose_split(DataType::kFloat, false, 0, params).terms, 0);  // memory is short
  params.pixels = kRowsThatCostNothing;
  EXPECT_EQ(choose_split(DataType::kFloat, false, 1024, params).terms, 0);
  params.pixels = 128, params.depth = params.in_c = 768, params.channels = 3072;
  EXPECT_EQ(choose_split(DataType::kFloat, true, 1024, params).terms, 2);
  EXPECT_EQ(choose_split(DataType::kFloat, false, 1024, params).terms, 3);
  params.channels = 3072 - 4;
  EXPECT_EQ(choose_split(DataType::kFloat, false, 1024, params).terms, 0);
  params.channels = 64;
  EXPECT_EQ(choose_split(DataType::kFloat, true, 1024, params).terms, 0);
}

// A row whose largest number has the exponent that the shift is for is split alike by both.
TEST(SplitWeights, OneShiftForAllRowsIsTheirsWhereTheyHaveOneSize) {
  constexpr int32_t kDepth = 80, kColumns = 5;
  std::vector<float> w = random_floats(size_t{kDepth} * kColumns, 9);
  for (size_t i = 0; i < w.size(); ++i) w[i] = std::ldexp(w[i], -static_cast<int>(i % 41));
  for (size_t column = 0; column < kColumns; ++column) w[column * kDepth + column] = -0.75F;
  for (int32_t terms : {2, 3}) {
    const SplitProblem problem{.rows = 1, .columns = kColumns, .depth = kDepth, .terms = terms};
    std::vector<std::byte> alone(problem.parts_bytes() + kColumns * sizeof(int32_t)), together(problem.parts_bytes());
    split_weights(w, problem, alone.data());
    split_weights(w, problem, split_shift(0.75F), together.data());
    EXPECT_EQ(std::memcmp(alone.data(), together.data(), together.size()), 0);
  }
}

class SplitProducts : public DeviceTest {
 protected:
  // y = x * w on the device; `choice` is how.
  std::vector<float> multiply(const std::vector<float>& x, const std::vector<float>& w, int64_t rows, int64_t depth,
                              int64_t columns, bool tf32, std::string* choice) {
    plan_testing::GraphBuilder builder;
    const ValueId input = builder.input("x", {{rows, {}}, {depth, {}}}, DataType::kFloat);
    std::byte* data = nullptr;
    ConstantRef weights = *make_constant(DataType::kFloat, Shape{depth, columns}, &data);
    std::memcpy(data, w.data(), w.size() * sizeof(float));
    builder.output(
        builder.node("MatMul", {input, builder.graph.add_constant("w", std::move(weights))}, "y", DataType::kFloat));
    auto context = make_context({.tf32 = tf32, .measure = false});
    auto region = ComputeRegion::create(context, std::move(builder.graph));
    EXPECT_TRUE(region.ok()) << region.status().to_string();
    auto plan = (*region)->plan(std::vector<Shape>{Shape{rows, depth}});
    EXPECT_TRUE(plan.ok()) << plan.status().to_string();
    if (!plan.ok()) return {};
    *choice = *(*plan)->report(false);
    const DeviceBlockRef in = upload(*context, x.data(), x.size() * sizeof(float));
    std::vector<float> y(rows * columns, kNone);
    const DeviceBlockRef out = upload(*context, y.data(), y.size() * sizeof(float));
    const CUdeviceptr inputs[] = {in->address()}, outputs[] = {out->address()};
    const Status status = (*plan)->run(inputs, outputs, context->stream());
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(device_->driver().StreamSynchronize(context->stream()), CUDA_SUCCESS);
    const std::vector<std::byte> bytes = download(outputs[0], y.size() * sizeof(float));
    std::memcpy(y.data(), bytes.data(), bytes.size());
    return y;
  }
};

// Compute: a product without TF32 errs like one of float32 additions (2e-6 on the same device, by cuBLAS), four times
// as much where all that is added has one sign; whatever the size of the numbers.
TEST_F(SplitProducts, AreAsExactAsFloat32) {
  const int64_t rows = 48, depth = small_sizes() ? 256 : 3072, columns = 256;
  for (float low : {-1.0F, 0.0F}) {  // sums that cancel, and sums that grow
    std::vector<float> x = random_floats(rows * depth, 1, low), w = random_floats(depth * columns, 2, low);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t k = 0; k < depth; ++k) x[r * depth + k] *= std::ldexp(1.0F, static_cast<int>(r * 4 - 96));
    for (size_t i = 0; i < w.size(); ++i) w[i] *= std::ldexp(1.0F, static_cast<int>(i % columns / 16) - 8);
    for (bool tf32 : {false, true}) {
      if (tf32 && small_sizes()) continue;  // too small for f16 parts
      std::string choice;
      const std::vector<float> y = multiply(x, w, rows, depth, columns, tf32, &choice);
      if (!tf32) {
        EXPECT_THAT(choice, HasSubstr("split_f16"));
      }
      double worst = 0;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) {
          double sum = 0, squares = 0;
          for (int64_t k = 0; k < depth; ++k) {
            const double product = double{x[r * depth + k]} * double{w[k * columns + c]};
            sum += product;
            squares += product * product;
          }
          // The magnitude of the largest sums that such a row and column have.
          const double size = low < 0 ? 3 * std::sqrt(squares) : std::fabs(sum);
          const double error = (double{y[r * columns + c]} - sum) / size;
          worst = std::max(worst, std::fabs(error));
        }
      RecordProperty("error", std::to_string(worst));
      EXPECT_LE(worst, tf32 ? 1e-3 : low < 0 ? 4e-6 : 8e-6);
    }
  }
}

TEST_F(SplitProducts, WhatIsNotFiniteIsWhatFloat32MakesOfIt) {
  const int64_t rows = 40, depth = small_sizes() ? 256 : 1024, columns = small_sizes() ? 256 : 1600;
  std::vector<float> x = random_floats(rows * depth, 1), w = random_floats(depth * columns, 2);
  const auto at = [&](int64_t row, int64_t k) { return row * depth + k; };
  x[at(1, 5)] = kInfinite;
  x[at(2, 7)] = kNone;
  x[at(3, 9)] = kInfinite, x[at(3, 11)] = -kInfinite;
  for (int64_t k = 0; k < depth; ++k) x[at(4, k)] = 0;
  for (int64_t k = 0; k < depth; ++k) x[at(5, k)] = 3e38F;
  w[20 * columns + 8] = -kInfinite;
  for (int64_t k = 0; k < depth; ++k) w[k * columns + 9] = 0.5F;
  for (bool tf32 : {false, true}) {
    if (tf32 && small_sizes()) continue;  // too small for f16 parts
    std::string choice;
    const std::vector<float> y = multiply(x, w, rows, depth, columns, tf32, &choice);
    EXPECT_THAT(choice, HasSubstr("split_f16"));
    for (int64_t r = 0; r < 8; ++r)
      for (int64_t c = 0; c < 16; ++c) {
        double sum = 0;
        for (int64_t k = 0; k < depth; ++k) sum += double{x[at(r, k)]} * double{w[k * columns + c]};
        const float wanted = static_cast<float>(sum), got = y[r * columns + c];
        if (std::isnan(wanted)) {
          EXPECT_TRUE(std::isnan(got)) << r << " " << c << " " << got;
        } else if (!std::isfinite(wanted)) {
          EXPECT_EQ(got, wanted) << r << " " << c;
        } else {
          EXPECT_TRUE(std::isfinite(got)) << r << " " << c << " " << got << " for " << wanted;
        }
      }
    EXPECT_EQ(y[4 * columns], 0);
  }
}

}  // namespace
}  // namespace tenon::cuda
