#include <gtest/gtest.h>
#include <tenon/types.h>

#include <string>
#include <vector>

namespace tenon {
namespace {

constexpr uint32_t kVendor = 0x10de;

const MemorySpace kCpu{};
const MemorySpace kCpuHost{.kind = MemoryKind::kHostAccessible};
const MemorySpace kGpu{.device_type = DeviceType::kGpu, .vendor_id = kVendor};
const MemorySpace kGpuHost{.device_type = DeviceType::kGpu, .kind = MemoryKind::kHostAccessible, .vendor_id = kVendor};
const MemorySpace kGpuUnified{.device_type = DeviceType::kGpu, .vendor_id = kVendor, .unified = true};
const MemorySpace kGpu1{.device_type = DeviceType::kGpu, .vendor_id = kVendor, .device_id = 1};
const MemorySpace kGpu1Host{
    .device_type = DeviceType::kGpu, .kind = MemoryKind::kHostAccessible, .vendor_id = kVendor, .device_id = 1};
const MemorySpace kOther{.device_type = DeviceType::kGpu, .vendor_id = 0x1002};
const MemorySpace kNpuHost{.device_type = DeviceType::kNpu, .kind = MemoryKind::kHostAccessible, .vendor_id = kVendor};

// S3.1: the whole table of pairs. A row is a source, a column a target, in the order of kSpaces.
TEST(DevicesAreMemoryCompatible, AnswersTheWholeTableOfPairs) {
  const MemorySpace kSpaces[] = {kCpu, kCpuHost, kGpu, kGpuHost, kGpuUnified, kGpu1, kGpu1Host, kOther, kNpuHost};
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
  for (size_t source = 0; source < std::size(kSpaces); ++source)
    for (size_t target = 0; target < std::size(kSpaces); ++target)
      EXPECT_EQ(devices_are_memory_compatible(kSpaces[source], kSpaces[target]), kTable[source][target] == 'y')
          << kNames[source] << " -> " << kNames[target];
}

TEST(DevicesAreMemoryCompatible, NeedsTheSourceToBeAlignedAtLeastAsTheTarget) {
  const auto aligned = [](MemorySpace space, uint32_t alignment) {
    space.alignment = alignment;
    return space;
  };
  for (const MemorySpace& space : {kCpu, kGpu, kGpuHost}) {
    EXPECT_TRUE(devices_are_memory_compatible(aligned(space, 64), aligned(space, 64)));
    EXPECT_TRUE(devices_are_memory_compatible(aligned(space, 128), aligned(space, 64)));
    EXPECT_TRUE(devices_are_memory_compatible(aligned(space, 64), space));
    EXPECT_FALSE(devices_are_memory_compatible(aligned(space, 32), aligned(space, 64)));
    EXPECT_FALSE(devices_are_memory_compatible(space, aligned(space, 64)));
  }
}

}  // namespace
}  // namespace tenon
