#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing.h"
#include "device/hardware_devices.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

TEST(Hardware, TheCpuComesFirstAndAlone) {
  const std::vector<HardwareDevice> all = find_hardware();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all[0].type, DeviceType::kCpu);
  EXPECT_FALSE(all[0].vendor.empty());
  for (size_t i = 1; i < all.size(); ++i) EXPECT_NE(all[i].type, DeviceType::kCpu);
}

TEST(Hardware, AnOfferedDeviceIsParsed) {
  const Result<HardwareDevice> device = parse_hardware_device("type=cpu,vendor=0x8086,device=7");
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  EXPECT_EQ(device->type, DeviceType::kCpu);
  EXPECT_EQ(device->vendor_id, 0x8086u);
  EXPECT_EQ(device->vendor, "Intel");
  EXPECT_EQ(device->device_id, 7u);
}

TEST(Hardware, ABadOfferSaysWhatIsWrong) {
  const auto refused = [](const char* text, const char* why) {
    EXPECT_THAT(parse_hardware_device(text).status(), has_status(StatusCode::kInvalidArgument, HasSubstr(why))) << text;
  };
  refused("", "KEY=VALUE");
  refused("type=cpu,", "KEY=VALUE");
  refused("type=fpga", "fpga");
  refused("type=cpu,vendor=intel", "intel");
  refused("type=cpu,vendor=0x100000000", "32-bit");
  refused("vendor=0x8086", "no type");
  refused("type=cpu,colour=red", "colour");
}

}  // namespace
}  // namespace tenon
