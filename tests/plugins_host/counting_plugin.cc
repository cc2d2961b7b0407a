// A plugin around another one: TENON_COUNTED_PLUGIN names the other's library, which gets the host's function tables
// with a counter in front of each function of OrtApi and OrtEpApi. ReleaseEpFactory appends a line to the file that
// TENON_COUNTED_CALLS names: {"CreateStatus": 3, ...}, the calls since the library was loaded. Functions of Tenon's
// EpHostApi are counted too; with TENON_COUNTED_STANDARD the plugin does not find them, as in a stock host.
//
// Hosts of the header's API version only: of an older one it is not known how long its tables are.
#include <dlfcn.h>
#include <tenon/onnxruntime_c_api.h>

#include "ep/api/ep_host_api.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <type_traits>
#include <utility>

namespace {

enum Slot {
#define TENON_SLOT(table, name) k_##table##_##name,
#include "../abi/all_slots.inc"
#undef TENON_SLOT
  k_tensors,
  k_fences,
  kSlots
};

constexpr const char* kNames[] = {
#define TENON_SLOT(table, name) #name,
#include "../abi/all_slots.inc"
#undef TENON_SLOT
    "KernelContext_GetTensors",
    "RunOptions_GetFences",
};

std::atomic<uint64_t> counts[kSlots];

// The host's tables, and those that the plugin gets.
template <typename Table>
struct Tables {
  static inline Table host;
  static inline Table counted;
};
OrtApiBase counted_base;

template <Slot slot, auto Member>
struct Counted;
template <Slot slot, typename Table, typename R, typename... A, R (*Table::*Member)(A...) noexcept>
struct Counted<slot, Member> {
  static R call(A... arguments) noexcept {
    counts[slot].fetch_add(1, std::memory_order_relaxed);
    return (Tables<Table>::host.*Member)(arguments...);
  }
};

// A slot of another table than Table is left alone.
template <typename Table, Slot slot, auto Member, typename Owner>
void count_slot() {
  if constexpr (std::is_same_v<Table, Owner>)
    if (Tables<Table>::host.*Member != nullptr) Tables<Table>::counted.*Member = &Counted<slot, Member>::call;
}

template <typename Table>
void count(const Table& host) {
  Tables<Table>::host = Tables<Table>::counted = host;
#define TENON_SLOT(table, name) count_slot<Table, k_##table##_##name, &table::name, table>();
#include "../abi/all_slots.inc"
#undef TENON_SLOT
}

const tenon::EpHostApi* counted_ep_host_api(uint32_t version) noexcept {
  using tenon::EpHostApi;
  const auto get =
      reinterpret_cast<tenon::GetEpHostApiFn>(Tables<OrtApi>::host.GetExperimentalFunction(tenon::kGetEpHostApi));
  const EpHostApi* api = get(version);
  if (api == nullptr) return nullptr;
  Tables<EpHostApi>::host = Tables<EpHostApi>::counted = *api;
  count_slot<EpHostApi, k_tensors, &EpHostApi::KernelContext_GetTensors, EpHostApi>();
  count_slot<EpHostApi, k_fences, &EpHostApi::RunOptions_GetFences, EpHostApi>();
  return &Tables<EpHostApi>::counted;
}

OrtExperimentalFnPtr experimental_function(const char* name) noexcept {
  const OrtExperimentalFnPtr found = Tables<OrtApi>::host.GetExperimentalFunction(name);
  if (found == nullptr || std::string_view(name) != tenon::kGetEpHostApi) return found;
  if (std::getenv("TENON_COUNTED_STANDARD") != nullptr) return nullptr;
  return reinterpret_cast<OrtExperimentalFnPtr>(&counted_ep_host_api);
}

void* counted_library() {
  static void* const library = [] {
    const char* path = std::getenv("TENON_COUNTED_PLUGIN");
    return path != nullptr ? ::dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  }();
  return library;
}

template <typename Function>
Function symbol(const char* name) {
  void* const library = counted_library();
  return library != nullptr ? reinterpret_cast<Function>(::dlsym(library, name)) : nullptr;
}

void write_counts(const char* path) {
  std::FILE* file = std::fopen(path, "a");
  if (file == nullptr) return;
  const char* before = "{";
  for (int slot = 0; slot < kSlots; ++slot) {
    if (const uint64_t count = counts[slot]; count != 0)
      std::fprintf(file, "%s\"%s\": %llu", std::exchange(before, ", "), kNames[slot],
                   static_cast<unsigned long long>(count));
  }
  std::fputs(*before == '{' ? "{}\n" : "}\n", file);
  std::fclose(file);
}

}  // namespace

extern "C" {

ORT_EXPORT OrtStatus* CreateEpFactories(const char* name, const OrtApiBase* base, const OrtLogger* logger,
                                        OrtEpFactory** factories, size_t room, size_t* count_out) {
  using Create = OrtStatus* (*)(const char*, const OrtApiBase*, const OrtLogger*, OrtEpFactory**, size_t, size_t*);
  *count_out = 0;
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  if (api == nullptr) return base->GetApi(1)->CreateStatus(ORT_NOT_IMPLEMENTED, "The host is older than the header.");
  const auto create = symbol<Create>("CreateEpFactories");
  if (create == nullptr) return api->CreateStatus(ORT_FAIL, "TENON_COUNTED_PLUGIN names no plugin.");
  count(*api->GetEpApi());
  count(*api);
  Tables<OrtApi>::counted.GetEpApi = []() noexcept -> const OrtEpApi* { return &Tables<OrtEpApi>::counted; };
  Tables<OrtApi>::counted.GetExperimentalFunction = &experimental_function;
  counted_base = *base;
  counted_base.GetApi = [](uint32_t version) noexcept -> const OrtApi* {
    return version <= ORT_API_VERSION ? &Tables<OrtApi>::counted : nullptr;
  };
  return create(name, &counted_base, logger, factories, room, count_out);
}

ORT_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  OrtStatus* status = symbol<OrtStatus* (*)(OrtEpFactory*)>("ReleaseEpFactory")(factory);
  if (const char* path = std::getenv("TENON_COUNTED_CALLS"); path != nullptr) write_counts(path);
  return status;
}
}
