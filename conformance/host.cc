#include "conformance/host.h"

#include <cstring>
#include <filesystem>
#include <set>

#include "conformance/library.h"

namespace tenon::conformance {

namespace {

constexpr uint32_t kOldestVersion = 24;  // the first with OrtInteropApi

std::string absolute(const std::string& path) {
  // A relative path would mean another folder to the host than to whoever typed it.
  std::error_code error;
  const std::filesystem::path full = std::filesystem::absolute(path, error);
  return error ? path : full.string();
}

}  // namespace

const char* code_name(OrtErrorCode code) {
  constexpr const char* kNames[] = {"OK",
                                    "FAIL",
                                    "INVALID_ARGUMENT",
                                    "NO_SUCHFILE",
                                    "NO_MODEL",
                                    "ENGINE_ERROR",
                                    "RUNTIME_EXCEPTION",
                                    "INVALID_PROTOBUF",
                                    "MODEL_LOADED",
                                    "NOT_IMPLEMENTED",
                                    "INVALID_GRAPH",
                                    "EP_FAIL",
                                    "MODEL_LOAD_CANCELED",
                                    "MODEL_REQUIRES_COMPILATION",
                                    "NOT_FOUND",
                                    "DEVICE_RESET"};
  const auto index = static_cast<size_t>(code);
  return index < std::size(kNames) ? kNames[index] : "an unknown code";
}

std::string Outcome::text() const { return ok() ? std::string("OK") : format("{} ({})", code_name(code), message); }

Status to_status(const Outcome& outcome, const char* what) {
  if (outcome.ok()) return Status();
  const StatusCode code = outcome.code == ORT_NOT_IMPLEMENTED    ? StatusCode::kUnsupported
                          : outcome.code == ORT_INVALID_ARGUMENT ? StatusCode::kInvalidArgument
                                                                 : StatusCode::kDeviceError;
  return Status(code, format("{} fails: {}.", what, outcome.text()));
}

Status HostOptions::set_plugin(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos || equals + 1 == text.size())
    return invalid_argument("--plugin takes NAME=LIBRARY, not \"{}\".", text);
  plugin_name = text.substr(0, equals);
  plugin_library = text.substr(equals + 1);
  return Status();
}

Result<std::unique_ptr<Host>> Host::load(const HostOptions& options) {
  std::unique_ptr<Host> host(new Host());
  TENON_TRY(host->open(options));
  TENON_TRY(host->find_device(options));
  return host;
}

Host::~Host() {
  if (api_ == nullptr) return;
  if (!plugin_name_.empty()) (void)take(api_->UnregisterExecutionProviderLibrary(env_, plugin_name_.c_str()));
  if (env_ != nullptr) api_->ReleaseEnv(env_);
  // The library stays loaded: hosts keep threads and exit handlers.
}

Status Host::open(const HostOptions& options) {
  auto* get_base = options.own;
  if (!options.library.empty()) {
    Result<void*> library = open_library(absolute(options.library));
    if (!library.ok()) return not_found("The host does not load: {}", library.status().message());
    library_ = *library;
    get_base = reinterpret_cast<decltype(get_base)>(library_symbol(library_, "OrtGetApiBase"));
    if (get_base == nullptr) return invalid_argument("\"{}\" has no OrtGetApiBase, so it is no host.", options.library);
  }
  if (get_base == nullptr) return invalid_argument("This program has no host of its own; name the library of one.");
  const OrtApiBase* base = get_base();
  // Asking for a version that the host does not have makes it write to stderr: begin with what it says of itself.
  uint32_t newest = 0;
  if (const char* dot = std::strchr(base->GetVersionString(), '.')) newest = static_cast<uint32_t>(std::atoi(dot + 1));
  for (version_ = std::min<uint32_t>(newest, ORT_API_VERSION); version_ >= kOldestVersion && api_ == nullptr;) {
    api_ = base->GetApi(version_);
    if (api_ == nullptr) --version_;
  }
  if (api_ == nullptr)
    return unsupported("The host ({}) is older than API version {}, which has the first importers.",
                       base->GetVersionString(), kOldestVersion);
  is_tenon_ = std::strstr(api_->GetBuildInfoString(), "Tenon") != nullptr;
  description_ = format("{} {}", is_tenon_ ? "Tenon, as onnxruntime" : "onnxruntime", base->GetVersionString());
  TENON_TRY(to_status(take(api_->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "conformance", &env_)), "CreateEnv"));
  if (options.plugin_library.empty()) return Status();
  const std::string path = absolute(options.plugin_library);
  if (options.watch) {
    // Of a library that is no plugin the host says why.
    if (auto watch = Watch::create(path); watch.ok()) watch_ = std::move(*watch);
  }
  const std::string& library = watch_ != nullptr ? watch_->library() : path;
  TENON_TRY(to_status(
      take(api_->RegisterExecutionProviderLibrary(env_, options.plugin_name.c_str(), abi_path(library).c_str())),
      "RegisterExecutionProviderLibrary"));
  plugin_name_ = options.plugin_name;
  if (void* plugin = loaded_library(path); plugin != nullptr)
    if (void* get = library_symbol(plugin, "TenonSimGetTestApi"); get != nullptr)
      sim_ = reinterpret_cast<TenonSimGetTestApiFn>(get)(TENON_SIM_TEST_API_VERSION);
  return Status();
}

Status Host::find_device(const HostOptions& options) {
  const OrtEpDevice* const* devices = nullptr;
  size_t count = 0;
  TENON_TRY(to_status(take(api_->GetEpDevices(env_, &devices, &count)), "GetEpDevices"));
  std::set<std::string> names;
  size_t seen = 0;
  for (size_t i = 0; i < count; ++i) {
    const std::string name = api_->EpDevice_EpName(devices[i]);
    names.insert(name);
    const bool wanted = !options.ep_name.empty()          ? name == options.ep_name
                        : !options.plugin_library.empty() ? name != "CPUExecutionProvider"
                                                          : name == "CPUExecutionProvider";
    if (wanted && device_ == nullptr && seen++ == options.device) device_ = devices[i];
  }
  if (device_ == nullptr) {
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    return not_found("No device of EP \"{}\" is offered; there are devices of: {}.",
                     options.ep_name.empty() ? options.plugin_name : options.ep_name, list);
  }
  ep_name_ = api_->EpDevice_EpName(device_);
  return Status();
}

Outcome Host::take(OrtStatus* status) const {
  if (status == nullptr) return {};
  Outcome outcome{api_->GetErrorCode(status), api_->GetErrorMessage(status)};
  api_->ReleaseStatus(status);
  return outcome;
}

Result<Owned<OrtExternalResourceImporter>> Host::create_importer() const {
  OrtExternalResourceImporter* importer = nullptr;
  TENON_TRY(to_status(take(interop().CreateExternalResourceImporterForDevice(device_, &importer)),
                      "CreateExternalResourceImporterForDevice"));
  return own(importer, interop().ReleaseExternalResourceImporter);
}

Result<Owned<OrtSyncStream>> Host::create_stream() const {
  OrtSyncStream* stream = nullptr;
  TENON_TRY(
      to_status(take(api_->CreateSyncStreamForEpDevice(device_, nullptr, &stream)), "CreateSyncStreamForEpDevice"));
  if (stream == nullptr) return unsupported("CreateSyncStreamForEpDevice gives no stream, with success.");
  return own(stream, api_->ReleaseSyncStream);
}

Result<Owned<OrtSession>> Host::create_session(const std::vector<std::byte>& model,
                                               const std::map<std::string, std::string>& ep_options, bool on_ep,
                                               const char* profile) const {
  OrtSessionOptions* raw_options = nullptr;
  TENON_TRY(to_status(take(api_->CreateSessionOptions(&raw_options)), "CreateSessionOptions"));
  const auto options = own(raw_options, api_->ReleaseSessionOptions);
  TENON_TRY(to_status(take(api_->SetIntraOpNumThreads(raw_options, 1)), "SetIntraOpNumThreads"));
  std::vector<const char*> keys, values;
  for (const auto& [key, value] : ep_options) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  if (on_ep)
    TENON_TRY(to_status(take(api_->SessionOptionsAppendExecutionProvider_V2(raw_options, env_, &device_, 1, keys.data(),
                                                                            values.data(), keys.size())),
                        "SessionOptionsAppendExecutionProvider_V2"));
  if (profile != nullptr)
    TENON_TRY(to_status(take(api_->EnableProfiling(raw_options, abi_path(profile).c_str())), "EnableProfiling"));
  // For node_eps.
  TENON_TRY(to_status(take(api_->AddSessionConfigEntry(raw_options, "session.record_ep_graph_assignment_info", "1")),
                      "AddSessionConfigEntry"));
  OrtSession* session = nullptr;
  TENON_TRY(to_status(take(api_->CreateSessionFromArray(env_, model.data(), model.size(), raw_options, &session)),
                      "CreateSessionFromArray"));
  return own(session, api_->ReleaseSession);
}

Result<std::map<std::string, std::vector<std::string>>> Host::node_eps(const OrtSession* session) const {
  std::map<std::string, std::vector<std::string>> found;
  const OrtEpAssignedSubgraph* const* parts = nullptr;
  size_t part_count = 0;
  TENON_TRY(to_status(take(api_->Session_GetEpGraphAssignmentInfo(session, &parts, &part_count)),
                      "Session_GetEpGraphAssignmentInfo"));
  for (size_t p = 0; p < part_count; ++p) {
    const char* ep = nullptr;
    const OrtEpAssignedNode* const* nodes = nullptr;
    size_t count = 0;
    TENON_TRY(to_status(take(api_->EpAssignedSubgraph_GetEpName(parts[p], &ep)), "EpAssignedSubgraph_GetEpName"));
    TENON_TRY(
        to_status(take(api_->EpAssignedSubgraph_GetNodes(parts[p], &nodes, &count)), "EpAssignedSubgraph_GetNodes"));
    for (size_t n = 0; n < count; ++n) {
      const char* type = nullptr;
      TENON_TRY(
          to_status(take(api_->EpAssignedNode_GetOperatorType(nodes[n], &type)), "EpAssignedNode_GetOperatorType"));
      found[ep].emplace_back(type);
    }
  }
  return found;
}

OrtExternalResourceImporterImpl* Host::plugin_importer() const {
  OrtEpFactory* factory = watch_ != nullptr ? watch_->factory(ep_name_) : nullptr;
  if (factory == nullptr || factory->ort_version_supported < kOldestVersion ||
      factory->CreateExternalResourceImporterForDevice == nullptr)
    return nullptr;
  OrtExternalResourceImporterImpl* importer = nullptr;
  return take(factory->CreateExternalResourceImporterForDevice(factory, device_, &importer)).ok() ? importer : nullptr;
}

Status Host::run(OrtSession* session, const OrtValue* x, OrtValue* y, const OrtRunOptions* options) const {
  const char* const input = "x";
  const char* const output = "y";
  OrtValue* result = y;
  TENON_TRY(to_status(take(api_->Run(session, options, &input, &x, 1, &output, 1, &result)), "Run"));
  if (result != y) return device_error("Run replaces the output that was bound (S1.8).");
  return Status();
}

Result<Owned<OrtValue>> Host::run_for_output(OrtSession* session, const OrtValue* x,
                                             const OrtRunOptions* options) const {
  const char* const input = "x";
  const char* const output = "y";
  OrtValue* y = nullptr;
  TENON_TRY(to_status(take(api_->Run(session, options, &input, &x, 1, &output, 1, &y)), "Run"));
  return own(y, api_->ReleaseValue);
}

Result<Owned<OrtExternalMemoryHandle>> Host::import_described(OrtExternalResourceImporter* importer,
                                                              TenonExternalMemoryInfo memory, size_t size_bytes,
                                                              size_t offset_bytes) const {
  memory.version = TENON_EXTERNAL_MEMORY_INFO_VERSION;
  OrtExternalMemoryDescriptor descriptor = {};
  descriptor.version = version_;
  // No value of the enum: ONNX Runtime's kinds are described, ours name themselves.
  descriptor.handle_type = std::bit_cast<OrtExternalMemoryHandleType>(
      memory.kind < TENON_EXTERNAL_HANDLE_FIRST ? TENON_EXTERNAL_MEMORY_DESCRIBED : memory.kind);
  descriptor.native_handle = &memory;
  descriptor.size_bytes = size_bytes;
  descriptor.offset_bytes = offset_bytes;
  OrtExternalMemoryHandle* handle = nullptr;
  TENON_TRY(to_status(take(interop().ImportMemory(importer, &descriptor, &handle)), "ImportMemory"));
  return own(handle, interop().ReleaseExternalMemoryHandle);
}

Result<Owned<OrtExternalSemaphoreHandle>> Host::import_semaphore(OrtExternalResourceImporter* importer,
                                                                 OrtExternalSemaphoreType type,
                                                                 void* native_handle) const {
  OrtExternalSemaphoreDescriptor descriptor = {};
  descriptor.version = version_;
  descriptor.type = type;
  descriptor.native_handle = native_handle;
  OrtExternalSemaphoreHandle* handle = nullptr;
  TENON_TRY(to_status(take(interop().ImportSemaphore(importer, &descriptor, &handle)), "ImportSemaphore"));
  return own(handle, interop().ReleaseExternalSemaphoreHandle);
}

Result<Owned<OrtValue>> Host::tensor_in(OrtExternalResourceImporter* importer, const OrtExternalMemoryHandle* memory,
                                        std::span<const int64_t> shape, size_t offset_bytes) const {
  OrtExternalTensorDescriptor descriptor = {};
  descriptor.version = version_;
  descriptor.element_type = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  descriptor.shape = shape.data();
  descriptor.rank = shape.size();
  descriptor.offset_bytes = offset_bytes;
  OrtValue* value = nullptr;
  TENON_TRY(to_status(take(interop().CreateTensorFromMemory(importer, memory, &descriptor, &value)),
                      "CreateTensorFromMemory"));
  return own(value, api_->ReleaseValue);
}

Result<Owned<OrtValue>> Host::tensor_over(std::span<float> elements, std::span<const int64_t> shape) const {
  OrtMemoryInfo* raw_info = nullptr;
  TENON_TRY(to_status(take(api_->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &raw_info)),
                      "CreateCpuMemoryInfo"));
  const auto info = own(raw_info, api_->ReleaseMemoryInfo);
  OrtValue* value = nullptr;
  TENON_TRY(to_status(
      take(api_->CreateTensorWithDataAsOrtValue(raw_info, elements.data(), elements.size_bytes(), shape.data(),
                                                shape.size(), ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value)),
      "CreateTensorWithDataAsOrtValue"));
  return own(value, api_->ReleaseValue);
}

Status Host::wait_for(OrtSyncStream* stream) const {
  const OrtSyncStreamImpl* constant = ep().SyncStream_GetImpl(stream);
  if (constant == nullptr) return unsupported("The stream has no implementation that can be waited for.");
  auto* impl = const_cast<OrtSyncStreamImpl*>(constant);
  OrtSyncNotificationImpl* notification = nullptr;
  TENON_TRY(to_status(take(impl->CreateNotification(impl, &notification)), "OrtSyncStreamImpl.CreateNotification"));
  Outcome outcome = take(notification->Activate(notification));
  const char* what = "OrtSyncNotificationImpl.Activate";
  if (outcome.ok()) {
    what = "OrtSyncNotificationImpl.WaitOnHost";
    outcome = take(notification->WaitOnHost(notification));
  }
  notification->Release(notification);
  return to_status(outcome, what);
}

}  // namespace tenon::conformance
