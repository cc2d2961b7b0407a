// EPContext models: the session's model with each compiled region replaced by the EPContext node that the EP made for
// it, so that a later session need not compile again.
//
// Config entries, as ONNX Runtime spells them: "ep.context_enable" = "1"; "ep.context_file_path" (default: the model's
// path with "_ctx.onnx" for its extension); the EP reads "ep.context_embed_mode" and the others itself.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <optional>
#include <string>

#include "abi/graph_view.h"
#include "abi/key_value_pairs.h"
#include "ep/kit/device_provider.h"

namespace tenon::abi {

class ContextModel {
 public:
  // Empty unless the session asks for a context model. Errors: a file that is there already, no path.
  static Result<std::optional<ContextModel>> create(const OrtKeyValuePairs& config, const std::string& model_path);

  // The graph that GetCapability saw; constants are shared.
  void begin(const Graph& graph) { graph_ = graph; }
  // Errors: a node that reads what the graph does not have, or does not make what the region made.
  Status replace(const Region& region, const OrtNode& node);
  // Writes the file, unless nothing was replaced.
  Status write() const;

 private:
  explicit ContextModel(std::string path) : path_(std::move(path)) {}
  ValueId find(const std::string& name) const;

  std::string path_;
  Graph graph_;
  bool replaced_ = false;
};

}  // namespace tenon::abi
