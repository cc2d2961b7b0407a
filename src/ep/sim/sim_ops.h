// The operators of the simulated device: plain loops over dense tensors.
#pragma once

#include <tenon/types.h>

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"

namespace tenon::sim {

struct SimTensor {
  DataType type = DataType::kUndefined;  // kUndefined: absent
  Shape shape;

  size_t size_bytes() const { return type == DataType::kUndefined ? 0 : shape.element_count() * data_type_size(type); }
};

// The inputs of infer(). `host` has the bytes of inputs that the operator reads on the host; null for others.
struct SimInputs {
  std::span<const SimTensor> tensors;
  std::span<const std::byte* const> host;
};

struct SimRun {
  std::span<const SimTensor> in;
  std::span<const std::byte* const> in_data;
  std::span<const SimTensor> out;
  std::span<std::byte* const> out_data;
  std::byte* scratch = nullptr;
};

struct SimOp {
  std::string_view op_type;
  int since;
  int until;
  std::string_view type_parameter;  // the schema's name for the elements' type: "T"
  std::span<const DataType> types;
  std::span<const std::pair<const char*, AttributeKind>> attributes;
  size_t least_inputs = 1;
  size_t most_inputs = 1;
  int host_input = -1;  // read on the host when shapes are found; -1: none

  // Types and shapes of the outputs. Everything that run() relies on is checked here. Of `node` only the operator, the
  // version and the attributes above are set.
  Result<std::vector<SimTensor>> (*infer)(const SimInputs& inputs, const Node& node);
  // On the device, in two steps: prepare() fills the scratch block, run() uses it. A size of 0: no first step.
  size_t (*scratch_bytes)(std::span<const SimTensor> in, const Node& node) = nullptr;
  void (*prepare)(const SimRun& run, const Node& node) = nullptr;
  Status (*run)(const SimRun& run, const Node& node);
};

std::span<const SimOp> sim_ops();
// Null when the device has no such operator.
const SimOp* find_op(std::string_view domain, std::string_view op_type, int since);
bool takes(const SimOp& op, DataType type);
// Number and element types of a node's inputs: what infer() relies on.
Status check_operands(const SimOp& op, std::span<const SimTensor> inputs);

}  // namespace tenon::sim
