#include "conformance/suite.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <span>

#include "conformance/sim_exporter.h"
#include "programs/clock.h"

namespace tenon::conformance {

namespace {

// Records of a check's process to the runner: one character and a text, each ended by a zero byte.
constexpr char kStep = 's', kFailure = 'f', kNote = 'n', kSkip = 'k', kFact = 'i', kBroken = 'b', kHeld = 'h';

struct Part {
  const char* covers;
  const std::vector<CheckEntry>* checks;
};

std::span<const Part> parts() {
  static const Part kParts[] = {
      {"sessions: small models against the host's CPU EP, writes outside of a tensor", &kModelChecks},
      {"importer: arguments, kinds of handles, graphics interop", &kImporterChecks},
      {"imported memory: bad descriptors, bounds, ownership, tensors, threads", &kMemoryChecks},
      {"imported semaphores: bad descriptors, order on a stream, values", &kSemaphoreChecks},
      {"other processes: signals across processes, a process that dies", &kProcessChecks},
      {"runs on imported memory, in place and in the order of fences", &kInferenceChecks},
      {"fences that the EP waits for and signals itself", &kRunFenceChecks},
      {"failures: every step fails once (EPs that fail on demand)", &kFaultChecks},
  };
  return kParts;
}

bool chosen(const CheckEntry& entry, const std::string& filter) {
  return entry.name.find(filter) != std::string_view::npos;
}

void send_record(int fd, char type, const std::string& text) {
  std::string record = type + text;
  std::replace(record.begin(), record.end(), '\0', '?');
  record += '\0';
  for (size_t sent = 0; sent < record.size();) {
    const ssize_t count = ::write(fd, record.data() + sent, record.size() - sent);
    if (count <= 0) return;
    sent += static_cast<size_t>(count);
  }
}

// Runs `body` in a process of its own and hands its records to `on_record`. Returns how the process ended, when that
// was not well.
std::string run_apart(double timeout_seconds, const std::function<void(int fd)>& body,
                      const std::function<void(char, const std::string&)>& on_record) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno_text("pipe2", errno);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return errno_text("fork", errno);
  if (child == 0) {
    ::close(ends[0]);
    ::setpgid(0, 0);                       // so that what it starts ends with it
    ::dup2(STDERR_FILENO, STDOUT_FILENO);  // what hosts print is no result
    body(ends[1]);
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string pending;
  const int64_t deadline_ns = now_ns() + static_cast<int64_t>(timeout_seconds * 1e9);
  bool timed_out = false;
  while (true) {
    const int64_t left_ms = (deadline_ns - now_ns()) / 1'000'000;
    pollfd poll_fd = {.fd = ends[0], .events = POLLIN, .revents = 0};
    const int ready = left_ms > 0 ? ::poll(&poll_fd, 1, static_cast<int>(left_ms)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      timed_out = true;
      break;
    }
    char buffer[4096];
    const ssize_t count = ::read(ends[0], buffer, sizeof(buffer));
    if (count <= 0) break;
    pending.append(buffer, static_cast<size_t>(count));
    for (size_t end = pending.find('\0'); end != std::string::npos; end = pending.find('\0')) {
      if (end > 0) on_record(pending[0], pending.substr(1, end - 1));
      pending.erase(0, end + 1);
    }
  }
  ::close(ends[0]);
  // Also after a good end: a check's own children must not outlive it.
  if (timed_out) ::kill(-child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  ::kill(-child, SIGKILL);
  if (timed_out) return format("does not end within {} s", timeout_seconds);
  if (WIFSIGNALED(status)) return format("is ended by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  if (WEXITSTATUS(status) != 0) return format("exits with {}", WEXITSTATUS(status));
  return "";
}

// Records the host's objects that the plugin still holds after its factory was released.
void report_held(const std::shared_ptr<Watch>& watch, const std::function<void(char, const std::string&)>& record) {
  if (watch == nullptr) return;
  for (const Watch::LiveObjects& held : watch->live())
    record(kHeld, format("{} {} not released (made by {})", held.count, held.kind, held.made_by));
}

void run_check(const CheckEntry& entry, const SuiteOptions& options,
               const std::function<void(char, const std::string&)>& record) {
  auto host = Host::load(options.host);
  if (!host.ok()) {
    record(kBroken, host.status().message());
    return;
  }
  Check check(**host, options);
  check.on_record = record;
  entry.run(check);
  check.step("teardown");
  check.finish();
  const std::shared_ptr<Watch> watch = (*host)->watch();
  host->reset();
  report_held(watch, record);
}

// "1 OrtMemoryInfo not released (made by CreateCpuMemoryInfo)", and the checks after which that is so.
using Held = std::map<std::string, std::vector<std::string_view>>;

CheckResult objects_check(const Held& held, const std::string& skipped_because) {
  constexpr size_t kShown = 3;
  CheckResult result{.name = std::string(kObjectsCheck), .requirement = "-", .skipped_because = skipped_because};
  for (const auto& [text, checks] : held) {
    std::string after;
    for (size_t i = 0; i < std::min(checks.size(), kShown); ++i) after += (i == 0 ? "" : ", ") + std::string(checks[i]);
    if (checks.size() > kShown) after += format(" and {} more", checks.size() - kShown);
    result.failures.push_back(format("{}, after {}.", text, after));
  }
  result.verdict = !held.empty() ? Verdict::kFailed : skipped_because.empty() ? Verdict::kPassed : Verdict::kSkipped;
  return result;
}

CheckResult collect(const CheckEntry& entry, const SuiteOptions& options, std::string* broken, Held* held) {
  CheckResult result{.name = std::string(entry.name), .requirement = std::string(entry.requirement)};
  std::string step = "loading the host";
  const auto on_record = [&](char type, const std::string& text) {
    if (type == kStep) step = text;
    // A failure that comes again for each kind of handle is told once.
    const auto& told = result.failures;
    if (type == kFailure && std::find(told.begin(), told.end(), text) == told.end()) result.failures.push_back(text);
    if (type == kNote) result.notes.push_back(text);
    if (type == kSkip) result.skipped_because = text;
    if (type == kBroken) *broken = text;
    if (type == kHeld) (*held)[text].push_back(entry.name);
  };
  const auto start = std::chrono::steady_clock::now();
  if (options.same_process) {
    run_check(entry, options, on_record);
  } else {
    const std::string ended = run_apart(
        options.timeout_seconds,
        [&](int fd) {
          run_check(entry, options, [fd](char type, const std::string& text) { send_record(fd, type, text); });
        },
        on_record);
    if (!ended.empty()) result.failures.push_back(format("The check {}, at: {}.", ended, step));
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.verdict = !result.failures.empty()          ? Verdict::kFailed
                   : !result.skipped_because.empty() ? Verdict::kSkipped
                                                     : Verdict::kPassed;
  return result;
}

// Records the facts for the report's head, in a process of its own like every check.
void describe(const SuiteOptions& options, const std::function<void(char, const std::string&)>& record) {
  auto host = Host::load(options.host);
  if (!host.ok()) {
    record(kBroken, host.status().message());
    return;
  }
  record(kFact, "h" + (*host)->description());
  record(kFact, "e" + (*host)->ep_name());
  if ((*host)->watch() != nullptr) record(kFact, "w");
  Check check(**host, options);
  check.on_record = [](char, const std::string&) {};
  if (check.importer() != nullptr) {
    record(kFact, "i");
    for (const auto& exporter : check.memory_exporters()) record(kFact, std::string("m") + exporter->name());
    for (const auto& exporter : check.semaphore_exporters()) record(kFact, std::string("s") + exporter->name());
  }
  check.finish();
  host->reset();
}

}  // namespace

const char* verdict_name(Verdict verdict) {
  constexpr const char* kNames[] = {"passed", "failed", "skipped"};
  return kNames[static_cast<size_t>(verdict)];
}

bool SuiteReport::passed() const {
  return std::none_of(results.begin(), results.end(),
                      [](const CheckResult& result) { return result.verdict == Verdict::kFailed; });
}

std::vector<Coverage> coverage(const std::string& filter) {
  std::vector<Coverage> covered;
  for (const Part& part : parts()) {
    const auto count = static_cast<size_t>(std::count_if(
        part.checks->begin(), part.checks->end(), [&](const CheckEntry& entry) { return chosen(entry, filter); }));
    if (count != 0) covered.push_back({part.covers, count});
  }
  if (!covered.empty())
    covered.push_back({"objects of the host that the plugin has not released, after each check", 1});
  return covered;
}

const char* not_covered() {
  return "other operators and types, speed, devices after the EP's first, options of the EP, EPContext models, "
         "profiles, "
         "captured graphs";
}

Result<SuiteReport> run_suite(const SuiteOptions& asked, const std::function<void(const CheckResult&)>& on_result) {
  SuiteOptions options = asked;
  options.host.watch = !options.host.plugin_library.empty();
  bool watched = false;
  SuiteReport report;
  std::string broken;
  const auto on_record = [&](char type, const std::string& text) {
    if (type == kBroken) broken = text;
    if (type != kFact || text.empty()) return;
    const std::string value = text.substr(1);
    if (text[0] == 'h') report.host = value;
    if (text[0] == 'e') report.ep_name = value;
    if (text[0] == 'i') report.has_importer = true;
    if (text[0] == 'w') watched = true;
    if (text[0] == 'm') report.memory_kinds.push_back(value);
    if (text[0] == 's') report.semaphore_kinds.push_back(value);
  };
  std::string ended;
  if (options.same_process) {
    describe(options, on_record);
  } else {
    ended = run_apart(
        options.timeout_seconds,
        [&](int fd) { describe(options, [fd](char type, const std::string& text) { send_record(fd, type, text); }); },
        on_record);
  }
  if (!broken.empty()) return Status(StatusCode::kNotFound, broken);
  // A crash here is one of the importer, or of loading it: each check reports it again, with its own step.
  if (!ended.empty() && report.host.empty()) return device_error("Loading the host and the plugin {}.", ended);
  const auto add = [&](CheckResult result) {
    if (on_result) on_result(result);
    report.results.push_back(std::move(result));
  };
  Held held;
  for (const Part& part : parts()) {
    for (const CheckEntry& entry : *part.checks) {
      if (!chosen(entry, options.filter)) continue;
      CheckResult result = collect(entry, options, &broken, &held);
      if (!broken.empty()) result.failures.push_back(std::exchange(broken, {})), result.verdict = Verdict::kFailed;
      add(std::move(result));
    }
  }
  if (report.results.empty()) return report;
  add(objects_check(held, watched              ? ""
                          : options.host.watch ? "No library can be put between the host and the plugin here."
                                               : "There is no plugin: the EP is the host's own."));
  return report;
}

OrtExternalResourceImporter* Check::importer() {
  if (!asked_importer_) {
    asked_importer_ = true;
    step("CreateExternalResourceImporterForDevice");
    auto importer = host_.create_importer();
    if (!importer.ok()) {
      fail(importer.status().message());
    } else if (*importer == nullptr) {
      skip("The EP has no importer.");
    } else {
      importer_ = std::move(*importer);
    }
  }
  return importer_.get();
}

std::vector<std::unique_ptr<MemoryExporter>> Check::all_memory_exporters() {
  auto exporters = options_.more_memory ? options_.more_memory() : std::vector<std::unique_ptr<MemoryExporter>>();
  for (auto& exporter : host_memory_exporters()) exporters.push_back(std::move(exporter));
  if (host_.sim() != nullptr)
    for (auto& exporter : sim_memory_exporters(*host_.sim())) exporters.push_back(std::move(exporter));
  // A GPU driver's importer would take the number for a handle of its own.
  if (host_.is_tenon() && host_.ep_name() == "CPUExecutionProvider")
    exporters.push_back(
        memfd_exporter("vulkan_opaque_fd (a memfd)", ORT_EXTERNAL_MEMORY_HANDLE_TYPE_VK_MEMORY_OPAQUE_FD));
  return exporters;
}

std::vector<std::unique_ptr<SemaphoreExporter>> Check::all_semaphore_exporters() {
  auto exporters =
      options_.more_semaphores ? options_.more_semaphores() : std::vector<std::unique_ptr<SemaphoreExporter>>();
  for (auto& exporter : host_semaphore_exporters()) exporters.push_back(std::move(exporter));
  if (host_.sim() != nullptr)
    for (auto& exporter : sim_semaphore_exporters(*host_.sim())) exporters.push_back(std::move(exporter));
  return exporters;
}

std::vector<std::unique_ptr<MemoryExporter>> Check::memory_exporters() {
  auto exporters = all_memory_exporters();
  const auto refuses = [&](MemoryExporter& exporter) {
    const auto memory = exporter.make(4096);
    if (!memory.ok()) return true;
    const OrtExternalMemoryDescriptor descriptor = (*memory)->descriptor(host_.version());
    OrtExternalMemoryHandle* handle = nullptr;
    const Outcome outcome = take(interop().ImportMemory(importer(), &descriptor, &handle));
    if (outcome.ok()) (*memory)->take_on_success();
    interop().ReleaseExternalMemoryHandle(handle);
    return outcome.code == ORT_NOT_IMPLEMENTED;
  };
  std::erase_if(exporters, [&](const auto& exporter) {
    bool supported = false;
    const auto kind = std::bit_cast<OrtExternalMemoryHandleType>(exporter->kind());
    if (importer() == nullptr || !take(interop().CanImportMemory(importer(), kind, &supported)).ok() || !supported)
      return true;
    // An EP may take DLPack tensors of its own device alone, and these are the host's.
    return exporter->kind() == TENON_EXTERNAL_MEMORY_DLPACK && refuses(*exporter);
  });
  return exporters;
}

std::vector<std::unique_ptr<SemaphoreExporter>> Check::semaphore_exporters() {
  auto exporters = all_semaphore_exporters();
  std::erase_if(exporters, [&](const auto& exporter) {
    bool supported = false;
    const auto kind = std::bit_cast<OrtExternalSemaphoreType>(exporter->kind());
    return importer() == nullptr || !take(interop().CanImportSemaphore(importer(), kind, &supported)).ok() ||
           !supported;
  });
  return exporters;
}

Owned<OrtSyncStream> Check::stream() {
  step("CreateSyncStreamForEpDevice");
  auto stream = host_.create_stream();
  if (stream.ok()) return std::move(*stream);
  fail(stream.status().message());
  return {};
}

void Check::record(char type, const std::string& text) {
  const std::lock_guard lock(mutex_);
  on_record(type, text);
}

void Check::step(const std::string& text) { record(kStep, text); }
void Check::fail(const std::string& text) { record(kFailure, text); }
void Check::note(const std::string& text) { record(kNote, text); }
void Check::skip(const std::string& reason) { record(kSkip, reason); }

bool Check::expect(bool condition, const std::string& text) {
  if (!condition) fail(text);
  return condition;
}

bool Check::expect_code(const Outcome& outcome, OrtErrorCode code, const std::string& what) {
  if (outcome.code == code) return true;
  fail(format("{}: {} instead of {}.", what, outcome.text(), code_name(code)));
  return false;
}

bool Check::expect_ok(const Status& status, const std::string& what) {
  if (!status.ok()) fail(format("{}: {}", what, status.message()));
  return status.ok();
}

void Check::finish() { importer_.reset(); }

int count_open_fds() {
  int count = -1;  // the directory's own
  DIR* directory = ::opendir("/proc/self/fd");
  if (directory == nullptr) return -1;
  while (const dirent* entry = ::readdir(directory))
    if (entry->d_name[0] != '.') ++count;
  ::closedir(directory);
  return count;
}

size_t resident_bytes() {
  size_t total = 0;
  size_t resident = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%zu %zu", &total, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace tenon::conformance
