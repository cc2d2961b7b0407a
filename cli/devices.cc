// tenon devices: lists the devices of this machine that models can run on.
#include <unistd.h>

#include <memory>

#include "cli/commands.h"
#include "cli/plugin_arguments.h"
#include "cli/status.h"
#include "programs/output.h"

namespace tenon::cli {
namespace {

struct DevicesArguments : PluginArguments {
  bool json = false;
};

const char* type_name(DeviceType type) {
  switch (type) {
    case DeviceType::kGpu:
      return "GPU";
    case DeviceType::kNpu:
      return "NPU";
    case DeviceType::kCpu:
      break;
  }
  return "CPU";
}

uint64_t memory_of_machine() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && page_bytes > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes) : 0;
}

std::string spaces_text(const EpDevice& device) {
  std::string text;
  for (const MemorySpace& space : device.memory) text += (text.empty() ? "" : ", ") + space.to_string();
  return text.empty() ? "the host's memory" : text;
}

Status devices(const DevicesArguments& arguments) {
  TENON_TRY(arguments.load_plugins());
  auto list = nlohmann::ordered_json::array();
  for (const EpDevice& device : ep_devices()) {
    const bool builtin = device.library.empty();
    const HardwareDevice& hardware = device.hardware;
    // Hosts and plugins call it so or so.
    std::string text;
    for (const char* key : {"name", "Description"})
      if (const auto named = hardware.metadata.find(key); text.empty() && named != hardware.metadata.end())
        text = named->second;
    const bool host_memory = hardware.type == DeviceType::kCpu;
    if (arguments.json) {
      nlohmann::ordered_json entry = {{"ep_name", device.ep_name},
                                      {"vendor", hardware.vendor},
                                      {"vendor_id", hardware.vendor_id},
                                      {"type", type_name(hardware.type)},
                                      {"device_id", hardware.device_id},
                                      {"memory", host_memory ? nlohmann::ordered_json(memory_of_machine()) : nullptr},
                                      {"name", text},
                                      {"library", device.library},
                                      {"ep_vendor", device.ep_vendor},
                                      {"ep_version", device.ep_version},
                                      {"metadata", device.metadata},
                                      {"options", device.options}};
      entry["spaces"] = nlohmann::ordered_json::array();
      for (const MemorySpace& space : device.memory) entry["spaces"].push_back(space.to_string());
      list.push_back(std::move(entry));
      continue;
    }
    print("{} {}: {} ({}), ", device.ep_name, hardware.device_id, text.empty() ? type_name(hardware.type) : text,
          hardware.vendor.empty() ? format("vendor {:#06x}", hardware.vendor_id) : hardware.vendor);
    if (builtin) {
      print("{}\n", bytes_text(memory_of_machine()));
    } else {
      print("{}; EP library \"{}\", {} {}\n", spaces_text(device), device.library, device.ep_vendor, device.ep_version);
    }
  }
  if (arguments.json) print_json(list);
  return {};
}

}  // namespace

void add_devices(CLI::App& app, Action* action) {
  CLI::App* command = app.add_subcommand("devices", "Lists the devices that models can run on");
  const auto arguments = std::make_shared<DevicesArguments>();
  arguments->add_plugins(*command);
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments, action] { *action = [arguments] { return devices(*arguments); }; });
}

}  // namespace tenon::cli
