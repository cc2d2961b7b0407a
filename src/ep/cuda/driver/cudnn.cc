#include "ep/cuda/driver/cudnn.h"

#include "ep/cuda/driver/shared_library.h"

// What cudnn_frontend takes its symbols from in dynamic-loading mode.
namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

namespace tenon::cuda {

namespace {

Result<Cudnn> load() {
  TENON_TRY_ASSIGN(const SharedLibrary library, SharedLibrary::open(LibraryKind::kCudnn));
  Cudnn table;
#define TENON_CUDNN_LOAD_(name) TENON_TRY(library.find("cudnn" #name, &table.name));
  TENON_CUDNN_FUNCTIONS(TENON_CUDNN_LOAD_)
#undef TENON_CUDNN_LOAD_
  table.version = table.GetVersion();
  cudnn_frontend::cudnn_dlhandle = library.native();
  return table;
}

}  // namespace

Result<const Cudnn*> cudnn() {
  static const Result<Cudnn> table = load();
  if (!table.ok()) return table.status();
  return &*table;
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
