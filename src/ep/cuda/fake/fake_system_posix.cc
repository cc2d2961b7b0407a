#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <set>
#include <vector>

#include "ep/cuda/fake/fake_system.h"

namespace tenon::cuda::fake {

namespace {

constexpr size_t kPage = 4096;

size_t whole_pages(size_t size_bytes) { return (size_bytes + kPage - 1) / kPage * kPage; }

// Stand-ins for NT handles: numbers that are open until they are closed.
struct Handles {
  std::mutex mutex;
  std::set<void*> open;
  uintptr_t last = 0x4E540000;
};
Handles& handles() {
  static Handles* const all = new Handles;
  return *all;
}

void* make_handle() {
  Handles& all = handles();
  const std::lock_guard lock(all.mutex);
  void* const handle = reinterpret_cast<void*>(all.last += 4);
  all.open.insert(handle);
  return handle;
}

}  // namespace

void* map_pages(size_t size_bytes) {
  void* pages = ::mmap(nullptr, whole_pages(size_bytes), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return pages != MAP_FAILED ? pages : nullptr;
}

void make_inaccessible(void* pages, size_t size_bytes) {
  (void)::mmap(pages, whole_pages(size_bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
               0);
}

void unmap_pages(void* pages, size_t size_bytes) { (void)::munmap(pages, whole_pages(size_bytes)); }

bool is_mapped(const void* pages, size_t size_bytes) {
  std::vector<unsigned char> resident(whole_pages(size_bytes) / kPage);
  return ::mincore(const_cast<void*>(pages), size_bytes, resident.data()) == 0;
}

MemoryObject make_object(size_t size_bytes) {
  const int fd = ::memfd_create("fake-cuda", MFD_CLOEXEC);
  if (fd >= 0 && ::ftruncate(fd, static_cast<off_t>(size_bytes)) != 0) return ::close(fd), -1;
  return fd;
}

MemoryObject duplicate_object(MemoryObject object) { return ::fcntl(static_cast<int>(object), F_DUPFD_CLOEXEC, 0); }

void close_object(MemoryObject object) { (void)::close(static_cast<int>(object)); }

void* map_object(MemoryObject object, size_t size_bytes) {
  void* pages = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, static_cast<int>(object), 0);
  return pages != MAP_FAILED ? pages : nullptr;
}

void unmap_object(void* address, size_t size_bytes) { (void)::munmap(address, size_bytes); }

MemoryObject object_of_fd(int fd) { return fd; }

size_t object_size(MemoryObject object) {
  struct stat about;
  return ::fstat(static_cast<int>(object), &about) == 0 && S_ISREG(about.st_mode) ? about.st_size : 0;
}

uint64_t object_identity(MemoryObject object) {
  struct stat about;
  return ::fstat(static_cast<int>(object), &about) == 0 ? about.st_ino : 0;
}

void* make_handle_of(MemoryObject) { return make_handle(); }
void* make_handle_of_fence() { return make_handle(); }

bool handle_is_open(void* handle) {
  const std::lock_guard lock(handles().mutex);
  return handles().open.contains(handle);
}

void close_handle(void* handle) {
  const std::lock_guard lock(handles().mutex);
  handles().open.erase(handle);
}

MemoryObject open_handle(void* handle, MemoryObject object) {
  return handle_is_open(handle) ? duplicate_object(object) : -1;
}

}  // namespace tenon::cuda::fake
