#include "graph/external_initializers.h"

#include <algorithm>
#include <filesystem>
#include <vector>

namespace tenon {

namespace {

constexpr size_t kMostAlignment = size_t{1} << 30;

}  // namespace

Result<std::optional<ExternalPlace>> ExternalInitializers::place(const Constant& constant) {
  if (constant.type == DataType::kString || constant.size_bytes == 0 || constant.size_bytes < layout_.least_bytes)
    return std::optional<ExternalPlace>();
  const bool aligned = constant.size_bytes >= layout_.least_aligned_bytes;
  TENON_TRY(pad_to(std::max(aligned ? layout_.alignment : 0, data_type_size(constant.type))));
  const ExternalPlace place{layout_.location, size_bytes_, constant.size_bytes};
  TENON_TRY(sink_({constant.data.stored(), constant.size_bytes}));
  size_bytes_ += constant.size_bytes;
  return std::optional<ExternalPlace>(place);
}

Status ExternalInitializers::pad_to(size_t alignment) {
  if (alignment <= 1 || size_bytes_ % alignment == 0) return {};
  constexpr size_t kMostZeros = 64 * 1024;
  TENON_INVALID_IF(alignment > kMostAlignment, "Initializers are to be aligned to {} bytes; the most is {}.", alignment,
                   kMostAlignment);
  size_t missing = alignment - size_bytes_ % alignment;
  const std::vector<std::byte> zeros(std::min(missing, kMostZeros));
  while (missing > 0) {
    const size_t now = std::min(missing, zeros.size());
    TENON_TRY(sink_({zeros.data(), now}));
    missing -= now;
    size_bytes_ += now;
  }
  return {};
}

ExternalInitializersFile::ExternalInitializersFile(ExternalLayout layout, std::string path)
    : path_(std::move(path)),
      initializers_(std::move(layout), [this](std::span<const std::byte> bytes) { return append(bytes); }) {}

Result<std::unique_ptr<ExternalInitializersFile>> ExternalInitializersFile::create(ExternalLayout layout,
                                                                                   const std::string& model_path) {
  const std::filesystem::path name(layout.location);
  TENON_INVALID_IF(name.empty() || !name.is_relative() || *name.lexically_normal().begin() == "..",
                   "The file for initializers \"{}\" is no path within the model's folder.", layout.location);
  std::string path = (std::filesystem::path(model_path).parent_path() / name).string();
  return std::unique_ptr<ExternalInitializersFile>(new ExternalInitializersFile(std::move(layout), std::move(path)));
}

Status ExternalInitializersFile::append(std::span<const std::byte> bytes) {
  if (!file_) {
    TENON_TRY_ASSIGN(OutputFile made, OutputFile::create(path_));
    file_.emplace(std::move(made));
  }
  return file_->write(bytes);
}

Status ExternalInitializersFile::commit() { return file_ ? file_->commit() : Status(); }

}  // namespace tenon
