// Reads an ONNX model: IR 3 to 14, opsets 7 to 28 of ai.onnx (onnx 1.23.2).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tenon {

struct ModelInfo {
  int64_t ir_version = 0;
  std::string producer_name;
  std::string producer_version;
  std::string domain;
  int64_t model_version = 0;
  std::string doc_string;
  std::vector<std::pair<std::string, std::string>> metadata;
  size_t file_bytes = 0;
};

struct Model {
  ModelInfo info;
  Graph graph;
};

// Bounds on what a model may ask for; beyond one the reader answers with kResourceExhausted and the numbers.
struct ReaderLimits {
  size_t max_nodes = 4'000'000;
  size_t max_nesting = 64;            // subgraphs in subgraphs, functions in functions
  size_t max_string_bytes = 1 << 20;  // one name or string attribute
  size_t max_tensor_bytes = size_t{1} << 40;
};

// Maps the file: weights are views into the mapping where they are raw and aligned, else decoded once. External data is
// mapped from the model's directory (no path may leave it).
Result<Model> read_model_file(const std::string& path, const ReaderLimits& limits = {});
// Copies the bytes. `base_directory` "" refuses external data.
Result<Model> read_model_bytes(std::span<const std::byte> bytes, const std::string& base_directory,
                               const ReaderLimits& limits = {});

}  // namespace tenon
