// Graphs made by hand for the tests of passes.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace tenon {

class GraphMaker {
 public:
  explicit GraphMaker(int opset = 17);

  // "N" is a symbol, "3" a number.
  ValueId input(const std::string& name, const std::vector<std::string>& dims, DataType type = DataType::kFloat);
  // Numbers that look random and are always the same, in -1 to 1.
  ValueId weights(const std::string& name, const Shape& shape);
  ValueId number(float value, const Shape& shape = Shape());
  ValueId floats(const std::string& name, const Shape& shape, const std::vector<float>& values);
  ValueId ints(std::vector<int64_t> values, bool scalar = false);
  // The last node made; its first output is returned and is named after the operator and a count.
  ValueId node(const std::string& op_type, const std::vector<ValueId>& inputs, size_t outputs = 1);
  GraphMaker& set(std::string_view name, int64_t value);
  GraphMaker& set(std::string_view name, float value);
  GraphMaker& set(std::string_view name, const char* value);
  GraphMaker& set(std::string_view name, std::vector<int64_t> value);
  ValueId output_of_last(size_t index) const { return graph_.nodes.back().outputs[index]; }
  void output(ValueId id) { graph_.outputs.push_back(id); }
  Graph& graph() { return graph_; }

 private:
  Graph graph_;
  int opset_;
};

}  // namespace tenon
