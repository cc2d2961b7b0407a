#include "abi/objects/status.h"

#include <gmock/gmock.h>

#include "abi/objects/slots.h"
#include "base/status.h"

namespace tenon::abi {
namespace {

constexpr StatusCode kAllCodes[] = {
    StatusCode::kInvalidArgument,   StatusCode::kUnsupported, StatusCode::kNotFound,   StatusCode::kOutOfRange,
    StatusCode::kResourceExhausted, StatusCode::kDeviceError, StatusCode::kDeviceLost, StatusCode::kCancelled,
    StatusCode::kInternal,          StatusCode::kTimeout};

TEST(OrtStatus, NullIsSuccessBothWays) {
  EXPECT_EQ(to_ort(Status()), nullptr);
  EXPECT_TRUE(from_ort(nullptr).ok());
  release_status(nullptr);
}

TEST(OrtStatus, NoFailureBecomesSuccessOnTheWay) {
  for (const StatusCode code : kAllCodes) {
    OrtStatus* status = to_ort(Status(code, "why"));
    ASSERT_NE(status, nullptr);
    EXPECT_NE(ort_api::GetErrorCode(status), ORT_OK) << status_code_name(code);
    EXPECT_STREQ(ort_api::GetErrorMessage(status), "why");
    release_status(status);
  }
  for (int code = ORT_FAIL; code <= ORT_DEVICE_RESET; ++code)
    EXPECT_FALSE(from_ort(make_ort_status(static_cast<OrtErrorCode>(code), "why")).ok()) << code;
  // A number outside the enum is a failure too.
  EXPECT_FALSE(from_ort(make_ort_status(static_cast<OrtErrorCode>(99), "why")).ok());
}

// An error of a plugin reaches the program with the same code, where the two sets have a counterpart.
TEST(OrtStatus, CodesWithACounterpartSurviveTheRoundTrip) {
  for (const OrtErrorCode code :
       {ORT_INVALID_ARGUMENT, ORT_NOT_IMPLEMENTED, ORT_EP_FAIL, ORT_NOT_FOUND, ORT_DEVICE_RESET}) {
    OrtStatus* back = to_ort(from_ort(make_ort_status(code, "text")));
    EXPECT_EQ(ort_api::GetErrorCode(back), code);
    EXPECT_STREQ(ort_api::GetErrorMessage(back), "text");
    release_status(back);
  }
}

// A status of ours comes back as it was, also where several of our codes share one of the ABI's.
TEST(OrtStatus, OurCodesSurviveTheRoundTrip) {
  for (const StatusCode code : kAllCodes) {
    EXPECT_EQ(from_ort(to_ort(Status(code, "why"))).code(), code);
    EXPECT_EQ(from_ort(to_ort(Status(code, "why"), ORT_FAIL)).code(), code);
  }
}

// A plugin that says no more than that it failed is no defect of Tenon (kInternal).
TEST(OrtStatus, NoCodeOfAPluginIsADefectOfTenon) {
  for (int code = ORT_FAIL; code <= ORT_DEVICE_RESET + 1; ++code)
    EXPECT_NE(from_ort_code(static_cast<OrtErrorCode>(code)), StatusCode::kInternal) << code;
  for (const OrtErrorCode code : {ORT_FAIL, ORT_ENGINE_ERROR, ORT_RUNTIME_EXCEPTION, ORT_EP_FAIL})
    EXPECT_EQ(from_ort_code(code), StatusCode::kDeviceError) << code;
}

// A program tells a run that it ended (TerminateRun) from one that was out of time.
TEST(OrtStatus, ATimeoutHasAnotherCodeThanACancel) {
  EXPECT_EQ(to_ort_code(StatusCode::kCancelled), ORT_FAIL);
  EXPECT_EQ(to_ort_code(StatusCode::kTimeout), ORT_RUNTIME_EXCEPTION);
}

TEST(OrtStatus, AStatusWithCodeOkIsSuccess) { EXPECT_TRUE(from_ort(make_ort_status(ORT_OK, "fine")).ok()); }

TEST(OrtStatus, TheSharedOutOfMemoryStatusOutlivesItsRelease) {
  OrtStatus* status = out_of_memory();
  release_status(status);
  EXPECT_EQ(from_ort(status).message(), "Out of memory.");
  EXPECT_STREQ(ort_api::GetErrorMessage(out_of_memory()), "Out of memory.");
}

TEST(OrtStatus, WhatABodyThrowsBecomesAStatus) {
  OrtStatus* memory = guarded([]() -> OrtStatus* { throw std::bad_alloc(); });
  EXPECT_EQ(memory, out_of_memory());
  OrtStatus* other = guarded([]() -> OrtStatus* { throw 3; });
  EXPECT_EQ(ort_api::GetErrorCode(other), ORT_RUNTIME_EXCEPTION);
  release_status(other);
}

TEST(OrtStatus, NullArgumentsAreNamed) {
  int there = 0;
  EXPECT_EQ(check_pointers("F", {{"a", &there}}), nullptr);
  OrtStatus* status = check_pointers("F", {{"a", &there}, {"b", nullptr}});
  EXPECT_EQ(ort_api::GetErrorCode(status), ORT_INVALID_ARGUMENT);
  EXPECT_STREQ(ort_api::GetErrorMessage(status), "Argument \"b\" of F is null.");
  release_status(status);
}

}  // namespace
}  // namespace tenon::abi
