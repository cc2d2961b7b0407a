// The public wrapper around a kernel's stream, over the function tables of a host whose answers the test sets.
#include <gtest/gtest.h>
#include <tenon/kernel_stream.h>

#include <cstring>
#include <string>

namespace tenon {
namespace {

// Addresses stand for objects: the wrapper only passes them on.
int objects[4];
const auto* const kContext = reinterpret_cast<const OrtKernelContext*>(&objects[0]);
auto* const kStream = reinterpret_cast<OrtSyncStream*>(&objects[1]);
void* const kHandle = &objects[2];
auto* const kStatus = reinterpret_cast<OrtStatus*>(&objects[3]);

OrtSyncStream* given_stream = nullptr;
OrtStatus* given_status = nullptr;
std::string made_status;

OrtApi host() {
  OrtApi api{};
  api.CreateStatus = [](OrtErrorCode, const char* message) noexcept {
    made_status = message;
    return kStatus;
  };
  api.KernelContext_GetGPUComputeStream = [](const OrtKernelContext* context, void** out) noexcept {
    EXPECT_EQ(context, kContext);
    *out = kHandle;
    return given_status;
  };
  api.KernelContext_GetSyncStream = [](const OrtKernelContext* context, OrtSyncStream** out) noexcept {
    EXPECT_EQ(context, kContext);
    *out = given_stream;
    return given_status;
  };
  api.SyncStream_GetHandle = [](OrtSyncStream* stream) noexcept -> void* {
    EXPECT_EQ(stream, kStream);
    return kHandle;
  };
  return api;
}

class KernelStreams : public ::testing::Test {
 protected:
  void SetUp() override {
    given_stream = kStream;
    given_status = nullptr;
    made_status.clear();
  }
  KernelStream stream_;
};

// S5.1: the stream itself, from API 28 on.
TEST_F(KernelStreams, ANewHostNamesTheStream) {
  EXPECT_EQ(KernelStream::get(host(), 28, kContext, &stream_), nullptr);
  EXPECT_EQ(stream_.sync_stream(), kStream);
  EXPECT_EQ(stream_.native_handle(), kHandle);
  EXPECT_TRUE(stream_.host_names_streams());
}

// A null stream is no error: the run is synchronous on the CPU device.
TEST_F(KernelStreams, ARunWithoutAStreamHasNone) {
  given_stream = nullptr;
  EXPECT_EQ(KernelStream::get(host(), 31, kContext, &stream_), nullptr);
  EXPECT_EQ(stream_.sync_stream(), nullptr);
  EXPECT_EQ(stream_.native_handle(), nullptr);
  EXPECT_TRUE(stream_.host_names_streams());
}

// S5.1: an older host's table ends before the slot, and what lies there is not read.
TEST_F(KernelStreams, AnOlderHostGivesTheHandleAlone) {
  OrtApi api = host();
  auto* const begin = reinterpret_cast<char*>(&api) + offsetof(OrtApi, KernelContext_GetSyncStream);
  std::memset(begin, 0x5A, reinterpret_cast<char*>(&api + 1) - begin);
  for (const uint32_t version : {24U, 27U}) {
    EXPECT_EQ(KernelStream::get(api, version, kContext, &stream_), nullptr);
    EXPECT_EQ(stream_.sync_stream(), nullptr);
    EXPECT_EQ(stream_.native_handle(), kHandle);
    EXPECT_FALSE(stream_.host_names_streams());
  }
}

TEST_F(KernelStreams, AHostsErrorIsGivenBackAndLeavesNoStream) {
  ASSERT_EQ(KernelStream::get(host(), 31, kContext, &stream_), nullptr);
  given_status = kStatus;
  given_stream = nullptr;
  EXPECT_EQ(KernelStream::get(host(), 31, kContext, &stream_), kStatus);
  EXPECT_EQ(stream_.sync_stream(), nullptr);
  EXPECT_EQ(stream_.native_handle(), nullptr);
}

// Stock hosts crash when they are asked with a null context.
TEST_F(KernelStreams, NullArgumentsAreErrors) {
  EXPECT_EQ(KernelStream::get(host(), 31, nullptr, &stream_), kStatus);
  EXPECT_FALSE(made_status.empty());
  EXPECT_EQ(KernelStream::get(host(), 31, kContext, nullptr), kStatus);
}

}  // namespace
}  // namespace tenon
