// Two devices of one machine in one process: each by its own, memory of one for a session on the other, importers, and
// both at once from many threads.
//   tenon_cuda_devices HOST_LIBRARY PLUGIN [RUNS]
// Exit status 77 where there is one device only. Over the fake driver, which it finds as libcuda.so.1, there are two.
#include <dlfcn.h>
#include <sys/mman.h>
#include <tenon/external_handles.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/format.h"
#include "base/status.h"
#include "conformance/host.h"
#include "ep/cuda/fake/fake_control.h"
#include "programs/relu_model.h"

namespace {

using namespace tenon;  // NOLINT(google-build-using-namespace)
using conformance::Host;
using conformance::Owned;
using conformance::to_status;

constexpr int64_t kCount = 64 * 1024;
constexpr size_t kBytes = kCount * sizeof(float);

std::atomic<int> complaints{0};
void expect(const Status& status, const std::string& what) {
  std::printf("%s  %s%s\n", status.ok() ? "ok   " : "WRONG", what.c_str(),
              status.ok() ? "" : (": " + status.to_string()).c_str());
  std::fflush(stdout);
  complaints += status.ok() ? 0 : 1;
}

Status refused(const Status& status, std::initializer_list<const char*> words) {
  if (status.ok()) return internal_error("It is not refused.");
  for (const char* word : words)
    if (status.message().find(word) == std::string::npos)
      return internal_error("\"{}\" is not in: {}", word, status.message());
  return Status();
}

std::vector<float> make_input(int seed) {
  std::vector<float> values(kCount);
  for (int64_t i = 0; i < kCount; ++i)
    values[static_cast<size_t>(i)] = static_cast<float>((i * 37 + seed * 101) % 257 - 128);
  return values;
}
Status check(const std::vector<float>& got, int seed) {
  const std::vector<float> x = make_input(seed);
  for (size_t i = 0; i < x.size(); ++i)
    if (got[i] != std::max(x[i], 0.0F))
      return internal_error("Element {} is {} instead of {}.", i, got[i], std::max(x[i], 0.0F));
  return Status();
}

class Devices {
 public:
  explicit Devices(Host& host) : host_(host) {}

  Status find() {
    const OrtEpDevice* const* devices = nullptr;
    size_t count = 0;
    TENON_TRY(answer(api().GetEpDevices(host_.env(), &devices, &count)));
    for (size_t i = 0; i < count; ++i)
      if (host_.ep_name() == api().EpDevice_EpName(devices[i])) devices_.push_back(devices[i]);
    std::sort(devices_.begin(), devices_.end(),
              [&](auto* a, auto* b) { return entry(a, "cuda_device_id") < entry(b, "cuda_device_id"); });
    return Status();
  }
  size_t count() const { return devices_.size(); }

  Status open() {
    for (size_t i = 0; i < 2; ++i) {
      OrtAllocator* allocator = nullptr;
      const OrtMemoryInfo* info = api().EpDevice_MemoryInfo(devices_[i], OrtDeviceMemoryType_DEFAULT);
      TENON_TRY(answer(api().GetSharedAllocator(host_.env(), info, &allocator)));
      allocators_.push_back(allocator);
      TENON_TRY_ASSIGN(auto session, make_session(i));
      sessions_.push_back(std::move(session));
    }
    return Status();
  }

  Result<Owned<OrtSession>> make_session(size_t device, const char* device_id = nullptr) {
    OrtSessionOptions* raw = nullptr;
    TENON_TRY(answer(api().CreateSessionOptions(&raw)));
    const auto options = host_.own(raw, api().ReleaseSessionOptions);
    const char* key = "device_id";
    TENON_TRY(answer(api().SessionOptionsAppendExecutionProvider_V2(raw, host_.env(), &devices_[device], 1, &key,
                                                                    &device_id, device_id != nullptr ? 1 : 0)));
    const std::vector<std::byte> model = test::relu_model({kCount});
    OrtSession* session = nullptr;
    TENON_TRY(answer(api().CreateSessionFromArray(host_.env(), model.data(), model.size(), raw, &session)));
    return host_.own(session, api().ReleaseSession);
  }

  // From host memory to host memory.
  Status run_from_host(size_t device, int seed) {
    std::vector<float> x = make_input(seed), y(kCount);
    TENON_TRY_ASSIGN(const auto src, on_host(x));
    TENON_TRY_ASSIGN(const auto dst, on_host(y));
    TENON_TRY(host_.run(sessions_[device].get(), src.get(), dst.get()));
    return check(y, seed);
  }

  // The input lies on device `from`, the result goes to device `to`.
  Status run_with_memory_of(size_t device, size_t from, size_t to, int seed) {
    std::vector<float> x = make_input(seed), y(kCount);
    TENON_TRY_ASSIGN(const auto host_x, on_host(x));
    TENON_TRY_ASSIGN(const auto host_y, on_host(y));
    TENON_TRY_ASSIGN(const auto src, on_device(from));
    TENON_TRY_ASSIGN(const auto dst, on_device(to));
    TENON_TRY(copy(host_x.get(), src.get()));
    TENON_TRY(host_.run(sessions_[device].get(), src.get(), dst.get()));
    TENON_TRY(copy(dst.get(), host_y.get()));
    return check(y, seed);
  }

  // Two importers register the same pages.
  Status import_host_memory(size_t device, void* memory, Owned<OrtExternalMemoryHandle>* import,
                            Owned<OrtExternalResourceImporter>* importer, const char* uuid_of = nullptr) {
    OrtExternalResourceImporter* raw = nullptr;
    TENON_TRY(answer(host_.interop().CreateExternalResourceImporterForDevice(devices_[device], &raw)));
    *importer = host_.own(raw, host_.interop().ReleaseExternalResourceImporter);
    TenonExternalMemoryInfo info = {};
    info.kind = TENON_EXTERNAL_MEMORY_HOST_ALLOCATION;
    info.handle.pointer = memory;
    if (uuid_of != nullptr) {
      size_t at = 0;
      for (const char* text = uuid_of; *text != '\0' && at < sizeof(info.device_uuid); ++text) {
        if (*text == '-') continue;
        info.device_uuid[at++] = static_cast<uint8_t>(std::stoi(std::string(text, 2), nullptr, 16));
        ++text;
      }
    }
    TENON_TRY_ASSIGN(*import, host_.import_described(raw, info, kBytes));
    return Status();
  }
  // In place, through both devices in turn.
  Status run_imported(size_t device, OrtExternalResourceImporter* importer, OrtExternalMemoryHandle* memory) {
    TENON_TRY_ASSIGN(const auto value, host_.tensor_in(importer, memory, std::span(&kCount, 1)));
    return host_.run(sessions_[device].get(), value.get(), value.get());
  }

  std::string entry(const OrtEpDevice* device, const char* key) const {
    const char* value = api().GetKeyValue(api().EpDevice_EpMetadata(device), key);
    return value != nullptr ? value : "";
  }
  std::string uuid(size_t device) const { return entry(devices_[device], "cuda_device_uuid"); }

 private:
  const OrtApi& api() const { return host_.api(); }
  Status answer(OrtStatus* status) const { return to_status(host_.take(status), "The C ABI"); }

  Result<Owned<OrtValue>> on_host(std::vector<float>& values) const {
    return host_.tensor_over(values, std::span(&kCount, 1));
  }
  Result<Owned<OrtValue>> on_device(size_t device) {
    OrtValue* value = nullptr;
    TENON_TRY(answer(
        api().CreateTensorAsOrtValue(allocators_[device], &kCount, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value)));
    return host_.own(value, api().ReleaseValue);
  }
  Status copy(const OrtValue* src, OrtValue* dst) {
    return answer(api().CopyTensors(host_.env(), &src, &dst, nullptr, 1));
  }

  Host& host_;
  std::vector<const OrtEpDevice*> devices_;
  std::vector<OrtAllocator*> allocators_;
  std::vector<Owned<OrtSession>> sessions_;
};

Status test_all(Host& host, int runs) {
  Devices devices(host);
  TENON_TRY(devices.find());
  if (devices.count() < 2) {
    std::printf("skipped: there is one device\n");
    std::exit(77);
  }
  TENON_TRY(devices.open());
  for (size_t device : {0, 1}) {
    expect(devices.run_from_host(device, 1), format("device {} from host memory", device));
    for (size_t from : {0, 1})
      for (size_t to : {0, 1}) {
        const Status ran = devices.run_with_memory_of(device, from, to, static_cast<int>(4 * device + 2 * from + to));
        expect(ran, format("a session on device {}, input on {}, output on {}", device, from, to));
      }
  }
  expect(devices.make_session(1, "1").status(), "device_id 1 for the second device");
  expect(refused(devices.make_session(1, "0").status(), {"device_id", "0", "1"}),
         "device_id 0 is not the second device");

  void* const pages = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  const std::vector<float> x = make_input(7);
  std::memcpy(pages, x.data(), kBytes);
  {
    Owned<OrtExternalResourceImporter> importers[2];
    Owned<OrtExternalMemoryHandle> imports[2];
    for (size_t device : {0, 1}) {
      expect(devices.import_host_memory(device, pages, &imports[device], &importers[device]),
             format("device {} imports the same pages", device));
      if (imports[device] == nullptr) continue;
      expect(devices.run_imported(device, importers[device].get(), imports[device].get()),
             format("device {} works on them in place", device));
    }
    Owned<OrtExternalResourceImporter> importer;
    Owned<OrtExternalMemoryHandle> import;
    const std::string other = devices.uuid(0), own = devices.uuid(1);
    expect(
        refused(devices.import_host_memory(1, pages, &import, &importer, other.c_str()), {other.c_str(), own.c_str()}),
        "memory of the first device is refused by the second, naming both");
  }
  std::vector<float> result(kCount);
  std::memcpy(result.data(), pages, kBytes);
  expect(check(result, 7), "what both have written is right");
  (void)::munmap(pages, kBytes);

  constexpr int kThreads = 16;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  std::atomic<int> wrong{0};
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < runs && wrong == 0; ++i)
        if (Status status = devices.run_from_host(static_cast<size_t>(thread % 2), 16 * i + thread); !status.ok()) {
          expect(status, format("thread {} run {}", thread, i));
          ++wrong;
        }
    });
  for (std::thread& thread : threads) thread.join();
  expect(wrong == 0 ? Status() : internal_error("{} threads fail.", wrong.load()),
         format("16 threads on two devices, {} runs each", runs));
  return Status();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s HOST_LIBRARY PLUGIN [RUNS]\n", argv[0]);
    return 2;
  }
  if (void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW); driver != nullptr)
    if (void* const control = ::dlsym(driver, cuda::fake::kFakeControl); control != nullptr)
      static_cast<const cuda::fake::FakeControl*>(control)->show_devices(2);
  const auto host = Host::load({.library = argv[1], .plugin_name = "cuda", .plugin_library = argv[2]});
  if (!host.ok()) {
    std::fprintf(stderr, "%s\n", host.status().to_string().c_str());
    return 2;
  }
  std::printf("%s\n", (*host)->description().c_str());
  expect(test_all(**host, argc > 3 ? std::atoi(argv[3]) : 50), "all of it");
  return complaints == 0 ? 0 : 1;
}
