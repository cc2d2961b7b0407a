// EPContext models: the session's model with each compiled region replaced by the EPContext node that the EP made for
// it, so that a later session need not compile again.
//
// Config entries, as ONNX Runtime spells them: "ep.context_enable" = "1"; "ep.context_file_path" (default: the model's
// path with "_ctx.onnx" for its extension); "ep.context_model_external_initializers_file_name", a file beside it; the
// EP reads "ep.context_embed_mode" and the others itself.
//
// Ownership: the EPs of one session share one model; the last of them to be done writes it. In a compilation
// (abi/compile_model.cc) it is the compilation's, which writes it where its options say.
// Threads: the one that loads the session.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "abi/objects/key_value_pairs.h"
#include "ep/api/device_provider.h"
#include "ep/host/graph_view.h"
#include "graph/writer.h"

namespace tenon::abi {

class ContextModel {
 public:
  // Null unless the session asks for a context model. The EPs that this thread makes for one session get the same one.
  // Errors: those of context_path().
  static Result<std::shared_ptr<ContextModel>> create(const OrtKeyValuePairs& config, const std::string& model_path);
  // Of a compilation: write() does nothing.
  static std::shared_ptr<ContextModel> create_for_compilation() { return std::make_shared<ContextModel>(Private()); }

  // The graph that GetCapability saw, constants shared, and what the model says of itself. The first call counts.
  void begin(const Graph& graph, ModelInfo info, GraphNotes notes);
  // An EP says what its compiled parts need to be loaded again (OrtEp::GetCompiledModelCompatibilityInfo).
  void set_compatibility(const std::string& ep_name, const std::string& text);
  // Errors: a node that reads what the graph does not have, or does not make what the region made.
  Status replace(const Region& region, const OrtNode& node);
  bool has_compiled_nodes() const { return replaced_; }
  // Where the initializers of the model came from.
  const GraphNotes& notes() const { return notes_; }
  // The model's bytes. `options` place initializers.
  Result<std::string> serialize(WriterOptions options) const;
  // Writes the file, unless nothing was replaced.
  Status write() const;

 private:
  struct Private {};

 public:
  explicit ContextModel(Private) {}

 private:
  ValueId find(const std::string& name) const;
  std::string dependencies(bool external_weights) const;

  std::string path_, external_name_;
  Graph graph_;
  ModelInfo info_;
  GraphNotes notes_;
  bool begun_ = false;
  bool replaced_ = false;
};

// Whether a session with these entries writes a context model.
bool wants_context(const OrtKeyValuePairs& config);
// The file of a session that writes one. `model_path` "": the model comes from memory.
// Errors: no path, one that is a folder's, a file that is there already.
Result<std::string> context_path(const OrtKeyValuePairs& config, const std::string& model_path);
// The default: the model's path with "_ctx.onnx" for its extension.
std::string default_context_path(const std::string& model_path);
// Errors: a path that is a folder's.
Status check_context_path(const std::string& path);
// The error of a file that is there already and is to stay.
Status context_exists(const std::string& path);

// The key of a model's metadata under which set_compatibility() puts its text.
std::string compatibility_key(const std::string& ep_name);

}  // namespace tenon::abi
