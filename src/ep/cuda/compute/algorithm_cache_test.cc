#include "ep/cuda/compute/algorithm_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

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

std::string fresh_path(const char* name) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / name / "algorithms";
  std::filesystem::remove_all(path.parent_path());
  return path.string();
}

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// Two sessions that began with an empty file: neither takes the other's lines away.
TEST(AlgorithmCache, WhoSavesKeepsWhatOthersHaveSavedMeanwhile) {
  const std::string path = fresh_path("shared");
  AlgorithmCache first(path, "device"), second(path, "device");
  first.add("one", "a");
  second.add("two", "b");
  first.save();
  second.save();
  const AlgorithmCache again(path, "device");
  EXPECT_EQ(again.find("one"), "a");
  EXPECT_EQ(again.find("two"), "b");
}

TEST(AlgorithmCache, ManyWritersLoseNothing) {
  const std::string path = fresh_path("writers");
  std::vector<std::thread> writers;
  for (int w = 0; w < 4; ++w)
    writers.emplace_back([&, w] {
      AlgorithmCache cache(path, "device");
      for (int i = 0; i < 8; ++i) {
        cache.add(std::to_string(w) + " " + std::to_string(i), "x");
        cache.save();
      }
      cache.save();
    });
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(lines_of(path).size(), 32u);
}

TEST(AlgorithmCache, ALineThatWasChangedIsLeftOut) {
  const std::string path = fresh_path("checked");
  {
    AlgorithmCache cache(path, "device");
    cache.add("good", "a");
    cache.add("bad", "b");
    cache.save();
  }
  std::vector<std::string> lines = lines_of(path);
  ASSERT_EQ(lines.size(), 2u);
  lines[1].back() = 'c';
  std::ofstream(path, std::ios::trunc) << lines[0] << "\n" << lines[1] << "\nno line at all\n\t\t\n";
  const AlgorithmCache again(path, "device");
  EXPECT_EQ(again.find("good"), "a");
  EXPECT_EQ(again.find("bad"), std::nullopt);
}

TEST(AlgorithmCache, TheOldestLinesOfAFullFileGo) {
  const std::string path = fresh_path("bounded");
  AlgorithmCache cache(path, "device");
  for (size_t i = 0; i < AlgorithmCache::kMostLines + 2; ++i) cache.add(std::to_string(i), "x");
  cache.save();
  EXPECT_EQ(lines_of(path).size(), AlgorithmCache::kMostLines);
  const AlgorithmCache again(path, "device");
  EXPECT_EQ(again.find("1"), std::nullopt);
  EXPECT_EQ(again.find("2"), "x");
}

// A session without a limit chooses again what another one chose in haste.
TEST(AlgorithmCache, AHastyChoiceServesThoseWhoHaveALimit) {
  const std::string path = fresh_path("hasty");
  {
    AlgorithmCache cache(path, "device");
    cache.add("problem", "blas 12", /*hasty=*/true);
    cache.save();
  }
  const AlgorithmCache again(path, "device");
  EXPECT_EQ(again.find("problem"), "blas 12");
  EXPECT_EQ(again.find("problem", /*hasty=*/false), std::nullopt);
  EXPECT_EQ(again.kept("problem", {"blas "}), AlgorithmCache::Kept::kOurs);
}

TEST(AlgorithmCache, AnyDistanceFindsAnyMember) {
  AlgorithmCache cache("", "device");
  cache.add_member(product(4), "small");
  EXPECT_THAT(cache.near(product(4096)), IsEmpty());
  EXPECT_THAT(cache.near(product(4096), AlgorithmCache::kAnyDistance), ElementsAre("small"));
}

}  // namespace
}  // namespace tenon::cuda
