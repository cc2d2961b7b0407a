#include "ep/cuda/driver/nccl.h"

#include "ep/cuda/driver/shared_library.h"

namespace tenon::cuda {

namespace {

Result<Nccl> load() {
  TENON_TRY_ASSIGN(const SharedLibrary library, SharedLibrary::open(LibraryKind::kNccl));
  Nccl table;
  // First: an old library lacks other functions, and then its version is what to say.
  TENON_TRY(library.find("ncclGetVersion", &table.GetVersion));
  constexpr int kOldest = 21400;
  int version = 0;
  (void)table.GetVersion(&version);
  TENON_UNSUPPORTED_IF(version < kOldest, "{} is version {}.{}.{}; 2.14 is the oldest that is used.", library.name(),
                       version / 10000, version % 10000 / 100, version % 100);
#define TENON_NCCL_LOAD_(name, parameters) TENON_TRY(library.find("nccl" #name, &table.name));
  TENON_NCCL_FUNCTIONS(TENON_NCCL_LOAD_)
#undef TENON_NCCL_LOAD_
  TENON_TRY(library.find("ncclGetLastError", &table.GetLastError));
  return table;
}

const char* result_name(NcclResult result) {
  static constexpr const char* kNames[] = {"no error",         "CUDA error",    "system error", "internal error",
                                           "invalid argument", "invalid usage", "remote error", "in progress"};
  const auto index = static_cast<size_t>(result);
  return index < std::size(kNames) ? kNames[index] : "unknown result";
}

}  // namespace

Result<const Nccl*> nccl() {
  static const Result<Nccl> table = load();
  if (!table.ok()) return table.status();
  return &*table;
}

Status nccl_error(const Nccl& library, NcclResult result, const char* call) {
  const char* const last = library.GetLastError(nullptr);
  return device_error("{}: {} ({}){}{}", call, result_name(result), static_cast<int>(result),
                      last != nullptr && *last != '\0' ? ", " : ".", last != nullptr ? last : "");
}

}  // namespace tenon::cuda
