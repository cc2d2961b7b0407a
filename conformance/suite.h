// The conformance suite: requirements on any EP in any host, above all on its importer (S1), with small models and a
// count of the host's objects that a plugin has not released.
//
// Each check runs in a process of its own, so that a crash or a hang affects no other check.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/exporter.h"
#include "conformance/host.h"

namespace tenon::conformance {

enum class Verdict : uint8_t { kPassed, kFailed, kSkipped };
const char* verdict_name(Verdict verdict);

struct CheckResult {
  std::string name;
  std::string requirement;  // "S1.3"
  Verdict verdict = Verdict::kPassed;
  std::vector<std::string> failures;
  std::vector<std::string> notes;  // what the EP does beyond or beside the requirement
  std::string skipped_because;
  double seconds = 0;
};

struct SuiteOptions {
  HostOptions host;
  std::string filter;  // only checks whose name contains it
  double timeout_seconds = 60;
  bool same_process = false;  // for debuggers: a crash ends the suite
  // More exporters, besides those that this program has on any machine. Called in the check's process.
  std::function<std::vector<std::unique_ptr<MemoryExporter>>()> more_memory;
  std::function<std::vector<std::unique_ptr<SemaphoreExporter>>()> more_semaphores;
};

struct SuiteReport {
  std::string host;
  std::string ep_name;
  bool has_importer = false;
  std::vector<std::string> memory_kinds;  // that the EP imports, of those that could be tried
  std::vector<std::string> semaphore_kinds;
  std::vector<CheckResult> results;
  bool passed() const;
};

// A part of the suite, for people.
struct Coverage {
  std::string covers;
  size_t checks = 0;
};
// The parts of which `filter` leaves a check, in the order in which they run.
std::vector<Coverage> coverage(const std::string& filter);
// Parts of an EP that no check looks at.
const char* not_covered();

// The name of the last check, which sums up what the plugin has not released in all of them.
inline constexpr std::string_view kObjectsCheck = "HostObjectsAreReleased";

// Errors: the host or plugin does not load, or offers no device of the EP.
Result<SuiteReport> run_suite(const SuiteOptions& options, const std::function<void(const CheckResult&)>& on_result);

// A check, with its host and exporters. Its functions record, from any thread; the first failure does not end it.
class Check {
 public:
  Check(Host& host, const SuiteOptions& options) : host_(host), options_(options) {}

  Host& host() { return host_; }
  const OrtApi& api() { return host_.api(); }
  const OrtInteropApi& interop() { return host_.interop(); }
  Outcome take(OrtStatus* status) { return host_.take(status); }

  // The importer, made once; null when the EP has none, and then the check is skipped.
  OrtExternalResourceImporter* importer();
  // The exporters of this program whose kinds the EP says that it imports.
  std::vector<std::unique_ptr<MemoryExporter>> memory_exporters();
  std::vector<std::unique_ptr<SemaphoreExporter>> semaphore_exporters();
  // All that this program can make.
  std::vector<std::unique_ptr<MemoryExporter>> all_memory_exporters();
  std::vector<std::unique_ptr<SemaphoreExporter>> all_semaphore_exporters();
  Owned<OrtSyncStream> stream();

  // Where the check is, for the report of a crash.
  void step(const std::string& text);
  void fail(const std::string& text);
  void note(const std::string& text);
  void skip(const std::string& reason);
  bool expect(bool condition, const std::string& text);
  // The outcome has the code; `what` says of which call.
  bool expect_code(const Outcome& outcome, OrtErrorCode code, const std::string& what);
  bool expect_ok(const Outcome& outcome, const std::string& what) { return expect_code(outcome, ORT_OK, what); }
  bool expect_ok(const Status& status, const std::string& what);

  std::function<void(char, const std::string&)> on_record;  // set by the runner
  // Released before the host is.
  void finish();

 private:
  void record(char type, const std::string& text);

  Host& host_;
  const SuiteOptions& options_;
  std::mutex mutex_;
  Owned<OrtExternalResourceImporter> importer_;
  bool asked_importer_ = false;
};

struct CheckEntry {
  std::string_view name;
  std::string_view requirement;
  void (*run)(Check& check);
};

// One list a file of checks, misuse first.
extern const std::vector<CheckEntry> kModelChecks;
extern const std::vector<CheckEntry> kImporterChecks;
extern const std::vector<CheckEntry> kMemoryChecks;
extern const std::vector<CheckEntry> kSemaphoreChecks;
extern const std::vector<CheckEntry> kProcessChecks;
extern const std::vector<CheckEntry> kInferenceChecks;
extern const std::vector<CheckEntry> kRunFenceChecks;
extern const std::vector<CheckEntry> kFaultChecks;

// Open file descriptors of this process.
int count_open_fds();
// Bytes of the process that are resident.
size_t resident_bytes();

}  // namespace tenon::conformance
