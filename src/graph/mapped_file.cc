#include "graph/mapped_file.h"

#include "graph/paths.h"

namespace tenon {

Status ExternalFiles::add(const std::string& location, std::span<const std::byte> bytes) {
  TENON_TRY_ASSIGN(auto file, MappedFile::copy(bytes));
  given_.push_back({location, std::move(file)});
  return Status();
}

std::string ExternalFiles::first_unopened() const {
  for (const Given& given : given_)
    if (!given.opened) return given.location;
  return "";
}

Result<std::shared_ptr<const MappedFile>> ExternalFiles::open(std::string_view location) {
  for (Given& given : given_) {
    if (given.location != location) continue;
    given.opened = true;
    return given.file;
  }
  TENON_INVALID_IF(directory_.empty(), "The model keeps data in the external file \"{}\", and no directory was given.",
                   location);
  TENON_INVALID_IF(location.empty() || location.find('\0') != std::string_view::npos,
                   "An external file has no usable name.");
  TENON_INVALID_IF(!stays_below(location), "The external file \"{}\" lies outside the model's directory.", location);
  if (real_directory_.empty()) {
    TENON_TRY_ASSIGN(real_directory_, real_path(directory_));
  }
  TENON_TRY_ASSIGN(const std::string path, real_path(join_paths(real_directory_, location)));
  const std::string prefix = join_paths(real_directory_, "");
  TENON_INVALID_IF(path.compare(0, prefix.size(), prefix) != 0,
                   "The external file \"{}\" is a link out of the model's directory.", location);
  for (const auto& [known, file] : files_)
    if (known == path) return file;
  TENON_TRY_ASSIGN(auto file, MappedFile::open(path));
  files_.emplace_back(path, file);
  return file;
}

}  // namespace tenon
