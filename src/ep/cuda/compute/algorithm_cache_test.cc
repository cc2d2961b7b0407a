#include "ep/cuda/compute/algorithm_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace tenon::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ProblemFamily product(int64_t rows) { return {.text = "product", .size = rows}; }

TEST(AlgorithmCache, NearChoicesAreThoseOfNearlyAsLargeProblems) {
  AlgorithmCache cache("", "device");
  EXPECT_THAT(cache.near(product(64)), IsEmpty());
  for (const auto& [rows, choice] :
       {std::pair(31, "31"), {32, "32"}, {48, "48"}, {100, "100"}, {127, "127"}, {129, "129"}})
    cache.add_member(product(rows), choice);
  // 31 and 129 are too far; of the others three, by how many times they are larger or smaller.
  EXPECT_THAT(cache.near(product(64)), ElementsAre("48", "100", "127"));
  EXPECT_THAT(cache.near(product(100)), ElementsAre("100", "127", "129"));
  EXPECT_THAT(cache.near(product(15)), IsEmpty());
  EXPECT_THAT(cache.near(product(0)), IsEmpty());
  EXPECT_THAT(cache.near({.text = "another", .size = 64}), IsEmpty());
  EXPECT_THAT(cache.near({}), IsEmpty());
}

TEST(AlgorithmCache, ANearChoiceComesOnce) {
  AlgorithmCache cache("", "device");
  for (int64_t rows : {60, 61, 62, 63}) cache.add_member(product(rows), rows == 60 ? "a" : "b");
  EXPECT_THAT(cache.near(product(64)), ElementsAre("b", "a"));
  cache.add_member({.text = "", .size = 64}, "of no family");
  EXPECT_THAT(cache.near({.text = "", .size = 64}), IsEmpty());
}

// The file has what was measured alone: a session whose model has that size measures.
TEST(AlgorithmCache, WhatIsBorrowedStaysInTheSession) {
  const std::string path = (std::filesystem::path(::testing::TempDir()) / "borrowed" / "algorithms").string();
  std::filesystem::remove(path);
  {
    AlgorithmCache cache(path, "device");
    cache.add("measured", "a");
    cache.borrow("near", "b");
    EXPECT_EQ(cache.find("near"), std::nullopt);
    EXPECT_EQ(cache.find_borrowed("near"), "b");
    EXPECT_EQ(cache.find_borrowed("measured"), std::nullopt);
    cache.save();
  }
  const AlgorithmCache again(path, "device"), elsewhere(path, "another device");
  EXPECT_EQ(again.find("measured"), "a");
  EXPECT_EQ(again.find_borrowed("near"), std::nullopt);
  EXPECT_EQ(again.find("near"), std::nullopt);
  EXPECT_EQ(elsewhere.find("measured"), std::nullopt);
}

}  // namespace
}  // namespace tenon::cuda
