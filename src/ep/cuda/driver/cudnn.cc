#include "ep/cuda/driver/cudnn.h"

#include "ep/cuda/driver/shared_library.h"

namespace tenon::cuda {

namespace {

Result<Cudnn> load() {
  TENON_TRY_ASSIGN(const SharedLibrary library, SharedLibrary::open(LibraryKind::kCudnn));
  Cudnn table;
  // First: an old library may lack other functions, and then its version is what to say.
  TENON_TRY(library.find("cudnnGetVersion", &table.GetVersion));
  table.version = table.GetVersion();
  TENON_TRY(check_cudnn_version(table.version));
#define TENON_CUDNN_LOAD_(name) TENON_TRY(library.find("cudnn" #name, &table.name));
  TENON_CUDNN_FUNCTIONS(TENON_CUDNN_LOAD_)
#undef TENON_CUDNN_LOAD_
  return table;
}

}  // namespace

Result<const Cudnn*> cudnn() {
  static const Result<Cudnn> table = load();
  if (!table.ok()) return table.status();
  return &*table;
}

Status check_cudnn_version(size_t version) {
  const size_t major = version < 10000 ? 1000 : 10000;  // before version 9 the numbers had a digit less
  TENON_UNSUPPORTED_IF(version < kOldestCudnn, "cuDNN is version {}.{}.{}; 9.19 is the oldest that is used.",
                       version / major, version % major / 100, version % 100);
  return Status();
}

Status cudnn_error(const Cudnn& library, cudnnStatus_t result, const char* call) {
  const bool exhausted = result == CUDNN_STATUS_ALLOC_FAILED;
  const bool unsupported = static_cast<int>(result) / 1000 == 3;  // the 3000s say what is not supported
  return make_status(exhausted     ? StatusCode::kResourceExhausted
                     : unsupported ? StatusCode::kUnsupported
                                   : StatusCode::kDeviceError,
                     "{}: {} ({}).", call, library.GetErrorString(result), static_cast<int>(result));
}

}  // namespace tenon::cuda
