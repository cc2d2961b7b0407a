// tenon bench: measures the time of loading, of the first and of later runs, and peak memory.
#include <tenon/machine_peaks.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/model_arguments.h"
#include "cli/run_profile.h"
#include "cli/status.h"
#include "programs/output.h"

namespace tenon::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchArguments : ModelArguments {
  int runs = 20;
  std::string profile;  // a file; empty: no profile
};

// More runs make its figures no better.
constexpr int kProfiledRuns = 20;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// The largest resident set so far, in MiB; 0 where the kernel does not tell.
double peak_mb() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmHWM:") continue;
    double kib = 0;
    status >> kib;
    return kib / 1024;
  }
  return 0;
}

// Runs what is bound a few times more, with the times of its nodes.
Result<RunProfile> profiled(const BenchArguments& arguments, Session& session, Binding& binding) {
  TENON_TRY_ASSIGN(const MachinePeaks peaks, measure_machine_peaks(arguments.threads));
  RunProfile profile(peaks);
  for (int i = 0; i < std::min(arguments.runs, kProfiledRuns); ++i) {
    std::vector<NodeTime> nodes;
    TENON_TRY(session.run(binding, {.node_times = &nodes}));
    profile.add_run(nodes);
  }
  TENON_TRY(write_text(arguments.profile, profile.trace()));
  return profile;
}

Status bench(const BenchArguments& arguments) {
  TENON_TRY_ASSIGN(const SessionOptions options, arguments.session_options());
  const Clock::time_point create_start = Clock::now();
  TENON_TRY_ASSIGN(const auto session, Session::load(arguments.model, options));
  const double create_ms = ms_since(create_start);
  TENON_TRY_ASSIGN(const auto inputs, arguments.read_inputs(*session, true));
  TENON_TRY_ASSIGN(Binding binding, session->make_binding());
  for (const auto& [name, tensor] : inputs) TENON_TRY(binding.bind_input(name, tensor));

  RunReport report;
  const Clock::time_point first_start = Clock::now();
  TENON_TRY(session->run(binding, {.report = &report}));
  const double first_ms = ms_since(first_start);
  std::vector<double> times_ms;
  {
    Progress progress("bench", static_cast<uint64_t>(arguments.runs));
    for (int i = 0; i < arguments.runs; ++i) {
      const Clock::time_point start = Clock::now();
      TENON_TRY(session->run(binding, {.report = &report}));
      times_ms.push_back(ms_since(start));
      progress.update(static_cast<uint64_t>(i) + 1);
    }
  }
  std::sort(times_ms.begin(), times_ms.end());
  const double median_ms = quantile(times_ms, 0.5);
  const double p90_ms = quantile(times_ms, 0.9);
  std::optional<RunProfile> profile;
  if (!arguments.profile.empty()) {
    TENON_TRY_ASSIGN(profile, profiled(arguments, *session, binding));
  }
  if (arguments.json) {
    nlohmann::ordered_json object = {{"model", arguments.model}, {"threads", arguments.threads},
                                     {"runs", arguments.runs},   {"create_ms", create_ms},
                                     {"first_ms", first_ms},     {"median_ms", median_ms},
                                     {"p90_ms", p90_ms},         {"min_ms", times_ms.front()},
                                     {"peak_mb", peak_mb()},     {"bytes_copied", report.copies.bytes_copied()}};
    if (profile) object["profile"] = profile->json();
    print_json(object);
    return {};
  }
  print("create  {:>12}\nfirst   {:>12}\nmedian  {:>12}  ({} runs)\np90     {:>12}\npeak    {:>8.1f} MiB\n",
        time_text(create_ms), time_text(first_ms), time_text(median_ms), arguments.runs, time_text(p90_ms), peak_mb());
  if (profile) print("\n{}", profile->text());
  return {};
}

}  // namespace

void add_bench(CLI::App& app, Action* action) {
  CLI::App* command = app.add_subcommand("bench", "Times loading and running a model");
  const auto arguments = std::make_shared<BenchArguments>();
  arguments->add_for_runs(*command);
  command->add_option("--runs", arguments->runs, "Runs to time after the first one")->check(CLI::Range(1, 1'000'000));
  command
      ->add_option(
          "--profile", arguments->profile,
          "Show the time of each node, operator and kernel with its part of what the machine can do, and write "
          "the last run into this file for a trace viewer (Perfetto)")
      ->type_name("FILE");
  command->callback([arguments, action] { *action = [arguments] { return bench(*arguments); }; });
}

}  // namespace tenon::cli
