#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "device/hardware_devices.h"

namespace tenon {
namespace {

// A folder that looks like sysfs's list of PCI devices.
class FakeBus {
 public:
  FakeBus() {
    std::string name = (std::filesystem::temp_directory_path() / "tenon_pci_XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) folder_ = name;
  }
  ~FakeBus() { std::filesystem::remove_all(folder_); }
  void add(const std::string& address, const std::string& pci_class, const std::string& vendor,
           const std::string& device) {
    std::filesystem::create_directories(folder_ + "/" + address);
    for (const auto& [file, text] : {std::pair{"class", pci_class}, {"vendor", vendor}, {"device", device}})
      std::ofstream(folder_ + "/" + address + "/" + file) << text << "\n";
  }
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

TEST(Hardware, PciDevicesAreGpusAndNpusInTheOrderOfTheirAddresses) {
  FakeBus bus;
  bus.add("0000:01:00.0", "0x030200", "0x10de", "0x2330");
  bus.add("0000:00:02.0", "0x030000", "0x8086", "0x7d55");
  bus.add("0000:00:0b.0", "0x120000", "0x8086", "0x7d1d");
  bus.add("0000:00:1f.0", "0x060100", "0x8086", "0x7e02");  // a bridge
  const std::vector<HardwareDevice> devices = find_pci_devices(bus.folder());
  ASSERT_EQ(devices.size(), 3u);
  EXPECT_EQ(devices[0].type, DeviceType::kGpu);
  EXPECT_EQ(devices[0].vendor, "Intel");
  EXPECT_EQ(devices[0].metadata.at("Discrete"), "0");
  EXPECT_EQ(devices[1].type, DeviceType::kNpu);
  EXPECT_EQ(devices[2].type, DeviceType::kGpu);
  EXPECT_EQ(devices[2].vendor_id, 0x10DEu);
  EXPECT_EQ(devices[2].device_id, 0x2330u);
  EXPECT_EQ(devices[2].metadata.at("Discrete"), "1");
  EXPECT_EQ(devices[2].metadata.at("pci_bus_id"), "0000:01:00.0");
}

TEST(Hardware, UnreadableEntriesAndFoldersAreLeftOut) {
  FakeBus bus;
  bus.add("0000:01:00.0", "0x030200", "what", "0x2330");
  bus.add("0000:02:00.0", "", "0x10de", "0x2330");
  EXPECT_TRUE(find_pci_devices(bus.folder()).empty());
  EXPECT_TRUE(find_pci_devices(bus.folder() + "/none").empty());
}

}  // namespace
}  // namespace tenon
