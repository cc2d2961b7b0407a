#include "plan/place_table.h"

#include <algorithm>

#include "device/place.h"

namespace tenon {

void PlaceTable::add(DeviceProvider& provider, bool streams) {
  std::vector<int32_t>& own = of_provider.emplace_back();
  for (const auto& allocator : provider.allocators()) {
    MemoryPlace place = allocator->place();
    place.alignment = std::max(place.alignment, provider.binding_alignment());
    // Plain host memory is the runtime's own, whoever else offers it.
    int32_t index = same_memory(place, MemoryPlace{}) ? 0 : -1;
    for (size_t i = 1; index < 0 && i < places.size(); ++i) {
      if (places[i] == place) index = static_cast<int32_t>(i);
    }
    if (index < 0) {
      index = static_cast<int32_t>(places.size());
      places.push_back(place);
      allocators.push_back(allocator.get());
      handles.push_back(allocator->gives_handles());
    }
    own.push_back(index);
  }
  transfers.push_back(provider.transfer());
  has_stream.push_back(streams);
}

void PlaceTable::add_neighbour(std::shared_ptr<DeviceAllocator> allocator) {
  const MemoryPlace& place = allocator->place();
  const MemoryPlace& host = places[0];
  if (host_can_address(place) || find(place) >= 0 || mover(place, host) <= 0 || mover(host, place) <= 0) return;
  places.push_back(place);
  allocators.push_back(allocator.get());
  handles.push_back(allocator->gives_handles());
  neighbours.push_back(std::move(allocator));
}

int32_t PlaceTable::find(const MemoryPlace& place) const {
  for (size_t i = 0; i < places.size(); ++i) {
    if (same_memory(places[i], place)) return static_cast<int32_t>(i);
  }
  return host_can_address(place) ? 0 : -1;
}

int32_t PlaceTable::mover(const MemoryPlace& src, const MemoryPlace& dst) const {
  if (host_can_address(src) && host_can_address(dst)) return 0;
  for (size_t i = 0; i < transfers.size(); ++i) {
    if (transfers[i] != nullptr && transfers[i]->can_copy(src, dst)) return static_cast<int32_t>(i) + 1;
  }
  return -1;
}

Result<int32_t> PlaceTable::choice(const DeviceProvider& provider, int32_t number, int32_t index) const {
  if (index == kHostPlace) return 0;
  const std::vector<int32_t>& own = of_provider[static_cast<size_t>(number - 1)];
  if (index < 0 || static_cast<size_t>(index) >= own.size()) {
    return device_error("The EP \"{}\" wants a tensor in memory of its allocator {}, but it has {}.", provider.name(),
                        index, own.size());
  }
  return own[static_cast<size_t>(index)];
}

Result<PlaceChoice> chosen_places(const DeviceProvider& provider, const KernelNode& node) {
  PlaceChoice choice = provider.choose_places(node);
  if (choice.inputs.size() != node.inputs.size() || choice.outputs.size() != node.outputs.size()) {
    return device_error("The EP \"{}\" chose places for {} inputs and {} outputs of {}, which has {} and {}.",
                        provider.name(), choice.inputs.size(), choice.outputs.size(), node.node->label(*node.graph),
                        node.inputs.size(), node.outputs.size());
  }
  return choice;
}

}  // namespace tenon
