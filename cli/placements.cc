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
std::vector<std::string> words_of(const EpDevice& device, size_t index, MemorySpace space) {
  space.kind = MemoryKind::kDefault;
  const std::string whole = space.to_string();
  const std::string short_name = whole.substr(0, whole.find(' '));
  std::vector<std::string> words = {whole, short_name, short_name.substr(0, short_name.find(':')), device.ep_name,
                                    format("{}:{}", device.ep_name, index)};
  for (const char* key : {"name", "Description"}) {
    if (const auto named = device.hardware.metadata.find(key); named != device.hardware.metadata.end())
      words.push_back(named->second);
  }
  return words;
}

Result<MemorySpace> find_space(const Session& session, const std::string& text) {
  std::string_view device_text = text;
  const bool host_accessible = device_text.ends_with(kHostAccessible);
  if (host_accessible) device_text.remove_suffix(kHostAccessible.size());
  const MemoryKind kind = host_accessible ? MemoryKind::kHostAccessible : MemoryKind::kDefault;
  if (text == "cpu" || text == "CPUExecutionProvider") return MemorySpace{};
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
      for (const MemorySpace& space : devices[i].memory) {
        const std::vector<std::string> words = words_of(devices[i], index[i], space);
        if (space.kind == kind && std::find(words.begin(), words.end(), device_text) != words.end()) return space;
        if (const std::string name = space.to_string();
            (", " + known + ",").find(", " + name + ",") == std::string::npos)
          known += ", " + name;
      }
    }
  }
  return not_found("There is no memory space \"{}\"; there are {}. An EP library brings its own (--plugin, --ep).",
                   text, known);
}

Result<Tensor> tensor_in(Session& session, DataType type, const Shape& shape, MemorySpace space) {
  const uint32_t offset = space.alignment;
  space.alignment = 0;
  if (offset == 0) return session.allocate(type, shape, space);
  TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(type, shape));
  TENON_TRY_ASSIGN(const Tensor room,
                   session.allocate(DataType::kUint8, Shape{static_cast<int64_t>(bytes + kAllocated)}, space));
  return Tensor::view(type, shape, room.data_as<std::byte>() + offset, bytes, room.owner(), space);
}

}  // namespace

void PlacementArguments::add_spaces(CLI::App& command) {
  command
      .add_option("--space", spaces,
                  "NAME=SPACE: where an input or output is bound: a device of `tenon devices` or its EP (gpu, gpu:0, "
                  "EP_NAME), then :host_accessible for that memory of it, then @N for an address N bytes after a "
                  "multiple of 64; may be repeated")
      ->type_name("NAME=SPACE")
      ->allow_extra_args(false);
}

Result<std::map<std::string, MemorySpace>> PlacementArguments::read(const Session& session) const {
  std::map<std::string, MemorySpace> made;
  for (const std::string& text : spaces) {
    const size_t at = text.rfind('=');
    if (at == std::string::npos || at == 0)
      return invalid_argument("--space \"{}\" has not the form NAME=SPACE.", text);
    const std::string name = text.substr(0, at);
    std::string space_text = text.substr(at + 1);
    uint32_t offset = 0;
    if (const size_t sign = space_text.rfind('@'); sign != std::string::npos) {
      const std::string number = space_text.substr(sign + 1);
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), offset);
      if (error != std::errc() || end != number.data() + number.size() || !std::has_single_bit(offset) ||
          offset >= kAllocated)
        return invalid_argument("--space \"{}\": \"{}\" is no power of two from 1 to {}.", text, number,
                                kAllocated / 2);
      space_text.resize(sign);
    }
    const auto has = [&](std::span<const ValueInfo> infos) {
      return std::any_of(infos.begin(), infos.end(), [&](const ValueInfo& info) { return info.name == name; });
    };
    if (!has(session.inputs()) && !has(session.outputs()))
      return not_found("--space \"{}\": the model has no input or output \"{}\".", text, name);
    TENON_TRY_ASSIGN(MemorySpace space, find_space(session, space_text));
    space.alignment = offset;
    if (!made.emplace(name, space).second) return invalid_argument("--space gives \"{}\" twice.", name);
  }
  return made;
}

Status bind_in_spaces(Session& session, const std::map<std::string, MemorySpace>& spaces,
                      const std::vector<std::pair<std::string, Tensor>>& inputs, Binding& binding) {
  for (const auto& [name, tensor] : inputs) {
    const auto space = spaces.find(name);
    if (space == spaces.end()) {
      TENON_TRY(binding.bind_input(name, tensor));
      continue;
    }
    TENON_TRY_ASSIGN(const Tensor there, tensor_in(session, tensor.type(), tensor.shape(), space->second));
    TENON_TRY_WITH_CONTEXT(copy(there, tensor), format("while putting input \"{}\" into its memory space", name));
    TENON_TRY(binding.bind_input(name, there));
  }
  for (const ValueInfo& info : session.outputs()) {
    const auto space = spaces.find(info.name);
    if (space != spaces.end() && space->second.alignment != 0) {
      TENON_TRY_ASSIGN(const Shape shape, fixed_shape(info, session.options().dims, /*takes_input=*/false));
      TENON_TRY_ASSIGN(const Tensor there, tensor_in(session, info.type, shape, space->second));
      TENON_TRY(binding.bind_output(info.name, there));
      continue;
    }
    TENON_TRY(binding.bind_output_auto(info.name, space != spaces.end() ? space->second : MemorySpace()));
  }
  return {};
}

Result<Tensor> on_host(const Tensor& tensor) {
  MemorySpace space = tensor.space();
  space.alignment = 0;
  if (devices_are_memory_compatible(space, MemorySpace())) return tensor;
  TENON_TRY_ASSIGN(Tensor host, Tensor::allocate(tensor.type(), tensor.shape()));
  TENON_TRY(copy(host, tensor));
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
