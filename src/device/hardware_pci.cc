#include "device/hardware_devices.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace tenon {

namespace {

// Base class and subclass of the PCI class code.
constexpr uint32_t kVga = 0x0300, kXga = 0x0301, k3d = 0x0302, kOtherDisplay = 0x0380, kAccelerator = 0x1200;

struct VendorName {
  uint32_t id;
  const char* name;
};
constexpr VendorName kVendorNames[] = {{0x1002, "AMD"},      {0x1022, "AMD"},       {0x10DE, "NVIDIA"},
                                       {0x5143, "Qualcomm"}, {0x8086, "Intel"},     {0x1AF4, "Red Hat"},
                                       {0x15AD, "VMware"},   {0x1414, "Microsoft"}, {0x10005, "Mesa"}};

std::string vendor_name(uint32_t id) {
  for (const VendorName& vendor : kVendorNames)
    if (vendor.id == id) return vendor.name;
  return "";
}

std::optional<uint32_t> parse_number(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
  }
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::optional<uint32_t> read_number(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string text;
  if (!(stream >> text)) return std::nullopt;
  return parse_number(text);
}

std::optional<DeviceType> type_of_class(uint32_t pci_class) {
  switch (pci_class >> 8) {
    case kVga:
    case kXga:
    case k3d:
    case kOtherDisplay:
      return DeviceType::kGpu;
    case kAccelerator:
      return DeviceType::kNpu;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::vector<HardwareDevice> find_pci_devices(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    paths.push_back(entry->path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<HardwareDevice> devices;
  for (const std::filesystem::path& path : paths) {
    const std::optional<uint32_t> pci_class = read_number(path / "class");
    const std::optional<uint32_t> vendor = read_number(path / "vendor");
    const std::optional<uint32_t> device = read_number(path / "device");
    const std::optional<DeviceType> type = pci_class ? type_of_class(*pci_class) : std::nullopt;
    if (!type || !vendor || !device) continue;
    HardwareDevice found;
    found.type = *type;
    found.vendor_id = *vendor;
    found.device_id = *device;
    found.vendor = vendor_name(*vendor);
    const std::string address = path.filename().string();
    found.metadata["pci_bus_id"] = address;
    // A GPU that is part of the chipset sits on bus 0; one on a card is behind a bridge.
    if (*type == DeviceType::kGpu) found.metadata["Discrete"] = address.find(":00:") == std::string::npos ? "1" : "0";
    devices.push_back(std::move(found));
  }
  return devices;
}

std::vector<HardwareDevice> find_hardware() {
  std::vector<HardwareDevice> all = {find_cpu()};
  for (HardwareDevice& device : find_pci_devices()) all.push_back(std::move(device));
  return all;
}

Result<HardwareDevice> parse_hardware_device(const std::string& text) {
  HardwareDevice device;
  bool has_type = false;
  for (size_t start = 0; start <= text.size();) {
    const size_t comma = std::min(text.find(',', start), text.size());
    const std::string part = text.substr(start, comma - start);
    start = comma + 1;
    const size_t equals = part.find('=');
    TENON_INVALID_IF(equals == std::string::npos, "The device \"{}\" has \"{}\" where KEY=VALUE is expected.", text,
                     part);
    const std::string key = part.substr(0, equals);
    const std::string value = part.substr(equals + 1);
    if (key == "type") {
      TENON_INVALID_IF(value != "cpu" && value != "gpu" && value != "npu",
                       "The device \"{}\" has the type \"{}\"; known are cpu, gpu and npu.", text, value);
      device.type = value == "cpu" ? DeviceType::kCpu : value == "gpu" ? DeviceType::kGpu : DeviceType::kNpu;
      has_type = true;
    } else if (key == "vendor" || key == "device") {
      const std::optional<uint32_t> number = parse_number(value);
      TENON_INVALID_IF(!number, "The device \"{}\" has the {} \"{}\", which is no 32-bit number.", text, key, value);
      (key == "vendor" ? device.vendor_id : device.device_id) = *number;
    } else if (key == "name") {
      device.vendor = value;
    } else {
      return invalid_argument("The device \"{}\" has the key \"{}\"; known are type, vendor, device and name.", text,
                              key);
    }
  }
  TENON_INVALID_IF(!has_type, "The device \"{}\" has no type (type=cpu, type=gpu or type=npu).", text);
  if (device.vendor.empty()) device.vendor = vendor_name(device.vendor_id);
  return device;
}

}  // namespace tenon
