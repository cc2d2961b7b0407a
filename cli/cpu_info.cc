#include "cli/cpu_info.h"

#include <cstring>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tenon::cli {

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

CpuInfo cpu_info() {
  CpuInfo info;
  info.vendor = "unknown";
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) != 0) {
    char letters[12];
    std::memcpy(letters, &ebx, 4);
    std::memcpy(letters + 4, &edx, 4);
    std::memcpy(letters + 8, &ecx, 4);
    info.vendor.assign(letters, sizeof letters);
    for (const Vendor& vendor : kVendors) {
      if (vendor.letters != std::string_view(letters, sizeof letters)) continue;
      info.vendor = vendor.name;
      info.vendor_id = vendor.pci_id;
    }
  }
  char name[49] = {};
  for (unsigned leaf = 0; leaf < 3; ++leaf) {
    if (__get_cpuid(0x80000002 + leaf, &eax, &ebx, &ecx, &edx) == 0) return info;
    const unsigned words[4] = {eax, ebx, ecx, edx};
    std::memcpy(name + leaf * sizeof words, words, sizeof words);
  }
  info.name = name;
  while (!info.name.empty() && info.name.back() == ' ') info.name.pop_back();
  return info;
}

#else

CpuInfo cpu_info() { return {.vendor = "unknown"}; }

#endif

}  // namespace tenon::cli
