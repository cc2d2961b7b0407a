// Session options for EPs beside config entries: the bytes of the model that a weightless one was made from,
// and functions that read and write the data of EPContext nodes.
//
// Ownership: buffers, functions and their states are the program's, which keeps them until the session is made.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <cstddef>

// The object that SessionOptionsGetEpContextConfig returns.
struct OrtEpContextConfig {
  OrtReadNamedBufferFunc read = nullptr;
  void* read_state = nullptr;
  OrtWriteNamedBufferFunc write = nullptr;  // only a compilation has one
  void* write_state = nullptr;
};

namespace tenon::abi {

struct SourceModel {
  const void* data = nullptr;
  size_t size_bytes = 0;
};

struct PluginSession;

// The options of the session that this thread is making: EPs that are made meanwhile are shown what these hold, and put
// themselves into `plugins`.
class MakingSession {
 public:
  MakingSession(const OrtSessionOptions& options, PluginSession& plugins);
  ~MakingSession();
  MakingSession(const MakingSession&) = delete;
  MakingSession& operator=(const MakingSession&) = delete;

  // Null outside of such a scope.
  static const OrtSessionOptions* options();
  static PluginSession* plugins();

 private:
  struct Making {
    const OrtSessionOptions* options = nullptr;
    PluginSession* plugins = nullptr;
  };
  static Making& current();
  const Making outer_;
};

}  // namespace tenon::abi
