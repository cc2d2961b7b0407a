#include "demo/renderer.h"

#include <tenon/importer.h>

#include "base/testing.h"

namespace tenon::demo {
namespace {

using ::testing::HasSubstr;

// Vulkan may be missing where tests run; then these say so.
class VulkanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<std::shared_ptr<VulkanDevice>> device = VulkanDevice::create();
    if (!device.ok()) GTEST_SKIP() << device.status().message();
    device_ = *device;
  }
  std::shared_ptr<VulkanDevice> device_;
};

TEST_F(VulkanTest, ADeviceThatNobodyHasIsRefusedWithTheNamesThatExist) {
  const auto device = VulkanDevice::create("no such device");
  EXPECT_THAT(device, has_status(StatusCode::kUnsupported, HasSubstr(device_->name)));
}

// S1: a buffer that Vulkan made is read and written through Tenon's own import of its fd.
TEST_F(VulkanTest, ABufferAndItsImportAreTheSameBytes) {
  const auto buffer = SharedBuffer::create(device_, 100'000, "shared");
  ASSERT_THAT(buffer, is_ok());
  OwnedHandle handle = OwnedHandle::take_fd(dup((*buffer)->fd()));
  ExternalMemoryDescriptor descriptor;
  descriptor.kind = (*buffer)->kind() == SharedBufferKind::kOpaqueFd ? ExternalMemoryKind::kVulkanOpaqueFd
                                                                     : ExternalMemoryKind::kMappableFd;
  descriptor.size_bytes = 100'000;
  descriptor.offset_bytes = (*buffer)->offset_bytes();
  descriptor.name = "shared";
  const auto imported = Importer::host().import_memory(handle, descriptor);
  ASSERT_THAT(imported, is_ok());
  auto* theirs = static_cast<volatile uint8_t*>((*buffer)->mapped());
  auto* ours = static_cast<volatile uint8_t*>((*imported)->data());
  ASSERT_NE(theirs, ours);
  for (const size_t at : {size_t{0}, size_t{4095}, size_t{4096}, size_t{99'999}}) {
    theirs[at] = 0x5A;
    EXPECT_EQ(ours[at], 0x5A) << at;
    ours[at] = 0xC3;
    EXPECT_EQ(theirs[at], 0xC3) << at;
  }
}

// The shader's tensor is what the page says, in both slots, and its timeline moves only when it is drawn.
TEST_F(VulkanTest, TheShaderDrawsThePage) {
  std::vector<std::unique_ptr<SharedBuffer>> buffers;
  std::vector<const SharedBuffer*> targets;
  for (int i = 0; i < 2; ++i) {
    auto buffer = SharedBuffer::create(device_, kInputBytes, "frame");
    ASSERT_THAT(buffer, is_ok());
    targets.push_back(buffer->get());
    buffers.push_back(std::move(*buffer));
  }
  const auto renderer = Renderer::create(device_, targets);
  ASSERT_THAT(renderer, is_ok());
  const auto gate = VulkanTimeline::create(device_, false);
  const auto drawn = VulkanTimeline::create(device_, false);
  ASSERT_THAT(gate, is_ok());
  ASSERT_THAT(drawn, is_ok());
  for (uint64_t frame = 1; frame <= 2; ++frame)
    ASSERT_THAT((*renderer)->submit(frame - 1, frame, **gate, 7, **drawn, frame), is_ok());
  EXPECT_THAT((*drawn)->wait(1, 20'000'000, {}), has_status(StatusCode::kTimeout));
  ASSERT_THAT((*gate)->signal(7), is_ok());
  ASSERT_THAT((*drawn)->wait(2, 20'000'000'000, {}), is_ok());
  for (uint64_t frame = 1; frame <= 2; ++frame) {
    const std::vector<float> expected = (*renderer)->page().draw(frame);
    const auto* tensor = static_cast<const float*>(targets[frame - 1]->mapped());
    float worst = 0;
    for (size_t i = 0; i < expected.size(); ++i) worst = std::max(worst, std::abs(expected[i] - tensor[i]));
    EXPECT_LT(worst, 1e-5F) << "frame " << frame;
  }
}

TEST_F(VulkanTest, AWaitAsksWhetherItShouldGoOn) {
  const auto timeline = VulkanTimeline::create(device_, false);
  ASSERT_THAT(timeline, is_ok());
  const Status status = (*timeline)->wait(1, kWaitForever, [] { return programs::device_lost("The peer is gone."); });
  EXPECT_THAT(status, has_status(StatusCode::kDeviceLost, HasSubstr("peer")));
}

TEST_F(VulkanTest, AWrappedTimelineIsTheApplicationsOwn) {
  const auto timeline = VulkanTimeline::create(device_, false);
  ASSERT_THAT(timeline, is_ok());
  const auto wrapped = wrap_timeline("frames", *timeline, {});
  ASSERT_THAT(wrapped, is_ok());
  ASSERT_THAT((*wrapped)->signal(3), is_ok());
  const Result<uint64_t> value = (*timeline)->value();
  ASSERT_THAT(value, is_ok());
  EXPECT_EQ(*value, 3U);
  EXPECT_THAT((*wrapped)->wait(3, 0), is_ok());
}

}  // namespace
}  // namespace tenon::demo
