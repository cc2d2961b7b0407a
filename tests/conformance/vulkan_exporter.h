// Buffers and timelines of a Vulkan driver, to be imported by an EP.
#pragma once

#include <memory>
#include <vector>

#include "conformance/exporter.h"

namespace tenon::conformance {

// Of a Vulkan device on the CPU, or on a GPU (`gpu`). Empty, with the reason, on a machine without one that exports
// memory.
std::vector<std::unique_ptr<MemoryExporter>> vulkan_memory_exporters(bool gpu, std::string* why_not);
std::vector<std::unique_ptr<SemaphoreExporter>> vulkan_semaphore_exporters(bool gpu, std::string* why_not);

}  // namespace tenon::conformance
