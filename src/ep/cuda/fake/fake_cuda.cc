#include "ep/cuda/fake/fake_cuda.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "ep/cuda/fake/fake_state.h"

namespace tenon::cuda::fake {

namespace {

// One context a device: its number, from 1.
thread_local std::vector<CUcontext> current;

CUcontext context_of(CUdevice device) { return reinterpret_cast<CUcontext>(static_cast<uintptr_t>(device) + 1); }

CUresult CUDAAPI driver_get_version(int* version) {
  TENON_FAKE_ENTER("cuDriverGetVersion");
  *version = state().config.version;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI init(unsigned) {
  TENON_FAKE_ENTER("cuInit");
  return CUDA_SUCCESS;
}

struct ErrorName {
  CUresult result;
  const char* name;
};
constexpr ErrorName kErrors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {CUDA_ERROR_OPERATING_SYSTEM, "CUDA_ERROR_OPERATING_SYSTEM"},
    {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
    {CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
};

CUresult CUDAAPI get_error_name(CUresult error, const char** name) {
  for (const ErrorName& row : kErrors)
    if (row.result == error) return *name = row.name, CUDA_SUCCESS;
  *name = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI get_error_string(CUresult, const char** text) {
  *text = "as the fake driver says";
  return CUDA_SUCCESS;
}

CUresult CUDAAPI device_get_count(int* count) {
  TENON_FAKE_ENTER("cuDeviceGetCount");
  *count = state().config.devices;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI device_get(CUdevice* device, int ordinal) {
  TENON_FAKE_ENTER("cuDeviceGet");
  if (ordinal < 0 || ordinal >= state().config.devices) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI device_get_name(char* name, int length, CUdevice) {
  TENON_FAKE_ENTER("cuDeviceGetName");
  std::snprintf(name, length, "Fake CUDA device");
  return CUDA_SUCCESS;
}

CUresult CUDAAPI device_get_attribute(int* value, CUdevice_attribute attribute, CUdevice) {
  const Config& config = state().config;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = config.compute_capability / 10;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = config.compute_capability % 10;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED:
      *value = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_D3D12_CIG_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VULKAN_CIG_SUPPORTED:
      *value = config.graphics ? 1 : 0;
      break;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
      *value = config.integrated ? 1 : 0;
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI device_get_uuid(CUuuid* uuid, CUdevice device) {
  TENON_FAKE_ENTER("cuDeviceGetUuid");
  for (int i = 0; i < 16; ++i) uuid->bytes[i] = static_cast<char>(0xF0 + i);
  uuid->bytes[15] = static_cast<char>(device);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI device_get_luid(char* luid, unsigned int* node_mask, CUdevice device) {
  TENON_FAKE_ENTER("cuDeviceGetLuid");
  for (int i = 0; i < 8; ++i) luid[i] = static_cast<char>(0xA0 + i);
  luid[7] = static_cast<char>(device);
  *node_mask = 1;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI device_get_pci_bus_id(char* text, int length, CUdevice device) {
  TENON_FAKE_ENTER("cuDeviceGetPCIBusId");
  std::snprintf(text, length, "0000:%02X:00.0", 0xA0 + device);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI device_total_mem(size_t* bytes, CUdevice) {
  TENON_FAKE_ENTER("cuDeviceTotalMem");
  *bytes = state().config.memory_bytes;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI primary_retain(CUcontext* context, CUdevice device) {
  TENON_FAKE_ENTER("cuDevicePrimaryCtxRetain");
  const std::lock_guard lock(state().mutex);
  ++state().retained;
  *context = context_of(device);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI primary_release(CUdevice) {
  TENON_FAKE_ENTER("cuDevicePrimaryCtxRelease");
  std::unique_lock lock(state().mutex);
  if (state().retained == 0) {
    lock.unlock();
    violation("A primary context is released more often than it was retained.");
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  --state().retained;
  return CUDA_SUCCESS;
}

// Contexts of their own are numbered from here.
uintptr_t next_context = 1000;

CUresult CUDAAPI context_create(CUcontext* out, CUctxCreateParams* parameters, unsigned flags, CUdevice device) {
  TENON_FAKE_ENTER("cuCtxCreate");
  const CUctxCigParam* graphics = parameters != nullptr ? parameters->cigParams : nullptr;
  const std::lock_guard lock(state().mutex);
  if (graphics == nullptr || flags != 0 || device < 0 || device >= state().config.devices)
    return CUDA_ERROR_INVALID_VALUE;
  if (!state().config.graphics) return CUDA_ERROR_NOT_SUPPORTED;
  if (graphics->sharedData == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUcontext>(next_context++);
  state().graphics[*out] = *graphics;
  current.push_back(*out);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI context_destroy(CUcontext context) {
  TENON_FAKE_ENTER("cuCtxDestroy");
  std::string wrong;
  {
    const std::lock_guard lock(state().mutex);
    if (state().graphics.erase(context) == 0) wrong = "A context is destroyed that is none, or not the caller's.";
    if (std::find(current.begin(), current.end(), context) != current.end())
      wrong = "A context is destroyed while it is current.";
  }
  if (wrong.empty()) return CUDA_SUCCESS;
  violation(wrong);
  return CUDA_ERROR_INVALID_CONTEXT;
}

CUresult CUDAAPI push_current(CUcontext context) {
  TENON_FAKE_ENTER("cuCtxPushCurrent");
  current.push_back(context);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI pop_current(CUcontext* context) {
  if (current.empty()) {
    violation("A context is popped from a thread that has none.");
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  *context = current.back();
  current.pop_back();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI get_current(CUcontext* context) {
  *context = current.empty() ? nullptr : current.back();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI stream_get_context(CUstream stream, CUcontext* context) {
  TENON_FAKE_CONTEXT("cuStreamGetCtx");
  if (find_stream(stream) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *context = current.back();
  return CUDA_SUCCESS;
}

// Stands for functions that this driver lacks, as graph nodes that fake_graph.cc has not. The arguments do not matter.
CUresult CUDAAPI not_supported() { return CUDA_ERROR_NOT_SUPPORTED; }

const Table& table() {
  static const Table functions = [] {
    Table table;
    add_function(table, "cuDriverGetVersion", &driver_get_version);
    add_function(table, "cuInit", &init);
    add_function(table, "cuGetErrorName", &get_error_name);
    add_function(table, "cuGetErrorString", &get_error_string);
    add_function(table, "cuDeviceGetCount", &device_get_count);
    add_function(table, "cuDeviceGet", &device_get);
    add_function(table, "cuDeviceGetName", &device_get_name);
    add_function(table, "cuDeviceGetAttribute", &device_get_attribute);
    add_function(table, "cuDeviceGetUuid", &device_get_uuid);
    add_function(table, "cuDeviceGetLuid", &device_get_luid);
    add_function(table, "cuDeviceGetPCIBusId", &device_get_pci_bus_id);
    add_function(table, "cuDeviceTotalMem", &device_total_mem);
    add_function(table, "cuDevicePrimaryCtxRetain", &primary_retain);
    add_function(table, "cuDevicePrimaryCtxRelease", &primary_release);
    add_function(table, "cuCtxCreate", &context_create);
    add_function(table, "cuCtxDestroy", &context_destroy);
    add_function(table, "cuCtxPushCurrent", &push_current);
    add_function(table, "cuCtxPopCurrent", &pop_current);
    add_function(table, "cuCtxGetCurrent", &get_current);
    add_function(table, "cuStreamGetCtx", &stream_get_context);
    add_stream_functions(table);
    add_memory_functions(table);
    add_external_functions(table);
    add_graph_functions(table);
    add_kernel_functions(table);
    return table;
  }();
  return functions;
}

}  // namespace

State& state() {
  // Never destroyed: streams' threads may run until the process ends.
  static State* const the_state = new State;
  return *the_state;
}

CUcontext current_context() { return current.empty() ? nullptr : current.back(); }

void violation(const std::string& text) {
  State& all = state();
  bool abort_now = false;
  {
    const std::lock_guard lock(all.mutex);
    all.violations.push_back(text);
    abort_now = all.config.abort_on_violation;
  }
  if (!abort_now) return;
  std::fprintf(stderr, "fake CUDA driver: %s\n", text.c_str());
  std::abort();
}

namespace {

// Functions that release, query or synchronise fail only when the context is lost, and then all calls do.
bool may_fail(std::string_view function) {
  for (const std::string_view word : {"Free", "Destroy", "Release", "Unregister", "Unmap", "Close", "Unload", "Query",
                                      "Synchronize", "Get", "Push", "Pop", "Is", "Trim", "EventRecord", "Init"})
    if (function.find(word) != std::string_view::npos) return false;
  return true;
}

}  // namespace

CUresult enter(const char* function) {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  const int64_t count = ++all.calls[function];
  if (all.calls_until_failure > 0 && may_fail(function)) {
    --all.calls_until_failure;
    if (all.calls_until_failure == 0) {
      all.failed_call = function;
      return all.next_failure;
    }
  }
  const auto failure = all.failures.find(function);
  if (failure == all.failures.end() || failure->second.at != count) return CUDA_SUCCESS;
  return failure->second.result;
}

CUresult enter_in_context(const char* function) {
  if (current.empty()) {
    violation(format("{} is called without a current context.", function));
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  const CUresult entered = enter(function);
  if (entered != CUDA_SUCCESS) return entered;
  const std::lock_guard lock(state().mutex);
  return state().sticky;
}

void expect_no_foreign_waits(const char* function) {
  {
    const std::lock_guard lock(state().mutex);
    if (state().foreign_waits == 0) return;
  }
  violation(format("{} is called while a stream waits for another API.", function));
}

CUresult CUDAAPI get_proc_address(const char* name, void** out, int, cuuint64_t,
                                  CUdriverProcAddressQueryResult* answer) {
  const auto found = table().find(std::string_view(name));
  *out = found != table().end() ? found->second : reinterpret_cast<void*>(&not_supported);
  if (answer != nullptr) *answer = CU_GET_PROC_ADDRESS_SUCCESS;
  return CUDA_SUCCESS;
}

const CudaDriver& driver() {
  static const CudaDriver loaded = CudaDriver::load_with(&get_proc_address).value();
  return loaded;
}

void configure(const Config& config) {
  const std::lock_guard lock(state().mutex);
  state().config = config;
  state().sticky = CUDA_SUCCESS;
}

std::vector<std::string> take_violations() {
  const std::lock_guard lock(state().mutex);
  return std::exchange(state().violations, {});
}

int64_t calls(const char* function) {
  const std::lock_guard lock(state().mutex);
  const auto found = state().calls.find(std::string_view(function));
  return found != state().calls.end() ? found->second : 0;
}

void fail_at(int64_t nth, CUresult result) {
  const std::lock_guard lock(state().mutex);
  state().calls_until_failure = nth;
  state().next_failure = result;
  state().failed_call.clear();
}

std::string failed_call() {
  const std::lock_guard lock(state().mutex);
  return state().failed_call;
}

std::vector<CUctxCigParam> graphics_contexts() {
  const std::lock_guard lock(state().mutex);
  std::vector<CUctxCigParam> all;
  for (const auto& [context, graphics] : state().graphics) all.push_back(graphics);
  return all;
}

int64_t live_graphs() {
  const std::lock_guard lock(state().mutex);
  return state().graphs;
}

void fail(const char* function, int nth, CUresult result) {
  const std::lock_guard lock(state().mutex);
  state().failures[function] = {state().calls[function] + nth, result};
}

}  // namespace tenon::cuda::fake
