// A whole inference on memory and timelines of a Vulkan driver (Mesa's llvmpipe).
#include <tenon/session.h>

#include <algorithm>

#include "../../programs/relu_model.h"
#include "vulkan_fixture.h"

namespace tenon::test {
namespace {

constexpr int64_t kLong = 20'000'000'000;

// S1.7 FullInferenceWithExternalMemory: the device uploads into an exported buffer, Tenon runs Relu from it into
// another, the device reads that back; each step waits for the one before through the device's timeline.
TEST_F(Vulkan, InfersBetweenTwoExportedBuffers) {
  constexpr int64_t kCount = 5000;
  constexpr size_t kBytes = kCount * sizeof(float);
  VulkanBuffer staging = program_->make_buffer(kBytes), input = program_->make_buffer(kBytes),
               output = program_->make_buffer(kBytes), readback = program_->make_buffer(kBytes);
  const auto bound_tensor = [&](const VulkanBuffer& buffer) {
    OwnedHandle fd = program_->export_fd(buffer);
    return ExternalMemory::create_tensor(import(fd, kBytes).value(), DataType::kFloat, {kCount}).value();
  };
  auto session = Session::load_from_bytes(relu_model({kCount}), {.threads = 1, .disallow_copies = true}).value();
  Binding binding = session->make_binding().value();
  ASSERT_THAT(binding.bind_input("x", bound_tensor(input)), is_ok());
  ASSERT_THAT(binding.bind_output("y", bound_tensor(output)), is_ok());
  VkSemaphore semaphore = program_->make_timeline(0);
  auto timeline = make_callback_timeline("frames", program_->callbacks(semaphore)).value();
  for (uint64_t frame = 0; frame < 3; ++frame) {
    auto* values = static_cast<float*>(staging.mapped);
    for (int64_t i = 0; i < kCount; ++i) values[i] = static_cast<float>(i % 17 - 8) * static_cast<float>(frame + 1);
    const uint64_t turn = 4 * frame;
    program_->submit_copy(input, staging, semaphore, turn + 1, turn + 2);
    program_->submit_copy(readback, output, semaphore, turn + 3, turn + 4);
    ASSERT_THAT(timeline->signal(turn + 1), is_ok());
    const Fence uploaded{timeline, turn + 2}, inferred{timeline, turn + 3};
    RunReport report;
    ASSERT_THAT(
        session->run(binding,
                     {.waits = {&uploaded, 1}, .signals = {&inferred, 1}, .timeout_ns = kLong, .report = &report}),
        is_ok());
    EXPECT_EQ(report.copies.bytes_copied(), 0u);
    ASSERT_THAT(timeline->wait(turn + 4, kLong), is_ok());
    for (int64_t i = 0; i < kCount; ++i)
      ASSERT_EQ(static_cast<float*>(readback.mapped)[i], std::max(0.0f, values[i])) << i;
  }
  ASSERT_THAT(binding.clear(), is_ok());
  program_->destroy(semaphore);
  for (const VulkanBuffer& buffer : {staging, input, output, readback}) program_->destroy(buffer);
}

}  // namespace
}  // namespace tenon::test
