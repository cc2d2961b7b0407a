// The memory spaces of a session, and the data transfers between them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <tenon/types.h>

#include "ep/api/device_provider.h"
#include "ep/api/ids.h"

namespace tenon {

struct SpaceTable {
  PerSpace<MemorySpace> spaces = {MemorySpace{}};
  PerSpace<DeviceAllocator*> allocators = {nullptr};  // null for plain host memory
  PerSpace<bool> handles = {false};                   // DeviceAllocator::gives_handles
  PerDeviceEp<IdVector<AllocatorId, SpaceId>> of_ep;  // the space of each of its allocators
  PerDeviceEp<DataTransfer*> transfers;               // may be null
  PerDeviceEp<bool> has_stream;

  std::vector<std::shared_ptr<DeviceAllocator>> neighbours;  // whose spaces are no EP's

  // Adds the spaces of the next EP.
  void add(DeviceProvider& provider, bool streams);
  // A device's own memory that no EP works in, but whose tensors can be copied to the host and back: they may be
  // bound. Others are left out. After the EPs.
  void add_neighbour(std::shared_ptr<DeviceAllocator> allocator);
  // For planning: its alignment is what kernels there need, and what allocators give.
  const MemorySpace& at(SpaceId space) const { return spaces[space]; }
  // As its allocator says it, for tensors and callers.
  const MemorySpace& shown(SpaceId space) const {
    const DeviceAllocator* allocator = allocators[space];
    return allocator != nullptr ? allocator->space() : spaces[space];
  }
  // The space of the same memory; that of plain host memory for any other that the host can address; none
  // otherwise.
  SpaceId find(const MemorySpace& space) const;
  // Whose data transfer copies; kCpuEp: the host itself; none: nobody can.
  EpId mover(const MemorySpace& src, const MemorySpace& dst) const;
  // Null where the host copies.
  DataTransfer* transfer(EpId mover) const { return mover > kCpuEp ? transfers[mover] : nullptr; }
  // Whose stream orders an EP's work; kCpuEp, the host, when it has none.
  EpId executor(EpId ep) const { return ep > kCpuEp && has_stream[ep] ? ep : kCpuEp; }
  // The space of one of an EP's allocators. Errors: one that the EP does not have.
  Result<SpaceId> choice(const DeviceProvider& provider, EpId ep, AllocatorId allocator) const;

 private:
  SpaceId add_space(const MemorySpace& space, DeviceAllocator& allocator);
};

// The memory that the EP chooses for a region's node, checked to have one entry a tensor.
Result<SpaceChoice> chosen_spaces(const DeviceProvider& provider, const KernelNode& node);

}  // namespace tenon
