// Declarations shared by the files of the faulty EP library. TENON_BAD_PLUGIN names the mistake; see bad_plugin.cc.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace bad {

extern const OrtApi* g_api;
extern const OrtEpApi* g_ep_api;
extern uint32_t g_version;  // of the tables above

inline bool lie(const char* name) {
  const char* chosen = std::getenv("TENON_BAD_PLUGIN");
  return chosen != nullptr && std::strcmp(chosen, name) == 0;
}

// Calls the test's function back (tenon_bad_plugin_hook in bad_plugin.cc).
void call_back(const char* what);
// That; then writes the call down, and throws where the lie is "throw WHAT" or "throw int WHAT".
void called(const char* what);

// A status for the lies "fail WHAT" (EP_FAIL) and "FAIL WHAT" (FAIL), null else.
inline OrtStatus* outcome(const char* what) {
  if (lie((std::string("fail ") + what).c_str())) return g_api->CreateStatus(ORT_EP_FAIL, "the plugin cannot");
  if (lie((std::string("FAIL ") + what).c_str())) return g_api->CreateStatus(ORT_FAIL, "the plugin cannot");
  return nullptr;
}

// The function, or null for "null NAME", or an address that is no code for "data NAME".
template <typename F>
F member(const char* name, F function) {
  if (lie((std::string("null ") + name).c_str())) return nullptr;
  if (lie((std::string("data ") + name).c_str())) return reinterpret_cast<F>(reinterpret_cast<uintptr_t>(&g_api));
  return function;
}

// The version of a struct of this kind: a lie may change it, "stream of version 0" for instance.
uint32_t version_of(const char* kind);

// bad_device.cc: a device with memory, streams, a data transfer, an importer and graphics interop, offered when
// TENON_BAD_PLUGIN_DEVICE is set. Its memory is the host's; the host is told of a GPU.
bool has_device();
OrtStatus* make_device(OrtEpFactory* factory, OrtEpDevice** made);
void set_device_members(OrtEpFactory& factory);
void release_device();

}  // namespace bad
