#include "ep/cuda/driver/cublaslt.h"

#include "ep/cuda/driver/shared_library.h"

namespace tenon::cuda {

namespace {

Result<CublasLt> load_cublaslt() {
  TENON_TRY_ASSIGN(const SharedLibrary library, SharedLibrary::open(LibraryKind::kCublasLt));
  CublasLt table;
#define TENON_CUBLASLT_LOAD_(name) TENON_TRY(library.find("cublasLt" #name, &table.name));
  TENON_CUBLASLT_FUNCTIONS(TENON_CUBLASLT_LOAD_)
#undef TENON_CUBLASLT_LOAD_
  return table;
}

const char* status_name(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "unknown status";
  }
}

}  // namespace

Result<const CublasLt*> cublaslt() {
  static const Result<CublasLt> table = load_cublaslt();
  if (!table.ok()) return table.status();
  return &*table;
}

Status cublas_error(cublasStatus_t result, const char* call) {
  const StatusCode code = result == CUBLAS_STATUS_ALLOC_FAILED    ? StatusCode::kResourceExhausted
                          : result == CUBLAS_STATUS_NOT_SUPPORTED ? StatusCode::kUnsupported
                                                                  : StatusCode::kDeviceError;
  return make_status(code, "{}: {} ({}).", call, status_name(result), static_cast<int>(result));
}

}  // namespace tenon::cuda
