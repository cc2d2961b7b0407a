#include "cli/profile.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/status.h"

namespace tenon::cli {
namespace {

using nlohmann::json;

constexpr std::string_view kEnding = "_kernel_time";

std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

int64_t number_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<int64_t>() : 0;
}

// False for an event of something else.
bool read_event(const json& event, NodeTime* time) {
  if (!event.is_object() || text_of(event, "cat") != "Node" || !event.contains("args") || !event["args"].is_object())
    return false;
  const std::string name = text_of(event, "name");
  if (!name.ends_with(kEnding)) return false;
  const json& arguments = event["args"];
  const std::string index = text_of(arguments, "node_index");
  std::from_chars(index.data(), index.data() + index.size(), time->node);
  time->op_type = text_of(arguments, "op_name");
  time->name = name.substr(0, name.size() - kEnding.size());
  // A node without a name is shown as its operator and its index.
  if (time->name == format("{}_{}", time->op_type, index)) time->name.clear();
  time->begin_ns = number_of(event, "ts") * 1000;
  time->duration_ns = number_of(event, "dur") * 1000;
  return time->duration_ns >= 0;
}

}  // namespace

Result<std::vector<NodeTime>> read_profile(const std::string& path) {
  errno = 0;
  std::ifstream file(path);
  if (!file) return io_failure(format("The profile \"{}\" cannot be opened", path), errno);
  const json events = json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!events.is_array()) return invalid_argument("\"{}\" is no profile: it holds no JSON list of events.", path);
  std::vector<NodeTime> times;
  for (const json& event : events) {
    NodeTime time;
    if (read_event(event, &time)) times.push_back(std::move(time));
  }
  if (times.empty()) return invalid_argument("The profile \"{}\" has no events of nodes.", path);
  return times;
}

}  // namespace tenon::cli
