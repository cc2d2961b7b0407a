// One ONNX operator, called outside of a model: a kernel of a program's own operator computes with those of the CPU EP.
//
//   auto add = *OperatorCall::create({.op_type = "Add", .version = 14, .input_count = 2, .output_count = 1});
//   OperatorCall::Output sum{.tensor = y};               // written in place; undefined: a new tensor
//   TENON_TRY(add->invoke({{a, b}}, {&sum, 1}, {.pool = pool}));
//
// A set of element types has a session of one node, made at its first call (where the type constraints tell all input
// types: when the operator is created); later calls with these types reuse it, and its plans by shape.
// Ownership: nothing of a call is kept. Threads: invoke() from any.
// Errors: create() for what no schema or kernel has, and invoke() for tensors that the operator does not take, and for
// an output whose shape is not the result's.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tenon/session.h>

#include "base/guarded.h"
#include "ep/api/device_provider.h"
#include "graph/graph.h"

namespace tenon {

struct OperatorRequest {
  std::string op_type;
  std::string domain = {};  // "" or "ai.onnx"
  int version = 0;          // an opset: the schema in force there counts
  std::vector<Attribute> attributes = {};
  // Types of the schema's constraints ("T"), as far as they are known.
  std::vector<std::pair<std::string, DataType>> types = {};
  size_t input_count = 0;
  size_t output_count = 0;
};

class OperatorCall {
 public:
  struct Output {
    bool wanted = true;
    Tensor tensor = {};
  };
  // The run that the call is part of: its pool, its end, its copies. `run` may be null.
  struct Caller {
    ThreadPool* pool = nullptr;
    const RunInfo* run = nullptr;
  };

  static Result<std::unique_ptr<OperatorCall>> create(OperatorRequest request);
  ~OperatorCall();
  OperatorCall(const OperatorCall&) = delete;
  OperatorCall& operator=(const OperatorCall&) = delete;

  // Inputs on the host that are undefined are absent. Outputs that were undefined own their memory afterwards.
  Status invoke(std::span<const Tensor> inputs, std::span<Output> outputs, const Caller& caller) const;

 private:
  class Pool;
  struct Variant;
  struct Signature;

  explicit OperatorCall(OperatorRequest request);
  Result<std::shared_ptr<Variant>> make_variant(const Signature& signature) const;
  Result<std::shared_ptr<Variant>> find_variant(const Signature& signature) const;
  Status prepare();

  const OperatorRequest request_;
  Guarded<std::vector<std::shared_ptr<Variant>>> variants_;
};

}  // namespace tenon
