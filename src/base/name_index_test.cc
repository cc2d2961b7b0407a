#include "base/name_index.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tenon {
namespace {

std::vector<int32_t> rows_of(const NameIndex& index, std::string_view name) {
  std::vector<int32_t> rows;
  for (int32_t row = index.first(name); row != NameIndex::kNone; row = index.next(row)) rows.push_back(row);
  return rows;
}

TEST(NameIndexTest, RowsOfANameComeInTheOrderOfTheirAddition) {
  NameIndex index(4);
  for (const char* name : {"Conv", "Add", "Conv", "Conv"}) index.add(name);
  EXPECT_EQ(rows_of(index, "Conv"), (std::vector<int32_t>{0, 2, 3}));
  EXPECT_EQ(rows_of(index, "Add"), std::vector<int32_t>{1});
  EXPECT_TRUE(rows_of(index, "Mul").empty());
  EXPECT_TRUE(rows_of(index, "").empty());
}

// The names differ only in the middle, so that they share a bucket; and there are more of them than was said.
TEST(NameIndexTest, FindsEachOfManyNamesInOneBucket) {
  std::vector<std::string> names;
  for (int i = 0; i < 200; ++i) names.push_back("BeginsAlike" + std::to_string(1000 + i) + "EndsAlike");
  NameIndex index(1);
  for (const std::string& name : names) index.add(name);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(rows_of(index, names[static_cast<size_t>(i)]), std::vector<int32_t>{i});
}

TEST(NameIndexTest, AnEmptyNameIsAName) {
  NameIndex index(2);
  index.add("");
  index.add("x");
  EXPECT_EQ(rows_of(index, ""), std::vector<int32_t>{0});
  EXPECT_EQ(rows_of(index, "x"), std::vector<int32_t>{1});
}

}  // namespace
}  // namespace tenon
