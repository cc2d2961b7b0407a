#include "ep/host/custom_ops.h"

#include <algorithm>
#include <set>

#include "abi/objects/session_options.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "abi/objects/type_info.h"
#include "base/guarded.h"
#include "base/status.h"
#include "ep/host/custom_op_member.h"
#include "ep/host/shape_infer_context.h"
#include "graph/symbols.h"

namespace tenon::abi {

namespace {

Guarded<std::set<const OrtCustomOpDomain*>>& domains_alive() {
  static auto* alive = new Guarded<std::set<const OrtCustomOpDomain*>>();
  return *alive;
}

// Checks that an operator has its name and the functions it must have, when it is added: later calls rely on them.
Status check_op(const OrtCustomOp* op) {
  const std::string who = "The custom operator";
  TENON_TRY(TENON_CUSTOM_OP_MEMBER(op, GetName).check(who));
  TENON_TRY_ASSIGN(const std::string name, custom_op_name(op));
  const std::string named = format("The custom operator \"{}\"", name);
  TENON_TRY(TENON_CUSTOM_OP_MEMBER(op, GetInputTypeCount).check(named));
  TENON_TRY(TENON_CUSTOM_OP_MEMBER(op, GetOutputTypeCount).check(named));
  TENON_TRY(TENON_CUSTOM_OP_MEMBER(op, GetInputType).check(named));
  TENON_TRY(TENON_CUSTOM_OP_MEMBER(op, GetOutputType).check(named));
  TENON_TRY(TENON_CUSTOM_OP_MEMBER(op, KernelDestroy).check(named));
  if (!TENON_CUSTOM_OP_MEMBER(op, CreateKernelV2)) TENON_TRY(TENON_CUSTOM_OP_MEMBER(op, CreateKernel).check(named));
  if (!TENON_CUSTOM_OP_MEMBER(op, KernelComputeV2)) TENON_TRY(TENON_CUSTOM_OP_MEMBER(op, KernelCompute).check(named));
  return {};
}

using Characteristic = OrtCustomOpInputOutputCharacteristic;

Result<Characteristic> input_characteristic(const OrtCustomOp* op, size_t index) {
  const auto member = TENON_CUSTOM_OP_MEMBER(op, GetInputCharacteristic);
  return member.absent() ? Result<Characteristic>(INPUT_OUTPUT_REQUIRED)
                         : call_value("A custom operator", member, op, index);
}

Result<Characteristic> output_characteristic(const OrtCustomOp* op, size_t index) {
  const auto member = TENON_CUSTOM_OP_MEMBER(op, GetOutputCharacteristic);
  return member.absent() ? Result<Characteristic>(INPUT_OUTPUT_REQUIRED)
                         : call_value("A custom operator", member, op, index);
}

// The operator's parameter for input `index`: the last one takes the rest when it is variadic.
size_t parameter_of(size_t index, size_t count) { return std::min(index, count - 1); }

Status check_inputs(const OrtCustomOp* op, const Graph& graph, const Node& node) {
  TENON_TRY_ASSIGN(const size_t count,
                   call_value("A custom operator", TENON_CUSTOM_OP_MEMBER(op, GetInputTypeCount), op));
  if (node.inputs.size() > count) {
    TENON_INVALID_IF(count == 0, "it has no inputs, and the node has {}", node.inputs.size());
    TENON_TRY_ASSIGN(const Characteristic last, input_characteristic(op, count - 1));
    TENON_INVALID_IF(last != INPUT_OUTPUT_VARIADIC, "it has {} inputs, and the node has {}", count, node.inputs.size());
  }
  for (size_t i = 0; i < std::max(count, node.inputs.size()); ++i) {
    const size_t parameter = parameter_of(i, count);
    const ValueId input = node.input(i);
    if (input == kNoValue) {
      TENON_TRY_ASSIGN(const Characteristic kind, input_characteristic(op, parameter));
      TENON_INVALID_IF(kind == INPUT_OUTPUT_REQUIRED, "its input {} is missing", i);
      continue;
    }
    TENON_TRY_ASSIGN(const ONNXTensorElementDataType wanted,
                     call_value("A custom operator", TENON_CUSTOM_OP_MEMBER(op, GetInputType), op, parameter));
    const DataType type = graph.value(input).type;
    const bool fits = wanted == ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED || type == DataType::kUndefined ||
                      from_element_type(wanted) == type;
    TENON_INVALID_IF(!fits, "its input {} is of type {}, and the node's of type {}", i,
                     data_type_name(from_element_type(wanted)), data_type_name(type));
  }
  return {};
}

Status check_version(const OrtCustomOp* op, int opset) {
  const auto start = TENON_CUSTOM_OP_MEMBER(op, GetStartVersion);
  const auto end = TENON_CUSTOM_OP_MEMBER(op, GetEndVersion);
  if (opset == 0) return {};
  if (!start.absent()) {
    TENON_TRY_ASSIGN(const int first, call_value("A custom operator", start, op));
    TENON_INVALID_IF(opset < first, "it is there from opset {} on, and the model imports {}", first, opset);
  }
  if (!end.absent()) {
    TENON_TRY_ASSIGN(const int last, call_value("A custom operator", end, op));
    TENON_INVALID_IF(opset > last, "it is there up to opset {}, and the model imports {}", last, opset);
  }
  return {};
}

// The type of output `index`: the operator's own, or for "any" that of the first input of type "any".
Result<DataType> output_type(const OrtCustomOp* op, const Graph& graph, const Node& node, size_t index) {
  TENON_TRY_ASSIGN(const size_t count,
                   call_value("A custom operator", TENON_CUSTOM_OP_MEMBER(op, GetOutputTypeCount), op));
  if (count == 0) return DataType::kUndefined;
  if (index >= count) {
    TENON_TRY_ASSIGN(const Characteristic last, output_characteristic(op, count - 1));
    if (last != INPUT_OUTPUT_VARIADIC) return DataType::kUndefined;
  }
  TENON_TRY_ASSIGN(
      const ONNXTensorElementDataType type,
      call_value("A custom operator", TENON_CUSTOM_OP_MEMBER(op, GetOutputType), op, parameter_of(index, count)));
  if (type != ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED) return from_element_type(type);
  TENON_TRY_ASSIGN(const size_t inputs,
                   call_value("A custom operator", TENON_CUSTOM_OP_MEMBER(op, GetInputTypeCount), op));
  for (size_t i = 0; i < node.inputs.size() && inputs > 0; ++i) {
    TENON_TRY_ASSIGN(
        const ONNXTensorElementDataType input,
        call_value("A custom operator", TENON_CUSTOM_OP_MEMBER(op, GetInputType), op, parameter_of(i, inputs)));
    if (input == ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED && node.inputs[i] != kNoValue)
      return graph.value(node.inputs[i]).type;
  }
  return DataType::kUndefined;
}

// Dims that the operator leaves open, or computes from open ones, stay open. A name that it gives them is shown, and
// equals no other.
bool set_shape(const OrtTensorTypeAndShapeInfo& said, ValueId id, Value& value) {
  if (!said.has_shape || value.has_rank || !value.is_tensor) return false;
  value.has_rank = true;
  value.dims.clear();
  for (size_t i = 0; i < said.dims.size(); ++i) {
    Dim dim;
    if (said.dims[i] >= 0) {
      dim.value = said.dims[i];
    } else if (i < said.dim_names.size()) {
      dim.symbol = own_symbol(said.dim_names[i], id, i);
    }
    value.dims.push_back(std::move(dim));
  }
  return true;
}

Result<bool> infer_shapes_of(const OrtCustomOp* op, Graph& graph, const Node& node) {
  const auto infer = TENON_CUSTOM_OP_MEMBER(op, InferOutputShapeFn);
  if (infer.absent()) return false;
  const bool open = std::any_of(node.outputs.begin(), node.outputs.end(),
                                [&](ValueId id) { return id != kNoValue && !graph.value(id).has_rank; });
  const bool known = std::all_of(node.inputs.begin(), node.inputs.end(),
                                 [&](ValueId id) { return id == kNoValue || graph.value(id).has_rank; });
  // The operator is asked only if the rank of an output is missing and the ranks of all inputs are known.
  if (!open || !known) return false;
  OrtShapeInferContext context(graph, node);
  TENON_TRY(
      call(format("The custom operator \"{}\" of domain \"{}\"", node.op_type, node.domain), infer, op, &context));
  bool changed = false;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNoValue || !context.outputs[i]) continue;
    changed = set_shape(*context.outputs[i], node.outputs[i], graph.value(node.outputs[i])) || changed;
  }
  return changed;
}

// The text by which find() tells operators of one name apart: the input types and the opsets.
Result<std::string> signature_of(const OrtCustomOp* op) {
  const std::string who = "A custom operator";
  TENON_TRY_ASSIGN(std::string text, custom_op_name(op));
  TENON_TRY_ASSIGN(const size_t count, call_value(who, TENON_CUSTOM_OP_MEMBER(op, GetInputTypeCount), op));
  constexpr size_t kMost = 1024;
  if (count > kMost)
    return device_error("The custom operator \"{}\" has {} inputs; {} are believed.", text, count, kMost);
  for (size_t i = 0; i < count; ++i) {
    TENON_TRY_ASSIGN(const auto type, call_value(who, TENON_CUSTOM_OP_MEMBER(op, GetInputType), op, i));
    text += format(",{}", static_cast<int>(type));
  }
  const auto start = TENON_CUSTOM_OP_MEMBER(op, GetStartVersion);
  const auto end = TENON_CUSTOM_OP_MEMBER(op, GetEndVersion);
  int first = 0, last = 0;
  if (!start.absent()) {
    TENON_TRY_ASSIGN(first, call_value(who, start, op));
  }
  if (!end.absent()) {
    TENON_TRY_ASSIGN(last, call_value(who, end, op));
  }
  return format("{};{};{}", text, first, last);
}

}  // namespace

bool is_custom_op_domain(const OrtCustomOpDomain* domain) { return domains_alive().lock()->contains(domain); }

Result<std::string> custom_op_name(const OrtCustomOp* op) {
  const auto member = TENON_CUSTOM_OP_MEMBER(op, GetName);
  TENON_TRY_ASSIGN(const char* text, call_value("A custom operator", member, op));
  return checked_text("A custom operator", member.name, text);
}

CustomOps::CustomOps(std::span<OrtCustomOpDomain* const> domains) {
  for (const OrtCustomOpDomain* domain : domains) domains_.push_back(*domain);
}

const OrtCustomOp* CustomOps::find(const Graph& graph, const Node& node, std::string* why_not) const {
  for (const OrtCustomOpDomain& domain : domains_) {
    if (domain.name != node.domain) continue;
    for (const OrtCustomOp* op : domain.ops) {
      const Result<std::string> name = custom_op_name(op);
      if (!name.ok() || *name != node.op_type) continue;
      Status fits = check_version(op, graph.opset(node.domain));
      if (fits.ok()) fits = check_inputs(op, graph, node);
      if (fits.ok()) return op;
      if (why_not != nullptr) *why_not = fits.message();
    }
  }
  return nullptr;
}

Status CustomOps::check_names() const {
  std::set<std::string> seen;
  for (const OrtCustomOpDomain& domain : domains_) {
    for (const OrtCustomOp* op : domain.ops) {
      TENON_TRY_ASSIGN(const std::string signature, signature_of(op));
      if (!seen.insert(domain.name + ":" + signature).second) {
        TENON_TRY_ASSIGN(const std::string name, custom_op_name(op));
        return device_error("The domain \"{}\" has two operators \"{}\" that take the same inputs.", domain.name, name);
      }
    }
  }
  return {};
}

Result<bool> CustomOps::infer_types(Graph& graph) const {
  bool changed = false;
  for (const Node& node : graph.nodes) {
    const OrtCustomOp* op = find(graph, node);
    if (op == nullptr) continue;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoValue) continue;
      Value& value = graph.value(node.outputs[i]);
      if (value.type != DataType::kUndefined) continue;
      TENON_TRY_ASSIGN(value.type, output_type(op, graph, node, i));
      changed = changed || value.type != DataType::kUndefined;
    }
    TENON_TRY_ASSIGN(const bool shaped, infer_shapes_of(op, graph, node));
    changed = changed || shaped;
  }
  return changed;
}

bool has_custom_domain(const OrtSessionOptions& options, const std::string& message) {
  for (const OrtCustomOpDomain* domain : options.custom_op_domains)
    if (message.find("of domain \"" + domain->name + "\"") != std::string::npos) return true;
  return false;
}

OrtStatus* ort_api::CreateCustomOpDomain(const char* domain, OrtCustomOpDomain** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateCustomOpDomain", {{"domain", domain}, {"out", out}})) return bad;
  return guarded([&] {
    OrtStatus* bad = make_object(out, OrtCustomOpDomain{.name = domain, .ops = {}});
    if (bad == nullptr) domains_alive().lock()->insert(*out);
    return bad;
  });
}

void ort_api::ReleaseCustomOpDomain(OrtCustomOpDomain* input) noexcept {
  if (input == nullptr) return;
  domains_alive().lock()->erase(input);
  delete input;
}

OrtStatus* ort_api::CustomOpDomain_Add(OrtCustomOpDomain* custom_op_domain, const OrtCustomOp* op) noexcept {
  if (OrtStatus* bad = check_pointers("CustomOpDomain_Add", {{"custom_op_domain", custom_op_domain}, {"op", op}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    if (Status status = check_op(op); !status.ok()) return to_ort(status, ORT_INVALID_ARGUMENT);
    custom_op_domain->ops.push_back(op);
    return nullptr;
  });
}

OrtStatus* ort_api::AddCustomOpDomain(OrtSessionOptions* options, OrtCustomOpDomain* custom_op_domain) noexcept {
  if (OrtStatus* bad =
          check_pointers("AddCustomOpDomain", {{"options", options}, {"custom_op_domain", custom_op_domain}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    options->custom_op_domains.push_back(custom_op_domain);
    return nullptr;
  });
}

}  // namespace tenon::abi
