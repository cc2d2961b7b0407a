// OrtKernelDef, OrtKernelDefBuilder and OrtKernelRegistry: the kernels that an EP lists instead of compiling.
//
// Ownership: a registry copies the definitions that are added. The EP owns its registry and the host borrows it.
// Threads: a registry is complete before the EP hands it out; const access from any thread.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"

// One tensor type. There is one object for each element type, for the life of the process.
struct OrtDataType {
  ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
};

struct OrtKernelDef {
  std::string op_type;
  std::string domain;
  std::string ep_name;
  int since_start = 1;
  int since_end = 2147483647;
  // By the schema's constraint ("T") or parameter name; a node whose type is not listed does not match.
  std::map<std::string, std::vector<const OrtDataType*>> constraints;
  std::map<size_t, OrtMemType> input_memory, output_memory;  // OrtMemTypeDefault where there is no entry
  std::vector<std::pair<int, int>> aliases;                  // {input, output}: the output is a view of the input
  std::vector<std::pair<int, int>> mutable_aliases;          // {input, output}: the output may overwrite the input

  OrtMemType input_mem_type(size_t index) const;
  OrtMemType output_mem_type(size_t index) const;
};

struct OrtKernelDefBuilder {
  OrtKernelDef def;
};

struct OrtKernelRegistry {
  struct Entry {
    std::unique_ptr<const OrtKernelDef> def;
    OrtKernelCreateFunc create = nullptr;
    void* state = nullptr;
  };
  std::vector<Entry> entries;

  // The entry for a node whose types are known (kUndefined matches nothing but absent values); null when there is none.
  // `why_not`, if given, then says what came closest.
  const Entry* find(const tenon::Graph& graph, const tenon::Node& node, std::string* why_not = nullptr) const;
};
