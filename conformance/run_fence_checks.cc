// Checks of a run's fences, given by run entries (tenon/external_handles.h). Tenon's host serves them for every EP; an
// EP may take them over and wait and signal on its device, in stock hosts too.
#include <tenon/external_handles.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "conformance/inference.h"

namespace tenon::conformance {

namespace {

constexpr int64_t kLongNs = 20'000'000'000;
constexpr size_t kLongestEntry = 1000;

std::string fence(const OrtExternalSemaphoreHandle* handle, uint64_t value) {
  return format("{:#x}:{}", reinterpret_cast<uintptr_t>(handle), value);
}

// The EP of the device takes fences of runs, so that nothing waits on the host.
bool takes_fences(Check& check) {
  const OrtKeyValuePairs* metadata = check.api().EpDevice_EpMetadata(check.host().device());
  const char* value = metadata != nullptr ? check.api().GetKeyValue(metadata, "tenon.run_fences") : nullptr;
  return value != nullptr && std::string_view(value) == "1";
}

// In a stock host the EP alone reads a run's entries.
bool serves_fences(Check& check) {
  if (check.host().is_tenon() || takes_fences(check)) return true;
  check.skip("The host knows no fences of runs, and the EP takes none.");
  return false;
}

struct Side {
  std::unique_ptr<SharedMemory> memory;
  Owned<OrtExternalMemoryHandle> memory_handle;
  std::unique_ptr<SharedSemaphore> semaphores[2];
  Owned<OrtExternalSemaphoreHandle> handles[2];
};

bool open(Check& check, MemoryExporter& memory_exporter, SemaphoreExporter& semaphore_exporter, Side* side) {
  auto memory = memory_exporter.make(kFrameBytes);
  if (!check.expect_ok(memory.status(), memory_exporter.name())) return false;
  side->memory = *std::move(memory);
  side->memory_handle = import_all(check, *side->memory);
  for (int i = 0; i < 2; ++i) {
    auto made = semaphore_exporter.make();
    if (!check.expect_ok(made.status(), semaphore_exporter.name())) return false;
    side->semaphores[i] = *std::move(made);
    side->handles[i] = import_all(check, *side->semaphores[i]);
    if (side->handles[i] == nullptr) return false;
  }
  return side->memory_handle != nullptr;
}

// The other side of one frame: writes, signals both semaphores, waits for both, reads.
std::string other_side(Side& side, int frame) {
  const auto turn = static_cast<uint64_t>(2 * frame);
  upload(side.memory->view(), frame);
  side.memory->publish();
  for (auto& semaphore : side.semaphores) {
    if (Status status = semaphore->other().signal(turn + 1); !status.ok()) return status.message();
  }
  for (auto& semaphore : side.semaphores) {
    if (Status status = semaphore->other().wait(turn + 2, kLongNs); !status.ok()) return status.message();
  }
  side.memory->refresh();
  return read_back(side.memory->view(), frame);
}

// Two semaphores a run, the same memory again and again, so that an EP that captures its work does. Where the EP takes
// fences all frames are queued before the other side begins.
void run_frames(Check& check, ReluSession& session, OrtSyncStream* stream, const std::string& what, Side& side) {
  constexpr int kFrames = 8;
  const bool ahead = takes_fences(check);
  std::atomic<bool> queued = !ahead, stopped = false;
  std::string wrong;
  std::thread other([&] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!queued && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (!queued) wrong = "a run waits for its fences, though its EP takes them and it need not wait for its stream";
    for (int frame = 0; frame < kFrames && !stopped; ++frame) {
      const std::string bad = other_side(side, frame);
      if (wrong.empty()) wrong = bad;
      if (bad.empty()) continue;
      for (auto& semaphore : side.semaphores) (void)semaphore->other().signal(1'000'000);
      break;
    }
  });
  for (int frame = 0; frame < kFrames && !stopped; ++frame) {
    check.step(format("{}, run {}", what, frame));
    const auto turn = static_cast<uint64_t>(2 * frame);
    const auto both = [&](uint64_t value) {
      return fence(side.handles[0].get(), value) + ", " + fence(side.handles[1].get(), value);
    };
    stopped =
        !check.expect_ok(session.try_queue(stream, side.memory_handle.get(),
                                           {{TENON_RUN_WAITS, both(turn + 1)}, {TENON_RUN_SIGNALS, both(turn + 2)}}),
                         "A run with fences");
  }
  queued = true;
  check.step(format("{}, the frames' work", what));
  if (stopped) {
    for (auto& semaphore : side.semaphores) (void)semaphore->other().signal(1'000'000);
  }
  other.join();
  if (!stopped && !wrong.empty()) check.fail(format("{}: {}", what, wrong));
}

// S1.5
void run_with_fences(Check& check) {
  if (!serves_fences(check)) return;
  const auto exporters = Exporters::of(check);
  if (!exporters) return;
  auto session = ReluSession::create(check);
  if (session == nullptr) return;
  for (const auto& semaphore_exporter : exporters->semaphores) {
    const auto stream = check.stream();
    Side side;
    if (stream == nullptr || !open(check, *exporters->memory.front(), *semaphore_exporter, &side)) return;
    run_frames(check, *session, stream.get(), semaphore_exporter->name(), side);
    check.expect_ok(check.host().wait_for(stream.get()), "The stream, after all frames");
  }
}

// Entries that are none, and semaphores that are released, are invalid arguments; the session goes on, and what was
// promised is not signalled.
void bad_fences(Check& check) {
  if (!serves_fences(check)) return;
  const auto exporters = Exporters::of(check);
  if (!exporters) return;
  auto session = ReluSession::create(check);
  const auto stream = check.stream();
  Side side;
  if (session == nullptr || stream == nullptr ||
      !open(check, *exporters->memory.front(), *exporters->semaphores.front(), &side))
    return;
  const std::string released = fence(side.handles[1].get(), 1);
  side.handles[1] = nullptr;
  upload(side.memory->view(), 0);
  side.memory->publish();
  for (const std::string& text : {std::string("x"), std::string("1:"), std::string("0x10:1"), std::string(":5"),
                                  released, std::string(100'000, '1'), fence(side.handles[0].get(), 1) + ",1"}) {
    for (const char* key : {TENON_RUN_WAITS, TENON_RUN_SIGNALS}) {
      const std::string what = format("{} = \"{}\"", key, text.substr(0, 40));
      check.step(what);
      const Status status = session->try_queue(stream.get(), side.memory_handle.get(), {{key, text}});
      check.expect(!status.ok(), what + " is taken.");
      // A stock host refuses long entries itself, before the EP sees them.
      const bool hosts_own = !check.host().is_tenon() && text.size() > kLongestEntry;
      check.expect(hosts_own || status.message().find(key) != std::string::npos,
                   what + " is refused, and the text names no key.");
    }
  }
  check.step("a run after those");
  check.expect_ok(session->try_queue(stream.get(), side.memory_handle.get(), {}), "A run without fences");
  check.expect_ok(check.host().wait_for(stream.get()), "The stream");
  const Result<uint64_t> value = side.semaphores[0]->other().value();
  check.expect(value.ok() && *value == 0, "A run that was refused has signalled.");
}

}  // namespace

const std::vector<CheckEntry> kRunFenceChecks = {
    {"BadFencesOfARun", "S1.5", &bad_fences},
    {"FencesOfARun", "S1.5", &run_with_fences},
};

}  // namespace tenon::conformance
