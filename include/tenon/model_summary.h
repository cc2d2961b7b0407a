// A summary of a model's file, made without loading it to run: `tenon inspect` prints it.
//
//   auto summary = *tenon::summarize_model("model.onnx");  // a Result: * ends the process on an error, see status.h
//   for (const auto& [op_type, count] : summary.operators) std::printf("%6zu %s\n", count, op_type.c_str());
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tenon/session.h"

namespace tenon {

struct ModelSummary {
  size_t file_bytes = 0;  // of the .onnx file; external data is not in it
  int64_t ir_version = 0;
  std::map<std::string, int> opsets;  // by domain; ONNX's own is "ai.onnx"
  ModelMetadata metadata;
  // As the model declares them. No shape is inferred: Session::outputs() may know more.
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
  // Of the graph and all bodies in it (If, Loop, Scan), after functions of the model are expanded.
  size_t nodes = 0;
  std::map<std::string, size_t> operators;  // nodes by "MatMul" or, of another domain, "com.microsoft:FusedMatMul"
  size_t constants = 0;                     // initializers and Constant nodes
  size_t constant_bytes = 0;
};

// Reads the file (IR 3 to 14, opsets 7 to 28) and checks it as Session::load does, up to the choice of kernels: a model
// with operators that no EP runs has a summary too. External data has to be there.
// Errors: kNotFound for a file that cannot be read; kInvalidArgument and kUnsupported name the node or field that is
// wrong. Threads: any.
TENON_API Result<ModelSummary> summarize_model(const std::string& path);

// A node of a model, as it was read: no pass has changed it.
struct ModelNode {
  std::string name;  // may be empty
  std::string domain;
  std::string op_type;
  std::string body;                          // as in NodeValue (tenon/node_values.h); "" for the model's own graph
  std::vector<std::string> inputs, outputs;  // names of values; "" for one that is absent
  // Whether the outputs are values of the graph in the file. Those of nodes in the model's functions are not.
  bool in_file = true;
};

// The nodes in an order in which each comes after those that it reads; the nodes in a node's bodies come before it.
// Constants are no nodes. Errors and threads: those of summarize_model().
TENON_API Result<std::vector<ModelNode>> list_nodes(const std::string& path);

// The bytes of the model in `path` with more outputs: `values`, names of the graph in the file. The type of each is
// left to the runtime that loads it, which has to infer it. External data is not in the bytes. Errors: those of
// summarize_model(); kUnsupported for a file in ONNX Runtime's own format.
TENON_API Result<std::string> model_with_outputs(const std::string& path, std::span<const std::string> values);

}  // namespace tenon
