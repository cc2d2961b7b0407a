// After a kernel has faulted, CUDA is lost to the process: every call says so or has nothing to do with it, none hangs,
// none ends the process, and the process ends as it should.
//   tenon_cuda_kernel_fault HOST_LIBRARY PLUGIN [released|live]
// With `live`, sessions, streams and imports are still there when the process calls exit().
#include <sys/mman.h>
#include <tenon/external_handles.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/format.h"
#include "base/status.h"
#include "conformance/host.h"
#include "programs/relu_model.h"

namespace {

using namespace tenon;  // NOLINT(google-build-using-namespace)
using conformance::Host;
using conformance::Owned;
using conformance::to_status;

constexpr int64_t kCount = 4096;
constexpr size_t kBytes = kCount * sizeof(float);
constexpr int64_t kLimitMs = 20'000;

std::atomic<int> complaints{0};
std::atomic<const char*> step{nullptr};  // null: nothing is under way
std::atomic<int64_t> began_ns{0};

// Ends the process, with the name of the step, when it takes too long; also within exit().
void watch() {
  for (;;) {
    const char* const name = step;
    if (name != nullptr && monotonic_ns() - began_ns > kLimitMs * 1'000'000) {
      std::printf("WRONG  %s hangs\n", name);
      std::fflush(stdout);
      ::_exit(3);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}
void begin(const char* name) {
  began_ns = monotonic_ns();
  step = name;
}

enum class Wanted : uint8_t { kOk, kLost, kAnything };

void expect(const char* name, Wanted wanted, const std::function<Status()>& call) {
  begin(name);
  const Status status = call();
  const auto took_ms = static_cast<long long>((monotonic_ns() - began_ns) / 1'000'000);
  step = nullptr;
  // In the driver's words, and what they mean; or a host's own that there is no memory.
  const bool lost =
      status.message().find("CUDA_ERROR_") != std::string::npos || status.message().find("llocat") != std::string::npos;
  const bool good = wanted == Wanted::kAnything || (wanted == Wanted::kOk ? status.ok() : !status.ok() && lost);
  std::printf("%s  %-40s %5lld ms  %.300s\n", good ? "ok   " : "WRONG", name, took_ms, status.to_string().c_str());
  std::fflush(stdout);
  complaints += good ? 0 : 1;
}

class Fault {
 public:
  explicit Fault(Host& host) : host_(host) {}

  Status open() {
    const OrtMemoryInfo* info = api().EpDevice_MemoryInfo(host_.device(), OrtDeviceMemoryType_DEFAULT);
    TENON_TRY(answer(api().GetSharedAllocator(host_.env(), info, &allocator_)));
    TENON_TRY_ASSIGN(faulty_, host_.create_session(model()));
    TENON_TRY_ASSIGN(other_, host_.create_session(model()));
    TENON_TRY_ASSIGN(on_cpu_, cpu_session());
    TENON_TRY_ASSIGN(stream_, host_.create_stream());
    TENON_TRY_ASSIGN(importer_, host_.create_importer());
    TENON_TRY_ASSIGN(block_, on_device());
    TENON_TRY_ASSIGN(import_, import_host_memory());
    TENON_TRY(run_from_host(faulty_.get()));
    TENON_TRY(run_from_host(other_.get()));
    return run_from_host(on_cpu_.get());
  }

  void fault() {
    expect("the kernel that faults", Wanted::kLost, [&]() -> Status {
      OrtValue* raw = nullptr;
      TENON_TRY(answer(api().CreateTensorWithDataAsOrtValue(
          api().EpDevice_MemoryInfo(host_.device(), OrtDeviceMemoryType_DEFAULT),
          reinterpret_cast<void*>(intptr_t{256}), kBytes, &kCount, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &raw)));
      const auto nobodys = host_.own(raw, api().ReleaseValue);
      return host_.run(faulty_.get(), raw, block_.get());
    });
  }

  void later_calls() {
    expect("a run of the same session", Wanted::kLost, [&] { return run_from_host(faulty_.get()); });
    expect("a run of another session", Wanted::kLost, [&] { return run_from_host(other_.get()); });
    expect("a run on the CPU", Wanted::kOk, [&] { return run_from_host(on_cpu_.get()); });
    expect("a run on memory of the device", Wanted::kLost,
           [&] { return host_.run(other_.get(), block_.get(), block_.get()); });
    expect("a new session", Wanted::kLost, [&]() -> Status {
      TENON_TRY_ASSIGN(const auto session, host_.create_session(model()));
      return run_from_host(session.get());
    });
    expect("a copy to the device", Wanted::kLost, [&] { return copy_to_device(); });
    // Stock onnxruntime makes a tensor without memory of it.
    expect("memory of the device", host_.is_tenon() ? Wanted::kLost : Wanted::kAnything,
           [&] { return on_device().status(); });
    expect("a stream", Wanted::kAnything, [&]() -> Status {
      TENON_TRY_ASSIGN(const auto stream, host_.create_stream());
      return host_.wait_for(stream.get());
    });
    expect("waiting for a stream from before", Wanted::kAnything, [&] { return host_.wait_for(stream_.get()); });
    expect("an import of host memory", Wanted::kAnything, [&] { return import_host_memory().status(); });
    expect("a tensor of an import from before", Wanted::kAnything, [&]() -> Status {
      TENON_TRY_ASSIGN(const auto value, host_.tensor_in(importer_.get(), import_.get(), std::span(&kCount, 1)));
      const Status ran = host_.run(other_.get(), value.get(), value.get());
      return ran.ok() ? internal_error("It runs.") : Status();
    });
    expect("another importer", Wanted::kAnything, [&] { return host_.create_importer().status(); });
  }

  void release() {
    expect("releasing the session", Wanted::kOk, [&] { return faulty_ = nullptr, Status(); });
    expect("releasing another session", Wanted::kOk, [&] { return other_ = nullptr, Status(); });
    expect("releasing the import", Wanted::kOk, [&] { return import_ = nullptr, Status(); });
    expect("releasing the importer", Wanted::kOk, [&] { return importer_ = nullptr, Status(); });
    expect("releasing the stream", Wanted::kOk, [&] { return stream_ = nullptr, Status(); });
    expect("releasing memory", Wanted::kOk, [&] { return block_ = nullptr, Status(); });
    expect("a run on the CPU at the end", Wanted::kOk, [&] { return run_from_host(on_cpu_.get()); });
    on_cpu_ = nullptr;
  }

 private:
  const OrtApi& api() const { return host_.api(); }
  Status answer(OrtStatus* status) const { return to_status(host_.take(status), "The C ABI"); }
  static std::vector<std::byte> model() { return test::chain_model({"Relu", "Neg", "Exp"}, {kCount}); }

  Result<Owned<OrtSession>> cpu_session() {
    OrtSessionOptions* raw = nullptr;
    TENON_TRY(answer(api().CreateSessionOptions(&raw)));
    const auto options = host_.own(raw, api().ReleaseSessionOptions);
    const std::vector<std::byte> bytes = model();
    OrtSession* session = nullptr;
    TENON_TRY(answer(api().CreateSessionFromArray(host_.env(), bytes.data(), bytes.size(), raw, &session)));
    return host_.own(session, api().ReleaseSession);
  }
  Result<Owned<OrtValue>> on_host(std::vector<float>& values) const {
    return host_.tensor_over(values, std::span(&kCount, 1));
  }
  Result<Owned<OrtValue>> on_device() {
    OrtValue* value = nullptr;
    TENON_TRY(
        answer(api().CreateTensorAsOrtValue(allocator_, &kCount, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value)));
    return host_.own(value, api().ReleaseValue);
  }
  Status copy_to_device() {
    std::vector<float> values(kCount, 1.0F);
    TENON_TRY_ASSIGN(const auto src, on_host(values));
    const OrtValue* from = src.get();
    OrtValue* to = block_.get();
    return answer(api().CopyTensors(host_.env(), &from, &to, nullptr, 1));
  }
  Result<Owned<OrtExternalMemoryHandle>> import_host_memory() {
    static void* const pages = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TenonExternalMemoryInfo info = {};
    info.kind = TENON_EXTERNAL_MEMORY_HOST_ALLOCATION;
    info.handle.pointer = pages;
    return host_.import_described(importer_.get(), info, kBytes);
  }
  Status run_from_host(OrtSession* session) {
    std::vector<float> x(kCount, 0.0F), y(kCount, 0.0F);
    TENON_TRY_ASSIGN(const auto src, on_host(x));
    TENON_TRY_ASSIGN(const auto dst, on_host(y));
    TENON_TRY(host_.run(session, src.get(), dst.get()));
    for (float element : y)
      if (element != 1.0F) return internal_error("An element is {}.", element);
    return Status();
  }

  Host& host_;
  OrtAllocator* allocator_ = nullptr;
  Owned<OrtSession> faulty_, other_, on_cpu_;
  Owned<OrtSyncStream> stream_;
  Owned<OrtExternalResourceImporter> importer_;
  Owned<OrtExternalMemoryHandle> import_;
  Owned<OrtValue> block_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s HOST_LIBRARY PLUGIN [released|live]\n", argv[0]);
    return 2;
  }
  auto host = Host::load({.library = argv[1], .plugin_name = "cuda", .plugin_library = argv[2]});
  if (!host.ok()) {
    std::printf("%s\n", host.status().to_string().c_str());
    return 2;
  }
  std::printf("%s\n", (*host)->description().c_str());
  std::thread(watch).detach();
  auto* const fault = new Fault(**host);
  expect("everything before", Wanted::kOk, [&] { return fault->open(); });
  fault->fault();
  fault->later_calls();
  if (argc < 4 || std::strcmp(argv[3], "live") != 0) {
    fault->release();
    expect("releasing the host", Wanted::kOk, [&] { return *host = nullptr, Status(); });
  } else {
    (void)host->release();  // as a program that calls exit() somewhere
  }
  std::printf("%d complaints\n", complaints.load());
  std::fflush(stdout);
  begin("exit()");
  std::exit(complaints == 0 ? 0 : 1);
}
