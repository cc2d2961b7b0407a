// Lists the hardware that EP plugins are offered: the CPU, and the GPUs and NPUs in sysfs.
#pragma once

#include <tenon/hardware.h>

#include <string>
#include <vector>

namespace tenon {

// The CPU with its real vendor ("AMD", 0x1022; the CPU's own 12 letters and 0 for a vendor without a PCI id).
// metadata["name"]: "AMD EPYC ..."; absent where the CPU does not tell.
HardwareDevice find_cpu();

// Display controllers (GPUs) and processing accelerators (NPUs) on the PCI bus, in the order of their addresses.
// metadata: "pci_bus_id" ("0000:01:00.0") and, for GPUs, "Discrete" ("1" for one with memory of its own as far as the
// bus number tells). `folder` is sysfs's list of devices; one that is missing or unreadable has none.
std::vector<HardwareDevice> find_pci_devices(const std::string& folder = "/sys/bus/pci/devices");

// The CPU first.
std::vector<HardwareDevice> find_hardware();

}  // namespace tenon
