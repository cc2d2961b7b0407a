// Measures the cost of sharing through the C ABI in one host: imports, and the boundary between two EPs.
//   tenon_bench_interop HOST_LIBRARY [--plugin NAME=LIBRARY] [--ep EP] [--imports N] [--runs N]
// Prints one JSON object. bench/interop.py runs it in several hosts, interleaved.
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>

#include "conformance/exporter.h"
#include "conformance/host.h"
#include "conformance/suite.h"
#include "programs/relu_model.h"

namespace tenon::conformance {
namespace {

constexpr size_t kImportBytes = 64 * 1024;
constexpr size_t kWarmUp = 200;

int64_t now_ns() {
  timespec time = {};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

struct Figures {
  double p50_us = 0, p99_us = 0;
  int fds_left = 0;
  long kib_left = 0;
};

Result<Figures> measure(size_t count, const std::function<Status(int64_t* ns)>& once) {
  int64_t ns = 0;
  for (size_t i = 0; i < kWarmUp; ++i) TENON_TRY(once(&ns));
  std::vector<int64_t> samples(count);
  std::fill(samples.begin(), samples.end(), 1);  // its pages are no growth of the loop
  const int fds = count_open_fds();
  const size_t bytes = resident_bytes();
  for (int64_t& sample : samples) TENON_TRY(once(&sample));
  Figures figures;
  figures.fds_left = count_open_fds() - fds;
  figures.kib_left = (static_cast<long>(resident_bytes()) - static_cast<long>(bytes)) / 1024;
  std::sort(samples.begin(), samples.end());
  figures.p50_us = static_cast<double>(samples[count / 2]) / 1e3;
  figures.p99_us = static_cast<double>(samples[count * 99 / 100]) / 1e3;
  return figures;
}

void print(const char* name, const Figures& figures, bool last = false) {
  std::printf("\"%s\": {\"p50_us\": %.2f, \"p99_us\": %.2f, \"fds_left\": %d, \"kib_left\": %ld}%s", name,
              figures.p50_us, figures.p99_us, figures.fds_left, figures.kib_left, last ? "" : ", ");
}

// Import of a memfd, a tensor of it, and the release of both.
Status one_import(const Host& host, OrtExternalResourceImporter* importer, MemoryExporter& exporter, int64_t* ns) {
  TENON_TRY_ASSIGN(const auto memory, exporter.make(kImportBytes));
  const OrtExternalMemoryDescriptor descriptor = memory->descriptor(host.version());
  const int64_t dims[] = {128, 128};
  OrtExternalTensorDescriptor tensor = {};
  tensor.version = host.version();
  tensor.element_type = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  tensor.shape = dims;
  tensor.rank = 2;
  OrtExternalMemoryHandle* handle = nullptr;
  OrtValue* value = nullptr;
  const int64_t begin = now_ns();
  TENON_TRY(to_status(host.take(host.interop().ImportMemory(importer, &descriptor, &handle)), "ImportMemory"));
  const Outcome made = host.take(host.interop().CreateTensorFromMemory(importer, handle, &tensor, &value));
  host.api().ReleaseValue(value);
  host.interop().ReleaseExternalMemoryHandle(handle);
  *ns = now_ns() - begin;
  memory->take_on_success();
  return to_status(made, "CreateTensorFromMemory");
}

Status one_semaphore(const Host& host, OrtExternalResourceImporter* importer, SemaphoreExporter& exporter,
                     int64_t* ns) {
  TENON_TRY_ASSIGN(const auto semaphore, exporter.make());
  const OrtExternalSemaphoreDescriptor descriptor = semaphore->descriptor(host.version());
  OrtExternalSemaphoreHandle* handle = nullptr;
  const int64_t begin = now_ns();
  TENON_TRY(to_status(host.take(host.interop().ImportSemaphore(importer, &descriptor, &handle)), "ImportSemaphore"));
  host.interop().ReleaseExternalSemaphoreHandle(handle);
  *ns = now_ns() - begin;
  semaphore->take_on_success();
  return Status();
}

// Runs of a chain on host memory, checked once.
Result<Figures> measure_chain(const Host& host, const std::vector<std::string>& ops, size_t runs) {
  constexpr int64_t kCount = 256;
  const std::vector<int64_t> dims = {1, kCount};
  TENON_TRY_ASSIGN(const auto session, host.create_session(test::chain_model(ops, dims)));
  alignas(64) float src[kCount], dst[kCount] = {};
  for (int64_t i = 0; i < kCount; ++i) src[i] = static_cast<float>(i - 100) / 16;
  TENON_TRY_ASSIGN(const auto x, host.tensor_over(src, dims));
  TENON_TRY_ASSIGN(const auto y, host.tensor_over(dst, dims));
  const auto run = [&](int64_t* ns) {
    const int64_t begin = now_ns();
    Status status = host.run(session.get(), x.get(), y.get());
    *ns = now_ns() - begin;
    return status;
  };
  int64_t ns = 0;
  TENON_TRY(run(&ns));
  for (int64_t i = 0; i < kCount; ++i) {
    float expected = src[i];
    for (const std::string& op : ops) expected = op == "Neg" ? -expected : std::fabs(expected);
    if (dst[i] != expected) return device_error("Element {} is {} instead of {}.", i, dst[i], expected);
  }
  return measure(runs, run);
}

Status run(const HostOptions& options, size_t imports, size_t runs) {
  TENON_TRY_ASSIGN(const auto host, Host::load(options));
  TENON_TRY_ASSIGN(const auto importer, host->create_importer());
  std::printf("{\"host\": \"%s\", \"ep\": \"%s\", ", host->description().c_str(), host->ep_name().c_str());
  if (importer != nullptr) {
    const auto memory = memfd_exporter("mappable_fd", TENON_EXTERNAL_MEMORY_MAPPABLE_FD);
    const auto semaphore = shared_timeline_exporter("shared_timeline_fd", TENON_EXTERNAL_SEMAPHORE_SHARED_TIMELINE_FD);
    TENON_TRY_ASSIGN(const Figures memory_figures,
                     measure(imports, [&](int64_t* ns) { return one_import(*host, importer.get(), *memory, ns); }));
    print("import_memory", memory_figures);
    TENON_TRY_ASSIGN(const Figures semaphore_figures, measure(imports, [&](int64_t* ns) {
                       return one_semaphore(*host, importer.get(), *semaphore, ns);
                     }));
    print("import_semaphore", semaphore_figures);
  }
  // Abs is an operator that the simulated EP does not have: the chain then changes the EP eight times.
  const std::vector<std::string> whole(9, "Neg");
  const std::vector<std::string> mixed = {"Abs", "Neg", "Abs", "Neg", "Abs", "Neg", "Abs", "Neg", "Abs"};
  TENON_TRY_ASSIGN(const Figures whole_figures, measure_chain(*host, whole, runs));
  print("run_9_nodes_of_the_ep", whole_figures);
  TENON_TRY_ASSIGN(const Figures one_figures, measure_chain(*host, {"Neg"}, runs));
  print("run_1_node_of_the_ep", one_figures);
  TENON_TRY_ASSIGN(const Figures cpu_figures, measure_chain(*host, {"Abs"}, runs));
  print("run_1_node_of_the_cpu", cpu_figures);
  TENON_TRY_ASSIGN(const Figures mixed_figures, measure_chain(*host, mixed, runs));
  print("run_9_nodes_8_boundaries", mixed_figures);
  std::printf("\"boundary_us\": %.2f}\n", (mixed_figures.p50_us - cpu_figures.p50_us) / 8);
  return Status();
}

}  // namespace
}  // namespace tenon::conformance

int main(int argc, char** argv) {
  tenon::conformance::HostOptions options;
  size_t imports = 10000, runs = 2000;
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    if (std::strcmp(argv[i], "--plugin") == 0 && has_value) {
      if (!options.set_plugin(argv[++i]).ok()) return 2;
    } else if (std::strcmp(argv[i], "--ep") == 0 && has_value) {
      options.ep_name = argv[++i];
    } else if (std::strcmp(argv[i], "--imports") == 0 && has_value) {
      imports = std::strtoul(argv[++i], nullptr, 10);
    } else if (std::strcmp(argv[i], "--runs") == 0 && has_value) {
      runs = std::strtoul(argv[++i], nullptr, 10);
    } else {
      options.library = argv[i];
    }
  }
  if (imports < 100 || runs < 100) return 2;
  const tenon::Status status = tenon::conformance::run(options, imports, runs);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
