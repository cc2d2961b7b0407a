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

std::string dump_text(std::string_view name, const std::string& text) {
  if (!dump_enabled()) return {};
  static std::atomic<int> number{0};
  std::string file_of_text = format("{:04}-{}.txt", number.fetch_add(1), file_name(name));
  const std::string path = format("{}/{}", folder(), file_of_text);
  std::FILE* file = std::fopen(path.c_str(), "we");
  const bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = file == nullptr || std::fclose(file) == 0;
  static std::atomic<bool> warned{false};
  if ((!written || !closed) && !warned.exchange(true))
    log_warning("dump", "\"{}\" cannot be written; is TENON_DUMP a folder that exists?", path);
  return file_of_text;
}

std::function<void(std::string_view, const Graph&)> dump_observer(std::string phase) {
  if (!dump_enabled()) return {};
  // Every plan has a copy of the function, and so its own last graph.
  return [phase = std::move(phase), before = std::string(), file = std::string()](std::string_view pass,
                                                                                  const Graph& graph) mutable {
    std::string text = graph.to_text();
    if (pass != "input" && text == before) {
      dump_text(format("{}-{}-unchanged", phase, pass), format("The graph is still that of {}.\n", file));
      return;
    }
    file = dump_text(format("{}-{}", phase, pass), text);
    before = std::move(text);
  };
}

}  // namespace tenon
