// Memory that reaches the CUDA EP by handles of CUDA and of the system, in a whole host: CUDA's virtual memory by file
// descriptor, another process's allocation by IPC handle, host memory and a memfd in place; what no device takes is
// answered so. Over the fake driver and on a GPU (plugin_test.py and gpu_test.py run it).
//   tenon_cuda_handles HOST_LIBRARY PLUGIN [host|vmm|ipc]
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <tenon/external_handles.h>
#include <tenon/external_memory.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>

#include "base/any_enum.h"
#include "base/format.h"
#include "conformance/host.h"
#include "ep/cuda/driver/cuda_device.h"
#include "programs/relu_model.h"

namespace tenon {
namespace {

using conformance::Host;
using conformance::Owned;
using conformance::to_status;

constexpr int64_t kCount = 16 * 1024;
constexpr size_t kBytes = kCount * sizeof(float);
// Every object holds a part that is not imported, x and y.
constexpr size_t kOffset = kBytes, kImported = 2 * kBytes, kObject = kOffset + kImported;
int complaints = 0;

void expect(bool good, const std::string& what) {
  std::printf("%s: %s\n", good ? "passed" : "FAILED", what.c_str());
  std::fflush(stdout);
  if (!good) ++complaints;
}

// The contents of an object before a run: numbers of both signs where x is, and -1 elsewhere.
std::vector<float> make_object() {
  std::vector<float> values(kObject / sizeof(float), -1.0F);
  for (int64_t i = 0; i < kCount; ++i) values[static_cast<size_t>(kCount + i)] = static_cast<float>(i % 101) - 50;
  return values;
}
int64_t count_wrong(const std::vector<float>& values) {
  std::vector<float> wanted = make_object();
  for (size_t i = 0; i < size_t{kCount}; ++i) wanted[2 * kCount + i] = std::max(wanted[kCount + i], 0.0F);
  int64_t wrong = 0;
  for (size_t i = 0; i < wanted.size(); ++i)
    if (values[i] != wanted[i]) ++wrong;
  return wrong;
}

class Handles {
 public:
  static Result<Handles> open(Host& host) {
    TENON_TRY_ASSIGN(auto importer, host.create_importer());
    if (importer == nullptr) return internal_error("The EP has no importer.");
    TENON_TRY_ASSIGN(auto session, host.create_session(test::relu_model({kCount})));
    return Handles(host, std::move(importer), std::move(session));
  }

  Result<bool> takes(uint32_t kind) const {
    const auto type = as_enum<OrtExternalMemoryHandleType>(kind);
    bool supported = false;
    TENON_TRY(to_status(host_.take(host_.interop().CanImportMemory(importer_.get(), type, &supported)), "CanImport"));
    return supported;
  }

  Result<Owned<OrtExternalMemoryHandle>> import(const TenonExternalMemoryInfo& info, size_t size_bytes,
                                                size_t offset_bytes) const {
    return host_.import_described(importer_.get(), info, size_bytes, offset_bytes);
  }

  // Relu from the import's x to its y, where they lie.
  Status infer(const TenonExternalMemoryInfo& info) const {
    TENON_TRY_ASSIGN(const auto memory, import(info, kImported, kOffset));
    const int64_t shape[] = {kCount};
    TENON_TRY_ASSIGN(const auto x, host_.tensor_in(importer_.get(), memory.get(), shape));
    TENON_TRY_ASSIGN(const auto y, host_.tensor_in(importer_.get(), memory.get(), shape, kBytes));
    return host_.run(session_.get(), x.get(), y.get());
  }

 private:
  Handles(Host& host, Owned<OrtExternalResourceImporter> importer, Owned<OrtSession> session)
      : host_(host), importer_(std::move(importer)), session_(std::move(session)) {}

  Host& host_;
  Owned<OrtExternalResourceImporter> importer_;
  Owned<OrtSession> session_;
};

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

// An fd that is imported once at an offset, and before that refused for more than its object has.
Status check_fd(const Handles& handles, uint32_t kind, int fd, size_t object_bytes, const std::string& name) {
  TenonExternalMemoryInfo info{};
  info.kind = kind;
  info.handle.fd = fd;
  const Status refused = handles.import(info, object_bytes, kOffset).status();
  expect(refused.code() == StatusCode::kInvalidArgument && is_open(fd),
         format("{}: more than the object has is refused, and the fd stays open: {}", name, refused.to_string()));
  TENON_TRY(handles.infer(info));
  expect(!is_open(fd), format("{}: the import has closed the fd", name));
  return Status();
}

// S2: CUDA's virtual memory, exported as an fd.
Status test_vmm(const Handles& handles, const cuda::CudaDriver& driver) {
  TENON_TRY_ASSIGN(const auto device, cuda::CudaDevice::open(driver, 0));
  TENON_TRY_ASSIGN(const cuda::ContextScope scope, cuda::ContextScope::enter(*device));
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
  size_t granularity = 0;
  TENON_CUDA_TRY(driver, MemGetAllocationGranularity, &granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  const size_t bytes = (kObject + granularity - 1) / granularity * granularity;
  CUmemGenericAllocationHandle allocation = 0;
  TENON_CUDA_TRY(driver, MemCreate, &allocation, bytes, &properties, 0);
  CUdeviceptr range = 0;
  TENON_CUDA_TRY(driver, MemAddressReserve, &range, bytes, 0, 0, 0);
  TENON_CUDA_TRY(driver, MemMap, range, bytes, 0, allocation, 0);
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  TENON_CUDA_TRY(driver, MemSetAccess, range, bytes, &access, 1);
  std::vector<float> values = make_object();
  TENON_CUDA_TRY(driver, MemcpyAsync, range, reinterpret_cast<CUdeviceptr>(values.data()), kObject, nullptr);
  TENON_CUDA_TRY(driver, StreamSynchronize, nullptr);
  int fd = -1;
  TENON_CUDA_TRY(driver, MemExportToShareableHandle, &fd, allocation, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  TENON_TRY(check_fd(handles, TENON_EXTERNAL_MEMORY_CUDA_VMM_FD, fd, bytes, "CUDA_VMM_FD"));
  TENON_CUDA_TRY(driver, MemcpyAsync, reinterpret_cast<CUdeviceptr>(values.data()), range, kObject, nullptr);
  TENON_CUDA_TRY(driver, StreamSynchronize, nullptr);
  expect(count_wrong(values) == 0, format("CUDA_VMM_FD: {} elements wrong", count_wrong(values)));
  TENON_CUDA_TRY(driver, MemUnmap, range, bytes);
  TENON_CUDA_TRY(driver, MemAddressFree, range, bytes);
  TENON_CUDA_TRY(driver, MemRelease, allocation);
  return Status();
}

// The other program of test_ipc(): makes an allocation, writes its handle to stdout, and looks at it when stdin ends.
Status export_ipc() {
  TENON_TRY_ASSIGN(const cuda::CudaDriver* const driver, cuda::cuda_driver());
  TENON_TRY_ASSIGN(const auto device, cuda::CudaDevice::open(*driver, 0));
  TENON_TRY_ASSIGN(const cuda::ContextScope scope, cuda::ContextScope::enter(*device));
  CUdeviceptr block = 0;
  TENON_CUDA_TRY(*driver, MemAlloc, &block, kObject);
  std::vector<float> values = make_object();
  TENON_CUDA_TRY(*driver, MemcpyAsync, block, reinterpret_cast<CUdeviceptr>(values.data()), kObject, nullptr);
  TENON_CUDA_TRY(*driver, StreamSynchronize, nullptr);
  CUipcMemHandle handle{};
  TENON_CUDA_TRY(*driver, IpcGetMemHandle, &handle, block);
  if (::write(STDOUT_FILENO, &handle, sizeof(handle)) != static_cast<ssize_t>(sizeof(handle)))
    return internal_error("The handle cannot be written.");
  char last = 0;
  while (::read(STDIN_FILENO, &last, 1) > 0) {
  }
  TENON_CUDA_TRY(*driver, MemcpyAsync, reinterpret_cast<CUdeviceptr>(values.data()), block, kObject, nullptr);
  TENON_CUDA_TRY(*driver, StreamSynchronize, nullptr);
  TENON_CUDA_TRY(*driver, MemFree, block);
  const int64_t wrong = count_wrong(values);
  return wrong == 0 ? Status() : internal_error("{} elements are wrong in the process that made them.", wrong);
}

// S2: an allocation of another process.
Status test_ipc(const Handles& handles) {
  int to[2], from[2];
  if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) return internal_error("There is no pipe.");
  const pid_t child = ::fork();
  if (child == 0) {
    (void)::dup2(to[0], STDIN_FILENO);
    (void)::dup2(from[1], STDOUT_FILENO);
    ::execl("/proc/self/exe", "tenon_cuda_handles", "--exporter", nullptr);
    ::_exit(127);
  }
  ::close(to[0]);
  ::close(from[1]);
  TenonExternalMemoryInfo info{};
  info.kind = TENON_EXTERNAL_MEMORY_CUDA_IPC;
  size_t got = 0;
  while (got < sizeof(info.handle.ipc)) {
    const ssize_t read = ::read(from[0], info.handle.ipc + got, sizeof(info.handle.ipc) - got);
    if (read <= 0) break;
    got += static_cast<size_t>(read);
  }
  Status inferred = got == sizeof(info.handle.ipc) ? Status() : internal_error("The other process sends no handle.");
  if (inferred.ok()) {
    const Status refused = handles.import(info, size_t{1} << 40, 0).status();
    expect(refused.code() == StatusCode::kInvalidArgument,
           "CUDA_IPC: more than the allocation is refused: " + refused.to_string());
    // The handle stays the caller's: it serves again.
    for (int i = 0; i < 2 && inferred.ok(); ++i) inferred = handles.infer(info);
  }
  ::close(to[1]);
  ::close(from[0]);
  int ended = -1;
  (void)::waitpid(child, &ended, 0);
  TENON_TRY(std::move(inferred));
  expect(WIFEXITED(ended) && WEXITSTATUS(ended) == 0, "CUDA_IPC: the process that made the memory sees the results");
  return Status();
}

// S2, S1.8: host memory and a memfd, where they lie.
Status test_host_memory(const Handles& handles) {
  const OwnedHandle object = OwnedHandle::take_fd(::memfd_create("tenon-handles", MFD_CLOEXEC));
  if (!object.valid() || ::ftruncate(object.fd(), kObject) != 0) return internal_error("There is no memfd.");
  const std::vector<float> before = make_object();
  for (const bool by_fd : {false, true}) {
    const std::string name = by_fd ? "MAPPABLE_FD" : "HOST_ALLOCATION";
    void* const pages = by_fd ? ::mmap(nullptr, kObject, PROT_READ | PROT_WRITE, MAP_SHARED, object.fd(), 0)
                              : ::mmap(nullptr, kObject, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return internal_error("There is no memory.");
    std::memcpy(pages, before.data(), kObject);
    TenonExternalMemoryInfo info{};
    info.kind = by_fd ? TENON_EXTERNAL_MEMORY_MAPPABLE_FD : TENON_EXTERNAL_MEMORY_HOST_ALLOCATION;
    if (by_fd) {
      TENON_TRY_ASSIGN(OwnedHandle copy, object.dup());
      TENON_TRY(check_fd(handles, info.kind, copy.release_fd(), kObject, name));
    } else {
      info.handle.pointer = pages;
      TENON_TRY(handles.infer(info));
    }
    const auto* const floats = static_cast<const float*>(pages);
    const int64_t wrong = count_wrong({floats, floats + kObject / sizeof(float)});
    expect(wrong == 0, format("{}: {} elements wrong", name, wrong));
    (void)::munmap(pages, kObject);
  }
  return Status();
}

// `only`: empty for all.
Status test_all(const char* library, const char* plugin, std::string_view only) {
  TENON_TRY_ASSIGN(const cuda::CudaDriver* const driver, cuda::cuda_driver());
  TENON_TRY_ASSIGN(const auto host, Host::load({.library = library, .plugin_name = "cuda", .plugin_library = plugin}));
  std::printf("%s\n", host->description().c_str());
  TENON_TRY_ASSIGN(const Handles handles, Handles::open(*host));
  for (const uint32_t kind : {TENON_EXTERNAL_MEMORY_CUDA_VMM_FD, TENON_EXTERNAL_MEMORY_CUDA_IPC,
                              TENON_EXTERNAL_MEMORY_HOST_ALLOCATION, TENON_EXTERNAL_MEMORY_MAPPABLE_FD}) {
    TENON_TRY_ASSIGN(const bool taken, handles.takes(kind));
    expect(taken, format("kind {:#x} is taken", kind));
  }
  // A discrete GPU's driver gives dma-bufs and takes none.
  CUdevice device = 0;
  int integrated = 0;
  TENON_CUDA_TRY(*driver, DeviceGet, &device, 0);
  TENON_CUDA_TRY(*driver, DeviceGetAttribute, &integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED, device);
  TENON_TRY_ASSIGN(const bool dma_buf, handles.takes(TENON_EXTERNAL_MEMORY_DMA_BUF_FD));
  expect(integrated != 0 || !dma_buf, "DMA_BUF_FD: a discrete device answers false");
  if (only.empty() || only == "host") TENON_TRY_CONTEXT(test_host_memory(handles), "with host memory");
  if (only.empty() || only == "vmm") TENON_TRY_CONTEXT(test_vmm(handles, *driver), "with CUDA_VMM_FD");
  if (only.empty() || only == "ipc") TENON_TRY_CONTEXT(test_ipc(handles), "with CUDA_IPC");
  return Status();
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--exporter") {
    const tenon::Status status = tenon::export_ipc();
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.to_string().c_str());
    return status.ok() ? 0 : 1;
  }
  if (argc != 3 && argc != 4) {
    std::fprintf(stderr, "usage: %s HOST_LIBRARY PLUGIN [host|vmm|ipc]\n", argv[0]);
    return 2;
  }
  const tenon::Status status = tenon::test_all(argv[1], argv[2], argc == 4 ? argv[3] : "");
  if (!status.ok()) std::printf("FAILED: %s\n", status.to_string().c_str());
  return status.ok() && tenon::complaints == 0 ? 0 : 1;
}
