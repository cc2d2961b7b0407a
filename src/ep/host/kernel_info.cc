#include "ep/host/kernel_info.h"

#include <utility>

#include "ep/host/attribute_defaults.h"

namespace tenon::abi {

namespace {

Result<KernelParameter> describe(const Graph& graph, ValueId id) {
  KernelParameter parameter;
  if (id == kNoValue) return parameter;
  const Value& value = graph.value(id);
  parameter.name = value.name;
  parameter.type = type_info_of(value);
  if (value.constant) {
    TENON_TRY_ASSIGN(parameter.constant, value_of(value.constant));
  }
  return parameter;
}

}  // namespace

Result<std::unique_ptr<OrtKernelInfo>> make_kernel_info(const Graph& graph, const Node& node,
                                                        std::shared_ptr<const KernelHost> host) {
  auto info = std::make_unique<OrtKernelInfo>();
  info->host = std::move(host);
  info->node = node;
  for (const std::unique_ptr<Attribute>& attribute : default_attributes(node))
    info->node.attributes.edit().push_back(std::move(*attribute));
  for (ValueId id : node.inputs) {
    TENON_TRY_ASSIGN(KernelParameter parameter, describe(graph, id));
    info->inputs.push_back(std::move(parameter));
  }
  for (ValueId id : node.outputs) {
    TENON_TRY_ASSIGN(KernelParameter parameter, describe(graph, id));
    info->outputs.push_back(std::move(parameter));
  }
  return info;
}

std::unique_ptr<OrtKernelInfo> copy_kernel_info(const OrtKernelInfo& info) {
  auto copy = std::make_unique<OrtKernelInfo>();
  copy->host = info.host;
  copy->node = info.node;
  const auto copy_all = [](const std::vector<KernelParameter>& from, std::vector<KernelParameter>& to) {
    for (const KernelParameter& parameter : from) {
      to.push_back({parameter.name, parameter.type,
                    parameter.constant ? std::make_unique<OrtValue>(*parameter.constant) : nullptr});
    }
  };
  copy_all(info.inputs, copy->inputs);
  copy_all(info.outputs, copy->outputs);
  return copy;
}

}  // namespace tenon::abi
