#include <tenon/machine_peaks.h>

#include "base/testing.h"

namespace tenon {
namespace {

TEST(MachinePeaks, AreThoseOfAMachineThatCanRunThis) {
  const Result<MachinePeaks> peaks = measure_machine_peaks(1);
  ASSERT_THAT(peaks, is_ok());
  EXPECT_GT(peaks->flops, 1e6);
  EXPECT_LT(peaks->flops, 1e13);  // a loop that the compiler left out would be faster
  EXPECT_GT(peaks->bytes, 1e6);
  EXPECT_LT(peaks->bytes, 1e13);
}

TEST(MachinePeaks, NoNumberOfThreadsIsTakenUnseen) {
  EXPECT_THAT(measure_machine_peaks(-1), has_status(StatusCode::kInvalidArgument, ::testing::HasSubstr("-1")));
}

}  // namespace
}  // namespace tenon
