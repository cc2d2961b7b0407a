// `tenon explain --break-even`: compares the cost of importing each buffer from Vulkan with the cost of a copy.
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>

#include "demo/break_even.h"
#include "demo/status.h"
#include "programs/commands.h"
#include "programs/output.h"

namespace tenon::demo {
namespace {

using nlohmann::ordered_json;

// One buffer of the model that lives on the device.
struct BufferCosts {
  std::string name;
  bool is_input = false;
  std::optional<size_t> bytes;  // nothing where only a run knows
  double import_us = 0;
  double copy_us = 0;
};

struct BreakEvenReport {
  BreakEven costs;
  std::string file;
  std::string measured;  // "2026-11-21 23:40 UTC"
  std::vector<BufferCosts> buffers;

  std::string text() const;
  ordered_json json() const;
};

bool host_can_address(const MemorySpace& space) { return devices_are_memory_compatible(space, MemorySpace()); }

std::string default_file() {
  const passwd* user = ::getpwuid(::getuid());
  const std::filesystem::path home = user != nullptr && user->pw_dir != nullptr ? user->pw_dir : "/tmp";
  return (home / ".cache" / "tenon" / "break_even.json").string();
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  (void)::gmtime_r(&now, &utc);
  return format("{:04}-{:02}-{:02} {:02}:{:02} UTC", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour,
                utc.tm_min);
}

ordered_json way_json(const WayCosts& way) {
  auto copies = ordered_json::array();
  for (const WayCosts::Copy& copy : way.copies) copies.push_back({{"bytes", copy.bytes}, {"us", copy.us}});
  const std::optional<size_t> even = way.break_even_bytes();
  return {{"import_us", way.import_us},
          {"break_even_bytes", even ? ordered_json(*even) : ordered_json()},
          {"copies", copies}};
}

ordered_json costs_json(const BreakEven& costs, const std::string& measured) {
  return {{"ep_name", costs.ep_name}, {"ep_device", costs.ep_device}, {"vulkan_device", costs.vulkan_device},
          {"measured", measured},     {"in", way_json(costs.in)},     {"out", way_json(costs.out)}};
}

// The file is anybody's to edit: what does not fit is an error, and nothing of it is believed.
Result<WayCosts> read_way(const ordered_json& object) {
  WayCosts way;
  if (!object.is_object() || !object.contains("import_us") || !object["import_us"].is_number() ||
      !object.contains("copies") || !object["copies"].is_array())
    return invalid_argument("A way has no numbers.");
  way.import_us = object["import_us"].get<double>();
  for (const ordered_json& copy : object["copies"]) {
    if (!copy.is_object() || !copy.contains("bytes") || !copy["bytes"].is_number_unsigned() || !copy.contains("us") ||
        !copy["us"].is_number())
      return invalid_argument("A copy has no numbers.");
    way.copies.push_back({copy["bytes"].get<size_t>(), copy["us"].get<double>()});
    if (way.copies.size() > 1 && way.copies.back().bytes <= way.copies[way.copies.size() - 2].bytes)
      return invalid_argument("The sizes of the copies do not ascend.");
  }
  return way;
}

// Nothing when there is no file, or when it is of other devices.
Result<std::optional<BreakEvenReport>> read_file(const std::string& path, const std::string& ep_name,
                                                 const std::string& ep_device, const std::string& vulkan_device) {
  std::ifstream file(path);
  if (!file) return std::optional<BreakEvenReport>();
  const ordered_json object = ordered_json::parse(file, nullptr, false);
  const auto text = [&](const char* key) -> std::string {
    return object.is_object() && object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : "";
  };
  if (!object.is_object()) return invalid_argument("\"{}\" holds no figures; --measure writes it anew.", path);
  if (text("ep_name") != ep_name || text("ep_device") != ep_device || text("vulkan_device") != vulkan_device)
    return std::optional<BreakEvenReport>();
  BreakEvenReport report;
  report.measured = text("measured");
  report.costs.ep_name = ep_name;
  report.costs.ep_device = ep_device;
  report.costs.vulkan_device = vulkan_device;
  for (auto& [key, way] : {std::pair("in", &report.costs.in), std::pair("out", &report.costs.out)}) {
    Result<WayCosts> read = read_way(object.value(key, ordered_json()));
    if (!read.ok())
      return std::move(read).status().with_context(
          format("while reading the figures in \"{}\"; --measure writes them anew", path));
    *way = *std::move(read);
  }
  return std::optional<BreakEvenReport>(std::move(report));
}

// The EP whose device memory the model's inputs or outputs are wanted in.
Result<std::string> ep_of(const Session& session) {
  for (const auto spaces : {session.input_spaces(), session.output_spaces()})
    for (const ValueSpace& space : spaces)
      if (!host_can_address(space.space)) return space.ep_name;
  return unsupported(
      "No input or output of this model lives in a device's own memory: there is nothing to import or to copy. Which "
      "EP "
      "runs it is chosen with --plugin and --ep.");
}

// `planned` has the inputs or outputs that the plan knows; those after a cut are not among them.
void add_buffers(std::span<const ValueInfo> values, std::span<const ValueSpace> spaces, bool is_input,
                 const std::vector<PlanReport::Tensor>& planned, BreakEvenReport* report) {
  const WayCosts& way = is_input ? report->costs.in : report->costs.out;
  for (size_t i = 0; i < values.size(); ++i) {
    if (host_can_address(spaces[i].space)) continue;
    BufferCosts buffer{.name = values[i].name, .is_input = is_input, .import_us = way.import_us};
    const auto tensor = std::find_if(planned.begin(), planned.end(),
                                     [&](const PlanReport::Tensor& one) { return one.name == values[i].name; });
    if (tensor != planned.end() && tensor->has_shape) buffer.bytes = tensor->size_bytes;
    if (buffer.bytes) buffer.copy_us = way.copy_us(*buffer.bytes);
    report->buffers.push_back(std::move(buffer));
  }
}

struct BreakEvenArguments {
  bool wanted = false;
  bool measure_again = false;
  std::string file;  // "": in the user's cache folder
  std::string vulkan_device;
};

Result<BreakEvenReport> break_even_report(const BreakEvenArguments& arguments, const Session& session,
                                          const PlanReport& plan) {
  TENON_TRY_ASSIGN(const std::string ep_name, ep_of(session));
  TENON_TRY_ASSIGN(const std::string ep_device, ep_device_name(ep_name));
  TENON_TRY_ASSIGN(const std::string vulkan_device, vulkan_device_name(arguments.vulkan_device));
  const std::string file = arguments.file.empty() ? default_file() : arguments.file;
  BreakEvenReport report;
  std::optional<BreakEvenReport> known;
  if (!arguments.measure_again) {
    TENON_TRY_ASSIGN(known, read_file(file, ep_name, ep_device, vulkan_device));
  }
  if (known) {
    report = *std::move(known);
  } else {
    TENON_TRY_ASSIGN(report.costs, measure_break_even({.ep_name = ep_name, .vulkan_device = arguments.vulkan_device}));
    report.measured = now_text();
    std::error_code unwritable;
    std::filesystem::create_directories(std::filesystem::path(file).parent_path(), unwritable);
    TENON_TRY(write_text(file, costs_json(report.costs, report.measured).dump(2) + "\n"));
  }
  report.file = file;
  add_buffers(session.inputs(), session.input_spaces(), true, plan.inputs, &report);
  add_buffers(session.outputs(), session.output_spaces(), false, plan.outputs, &report);
  return report;
}

class BreakEvenPart final : public ExplainPart {
 public:
  void add_options(CLI::App& command) override {
    CLI::Option* flag = command.add_flag(
        "--break-even", arguments_.wanted,
        "Says for each buffer on the EP's device if importing it from Vulkan or copying it is faster here");
    command
        .add_flag("--measure", arguments_.measure_again, "With --break-even: measures again, though there are figures")
        ->needs(flag);
    command.add_option("--break-even-file", arguments_.file, "Where the figures are kept")
        ->default_str("break_even.json in ~/.cache/tenon")
        ->needs(flag);
    command
        .add_option("--vulkan-device", arguments_.vulkan_device,
                    "With --break-even: a part of the Vulkan device's name; default: the best one")
        ->needs(flag);
  }
  bool wanted() const override { return arguments_.wanted; }
  Result<Section> explain(const Session& session, const PlanReport& plan) const override {
    TENON_TRY_ASSIGN(const BreakEvenReport report, break_even_report(arguments_, session, plan));
    return Section{.key = "break_even", .text = report.text(), .json = report.json()};
  }

 private:
  BreakEvenArguments arguments_;
};

std::string even_text(const WayCosts& way) {
  const std::optional<size_t> even = way.break_even_bytes();
  return even ? "import pays from " + bytes_text(*even) + " on"
              : "copies are faster at every size up to " + bytes_text(way.copies.empty() ? 0 : way.copies.back().bytes);
}

std::string BreakEvenReport::text() const {
  std::string lines = format("import or copy, from Vulkan's \"{}\" to {} on \"{}\" and back, measured on {} ({})\n",
                             costs.vulkan_device, costs.ep_name, costs.ep_device, measured, file);
  lines += format("  {:<28} {:>12} {:>12} {:>12}\n", "buffer", "size", "import us", "copy us");
  for (const BufferCosts& buffer : buffers) {
    const std::string name = format("{} \"{}\"", buffer.is_input ? "input" : "output", buffer.name);
    if (buffer.bytes) {
      lines += format("  {:<28} {:>12} {:>12.0f} {:>12.0f}  {}\n", name, bytes_text(*buffer.bytes), buffer.import_us,
                      buffer.copy_us, buffer.copy_us < buffer.import_us ? "copy is faster" : "import is faster");
    } else {
      lines += format("  {:<28} {:>12} {:>12.0f} {:>12}\n", name, "after a run", buffer.import_us, "");
    }
  }
  lines += format("  in:  {}\n  out: {}\n", even_text(costs.in), even_text(costs.out));
  return lines;
}

ordered_json BreakEvenReport::json() const {
  ordered_json object = costs_json(costs, measured);
  object["file"] = file;
  object["buffers"] = ordered_json::array();
  for (const BufferCosts& buffer : buffers) {
    ordered_json one = {{"name", buffer.name},
                        {"way", buffer.is_input ? "in" : "out"},
                        {"bytes", buffer.bytes ? ordered_json(*buffer.bytes) : ordered_json()},
                        {"import_us", buffer.import_us}};
    if (buffer.bytes) {
      one["copy_us"] = buffer.copy_us;
      one["faster"] = buffer.copy_us < buffer.import_us ? "copy" : "import";
    }
    object["buffers"].push_back(std::move(one));
  }
  return object;
}

}  // namespace
}  // namespace tenon::demo

namespace tenon::programs {

std::shared_ptr<ExplainPart> break_even_part() { return std::make_shared<demo::BreakEvenPart>(); }

}  // namespace tenon::programs
