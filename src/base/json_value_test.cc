#include "base/json_value.h"

#include <random>

#include "base/testing.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;
using Kind = JsonValue::Kind;

TEST(JsonValue, ReadsEveryKind) {
  const JsonValue value = *JsonValue::parse(
      " {\"text\": \"a\\n\\\"\\u00e9\\ud83d\\ude00\", \"numbers\": [0, -1, 2.5, 1e3, -0.5E-7], \"yes\": true, \"no\": "
      "false, \"nothing\": null, \"inner\": {}, \"list\": [ ]}\n");
  ASSERT_TRUE(value.is_object());
  ASSERT_EQ(value.members.size(), 7u);
  EXPECT_EQ(value.members[0].name, "text");
  EXPECT_EQ(value.find("text")->text, "a\n\"\xC3\xA9\xF0\x9F\x98\x80");
  EXPECT_EQ(value.find("numbers")->elements[4].text, "-0.5E-7");
  EXPECT_TRUE(value.find("yes")->flag);
  EXPECT_EQ(value.find("no")->kind, Kind::kBool);
  EXPECT_EQ(value.find("nothing")->kind, Kind::kNull);
  EXPECT_TRUE(value.find("inner")->is_object());
  EXPECT_EQ(value.find("list")->kind, Kind::kArray);
  EXPECT_EQ(value.find("more"), nullptr);
}

TEST(JsonValue, TheLastMemberOfANameCounts) {
  const JsonValue value = *JsonValue::parse("{\"a\": 1, \"b\": 2, \"a\": 3}");
  ASSERT_EQ(value.members.size(), 2u);
  EXPECT_EQ(value.find("a")->text, "3");
}

TEST(JsonValue, WhatIsNoJsonIsRefused) {
  for (const char* text : {"",          " ",       "{",           "}",           "[1,]",        "{\"a\" 1}",
                           "{\"a\": }", "{a: 1}",  "{\"a\": 1,}", "[1 2]",       "tru",         "nul",
                           "01",        "1.",      ".5",          "1e",          "+1",          "-",
                           "\"",        "\"\\x\"", "\"\\u12\"",   "\"\\ud800\"", "\"\\ude00\"", "\"\\ud800\\u0041\"",
                           "\"\n\"",    "1 2",     "{} {}",       "'a'",         "NaN"})
    EXPECT_THAT(JsonValue::parse(text), has_status(StatusCode::kInvalidArgument, HasSubstr("at byte"))) << text;
}

TEST(JsonValue, DeepTextIsRefused) {
  EXPECT_THAT(JsonValue::parse(std::string(60, '[') + std::string(60, ']')), is_ok());
  EXPECT_FALSE(JsonValue::parse(std::string(100'000, '[')).ok());
  std::string objects;
  for (int i = 0; i < 1000; ++i) objects += "{\"a\":";
  EXPECT_THAT(JsonValue::parse(objects), has_status(StatusCode::kInvalidArgument, HasSubstr("64 levels")));
}

TEST(JsonValue, ChangedTextIsReadOrRefused) {
  const std::string text =
      "{\"a\": [1, -2.5e3, \"\\u00e9\\ud83d\\ude00\", {\"b\": null}], \"c\": {\"d\": [true, false]}}";
  std::mt19937 random(3);
  int read = 0;
  for (int round = 0; round < 50'000; ++round) {
    std::string changed = text;
    for (unsigned i = 0; i <= random() % 3; ++i)
      changed[random() % changed.size()] = "{}[]\",:\\ue0123 "[random() % 15];
    read += JsonValue::parse(changed.substr(0, random() % (changed.size() + 1))).ok() ? 1 : 0;
  }
  EXPECT_GT(read, 0);
  EXPECT_LT(read, 50'000);
}

}  // namespace
}  // namespace tenon
