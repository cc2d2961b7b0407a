#include "ep/cuda/driver/cuda_driver.h"

#include <atomic>

#include "ep/cuda/driver/device_lost.h"
#include "ep/cuda/driver/shared_library.h"

namespace tenon::cuda {

namespace {

std::atomic<bool> loss_seen{false};

// Machine code of a toolkit's major version runs on drivers of that version and newer.
constexpr int kOldestDriver = CUDA_VERSION / 1000 * 1000;

template <typename Function>
bool look_up(PFN_cuGetProcAddress_v12000 lookup, const char* name, int version, Function* out) {
  void* found = nullptr;
  CUdriverProcAddressQueryResult answer{};
  const CUresult result = lookup(name, &found, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &answer);
  *out = reinterpret_cast<Function>(result == CUDA_SUCCESS ? found : nullptr);
  return *out != nullptr;
}

Result<CudaDriver> load() {
  Result<SharedLibrary> library = SharedLibrary::open(LibraryKind::kDriver);
  if (!library.ok()) return not_found("There is no CUDA driver on this machine: {}", library.status().message());
  auto lookup = reinterpret_cast<PFN_cuGetProcAddress_v12000>(library->symbol("cuGetProcAddress_v2"));
  if (lookup == nullptr)
    return unsupported("The CUDA driver is older than version 12.0; this plugin needs {}.{} or newer.",
                       kOldestDriver / 1000, kOldestDriver % 1000 / 10);
  return CudaDriver::load_with(lookup);
}

}  // namespace

Result<CudaDriver> CudaDriver::load_with(PFN_cuGetProcAddress_v12000 lookup) {
  CudaDriver driver;
  // First, because an old driver has other gaps too, and its age is the reason for all of them.
  if (look_up(lookup, "cuDriverGetVersion", 2020, &driver.DriverGetVersion))
    (void)driver.DriverGetVersion(&driver.version);
  TENON_UNSUPPORTED_IF(
      driver.version < kOldestDriver, "The CUDA driver is for version {}.{}; this plugin needs one for {}.{} or newer.",
      driver.version / 1000, driver.version % 1000 / 10, kOldestDriver / 1000, kOldestDriver % 1000 / 10);
#define TENON_CUDA_LOAD_(name, number)                                                                        \
  if (!look_up(lookup, "cu" #name, number, &driver.name))                                                     \
    return unsupported("The CUDA driver (version {}.{}) has no function cu" #name ".", driver.version / 1000, \
                       driver.version % 1000 / 10);
  TENON_CUDA_REQUIRED(TENON_CUDA_LOAD_)
#undef TENON_CUDA_LOAD_
#define TENON_CUDA_LOAD_(name, number) (void)look_up(lookup, "cu" #name, number, &driver.name);
  TENON_CUDA_OPTIONAL(TENON_CUDA_LOAD_)
#undef TENON_CUDA_LOAD_
  TENON_CUDA_TRY(driver, Init, 0);
  return driver;
}

Result<const CudaDriver*> cuda_driver() {
  static const Result<CudaDriver> driver = load();
  if (!driver.ok()) return driver.status();
  return &*driver;
}

Status cuda_error(const CudaDriver& driver, CUresult result, const char* call) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.GetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) name = "unknown error";
  if (driver.GetErrorString(result, &text) != CUDA_SUCCESS || text == nullptr) text = "no description";
  StatusCode code = StatusCode::kDeviceError;
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      code = StatusCode::kResourceExhausted;
      break;
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
      code = StatusCode::kUnsupported;
      break;
    case CUDA_ERROR_NO_DEVICE:
      code = StatusCode::kNotFound;
      break;
    // After one of these no call of the context succeeds any more.
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_DEINITIALIZED:
      code = StatusCode::kDeviceLost;
      break;
    default:
      break;
  }
  if (code == StatusCode::kDeviceLost) loss_seen = true;
  return make_status(code, "{}: {} ({}), {}.", call, name, static_cast<int>(result), text);
}

bool device_loss_seen() { return loss_seen; }

Status check_device(const CudaDevice& device) {
  if (!device_loss_seen()) return Status();
  TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(device));
  // The null stream's: any call of a lost context has the same answer.
  const CUresult result = device.driver().StreamQuery(nullptr);
  if (result == CUDA_ERROR_NOT_READY) return Status();
  return cuda_status(device.driver(), result, "cuStreamQuery")
      .with_context(format("while CUDA device {} is lost, which only a new process can use again", device.ordinal()));
}

Status import_status(const CudaDriver& driver, CUresult result, const char* call) {
  Status status = cuda_status(driver, result, call);
  switch (result) {
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_MAP_FAILED:
    case CUDA_ERROR_OPERATING_SYSTEM:
    case CUDA_ERROR_UNKNOWN:
      return invalid_argument("native_handle is nothing that the driver can import with this size: {}",
                              status.message());
    default:
      return status;
  }
}

}  // namespace tenon::cuda
