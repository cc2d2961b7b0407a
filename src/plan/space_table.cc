#include "plan/space_table.h"

#include <algorithm>

#include "device/memory_space.h"

namespace tenon {

void SpaceTable::add(DeviceProvider& provider, bool streams) {
  std::vector<int32_t>& own = of_provider.emplace_back();
  for (const auto& allocator : provider.allocators()) {
    MemorySpace space = allocator->space();
    space.alignment = std::max(space.alignment, provider.binding_alignment());
    // Plain host memory is the runtime's own, whoever else offers it.
    int32_t index = same_memory(space, MemorySpace{}) ? 0 : -1;
    for (size_t i = 1; index < 0 && i < spaces.size(); ++i) {
      if (spaces[i] == space) index = static_cast<int32_t>(i);
    }
    if (index < 0) {
      index = static_cast<int32_t>(spaces.size());
      spaces.push_back(space);
      allocators.push_back(allocator.get());
      handles.push_back(allocator->gives_handles());
    }
    own.push_back(index);
  }
  transfers.push_back(provider.transfer());
  has_stream.push_back(streams);
}

void SpaceTable::add_neighbour(std::shared_ptr<DeviceAllocator> allocator) {
  const MemorySpace& space = allocator->space();
  const MemorySpace& host = spaces[0];
  if (host_can_address(space) || find(space) >= 0 || mover(space, host) <= 0 || mover(host, space) <= 0) return;
  spaces.push_back(space);
  allocators.push_back(allocator.get());
  handles.push_back(allocator->gives_handles());
  neighbours.push_back(std::move(allocator));
}

int32_t SpaceTable::find(const MemorySpace& space) const {
  for (size_t i = 0; i < spaces.size(); ++i) {
    if (same_memory(spaces[i], space)) return static_cast<int32_t>(i);
  }
  return host_can_address(space) ? 0 : -1;
}

int32_t SpaceTable::mover(const MemorySpace& src, const MemorySpace& dst) const {
  if (host_can_address(src) && host_can_address(dst)) return 0;
  for (size_t i = 0; i < transfers.size(); ++i) {
    if (transfers[i] != nullptr && transfers[i]->can_copy(src, dst)) return static_cast<int32_t>(i) + 1;
  }
  return -1;
}

Result<int32_t> SpaceTable::choice(const DeviceProvider& provider, int32_t number, int32_t index) const {
  if (index == kHostSpace) return 0;
  const std::vector<int32_t>& own = of_provider[static_cast<size_t>(number - 1)];
  if (index < 0 || static_cast<size_t>(index) >= own.size()) {
    return device_error("The EP \"{}\" wants a tensor in memory of its allocator {}, but it has {}.", provider.name(),
                        index, own.size());
  }
  return own[static_cast<size_t>(index)];
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
