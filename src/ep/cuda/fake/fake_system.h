// Pages and shared memory objects of the fake driver, by the system's means: fake_system_posix.cc,
// fake_system_win32.cc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ep/cuda/fake/fake_state.h"

namespace tenon::cuda::fake {

// Fresh pages of zeros, read and written; null when there are none.
void* map_pages(size_t size_bytes);
// The addresses stay taken, and whoever uses them faults.
void make_inaccessible(void* pages, size_t size_bytes);
void unmap_pages(void* pages, size_t size_bytes);
// True when all of it is memory of this process.
bool is_mapped(const void* pages, size_t size_bytes);

// A memory object that several mappings share: a memfd, or a section. -1 is none.
using MemoryObject = intptr_t;
MemoryObject make_object(size_t size_bytes);
MemoryObject duplicate_object(MemoryObject object);
void close_object(MemoryObject object);
void* map_object(MemoryObject object, size_t size_bytes);  // null when that fails
void unmap_object(void* address, size_t size_bytes);
// The object behind a file descriptor; -1 where fds name none.
MemoryObject object_of_fd(int fd);
// 0 where the object does not tell.
size_t object_size(MemoryObject object);
// Which object an fd names, so that one that was closed and taken again is found out.
uint64_t object_identity(MemoryObject object);

// An NT handle as the system gives them out, or a stand-in where it has none.
void* make_handle_of(MemoryObject object);
void* make_handle_of_fence();
bool handle_is_open(void* handle);
void close_handle(void* handle);
// An object of the driver's own behind a caller's handle; -1 when the handle is closed.
MemoryObject open_handle(void* handle, MemoryObject object);

// Adds the functions that only one kind of system has: virtual memory by fds, and IPC.
void add_system_functions(Table& table);

}  // namespace tenon::cuda::fake
