// A file mapped for reading.
//
// Lifetime: the bytes stay while a reference to the object does; the file must not shrink meanwhile.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tenon {

class MappedFile {
 public:
  // An empty file is a mapping of no bytes. Only regular files; symbolic links are followed.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  // The same for bytes that are no file: they are copied into anonymous memory.
  static Result<std::shared_ptr<const MappedFile>> copy(std::span<const std::byte> bytes);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  // Gives the pages that were read back to the system; the next access reads them again.
  void drop_pages() const;

 private:
  MappedFile(std::span<const std::byte> bytes, bool is_file) : bytes_(bytes), is_file_(is_file) {}
  std::span<const std::byte> bytes_;
  bool is_file_ = true;
};

// Tells the system that the whole pages inside `bytes`, of a mapped file, are not needed for now.
void drop_file_pages(std::span<const std::byte> bytes);

// The files beside a model that hold its external data, each mapped once.
class ExternalFiles {
 public:
  // "" refuses every file.
  explicit ExternalFiles(std::string directory) : directory_(std::move(directory)) {}
  // `location` comes from the model: relative, without "..", and no symbolic link on the way may leave the directory.
  Result<std::shared_ptr<const MappedFile>> open(std::string_view location);
  // From now on `location` is a copy of `bytes`, whatever lies in the directory.
  Status add(const std::string& location, std::span<const std::byte> bytes);
  // Of those that were added, the first that nobody has opened; "" when there is none.
  std::string first_unopened() const;

 private:
  std::string directory_;
  std::string real_directory_;  // resolved on first use
  std::vector<std::pair<std::string, std::shared_ptr<const MappedFile>>> files_;
  struct Given {
    std::string location;
    std::shared_ptr<const MappedFile> file;
    bool opened = false;
  };
  std::vector<Given> given_;
};

}  // namespace tenon
