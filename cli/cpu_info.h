// The CPU as a device: who made it, what it is called.
#pragma once

#include <cstdint>
#include <string>

namespace tenon::cli {

struct CpuInfo {
  std::string vendor;      // "Intel", "AMD", ... or the CPU's own 12 letters; "unknown" where it does not tell
  uint32_t vendor_id = 0;  // the PCI vendor id that goes with it; 0 when unknown
  std::string name;        // "Intel(R) Xeon(R) ..."; may be empty
};
CpuInfo cpu_info();

}  // namespace tenon::cli
