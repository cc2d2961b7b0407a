#include <windows.h>

#include <cstring>

#include "base/wide_text_win32.h"
#include "graph/mapped_file.h"
#include "graph/paths.h"

namespace tenon {

namespace {

struct OpenHandle {
  HANDLE handle;
  ~OpenHandle() {
    if (handle != nullptr && handle != INVALID_HANDLE_VALUE) ::CloseHandle(handle);
  }
};

Status last_error(const char* call, const std::string& path) {
  return file_error(call, path, static_cast<int>(::GetLastError()));
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  const OpenHandle file{::CreateFileW(wide_text(path).c_str(), GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE,
                                      nullptr, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, nullptr)};
  if (file.handle == INVALID_HANDLE_VALUE) return last_error("CreateFile", path);
  BY_HANDLE_FILE_INFORMATION info;
  TENON_INVALID_IF(::GetFileType(file.handle) != FILE_TYPE_DISK ||
                       ::GetFileInformationByHandle(file.handle, &info) == 0 ||
                       (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0,
                   "\"{}\" is not a regular file.", path);
  const size_t size = (static_cast<size_t>(info.nFileSizeHigh) << 32) | info.nFileSizeLow;
  if (size == 0) return std::shared_ptr<const MappedFile>(new MappedFile({}, true));
  const OpenHandle section{::CreateFileMappingW(file.handle, nullptr, PAGE_READONLY, 0, 0, nullptr)};
  if (section.handle == nullptr) return last_error("CreateFileMapping", path);
  // The view keeps the section, and that the file.
  const void* memory = ::MapViewOfFile(section.handle, FILE_MAP_READ, 0, 0, size);
  if (memory == nullptr) return last_error("MapViewOfFile", path);
  return std::shared_ptr<const MappedFile>(new MappedFile({static_cast<const std::byte*>(memory), size}, true));
}

Result<std::shared_ptr<const MappedFile>> MappedFile::copy(std::span<const std::byte> bytes) {
  if (bytes.empty()) return std::shared_ptr<const MappedFile>(new MappedFile({}, false));
  void* memory = ::VirtualAlloc(nullptr, bytes.size(), MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
  if (memory == nullptr) return resource_exhausted("There is no memory for {} bytes.", bytes.size());
  std::memcpy(memory, bytes.data(), bytes.size());
  return std::shared_ptr<const MappedFile>(
      new MappedFile({static_cast<const std::byte*>(memory), bytes.size()}, false));
}

void MappedFile::drop_pages() const {
  // Unlocking pages that are not locked takes them out of the working set; the call fails, as documented.
  if (is_file_ && !bytes_.empty()) (void)::VirtualUnlock(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void drop_file_pages(std::span<const std::byte> bytes) {
  if (!bytes.empty()) (void)::VirtualUnlock(const_cast<std::byte*>(bytes.data()), bytes.size());
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  if (is_file_) {
    (void)::UnmapViewOfFile(bytes_.data());
  } else {
    (void)::VirtualFree(const_cast<std::byte*>(bytes_.data()), 0, MEM_RELEASE);
  }
}

}  // namespace tenon
