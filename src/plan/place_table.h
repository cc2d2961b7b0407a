// The memory spaces of a session, and the data transfers between them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <tenon/types.h>

#include "ep/api/device_provider.h"

namespace tenon {

// Indices are into `places`; 0 is plain host memory. Providers are counted from 1 (0 is the CPU EP).
struct PlaceTable {
  std::vector<MemoryPlace> places = {MemoryPlace{}};
  std::vector<DeviceAllocator*> allocators = {nullptr};  // by place; null for plain host memory
  std::vector<bool> handles = {false};                   // by place: DeviceAllocator::gives_handles
  std::vector<std::vector<int32_t>> of_provider;         // by provider less 1: the place of each of its allocators
  std::vector<DataTransfer*> transfers;                  // by provider less 1; may be null
  std::vector<bool> has_stream;                          // by provider less 1

  std::vector<std::shared_ptr<DeviceAllocator>> neighbours;  // whose places are no provider's

  // Adds the places of the next provider.
  void add(DeviceProvider& provider, bool streams);
  // A device's own memory that no provider works in, but whose tensors can be copied to the host and back: they may be
  // bound. Others are left out. After the providers.
  void add_neighbour(std::shared_ptr<DeviceAllocator> allocator);
  // For planning: its alignment is what kernels there need, and what allocators give.
  const MemoryPlace& at(int32_t place) const { return places[static_cast<size_t>(place)]; }
  // As its allocator says it, for tensors and callers.
  const MemoryPlace& shown(int32_t place) const {
    const DeviceAllocator* allocator = allocators[static_cast<size_t>(place)];
    return allocator != nullptr ? allocator->place() : places[static_cast<size_t>(place)];
  }
  // The place of the same memory; that of plain host memory for any other that the host can address; -1 otherwise.
  int32_t find(const MemoryPlace& place) const;
  // Who copies: 0 is the host itself, otherwise a provider's data transfer; -1: nobody can.
  int32_t mover(const MemoryPlace& src, const MemoryPlace& dst) const;
  // Whose stream orders a provider's work: 0, the host, when it has none.
  int32_t executor(int32_t provider) const {
    return provider > 0 && has_stream[static_cast<size_t>(provider - 1)] ? provider : 0;
  }
  // The table's index of one of a provider's choices. Errors: one that is no allocator of the EP.
  Result<int32_t> choice(const DeviceProvider& provider, int32_t number, int32_t index) const;
};

// What the EP wants for a region's node, checked to have one entry a tensor.
Result<PlaceChoice> chosen_places(const DeviceProvider& provider, const KernelNode& node);

}  // namespace tenon
