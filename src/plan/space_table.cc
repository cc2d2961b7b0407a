#include "plan/space_table.h"

#include <algorithm>

#include "device/memory_space.h"

namespace tenon {

void SpaceTable::add(DeviceProvider& provider, bool streams) {
  IdVector<AllocatorId, SpaceId> own;
  for (const auto& allocator : provider.allocators()) {
    MemorySpace space = allocator->space();
    space.alignment = std::max(space.alignment, provider.binding_alignment());
    // Plain host memory is the runtime's own, whoever else offers it.
    const auto known =
        same_memory(space, MemorySpace{}) ? spaces.begin() : std::find(spaces.begin() + 1, spaces.end(), space);
    own.push_back(known != spaces.end() ? SpaceId(known - spaces.begin()) : add_space(space, *allocator));
  }
  of_ep.push_back(std::move(own));
  transfers.push_back(provider.transfer());
  has_stream.push_back(streams);
}

SpaceId SpaceTable::add_space(const MemorySpace& space, DeviceAllocator& allocator) {
  allocators.push_back(&allocator);
  handles.push_back(allocator.gives_handles());
  return spaces.push_back(space);
}

void SpaceTable::add_neighbour(std::shared_ptr<DeviceAllocator> allocator) {
  const MemorySpace& space = allocator->space();
  const MemorySpace& host = spaces[kHostSpace];
  if (host_can_address(space) || find(space).valid() || mover(space, host) <= kCpuEp || mover(host, space) <= kCpuEp)
    return;
  add_space(space, *allocator);
  neighbours.push_back(std::move(allocator));
}

SpaceId SpaceTable::find(const MemorySpace& space) const {
  for (SpaceId id : spaces.ids()) {
    if (same_memory(spaces[id], space)) return id;
  }
  return host_can_address(space) ? kHostSpace : SpaceId::none();
}

EpId SpaceTable::mover(const MemorySpace& src, const MemorySpace& dst) const {
  if (host_can_address(src) && host_can_address(dst)) return kCpuEp;
  for (EpId ep : transfers.ids()) {
    if (transfers[ep] != nullptr && transfers[ep]->can_copy(src, dst)) return ep;
  }
  return EpId::none();
}

Result<SpaceId> SpaceTable::choice(const DeviceProvider& provider, EpId ep, AllocatorId allocator) const {
  if (!allocator.valid()) return kHostSpace;
  const IdVector<AllocatorId, SpaceId>& own = of_ep[ep];
  if (!own.contains(allocator)) {
    return device_error("The EP \"{}\" wants a tensor in memory of its allocator {}, but it has {}.", provider.name(),
                        allocator.value(), own.size());
  }
  return own[allocator];
}

Result<SpaceChoice> chosen_spaces(const DeviceProvider& provider, const KernelNode& node) {
  SpaceChoice choice = provider.choose_spaces(node);
  if (choice.inputs.size() != node.inputs.size() || choice.outputs.size() != node.outputs.size()) {
    return device_error("The EP \"{}\" chose spaces for {} inputs and {} outputs of {}, which has {} and {}.",
                        provider.name(), choice.inputs.size(), choice.outputs.size(), node.node->label(*node.graph),
                        node.inputs.size(), node.outputs.size());
  }
  return choice;
}

}  // namespace tenon
