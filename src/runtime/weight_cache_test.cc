// Packed weights: one for each constant and format, and none for a constant that is gone.
#include "runtime/weight_cache.h"

#include <atomic>
#include <cstring>
#include <filesystem>
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
    return [this](const Constant&, std::byte* to) { std::memset(to, ++calls_, kBytes); };
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
  EXPECT_THAT(cache.get({&weight, 1}, "rows", kBytes, packer.function()), is_ok());
  EXPECT_THAT(cache.get({&weight, 1}, "rows", kBytes / 2, packer.function()),
              has_status(StatusCode::kInternal, HasSubstr("\"rows\" into 256 bytes before, and 128")));
}

// Plans for other shapes must neither pack again nor keep a second copy.
TEST(WeightCache, AConstantIsPackedOnceForEachFormat) {
  SessionWeightCache cache;
  CountingPacker packer;
  const ConstantRef weight = constant(), other = constant();
  const auto rows = cache.get({&weight, 1}, "rows", kBytes, packer.function()).value();
  EXPECT_EQ(cache.get({&weight, 1}, "rows", kBytes, packer.function()).value(), rows);
  EXPECT_EQ(packer.calls(), 1);
  EXPECT_NE(cache.get({&weight, 1}, "columns", kBytes, packer.function()).value(), rows);
  EXPECT_NE(cache.get({&other, 1}, "rows", kBytes, packer.function()).value(), rows);
  EXPECT_EQ(packer.calls(), 3);
  EXPECT_EQ(cache.size_bytes(), 3 * kBytes);
}

// A plan's folded constant goes with its plan, and the next one may lie where it lay.
TEST(WeightCache, AConstantAtTheAddressOfOneThatIsGoneIsPackedAnew) {
  SessionWeightCache cache;
  CountingPacker packer;
  Constant place;
  ConstantRef weight(&place, [](const Constant*) {});
  EXPECT_EQ(cache.get({&weight, 1}, "rows", kBytes, packer.function()).value().get()[0], std::byte{1});
  weight.reset();
  weight = ConstantRef(&place, [](const Constant*) {});
  EXPECT_EQ(cache.get({&weight, 1}, "rows", kBytes, packer.function()).value().get()[0], std::byte{2});
  EXPECT_EQ(cache.size_bytes(), kBytes);
}

TEST(WeightCache, WhatWasPackedFromAConstantThatIsGoneIsDropped) {
  SessionWeightCache cache;
  CountingPacker packer;
  ConstantRef weight = constant();
  EXPECT_THAT(cache.get({&weight, 1}, "rows", kBytes, packer.function()), is_ok());
  weight = constant();
  EXPECT_THAT(cache.get({&weight, 1}, "rows", kBytes, packer.function()), is_ok());
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
      const auto packed = cache.get({&weight, 1}, "rows", kBytes, packer.function());
      EXPECT_EQ(packed.value().get()[kBytes - 1], std::byte{1});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(packer.calls(), 1);
}

constexpr size_t kShared = 32 * 1024;

// Constants of kShared bytes: numbers from `first` on.
ConstantRef numbers(float first, const Shape& shape = {kShared / 8, 2}) {
  std::byte* data = nullptr;
  const ConstantRef made = make_constant(DataType::kFloat, shape, &data).value();
  for (size_t i = 0; i < kShared / 4; ++i) reinterpret_cast<float*>(data)[i] = first + static_cast<float>(i);
  return made;
}

// Counts its calls, and copies.
class Copier {
 public:
  PackFunction function() {
    return [this](const Constant& from, std::byte* to) { std::memcpy(to, from.data.bytes(), kShared), ++calls_; };
  }
  int calls() const { return calls_; }

 private:
  std::atomic<int> calls_{0};
};

TEST(SharedWeights, SessionsOfOneModelHaveOneCopy) {
  const auto packings = std::make_shared<SharedPackings>();
  Copier copier;
  const ConstantRef mine = numbers(1), yours = numbers(1);
  auto one = std::make_unique<SessionWeightCache>();
  SessionWeightCache two;
  one->share(packings, nullptr);
  two.share(packings, nullptr);
  const auto first = one->get({&mine, 1}, "rows", kShared, copier.function()).value();
  EXPECT_EQ(two.get({&yours, 1}, "rows", kShared, copier.function()).value(), first);
  EXPECT_EQ(copier.calls(), 1);
  EXPECT_EQ(packings->size_bytes(), kShared);
}

TEST(SharedWeights, BytesShapesFormatsAndFurtherConstantsTellPackingsApart) {
  const auto packings = std::make_shared<SharedPackings>();
  SessionWeightCache cache;
  cache.share(packings, nullptr);
  Copier copier;
  const ConstantRef weight = numbers(1), bytes = numbers(2), shape = numbers(1, {2, kShared / 8});
  const ConstantRef scaled[] = {weight, bytes}, rescaled[] = {weight, numbers(3)}, absent[] = {weight, nullptr};
  std::vector<std::shared_ptr<const std::byte>> made;
  for (const std::span<const ConstantRef> constants :
       {std::span(&weight, 1), std::span(&bytes, 1), std::span(&shape, 1), std::span<const ConstantRef>(scaled),
        std::span<const ConstantRef>(rescaled), std::span<const ConstantRef>(absent)}) {
    for (const char* format : {"rows", "columns"})
      made.push_back(cache.get(constants, format, kShared, copier.function()).value());
  }
  EXPECT_EQ(copier.calls(), 12);
  EXPECT_EQ(packings->size_bytes(), 12 * kShared);
}

TEST(SharedWeights, MemoryGoesWithTheLastSession) {
  const auto packings = std::make_shared<SharedPackings>();
  const ConstantRef weight = numbers(1);
  Copier copier;
  for (int i = 1; i <= 2; ++i) {
    SessionWeightCache cache;
    cache.share(packings, nullptr);
    EXPECT_THAT(cache.get({&weight, 1}, "rows", kShared, copier.function()), is_ok());
    EXPECT_EQ(packings->size_bytes(), kShared);
    EXPECT_EQ(copier.calls(), i);
  }
  EXPECT_EQ(packings->size_bytes(), 0u);
}

TEST(SharedWeights, AFolderServesSessionsThatShareNothingElse) {
  const std::string path = ::testing::TempDir() + "/shared_weights";
  Copier copier;
  const ConstantRef mine = numbers(1), yours = numbers(1), small = constant();
  {
    SessionWeightCache one, two;
    one.share(nullptr, PackedFolder::open(path, 0).value());
    two.share(nullptr, PackedFolder::open(path, 0).value());
    const auto first = one.get({&mine, 1}, "rows", kShared, copier.function()).value();
    const auto second = two.get({&yours, 1}, "rows", kShared, copier.function()).value();
    EXPECT_NE(first, second);
    EXPECT_EQ(std::memcmp(first.get(), mine->data, kShared), 0);
    EXPECT_EQ(std::memcmp(second.get(), mine->data, kShared), 0);
    EXPECT_EQ(copier.calls(), 1);
    CountingPacker packer;
    EXPECT_THAT(one.get({&small, 1}, "rows", kBytes, packer.function()), is_ok());
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path), {}), 2);  // small ones make no file
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(SharedWeights, WhatExceedsTheFoldersLimitIsPackedApart) {
  const std::string path = ::testing::TempDir() + "/shared_weights_limit";
  SessionWeightCache cache;
  cache.share(nullptr, PackedFolder::open(path, kShared).value());
  Copier copier;
  const ConstantRef weight = numbers(1);
  const auto packed = cache.get({&weight, 1}, "rows", kShared, copier.function()).value();
  EXPECT_EQ(std::memcmp(packed.get(), weight->data, kShared), 0);
  EXPECT_EQ(copier.calls(), 1);
}

TEST(SharedWeights, AFolderThatCannotBeUsedIsNone) {
  EXPECT_EQ(packed_folder_of({}), nullptr);
  EXPECT_EQ(packed_folder_of({{"tenon.packed_weights_folder", ""}}), nullptr);
  EXPECT_EQ(packed_folder_of({{"tenon.packed_weights_folder", "/proc/none/packed"}}), nullptr);
}

}  // namespace
}  // namespace tenon
