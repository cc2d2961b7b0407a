// tenon devices: what models can run on here.
#include <unistd.h>

#include <memory>

#include "cli/commands.h"
#include "cli/cpu_info.h"
#include "cli/output.h"
#include "ep/cpu/cpu_provider.h"

namespace tenon::cli {
namespace {

Status devices(bool json) {
  const CpuInfo cpu = cpu_info();
  const std::string ep_name(cpu::make_cpu_provider()->name());
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  const uint64_t memory =
      pages > 0 && page_bytes > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes) : 0;
  if (json) {
    nlohmann::ordered_json device = {{"ep_name", ep_name}, {"vendor", cpu.vendor}, {"vendor_id", cpu.vendor_id},
                                     {"type", "CPU"},      {"device_id", 0},       {"memory", memory},
                                     {"name", cpu.name}};
    print_json(nlohmann::ordered_json::array({std::move(device)}));
    return {};
  }
  print("{} 0: {} ({}), {}\n", ep_name, cpu.name.empty() ? "CPU" : cpu.name, cpu.vendor, bytes_text(memory));
  return {};
}

}  // namespace

void add_devices(CLI::App& app, Action* action) {
  CLI::App* command = app.add_subcommand("devices", "Lists the devices that models can run on");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON");
  command->callback([json, action] { *action = [json] { return devices(*json); }; });
}

}  // namespace tenon::cli
