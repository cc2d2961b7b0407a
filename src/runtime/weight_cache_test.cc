// Packed weights: one for each constant and format, and none for a constant that is gone.
#include "runtime/weight_cache.h"

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "base/testing.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

constexpr size_t kBytes = 256;

// A packer that counts its calls and writes its number.
class CountingPacker {
 public:
  PackFunction function() {
    return [this](const std::byte*, std::byte* to) { std::memset(to, ++calls_, kBytes); };
  }
  int calls() const { return calls_; }

 private:
  std::atomic<int> calls_{0};
};

ConstantRef constant() {
  std::byte* data = nullptr;
  return make_constant(DataType::kFloat, Shape{4}, &data).value();
}

TEST(WeightCache, ASizeThatDiffersFromTheFirstIsRefused) {
  SessionWeightCache cache;
  CountingPacker packer;
  const ConstantRef weight = constant();
  EXPECT_THAT(cache.get(weight, "rows", kBytes, packer.function()), is_ok());
  EXPECT_THAT(cache.get(weight, "rows", kBytes / 2, packer.function()),
              has_status(StatusCode::kInternal, HasSubstr("\"rows\" into 256 bytes before, and 128")));
}

// Plans for other shapes must neither pack again nor keep a second copy.
TEST(WeightCache, AConstantIsPackedOnceForEachFormat) {
  SessionWeightCache cache;
  CountingPacker packer;
  const ConstantRef weight = constant(), other = constant();
  const auto rows = cache.get(weight, "rows", kBytes, packer.function()).value();
  EXPECT_EQ(cache.get(weight, "rows", kBytes, packer.function()).value(), rows);
  EXPECT_EQ(packer.calls(), 1);
  EXPECT_NE(cache.get(weight, "columns", kBytes, packer.function()).value(), rows);
  EXPECT_NE(cache.get(other, "rows", kBytes, packer.function()).value(), rows);
  EXPECT_EQ(packer.calls(), 3);
  EXPECT_EQ(cache.size_bytes(), 3 * kBytes);
}

// A plan's folded constant goes with its plan, and the next one may lie where it lay.
TEST(WeightCache, AConstantAtTheAddressOfOneThatIsGoneIsPackedAnew) {
  SessionWeightCache cache;
  CountingPacker packer;
  Constant place;
  ConstantRef weight(&place, [](const Constant*) {});
  EXPECT_EQ(cache.get(weight, "rows", kBytes, packer.function()).value().get()[0], std::byte{1});
  weight.reset();
  weight = ConstantRef(&place, [](const Constant*) {});
  EXPECT_EQ(cache.get(weight, "rows", kBytes, packer.function()).value().get()[0], std::byte{2});
  EXPECT_EQ(cache.size_bytes(), kBytes);
}

TEST(WeightCache, WhatWasPackedFromAConstantThatIsGoneIsDropped) {
  SessionWeightCache cache;
  CountingPacker packer;
  EXPECT_THAT(cache.get(constant(), "rows", kBytes, packer.function()), is_ok());
  const ConstantRef weight = constant();
  EXPECT_THAT(cache.get(weight, "rows", kBytes, packer.function()), is_ok());
  EXPECT_EQ(cache.size_bytes(), kBytes);
}

TEST(WeightCache, ThreadsThatAskAtOncePackOnce) {
  SessionWeightCache cache;
  CountingPacker packer;
  const ConstantRef weight = constant();
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto packed = cache.get(weight, "rows", kBytes, packer.function());
      EXPECT_EQ(packed.value().get()[kBytes - 1], std::byte{1});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(packer.calls(), 1);
}

}  // namespace
}  // namespace tenon
