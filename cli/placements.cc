#include "cli/placements.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <string_view>

#include "cli/model_arguments.h"
#include "cli/status.h"

namespace tenon::cli {
namespace {

constexpr std::string_view kHostAccessible = ":host_accessible";
constexpr uint32_t kAllocated = 64;  // what memory that is allocated has at least

// The words for a device's memory, without its kind.
std::vector<std::string> words_of(const EpDevice& device, size_t index, MemoryPlace place) {
  place.kind = MemoryKind::kDefault;
  const std::string whole = place.to_string();
  const std::string short_name = whole.substr(0, whole.find(' '));
  std::vector<std::string> words = {whole, short_name, short_name.substr(0, short_name.find(':')), device.ep_name,
                                    format("{}:{}", device.ep_name, index)};
  for (const char* key : {"name", "Description"}) {
    if (const auto named = device.hardware.metadata.find(key); named != device.hardware.metadata.end())
      words.push_back(named->second);
  }
  return words;
}

Result<MemoryPlace> find_place(const Session& session, const std::string& text) {
  std::string_view device_text = text;
  const bool host_accessible = device_text.ends_with(kHostAccessible);
  if (host_accessible) device_text.remove_suffix(kHostAccessible.size());
  const MemoryKind kind = host_accessible ? MemoryKind::kHostAccessible : MemoryKind::kDefault;
  if (text == "cpu" || text == "CPUExecutionProvider") return MemoryPlace{};
  std::string known = "cpu";
  std::vector<EpDevice> devices = ep_devices();
  const auto used = [&](const EpDevice& device) {
    const auto& eps = session.options().eps;
    return std::any_of(eps.begin(), eps.end(), [&](const EpChoice& ep) { return ep.ep_name == device.ep_name; });
  };
  std::map<std::string, size_t> counts;
  std::vector<size_t> index;  // among the EP's devices
  index.reserve(devices.size());
  for (const EpDevice& device : devices) index.push_back(counts[device.ep_name]++);
  for (const bool of_session : {true, false}) {
    for (size_t i = 0; i < devices.size(); ++i) {
      if (used(devices[i]) != of_session) continue;
      for (const MemoryPlace& place : devices[i].memory) {
        const std::vector<std::string> words = words_of(devices[i], index[i], place);
        if (place.kind == kind && std::find(words.begin(), words.end(), device_text) != words.end()) return place;
        known += ", " + place.to_string();
      }
    }
  }
  return not_found("There is no place \"{}\"; there are {}.", text, known);
}

Result<Tensor> tensor_in(Session& session, DataType type, const Shape& shape, MemoryPlace place) {
  const uint32_t offset = place.alignment;
  place.alignment = 0;
  if (offset == 0) return session.allocate(type, shape, place);
  CLI_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(type, shape));
  CLI_TRY_ASSIGN(const Tensor room,
                 session.allocate(DataType::kUint8, Shape{static_cast<int64_t>(bytes + kAllocated)}, place));
  return Tensor::view(type, shape, room.data_as<std::byte>() + offset, bytes, room.owner(), place);
}

}  // namespace

void PlacementArguments::add_places(CLI::App& command) {
  command
      .add_option("--place", places,
                  "NAME=PLACE: where an input or output is bound: a device of `tenon devices` or its EP (gpu, gpu:0, "
                  "EP_NAME), then :host_accessible for that memory of it, then @N for an address N bytes after a "
                  "multiple of 64; may be repeated")
      ->type_name("NAME=PLACE")
      ->allow_extra_args(false);
}

Result<std::map<std::string, MemoryPlace>> PlacementArguments::read(const Session& session) const {
  std::map<std::string, MemoryPlace> made;
  for (const std::string& text : places) {
    const size_t at = text.rfind('=');
    CLI_INVALID_IF(at == std::string::npos || at == 0, "--place \"{}\" has not the form NAME=PLACE.", text);
    const std::string name = text.substr(0, at);
    std::string place_text = text.substr(at + 1);
    uint32_t offset = 0;
    if (const size_t sign = place_text.rfind('@'); sign != std::string::npos) {
      const std::string number = place_text.substr(sign + 1);
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), offset);
      CLI_INVALID_IF(error != std::errc() || end != number.data() + number.size() || !std::has_single_bit(offset) ||
                         offset >= kAllocated,
                     "--place \"{}\": \"{}\" is no power of two from 1 to {}.", text, number, kAllocated / 2);
      place_text.resize(sign);
    }
    const auto has = [&](std::span<const ValueInfo> infos) {
      return std::any_of(infos.begin(), infos.end(), [&](const ValueInfo& info) { return info.name == name; });
    };
    if (!has(session.inputs()) && !has(session.outputs()))
      return not_found("--place \"{}\": the model has no input or output \"{}\".", text, name);
    CLI_TRY_ASSIGN(MemoryPlace place, find_place(session, place_text));
    place.alignment = offset;
    CLI_INVALID_IF(!made.emplace(name, place).second, "--place gives \"{}\" twice.", name);
  }
  return made;
}

Status bind_places(Session& session, const std::map<std::string, MemoryPlace>& places,
                   const std::vector<std::pair<std::string, Tensor>>& inputs, Binding& binding) {
  for (const auto& [name, tensor] : inputs) {
    const auto place = places.find(name);
    if (place == places.end()) {
      CLI_TRY(binding.bind_input(name, tensor));
      continue;
    }
    CLI_TRY_ASSIGN(const Tensor there, tensor_in(session, tensor.type(), tensor.shape(), place->second));
    CLI_TRY_CONTEXT(copy(there, tensor), "while putting input \"{}\" into its place", name);
    CLI_TRY(binding.bind_input(name, there));
  }
  for (const ValueInfo& info : session.outputs()) {
    const auto place = places.find(info.name);
    if (place != places.end() && place->second.alignment != 0) {
      CLI_TRY_ASSIGN(const Shape shape, fixed_shape(info, session.options().dims));
      CLI_TRY_ASSIGN(const Tensor there, tensor_in(session, info.type, shape, place->second));
      CLI_TRY(binding.bind_output(info.name, there));
      continue;
    }
    CLI_TRY(binding.bind_output_auto(info.name, place != places.end() ? place->second : MemoryPlace()));
  }
  return {};
}

Result<Tensor> on_host(const Tensor& tensor) {
  MemoryPlace place = tensor.place();
  place.alignment = 0;
  if (devices_are_memory_compatible(place, MemoryPlace())) return tensor;
  CLI_TRY_ASSIGN(Tensor host, Tensor::allocate(tensor.type(), tensor.shape()));
  CLI_TRY(copy(host, tensor));
  return host;
}

nlohmann::ordered_json copies_json(const CopyLedger& ledger) {
  auto list = nlohmann::ordered_json::array();
  for (const CopyRecord& record : ledger.records) {
    list.push_back({{"what", record.what},
                    {"bytes", record.bytes},
                    {"from", record.source.to_string()},
                    {"to", record.target.to_string()},
                    {"reason", copy_reason_name(record.reason)},
                    {"once", record.once}});
  }
  return list;
}

}  // namespace tenon::cli
