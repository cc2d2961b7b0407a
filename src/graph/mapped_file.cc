#include "graph/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace tenon {

namespace {

// Closes the descriptor on every way out: the mapping does not need it.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

Status file_error(const char* call, const std::string& path, int error) {
  if (error == ENOENT || error == ENOTDIR)
    return not_found("There is no file \"{}\" ({}).", path, errno_text(call, error));
  if (error == ENOMEM || error == EMFILE || error == ENFILE)
    return resource_exhausted("The file \"{}\" cannot be read: {}.", path, errno_text(call, error));
  return invalid_argument("The file \"{}\" cannot be read: {}.", path, errno_text(call, error));
}

Result<std::string> real_path(const std::string& path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return file_error("realpath", path, errno);
  std::string text(resolved);
  std::free(resolved);
  return text;
}

bool has_parent_component(std::string_view path) {
  while (!path.empty()) {
    const size_t slash = path.find('/');
    if (path.substr(0, slash) == "..") return true;
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
  }
  return false;
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: opening a named pipe must not wait for its writer.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return file_error("open", path, errno);
  struct stat info;
  if (::fstat(file.fd, &info) != 0) return file_error("fstat", path, errno);
  TENON_INVALID_IF(!S_ISREG(info.st_mode), "\"{}\" is not a regular file.", path);
  const auto size = static_cast<size_t>(info.st_size);
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

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

Status ExternalFiles::add(const std::string& location, std::span<const std::byte> bytes) {
  TENON_TRY_ASSIGN(auto file, MappedFile::copy(bytes));
  given_.emplace_back(location, std::move(file));
  return Status();
}

Result<std::shared_ptr<const MappedFile>> ExternalFiles::open(std::string_view location) {
  for (const auto& [name, file] : given_)
    if (name == location) return file;
  TENON_INVALID_IF(directory_.empty(), "The model keeps data in the external file \"{}\", and no directory was given.",
                   location);
  TENON_INVALID_IF(location.empty() || location.find('\0') != std::string_view::npos,
                   "An external file has no usable name.");
  TENON_INVALID_IF(location.front() == '/' || has_parent_component(location),
                   "The external file \"{}\" lies outside the model's directory.", location);
  if (real_directory_.empty()) {
    TENON_TRY_ASSIGN(real_directory_, real_path(directory_));
  }
  TENON_TRY_ASSIGN(const std::string path, real_path(real_directory_ + "/" + std::string(location)));
  const std::string prefix = real_directory_ == "/" ? "/" : real_directory_ + "/";
  TENON_INVALID_IF(path.compare(0, prefix.size(), prefix) != 0,
                   "The external file \"{}\" is a link out of the model's directory.", location);
  for (const auto& [known, file] : files_)
    if (known == path) return file;
  TENON_TRY_ASSIGN(auto file, MappedFile::open(path));
  files_.emplace_back(path, file);
  return file;
}

}  // namespace tenon
