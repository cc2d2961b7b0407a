// The simulated EP's streams in a host: threads, runs on the program's stream, failures after a run has returned. The
// same program runs in libtenon and in stock onnxruntime.
#include <atomic>
#include <chrono>
#include <thread>

#include "hosts.h"

namespace tenon::hosts {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr int64_t kLongNs = 20'000'000'000;
const std::vector<std::string> kChain = {"Neg", "Abs", "Neg", "Neg", "Abs", "Neg"};

class Streams : public HostTest {
 protected:
  // 16 threads on one session, each with inputs of its own; every result is what one thread computes.
  void run_threads(OrtSession* session, int runs) {
    constexpr int kThreads = 16;
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int number = 0; number < kThreads; ++number) {
      threads.emplace_back([&, number] {
        std::vector<float> from = numbers(), to(kCount);
        for (float& value : from) value += static_cast<float>(number);
        const std::vector<float> expected = chain_of(from, kChain);
        const auto x = wrap(from), y = wrap(to);
        for (int turn = 0; turn < runs; ++turn) {
          std::fill(to.begin(), to.end(), 0.0f);
          OrtValue* out = y.get();
          if (!run(session, x.get(), &out).ok() || to != expected) ++wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
  }
  static int runs() {
    const char* text = std::getenv("TENON_TEST_RUNS");
    return text != nullptr ? std::atoi(text) : 1000;
  }
  Owned<OrtRunOptions> options(OrtSyncStream* stream, bool asynchronous) {
    OrtRunOptions* raw = nullptr;
    EXPECT_THAT(ok(api().CreateRunOptions(&raw), "CreateRunOptions"), is_ok());
    api().RunOptionsSetSyncStream(raw, stream);
    if (asynchronous) {
      EXPECT_THAT(ok(api().AddRunConfigEntry(raw, "disable_synchronize_execution_providers", "1"), "AddRunConfigEntry"),
                  is_ok());
    }
    return host().own(raw, api().ReleaseRunOptions);
  }
  // The same host once more, on the CPU device.
  static Result<std::unique_ptr<Host>> use_cpu() {
    return Host::load({.library = std::getenv("TENON_TEST_HOST"), .ep_name = "CPUExecutionProvider"});
  }
  // A timeline of the other side, imported.
  struct Shared {
    std::unique_ptr<conformance::SharedSemaphore> semaphore;
    Owned<OrtExternalSemaphoreHandle> handle;
  };
  Shared share_timeline(OrtExternalResourceImporter* importer) {
    Shared shared;
    auto made = conformance::shared_timeline_exporter("shared_timeline_fd", TENON_EXTERNAL_SEMAPHORE_SHARED_TIMELINE_FD)
                    ->make();
    EXPECT_THAT(made, is_ok());
    shared.semaphore = *std::move(made);
    const OrtExternalSemaphoreDescriptor descriptor = shared.semaphore->descriptor(host().version());
    OrtExternalSemaphoreHandle* handle = nullptr;
    EXPECT_THAT(ok(host().interop().ImportSemaphore(importer, &descriptor, &handle), "ImportSemaphore"), is_ok());
    shared.semaphore->take_on_success();
    shared.handle = host().own(handle, host().interop().ReleaseExternalSemaphoreHandle);
    return shared;
  }
};

// S5.3: 16 threads give the bytes of one, with the device's poison after every scratch block.
TEST_F(Streams, SixteenThreadsGiveTheBytesOfOne) {
  use();
  for (const char* mode : {"compile", "kernels"}) {
    const auto chain = session(kChain, {{"mode", mode}});
    ASSERT_NE(chain, nullptr);
    const int64_t takes = counter("total_scratch_takes");
    run_threads(chain.get(), mode[0] == 'c' ? runs() : runs() / 10);
    if (mode[0] == 'c') {
      EXPECT_GT(counter("total_scratch_takes"), takes);
    }
  }
  EXPECT_EQ(counter("total_order_violations"), 0);
}

// S5.3: an EP that says no gets one run at a time.
TEST_F(Streams, RunsAreSerialisedWhenTheEpAsksForIt) {
  use();
  const int64_t before = counter("total_overlapping_runs");
  const auto serial = session(kChain, {{"concurrent_runs", "0"}});
  ASSERT_NE(serial, nullptr);
  run_threads(serial.get(), 20);
  EXPECT_EQ(counter("total_overlapping_runs"), before);
  const auto concurrent = session(kChain);
  ASSERT_NE(concurrent, nullptr);
  if (host().version() < 28) {  // no KernelContext_GetSyncStream: never advertised
    run_threads(concurrent.get(), 20);
    EXPECT_EQ(counter("total_overlapping_runs"), before);
    return;
  }
  // The counter does count: runs of an EP that allows it are under way together.
  for (int turn = 0; turn < 50 && counter("total_overlapping_runs") == before; ++turn)
    run_threads(concurrent.get(), 20);
  EXPECT_GT(counter("total_overlapping_runs"), before);
}

// S5.1, S1.5: the run is enqueued on the program's stream, between a wait and a signal, and returns before either.
TEST_F(Streams, ARunOnTheProgramsStreamReturnsBeforeItsSemaphore) {
  use();
  auto importer = host().create_importer();
  auto stream = host().create_stream();
  ASSERT_THAT(importer, is_ok());
  ASSERT_THAT(stream, is_ok());
  const auto& interop = host().interop();
  for (const char* mode : {"compile", "kernels"}) {
    const auto chain = session({"Neg", "Neg", "Neg"}, {{"mode", mode}});
    const auto x = allocate(OrtDeviceMemoryType_DEFAULT), y = allocate(OrtDeviceMemoryType_DEFAULT);
    ASSERT_TRUE(chain != nullptr && x != nullptr && y != nullptr);
    std::vector<float> values = numbers(), result(kCount);
    const auto from = wrap(values), to = wrap(result);
    ASSERT_THAT(copy(from.get(), x.get()), is_ok());
    const Shared shared = share_timeline(importer->get());
    Timeline& other = shared.semaphore->other();
    const auto run_options = options(stream->get(), true);
    // Whoever waits inside of the run gets out again, and is found out.
    std::atomic<bool> returned = false;
    bool too_late = false;
    std::thread patience([&] {
      for (int i = 0; i < 60'000 && !returned; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      too_late = !returned;
      EXPECT_THAT(other.signal(1), is_ok());
    });
    EXPECT_THAT(ok(interop.WaitSemaphore(importer->get(), shared.handle.get(), stream->get(), 1), "Wait"), is_ok());
    OrtValue* out = y.get();
    const int64_t kernels = counter("total_kernels");
    EXPECT_THAT(run(chain.get(), x.get(), &out, run_options.get()), is_ok());
    EXPECT_EQ(counter("total_kernels"), kernels) << "nothing may run before the semaphore";
    EXPECT_THAT(ok(interop.SignalSemaphore(importer->get(), shared.handle.get(), stream->get(), 2), "Signal"), is_ok());
    returned = true;
    patience.join();
    EXPECT_FALSE(too_late) << mode << ": the run waits for its stream";
    EXPECT_THAT(other.wait(2, kLongNs), is_ok());
    EXPECT_EQ(counter("total_kernels"), kernels + 3);
    ASSERT_THAT(copy(y.get(), to.get()), is_ok());
    EXPECT_THAT(result, ElementsAreArray(chain_of(values, {"Neg"})));
  }
}

// The program has waited for its stream itself, and releases it first.
TEST_F(Streams, AStreamMayGoBeforeTheSessionThatRanOnIt) {
  use();
  auto stream = host().create_stream();
  ASSERT_THAT(stream, is_ok());
  auto chain = session({"Neg", "Neg", "Neg"}, {});
  const auto x = allocate(OrtDeviceMemoryType_DEFAULT), y = allocate(OrtDeviceMemoryType_DEFAULT);
  ASSERT_TRUE(chain != nullptr && x != nullptr && y != nullptr);
  std::vector<float> values = numbers(), result(kCount);
  const auto from = wrap(values), to = wrap(result);
  ASSERT_THAT(copy(from.get(), x.get()), is_ok());
  OrtValue* out = y.get();
  ASSERT_THAT(run(chain.get(), x.get(), &out, options(stream->get(), true).get()), is_ok());
  ASSERT_THAT(host().wait_for(stream->get()), is_ok());
  stream->reset();
  ASSERT_THAT(copy(y.get(), to.get()), is_ok());
  EXPECT_THAT(result, ElementsAreArray(chain_of(values, {"Neg"})));
  chain.reset();
}

// A failure after the run has returned poisons the signal that the program queues behind it; another stream goes on.
TEST_F(Streams, AFailureAfterTheRunPoisonsTheSignal) {
  use();
  auto importer = host().create_importer();
  ASSERT_THAT(importer, is_ok());
  const auto chain = session({"Neg"});
  const auto x = allocate(OrtDeviceMemoryType_DEFAULT), y = allocate(OrtDeviceMemoryType_DEFAULT);
  ASSERT_TRUE(chain != nullptr && x != nullptr && y != nullptr);
  std::vector<float> values = numbers();
  const auto from = wrap(values);
  ASSERT_THAT(copy(from.get(), x.get()), is_ok());
  for (const bool fails : {true, false}) {
    auto stream = host().create_stream();
    ASSERT_THAT(stream, is_ok());
    const Shared shared = share_timeline(importer->get());
    ASSERT_EQ(host().sim()->fail_at("kernel", fails ? 1 : 0), 1);
    OrtValue* out = y.get();
    ASSERT_THAT(run(chain.get(), x.get(), &out, options(stream->get(), true).get()), is_ok());
    ASSERT_THAT(ok(host().interop().SignalSemaphore(importer->get(), shared.handle.get(), stream->get(), 1), "Signal"),
                is_ok());
    const Status reached = shared.semaphore->other().wait(1, kLongNs);
    if (fails) {
      EXPECT_THAT(reached, has_status(StatusCode::kDeviceError, HasSubstr("kernel")));
    } else {
      EXPECT_THAT(reached, is_ok());
    }
    EXPECT_EQ(host().wait_for(stream->get()).ok(), !fails);
  }
}

// Without the entry the run waits, on the program's stream alone.
TEST_F(Streams, ARunOnTheProgramsStreamIsDoneWhenItReturns) {
  use();
  const auto chain = session({"Neg"});
  auto stream = host().create_stream();
  ASSERT_THAT(stream, is_ok());
  const auto x = allocate(OrtDeviceMemoryType_HOST_ACCESSIBLE), y = allocate(OrtDeviceMemoryType_HOST_ACCESSIBLE);
  ASSERT_TRUE(chain != nullptr && x != nullptr && y != nullptr);
  const std::vector<float> values = numbers();
  std::copy(values.begin(), values.end(), data(x.get()));
  const auto run_options = options(stream->get(), false);
  for (int turn = 0; turn < 3; ++turn) {
    std::fill_n(data(y.get()), kCount, 0.0f);
    OrtValue* out = y.get();
    ASSERT_THAT(run(chain.get(), x.get(), &out, run_options.get()), is_ok());
    EXPECT_THAT(std::vector<float>(data(y.get()), data(y.get()) + kCount), ElementsAreArray(chain_of(values, {"Neg"})));
  }
}

// The CPU device's streams too: wait, run and signal are queued, and the program goes on.
TEST_F(Streams, ARunOfTheCpuEpIsLeftToItsStream) {
  use();
  if (!host().is_tenon()) GTEST_SKIP() << "stock hosts have no streams of the CPU device";
  if (!kSeesSharedPages) GTEST_SKIP() << "the input is written after the run was queued";
  auto cpu = use_cpu();
  ASSERT_THAT(cpu, is_ok());
  auto importer = (*cpu)->create_importer();
  ASSERT_THAT(importer, is_ok());
  for (const bool poisoned : {false, true}) {
    auto stream = (*cpu)->create_stream();
    ASSERT_THAT(stream, is_ok());
    auto chain = (*cpu)->create_session(test::chain_model({"Neg", "Abs", "Neg"}, {1, kCount}));
    ASSERT_THAT(chain, is_ok());
    const Shared shared = share_timeline(importer->get());
    Timeline& other = shared.semaphore->other();
    std::vector<float> from(kCount), to(kCount, 7.0f);
    const auto x = wrap(from), y = wrap(to);
    OrtValue* out = y.get();
    const auto& interop = host().interop();
    ASSERT_THAT(ok(interop.WaitSemaphore(importer->get(), shared.handle.get(), stream->get(), 1), "Wait"), is_ok());
    ASSERT_THAT(run(chain->get(), x.get(), &out, options(stream->get(), true).get()), is_ok());
    ASSERT_THAT(ok(interop.SignalSemaphore(importer->get(), shared.handle.get(), stream->get(), 2), "Signal"), is_ok());
    *chain = nullptr;  // the queued run keeps what it needs
    EXPECT_EQ(to, std::vector<float>(kCount, 7.0f));
    const std::vector<float> written = numbers();
    std::copy(written.begin(), written.end(), from.begin());
    if (poisoned) {
      other.poison(1, device_lost("The producer is gone."));
      EXPECT_THAT(other.wait(2, kLongNs), has_status(StatusCode::kDeviceLost));
      EXPECT_EQ(to, std::vector<float>(kCount, 7.0f));
    } else {
      ASSERT_THAT(other.signal(1), is_ok());
      ASSERT_THAT(other.wait(2, kLongNs), is_ok());
      EXPECT_EQ(to, chain_of(written, {"Neg", "Abs", "Neg"}));
    }
  }
}

}  // namespace
}  // namespace tenon::hosts
