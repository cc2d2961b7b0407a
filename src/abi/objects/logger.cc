#include "abi/objects/logger.h"

#include <chrono>
#include <cstdio>
#include <ctime>

#include "abi/objects/env.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"

namespace {

// "2026-01-31 12:00:00.123456 [W:onnxruntime:logid, file.cc:12 function] message", as the reference writes it.
void write_line(OrtLoggingLevel level, const char* category, const char* id, const char* location,
                const char* message) {
  constexpr char kLetters[] = "VIWEF";
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() % 1'000'000;
  std::tm local{};
  ::localtime_r(&seconds, &local);
  char time[32];
  std::strftime(time, sizeof(time), "%Y-%m-%d %H:%M:%S", &local);
  const auto index = static_cast<size_t>(level);
  std::fprintf(stderr, "%s.%06lld [%c:%s:%s, %s] %s\n", time, static_cast<long long>(micros),
               index < 5 ? kLetters[index] : '?', category, id, location, message);
}

}  // namespace

void OrtLogger::write(OrtLoggingLevel level, const char* category, const char* location,
                      const char* message) const noexcept {
  try {
    if (function != nullptr) {
      function(function_parameter, level, category, id.c_str(), location, message);
    } else {
      write_line(level, category, id.c_str(), location, message);
    }
  } catch (...) {
    // A program's function that throws must not unwind through the library; there is nobody left to tell.
  }
}

void OrtLogger::log(OrtLoggingLevel level, const char* category, const char* location,
                    const char* message) const noexcept {
  if (enabled(level)) write(level, category, location, message);
}

namespace tenon::abi {

std::shared_ptr<OrtLogger> current_logger() {
  if (const std::shared_ptr<OrtEnv> env = current_env()) return env->logger;
  static const auto fallback = std::make_shared<OrtLogger>();
  return fallback;
}

OrtStatus* ort_api::Logger_LogMessage(const OrtLogger* logger, OrtLoggingLevel log_severity_level, const char* message,
                                      const ORTCHAR_T* file_path, int line_number, const char* func_name) noexcept {
  if (OrtStatus* bad = check_pointers(
          "Logger_LogMessage",
          {{"logger", logger}, {"message", message}, {"file_path", file_path}, {"func_name", func_name}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    if (!logger->enabled(log_severity_level)) return nullptr;
    std::string_view file = file_path;
    if (const size_t slash = file.find_last_of("/\\"); slash != file.npos) file.remove_prefix(slash + 1);
    const std::string location = tenon::format("{}:{} {}", std::string(file), line_number, func_name);
    logger->log(log_severity_level, "onnxruntime", location.c_str(), message);
    return nullptr;
  });
}

OrtStatus* ort_api::Logger_GetLoggingSeverityLevel(const OrtLogger* logger, OrtLoggingLevel* out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("Logger_GetLoggingSeverityLevel", {{"logger", logger}, {"out", out}})) return bad;
  *out = logger->severity.load();
  return nullptr;
}

}  // namespace tenon::abi
