// tenon conformance: checks an EP, above all its importer of memory and semaphores.
#include <memory>
#include <utility>

#include "conformance/status.h"
#include "conformance/suite.h"
#include "conformance/vulkan_exporters.h"
#include "programs/commands.h"
#include "programs/output.h"
#include "programs/vulkan_sharing.h"

namespace tenon::conformance {
namespace {

struct Arguments {
  std::string plugin;
  std::string ep;
  std::string host;
  std::string filter;
  double timeout_seconds = 60;
  bool same_process = false;
  bool json = false;
};

void print_result(const CheckResult& result) {
  print("{:<8} {:<6} {}\n", verdict_name(result.verdict), result.requirement, result.name);
  for (const std::string& failure : result.failures) print("           wrong: {}\n", failure);
  for (const std::string& note : result.notes) print("           {}\n", note);
  if (result.verdict == Verdict::kSkipped) print("           {}\n", result.skipped_because);
}

nlohmann::ordered_json to_json(const SuiteReport& report, const std::string& filter) {
  nlohmann::ordered_json checks = nlohmann::ordered_json::array();
  for (const CheckResult& result : report.results)
    checks.push_back({{"name", result.name},
                      {"requirement", result.requirement},
                      {"verdict", verdict_name(result.verdict)},
                      {"failures", result.failures},
                      {"notes", result.notes},
                      {"skipped_because", result.skipped_because},
                      {"seconds", result.seconds}});
  nlohmann::ordered_json covers = nlohmann::ordered_json::array();
  for (const Coverage& part : coverage(filter)) covers.push_back({{"covers", part.covers}, {"checks", part.checks}});
  return {{"host", report.host},
          {"ep_name", report.ep_name},
          {"has_importer", report.has_importer},
          {"memory_kinds", report.memory_kinds},
          {"semaphore_kinds", report.semaphore_kinds},
          {"passed", report.passed()},
          {"covers", std::move(covers)},
          {"not_covered", not_covered()},
          {"checks", std::move(checks)}};
}

void print_coverage(const std::string& filter) {
  print("Checked:\n");
  for (const Coverage& part : coverage(filter)) print("  {:>2}  {}\n", part.checks, part.covers);
  print("Not checked: {}.\n\n", not_covered());
}

// A plugin runs in many hosts, and they call it differently.
void print_hint(const Arguments& arguments) {
  if (arguments.plugin.empty()) return;
  if (arguments.host.empty()) {
    print(
        "Run it in ONNX Runtime too, which calls members that Tenon leaves alone: --host libonnxruntime.so.VERSION, "
        "the library in the folder onnxruntime/capi of the Python package.\n");
  } else {
    print("Run it in Tenon too, without --host: it calls members that ONNX Runtime leaves alone.\n");
  }
}

// The Vulkan side, opened once in each process that asks: a check's own, whose end releases what the driver keeps.
const Result<std::shared_ptr<VulkanSharing>>& vulkan() {
  static const Result<std::shared_ptr<VulkanSharing>> opened = open_vulkan_sharing();
  return opened;
}

std::string vulkan_text() {
  return vulkan().ok() ? format("Vulkan's side of the checks is \"{}\".", (*vulkan())->device_name())
                       : format("Nothing was shared with Vulkan: {}", vulkan().status().message());
}

Status run_command(const Arguments& arguments) {
  SuiteOptions options;
  options.host.library = arguments.host;
  options.host.own = &OrtGetApiBase;
  options.host.ep_name = arguments.ep;
  options.filter = arguments.filter;
  options.timeout_seconds = arguments.timeout_seconds;
  options.same_process = arguments.same_process;
  if (!arguments.plugin.empty()) {
    TENON_TRY(options.host.set_plugin(arguments.plugin));
    options.more_memory = [] {
      return vulkan().ok() ? vulkan_memory(*vulkan()) : std::vector<std::unique_ptr<MemoryExporter>>();
    };
    options.more_semaphores = [] {
      return vulkan().ok() ? vulkan_semaphores(*vulkan()) : std::vector<std::unique_ptr<SemaphoreExporter>>();
    };
  }
  bool begun = false;
  const auto on_result = [&](const CheckResult& result) {
    if (arguments.json) return;
    if (!std::exchange(begun, true)) print_coverage(arguments.filter);
    print_result(result);
  };
  TENON_TRY_ASSIGN(const SuiteReport report, run_suite(options, on_result));
  if (report.results.empty())
    return invalid_argument("No check's name contains \"{}\"; without --filter all run, each with its name.",
                            arguments.filter);
  // Only now, because the checks' processes must not inherit a driver that is open.
  const std::string shared = arguments.plugin.empty() ? "" : vulkan_text();
  if (arguments.json) {
    nlohmann::ordered_json object = to_json(report, arguments.filter);
    if (!shared.empty()) object["vulkan"] = shared;
    print_json(object);
  } else {
    size_t counts[3] = {};
    for (const CheckResult& result : report.results) ++counts[static_cast<size_t>(result.verdict)];
    print("{} in {}: {} passed, {} failed, {} skipped.\n", report.ep_name, report.host, counts[0], counts[1],
          counts[2]);
    if (!shared.empty()) print("{}\n", shared);
    print_hint(arguments);
  }
  // The report says it all.
  return report.passed() ? Status() : Status(StatusCode::kDeviceError, "");
}

}  // namespace
}  // namespace tenon::conformance

namespace tenon::programs {

void add_conformance(CLI::App& app, Action* action) {
  CLI::App* command = app.add_subcommand(
      "conformance",
      "Checks an EP plugin in this host or another: small models against the CPU, its importer of memory and "
      "semaphores (OrtInteropApi), objects of the host that it does not release");
  auto arguments = std::make_shared<conformance::Arguments>();
  command->add_option("--plugin", arguments->plugin, "The EP library, as NAME=LIBRARY");
  command->add_option("--ep", arguments->ep, "Name of the EP; the plugin's first, or the CPU EP, when absent");
  command->add_option("--host", arguments->host,
                      "Library of the host (libtenon or libonnxruntime); this one's if absent");
  command->add_option("--filter", arguments->filter, "Only checks whose name contains this");
  command->add_option("--timeout", arguments->timeout_seconds, "Seconds that one check may take")
      ->check(CLI::PositiveNumber);
  command->add_flag("--same-process", arguments->same_process, "For debuggers: no process for each check");
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments, action] { *action = [arguments] { return conformance::run_command(*arguments); }; });
}

}  // namespace tenon::programs
