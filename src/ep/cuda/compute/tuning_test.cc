// The budget of measuring; needs no device.
#include "ep/cuda/compute/tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tenon::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(TuningBudget, ItIsSpentWhenItsTimeIs) {
  TuningBudget budget(100);
  budget.add(99);
  EXPECT_FALSE(budget.spent());
  budget.add(1);
  EXPECT_TRUE(budget.spent());
  TuningBudget none;
  none.add(1e9);
  EXPECT_FALSE(none.limited());
  EXPECT_FALSE(none.spent());
}

TEST(TuningBudget, ItIsScarceWhenHalfIsGone) {
  TuningBudget budget(100);
  budget.add(49);
  EXPECT_FALSE(budget.scarce());
  budget.add(1);
  EXPECT_TRUE(budget.scarce());
  TuningBudget none;
  none.add(1e9);
  EXPECT_FALSE(none.scarce());
}

// A frame of a model that runs already does not wait for what a new session may take.
TEST(TuningBudget, AnotherShapeHasLittleTime) {
  TuningBudget budget(1000);
  budget.begin_plan(/*varies=*/false);
  budget.add(300);
  EXPECT_FALSE(budget.spent());
  budget.begin_plan(/*varies=*/true);
  EXPECT_FALSE(budget.spent());
  budget.add(50);
  EXPECT_TRUE(budget.spent());
  budget.begin_plan(/*varies=*/true);
  EXPECT_FALSE(budget.spent());
  // It has that time whatever the session has spent.
  budget.add(2000);
  budget.begin_plan(/*varies=*/true);
  EXPECT_FALSE(budget.spent());
  budget.begin_plan(/*varies=*/false);
  EXPECT_TRUE(budget.spent());
}

TEST(TuningBudget, LongMeasuringIsTold) {
  std::vector<std::string> lines;
  TuningBudget budget(60'000, [&](const std::string& line) { lines.push_back(line); });
  budget.end_problem(900);
  EXPECT_THAT(lines, IsEmpty());
  budget.end_problem(200);
  budget.end_problem(200);
  EXPECT_THAT(lines, ElementsAre(HasSubstr("2 problems in 1.1 s so far. Option tune_budget_ms = 60000")));
  budget.end_problem(5000);
  EXPECT_EQ(lines.size(), 2u);
}

}  // namespace
}  // namespace tenon::cuda
