#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/system.h"

#include "graph/mapped_file.h"
#include "graph/paths.h"

namespace tenon {

namespace {

// Closes the descriptor on every way out: the mapping does not need it.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: opening a named pipe must not wait for its writer.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return file_error("open", path, errno);
  struct stat info;
  if (::fstat(file.fd, &info) != 0) return file_error("fstat", path, errno);
  TENON_INVALID_IF(!S_ISREG(info.st_mode), "\"{}\" is not a regular file.", path);
  const size_t size = info.st_size;
  if (size == 0) return std::shared_ptr<const MappedFile>(new MappedFile({}, true));
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (memory == MAP_FAILED) return file_error("mmap", path, errno);
  return std::shared_ptr<const MappedFile>(new MappedFile({static_cast<const std::byte*>(memory), size}, true));
}

Result<std::shared_ptr<const MappedFile>> MappedFile::copy(std::span<const std::byte> bytes) {
  if (bytes.empty()) return std::shared_ptr<const MappedFile>(new MappedFile({}, false));
  void* memory = ::mmap(nullptr, bytes.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return resource_exhausted("There is no memory for {} bytes.", bytes.size());
  std::memcpy(memory, bytes.data(), bytes.size());
  return std::shared_ptr<const MappedFile>(
      new MappedFile({static_cast<const std::byte*>(memory), bytes.size()}, false));
}

void MappedFile::drop_pages() const {
  // A refusal only means that the pages stay.
  if (is_file_ && !bytes_.empty()) (void)::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
}

void drop_file_pages(std::span<const std::byte> bytes) {
  const size_t page = page_bytes();
  const auto first = reinterpret_cast<uintptr_t>(bytes.data());
  const auto begin = (first + page - 1) / page * page, end = (first + bytes.size()) / page * page;
  // A refusal only means that the pages stay.
  if (begin < end) (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace tenon
