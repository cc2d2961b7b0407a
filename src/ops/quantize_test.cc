#include "ops/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Granularity = QuantizationDesc::Granularity;

Node make(int version, std::optional<int64_t> axis = {}, std::optional<int64_t> block = {}) {
  Node node;
  node.op_type = "DequantizeLinear";
  node.since_version = version;
  if (axis) node.set_int("axis", *axis);
  if (block) node.set_int("block_size", *block);
  return node;
}

std::vector<int64_t> parameters(const QuantizationDesc& desc, int64_t elements) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < elements; ++i) all.push_back(desc.parameter_of(i));
  return all;
}

TEST(Quantization, OneParameterIsOfTheTensor) {
  EXPECT_EQ(read_quantization(make(10), Shape{2, 3}, Shape{})->granularity, Granularity::kTensor);
  // Before 13 there is no axis: a vector of one element is a number.
  EXPECT_EQ(read_quantization(make(10), Shape{2, 1}, Shape{1})->granularity, Granularity::kTensor);
  EXPECT_EQ(read_quantization(make(13), Shape{2, 3}, Shape{1})->granularity, Granularity::kTensor);
  EXPECT_EQ(read_quantization(make(13), Shape{2, 1}, Shape{1})->granularity, Granularity::kAxis);
}

TEST(Quantization, AnAxisHasAParameterForEachPlace) {
  const Result<QuantizationDesc> desc = read_quantization(make(13), Shape{2, 3}, Shape{3});
  ASSERT_TRUE(desc.ok());
  EXPECT_EQ(desc->axis, 1);
  EXPECT_THAT(parameters(*desc, 6), ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_EQ(read_quantization(make(13, -2), Shape{2, 3}, Shape{2})->axis, 0);
}

TEST(Quantization, BlocksShareAParameterAlongTheAxis) {
  const Result<QuantizationDesc> last = read_quantization(make(21, 1, 2), Shape{2, 3}, Shape{2, 2});
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(last->granularity, Granularity::kBlock);
  EXPECT_THAT(parameters(*last, 6), ElementsAre(0, 0, 1, 2, 2, 3));
  const Result<QuantizationDesc> first = read_quantization(make(21, 0, 2), Shape{3, 2}, Shape{2, 2});
  ASSERT_TRUE(first.ok());
  EXPECT_THAT(parameters(*first, 6), ElementsAre(0, 1, 0, 1, 2, 3));
}

TEST(Quantization, RefusesParametersThatDoNotFit) {
  const auto message = [](const Node& node, const Shape& parameter) {
    return read_quantization(node, Shape{2, 3}, parameter).status().message();
  };
  EXPECT_THAT(message(make(13), Shape{2}), HasSubstr("needs [3]"));
  EXPECT_THAT(message(make(13, 2), Shape{2}), HasSubstr("axis 2"));
  EXPECT_THAT(message(make(13, -3), Shape{1}), HasSubstr("axis -3"));
  EXPECT_THAT(message(make(21), Shape{2, 3}), HasSubstr("without blocks"));
  EXPECT_THAT(message(make(21, 1, 2), Shape{2, 3}), HasSubstr("needs [2,2]"));
  EXPECT_THAT(message(make(21, 1, -2), Shape{2, 2}), HasSubstr("blocks of -2"));
}

}  // namespace
}  // namespace tenon
