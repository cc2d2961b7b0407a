#include "device/memory_space.h"

namespace tenon {

namespace {

bool same_device(const MemorySpace& a, const MemorySpace& b) {
  return a.device_type == b.device_type && a.vendor_id == b.vendor_id && a.device_id == b.device_id;
}

bool is_host_accessible(const MemorySpace& space) { return space.kind == MemoryKind::kHostAccessible || space.unified; }

bool is_cpu_memory(const MemorySpace& space) {
  return space.device_type == DeviceType::kCpu || is_host_accessible(space);
}

}  // namespace

bool same_memory(const MemorySpace& a, const MemorySpace& b) { return same_device(a, b) && a.kind == b.kind; }

bool host_can_address(const MemorySpace& space) { return is_cpu_memory(space); }

bool devices_are_memory_compatible(const MemorySpace& source, const MemorySpace& target) {
  if (source.alignment < target.alignment) return false;
  const bool same = same_device(source, target);
  if (same && source.kind == target.kind) return true;
  if (target.device_type == DeviceType::kCpu && target.kind == MemoryKind::kDefault) return is_cpu_memory(source);
  if (target.kind == MemoryKind::kHostAccessible) return same && is_cpu_memory(source);
  return same && is_host_accessible(source);
}

}  // namespace tenon
