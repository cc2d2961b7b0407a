// Memory and timelines of a Vulkan driver, for an EP on the same GPU to import.
#pragma once

#include <memory>
#include <vector>

#include "conformance/exporter.h"
#include "programs/vulkan_sharing.h"

namespace tenon::conformance {

// An allocation as ONNX Runtime's plain kind, and one described as dedicated and of the driver's device.
std::vector<std::unique_ptr<MemoryExporter>> vulkan_memory(std::shared_ptr<programs::VulkanSharing> vulkan);
std::vector<std::unique_ptr<SemaphoreExporter>> vulkan_semaphores(std::shared_ptr<programs::VulkanSharing> vulkan);

}  // namespace tenon::conformance
