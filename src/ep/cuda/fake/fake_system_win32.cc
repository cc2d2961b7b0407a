#include <windows.h>

#include "ep/cuda/fake/fake_system.h"

namespace tenon::cuda::fake {

namespace {

HANDLE native(MemoryObject object) { return reinterpret_cast<HANDLE>(object); }

}  // namespace

void* map_pages(size_t size_bytes) {
  return ::VirtualAlloc(nullptr, size_bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void make_inaccessible(void* pages, size_t size_bytes) { (void)::VirtualFree(pages, size_bytes, MEM_DECOMMIT); }

void unmap_pages(void* pages, size_t) { (void)::VirtualFree(pages, 0, MEM_RELEASE); }

bool is_mapped(const void* pages, size_t size_bytes) {
  const auto end = reinterpret_cast<uintptr_t>(pages) + size_bytes;
  for (auto at = reinterpret_cast<uintptr_t>(pages); at < end;) {
    MEMORY_BASIC_INFORMATION info;
    if (::VirtualQuery(reinterpret_cast<const void*>(at), &info, sizeof(info)) == 0 || info.State != MEM_COMMIT ||
        (info.Protect & (PAGE_NOACCESS | PAGE_GUARD)) != 0)
      return false;
    at = reinterpret_cast<uintptr_t>(info.BaseAddress) + info.RegionSize;
  }
  return true;
}

MemoryObject make_object(size_t size_bytes) {
  const HANDLE section =
      ::CreateFileMappingW(INVALID_HANDLE_VALUE, nullptr, PAGE_READWRITE, static_cast<DWORD>(size_bytes >> 32),
                           static_cast<DWORD>(size_bytes), nullptr);
  return section != nullptr ? reinterpret_cast<MemoryObject>(section) : -1;
}

MemoryObject duplicate_object(MemoryObject object) {
  HANDLE copy = nullptr;
  const HANDLE process = ::GetCurrentProcess();
  if (::DuplicateHandle(process, native(object), process, &copy, 0, FALSE, DUPLICATE_SAME_ACCESS) == 0) return -1;
  return reinterpret_cast<MemoryObject>(copy);
}

void close_object(MemoryObject object) { (void)::CloseHandle(native(object)); }

void* map_object(MemoryObject object, size_t size_bytes) {
  return ::MapViewOfFile(native(object), FILE_MAP_READ | FILE_MAP_WRITE, 0, 0, size_bytes);
}

void unmap_object(void* address, size_t) { (void)::UnmapViewOfFile(address); }

MemoryObject object_of_fd(int) { return -1; }
size_t object_size(MemoryObject) { return 0; }
uint64_t object_identity(MemoryObject) { return 0; }

// The section's own handle is what a graphics API would give out.
void* make_handle_of(MemoryObject object) { return native(object); }
void* make_handle_of_fence() { return ::CreateEventW(nullptr, TRUE, FALSE, nullptr); }

bool handle_is_open(void* handle) {
  DWORD flags = 0;
  return ::GetHandleInformation(handle, &flags) != 0;
}

void close_handle(void* handle) { (void)::CloseHandle(handle); }

MemoryObject open_handle(void* handle, MemoryObject) {
  return duplicate_object(reinterpret_cast<MemoryObject>(handle));
}

// This system's driver shares by NT handles alone.
void add_system_functions(Table&) {}

}  // namespace tenon::cuda::fake
