// The values that a run computes between its inputs and its outputs: to keep them, and to compare two runs.
//
//   struct Printer final : tenon::ValueObserver {
//     tenon::Status value(const tenon::NodeValue& value) override {
//       std::printf("%s %s\n", value.name.c_str(), value.tensor.shape().to_string().c_str());
//       return {};
//     }
//   };
//   Printer printer;
//   auto status = session->run(binding, {.values = &printer});
//
// The plan of a run stays the same when it is observed: values are those of the plan as the passes have left it. A
// value that a pass has fused away, that is inside an EP's region, that is a string or no tensor is not among them.
// With SessionOptions::disabled_passes = {"all"} the CPU EP computes every value of the model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/tensor.h"

namespace tenon {

// A value that a step of a run has made, or a constant of its plan.
struct NodeValue {
  std::string name;  // of the value in the model
  // The nodes in whose bodies it is, outermost first, with '/' between them: "loop1". A node without a name counts by
  // the name of its first output. "": the model's own graph.
  std::string body;
  // How many values of this name and body came before in this run: the iteration, in the body of a Loop or Scan.
  int64_t occurrence = 0;
  std::string node;  // the plan's node, may be empty: "relu3"
  // Its operator, with the domain of one that is not ONNX's: "tenon.Conv". "region" for nodes that an EP runs together.
  std::string op_type;
  std::vector<std::string> model_nodes;  // the model's nodes that a fused one computes; empty: the one of its name
  std::string kernel;  // "constant": an initializer, or passes have computed it; "view": it is a part of another value
  Tensor tensor;       // in host memory, and valid during the call
};

// Threads: called by the thread that runs, for one run at a time unless several runs have the same observer.
class TENON_API ValueObserver {
 public:
  virtual ~ValueObserver() = default;
  // Whether value() is to be called: values on other devices are copied to the host for it. The arguments are
  // NodeValue::body and name.
  virtual bool wants(std::string_view body, std::string_view name);
  // In the order in which the run makes them. A status that is not OK ends the run with it.
  virtual Status value(const NodeValue& value) = 0;
};

// The names of all passes, in the order in which they run first: for SessionOptions::disabled_passes.
TENON_API std::vector<std::string_view> pass_names();

// How far a value may be from its reference: |value - reference| <= absolute + relative * |reference|.
struct Tolerance {
  double relative = 0;
  double absolute = 0;
};

// For a value of `type` and its reference's largest finite magnitude, as `tenon compare` uses it: relative 1e-4 for
// float32, 1e-9 for float64, 1e-2 for float16, 4e-2 for bfloat16, absolute the same times `largest`; 0 for all others.
TENON_API Tolerance default_tolerance(DataType type, double largest);

struct ValueDifference {
  int64_t elements = 0;   // in the value (bytes of a type that is compared as bytes)
  int64_t differing = 0;  // that are further apart than the tolerance
  int64_t index = -1;     // of the element with the largest error, in row-major order; -1: the value has no elements
  double value = 0;       // that element
  double reference = 0;
  double error = 0;  // |value - reference|; infinite where one is NaN or infinite and the other is not the same
  double relative_error = 0;  // error / |reference|; infinite for a reference of 0
  Tolerance tolerance;        // that was used
};

// Compares two tensors of one type and shape in host memory. NaN equals NaN, and an infinity the same infinity. Floats
// of 8 bits, complex numbers and packed types are compared as bytes, and `index` counts those. `tolerance` null:
// default_tolerance() for the reference.
// Errors: kInvalidArgument for other types or shapes, and for memory that the host cannot read.
TENON_API Result<ValueDifference> compare_tensors(const Tensor& value, const Tensor& reference,
                                                  const Tolerance* tolerance = nullptr);

}  // namespace tenon
