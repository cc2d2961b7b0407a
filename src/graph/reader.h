// Reads an ONNX model: IR 3 to 14, opsets 7 to 28 of ai.onnx (onnx 1.23.2).
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace tenon {

struct ModelInfo {
  std::string path;  // as the caller gave it; "" for a model from memory
  int64_t ir_version = 0;
  std::string producer_name;
  std::string producer_version;
  std::string domain;
  int64_t model_version = 0;
  bool has_model_version = false;
  std::string doc_string;
  std::vector<std::pair<std::string, std::string>> metadata;
  size_t file_bytes = 0;
};

// The meaning of a dimension of an input: "DATA_BATCH".
struct DimDenotation {
  ValueId value = kNoValue;
  size_t axis = 0;
  std::string text;
};

// Where a tensor's bytes lie that the model keeps in another file.
struct ExternalTensor {
  std::weak_ptr<const Constant> constant;
  std::string location;  // as the model gives it: relative to the model's directory
  size_t offset_bytes = 0;
};

// Documentation and metadata of a tensor, or of the Constant node that holds it, as fields of a TensorProto.
struct ConstantNotes {
  std::weak_ptr<const Constant> constant;
  std::string fields;
};

// Of the model's own graph, not of subgraphs, but for external tensors and notes on constants.
struct GraphNotes {
  std::string doc_string;
  std::vector<DimDenotation> denotations;  // of inputs
  std::vector<ValueId> overridable;        // initializers that are listed as inputs too
  std::unordered_map<const Constant*, ExternalTensor> external;
  std::unordered_map<const Constant*, ConstantNotes> constants;  // of models that were read for writing

  // Null for a constant whose bytes are the model's own, or were made.
  const ExternalTensor* find_external(const ConstantRef& constant) const;
  // Empty for a constant without notes.
  std::string_view find_notes(const ConstantRef& constant) const;
};

struct Model {
  ModelInfo info;
  GraphNotes notes;
  Graph graph;
};

// Bounds on what a model may ask for; beyond one the reader answers with kResourceExhausted and the numbers.
struct ReaderLimits {
  size_t max_nodes = 4'000'000;
  size_t max_nesting = 64;            // subgraphs in subgraphs, functions in functions
  size_t max_string_bytes = 1 << 20;  // one name or string attribute
  size_t max_tensor_bytes = size_t{1} << 40;
};

// The tensors and files that a program puts in the place of the model's own.
struct ReaderReplacements {
  std::map<std::string, ConstantRef, std::less<>> initializers;  // type and shape must be the model's
  std::map<std::string, std::span<const std::byte>> files;       // external data; copied
  bool initializers_as_inputs = false;                           // those that are listed as inputs too stay inputs
  bool all_used = false;                                         // a name that the model does not have is an error
  // The model will be written again: nodes and tensors keep their documentation and metadata, and nodes their
  // attributes that mean nothing here. They may be larger than the graph.
  bool for_writing = false;
};

// In the message of every error that says that the bytes are no protobuf; adapters tell it from other errors by that.
inline constexpr std::string_view kBrokenEncoding = "the protobuf encoding is broken";

// Maps the file: weights are views into the mapping where they are raw and aligned, else decoded once. External data is
// mapped from the model's directory (no path may leave it).
Result<Model> read_model_file(const std::string& path, const ReaderLimits& limits = {},
                              const ReaderReplacements& replacements = {});
// Copies the bytes. `base_directory` "" refuses external data.
Result<Model> read_model_bytes(std::span<const std::byte> bytes, const std::string& base_directory,
                               const ReaderLimits& limits = {}, const ReaderReplacements& replacements = {});

}  // namespace tenon
