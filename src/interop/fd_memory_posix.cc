#include "interop/fd_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>

#include "base/checked.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/status.h"

namespace tenon {

const bool kFdsShareMemory = true;

namespace {

// Pages that hold a range; the range itself may begin anywhere in the first one.
class PageMapping {
 public:
  PageMapping() = default;
  PageMapping(PageMapping&& other) noexcept
      : pages_(std::exchange(other.pages_, nullptr)), size_bytes_(other.size_bytes_), skip_bytes_(other.skip_bytes_) {}
  PageMapping& operator=(PageMapping&&) = delete;
  ~PageMapping() {
    if (pages_ != nullptr) ::munmap(pages_, size_bytes_);
  }

  static Result<PageMapping> map(int fd, const ExternalMemoryDescriptor& descriptor, const std::string& what) {
    const size_t page_bytes = ::sysconf(_SC_PAGESIZE);
    PageMapping mapping;
    mapping.skip_bytes_ = descriptor.offset_bytes % page_bytes;
    const auto size_bytes = checked_add(descriptor.size_bytes, mapping.skip_bytes_);
    TENON_INVALID_IF(!size_bytes, "Size ({}) of {} wraps around.", descriptor.size_bytes, what);
    mapping.size_bytes_ = *size_bytes;
    TENON_FAULT_POINT("mmap");
    void* pages = ::mmap(nullptr, mapping.size_bytes_, PROT_READ | (descriptor.writable ? PROT_WRITE : 0), MAP_SHARED,
                         fd, static_cast<off_t>(descriptor.offset_bytes - mapping.skip_bytes_));
    if (pages == MAP_FAILED) return failed(errno, fd, what);
    mapping.pages_ = pages;
    return mapping;
  }

  void* data() const { return static_cast<std::byte*>(pages_) + skip_bytes_; }

 private:
  static Status failed(int error, int fd, const std::string& what) {
    const std::string text = errno_text("mmap", error);
    if (error == ENODEV) return unsupported("File descriptor {} of {} cannot be mapped: {}.", fd, what, text);
    if (error == ENOMEM) return resource_exhausted("File descriptor {} of {} cannot be mapped: {}.", fd, what, text);
    if (error == EPERM)
      return invalid_argument("File descriptor {} of {} is sealed against writing: {}.", fd, what, text);
    return invalid_argument("File descriptor {} of {} cannot be mapped: {}.", fd, what, text);
  }

  void* pages_ = nullptr;
  size_t size_bytes_ = 0;
  size_t skip_bytes_ = 0;
};

class FdMemory final : public ExternalMemory {
 public:
  FdMemory(const ExternalMemoryDescriptor& descriptor, OwnedHandle handle, PageMapping mapping, std::string what)
      : descriptor_(descriptor), handle_(std::move(handle)), mapping_(std::move(mapping)), what_(std::move(what)) {}

  void* data() const override { return mapping_.data(); }
  size_t size_bytes() const override { return descriptor_.size_bytes; }
  ExternalMemoryKind kind() const override { return descriptor_.kind; }
  const std::string& name() const override { return descriptor_.name; }
  bool writable() const override { return descriptor_.writable; }

  Status check() const override {
    TENON_TRY_ASSIGN(const FdObject object, query_fd_object(handle_.fd(), what_));
    if (object.size_bytes < descriptor_.offset_bytes + descriptor_.size_bytes)
      return device_lost("The object behind {} was cut to {} bytes; offset ({}) plus size ({}) no longer lie inside.",
                         what_, object.size_bytes, descriptor_.offset_bytes, descriptor_.size_bytes);
    return Status();
  }

 private:
  const ExternalMemoryDescriptor descriptor_;
  const OwnedHandle handle_;
  const PageMapping mapping_;
  const std::string what_;
};

Status check_access(int fd, bool writable, const std::string& what) {
  const int flags = ::fcntl(fd, F_GETFL);
  TENON_INVALID_IF(flags < 0, "File descriptor {} of {} is not open.", fd, what);
  const int access = flags & O_ACCMODE;
  TENON_INVALID_IF((flags & O_PATH) != 0 || access == O_WRONLY, "File descriptor {} of {} is not open for reading.", fd,
                   what);
  TENON_INVALID_IF(writable && access == O_RDONLY,
                   "File descriptor {} of {} is open for reading only, but writable memory is asked for.", fd, what);
  return Status();
}

}  // namespace

Result<FdObject> query_fd_object(int fd, const std::string& what) {
  struct stat info;
  TENON_INVALID_IF(::fstat(fd, &info) != 0, "File descriptor {} of {} is not open.", fd, what);
  FdObject object;
  if (S_ISREG(info.st_mode)) {
    object.size_bytes = static_cast<uint64_t>(info.st_size);
    const int seals = ::fcntl(fd, F_GET_SEALS);
    object.can_shrink = seals < 0 || (seals & F_SEAL_SHRINK) == 0;
    return object;
  }
  TENON_UNSUPPORTED_IF(
      S_ISDIR(info.st_mode) || S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode) || S_ISCHR(info.st_mode),
      "File descriptor {} of {} is no memory object or file, so it cannot be mapped.", fd, what);
  // dma-bufs and block devices answer to lseek; nothing of ours uses the position that this moves.
  const off_t end = ::lseek(fd, 0, SEEK_END);
  TENON_UNSUPPORTED_IF(end < 0, "File descriptor {} of {} does not tell its size ({}), so it cannot be mapped.", fd,
                       what, errno_text("lseek", errno));
  (void)::lseek(fd, 0, SEEK_SET);
  object.size_bytes = static_cast<uint64_t>(end);
  object.can_shrink = false;
  return object;
}

Result<std::shared_ptr<ExternalMemory>> map_fd(const ExternalHandle& handle, const ExternalMemoryDescriptor& descriptor,
                                               const std::string& what) {
  const int fd = handle.fd;
  TENON_TRY_ASSIGN(const FdObject object, query_fd_object(fd, what));
  const auto end = checked_add(descriptor.offset_bytes, descriptor.size_bytes);
  TENON_INVALID_IF(!end || *end > static_cast<size_t>(std::numeric_limits<off_t>::max()),
                   "Offset ({}) plus size ({}) of {} overflow.", descriptor.offset_bytes, descriptor.size_bytes, what);
  TENON_INVALID_IF(*end > object.size_bytes, "Offset ({}) plus size ({}) of {} exceed the object's {} bytes.",
                   descriptor.offset_bytes, descriptor.size_bytes, what, object.size_bytes);
  TENON_TRY(check_access(fd, descriptor.writable, what));
  if (object.can_shrink)
    TENON_TRACE(kInterop,
                "The object behind {} is not sealed against shrinking: if its owner cuts it, an access is fatal.",
                what);

  // Kept for check().
  TENON_TRY_ASSIGN(OwnedHandle copy, OwnedHandle::duplicate_fd(fd));
  TENON_TRY_ASSIGN(PageMapping mapping, PageMapping::map(copy.fd(), descriptor, what));
  TENON_FAULT_POINT("allocate");
  return std::shared_ptr<ExternalMemory>(
      std::make_shared<FdMemory>(descriptor, std::move(copy), std::move(mapping), what));
}

}  // namespace tenon
