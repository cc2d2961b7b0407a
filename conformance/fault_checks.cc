// Makes each step that can fail do so once, and checks the status, the absence of leaks, and the next run. For EPs that
// fail on demand (the simulated one).
#include <array>

#include "conformance/inference.h"

namespace tenon::conformance {

namespace {

constexpr int64_t kLongNs = 20'000'000'000;
constexpr int kMostSteps = 500;

// The counters of live objects that the simulated device keeps.
constexpr std::array kCounters = {"importers", "imported_memories", "imported_semaphores", "imported_tensors",
                                  "streams",   "notifications",     "nt_handles",          "compute_states"};

struct Alive {
  std::array<int64_t, kCounters.size()> counts{};
  int fds = 0;
};

Alive count(const TenonSimTestApi& sim) {
  Alive alive;
  for (size_t i = 0; i < kCounters.size(); ++i) alive.counts[i] = sim.counter(kCounters[i]);
  alive.fds = count_open_fds();
  return alive;
}

// Fewer is well: a host may drop what it keeps for a session's next run after a failure.
void expect_nothing_left(Check& check, const Alive& before, const Alive& after, const std::string& what) {
  for (size_t i = 0; i < kCounters.size(); ++i)
    check.expect(after.counts[i] <= before.counts[i],
                 format("{}: {} {} are left over.", what, after.counts[i] - before.counts[i], kCounters[i]));
  check.expect(after.fds <= before.fds, format("{}: {} file descriptors are left over.", what, after.fds - before.fds));
}

// One frame of a program, from the importer to the readback. Gives the first failure that the host tells, and leaves
// nothing; `wrong` says what the other side reads instead of the right elements.
Status one_frame(Check& check, MemoryExporter& memory_exporter, SemaphoreExporter& semaphore_exporter,
                 ReluSession* session, std::string* wrong) {
  Host& host = check.host();
  const OrtInteropApi& interop = check.interop();
  TENON_TRY_ASSIGN(auto shared_memory, memory_exporter.make(kFrameBytes));
  TENON_TRY_ASSIGN(auto shared_semaphore, semaphore_exporter.make());
  upload(shared_memory->view(), 0);
  TENON_TRY(shared_semaphore->other().signal(1));
  TENON_TRY_ASSIGN(const auto importer, host.create_importer());

  Owned<OrtExternalMemoryHandle> memory;
  Outcome outcome = import_memory(check, importer.get(), shared_memory->descriptor(host.version()), &memory);
  const std::string lost = outcome.ok() ? "" : shared_memory->check_still_ours();
  if (!lost.empty()) check.fail(lost);
  TENON_TRY(to_status(outcome, "ImportMemory"));
  shared_memory->take_on_success();

  Owned<OrtExternalSemaphoreHandle> semaphore;
  OrtExternalSemaphoreHandle* raw = nullptr;
  const OrtExternalSemaphoreDescriptor descriptor = shared_semaphore->descriptor(host.version());
  outcome = check.take(interop.ImportSemaphore(importer.get(), &descriptor, &raw));
  semaphore = host.own(raw, interop.ReleaseExternalSemaphoreHandle);
  TENON_TRY(to_status(outcome, "ImportSemaphore"));
  shared_semaphore->take_on_success();

  TENON_TRY_ASSIGN(const auto stream, host.create_stream());
  TENON_TRY(
      to_status(check.take(interop.WaitSemaphore(importer.get(), semaphore.get(), stream.get(), 1)), "WaitSemaphore"));
  TENON_TRY(session->try_run(stream.get(), importer.get(), memory.get()));
  TENON_TRY(to_status(check.take(interop.SignalSemaphore(importer.get(), semaphore.get(), stream.get(), 2)),
                      "SignalSemaphore"));
  TENON_TRY(shared_semaphore->other().wait(2, kLongNs));
  // A failure of queued work moves the semaphore too, so that nobody hangs: the stream has its status.
  TENON_TRY(host.wait_for(stream.get()));
  *wrong = read_back(shared_memory->view(), 0);
  return Status();
}

void fault_walk(Check& check) {
  const TenonSimTestApi* sim = check.host().sim();
  if (sim == nullptr) return check.skip("The EP does not fail on demand.");
  if (check.importer() == nullptr) return;
  auto session = ReluSession::create(check);
  if (session == nullptr) return;
  const auto semaphores = check.semaphore_exporters();
  int steps = 0, untold = 0;
  std::string wrong;
  for (const auto& memory : check.memory_exporters()) {
    SemaphoreExporter& semaphore = *semaphores[static_cast<size_t>(steps) % semaphores.size()];
    check.step(format("a frame without a failure ({}, {})", memory->name(), semaphore.name()));
    if (!check.expect_ok(one_frame(check, *memory, semaphore, session.get(), &wrong), "A frame without a failure"))
      return;
    check.expect(wrong.empty(), "A frame without a failure: " + wrong);
    const Alive before = count(*sim);
    int n = 1;
    for (; n <= kMostSteps; ++n) {
      const std::string what = format("{}: step {} fails", memory->name(), n);
      check.step(what);
      (void)sim->fail_at(nullptr, n);
      const Status status = one_frame(check, *memory, semaphore, session.get(), &wrong);
      const bool fired = sim->fault_fired() != 0;
      (void)sim->fail_at(nullptr, 0);
      expect_nothing_left(check, before, count(*sim), what);
      if (!fired) {
        check.expect_ok(status, "The frame after all steps have failed once");
        // The objects that the host had dropped exist again, and no others: no leak hides behind them.
        const Alive after = count(*sim);
        check.expect(after.counts == before.counts && after.fds == before.fds,
                     format("{}: the walk leaves other objects than it found.", memory->name()));
        check.expect(wrong.empty(), "The frame after all steps have failed once: " + wrong);
        break;
      }
      ++steps;
      if (!status.ok()) {
        check.expect(!status.message().empty(), what + ", and nobody says why.");
      } else if (check.host().is_tenon()) {
        check.fail(what + ", and nobody is told.");
      } else {
        ++untold;
      }
    }
    check.expect(n <= kMostSteps, "The walk over the failing steps does not end.");
  }
  check.note(format("{} failing steps were walked.", steps));
  // Its Flush returns nothing: what a plugin's stream answers there goes to the log alone.
  if (untold > 0) check.note(format("{} of them the host has only logged.", untold));
}

}  // namespace

const std::vector<CheckEntry> kFaultChecks = {
    {"EveryStepMayFail", "S1.3", &fault_walk},
};

}  // namespace tenon::conformance
