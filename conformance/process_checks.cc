// Checks with an exporter in another process: S1.5, S1.7.
#include <chrono>
#include <thread>

#include "conformance/inference.h"
#include "conformance/other_process.h"

namespace tenon::conformance {

namespace {

constexpr int64_t kLongNs = 20'000'000'000;

bool can_cross(Check& check, bool with_memory) {
  if (check.importer() == nullptr) return false;
  bool memory = !with_memory;
  bool semaphore = false;
  if (with_memory)
    (void)check.take(check.interop().CanImportMemory(
        check.importer(), std::bit_cast<OrtExternalMemoryHandleType>(TENON_EXTERNAL_MEMORY_MAPPABLE_FD), &memory));
  (void)check.take(check.interop().CanImportSemaphore(
      check.importer(), std::bit_cast<OrtExternalSemaphoreType>(TENON_EXTERNAL_SEMAPHORE_SHARED_TIMELINE_FD),
      &semaphore));
  if (!memory || !semaphore)
    check.skip(
        "The EP does not import what another process of this program can send: mappable_fd, shared_timeline_fd.");
  return memory && semaphore;
}

Owned<OrtExternalSemaphoreHandle> import_timeline(Check& check, OtherProcess& other) {
  OrtExternalSemaphoreDescriptor descriptor = {};
  descriptor.version = check.host().version();
  descriptor.type = std::bit_cast<OrtExternalSemaphoreType>(TENON_EXTERNAL_SEMAPHORE_SHARED_TIMELINE_FD);
  descriptor.native_handle = reinterpret_cast<void*>(static_cast<intptr_t>(other.timeline().fd()));
  Owned<OrtExternalSemaphoreHandle> handle;
  if (check.expect_ok(import_semaphore(check, descriptor, &handle), "ImportSemaphore"))
    (void)other.timeline().release_fd();
  return handle;
}

// S1.5: the calls return before the other process signals; then it sees what was signalled back.
void across_processes(Check& check) {
  if (!can_cross(check, false)) return;
  const auto stream = check.stream();
  if (stream == nullptr) return;
  auto other = OtherProcess::start(4096, [](std::byte*, Timeline& timeline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const auto early = timeline.value();
    return early.ok() && *early == 0 && timeline.signal(1).ok() && timeline.wait(2, kLongNs).ok();
  });
  if (!check.expect_ok(other.status(), "The other process")) return;
  const auto semaphore = import_timeline(check, **other);
  if (semaphore == nullptr) return;
  check.step("waiting first, signalling later");
  const auto begin = std::chrono::steady_clock::now();
  check.expect_ok(check.take(check.interop().WaitSemaphore(check.importer(), semaphore.get(), stream.get(), 1)),
                  "WaitSemaphore");
  check.expect_ok(check.take(check.interop().SignalSemaphore(check.importer(), semaphore.get(), stream.get(), 2)),
                  "SignalSemaphore");
  const auto took = std::chrono::steady_clock::now() - begin;
  check.expect(took < std::chrono::milliseconds(40), "The calls wait for the semaphore instead of queueing.");
  check.expect((*other)->succeeded(), "The other process does not see the value that was signalled in order.");
}

// S1.5: a wait whose peer has died ends with an error, and does not hang.
void dead_peer(Check& check) {
  if (!can_cross(check, false)) return;
  auto stream = check.stream();
  if (stream == nullptr) return;
  auto other = OtherProcess::start(4096, [](std::byte*, Timeline& timeline) {
    (void)timeline.signal(1);
    std::this_thread::sleep_for(std::chrono::hours(1));
    return true;
  });
  if (!check.expect_ok(other.status(), "The other process")) return;
  const auto semaphore = import_timeline(check, **other);
  if (semaphore == nullptr) return;
  check.expect_ok(check.take(check.interop().WaitSemaphore(check.importer(), semaphore.get(), stream.get(), 1)),
                  "WaitSemaphore for what the other process reached");
  check.expect_ok(check.host().wait_for(stream.get()), "The stream, while the other process lives");
  check.step("the other process dies");
  check.expect_ok(check.take(check.interop().WaitSemaphore(check.importer(), semaphore.get(), stream.get(), 2)),
                  "WaitSemaphore for what the other process will not reach");
  (*other)->kill();
  const Status status = check.host().wait_for(stream.get());
  if (check.expect(!status.ok(), "The stream passes a wait that nobody signalled."))
    check.note("What the stream reports: " + status.message());
}

// S1.7, S1.8: memory and timeline of another process.
void inference_across_processes(Check& check) {
  constexpr int kFrames = 20;
  if (!can_cross(check, true)) return;
  auto session = ReluSession::create(check);
  const auto stream = check.stream();
  if (session == nullptr || stream == nullptr) return;
  auto other = OtherProcess::start(kFrameBytes, [](std::byte* memory, Timeline& timeline) {
    for (int frame = 0; frame < kFrames; ++frame) {
      const auto turn = static_cast<uint64_t>(2 * frame);
      upload(memory, frame);
      if (!timeline.signal(turn + 1).ok() || !timeline.wait(turn + 2, kLongNs).ok()) return false;
      if (!read_back(memory, frame).empty()) return false;
    }
    return true;
  });
  if (!check.expect_ok(other.status(), "The other process")) return;
  const auto semaphore = import_timeline(check, **other);
  TenonExternalMemoryInfo info = {};
  info.version = TENON_EXTERNAL_MEMORY_INFO_VERSION;
  info.kind = TENON_EXTERNAL_MEMORY_MAPPABLE_FD;
  info.handle.fd = (*other)->memory().fd();
  OrtExternalMemoryDescriptor descriptor = {};
  descriptor.version = check.host().version();
  descriptor.handle_type = std::bit_cast<OrtExternalMemoryHandleType>(info.kind);
  descriptor.native_handle = &info;
  descriptor.size_bytes = kFrameBytes;
  Owned<OrtExternalMemoryHandle> memory;
  if (!check.expect_ok(import_memory(check, check.importer(), descriptor, &memory), "ImportMemory")) return;
  (void)(*other)->memory().release_fd();
  if (semaphore == nullptr) return;
  for (int frame = 0; frame < kFrames; ++frame) {
    check.step(format("frame {}", frame));
    const auto turn = static_cast<uint64_t>(2 * frame);
    if (!check.expect_ok(
            check.take(check.interop().WaitSemaphore(check.importer(), semaphore.get(), stream.get(), turn + 1)),
            "WaitSemaphore") ||
        !session->run(stream.get(), memory.get()) ||
        !check.expect_ok(
            check.take(check.interop().SignalSemaphore(check.importer(), semaphore.get(), stream.get(), turn + 2)),
            "SignalSemaphore"))
      return;
  }
  check.step("the other process's end");
  check.expect((*other)->succeeded(), "The other process reads other elements than Relu gives.");
}

}  // namespace

const std::vector<CheckEntry> kProcessChecks = {
    {"WaitAndSignalAcrossProcesses", "S1.5", &across_processes},
    {"ADeadPeerEndsTheWait", "S1.5", &dead_peer},
    {"FullInferenceAcrossProcesses", "S1.7", &inference_across_processes},
};

}  // namespace tenon::conformance
