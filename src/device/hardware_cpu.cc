#include "device/hardware_devices.h"

#include <cstring>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tenon {

#if defined(__x86_64__)

namespace {

struct Vendor {
  std::string_view letters;  // CPUID leaf 0: EBX, EDX, ECX
  const char* name;
  uint32_t pci_id;
};
constexpr Vendor kVendors[] = {
    {"GenuineIntel", "Intel", 0x8086}, {"AuthenticAMD", "AMD", 0x1022},     {"HygonGenuine", "Hygon", 0x1D94},
    {"CentaurHauls", "VIA", 0x1106},   {"  Shanghai  ", "Zhaoxin", 0x1D17},
};

}  // namespace

HardwareDevice find_cpu() {
  HardwareDevice cpu;
  cpu.vendor = "unknown";
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) != 0) {
    char letters[12];
    std::memcpy(letters, &ebx, 4);
    std::memcpy(letters + 4, &edx, 4);
    std::memcpy(letters + 8, &ecx, 4);
    cpu.vendor.assign(letters, sizeof letters);
    for (const Vendor& vendor : kVendors) {
      if (vendor.letters != std::string_view(letters, sizeof letters)) continue;
      cpu.vendor = vendor.name;
      cpu.vendor_id = vendor.pci_id;
    }
  }
  char name[49] = {};
  for (unsigned leaf = 0; leaf < 3; ++leaf) {
    if (__get_cpuid(0x80000002 + leaf, &eax, &ebx, &ecx, &edx) == 0) return cpu;
    const unsigned words[4] = {eax, ebx, ecx, edx};
    std::memcpy(name + leaf * sizeof words, words, sizeof words);
  }
  std::string_view text(name);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  if (!text.empty()) cpu.metadata["name"] = text;
  return cpu;
}

#else

HardwareDevice find_cpu() { return {.vendor = "unknown"}; }

#endif

}  // namespace tenon
