#include "ep/api/run_objects.h"

#include <gtest/gtest.h>

#include <array>

namespace tenon {
namespace {

std::span<std::string> three_texts(RunObjects& objects) {
  const std::span<std::string> texts = objects.add_texts(3);
  for (size_t i = 0; i < texts.size(); ++i) texts[i] = "a text that has memory of its own, number " + std::to_string(i);
  return texts;
}

// Under the address sanitizer, a text that is freed too soon ends the test.
TEST(RunObjects, TextsStayWithTheirOwnerWhenTheRunIsOver) {
  std::shared_ptr<const void> owner;
  std::array<TextAddress, 4> addresses{};
  {
    RunObjects objects;
    (void)objects.add_text("of another node");
    const std::span<std::string> texts = three_texts(objects);
    addresses = {&texts[2], nullptr, &texts[0], &texts[2]};
    owner = objects.owner_of(addresses);
  }
  ASSERT_NE(owner, nullptr);
  EXPECT_EQ(owner.use_count(), 1);
  EXPECT_EQ(*addresses[0], "a text that has memory of its own, number 2");
  EXPECT_EQ(*addresses[2], "a text that has memory of its own, number 0");
}

TEST(RunObjects, TextsOfSeveralNodesHaveOneOwner) {
  std::shared_ptr<const void> owner;
  std::array<TextAddress, 4> addresses{};
  {
    RunObjects objects;
    const std::span<std::string> first = three_texts(objects), second = three_texts(objects);
    addresses = {&first[0], &second[1], &first[2], &second[0]};
    owner = objects.owner_of(addresses);
  }
  ASSERT_NE(owner, nullptr);
  for (TextAddress address : addresses) EXPECT_EQ(text_of(address).substr(0, 6), "a text");
}

// The input's strings are the caller's, and constants are the session's.
TEST(RunObjects, TextsOfOthersHaveNoOwnerHere) {
  RunObjects objects;
  const std::string other = "an input's";
  EXPECT_EQ(objects.owner_of(std::array<TextAddress, 1>{&other}), nullptr);
  const std::span<std::string> texts = three_texts(objects);
  EXPECT_EQ(objects.owner_of(std::array<TextAddress, 4>{&texts[0], &texts[1], &texts[2], &other}), nullptr);
  EXPECT_EQ(objects.owner_of(std::array<TextAddress, 1>{texts.data() + texts.size()}), nullptr);
  EXPECT_EQ(objects.owner_of(std::array<TextAddress, 2>{nullptr, nullptr}), nullptr);
}

// Labels of a classifier, which each run gives out again.
TEST(RunObjects, TextsOfAConstantStayWithIt) {
  auto labels = std::make_shared<const std::vector<std::string>>(2, "a label that has memory of its own");
  const std::weak_ptr<const void> alive = labels;
  std::shared_ptr<const void> owner;
  {
    RunObjects objects;
    objects.keep_texts(labels, *labels);
    owner = objects.owner_of(std::array<TextAddress, 3>{&(*labels)[1], &(*labels)[1], &(*labels)[0]});
  }
  labels = nullptr;
  EXPECT_FALSE(alive.expired());
  owner = nullptr;
  EXPECT_TRUE(alive.expired());
}

TEST(RunObjects, FewTextsOfManyAreCopied) {
  RunObjects objects;
  const std::span<std::string> texts = objects.add_texts(1000);
  EXPECT_EQ(objects.owner_of(std::array<TextAddress, 1>{&texts[7]}), nullptr);
}

TEST(RunObjects, TextsThatNobodyKeepsAreTheNextRuns) {
  RunObjects objects;
  const std::string* const first = three_texts(objects).data();
  objects.end_run();
  const std::span<std::string> again = objects.add_texts(3);
  EXPECT_EQ(again.data(), first);
  for (const std::string& text : again) {
    EXPECT_TRUE(text.empty());
    EXPECT_GT(text.capacity(), 40U);
  }
  const std::span<std::string> others = objects.add_texts(3);
  EXPECT_NE(others.data(), first);
}

TEST(RunObjects, TextsOfAnOwnerStayAsTheyAreInLaterRuns) {
  RunObjects objects;
  const std::span<std::string> texts = three_texts(objects);
  std::shared_ptr<const void> owner = objects.owner_of(std::array<TextAddress, 3>{&texts[0], &texts[1], &texts[2]});
  for (int run = 0; run < 3; ++run) {
    objects.end_run();
    for (std::string& text : objects.add_texts(3)) text = "a text of another run, with memory of its own";
    EXPECT_EQ(texts[1], "a text that has memory of its own, number 1");
  }
  objects.end_run();
  EXPECT_EQ(texts[2], "a text that has memory of its own, number 2");
}

TEST(RunObjects, LongTextsGiveTheirMemoryBack) {
  RunObjects objects;
  objects.add_texts(1)[0].assign(100000, 'x');
  objects.end_run();
  EXPECT_LT(objects.add_texts(1)[0].capacity(), 2000U);
}

TEST(RunObjects, EachRunHasAnotherNumber) {
  RunObjects objects;
  const uint64_t first = objects.number();
  EXPECT_EQ(objects.number(), first);
  objects.end_run();
  EXPECT_NE(objects.number(), first);
}

}  // namespace
}  // namespace tenon
