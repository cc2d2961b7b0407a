#include "device/place.h"

namespace tenon {

namespace {

bool same_device(const MemoryPlace& a, const MemoryPlace& b) {
  return a.device_type == b.device_type && a.vendor_id == b.vendor_id && a.device_id == b.device_id;
}

bool is_host_accessible(const MemoryPlace& place) { return place.kind == MemoryKind::kHostAccessible || place.unified; }

bool is_cpu_memory(const MemoryPlace& place) {
  return place.device_type == DeviceType::kCpu || is_host_accessible(place);
}

}  // namespace

bool same_memory(const MemoryPlace& a, const MemoryPlace& b) { return same_device(a, b) && a.kind == b.kind; }

bool host_can_address(const MemoryPlace& place) { return is_cpu_memory(place); }

bool devices_are_memory_compatible(const MemoryPlace& source, const MemoryPlace& target) {
  if (source.alignment < target.alignment) return false;
  const bool same = same_device(source, target);
  if (same && source.kind == target.kind) return true;
  if (target.device_type == DeviceType::kCpu && target.kind == MemoryKind::kDefault) return is_cpu_memory(source);
  if (target.kind == MemoryKind::kHostAccessible) return same && is_cpu_memory(source);
  return same && is_host_accessible(source);
}

}  // namespace tenon
