#include "ep/api/run_fences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing.h"

namespace tenon {
namespace {

using testing::HasSubstr;

uintptr_t number(const RunFence& fence) { return reinterpret_cast<uintptr_t>(fence.semaphore); }

TEST(RunFences, HandlesAndValuesHave64Bits) {
  const auto read = parse_run_fences(kRunWaitsKey, "0x7f0012345678:0,0xffff800000000010:18446744073709551615");
  ASSERT_THAT(read, is_ok());
  ASSERT_EQ(read->size(), 2U);
  EXPECT_EQ(number((*read)[0]), 0x7f0012345678U);
  EXPECT_EQ((*read)[0].value, 0U);
  EXPECT_EQ(number((*read)[1]), 0xffff800000000010U);
  EXPECT_EQ((*read)[1].value, 18446744073709551615U);
}

TEST(RunFences, NothingIsNoFences) {
  for (const char* text : {static_cast<const char*>(nullptr), "", "  "})
    EXPECT_TRUE(parse_run_fences(kRunWaitsKey, text).value().empty());
}

TEST(RunFences, DecimalAndBlanksAreTaken) {
  const auto read = parse_run_fences(kRunWaitsKey, " 4096:3 , 0x1000:0x10 ").value();
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(number(read[0]), 4096U);
  EXPECT_EQ(read[1].value, 16U);
}

TEST(RunFences, GarbageIsRefusedByName) {
  for (const char* text : {"x", "12", ":", "1:", ":1", "0:1", "0x:1", "1:2:3", "1:-1", "1:18446744073709551616",
                           "1:2,,3:4", "1:2,x", "-1:2", "1 :2", "0x1g:2"})
    EXPECT_THAT(parse_run_fences(kRunSignalsKey, text),
                has_status(StatusCode::kInvalidArgument, HasSubstr("tenon.run_signals")))
        << text;
}

TEST(RunFences, TooManyAreRefused) {
  std::string text = "1:1";
  for (int i = 0; i < 64; ++i) text += ",1:1";
  EXPECT_THAT(parse_run_fences(kRunWaitsKey, text.c_str()),
              has_status(StatusCode::kInvalidArgument, HasSubstr("more than 64")));
}

}  // namespace
}  // namespace tenon
