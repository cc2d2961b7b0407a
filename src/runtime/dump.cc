#include "runtime/dump.h"

#include <atomic>
#include <cstdio>
#include <utility>

#include "base/env.h"
#include "base/log.h"

namespace tenon {

namespace {

const std::string& folder() {
  static const std::string value = env_value(Env::kDump);
  return value;
}

// A pass or node may be named anything; a file may not.
std::string file_name(std::string_view name) {
  std::string safe;
  for (char c : name) safe += (c == '/' || c == '\0' || c == ' ') ? '_' : c;
  return safe.substr(0, 100);
}

}  // namespace

bool dump_enabled() { return !folder().empty(); }

void dump_text(std::string_view name, const std::string& text) {
  if (!dump_enabled()) return;
  static std::atomic<int> number{0};
  const std::string path = format("{}/{:04}-{}.txt", folder(), number.fetch_add(1), file_name(name));
  std::FILE* file = std::fopen(path.c_str(), "we");
  const bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = file == nullptr || std::fclose(file) == 0;
  static std::atomic<bool> warned{false};
  if ((!written || !closed) && !warned.exchange(true))
    log_warning("dump", "\"{}\" cannot be written; is TENON_DUMP a folder that exists?", path);
}

std::function<void(std::string_view, const Graph&)> dump_observer(std::string phase) {
  if (!dump_enabled()) return {};
  return [phase = std::move(phase)](std::string_view pass, const Graph& graph) {
    dump_text(format("{}-{}", phase, pass), graph.to_text());
  };
}

}  // namespace tenon
