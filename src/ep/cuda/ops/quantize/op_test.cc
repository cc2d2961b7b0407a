// The tiles of products of integers; needs no device.
#include "ep/cuda/ops/quantize/op.h"

#include <gtest/gtest.h>

namespace tenon::cuda {
namespace {

// Integers are exact in any order, so that the tile may follow from the device.
TEST(IntegerProduct, TilesAreAsLargeAsKeepsAllProcessorsBusy) {
  const auto tile = [](int32_t rows, int32_t columns, int32_t batch = 1) {
    const IntegerTile found =
        IntegerProductOp::tile({.rows = rows, .columns = columns, .batch = batch}, /*processors=*/132);
    return std::pair(found.rows, found.columns);
  };
  EXPECT_EQ(tile(2048, 2048), std::pair(128U, 128U));
  EXPECT_EQ(tile(512, 768), std::pair(64U, 64U));
  EXPECT_EQ(tile(512, 768, 8), std::pair(128U, 128U));
  EXPECT_EQ(tile(50176, 64), std::pair(128U, 64U));  // half of 128 columns would be empty
  EXPECT_EQ(tile(5000, 40), std::pair(64U, 64U));
}

}  // namespace
}  // namespace tenon::cuda
