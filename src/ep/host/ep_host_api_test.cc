#include "ep/host/ep_host_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "abi/objects/run_options.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"

namespace tenon::abi {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const EpHostApi& api() { return *ep_host_api(kEpHostApiVersion); }

std::string message_of(OrtStatus* status) {
  if (status == nullptr) return "ok";
  std::string text = status->message;
  release_status(status);
  return text;
}

TEST(EpHostApi, OnlyVersionZeroIsUnknown) {
  EXPECT_EQ(ep_host_api(0), nullptr);
  EXPECT_EQ(ep_host_api(kEpHostApiVersion), ep_host_api(kEpHostApiVersion + 1));
  EXPECT_EQ(api().size_bytes, sizeof(EpHostApi));
}

TEST(EpHostApi, FencesAreTheRunsOwn) {
  OrtRunOptions options;
  const RunFences* fences = reinterpret_cast<const RunFences*>(&options);
  ASSERT_EQ(api().RunOptions_GetFences(&options, sizeof(RunFences), &fences), nullptr);
  EXPECT_EQ(fences, nullptr);
  EXPECT_TRUE(options.fences_asked);
  const RunFences given{.size_bytes = sizeof(RunFences)};
  options.fences = &given;
  ASSERT_EQ(api().RunOptions_GetFences(&options, sizeof(RunFences), &fences), nullptr);
  EXPECT_EQ(fences, &given);
  const OrtRunOptions copy(options);
  ASSERT_EQ(api().RunOptions_GetFences(&copy, sizeof(RunFences), &fences), nullptr);
  EXPECT_EQ(fences, nullptr) << "fences are of one run";
}

TEST(EpHostApi, AFalseSizeIsRefusedWithBothSizes) {
  OrtRunOptions options;
  const RunFences given{.size_bytes = sizeof(RunFences)};
  options.fences = &given;
  for (const size_t size : {size_t{0}, sizeof(RunFences) - 1, sizeof(RunFences) + 1, SIZE_MAX}) {
    const RunFences* fences = &given;
    EXPECT_THAT(message_of(api().RunOptions_GetFences(&options, size, &fences)),
                AllOf(HasSubstr(std::to_string(size)), HasSubstr("this host knows 40 to 40")));
    EXPECT_EQ(fences, nullptr);
  }
  EXPECT_FALSE(options.fences_asked);
}

TEST(EpHostApi, NullsAreNamed) {
  const RunFences* fences = nullptr;
  EXPECT_THAT(message_of(api().RunOptions_GetFences(nullptr, sizeof(RunFences), &fences)), HasSubstr("options"));
  const OrtRunOptions options;
  EXPECT_THAT(message_of(api().RunOptions_GetFences(&options, sizeof(RunFences), nullptr)), HasSubstr("out"));
}

}  // namespace
}  // namespace tenon::abi
