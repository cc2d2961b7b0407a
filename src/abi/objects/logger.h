// OrtLogger: a severity, a name and a sink.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <atomic>
#include <memory>
#include <string>

struct OrtLogger {
  std::string id;
  std::atomic<OrtLoggingLevel> severity = ORT_LOGGING_LEVEL_WARNING;
  // Null: lines go to stderr. Called from any thread; must not throw.
  OrtLoggingFunction function = nullptr;
  void* function_parameter = nullptr;

  bool enabled(OrtLoggingLevel level) const { return level >= severity.load(std::memory_order_relaxed); }
  // Nothing for a level below the severity. `category` is the part of the library ("onnxruntime" for plugins' lines),
  // `location` is "file:line function".
  void log(OrtLoggingLevel level, const char* category, const char* location, const char* message) const noexcept;
  // The same for a line that was asked for whatever the severity.
  void write(OrtLoggingLevel level, const char* category, const char* location, const char* message) const noexcept;
};

namespace tenon::abi {

// The logger of the env that exists, or one that writes warnings to stderr.
std::shared_ptr<OrtLogger> current_logger();

}  // namespace tenon::abi
