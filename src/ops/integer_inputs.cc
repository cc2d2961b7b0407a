#include "ops/integer_inputs.h"

namespace tenon {

std::optional<std::vector<int64_t>> integers_of(const Constant* constant) {
  if (constant == nullptr) return std::nullopt;
  if (constant->type == DataType::kInt64) {
    const auto values = constant->as<int64_t>();
    return std::vector<int64_t>(values.begin(), values.end());
  }
  if (constant->type == DataType::kInt32) {
    const auto values = constant->as<int32_t>();
    return std::vector<int64_t>(values.begin(), values.end());
  }
  return std::nullopt;
}

ReadIntegers constant_integers(const Graph& graph, const Node& node) {
  return [&graph, &node](size_t input) -> Result<std::vector<int64_t>> {
    const ValueId id = node.input(input);
    std::optional<std::vector<int64_t>> values = integers_of(id == kNoValue ? nullptr : graph.value(id).constant.get());
    TENON_UNSUPPORTED_IF(!values, "Input {} of {} is no constant of integers.", input, node.label(graph));
    return std::move(*values);
  };
}

}  // namespace tenon
