#include "ep/cuda/driver/nccl.h"

#include <iterator>

#include "base/env.h"
#include "base/system.h"
#include "ep/cuda/driver/shared_library.h"

namespace tenon::cuda {

namespace {

// NCCL has no other way to be told, and looks when the first communicator is made.
void set_unless_set(const char* name, const char* value) {
  if (launcher_value(name).empty()) set_environment_variable(name, value);
}

Result<Nccl> load() {
  TENON_TRY_ASSIGN(const SharedLibrary library, SharedLibrary::open(LibraryKind::kNccl));
  // Of ranks in one process NCCL would read the others' tensors where they lie, but another device has no access to the
  // memory of a pool.
  set_unless_set("NCCL_P2P_DIRECT_DISABLE", "1");
  // Registering the tensors of a captured operation takes all ranks, and a rank captures when its own bindings change.
  set_unless_set("NCCL_GRAPH_REGISTER", "0");
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
