#include "graph/output_file.h"

#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "base/format.h"

namespace tenon {

namespace {

// Two processes may write the same model at once.
std::string part_name(const std::filesystem::path& target) {
  std::random_device random;
  return format("{}.{:08x}{:08x}.part", target.string(), random(), random());
}

}  // namespace

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      written_(std::exchange(other.written_, {})),
      stream_(std::move(other.stream_)) {}

OutputFile::~OutputFile() {
  if (written_.empty()) return;
  stream_.close();
  std::error_code error;
  std::filesystem::remove(written_, error);
}

Result<OutputFile> OutputFile::create(const std::string& path) {
  OutputFile file;
  file.path_ = path;
  file.target_ = path;
  std::error_code error;
  if (std::filesystem::is_symlink(file.target_, error)) {
    const std::filesystem::path leads_to = std::filesystem::canonical(file.target_, error);
    if (!error) file.target_ = leads_to;
  }
  // A pipe or a device stays what it is, and is written in place.
  const bool special =
      std::filesystem::exists(file.target_, error) && !std::filesystem::is_regular_file(file.target_, error);
  const std::filesystem::path written = special ? file.target_ : std::filesystem::path(part_name(file.target_));
  errno = 0;
  file.stream_.open(written, std::ios::binary | std::ios::trunc);
  if (!file.stream_) return file.failed("open");
  if (!special) file.written_ = written;
  return file;
}

Status OutputFile::write(std::span<const std::byte> bytes) {
  errno = 0;
  stream_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return stream_ ? Status() : failed("write");
}

Status OutputFile::commit() {
  errno = 0;
  stream_.close();
  if (!stream_) return failed("write");
  if (written_.empty()) return {};
  std::error_code error;
  std::filesystem::rename(written_, target_, error);
  if (error) return invalid_argument("write file \"{}\" failed: {}", path_, error.message());
  written_.clear();
  return {};
}

// In ONNX Runtime's words, which programs know.
Status OutputFile::failed(const char* what) const {
  return invalid_argument("{} file \"{}\" failed: {}", what, path_,
                          errno != 0 ? std::strerror(errno) : "unknown error");
}

}  // namespace tenon
