#include "runtime/packed_folder.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/fault.h"
#include "base/log.h"

namespace tenon {

namespace {

using std::chrono::milliseconds;

constexpr char kLockFile[] = "lock", kWhole[] = ".packed", kPart[] = ".part";
constexpr size_t kHashDigits = 32;
// The data begin at a page.
constexpr size_t kHeaderBytes = 4096;
constexpr size_t kFromHugePages = 2 * 1024 * 1024;
// Another process packs or checks a weight meanwhile: a gigabyte takes about a second.
constexpr milliseconds kPatience{20'000};
constexpr milliseconds kPatienceAtEnd{1000};

// Of a file. The numbers are this machine's: a folder is shared within one.
struct Header {
  char kind[16] = "tenon packing 1";
  ContentHash name;
  uint64_t size_bytes = 0;
  ContentHash contents;

  bool operator==(const Header& other) const {
    return std::memcmp(kind, other.kind, sizeof(kind)) == 0 && name == other.name && size_bytes == other.size_bytes &&
           contents == other.contents;
  }
};

// Bytes of the lock file. The first one is shared by all that have the folder open.
constexpr off_t kFolderByte = 0;
// While a packing is looked for, written or given up; exclusive.
off_t work_byte(const ContentHash& name) { return static_cast<off_t>((name.first >> 3) + 1) * 2; }
// While a packing is used; shared.
off_t use_byte(const ContentHash& name) { return work_byte(name) + 1; }

bool lock_now(int fd, short kind, off_t byte) {
  struct flock lock = {};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool lock_within(milliseconds patience, int fd, short kind, off_t byte) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!lock_now(fd, kind, byte)) {
    if (errno != EAGAIN && errno != EACCES && errno != EINTR) return false;
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

// A lock that ends with the scope.
struct WorkLock {
  int fd;
  off_t byte;
  ~WorkLock() { (void)lock_now(fd, F_UNLCK, byte); }
};

Status refused(const std::string& path, const char* call, int error) {
  return resource_exhausted("The folder \"{}\" cannot be used: {}.", path, errno_text(call, error));
}

// A file that is removed unless it gets its name.
struct PartFile {
  int folder;
  std::string name;
  OwnedHandle file;
  void* memory = MAP_FAILED;
  size_t size_bytes = 0;
  bool done = false;

  ~PartFile() {
    if (done) return;
    if (memory != MAP_FAILED) (void)::munmap(memory, size_bytes);
    (void)::unlinkat(folder, name.c_str(), 0);
  }
};

}  // namespace

std::string library_build() {
  Dl_info info;
  struct stat file;
  if (::dladdr(reinterpret_cast<const void*>(&library_build), &info) == 0 || ::stat(info.dli_fname, &file) != 0)
    return {};
  return format("{} {} {} {}", file.st_ino, file.st_size, file.st_mtim.tv_sec, file.st_mtim.tv_nsec);
}

PackedFolder::PackedFolder(std::string path, OwnedHandle folder, OwnedHandle lock, size_t limit_bytes)
    : path_(std::move(path)),
      folder_(std::move(folder)),
      lock_(std::move(lock)),
      limit_bytes_(limit_bytes),
      process_(::getpid()) {}

Result<std::shared_ptr<PackedFolder>> PackedFolder::open(const std::string& path, size_t limit_bytes) {
  std::error_code error;
  const std::string absolute = std::filesystem::absolute(path, error).string();
  // The last user may remove the folder between two of these calls.
  constexpr int kTries = 16;
  for (int i = 0; i < kTries; ++i) {
    if (::mkdir(absolute.c_str(), 0700) != 0 && errno != EEXIST) return refused(absolute, "mkdir", errno);
    OwnedHandle folder = OwnedHandle::take_fd(::open(absolute.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder.valid() && errno == ENOENT) continue;
    struct stat info;
    if (!folder.valid() || ::fstat(folder.fd(), &info) != 0) return refused(absolute, "open", errno);
    TENON_INVALID_IF(info.st_uid != ::geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0,
                     "The folder \"{}\" belongs to another user, or others may write to it.", absolute);
    OwnedHandle lock =
        OwnedHandle::take_fd(::openat(folder.fd(), kLockFile, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock.valid() && errno == ENOENT) continue;
    if (!lock.valid()) return refused(absolute, "open", errno);
    if (!lock_within(kPatienceAtEnd, lock.fd(), F_RDLCK, kFolderByte)) return refused(absolute, "fcntl", errno);
    if (::fstat(lock.fd(), &info) != 0 || info.st_nlink == 0) continue;
    return std::shared_ptr<PackedFolder>(new PackedFolder(absolute, std::move(folder), std::move(lock), limit_bytes));
  }
  return resource_exhausted("The folder \"{}\" is removed as often as it is made.", absolute);
}

PackedFolder::~PackedFolder() {
  if (::getpid() != process_ || !lock_now(lock_.fd(), F_WRLCK, kFolderByte)) return;
  for_files([&](const char* name, size_t) { (void)::unlinkat(folder_.fd(), name, 0); });
  (void)::unlinkat(folder_.fd(), kLockFile, 0);
  (void)::rmdir(path_.c_str());  // what others have put there stays
}

void PackedFolder::for_files(const std::function<void(const char*, size_t)>& visit) const {
  const int fd = ::openat(folder_.fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const folder = fd < 0 ? nullptr : ::fdopendir(fd);
  if (folder == nullptr) {
    if (fd >= 0) (void)::close(fd);
    return;
  }
  while (const dirent* entry = ::readdir(folder)) {
    const std::string_view name = entry->d_name;
    struct stat info;
    if (name.size() > kHashDigits && (name.substr(kHashDigits) == kWhole || name.substr(kHashDigits) == kPart) &&
        ::fstatat(fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0)
      visit(entry->d_name, static_cast<size_t>(info.st_size));
  }
  (void)::closedir(folder);
}

Result<std::shared_ptr<const std::byte>> PackedFolder::get(const ContentHash& name, size_t bytes,
                                                           const std::function<void(std::byte*)>& pack) {
  const std::lock_guard guard(mutex_);
  TENON_UNSUPPORTED_IF(::getpid() != process_, "The folder \"{}\" was opened before this process was forked.", path_);
  TENON_FAULT_POINT("lock packed weights");
  if (!lock_within(kPatience, lock_.fd(), F_WRLCK, work_byte(name)))
    return resource_exhausted("A file in \"{}\" stays locked: {}.", path_, errno_text("fcntl", errno));
  const WorkLock unlock{lock_.fd(), work_byte(name)};
  std::byte* memory = map(name, bytes);
  if (memory == nullptr) {
    TENON_TRY_ASSIGN(memory, write(name, bytes, pack));
  }
  // Nobody else can hold it now but as a user. Without the lock the file goes early, and is written again.
  (void)lock_now(lock_.fd(), F_RDLCK, use_byte(name));
  ++users_[name];
  return std::shared_ptr<const std::byte>(memory + kHeaderBytes,
                                          [self = shared_from_this(), name, memory, bytes](auto*) {
                                            (void)::munmap(memory, kHeaderBytes + bytes);
                                            self->give_up(name);
                                          });
}

void PackedFolder::give_up(const ContentHash& name) {
  const std::lock_guard guard(mutex_);
  if (::getpid() != process_ || --users_[name] > 0) return;
  users_.erase(name);
  // Whoever holds the lock for longer is about to use the packing.
  const bool works = lock_within(kPatienceAtEnd, lock_.fd(), F_WRLCK, work_byte(name));
  const bool last = works && lock_now(lock_.fd(), F_WRLCK, use_byte(name));
  if (last) (void)::unlinkat(folder_.fd(), (name.to_string() + kWhole).c_str(), 0);
  (void)lock_now(lock_.fd(), F_UNLCK, use_byte(name));
  if (works) (void)lock_now(lock_.fd(), F_UNLCK, work_byte(name));
}

std::byte* PackedFolder::map(const ContentHash& name, size_t bytes) const {
  const std::string file_name = name.to_string() + kWhole;
  const OwnedHandle file =
      OwnedHandle::take_fd(::openat(folder_.fd(), file_name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.valid()) return nullptr;
  struct stat info;
  const size_t size = kHeaderBytes + bytes;
  if (::fstat(file.fd(), &info) == 0 && S_ISREG(info.st_mode) && static_cast<size_t>(info.st_size) == size) {
    void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_POPULATE, file.fd(), 0);
    if (memory == MAP_FAILED) return nullptr;
    auto* const begin = static_cast<std::byte*>(memory);
    Header header;
    std::memcpy(&header, begin, sizeof(header));
    const Header expected{.name = name, .size_bytes = bytes, .contents = content_hash({begin + kHeaderBytes, bytes})};
    if (header == expected) return begin;
    (void)::munmap(memory, size);
  }
  log_warning("pack", "The file \"{}/{}\" is damaged, and is written again.", path_, file_name);
  return nullptr;
}

Result<std::byte*> PackedFolder::write(const ContentHash& name, size_t bytes,
                                       const std::function<void(std::byte*)>& pack) const {
  const size_t size = kHeaderBytes + bytes;
  size_t used = 0;
  if (limit_bytes_ > 0) for_files([&](const char*, size_t file_bytes) { used += file_bytes; });
  if (limit_bytes_ > 0 && used + size > limit_bytes_)
    return resource_exhausted("The folder \"{}\" has {} bytes, and {} more exceed its limit of {}.", path_, used, size,
                              limit_bytes_);
  PartFile part{.folder = folder_.fd(), .name = name.to_string() + kPart, .file = {}, .size_bytes = size};
  part.file = OwnedHandle::take_fd(
      ::openat(folder_.fd(), part.name.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!part.file.valid()) return refused(path_, "open", errno);
  TENON_FAULT_POINT("write packed weights");
  // Without room a write through the mapping would end the process.
  if (const int error = ::posix_fallocate(part.file.fd(), 0, static_cast<off_t>(size)); error != 0)
    return refused(path_, "posix_fallocate", error);
  part.memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, part.file.fd(), 0);
  if (part.memory == MAP_FAILED) return refused(path_, "mmap", errno);
  if (size >= kFromHugePages) (void)::madvise(part.memory, size, MADV_HUGEPAGE);  // a refusal only means small pages
  auto* const begin = static_cast<std::byte*>(part.memory);
  pack(begin + kHeaderBytes);
  const Header header{.name = name, .size_bytes = bytes, .contents = content_hash({begin + kHeaderBytes, bytes})};
  std::memcpy(begin, &header, sizeof(header));
  (void)::mprotect(part.memory, size, PROT_READ);
  if (::renameat(folder_.fd(), part.name.c_str(), folder_.fd(), (name.to_string() + kWhole).c_str()) != 0)
    return refused(path_, "rename", errno);
  part.done = true;
  return begin;
}

}  // namespace tenon
