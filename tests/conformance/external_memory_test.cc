// S1.7 for the CPU device, against the installed library's public API: another process uploads, Tenon infers in place,
// the other process reads back. tests/interop/ does the same with a Vulkan driver.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <tenon/importer.h>
#include <tenon/session.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <thread>

#include "../../programs/relu_model.h"
#include "base/testing.h"

namespace tenon::test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kCount = 3 * 1024;
constexpr size_t kBytes = kCount * sizeof(float);
constexpr size_t kOutputOffset = kBytes;
constexpr int64_t kLong = 20'000'000'000;

float input_value(int frame, int64_t i) { return static_cast<float>((i * 37 + frame * 101) % 2003 - 1000) / 64; }

class Conformance : public ::testing::Test {
 protected:
  void SetUp() override {
    session_ = Session::load_from_bytes(relu_model({1, 3, 1024}), {.threads = 1}).value();
    memfd_ = OwnedHandle::take_fd(::memfd_create("tenon-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::ftruncate(memfd_.fd(), 2 * kBytes), 0);
    ASSERT_EQ(::fcntl(memfd_.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    timeline_ = SharedTimeline::create("frames").value();
  }

  Tensor tensor(size_t offset) {
    if (memory_ == nullptr) {
      OwnedHandle copy = memfd_.dup().value();
      memory_ = Importer::host().import_memory(copy, {.size_bytes = 2 * kBytes, .name = "frame"}).value();
    }
    return ExternalMemory::create_tensor(memory_, DataType::kFloat, {1, 3, 1024}, offset).value();
  }

  Binding bound() {
    Binding binding = session_->make_binding().value();
    EXPECT_THAT(binding.bind_input("x", tensor(0)), is_ok());
    EXPECT_THAT(binding.bind_output("y", tensor(kOutputOffset)), is_ok());
    return binding;
  }

  // The other program, in a process of its own: it maps the memfd itself.
  pid_t fork_producer(const std::function<bool(float* memory, Timeline& timeline)>& body) {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    auto timeline = SharedTimeline::open("frames", timeline_->fd());
    void* mapped = ::mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd_.fd(), 0);
    ::_exit(timeline.ok() && mapped != MAP_FAILED && body(static_cast<float*>(mapped), **timeline) ? 0 : 1);
  }

  static bool succeeded(pid_t pid) {
    int status = 0;
    return ::waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  std::shared_ptr<Session> session_;
  OwnedHandle memfd_;
  std::shared_ptr<ExternalMemory> memory_;
  std::shared_ptr<SharedTimeline> timeline_;
};

// S1.7, S1.8, S6.2: upload by the other process, wait, Relu, signal, readback by the other process, every element
// right, nothing copied.
TEST_F(Conformance, FullInferenceWithExternalMemory) {
  constexpr int kFrames = 50;
  const pid_t producer = fork_producer([](float* memory, Timeline& timeline) {
    for (int frame = 0; frame < kFrames; ++frame) {
      const auto turn = static_cast<uint64_t>(2 * frame);
      for (int64_t i = 0; i < kCount; ++i) memory[i] = input_value(frame, i);
      if (!timeline.signal(turn + 1).ok() || !timeline.wait(turn + 2, kLong).ok()) return false;
      for (int64_t i = 0; i < kCount; ++i)
        if (memory[kCount + i] != std::fmax(0.0f, input_value(frame, i))) return false;
    }
    return true;
  });
  Binding binding = bound();
  RunReport report;
  for (int frame = 0; frame < kFrames; ++frame) {
    const auto turn = static_cast<uint64_t>(2 * frame);
    const Fence ready{timeline_, turn + 1}, done{timeline_, turn + 2};
    ASSERT_THAT(
        session_->run(binding, {.waits = {&ready, 1}, .signals = {&done, 1}, .timeout_ns = kLong, .report = &report}),
        is_ok());
    EXPECT_EQ(report.copies.bytes_copied(), 0u);
    EXPECT_EQ(binding.output("y").data(), static_cast<std::byte*>(memory_->data()) + kOutputOffset);
  }
  EXPECT_TRUE(succeeded(producer));
}

// S1.5: the run is asked first; the frame comes later. Leaving the wait out would read the old frame.
TEST_F(Conformance, WaitAndSignalSemaphore) {
  const pid_t producer = fork_producer([](float* memory, Timeline& timeline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    memory[0] = 42;
    return timeline.signal(1).ok() && timeline.wait(2, kLong).ok() && memory[kCount] == 42;
  });
  Binding binding = bound();
  const Fence ready{timeline_, 1}, done{timeline_, 2};
  RunReport report;
  EXPECT_THAT(
      session_->run(binding, {.waits = {&ready, 1}, .signals = {&done, 1}, .timeout_ns = kLong, .report = &report}),
      is_ok());
  EXPECT_EQ(tensor(kOutputOffset).data_as<float>()[0], 42.0f);
  EXPECT_GT(report.wait_ns, 0);
  EXPECT_TRUE(succeeded(producer));
}

// A producer that dies between frames: an error that says so, soon, and the session stays usable.
TEST_F(Conformance, AProducerThatDiesEndsTheRunWithDeviceLost) {
  const pid_t producer = fork_producer([](float*, Timeline& timeline) {
    (void)timeline.signal(1);
    ::pause();
    return true;
  });
  Binding binding = bound();
  const Fence first{timeline_, 1}, second{timeline_, 2};
  ASSERT_THAT(session_->run(binding, {.waits = {&first, 1}, .timeout_ns = kLong}), is_ok());
  ::kill(producer, SIGKILL);
  EXPECT_THAT(session_->run(binding, {.waits = {&second, 1}, .timeout_ns = kLong}),
              has_status(StatusCode::kDeviceLost));
  (void)succeeded(producer);
  EXPECT_THAT(session_->run(binding), is_ok());
}

TEST_F(Conformance, ADeadlineEndsARunThatWaits) {
  Binding binding = bound();
  const Fence never{timeline_, 1}, done{make_host_timeline("done").value(), 1};
  EXPECT_THAT(session_->run(binding, {.waits = {&never, 1}, .signals = {&done, 1}, .timeout_ns = 30'000'000}),
              has_status(StatusCode::kTimeout));
  // Whoever waits for the result learns why it will not come.
  EXPECT_THAT(done.wait(0), has_status(StatusCode::kTimeout));
}

// A read-only import is an input, and never an output.
TEST_F(Conformance, AReadOnlyImportIsRefusedAsAnOutput) {
  OwnedHandle copy = memfd_.dup().value();
  auto memory =
      Importer::host().import_memory(copy, {.size_bytes = kBytes, .writable = false, .name = "frame"}).value();
  Tensor read_only = ExternalMemory::create_tensor(memory, DataType::kFloat, {1, 3, 1024}).value();
  Binding binding = session_->make_binding().value();
  EXPECT_THAT(binding.bind_input("x", read_only), is_ok());
  EXPECT_THAT(binding.bind_output("y", read_only), has_status(StatusCode::kInvalidArgument, HasSubstr("read-only")));
  EXPECT_THAT(session_->run(binding), is_ok());
}

// S1.4: the import's last handle is dropped while the binding still uses its tensors.
TEST_F(Conformance, TensorsOutliveTheImportsHandle) {
  Binding binding = bound();
  tensor(0).data_as<float>()[7] = 3;
  memory_.reset();
  memfd_.reset();
  EXPECT_THAT(session_->run(binding), is_ok());
  EXPECT_EQ(binding.output("y").data_as<float>()[7], 3.0f);
}

}  // namespace
}  // namespace tenon::test
