#include "ep/cuda/run_settings.h"

#include <atomic>
#include <charconv>
#include <string_view>
#include <vector>

namespace tenon::cuda {

namespace {

struct Run {
  const void* session;
  RunSettings settings;
};
thread_local std::vector<Run> runs;
// Of all threads: the runs that are not to be captured.
std::atomic<int> runs_without_graphs = 0;

void forget_run(const void* session) {
  std::erase_if(runs, [&](const Run& run) {
    if (run.session == session && !run.settings.graphs) --runs_without_graphs;
    return run.session == session;
  });
}

Result<int64_t> read_number(const char* key, const char* text, int64_t lowest, int64_t otherwise) {
  if (text == nullptr || *text == '\0') return otherwise;
  const std::string_view digits(text);
  int64_t number = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  TENON_INVALID_IF(failed != std::errc() || end != digits.data() + digits.size() || number < lowest,
                   "Run entry \"{}\" is \"{}\"; it takes an integer from {} on.", key, digits, lowest);
  return number;
}

}  // namespace

Result<RunSettings> RunSettings::read(const plugin::HostApi& host, const OrtRunOptions* options) {
  RunSettings settings;
  if (options == nullptr) return settings;
  const auto entry = [&](const char* key) { return host.ort().GetRunConfigEntry(options, key); };
  TENON_TRY_ASSIGN(const int64_t graph, read_number("gpu_graph_id", entry("gpu_graph_id"), -1, 0));
  settings.graphs = graph != -1;
  constexpr const char* kTimeout = "tenon.timeout_ms";
  TENON_TRY_ASSIGN(const int64_t timeout_ms, read_number(kTimeout, entry(kTimeout), 0, 0));
  settings.set_timeout(timeout_ms);
  return settings;
}

void RunSettings::set_timeout(int64_t ms) {
  constexpr int64_t kNsAMs = 1'000'000;
  timeout_ms = ms;
  if (ms > 0) deadline = Deadline::after(ms > INT64_MAX / kNsAMs ? INT64_MAX : ms * kNsAMs);
}

void begin_run(const void* session, const RunSettings& settings) {
  // One that the host never ended, after a failure, is over.
  forget_run(session);
  runs.push_back({session, settings});
  if (!settings.graphs) ++runs_without_graphs;
}

void end_run(const void* session) { forget_run(session); }

RunSettings this_run() {
  if (!runs.empty()) return runs.back().settings;
  RunSettings settings;
  settings.graphs = runs_without_graphs == 0;
  return settings;
}

}  // namespace tenon::cuda
