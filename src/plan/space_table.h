// The memory spaces of a session, and the data transfers between them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <tenon/types.h>

#include "ep/api/device_provider.h"

namespace tenon {

// Indices are into `spaces`; 0 is plain host memory. Providers are counted from 1 (0 is the CPU EP).
struct SpaceTable {
  std::vector<MemorySpace> spaces = {MemorySpace{}};
  std::vector<DeviceAllocator*> allocators = {nullptr};  // by space; null for plain host memory
  std::vector<bool> handles = {false};                   // by space: DeviceAllocator::gives_handles
  std::vector<std::vector<int32_t>> of_provider;         // by provider less 1: the space of each of its allocators
  std::vector<DataTransfer*> transfers;                  // by provider less 1; may be null
  std::vector<bool> has_stream;                          // by provider less 1

  std::vector<std::shared_ptr<DeviceAllocator>> neighbours;  // whose spaces are no provider's

  // Adds the spaces of the next provider.
  void add(DeviceProvider& provider, bool streams);
  // A device's own memory that no provider works in, but whose tensors can be copied to the host and back: they may be
  // bound. Others are left out. After the providers.
  void add_neighbour(std::shared_ptr<DeviceAllocator> allocator);
  // For planning: its alignment is what kernels there need, and what allocators give.
  const MemorySpace& at(int32_t space) const { return spaces[static_cast<size_t>(space)]; }
  // As its allocator says it, for tensors and callers.
  const MemorySpace& shown(int32_t space) const {
    const DeviceAllocator* allocator = allocators[static_cast<size_t>(space)];
    return allocator != nullptr ? allocator->space() : spaces[static_cast<size_t>(space)];
  }
  // The space of the same memory; that of plain host memory for any other that the host can address; -1 otherwise.
  int32_t find(const MemorySpace& space) const;
  // Who copies: 0 is the host itself, otherwise a provider's data transfer; -1: nobody can.
  int32_t mover(const MemorySpace& src, const MemorySpace& dst) const;
  // Whose stream orders a provider's work: 0, the host, when it has none.
  int32_t executor(int32_t provider) const {
    return provider > 0 && has_stream[static_cast<size_t>(provider - 1)] ? provider : 0;
  }
  // The table's index of one of a provider's choices. Errors: one that is no allocator of the EP.
  Result<int32_t> choice(const DeviceProvider& provider, int32_t number, int32_t index) const;
};

// What the EP wants for a region's node, checked to have one entry a tensor.
Result<SpaceChoice> chosen_spaces(const DeviceProvider& provider, const KernelNode& node);

}  // namespace tenon
