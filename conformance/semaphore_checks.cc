// Checks of semaphores and their order on a stream: S1.2, S1.3, S1.5.
#include <chrono>
#include <future>
#include <thread>

#include "conformance/tensors.h"

namespace tenon::conformance {

namespace {

using std::chrono::milliseconds;

constexpr int64_t kLongNs = 20'000'000'000;
constexpr int64_t kShortNs = 30'000'000;

std::vector<std::unique_ptr<SemaphoreExporter>> usable(Check& check) {
  if (check.importer() == nullptr) return {};
  auto exporters = check.semaphore_exporters();
  if (exporters.empty()) check.skip("The EP imports no kind of semaphore that this program can make.");
  return exporters;
}

// A semaphore of both sides, imported.
struct Imported {
  std::unique_ptr<SharedSemaphore> semaphore;
  Owned<OrtExternalSemaphoreHandle> handle;
  Timeline& other() { return semaphore->other(); }
};

bool import_new(Check& check, SemaphoreExporter& exporter, Imported* out) {
  check.step(format("importing a {}", exporter.name()));
  auto made = exporter.make();
  if (!check.expect_ok(made.status(), exporter.name())) return false;
  out->semaphore = std::move(*made);
  out->handle = import_all(check, *out->semaphore);
  return out->handle != nullptr;
}

bool wait(Check& check, Imported& semaphore, OrtSyncStream* stream, uint64_t value) {
  return check.expect_ok(
      check.take(check.interop().WaitSemaphore(check.importer(), semaphore.handle.get(), stream, value)),
      format("WaitSemaphore for {}", value));
}

bool signal(Check& check, Imported& semaphore, OrtSyncStream* stream, uint64_t value) {
  return check.expect_ok(
      check.take(check.interop().SignalSemaphore(check.importer(), semaphore.handle.get(), stream, value)),
      format("SignalSemaphore to {}", value));
}

// S1.2, S1.3
void bad_descriptors(Check& check) {
  if (check.importer() == nullptr) return;
  const uint32_t version = check.host().version();
  const OwnImporter own(check);
  const auto refused_by = [&](bool plugin, SharedSemaphore* semaphore, const OrtExternalSemaphoreDescriptor& descriptor,
                              OrtErrorCode code, const std::string& what) {
    check.step(what);
    const int fds = count_open_fds();
    Owned<OrtExternalSemaphoreHandle> handle;
    check.expect_code(plugin ? own.import_semaphore(descriptor, &handle) : import_semaphore(check, descriptor, &handle),
                      code, "ImportSemaphore with " + what);
    check.expect(count_open_fds() == fds, format("{}: a failed import leaves file descriptors open.", what));
    if (semaphore == nullptr) return;
    const std::string lost = handle == nullptr ? semaphore->check_still_ours() : "";
    if (!lost.empty()) check.fail(lost);
  };
  const auto refused = [&](SharedSemaphore* semaphore, const OrtExternalSemaphoreDescriptor& descriptor,
                           OrtErrorCode code, const std::string& what) {
    refused_by(false, semaphore, descriptor, code, what);
    if (own) refused_by(true, semaphore, descriptor, code, what + ", the plugin's own importer");
  };
  int local = 0;
  for (const uint32_t kind : {0u, 1u, 2u, 3u, 1000u, 0x544E0077u, 0xffffffffu}) {
    bool supported = true;
    const auto type = std::bit_cast<OrtExternalSemaphoreType>(kind);
    if (!check.take(check.interop().CanImportSemaphore(check.importer(), type, &supported)).ok() || supported) continue;
    OrtExternalSemaphoreDescriptor descriptor = {};
    descriptor.version = version;
    descriptor.type = type;
    descriptor.native_handle = &local;
    refused(nullptr, descriptor, ORT_NOT_IMPLEMENTED, format("the unsupported type {:#x}", kind));
  }
  for (const auto& exporter : check.semaphore_exporters()) {
    auto made = exporter->make();
    if (!check.expect_ok(made.status(), exporter->name())) continue;
    for (const uint32_t wrong : {0u, 1000u}) {
      OrtExternalSemaphoreDescriptor descriptor = (*made)->descriptor(version);
      descriptor.version = wrong;
      refused(made->get(), descriptor, ORT_INVALID_ARGUMENT, format("version {} ({})", wrong, exporter->name()));
    }
    OrtExternalSemaphoreDescriptor descriptor = (*made)->descriptor(version);
    // No fd of this number is open; for pointers, null.
    const bool is_fd = exporter->kind() == TENON_EXTERNAL_SEMAPHORE_SHARED_TIMELINE_FD;
    descriptor.native_handle = is_fd ? reinterpret_cast<void*>(intptr_t{1 << 20}) : nullptr;
    refused(made->get(), descriptor, ORT_INVALID_ARGUMENT, format("a handle that is none ({})", exporter->name()));
  }
}

// S1.5
void null_stream(Check& check) {
  for (const auto& exporter : usable(check)) {
    Imported semaphore;
    if (!import_new(check, *exporter, &semaphore)) continue;
    check.step("a null stream");
    check.expect_code(check.take(check.interop().WaitSemaphore(check.importer(), semaphore.handle.get(), nullptr, 1)),
                      ORT_INVALID_ARGUMENT, "WaitSemaphore with a null stream");
    check.expect_code(check.take(check.interop().SignalSemaphore(check.importer(), semaphore.handle.get(), nullptr, 1)),
                      ORT_INVALID_ARGUMENT, "SignalSemaphore with a null stream");
    const auto stream = check.stream();
    if (stream == nullptr) return;
    check.step("a null semaphore");
    check.expect_code(check.take(check.interop().WaitSemaphore(check.importer(), nullptr, stream.get(), 1)),
                      ORT_INVALID_ARGUMENT, "WaitSemaphore with a null semaphore");
    check.expect_code(check.take(check.interop().SignalSemaphore(check.importer(), nullptr, stream.get(), 1)),
                      ORT_INVALID_ARGUMENT, "SignalSemaphore with a null semaphore");
  }
}

// S1.7
void import_fence(Check& check) {
  for (const auto& exporter : usable(check)) {
    for (int round = 0; round < 3; ++round) {
      const int fds = count_open_fds();
      {
        Imported semaphore;
        if (!import_new(check, *exporter, &semaphore)) break;
        semaphore.handle.reset();
        const std::string wrong = semaphore.semaphore->check_given_back();
        if (!wrong.empty()) check.fail(format("{}: {}", exporter->name(), wrong));
      }
      check.expect(round == 0 || count_open_fds() == fds,
                   format("{}: import and release leave file descriptors open.", exporter->name()));
    }
  }
}

// S1.7, S1.5: both calls return long before the semaphore is reached; the other side, another thread, reaches it later.
void wait_and_signal(Check& check) {
  for (const auto& exporter : usable(check)) {
    Imported semaphore;
    if (!import_new(check, *exporter, &semaphore)) continue;
    const auto stream = check.stream();
    if (stream == nullptr) return;
    check.step(format("waiting first, signalling later ({})", exporter->name()));
    if (!wait(check, semaphore, stream.get(), 1) || !signal(check, semaphore, stream.get(), 2)) continue;
    std::this_thread::sleep_for(milliseconds(20));
    const auto early = semaphore.other().value();
    check.expect(early.ok() && *early == 0,
                 format("{}: the signal did not wait for the wait before it.", exporter->name()));
    std::thread other([&] {
      std::this_thread::sleep_for(milliseconds(20));
      (void)semaphore.other().signal(1);
    });
    const Status reached = semaphore.other().wait(2, kLongNs);
    other.join();
    check.expect_ok(reached, format("{}: the value that was signalled does not arrive", exporter->name()));
    const auto value = semaphore.other().value();
    check.expect(value.ok() && *value == 2,
                 format("{}: the semaphore is not at the signalled value.", exporter->name()));
  }
}

// S1.5
void program_order(Check& check) {
  for (const auto& exporter : usable(check)) {
    Imported first, second;
    if (!import_new(check, *exporter, &first) || !import_new(check, *exporter, &second)) continue;
    const auto stream = check.stream();
    if (stream == nullptr) return;
    check.step(format("four operations on one stream ({})", exporter->name()));
    if (!wait(check, first, stream.get(), 1) || !signal(check, second, stream.get(), 1) ||
        !wait(check, first, stream.get(), 2) || !signal(check, second, stream.get(), 2))
      continue;
    (void)first.other().signal(1);
    check.expect_ok(second.other().wait(1, kLongNs), "The first signal after the first wait");
    check.expect(!second.other().wait(2, kShortNs).ok(),
                 format("{}: the second signal passes before the second wait.", exporter->name()));
    (void)first.other().signal(2);
    check.expect_ok(second.other().wait(2, kLongNs), "The second signal after the second wait");
  }
}

// S1.5: values are 64 bits wide.
void wide_values(Check& check) {
  constexpr uint64_t kWide = (uint64_t{1} << 40) + 3;
  for (const auto& exporter : usable(check)) {
    Imported semaphore;
    if (!import_new(check, *exporter, &semaphore)) continue;
    const auto stream = check.stream();
    if (stream == nullptr) return;
    if (!wait(check, semaphore, stream.get(), kWide) || !signal(check, semaphore, stream.get(), kWide + 1)) continue;
    (void)semaphore.other().signal(kWide);
    check.expect_ok(semaphore.other().wait(kWide + 1, kLongNs), "A value above 32 bits");
  }
}

// A semaphore that a stream may still use is released when the stream's work has passed, not with the last handle.
void released_while_queued(Check& check) {
  for (const auto& exporter : usable(check)) {
    Imported semaphore;
    if (!import_new(check, *exporter, &semaphore)) continue;
    const auto stream = check.stream();
    if (stream == nullptr) return;
    if (!wait(check, semaphore, stream.get(), 1) || !signal(check, semaphore, stream.get(), 2)) continue;
    check.step(format("releasing the handle while its work is queued ({})", exporter->name()));
    semaphore.handle.reset();
    (void)semaphore.other().signal(1);
    check.expect_ok(semaphore.other().wait(2, kLongNs), "A signal whose handle was released");
  }
}

// S1.5: a stream ends although it waits for a value that nobody signals.
void never_signalled(Check& check) {
  for (const auto& exporter : usable(check)) {
    Imported semaphore;
    if (!import_new(check, *exporter, &semaphore)) continue;
    auto stream = check.stream();
    if (stream == nullptr) return;
    if (!wait(check, semaphore, stream.get(), 1)) continue;
    check.step(format("releasing a stream that waits for ever ({})", exporter->name()));
    stream.reset();
    // Only now: somebody may hold the semaphore for the stream's work.
    semaphore.handle.reset();
  }
}

// S1.6
void many_threads(Check& check) {
  for (const auto& exporter : usable(check)) {
    check.step(exporter->name());
    constexpr int kThreads = 8;
    std::vector<std::future<std::string>> done;
    done.reserve(kThreads);
    for (int t = 0; t < kThreads; ++t) {
      done.push_back(std::async(std::launch::async, [&]() -> std::string {
        Imported semaphore;
        auto stream = check.host().create_stream();
        if (!stream.ok()) return stream.status().message();
        if (!import_new(check, *exporter, &semaphore)) return "no import";
        for (uint64_t i = 0; i < 20; ++i) {
          if (!wait(check, semaphore, stream->get(), 2 * i + 1) || !signal(check, semaphore, stream->get(), 2 * i + 2))
            return "a call fails";
        }
        for (uint64_t i = 0; i < 20; ++i) {
          (void)semaphore.other().signal(2 * i + 1);
          const Status status = semaphore.other().wait(2 * i + 2, kLongNs);
          if (!status.ok()) return status.message();
        }
        return "";
      }));
    }
    for (auto& result : done) {
      const std::string wrong = result.get();
      if (!wrong.empty()) check.fail(format("{}: {}", exporter->name(), wrong));
    }
  }
}

}  // namespace

const std::vector<CheckEntry> kSemaphoreChecks = {
    {"SemaphoresRefuseBadDescriptors", "S1.3", &bad_descriptors},
    {"NullStreamIsRefused", "S1.5", &null_stream},
    {"ImportFence", "S1.7", &import_fence},
    {"WaitAndSignalSemaphore", "S1.7", &wait_and_signal},
    {"WaitsKeepProgramOrder", "S1.5", &program_order},
    {"SemaphoreValuesHave64Bits", "S1.5", &wide_values},
    {"QueuedWorkKeepsItsSemaphore", "S1.5", &released_while_queued},
    {"AWaitForNobodyEndsWithItsStream", "S1.5", &never_signalled},
    {"ManyThreadsUseSemaphores", "S1.6", &many_threads},
};

}  // namespace tenon::conformance
