#include "demo/break_even.h"

#include "base/testing.h"

namespace tenon::demo {
namespace {

using testing::DoubleEq;

TEST(BreakEven, CopiesLieOnLinesBetweenWhatWasMeasured) {
  const WayCosts costs{.import_us = 300, .copies = {{1000, 100}, {2000, 200}, {4000, 800}}};
  EXPECT_THAT(costs.copy_us(1500), DoubleEq(150));
  EXPECT_THAT(costs.copy_us(3000), DoubleEq(500));
  EXPECT_THAT(costs.copy_us(6000), DoubleEq(1400));
  EXPECT_THAT(costs.copy_us(0), DoubleEq(0));
  EXPECT_EQ(costs.break_even_bytes(), std::optional<size_t>(2333));
}

TEST(BreakEven, AnImportMayAlwaysOrNeverPay) {
  EXPECT_EQ((WayCosts{.import_us = 5, .copies = {{64, 10}, {128, 20}}}).break_even_bytes(), std::optional<size_t>(64));
  EXPECT_EQ((WayCosts{.import_us = 50, .copies = {{64, 10}, {128, 20}}}).break_even_bytes(), std::nullopt);
  EXPECT_EQ(WayCosts().break_even_bytes(), std::nullopt);
  // A small size that was slow for another reason is not the break-even.
  EXPECT_EQ((WayCosts{.import_us = 50, .copies = {{64, 60}, {128, 20}, {256, 80}}}).break_even_bytes(),
            std::optional<size_t>(192));
}

TEST(BreakEven, AnEpWithoutADeviceIsNamed) {
  EXPECT_THAT(measure_break_even({.ep_name = "NoSuchEp"}),
              has_status(StatusCode::kNotFound, testing::HasSubstr("NoSuchEp")));
}

}  // namespace
}  // namespace tenon::demo
