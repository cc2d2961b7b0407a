// The library between a host and a plugin: watch_api.h. Statuses, EP devices and tensors over a plugin's memory are
// not counted: a plugin makes them for the host, which releases them.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "conformance/watch/watch_api.h"
#include "src/ep/api/abi_since.h"

namespace {

template <typename T>
const char* kind_name();
#define TENON_KIND(Kind)          \
  template <>                     \
  const char* kind_name<Kind>() { \
    return #Kind;                 \
  }

// Functions that make an object which the plugin has to release. The last argument of type Kind** is where it goes.
#define TENON_MAKERS(X)                           \
  X(OrtApi, CreateSession)                        \
  X(OrtApi, CreateSessionFromArray)               \
  X(OrtApi, CreateSessionOptions)                 \
  X(OrtApi, CloneSessionOptions)                  \
  X(OrtApi, CreateRunOptions)                     \
  X(OrtApi, CreateCustomOpDomain)                 \
  X(OrtApi, SessionGetInputTypeInfo)              \
  X(OrtApi, SessionGetOutputTypeInfo)             \
  X(OrtApi, GetTypeInfo)                          \
  X(OrtApi, GetMapValueType)                      \
  X(OrtApi, GetSequenceElementType)               \
  X(OrtApi, KernelInfo_GetInputTypeInfo)          \
  X(OrtApi, KernelInfo_GetOutputTypeInfo)         \
  X(OrtApi, CreateTensorTypeAndShapeInfo)         \
  X(OrtApi, GetTensorTypeAndShape)                \
  X(OrtApi, GetSparseTensorValuesTypeAndShape)    \
  X(OrtApi, GetSparseTensorIndicesTypeShape)      \
  X(OrtApi, CreateMemoryInfo)                     \
  X(OrtApi, CreateCpuMemoryInfo)                  \
  X(OrtApi, CreateMemoryInfo_V2)                  \
  X(OrtApi, CreateValue)                          \
  X(OrtApi, GetValue)                             \
  X(OrtApi, KernelInfoGetAttribute_tensor)        \
  X(OrtApi, OpAttr_GetTensorAttributeAsOrtValue)  \
  X(OrtApi, SessionGetModelMetadata)              \
  X(OrtApi, Graph_GetModelMetadata)               \
  X(OrtApi, CreateAllocator)                      \
  X(OrtApi, KernelInfoGetAllocator)               \
  X(OrtApi, KernelContext_GetAllocator)           \
  X(OrtApi, CreateOpAttr)                         \
  X(OrtApi, CreateOp)                             \
  X(OrtApi, CopyKernelInfo)                       \
  X(OrtApi, CreateKeyValuePairs)                  \
  X(OrtApi, AllocatorGetStats)                    \
  X(OrtApi, GetSessionOptionsConfigEntries)       \
  X(OrtApi, KernelInfo_GetConfigEntries)          \
  X(OrtApi, ValueInfo_GetExternalInitializerInfo) \
  X(OrtApi, CreateExternalInitializerInfo)        \
  X(OrtApi, Graph_GetGraphView)                   \
  X(OrtApi, CreateSyncStreamForEpDevice)          \
  X(OrtEpApi, CreateHardwareDevice)               \
  X(OrtEpApi, CreateKernelRegistry)               \
  X(OrtEpApi, CreateKernelDefBuilder)             \
  X(OrtEpApi, KernelDefBuilder_Build)             \
  X(OrtEpApi, GetEnvConfigEntries)                \
  X(OrtEpApi, GetOpSchema)                        \
  X(OrtEpApi, CreateProfilingEvent)               \
  X(OrtEpApi, SessionOptionsGetEpContextConfig)

#define TENON_RELEASERS(X)                                              \
  X(OrtApi, ReleaseSession, OrtSession)                                 \
  X(OrtApi, ReleaseSessionOptions, OrtSessionOptions)                   \
  X(OrtApi, ReleaseRunOptions, OrtRunOptions)                           \
  X(OrtApi, ReleaseCustomOpDomain, OrtCustomOpDomain)                   \
  X(OrtApi, ReleaseTypeInfo, OrtTypeInfo)                               \
  X(OrtApi, ReleaseTensorTypeAndShapeInfo, OrtTensorTypeAndShapeInfo)   \
  X(OrtApi, ReleaseMemoryInfo, OrtMemoryInfo)                           \
  X(OrtApi, ReleaseValue, OrtValue)                                     \
  X(OrtApi, ReleaseModelMetadata, OrtModelMetadata)                     \
  X(OrtApi, ReleaseAllocator, OrtAllocator)                             \
  X(OrtApi, ReleaseOpAttr, OrtOpAttr)                                   \
  X(OrtApi, ReleaseOp, OrtOp)                                           \
  X(OrtApi, ReleaseKernelInfo, OrtKernelInfo)                           \
  X(OrtApi, ReleaseKeyValuePairs, OrtKeyValuePairs)                     \
  X(OrtApi, ReleaseExternalInitializerInfo, OrtExternalInitializerInfo) \
  X(OrtApi, ReleaseGraph, OrtGraph)                                     \
  X(OrtApi, ReleaseSyncStream, OrtSyncStream)                           \
  X(OrtEpApi, ReleaseHardwareDevice, OrtHardwareDevice)                 \
  X(OrtEpApi, ReleaseKernelRegistry, OrtKernelRegistry)                 \
  X(OrtEpApi, ReleaseKernelDefBuilder, OrtKernelDefBuilder)             \
  X(OrtEpApi, ReleaseKernelDef, OrtKernelDef)                           \
  X(OrtEpApi, ReleaseOpSchema, OrtOpSchema)                             \
  X(OrtEpApi, ReleaseProfilingEvent, OrtProfilingEvent)                 \
  X(OrtEpApi, ReleaseEpContextConfig, OrtEpContextConfig)

#define TENON_KIND_OF(table, name, Kind) TENON_KIND(Kind)
TENON_RELEASERS(TENON_KIND_OF)
#undef TENON_KIND_OF

struct Object {
  const char* kind;
  const char* made_by;
};

struct State {
  std::mutex mutex;
  std::map<const void*, Object> live;
  std::vector<OrtEpFactory*> factories;
  TenonCreateEpFactoriesFn create = nullptr;
  TenonReleaseEpFactoryFn release = nullptr;
};
// Never destroyed: a plugin may release objects when the process ends.
State& state() {
  static auto* const made = new State();
  return *made;
}

void add(const void* object, const char* kind, const char* made_by) {
  if (object == nullptr) return;
  const std::lock_guard lock(state().mutex);
  state().live[object] = {kind, made_by};
}

void remove(const void* object) {
  const std::lock_guard lock(state().mutex);
  state().live.erase(object);
}

// The host's tables, and those that the plugin gets.
template <typename Table>
struct Tables {
  static inline Table host;
  static inline Table watched;
};

// Out parameters have been set when the call returns. A const object is the host's.
template <typename T>
void add_made(T** out, const char* made_by) {
  if (out != nullptr) add(*out, kind_name<T>(), made_by);
}
template <typename... A>
void add_last(const char* made_by, A... arguments) {
  add_made(std::get<sizeof...(A) - 1>(std::tie(arguments...)), made_by);
}

template <auto Member, const char* kName>
struct Maker;
template <typename Table, typename... A, OrtStatus* (*Table::*Member)(A...) noexcept, const char* kName>
struct Maker<Member, kName> {
  static OrtStatus* call(A... arguments) noexcept {
    OrtStatus* status = (Tables<Table>::host.*Member)(arguments...);
    if (status == nullptr) add_last(kName, arguments...);
    return status;
  }
};
template <typename Table, typename... A, void (*Table::*Member)(A...) noexcept, const char* kName>
struct Maker<Member, kName> {
  static void call(A... arguments) noexcept {
    (Tables<Table>::host.*Member)(arguments...);
    add_last(kName, arguments...);
  }
};

template <auto Member>
struct Releaser;
template <typename Table, typename T, void (*Table::*Member)(T*) noexcept>
struct Releaser<Member> {
  static void call(T* object) noexcept {
    remove(object);
    (Tables<Table>::host.*Member)(object);
  }
};

// The node takes the attributes over.
OrtStatus* create_node(const char* type, const char* domain, const char* name, const char* const* inputs,
                       size_t input_count, const char* const* outputs, size_t output_count, OrtOpAttr** attributes,
                       size_t attribute_count, OrtNode** node) noexcept {
  // Hosts also set the array's pointers to null.
  const std::vector<const void*> taken(attributes, attributes + (attributes != nullptr ? attribute_count : 0));
  OrtStatus* status = Tables<OrtModelEditorApi>::host.CreateNode(type, domain, name, inputs, input_count, outputs,
                                                                 output_count, attributes, attribute_count, node);
  if (status == nullptr) std::for_each(taken.begin(), taken.end(), &remove);
  return status;
}

template <typename Table, typename Owner, typename F>
void replace(F Owner::* member, F with) {
  if constexpr (std::is_same_v<Table, Owner>)
    if (Tables<Table>::watched.*member != nullptr) Tables<Table>::watched.*member = with;
}

#define TENON_NAME(table, name) constexpr char k_##table##_##name[] = #name;
TENON_MAKERS(TENON_NAME)
#undef TENON_NAME

// Copies as much of a table as a host of this version has.
template <typename Table, size_t kLengths>
void watch_table(const Table* host, uint32_t version, const tenon::abi_since::TableLength (&lengths)[kLengths]) {
  if (host == nullptr) return;
  size_t functions = 0;
  for (const auto& length : lengths)
    if (length.since <= version) functions = length.functions;
  std::memcpy(static_cast<void*>(&Tables<Table>::host), host, std::min(functions * sizeof(void*), sizeof(Table)));
  Tables<Table>::watched = Tables<Table>::host;
#define TENON_MAKER(table, name) replace<Table>(&table::name, &Maker<&table::name, k_##table##_##name>::call);
  TENON_MAKERS(TENON_MAKER)
#undef TENON_MAKER
#define TENON_RELEASER(table, name, Kind) replace<Table>(&table::name, &Releaser<&table::name>::call);
  TENON_RELEASERS(TENON_RELEASER)
#undef TENON_RELEASER
}

const OrtApiBase* host_base = nullptr;

const OrtApiBase* watch_host(const OrtApiBase* base) {
  host_base = base;
  // "1.31.1": asking for a version that the host does not have makes it write to stderr.
  const char* dot = std::strchr(base->GetVersionString(), '.');
  const uint32_t version =
      std::min<uint32_t>(dot != nullptr ? static_cast<uint32_t>(std::atoi(dot + 1)) : 0, ORT_API_VERSION);
  const OrtApi* api = base->GetApi(version);
  if (api == nullptr) return base;
  watch_table(api, version, tenon::abi_since::kOrtApi_lengths);
  watch_table(api->GetEpApi(), version, tenon::abi_since::kOrtEpApi_lengths);
  watch_table(api->GetModelEditorApi(), version, tenon::abi_since::kOrtModelEditorApi_lengths);
  replace<OrtModelEditorApi>(&OrtModelEditorApi::CreateNode, &create_node);
  Tables<OrtApi>::watched.GetEpApi = []() noexcept -> const OrtEpApi* { return &Tables<OrtEpApi>::watched; };
  Tables<OrtApi>::watched.GetModelEditorApi = []() noexcept -> const OrtModelEditorApi* {
    return host_base != nullptr ? &Tables<OrtModelEditorApi>::watched : nullptr;
  };
  static OrtApiBase watched;
  watched = *base;
  watched.GetApi = [](uint32_t asked) noexcept -> const OrtApi* {
    return host_base->GetApi(asked) != nullptr ? &Tables<OrtApi>::watched : nullptr;
  };
  return &watched;
}

const TenonWatchApi kApi = {
    .set_plugin =
        [](TenonCreateEpFactoriesFn create, TenonReleaseEpFactoryFn release) {
          state().create = create;
          state().release = release;
        },
    .factories =
        [](OrtEpFactory** out, size_t room) {
          const std::lock_guard lock(state().mutex);
          const size_t count = std::min(room, state().factories.size());
          std::copy_n(state().factories.begin(), count, out);
          return count;
        },
    .visit_live =
        [](void (*visit)(void*, const char*, const char*, size_t), void* user) {
          std::map<std::pair<std::string, std::string>, size_t> counts;
          {
            const std::lock_guard lock(state().mutex);
            for (const auto& [object, what] : state().live) ++counts[{what.kind, what.made_by}];
          }
          for (const auto& [what, count] : counts) visit(user, what.first.c_str(), what.second.c_str(), count);
        },
};

}  // namespace

extern "C" {

ORT_EXPORT OrtStatus* CreateEpFactories(const char* name, const OrtApiBase* base, const OrtLogger* logger,
                                        OrtEpFactory** factories, size_t room, size_t* count) {
  OrtStatus* status = state().create(name, watch_host(base), logger, factories, room, count);
  if (status != nullptr) return status;
  const std::lock_guard lock(state().mutex);
  state().factories.assign(factories, factories + std::min(room, *count));
  return nullptr;
}

ORT_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  {
    const std::lock_guard lock(state().mutex);
    std::erase(state().factories, factory);
  }
  return state().release(factory);
}

ORT_EXPORT const TenonWatchApi* TenonGetWatchApi(void) { return &kApi; }
}
