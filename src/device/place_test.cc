#include <gtest/gtest.h>
#include <tenon/types.h>

#include <string>
#include <vector>

namespace tenon {
namespace {

constexpr uint32_t kVendor = 0x10de;

const MemoryPlace kCpu{};
const MemoryPlace kCpuHost{.kind = MemoryKind::kHostAccessible};
const MemoryPlace kGpu{.device_type = DeviceType::kGpu, .vendor_id = kVendor};
const MemoryPlace kGpuHost{.device_type = DeviceType::kGpu, .kind = MemoryKind::kHostAccessible, .vendor_id = kVendor};
const MemoryPlace kGpuUnified{.device_type = DeviceType::kGpu, .vendor_id = kVendor, .unified = true};
const MemoryPlace kGpu1{.device_type = DeviceType::kGpu, .vendor_id = kVendor, .device_id = 1};
const MemoryPlace kGpu1Host{
    .device_type = DeviceType::kGpu, .kind = MemoryKind::kHostAccessible, .vendor_id = kVendor, .device_id = 1};
const MemoryPlace kOther{.device_type = DeviceType::kGpu, .vendor_id = 0x1002};
const MemoryPlace kNpuHost{.device_type = DeviceType::kNpu, .kind = MemoryKind::kHostAccessible, .vendor_id = kVendor};

// S3.1: the whole table of pairs. A row is a source, a column a target, in the order of kPlaces.
TEST(DevicesAreMemoryCompatible, AnswersTheWholeTableOfPairs) {
  const MemoryPlace kPlaces[] = {kCpu, kCpuHost, kGpu, kGpuHost, kGpuUnified, kGpu1, kGpu1Host, kOther, kNpuHost};
  const char* kNames[] = {"cpu",  "cpu host",  "gpu",   "gpu host", "gpu unified",
                          "gpu1", "gpu1 host", "other", "npu host"};
  const char* kTable[] = {
      // cpu, cpu host, gpu, gpu host, gpu unified, gpu1, gpu1 host, other, npu host
      "yynnnnnnn",  // cpu
      "yynnnnnnn",  // cpu host
      "nnynynnnn",  // gpu
      "ynyyynnnn",  // gpu host
      "ynyyynnnn",  // gpu unified
      "nnnnnynnn",  // gpu1
      "ynnnnyynn",  // gpu1 host
      "nnnnnnnyn",  // other
      "ynnnnnnny",  // npu host
  };
  for (size_t source = 0; source < std::size(kPlaces); ++source)
    for (size_t target = 0; target < std::size(kPlaces); ++target)
      EXPECT_EQ(devices_are_memory_compatible(kPlaces[source], kPlaces[target]), kTable[source][target] == 'y')
          << kNames[source] << " -> " << kNames[target];
}

TEST(DevicesAreMemoryCompatible, NeedsTheSourceToBeAlignedAtLeastAsTheTarget) {
  const auto aligned = [](MemoryPlace place, uint32_t alignment) {
    place.alignment = alignment;
    return place;
  };
  for (const MemoryPlace& place : {kCpu, kGpu, kGpuHost}) {
    EXPECT_TRUE(devices_are_memory_compatible(aligned(place, 64), aligned(place, 64)));
    EXPECT_TRUE(devices_are_memory_compatible(aligned(place, 128), aligned(place, 64)));
    EXPECT_TRUE(devices_are_memory_compatible(aligned(place, 64), place));
    EXPECT_FALSE(devices_are_memory_compatible(aligned(place, 32), aligned(place, 64)));
    EXPECT_FALSE(devices_are_memory_compatible(place, aligned(place, 64)));
  }
}

}  // namespace
}  // namespace tenon
