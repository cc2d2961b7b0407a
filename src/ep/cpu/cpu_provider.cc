#include "ep/cpu/cpu_provider.h"

#include <algorithm>

#include "base/log.h"
#include "ep/cpu/kernel_list.h"
#include "ep/cpu/ops/narrow/operands.h"
#include "graph/schema.h"

namespace tenon::cpu {

namespace {

std::string_view shown_domain(const Node& node) {
  return node.domain.empty() ? std::string_view("ai.onnx") : std::string_view(node.domain);
}

// "float32, int64 -> float32": what is known of a node's types.
std::string types_text(const KernelNode& node) {
  std::string text;
  for (const TensorSpec& spec : node.inputs) {
    if (!text.empty()) text += ", ";
    text += spec.present() ? data_type_name(spec.type) : "absent";
  }
  return text.empty() ? "none" : text;
}

Status no_kernel(const Graph& graph, const Node& node) {
  const int opset = graph.opset(node.domain);
  if (node.domain != "tenon" && !find_schema(node.domain, node.op_type, opset)) {
    return unknown_operator(graph, node);
  }
  std::string known;
  for (auto [since, until] : versions_of(node)) {
    known += known.empty() ? "; it has kernels for versions " : ", ";
    known += until == kAnyVersion ? format("{} and later", since) : format("{} to {}", since, until);
  }
  return unsupported(
      "Node {} asks for operator {} of domain \"{}\" at opset {} (version {}), for which the cpu EP has no kernel{}.",
      node.label(graph), node.op_type, shown_domain(node), opset, node.since_version, known);
}

// Which types could stand in the place of the first input's, by asking the rows.
std::string supported_types(const std::vector<const KernelEntry*>& rows, const KernelNode& node) {
  if (node.inputs.empty()) return {};
  const DataType first = node.inputs[0].type;
  std::string text;
  for (int type = 1; type <= static_cast<int>(DataType::kInt2); ++type) {
    std::vector<TensorSpec> inputs(node.inputs.begin(), node.inputs.end());
    std::vector<TensorSpec> outputs(node.outputs.begin(), node.outputs.end());
    for (auto* specs : {&inputs, &outputs}) {
      for (TensorSpec& spec : *specs) {
        if (spec.type == first) spec.type = static_cast<DataType>(type);
      }
    }
    KernelNode asked = node;
    asked.inputs = inputs;
    asked.outputs = outputs;
    if (std::any_of(rows.begin(), rows.end(), [&](const KernelEntry* row) { return row->match(asked).ok(); })) {
      if (!text.empty()) text += ", ";
      text += data_type_name(static_cast<DataType>(type));
    }
  }
  return text;
}

class CpuProvider final : public ExecutionProvider {
 public:
  explicit CpuProvider(bool reference_only) : reference_only_(reference_only) {}

  std::string_view name() const override { return "cpu"; }

  Status can_run(const Graph& graph, const Node& node) const override {
    // Only the reference rows can be asked without shapes. An operator without one is decided when it is planned.
    const std::vector<const KernelEntry*> rows = reference_rows_of(node);
    if (rows.empty()) return rows_of(node).empty() ? no_kernel(graph, node) : Status();

    std::vector<TensorSpec> inputs, outputs;
    inputs.reserve(node.inputs.size());
    outputs.reserve(node.outputs.size());
    std::vector<ConstantRef> constants;
    bool unknown = false;
    for (auto [ids, specs] : {std::pair{&node.inputs, &inputs}, std::pair{&node.outputs, &outputs}}) {
      for (ValueId id : *ids) {
        TensorSpec& spec = specs->emplace_back();
        if (id == kNoValue) continue;
        const Value& value = graph.value(id);
        if (!value.is_tensor && value.object == nullptr) {
          return unsupported(
              "Node {} uses value \"{}\", which is no tensor, sequence, optional or map; the cpu EP runs {} on those "
              "only.",
              node.label(graph), value.name, node.op_type);
        }
        unknown |= value.type == DataType::kUndefined;
        spec.type = value.type;
        if (value.fully_known()) spec.shape = value.shape();
      }
    }
    if (unknown) return {};
    constants.reserve(node.inputs.size());
    for (ValueId id : node.inputs) constants.push_back(id == kNoValue ? nullptr : graph.value(id).constant);
    KernelNode asked;
    asked.graph = &graph;
    asked.node = &node;
    asked.inputs = inputs;
    asked.outputs = outputs;
    asked.constants = constants;
    Status why;
    for (const KernelEntry* row : rows) {
      why = row->match(asked);
      if (why.ok()) return why;
    }
    const std::string types = supported_types(rows, asked);
    return unsupported(
        "Node {} asks for operator {} of domain \"{}\" at opset {} on types {}, for which the cpu EP has no kernel: "
        "{}{}",
        node.label(graph), node.op_type, shown_domain(node), graph.opset(node.domain), types_text(asked), why.message(),
        types.empty() ? std::string() : format(" It has kernels for {}.", types));
  }

  LayoutChoice choose_layouts(const KernelNode& node) const override {
    if (!reference_only_) return choose_kernel_layouts(node);
    return {.inputs = std::vector<Layout>(node.inputs.size(), Layout::kPlain),
            .outputs = std::vector<Layout>(node.outputs.size(), Layout::kPlain)};
  }

  Result<std::unique_ptr<Kernel>> create_kernel(const KernelNode& node) const override {
    std::string reasons;
    const std::vector<const KernelEntry*> rows = reference_only_ ? reference_rows_of(*node.node) : rows_of(*node.node);
    if (rows.empty()) return no_kernel(*node.graph, *node.node);
    // Reference kernels take the types that ONNX allows.
    if (reference_only_ && nn::is_narrowed(node)) return nn::create_narrow(node, rows);
    for (const KernelEntry* row : rows) {
      Status match = row->match(node);
      if (match.ok()) {
        Result<std::unique_ptr<Kernel>> kernel = row->create(node);
        if (kernel.ok()) {
          TENON_TRACE(kDispatch, "{} runs on {} ({}).{}", node.node->label(*node.graph), row->name, (*kernel)->name(),
                      reasons);
        }
        if (kernel.ok() || kernel.status().code() != StatusCode::kUnsupported) {
          return kernel.ok() ? std::move(kernel)
                             : std::move(kernel).status().with_context(
                                   format("while preparing node {}", node.node->label(*node.graph)));
        }
        match = std::move(kernel).status();
      }
      reasons += format(" {}: {}", row->name, match.message());
    }
    return unsupported("No kernel of the cpu EP takes node {} with inputs of types {}.{}",
                       node.node->label(*node.graph), types_text(node), reasons);
  }

 private:
  const bool reference_only_;
};

}  // namespace

std::unique_ptr<ExecutionProvider> make_cpu_provider(bool reference_only) {
  return std::make_unique<CpuProvider>(reference_only);
}

}  // namespace tenon::cpu
