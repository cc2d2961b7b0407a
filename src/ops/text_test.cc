#include "ops/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string_view> parts_of(std::string_view text, const std::string& delimiter, int64_t most = INT64_MAX) {
  std::vector<std::string_view> parts;
  split_text(text, {.delimiter = delimiter, .most_splits = most}, parts);
  return parts;
}

TEST(SplitText, BlanksOfAnyKindAndNumberAreBetweenParts) {
  EXPECT_THAT(parts_of(" a\tbc \n\v\f\r d ", ""), ElementsAre("a", "bc", "d"));
  EXPECT_THAT(parts_of("", ""), IsEmpty());
  EXPECT_THAT(parts_of(" \t ", ""), IsEmpty());
  // Neighbours of the blanks' codes, and bytes with the highest bit of blanks.
  EXPECT_THAT(parts_of("\x08\x0e\x1f!\xa0\x89 \x8d", ""), ElementsAre("\x08\x0e\x1f!\xa0\x89", "\x8d"));
}

TEST(SplitText, TheLastPartOfAsManyAsAllowedKeepsItsBlanks) {
  EXPECT_THAT(parts_of(" a b  c d ", "", 2), ElementsAre("a", "b", "c d"));
  EXPECT_THAT(parts_of(" a b  c d ", "", 0), ElementsAre("a b  c d"));
  EXPECT_THAT(parts_of(" a b", "", -1), ElementsAre("a", "b"));
}

TEST(SplitText, ADelimiterMakesEmptyPartsToo) {
  EXPECT_THAT(parts_of("a--b----c", "--"), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(parts_of("a--b----c", "--", 1), ElementsAre("a", "b----c"));
  EXPECT_THAT(parts_of("", "--"), ElementsAre(""));
}

// Texts of up to 64 bytes are split in another way than longer ones.
TEST(SplitText, EachLengthGivesWhatASimpleSearchDoes) {
  std::mt19937 random(1);
  const std::string alphabet = "ab \t\r\x80\xff \n!\x1f";
  for (size_t size = 0; size < 140; ++size) {
    for (int64_t most : {int64_t{0}, int64_t{1}, int64_t{3}, INT64_MAX}) {
      std::string text;
      for (size_t i = 0; i < size; ++i) text += alphabet[random() % alphabet.size()];
      std::vector<std::string> expected;
      std::string_view left = text;
      constexpr std::string_view kBlanks = " \t\n\v\f\r";
      while (left.find_first_not_of(kBlanks) != std::string_view::npos) {
        left.remove_prefix(left.find_first_not_of(kBlanks));
        const bool last = std::ssize(expected) >= most;
        const size_t end =
            last ? left.find_last_not_of(kBlanks) + 1 : std::min(left.find_first_of(kBlanks), left.size());
        expected.emplace_back(left.substr(0, end));
        if (last) break;
        left.remove_prefix(end);
      }
      const std::vector<std::string_view> parts = parts_of(text, "", most);
      EXPECT_EQ(std::vector<std::string>(parts.begin(), parts.end()), expected) << "size " << size << ", most " << most;
    }
  }
}

}  // namespace
}  // namespace tenon
