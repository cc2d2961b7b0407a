// A file that appears under its name when it is whole: bytes go to a file beside it, which then takes its place.
//
// So a model may be written over the file that it was read from, whose pages the reader maps. Threads: one at a time.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "base/status.h"

namespace tenon {

class OutputFile {
 public:
  OutputFile() = default;
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  // Removes what was written, unless commit() has succeeded.
  ~OutputFile();

  // Errors: kInvalidArgument for a folder that is not there or that cannot be written.
  static Result<OutputFile> create(const std::string& path);
  Status write(std::span<const std::byte> bytes);
  Status commit();

 private:
  Status failed(const char* what) const;

  std::string path_;               // as the caller gave it, for messages
  std::filesystem::path target_;   // where links lead
  std::filesystem::path written_;  // empty: nothing to remove
  std::ofstream stream_;
};

}  // namespace tenon
