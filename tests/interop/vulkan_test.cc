// Imports memory and timelines of a Vulkan driver (Mesa's llvmpipe). Skips where there is none.
#include <chrono>
#include <thread>

#include "base/testing.h"
#include "device/stream.h"
#include "vulkan_fixture.h"

namespace tenon::test {
namespace {

constexpr int64_t kLong = 20'000'000'000;

// S1.7 ImportSharedResource, S6.2: both sides write and read the same bytes, through their own mappings.
TEST_F(Vulkan, AnExportedBufferIsImportedWhereItLies) {
  for (size_t size : {size_t{64}, size_t{4096}, size_t{1000000}}) {
    VulkanBuffer buffer = program_->make_buffer(size);
    OwnedHandle fd = program_->export_fd(buffer);
    auto memory = import(fd, size).value();
    EXPECT_FALSE(fd.valid());
    Tensor tensor = ExternalMemory::create_tensor(memory, DataType::kUint8, {static_cast<int64_t>(size)}).value();
    auto* theirs = static_cast<unsigned char*>(buffer.mapped);
    auto* ours = tensor.data_as<unsigned char>();
    ASSERT_NE(ours, theirs);
    for (size_t i : {size_t{0}, size / 2, size - 1}) {
      theirs[i] = static_cast<unsigned char>(i + 1);
      EXPECT_EQ(ours[i], static_cast<unsigned char>(i + 1));
      ours[i] = static_cast<unsigned char>(i + 7);
      EXPECT_EQ(theirs[i], static_cast<unsigned char>(i + 7));
    }
    program_->destroy(buffer);
    ours[0] = 1;  // the import holds the memory, not the other API
  }
}

// S1.3: the driver's object is asked for its size.
TEST_F(Vulkan, ASizeBeyondTheAllocationsObjectIsRefused) {
  VulkanBuffer buffer = program_->make_buffer(4096);
  OwnedHandle fd = program_->export_fd(buffer);
  EXPECT_THAT(import(fd, size_t{1} << 30), has_status(StatusCode::kInvalidArgument, ::testing::HasSubstr("exceed")));
  EXPECT_TRUE(fd.valid());
  program_->destroy(buffer);
}

// S1.5, S1.7 WaitAndSignalSemaphore: the device waits for Tenon and Tenon's stream for the device, each asked first.
TEST_F(Vulkan, TheDevicesTimelineOrdersWorkOnBothSides) {
  VulkanBuffer buffer = program_->make_buffer(4096);
  OwnedHandle fd = program_->export_fd(buffer);
  auto memory = import(fd, 4096).value();
  Tensor tensor = ExternalMemory::create_tensor(memory, DataType::kUint32, {1024}).value();
  VkSemaphore semaphore = program_->make_timeline(0);
  auto timeline = make_callback_timeline("frames", program_->callbacks(semaphore)).value();
  {
    auto stream = Stream::create("0").value();
    uint32_t seen = 0;
    ASSERT_THAT(stream->wait({timeline, 2}), is_ok());
    ASSERT_THAT(stream->enqueue([&] {
      seen = tensor.data_as<uint32_t>()[1023];
      return Status();
    }),
                is_ok());
    ASSERT_THAT(stream->signal({timeline, 3}), is_ok());
    program_->submit_fill(buffer, 0xabcd1234, semaphore, 1, 2);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_EQ(timeline->value().value(), 0u);
    ASSERT_THAT(timeline->signal(1), is_ok());  // now the device may fill
    ASSERT_THAT(timeline->wait(3, kLong), is_ok());
    EXPECT_EQ(seen, 0xabcd1234u);
    EXPECT_THAT(timeline->wait(4, 1'000'000), has_status(StatusCode::kTimeout));
  }
  program_->destroy(semaphore);
  program_->destroy(buffer);
}

}  // namespace
}  // namespace tenon::test
