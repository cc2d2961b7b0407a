// EPContext models: the session's model with each compiled region replaced by the EPContext node that the EP made for
// it, so that a later session need not compile again.
//
// Config entries, as ONNX Runtime spells them: "ep.context_enable" = "1"; "ep.context_file_path" (default: the model's
// path with "_ctx.onnx" for its extension); the EP reads "ep.context_embed_mode" and the others itself.
//
// Ownership: the EPs of one session share one model; the last of them to be done writes it.
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

namespace tenon::abi {

class ContextModel {
 public:
  // Null unless the session asks for a context model. The EPs that this thread makes for one session get the same one.
  // Errors: a file that is there already, no path.
  static Result<std::shared_ptr<ContextModel>> create(const OrtKeyValuePairs& config, const std::string& model_path);

  // The graph that GetCapability saw, constants shared, and what the model says of itself. Once.
  void begin(const Graph& graph, std::vector<std::pair<std::string, std::string>> metadata);
  // An EP says what its compiled parts need to be loaded again (OrtEp::GetCompiledModelCompatibilityInfo).
  void set_compatibility(const std::string& ep_name, const std::string& text);
  // Errors: a node that reads what the graph does not have, or does not make what the region made.
  Status replace(const Region& region, const OrtNode& node);
  // Writes the file, unless nothing was replaced.
  Status write() const;

 private:
  explicit ContextModel(std::string path) : path_(std::move(path)) {}
  ValueId find(const std::string& name) const;

  const std::string path_;
  Graph graph_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  bool begun_ = false;
  bool replaced_ = false;
};

// The key of a model's metadata under which set_compatibility() puts its text.
std::string compatibility_key(const std::string& ep_name);

}  // namespace tenon::abi
