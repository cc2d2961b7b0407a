// Checks of runs on imported memory: S1.7, S1.8.
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "conformance/inference.h"
#include "programs/relu_model.h"

namespace tenon::conformance {

namespace {

constexpr int64_t kLongNs = 20'000'000'000;

const std::vector<int64_t>& relu_shape() {
  static const std::vector<int64_t> shape = {1, 3, kReluCount / 3};
  return shape;
}

}  // namespace

float relu_input(int frame, int64_t index) { return static_cast<float>((index * 37 + frame * 101) % 2003 - 1000) / 64; }

void upload(std::byte* memory, int frame) {
  auto* floats = reinterpret_cast<float*>(memory);
  for (int64_t i = 0; i < kReluCount; ++i) floats[i] = relu_input(frame, i);
}

std::string read_back(const std::byte* memory, int frame) {
  const auto* floats = reinterpret_cast<const float*>(memory + kReluBytes);
  for (int64_t i = 0; i < kReluCount; ++i) {
    const float expected = std::fmax(0.0f, relu_input(frame, i));
    if (floats[i] != expected) return format("frame {}: element {} is {} instead of {}", frame, i, floats[i], expected);
  }
  return "";
}

std::optional<Exporters> Exporters::of(Check& check) {
  if (check.importer() == nullptr) return std::nullopt;
  Exporters all{.memory = check.memory_exporters(), .semaphores = check.semaphore_exporters()};
  if (!all.memory.empty() && !all.semaphores.empty()) return all;
  check.skip("The EP imports no memory or no semaphore that this program can make.");
  return std::nullopt;
}

std::unique_ptr<ReluSession> ReluSession::create(Check& check) {
  std::unique_ptr<ReluSession> relu(new ReluSession(check));
  check.step("creating a session");
  auto session = check.host().create_session(test::relu_model({1, 3, kReluCount / 3}));
  if (!check.expect_ok(session.status(), "A session of Relu on the EP")) return nullptr;
  relu->session_ = std::move(*session);
  return relu;
}

Status ReluSession::try_run(OrtSyncStream* stream, OrtExternalResourceImporter* importer,
                            const OrtExternalMemoryHandle* memory, bool keep, const Entries& entries) {
  const OrtApi& api = check_.api();
  Owned<OrtValue> input, output;
  TENON_TRY(to_status(create_tensor(check_, importer, memory, describe_tensor(check_, relu_shape(), 0), &input),
                      "CreateTensorFromMemory"));
  TENON_TRY(
      to_status(create_tensor(check_, importer, memory, describe_tensor(check_, relu_shape(), kReluBytes), &output),
                "CreateTensorFromMemory"));
  OrtRunOptions* raw_options = nullptr;
  TENON_TRY(to_status(check_.take(api.CreateRunOptions(&raw_options)), "CreateRunOptions"));
  const auto options = check_.host().own(raw_options, api.ReleaseRunOptions);
  api.RunOptionsSetSyncStream(raw_options, stream);
  if (keep)
    TENON_TRY(to_status(check_.take(api.AddRunConfigEntry(raw_options, "disable_synchronize_execution_providers", "1")),
                        "AddRunConfigEntry"));
  for (const auto& [key, value] : entries)
    TENON_TRY(
        to_status(check_.take(api.AddRunConfigEntry(raw_options, key.c_str(), value.c_str())), "AddRunConfigEntry"));
  TENON_TRY(check_.host().run(session_.get(), input.get(), output.get(), raw_options));
  if (keep) {
    kept_.push_back(std::move(input));
    kept_.push_back(std::move(output));
  }
  return Status();
}

namespace {

// S1.7, S1.8, S6.2: uploads by the other side, wait, Relu in place, signal, readback by the other side.
void full_inference(Check& check) {
  constexpr int kFrames = 5;
  const auto exporters = Exporters::of(check);
  if (!exporters) return;
  auto session = ReluSession::create(check);
  if (session == nullptr) return;
  for (const auto& memory_exporter : exporters->memory) {
    for (const auto& semaphore_exporter : exporters->semaphores) {
      const std::string what = format("{}, {}", memory_exporter->name(), semaphore_exporter->name());
      check.step(what);
      auto memory = memory_exporter->make(kFrameBytes);
      auto semaphore = semaphore_exporter->make();
      if (!check.expect_ok(memory.status(), what) || !check.expect_ok(semaphore.status(), what)) continue;
      const auto memory_handle = import_all(check, **memory);
      const auto semaphore_handle = import_all(check, **semaphore);
      const auto stream = check.stream();
      if (memory_handle == nullptr || semaphore_handle == nullptr || stream == nullptr) continue;

      std::string wrong;
      std::atomic<bool> ended = false;
      bool stopped = false;
      std::thread other([&] {
        for (int frame = 0; frame < kFrames && wrong.empty(); ++frame) {
          const auto turn = static_cast<uint64_t>(2 * frame);
          upload((*memory)->view(), frame);
          (*memory)->publish();
          Status status = (*semaphore)->other().signal(turn + 1);
          if (status.ok()) status = (*semaphore)->other().wait(turn + 2, kLongNs);
          if (status.ok()) (*memory)->refresh();
          wrong = status.ok() ? read_back((*memory)->view(), frame) : status.message();
          if (wrong.empty()) continue;
          ended = true;
          // The next frame may be waiting already.
          (void)(*semaphore)->other().signal(turn + 3);
        }
      });
      for (int frame = 0; frame < kFrames && !ended; ++frame) {
        const auto turn = static_cast<uint64_t>(2 * frame);
        check.step(format("{}, frame {}", what, frame));
        if (!check.expect_ok(check.take(check.interop().WaitSemaphore(check.importer(), semaphore_handle.get(),
                                                                      stream.get(), turn + 1)),
                             "WaitSemaphore") ||
            !session->run(stream.get(), memory_handle.get()) ||
            !check.expect_ok(check.take(check.interop().SignalSemaphore(check.importer(), semaphore_handle.get(),
                                                                        stream.get(), turn + 2)),
                             "SignalSemaphore")) {
          // The other side must not wait for frames that do not come.
          (void)(*semaphore)->other().signal(1'000'000);
          stopped = true;
          break;
        }
      }
      other.join();
      if (stopped) return;
      if (!wrong.empty()) check.fail(format("{}: {}", what, wrong));
    }
  }
}

// S1.5: wait, run and signal are queued, frame after frame, before the other side has written anything; each frame is
// in memory of its own.
void queued_inference(Check& check) {
  constexpr int kFrames = 3;
  constexpr auto kPatience = std::chrono::seconds(5);
  const auto exporters = Exporters::of(check);
  if (!exporters) return;
  for (const auto& semaphore_exporter : exporters->semaphores) {
    const std::string what = semaphore_exporter->name();
    check.step(what);
    auto session = ReluSession::create(check);
    auto semaphore = semaphore_exporter->make();
    if (session == nullptr || !check.expect_ok(semaphore.status(), what)) return;
    std::vector<std::unique_ptr<SharedMemory>> memory;
    std::vector<Owned<OrtExternalMemoryHandle>> memory_handles;
    for (int frame = 0; frame < kFrames; ++frame) {
      auto made = exporters->memory.front()->make(kFrameBytes);
      if (!check.expect_ok(made.status(), what)) return;
      memory.push_back(*std::move(made));
      memory_handles.push_back(import_all(check, *memory.back()));
      if (memory_handles.back() == nullptr) return;
    }
    const auto semaphore_handle = import_all(check, **semaphore);
    const auto stream = check.stream();
    if (semaphore_handle == nullptr || stream == nullptr) return;

    std::atomic<bool> queued = false;
    bool waited = false;
    std::string wrong;
    std::thread other([&] {
      // An EP, or a host, that waits for the semaphore inside of the run would never come back.
      const auto end = std::chrono::steady_clock::now() + kPatience;
      while (!queued && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      waited = !queued;
      for (int frame = 0; frame < kFrames; ++frame) {
        const auto turn = static_cast<uint64_t>(2 * frame);
        SharedMemory& shared = *memory[static_cast<size_t>(frame)];
        upload(shared.view(), frame);
        shared.publish();
        Status status = (*semaphore)->other().signal(turn + 1);
        if (status.ok()) status = (*semaphore)->other().wait(turn + 2, kLongNs);
        if (!status.ok()) {
          wrong = status.message();
          (void)(*semaphore)->other().signal(1'000'000);  // lets go of the frames that are still queued
          break;
        }
        shared.refresh();
        // Later frames run all the same, so that nothing is left waiting.
        if (wrong.empty()) wrong = read_back(shared.view(), frame);
      }
    });
    bool stopped = false;
    for (int frame = 0; frame < kFrames && !stopped; ++frame) {
      const auto turn = static_cast<uint64_t>(2 * frame);
      check.step(format("{}, queueing frame {}", what, frame));
      stopped = !check.expect_ok(check.take(check.interop().WaitSemaphore(check.importer(), semaphore_handle.get(),
                                                                          stream.get(), turn + 1)),
                                 "WaitSemaphore") ||
                !session->queue(stream.get(), memory_handles[static_cast<size_t>(frame)].get()) ||
                !check.expect_ok(check.take(check.interop().SignalSemaphore(check.importer(), semaphore_handle.get(),
                                                                            stream.get(), turn + 2)),
                                 "SignalSemaphore");
    }
    queued = true;
    check.step(format("{}, the frames' work", what));
    if (stopped) (void)(*semaphore)->other().signal(1'000'000);
    other.join();
    if (stopped) return;
    if (!wrong.empty()) check.fail(format("{}: {}", what, wrong));
    check.expect_ok(check.host().wait_for(stream.get()), "The stream, after all frames");
    if (!waited) continue;
    const std::string text =
        format("{}: a run with disable_synchronize_execution_providers waits for its stream.", what);
    // The simulated EP leaves no reason to; others may have one.
    check.host().sim() != nullptr ? check.fail(text) : check.note(text);
  }
}

// S1.8: where to allocate for a session.
void devices_of_inputs_and_outputs(Check& check) {
  auto session = ReluSession::create(check);
  if (session == nullptr) return;
  const OrtEpDevice* device = nullptr;
  check.step("SessionGetEpDeviceForInputs");
  if (check.expect_ok(check.take(check.api().SessionGetEpDeviceForInputs(session->session(), &device, 1)),
                      "SessionGetEpDeviceForInputs"))
    check.expect(device == check.host().device(), "SessionGetEpDeviceForInputs names another device.");
  device = nullptr;
  check.step("SessionGetEpDeviceForOutputs");
  if (check.expect_ok(check.take(check.api().SessionGetEpDeviceForOutputs(session->session(), &device, 1)),
                      "SessionGetEpDeviceForOutputs"))
    check.expect(device == check.host().device(), "SessionGetEpDeviceForOutputs names another device.");
}

}  // namespace

const std::vector<CheckEntry> kInferenceChecks = {
    {"SessionNamesItsDevices", "S1.8", &devices_of_inputs_and_outputs},
    {"FullInferenceWithExternalMemory", "S1.7", &full_inference},
    {"QueuedInferenceWithExternalMemory", "S1.5", &queued_inference},
};

}  // namespace tenon::conformance
