// Exports memory for the simulated EP: simulated NT handles, and memfds in place of the fds of GPU drivers.
#pragma once

#include <memory>
#include <vector>

#include "conformance/exporter.h"
#include "src/ep/sim/sim_test_api.h"

namespace tenon::conformance {

std::vector<std::unique_ptr<MemoryExporter>> sim_memory_exporters(const TenonSimTestApi& sim);
std::vector<std::unique_ptr<SemaphoreExporter>> sim_semaphore_exporters(const TenonSimTestApi& sim);

}  // namespace tenon::conformance
