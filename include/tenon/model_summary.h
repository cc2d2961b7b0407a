// A summary of a model's file, made without loading it to run: `tenon inspect` prints it.
//
//   auto summary = *tenon::summarize_model("model.onnx");  // a Result: * ends the process on an error, see status.h
//   for (const auto& [op_type, count] : summary.operators) std::printf("%6zu %s\n", count, op_type.c_str());
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
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

}  // namespace tenon
