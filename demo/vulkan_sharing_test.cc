#include "programs/vulkan_sharing.h"

#include <fcntl.h>
#include <tenon/external_memory.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "base/testing.h"

namespace tenon::programs {
namespace {

// Vulkan may be missing where tests run; then these say so.
class VulkanSharingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<std::shared_ptr<VulkanSharing>> opened = open_vulkan_sharing(/*any_device=*/true);
    if (!opened.ok()) GTEST_SKIP() << opened.status().message();
    vulkan_ = *opened;
  }
  std::shared_ptr<VulkanSharing> vulkan_;
};

// The bytes go through the device's buffer: the view alone is overwritten between.
TEST_F(VulkanSharingTest, WhatIsPublishedComesBack) {
  for (const bool dedicated : {false, true}) {
    const auto buffer = vulkan_->make_buffer(5000, dedicated);
    ASSERT_THAT(buffer, is_ok());
    EXPECT_GE(::fcntl((*buffer)->fd(), F_GETFD), 0);
    EXPECT_EQ((*buffer)->view()[4999], std::byte{0});
    std::memset((*buffer)->view(), 7, 5000);
    EXPECT_THAT((*buffer)->publish(), is_ok());
    std::memset((*buffer)->view(), 1, 5000);
    EXPECT_THAT((*buffer)->refresh(), is_ok());
    EXPECT_EQ((*buffer)->view()[0], std::byte{7});
    EXPECT_EQ((*buffer)->view()[4999], std::byte{7});
  }
}

TEST_F(VulkanSharingTest, AnFdThatWasReleasedIsNotClosed) {
  int fd = -1;
  {
    const auto buffer = vulkan_->make_buffer(4096, true);
    ASSERT_THAT(buffer, is_ok());
    fd = (*buffer)->fd();
    (*buffer)->release_fd();
    EXPECT_EQ((*buffer)->fd(), -1);
  }
  EXPECT_GE(::fcntl(fd, F_GETFD), 0);
  (void)OwnedHandle::take_fd(fd);
}

// One thread's copies run while another one's buffers end, which waits for the device: GPUs' drivers end the process
// where both use the queue at once.
TEST_F(VulkanSharingTest, ThreadsMakeAndReleaseBuffersAtOnce) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        const auto buffer = vulkan_->make_buffer(4096, false);
        if (!buffer.ok()) return void(++wrong);
        (*buffer)->view()[0] = static_cast<std::byte>(t + i);
        const bool copied = (*buffer)->publish().ok() && (*buffer)->refresh().ok();
        if (!copied || (*buffer)->view()[0] != static_cast<std::byte>(t + i)) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tenon::programs
