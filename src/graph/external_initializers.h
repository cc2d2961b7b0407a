// The initializers that a model keeps outside of itself, one after the other: their offsets, alignment and bytes.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"
#include "graph/graph.h"
#include "graph/output_file.h"
#include "graph/writer.h"

namespace tenon {

struct ExternalLayout {
  std::string location;            // as the model names it
  size_t least_bytes = 0;          // smaller initializers stay in the model
  size_t alignment = 0;            // 0: that of the elements; at most 1 GiB
  size_t least_aligned_bytes = 0;  // smaller initializers have the alignment of their elements
};

class ExternalInitializers {
 public:
  using Sink = std::function<Status(std::span<const std::byte>)>;

  ExternalInitializers(ExternalLayout layout, Sink sink) : layout_(std::move(layout)), sink_(std::move(sink)) {}

  // For WriterOptions::place: appends the bytes of an initializer that is large enough.
  Result<std::optional<ExternalPlace>> place(const Constant& constant);
  size_t size_bytes() const { return size_bytes_; }

 private:
  Status pad_to(size_t alignment);

  const ExternalLayout layout_;
  const Sink sink_;
  size_t size_bytes_ = 0;
};

// Those of a file in the folder of a model, which appears with commit() and the first initializer that is placed.
class ExternalInitializersFile {
 public:
  // `model_path` "": a model in memory, whose folder is the working directory.
  // Errors: a location that is no path within the folder.
  static Result<std::unique_ptr<ExternalInitializersFile>> create(ExternalLayout layout, const std::string& model_path);

  // Errors: a file that cannot be written.
  Result<std::optional<ExternalPlace>> place(const Constant& constant) { return initializers_.place(constant); }
  Status commit();

 private:
  ExternalInitializersFile(ExternalLayout layout, std::string path);
  Status append(std::span<const std::byte> bytes);

  const std::string path_;
  std::optional<OutputFile> file_;
  ExternalInitializers initializers_;
};

}  // namespace tenon
