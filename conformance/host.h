// A host of ONNX Runtime's C ABI, loaded from a library: stock onnxruntime or libtenon. The suite reaches its host and
// the EP only through these tables.
//
// Ownership: a Host owns its library handle, env and plugin registration; Owned<T> releases with the host's function.
#pragma once

#include <tenon/external_handles.h>
#include <tenon/onnxruntime_c_api.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "conformance/status.h"
#include "conformance/watch.h"
#include "src/ep/sim/sim_test_api.h"

namespace tenon::conformance {

// The status that a function of the ABI returned.
struct Outcome {
  OrtErrorCode code = ORT_OK;
  std::string message;
  bool ok() const { return code == ORT_OK; }
  // "INVALID_ARGUMENT (...)", "OK"
  std::string text() const;
};

const char* code_name(OrtErrorCode code);

template <typename T>
struct Release {
  void(ORT_API_CALL* function)(T*) = nullptr;
  void operator()(T* object) const {
    if (object != nullptr) function(object);
  }
};
template <typename T>
using Owned = std::unique_ptr<T, Release<T>>;

struct HostOptions {
  std::string library;                       // empty: `own`
  const OrtApiBase* (*own)(void) = nullptr;  // the C ABI that is linked into this program
  std::string plugin_name;
  std::string plugin_library;  // empty: no plugin, an EP of the host's own
  std::string ep_name;         // empty: the plugin's first
  size_t device = 0;           // which of the EP's devices
  bool watch = false;          // list the host's objects that the plugin holds (Host::watch)

  // "NAME=LIBRARY". Errors: kInvalidArgument for other text.
  Status set_plugin(const std::string& text);
};

class Host {
 public:
  static Result<std::unique_ptr<Host>> load(const HostOptions& options);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  const OrtApi& api() const { return *api_; }
  const OrtEpApi& ep() const { return *api_->GetEpApi(); }
  const OrtInteropApi& interop() const { return *api_->GetInteropApi(); }
  // Of the tables above; no slot that is newer may be read.
  uint32_t version() const { return version_; }
  // "onnxruntime 1.31.1", "Tenon, as onnxruntime 1.32.0"
  const std::string& description() const { return description_; }
  bool is_tenon() const { return is_tenon_; }
  OrtEnv* env() const { return env_; }
  const OrtEpDevice* device() const { return device_; }
  const std::string& ep_name() const { return ep_name_; }
  // Counters and failures on demand, when the plugin is the simulated EP; else null.
  const TenonSimTestApi* sim() const { return sim_; }
  // Between the host and the plugin, where HostOptions ask for it and there can be one; else null.
  const std::shared_ptr<Watch>& watch() const { return watch_; }
  // An importer of the plugin's own, without the host before it; null where there is none or no watch.
  OrtExternalResourceImporterImpl* plugin_importer() const;

  Outcome take(OrtStatus* status) const;
  template <typename T>
  Owned<T> own(T* object, void(ORT_API_CALL* release)(T*)) const {
    return Owned<T>(object, Release<T>{release});
  }

  Result<Owned<OrtExternalResourceImporter>> create_importer() const;
  Result<Owned<OrtSyncStream>> create_stream() const;
  // A session of `model` on the device under test; `on_ep` false: on the host's CPU EP. `profile`: the
  // beginning of the name of a profile's file.
  Result<Owned<OrtSession>> create_session(const std::vector<std::byte>& model,
                                           const std::map<std::string, std::string>& ep_options = {}, bool on_ep = true,
                                           const char* profile = nullptr) const;
  // Nodes of a session by the EP that runs them: {"CPUExecutionProvider", {"Relu"}}.
  Result<std::map<std::string, std::vector<std::string>>> node_eps(const OrtSession* session) const;
  // A run of a model with one input "x" and one output "y", bound to these.
  Status run(OrtSession* session, const OrtValue* x, OrtValue* y, const OrtRunOptions* options = nullptr) const;
  // The same, with an output that the host makes.
  Result<Owned<OrtValue>> run_for_output(OrtSession* session, const OrtValue* x,
                                         const OrtRunOptions* options = nullptr) const;

  // Imports what `memory` describes; its version is set here. An fd is still the caller's where it fails.
  Result<Owned<OrtExternalMemoryHandle>> import_described(OrtExternalResourceImporter* importer,
                                                          TenonExternalMemoryInfo memory, size_t size_bytes,
                                                          size_t offset_bytes = 0) const;
  // An fd as an integer, or an NT handle; under the same condition.
  Result<Owned<OrtExternalSemaphoreHandle>> import_semaphore(OrtExternalResourceImporter* importer,
                                                             OrtExternalSemaphoreType type, void* native_handle) const;
  // Floats of an import.
  Result<Owned<OrtValue>> tensor_in(OrtExternalResourceImporter* importer, const OrtExternalMemoryHandle* memory,
                                    std::span<const int64_t> shape, size_t offset_bytes = 0) const;
  // A tensor of these elements in the host's memory; they have to stay.
  Result<Owned<OrtValue>> tensor_over(std::span<float> elements, std::span<const int64_t> shape) const;
  // Waits on the host for all that was queued on `stream`. kUnsupported for a stream without an implementation.
  Status wait_for(OrtSyncStream* stream) const;

 private:
  Host() = default;
  Status open(const HostOptions& options);
  Status find_device(const HostOptions& options);

  void* library_ = nullptr;
  const OrtApi* api_ = nullptr;
  uint32_t version_ = 0;
  std::string description_;
  bool is_tenon_ = false;
  OrtEnv* env_ = nullptr;
  std::string plugin_name_;  // registered
  std::shared_ptr<Watch> watch_;
  const OrtEpDevice* device_ = nullptr;
  std::string ep_name_;
  const TenonSimTestApi* sim_ = nullptr;
};

// OK, or what the host answered.
Status to_status(const Outcome& outcome, const char* what);

}  // namespace tenon::conformance
