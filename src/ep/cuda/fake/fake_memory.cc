// Memory of the fake driver: the device's, pinned and registered host memory, copies.
#include <cstring>

#include "ep/cuda/fake/fake_system.h"

namespace tenon::cuda::fake {

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kKeptFreed = 4096;  // addresses that stay inaccessible

size_t pages(size_t size_bytes) { return (size_bytes + kPage - 1) / kPage * kPage; }
int device_of(CUcontext primary) { return static_cast<int>(reinterpret_cast<uintptr_t>(primary)) - 1; }
bool counts_as_device(Region::Kind kind) { return kind == Region::Kind::kDevice; }

}  // namespace

Region* find_region(uintptr_t address, size_t size_bytes) {
  auto& regions = state().regions;
  auto after = regions.upper_bound(address);
  if (after == regions.begin()) return nullptr;
  --after;
  return address + size_bytes <= after->first + after->second.size_bytes ? &after->second : nullptr;
}

bool was_freed(uintptr_t address, size_t size_bytes) {
  auto after = state().freed.upper_bound(address + (size_bytes > 0 ? size_bytes - 1 : 0));
  if (after == state().freed.begin()) return false;
  --after;
  return address < after->first + after->second;
}

uintptr_t add_memory(Region::Kind kind, size_t size_bytes) {
  State& all = state();
  if (counts_as_device(kind) && all.device_bytes + size_bytes > all.config.memory_bytes) return 0;
  void* memory = map_pages(size_bytes);
  if (memory == nullptr) return 0;
  // NaN in f16, bf16 and f32; of a large block the beginning, because the fake has no gigabytes.
  auto* words = static_cast<uint16_t*>(memory);
  for (size_t i = 0; i < std::min<size_t>(size_bytes, size_t{1} << 20) / 2; ++i) words[i] = 0xFFA5;
  const auto address = reinterpret_cast<uintptr_t>(memory);
  all.freed.erase(address);
  all.regions[address] = {.kind = kind, .size_bytes = size_bytes, .context = current_context()};
  if (counts_as_device(kind)) all.device_bytes += size_bytes;
  return address;
}

void remove_memory(uintptr_t address) {
  State& all = state();
  const auto found = all.regions.find(address);
  if (found == all.regions.end()) return;
  const size_t size_bytes = found->second.size_bytes;
  if (counts_as_device(found->second.kind)) all.device_bytes -= size_bytes;
  all.regions.erase(found);
  void* const memory = reinterpret_cast<void*>(address);
  if (all.freed.size() >= kKeptFreed) {
    unmap_pages(memory, size_bytes);
    return;
  }
  make_inaccessible(memory, size_bytes);
  all.freed[address] = pages(size_bytes);
}

namespace {

CUresult allocate(CUdeviceptr* out, size_t size_bytes) {
  if (size_bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(state().mutex);
  const uintptr_t address = add_memory(Region::Kind::kDevice, size_bytes);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = address;
  return CUDA_SUCCESS;
}

// Marks a block as being freed; a second time is a violation.
CUresult begin_free(CUdeviceptr address, Region::Kind kind, const char* function) {
  {
    const std::lock_guard lock(state().mutex);
    const auto found = state().regions.find(address);
    if (found != state().regions.end() && found->second.kind == kind && !found->second.free_queued) {
      found->second.free_queued = true;
      return CUDA_SUCCESS;
    }
  }
  violation(format("{} gets {:#x}, which is no live allocation of its kind.", function, address));
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI mem_alloc(CUdeviceptr* out, size_t size_bytes) {
  TENON_FAKE_CONTEXT("cuMemAlloc");
  return allocate(out, size_bytes);
}

CUresult CUDAAPI mem_free_host(void* memory) {
  TENON_FAKE_CONTEXT("cuMemFreeHost");
  expect_no_foreign_waits("cuMemFreeHost");
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const CUresult begun = begin_free(address, Region::Kind::kPinned, "cuMemFreeHost");
  if (begun != CUDA_SUCCESS) return begun;
  const std::lock_guard lock(state().mutex);
  remove_memory(address);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI pool_create(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  TENON_FAKE_CONTEXT("cuMemPoolCreate");
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  auto* made = new char;
  const std::lock_guard lock(state().mutex);
  state().pools.insert(made);
  *pool = reinterpret_cast<CUmemoryPool>(made);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI pool_destroy(CUmemoryPool pool) {
  TENON_FAKE_CONTEXT("cuMemPoolDestroy");
  const std::lock_guard lock(state().mutex);
  if (state().pools.erase(pool) == 0) return CUDA_ERROR_INVALID_VALUE;
  delete reinterpret_cast<char*>(pool);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI pool_set_attribute(CUmemoryPool, CUmemPool_attribute, void*) {
  TENON_FAKE_CONTEXT("cuMemPoolSetAttribute");
  return CUDA_SUCCESS;
}

CUresult CUDAAPI pool_trim(CUmemoryPool, size_t) {
  TENON_FAKE_CONTEXT("cuMemPoolTrimTo");
  return CUDA_SUCCESS;
}

CUresult CUDAAPI alloc_from_pool(CUdeviceptr* out, size_t size_bytes, CUmemoryPool pool, CUstream stream) {
  TENON_FAKE_CONTEXT("cuMemAllocFromPoolAsync");
  if (find_stream(stream) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  {
    const std::lock_guard lock(state().mutex);
    if (!state().pools.contains(pool)) return CUDA_ERROR_INVALID_VALUE;
  }
  return allocate(out, size_bytes);
}

CUresult CUDAAPI free_async(CUdeviceptr address, CUstream stream) {
  TENON_FAKE_CONTEXT("cuMemFreeAsync");
  const auto queue = find_stream(stream);
  if (queue == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult begun = begin_free(address, Region::Kind::kDevice, "cuMemFreeAsync");
  if (begun != CUDA_SUCCESS) return begun;
  queue->queue(
      [address] {
        const std::lock_guard lock(state().mutex);
        remove_memory(address);
        return CUDA_SUCCESS;
      },
      true);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI get_info(size_t* free_bytes, size_t* total_bytes) {
  TENON_FAKE_CONTEXT("cuMemGetInfo");
  const std::lock_guard lock(state().mutex);
  *total_bytes = state().config.memory_bytes;
  *free_bytes = *total_bytes - std::min(*total_bytes, state().device_bytes);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI host_alloc(void** out, size_t size_bytes, unsigned) {
  TENON_FAKE_CONTEXT("cuMemHostAlloc");
  const std::lock_guard lock(state().mutex);
  const uintptr_t address = add_memory(Region::Kind::kPinned, size_bytes);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = reinterpret_cast<void*>(address);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI host_register(void* memory, size_t size_bytes, unsigned) {
  TENON_FAKE_CONTEXT("cuMemHostRegister");
  const auto first = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t begin = first / kPage * kPage;
  const uintptr_t end = (first + size_bytes + kPage - 1) / kPage * kPage;
  if (size_bytes == 0 || !is_mapped(reinterpret_cast<void*>(begin), end - begin))
    return CUDA_ERROR_INVALID_VALUE;  // not mapped
  const std::lock_guard lock(state().mutex);
  auto next = state().regions.lower_bound(end);
  while (next != state().regions.begin()) {
    --next;
    if (next->first + next->second.size_bytes <= begin) break;
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  state().regions[begin] = {.kind = Region::Kind::kRegistered, .size_bytes = end - begin};
  return CUDA_SUCCESS;
}

CUresult CUDAAPI host_unregister(void* memory) {
  TENON_FAKE_CONTEXT("cuMemHostUnregister");
  expect_no_foreign_waits("cuMemHostUnregister");
  const auto address = reinterpret_cast<uintptr_t>(memory) / kPage * kPage;
  const std::lock_guard lock(state().mutex);
  const auto found = state().regions.find(address);
  if (found == state().regions.end() || found->second.kind != Region::Kind::kRegistered)
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  state().regions.erase(found);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI host_device_pointer(CUdeviceptr* out, void* memory, unsigned) {
  TENON_FAKE_CONTEXT("cuMemHostGetDevicePointer");
  const std::lock_guard lock(state().mutex);
  const Region* region = find_region(reinterpret_cast<uintptr_t>(memory), 1);
  if (region == nullptr || (region->kind != Region::Kind::kPinned && region->kind != Region::Kind::kRegistered))
    return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<uintptr_t>(memory);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI address_range(CUdeviceptr* base, size_t* size_bytes, CUdeviceptr address) {
  TENON_FAKE_CONTEXT("cuMemGetAddressRange");
  const std::lock_guard lock(state().mutex);
  auto after = state().regions.upper_bound(address);
  if (after == state().regions.begin() || find_region(address, 1) == nullptr) return CUDA_ERROR_NOT_FOUND;
  --after;
  *base = after->first;
  *size_bytes = after->second.size_bytes;
  return CUDA_SUCCESS;
}

// No call of the EP's, but of programs that are given an address alone.
CUresult CUDAAPI pointer_attribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  TENON_FAKE_ENTER("cuPointerGetAttribute");
  const std::lock_guard lock(state().mutex);
  const Region* const region = find_region(address, 1);
  if (region == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool on_host = region->kind == Region::Kind::kPinned || region->kind == Region::Kind::kRegistered;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned int*>(value) = on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned int*>(value) = 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(value) = region->context == nullptr ? 0 : device_of(region->context);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult CUDAAPI copy_async(CUdeviceptr dst, CUdeviceptr src, size_t size_bytes, CUstream stream) {
  TENON_FAKE_CONTEXT("cuMemcpyAsync");
  const auto queue = find_stream(stream);
  if (queue == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  bool src_pageable = false, dst_pageable = false;
  {
    const std::lock_guard lock(state().mutex);
    src_pageable = find_region(src, size_bytes) == nullptr && !was_freed(src, size_bytes);
    dst_pageable = find_region(dst, size_bytes) == nullptr && !was_freed(dst, size_bytes);
  }
  // As the driver does with memory that is not locked: what is read is read before the call returns, and what is
  // written is there when it returns.
  std::shared_ptr<std::vector<char>> staged;
  if (src_pageable)
    staged = std::make_shared<std::vector<char>>(reinterpret_cast<const char*>(src),
                                                 reinterpret_cast<const char*>(src) + size_bytes);
  queue->queue([=] {
    {
      const std::lock_guard lock(state().mutex);
      if ((staged == nullptr && was_freed(src, size_bytes)) || was_freed(dst, size_bytes))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    std::memmove(reinterpret_cast<void*>(dst),
                 staged != nullptr ? static_cast<const void*>(staged->data()) : reinterpret_cast<const void*>(src),
                 size_bytes);
    return CUDA_SUCCESS;
  });
  if (dst_pageable) queue->synchronize();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI copy_to_device(CUdeviceptr dst, const void* src, size_t size_bytes, CUstream stream) {
  return copy_async(dst, reinterpret_cast<uintptr_t>(src), size_bytes, stream);
}

CUresult CUDAAPI copy_peer(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context,
                           size_t size_bytes, CUstream stream) {
  TENON_FAKE_CONTEXT("cuMemcpyPeerAsync");
  if (dst_context == nullptr || src_context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  {
    const std::lock_guard lock(state().mutex);
    for (const auto& [address, context] : {std::pair(dst, dst_context), std::pair(src, src_context)}) {
      const Region* region = find_region(address, size_bytes);
      if (region == nullptr || (region->context != nullptr && region->context != context))
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return copy_async(dst, src, size_bytes, stream);
}

CUresult CUDAAPI memset8(CUdeviceptr dst, unsigned char value, size_t count, CUstream stream) {
  TENON_FAKE_CONTEXT("cuMemsetD8Async");
  const auto queue = find_stream(stream);
  if (queue == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  queue->queue([=] {
    {
      const std::lock_guard lock(state().mutex);
      if (was_freed(dst, count)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    std::memset(reinterpret_cast<void*>(dst), value, count);
    return CUDA_SUCCESS;
  });
  return CUDA_SUCCESS;
}

}  // namespace

void add_memory_functions(Table& table) {
  add_function(table, "cuMemAlloc", &mem_alloc);
  add_function(table, "cuMemFreeHost", &mem_free_host);
  add_function(table, "cuMemPoolCreate", &pool_create);
  add_function(table, "cuMemPoolDestroy", &pool_destroy);
  add_function(table, "cuMemPoolSetAttribute", &pool_set_attribute);
  add_function(table, "cuMemPoolTrimTo", &pool_trim);
  add_function(table, "cuMemAllocFromPoolAsync", &alloc_from_pool);
  add_function(table, "cuMemFreeAsync", &free_async);
  add_function(table, "cuMemGetInfo", &get_info);
  add_function(table, "cuMemHostAlloc", &host_alloc);
  add_function(table, "cuMemHostRegister", &host_register);
  add_function(table, "cuMemHostUnregister", &host_unregister);
  add_function(table, "cuMemHostGetDevicePointer", &host_device_pointer);
  add_function(table, "cuMemGetAddressRange", &address_range);
  add_function(table, "cuPointerGetAttribute", &pointer_attribute);
  add_function(table, "cuMemcpyAsync", &copy_async);
  add_function(table, "cuMemcpyHtoDAsync", &copy_to_device);
  add_function(table, "cuMemcpyPeerAsync", &copy_peer);
  add_function(table, "cuMemsetD8Async", &memset8);
}

int64_t live_objects() {
  const std::lock_guard lock(state().mutex);
  const State& all = state();
  return static_cast<int64_t>(all.regions.size() + all.streams.size() + all.events.size() + all.pools.size()) +
         all.graphs;
}

}  // namespace tenon::cuda::fake
