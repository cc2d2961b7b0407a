// A plugin around another one that sets one function pointer of the other's structs to null, for the table of members
// in docs/reference/plugin-members.md.
//
// TENON_MEMBER_PLUGIN: the other's library. TENON_NULL_MEMBER: "OrtEp:64", the struct and the member's offset in bytes;
// without it nothing changes. TENON_MEMBER_FOUND: a file that gets a line for each such struct: "set" or "null", as
// the other one has the member.
#include <dlfcn.h>
#include <tenon/onnxruntime_c_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <tuple>

#include "ep/api/abi_since.h"

namespace {

void spoil(std::string_view kind, void* object) {
  const char* wanted = std::getenv("TENON_NULL_MEMBER");
  if (wanted == nullptr || object == nullptr) return;
  const char* colon = std::strchr(wanted, ':');
  if (colon == nullptr || kind != std::string_view(wanted, static_cast<size_t>(colon - wanted))) return;
  void** member = reinterpret_cast<void**>(static_cast<char*>(object) + std::atoi(colon + 1));
  if (const char* path = std::getenv("TENON_MEMBER_FOUND")) {
    if (std::FILE* file = std::fopen(path, "a")) {
      std::fputs(*member == nullptr ? "null\n" : "set\n", file);
      std::fclose(file);
    }
  }
  *member = nullptr;
}

// Hooked<&OrtEpFactory::CreateEp>::into(factory, prepare): CreateEp of the factory then hands its result, the last
// argument, to prepare.
template <auto Member>
struct Hooked;
template <typename Table, typename... A, OrtStatus* (*Table::*Member)(Table*, A...)>
struct Hooked<Member> {
  static inline OrtStatus* (*before)(Table*, A...) = nullptr;
  static inline void (*prepare)(void* result) = nullptr;

  static OrtStatus* call(Table* self, A... arguments) noexcept {
    OrtStatus* status = before(self, arguments...);
    const auto out = std::get<sizeof...(A) - 1>(std::tie(arguments...));
    if (status == nullptr && *out != nullptr) prepare(*out);
    return status;
  }
  static void into(Table* table, void (*with)(void*)) {
    if (table->*Member == nullptr || table->*Member == &call) return;
    before = table->*Member;
    prepare = with;
    table->*Member = &call;
  }
};

void prepare_notification(void* made) { spoil("OrtSyncNotificationImpl", made); }
void prepare_stream(void* made) {
  Hooked<&OrtSyncStreamImpl::CreateNotification>::into(static_cast<OrtSyncStreamImpl*>(made), &prepare_notification);
  spoil("OrtSyncStreamImpl", made);
}
void prepare_allocator(void* made) { spoil("OrtAllocator", made); }
void prepare_transfer(void* made) { spoil("OrtDataTransferImpl", made); }
void prepare_profiler(void* made) { spoil("OrtEpProfilerImpl", made); }
void prepare_importer(void* made) {
  auto* importer = static_cast<OrtExternalResourceImporterImpl*>(made);
  Hooked<&OrtExternalResourceImporterImpl::ImportMemory>::into(
      importer, [](void* memory) { spoil("OrtExternalMemoryHandle", memory); });
  Hooked<&OrtExternalResourceImporterImpl::ImportSemaphore>::into(
      importer, [](void* semaphore) { spoil("OrtExternalSemaphoreHandle", semaphore); });
  spoil("OrtExternalResourceImporterImpl", made);
}

OrtStatus* (*compile_before)(OrtEp*, const OrtGraph**, const OrtNode**, size_t, OrtNodeComputeInfo**,
                             OrtNode**) = nullptr;
OrtStatus* compile(OrtEp* ep, const OrtGraph** graphs, const OrtNode** nodes, size_t count, OrtNodeComputeInfo** infos,
                   OrtNode** context_nodes) noexcept {
  OrtStatus* status = compile_before(ep, graphs, nodes, count, infos, context_nodes);
  for (size_t i = 0; status == nullptr && i < count; ++i) spoil("OrtNodeComputeInfo", infos[i]);
  return status;
}

void prepare_ep(void* made) {
  auto* ep = static_cast<OrtEp*>(made);
  if (ep->Compile != nullptr && ep->Compile != &compile) {
    compile_before = ep->Compile;
    ep->Compile = &compile;
  }
  Hooked<&OrtEp::CreateAllocator>::into(ep, &prepare_allocator);
  Hooked<&OrtEp::CreateSyncStreamForDevice>::into(ep, &prepare_stream);
  if (ep->ort_version_supported >= tenon::abi_since::kOrtEp_CreateProfiler)
    Hooked<&OrtEp::CreateProfiler>::into(ep, &prepare_profiler);
  spoil("OrtEp", made);
}

void prepare_factory(OrtEpFactory* factory) {
  Hooked<&OrtEpFactory::CreateEp>::into(factory, &prepare_ep);
  Hooked<&OrtEpFactory::CreateAllocator>::into(factory, &prepare_allocator);
  Hooked<&OrtEpFactory::CreateDataTransfer>::into(factory, &prepare_transfer);
  Hooked<&OrtEpFactory::CreateSyncStreamForDevice>::into(factory, &prepare_stream);
  Hooked<&OrtEpFactory::CreateExternalResourceImporterForDevice>::into(factory, &prepare_importer);
  spoil("OrtEpFactory", factory);
}

// Kernels come through the host's registry, so the plugin gets copies of the host's tables.
const OrtApiBase* host_base = nullptr;
OrtApiBase base_copy;
OrtApi api_copy;
OrtEpApi ep_api_copy;

struct Creator {
  OrtKernelCreateFunc create;
  void* state;
};
OrtStatus* create_kernel(void* state, const OrtKernelInfo* info, OrtKernelImpl** out) noexcept {
  const auto* creator = static_cast<const Creator*>(state);
  OrtStatus* status = creator->create(creator->state, info, out);
  if (status == nullptr) spoil("OrtKernelImpl", *out);
  return status;
}

template <typename Table, size_t kLengths>
void copy(Table& to, const Table* from, uint32_t version, const tenon::abi_since::TableLength (&lengths)[kLengths]) {
  size_t functions = 0;
  for (const auto& length : lengths)
    if (length.since <= version) functions = length.functions;
  std::memcpy(static_cast<void*>(&to), from, std::min(functions * sizeof(void*), sizeof(Table)));
}

const OrtApiBase* with_kernels(const OrtApiBase* base) {
  host_base = base;
  const uint32_t version = std::min<uint32_t>(
      static_cast<uint32_t>(std::atoi(std::strchr(base->GetVersionString(), '.') + 1)), ORT_API_VERSION);
  const OrtApi* api = base->GetApi(version);
  copy(api_copy, api, version, tenon::abi_since::kOrtApi_lengths);
  copy(ep_api_copy, api->GetEpApi(), version, tenon::abi_since::kOrtEpApi_lengths);
  static const OrtEpApi host_ep_api = ep_api_copy;
  ep_api_copy.KernelRegistry_AddKernel = [](OrtKernelRegistry* registry, const OrtKernelDef* definition,
                                            OrtKernelCreateFunc create, void* state) noexcept -> OrtStatus* {
    // Lives as long as the process, as the registry may.
    return host_ep_api.KernelRegistry_AddKernel(registry, definition, &create_kernel, new Creator{create, state});
  };
  api_copy.GetEpApi = []() noexcept -> const OrtEpApi* { return &ep_api_copy; };
  base_copy = *base;
  base_copy.GetApi = [](uint32_t asked) noexcept -> const OrtApi* {
    return host_base->GetApi(asked) != nullptr ? &api_copy : nullptr;
  };
  return &base_copy;
}

template <typename Function>
Function symbol(const char* name) {
  static void* const library = ::dlopen(std::getenv("TENON_MEMBER_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function>(::dlsym(library, name));
}

}  // namespace

extern "C" {

ORT_EXPORT OrtStatus* CreateEpFactories(const char* name, const OrtApiBase* base, const OrtLogger* logger,
                                        OrtEpFactory** factories, size_t room, size_t* count) {
  using Create = OrtStatus* (*)(const char*, const OrtApiBase*, const OrtLogger*, OrtEpFactory**, size_t, size_t*);
  OrtStatus* status = symbol<Create>("CreateEpFactories")(name, with_kernels(base), logger, factories, room, count);
  for (size_t i = 0; status == nullptr && i < *count; ++i) prepare_factory(factories[i]);
  return status;
}

ORT_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  return symbol<OrtStatus* (*)(OrtEpFactory*)>("ReleaseEpFactory")(factory);
}
}
