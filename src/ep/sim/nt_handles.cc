#include "ep/sim/nt_handles.h"

#include <cstdlib>
#include <map>
#include <new>

#include "base/guarded.h"
#include "ep/sim/sim_counters.h"

namespace tenon::sim {

namespace {

constexpr size_t kPageBytes = 4096;

struct Table {
  std::map<uint64_t, NtObject> handles;
  uint64_t next = 0x100;
};

Guarded<Table>& table() {
  static Guarded<Table> handles;
  return handles;
}

uint64_t add(NtObject object) {
  auto handles = table().lock();
  const uint64_t handle = handles->next;
  handles->next += 4;  // as Windows numbers them; never used again, so that a stale one is seen
  handles->handles.emplace(handle, std::move(object));
  ++counters().nt_handles;
  return handle;
}

}  // namespace

Result<uint64_t> nt_create_memory(size_t size_bytes) {
  TENON_INVALID_IF(size_bytes == 0 || size_bytes > (size_t{1} << 40), "Memory of {} bytes is asked for.", size_bytes);
  const size_t rounded = (size_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  auto* bytes = static_cast<std::byte*>(std::aligned_alloc(kPageBytes, rounded));
  if (bytes == nullptr) return resource_exhausted("{} bytes of host memory are not to be had.", size_bytes);
  std::shared_ptr<std::byte> memory(bytes, [](std::byte* p) { std::free(p); });
  return add({.memory = std::move(memory), .size_bytes = size_bytes});
}

Result<uint64_t> nt_create_fence(uint64_t initial_value) {
  TENON_TRY_ASSIGN(std::shared_ptr<Timeline> fence, make_host_timeline("nt fence", initial_value));
  return add({.fence = std::move(fence)});
}

Result<NtObject> nt_open(uint64_t handle) {
  auto handles = table().lock();
  const auto found = handles->handles.find(handle);
  TENON_INVALID_IF(found == handles->handles.end(), "NT handle {:#x} is not open.", handle);
  return found->second;
}

Result<uint64_t> nt_duplicate(uint64_t handle) {
  TENON_TRY_ASSIGN(NtObject object, nt_open(handle));
  return add(std::move(object));
}

Status nt_close(uint64_t handle) {
  NtObject object;  // destroyed outside of the lock
  auto handles = table().lock();
  const auto found = handles->handles.find(handle);
  TENON_INVALID_IF(found == handles->handles.end(), "NT handle {:#x} is not open.", handle);
  object = std::move(found->second);
  handles->handles.erase(found);
  --counters().nt_handles;
  return Status();
}

}  // namespace tenon::sim
