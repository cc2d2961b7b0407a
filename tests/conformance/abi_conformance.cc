// The conformance suite against one host and one EP, with what only tests have: Vulkan on the CPU.
//   tenon_abi_conformance HOST_LIBRARY [--plugin NAME=LIBRARY] [--ep EP] [--filter TEXT] [--same-process]
#include <cstdio>
#include <cstring>

#include "cli/conformance/suite.h"
#ifdef TENON_HAS_VULKAN
#include "vulkan_exporter.h"
#endif

namespace {

using tenon::conformance::CheckResult;
using tenon::conformance::SuiteOptions;
using tenon::conformance::Verdict;

void print(const CheckResult& result) {
  std::printf("%-8s %-5s %s (%.2f s)\n", tenon::conformance::verdict_name(result.verdict), result.requirement.c_str(),
              result.name.c_str(), result.seconds);
  for (const std::string& failure : result.failures) std::printf("    wrong: %s\n", failure.c_str());
  for (const std::string& note : result.notes) std::printf("    %s\n", note.c_str());
  if (result.verdict == Verdict::kSkipped) std::printf("    %s\n", result.skipped_because.c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  SuiteOptions options;
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    if (std::strcmp(argv[i], "--plugin") == 0 && has_value) {
      const std::string plugin = argv[++i];
      const size_t equals = plugin.find('=');
      if (equals == std::string::npos) return 2;
      options.host.plugin_name = plugin.substr(0, equals);
      options.host.plugin_library = plugin.substr(equals + 1);
    } else if (std::strcmp(argv[i], "--ep") == 0 && has_value) {
      options.host.ep_name = argv[++i];
    } else if (std::strcmp(argv[i], "--filter") == 0 && has_value) {
      options.filter = argv[++i];
    } else if (std::strcmp(argv[i], "--same-process") == 0) {
      options.same_process = true;
    } else {
      options.host.library = argv[i];
    }
  }
#ifdef TENON_HAS_VULKAN
  static std::string why_not;
  options.more_memory = [] { return tenon::conformance::vulkan_memory_exporters(&why_not); };
  options.more_semaphores = [] { return tenon::conformance::vulkan_semaphore_exporters(&why_not); };
#endif
  const auto report = tenon::conformance::run_suite(options, &print);
  if (!report.ok()) {
    std::printf("%s\n", report.status().message().c_str());
    return 2;
  }
  size_t counts[3] = {};
  for (const CheckResult& result : report->results) ++counts[static_cast<size_t>(result.verdict)];
  std::printf("%s in %s: %zu passed, %zu failed, %zu skipped\n", report->ep_name.c_str(), report->host.c_str(),
              counts[0], counts[1], counts[2]);
  return report->passed() && !report->results.empty() ? 0 : 1;
}
