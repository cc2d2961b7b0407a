// The conformance suite against one host and one EP, with what only tests have: Vulkan, and stand-ins for it.
//   tenon_abi_conformance HOST_LIBRARY [--plugin NAME=LIBRARY] [--ep EP] [--filter TEXT] [--same-process]
//                         [--vulkan-gpu] [--fake-vulkan]
// --vulkan-gpu shares with a Vulkan driver's GPU instead of one on the CPU; --fake-vulkan with memfds and shared
// timelines under Vulkan's kinds, for an EP over the fake CUDA driver.
#include <cstdio>
#include <cstring>

#include "conformance/suite.h"
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

enum class Sharing : uint8_t { kVulkanOnCpu, kVulkanOnGpu, kFake };

void add_exporters(Sharing sharing, SuiteOptions& options) {
  using namespace tenon::conformance;  // NOLINT(google-build-using-namespace)
  if (sharing == Sharing::kFake) {
    options.more_memory = [] {
      std::vector<std::unique_ptr<MemoryExporter>> exporters;
      exporters.push_back(memfd_exporter("vulkan_opaque_fd (a memfd)", 3));
      exporters.push_back(memfd_exporter("cuda_vmm_fd (a memfd)", TENON_EXTERNAL_MEMORY_CUDA_VMM_FD));
      return exporters;
    };
    options.more_semaphores = [] {
      std::vector<std::unique_ptr<SemaphoreExporter>> exporters;
      exporters.push_back(shared_timeline_exporter("vulkan_timeline_fd (a shared timeline)", 2));
      return exporters;
    };
    return;
  }
#ifdef TENON_HAS_VULKAN
  static std::string why_not;
  const bool gpu = sharing == Sharing::kVulkanOnGpu;
  options.more_memory = [gpu] { return vulkan_memory_exporters(gpu, &why_not); };
  options.more_semaphores = [gpu] { return vulkan_semaphore_exporters(gpu, &why_not); };
#endif
}

}  // namespace

int main(int argc, char** argv) {
  SuiteOptions options;
  Sharing sharing = Sharing::kVulkanOnCpu;
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    if (std::strcmp(argv[i], "--plugin") == 0 && has_value) {
      if (!options.host.set_plugin(argv[++i]).ok()) return 2;
    } else if (std::strcmp(argv[i], "--ep") == 0 && has_value) {
      options.host.ep_name = argv[++i];
    } else if (std::strcmp(argv[i], "--filter") == 0 && has_value) {
      options.filter = argv[++i];
    } else if (std::strcmp(argv[i], "--same-process") == 0) {
      options.same_process = true;
    } else if (std::strcmp(argv[i], "--vulkan-gpu") == 0) {
      sharing = Sharing::kVulkanOnGpu;
    } else if (std::strcmp(argv[i], "--fake-vulkan") == 0) {
      sharing = Sharing::kFake;
    } else {
      options.host.library = argv[i];
    }
  }
  add_exporters(sharing, options);
  const auto report = tenon::conformance::run_suite(options, &print);
  if (!report.ok()) {
    std::printf("%s\n", report.status().message().c_str());
    return 2;
  }
  size_t counts[3] = {};
  for (const CheckResult& result : report->results) ++counts[static_cast<size_t>(result.verdict)];
#ifdef TENON_HAS_VULKAN
  // Last, because the checks' processes must not inherit a driver that is open.
  std::string why_not;
  if (sharing == Sharing::kVulkanOnGpu && tenon::conformance::vulkan_memory_exporters(true, &why_not).empty()) {
    std::printf("Nothing was shared with Vulkan: %s\n", why_not.c_str());
    return 2;
  }
#endif
  std::printf("%s in %s: %zu passed, %zu failed, %zu skipped\n", report->ep_name.c_str(), report->host.c_str(),
              counts[0], counts[1], counts[2]);
  return report->passed() && !report->results.empty() ? 0 : 1;
}
