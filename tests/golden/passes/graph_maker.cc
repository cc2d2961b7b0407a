#include "graph_maker.h"

#include <cctype>
#include <cstring>

#include "graph/schema.h"

namespace tenon {

GraphMaker::GraphMaker(int opset) : opset_(opset) {
  graph_.name = "test";
  graph_.opsets = {{"", opset}};
}

ValueId GraphMaker::input(const std::string& name, const std::vector<std::string>& dims, DataType type) {
  Value value{.name = name, .type = type, .has_rank = true};
  for (const std::string& dim : dims) {
    const bool digit = std::isdigit(static_cast<unsigned char>(dim[0])) != 0;
    value.dims.push_back(digit ? Dim{.value = std::stoll(dim), .symbol = {}} : Dim{.value = -1, .symbol = dim});
  }
  const ValueId id = graph_.add_value(std::move(value));
  graph_.inputs.push_back(id);
  return id;
}

ValueId GraphMaker::floats(const std::string& name, const Shape& shape, const std::vector<float>& values) {
  std::byte* data = nullptr;
  ConstantRef constant = make_constant(DataType::kFloat, shape, &data).value();
  if (!values.empty()) std::memcpy(data, values.data(), values.size() * sizeof(float));
  return graph_.add_constant(name, std::move(constant));
}

ValueId GraphMaker::weights(const std::string& name, const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.element_count()));
  auto state = static_cast<uint32_t>(values.size());
  for (char letter : name) state = state * 31 + static_cast<uint32_t>(letter);
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
  }
  return floats(name, shape, values);
}

ValueId GraphMaker::number(float value, const Shape& shape) {
  return floats("c" + std::to_string(graph_.values.size()), shape,
                std::vector<float>(static_cast<size_t>(shape.element_count()), value));
}

ValueId GraphMaker::ints(std::vector<int64_t> values, bool scalar) {
  return graph_.add_constant("i" + std::to_string(graph_.values.size()), make_int64_constant(values, scalar));
}

ValueId GraphMaker::node(const std::string& op_type, const std::vector<ValueId>& inputs, size_t outputs) {
  Node node;
  node.op_type = op_type;
  const auto schema = find_schema("", op_type, opset_);
  node.since_version = schema ? schema->since_version : 1;
  node.inputs = inputs;
  for (size_t i = 0; i < outputs; ++i) {
    std::string name = op_type + std::to_string(graph_.nodes.size());
    if (i > 0) name += "_" + std::to_string(i);
    node.outputs.push_back(graph_.add_value(Value{.name = std::move(name)}));
  }
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back().outputs[0];
}

GraphMaker& GraphMaker::set(std::string_view name, int64_t value) {
  graph_.nodes.back().set_int(name, value);
  return *this;
}
GraphMaker& GraphMaker::set(std::string_view name, float value) {
  graph_.nodes.back().set_float(name, value);
  return *this;
}
GraphMaker& GraphMaker::set(std::string_view name, const char* value) {
  graph_.nodes.back().set_string(name, value);
  return *this;
}
GraphMaker& GraphMaker::set(std::string_view name, std::vector<int64_t> value) {
  graph_.nodes.back().set_ints(name, std::move(value));
  return *this;
}

}  // namespace tenon
