// The four models of the project's first goal: shapes against onnx.shape_inference, operators after the passes, and
// results that the passes leave alone. TENON_MODELS says where the models are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <unordered_map>

#include "base/testing.h"
#include "graph/reader.h"
#include "interpreter.h"
#include "ops/shape_inference.h"

namespace tenon {
namespace {

struct ModelCase {
  const char* name;
  std::vector<Shape> shapes;  // small ones: the plain kernels run them
};

std::ostream& operator<<(std::ostream& out, const ModelCase& model) { return out << model.name; }

class ModelPasses : public testing::TestWithParam<ModelCase> {
 protected:
  void SetUp() override {
    const std::string folder = test_variable("TENON_MODELS");
    path_ = folder + "/" + GetParam().name + ".onnx";
    if (folder.empty() || !std::filesystem::exists(path_)) GTEST_SKIP() << "no " << path_ << "; see TENON_MODELS";
  }
  Graph load() {
    Result<Model> model = read_model_file(path_);
    EXPECT_TRUE(model.ok()) << model.status().message();
    return model.ok() ? std::move(model->graph) : Graph();
  }
  std::vector<ConstantRef> inputs(const Graph& graph) {
    Graph sized = graph;
    for (size_t i = 0; i < GetParam().shapes.size(); ++i) sized.value(sized.inputs[i]).set_shape(GetParam().shapes[i]);
    return make_inputs(sized, 1);
  }

  std::string path_;
};

// Where onnx knows a number, so do we, and it is the same one.
TEST_P(ModelPasses, ShapesAreThoseOfOnnx) {
  Graph graph = load();
  Status status = infer_shapes(graph);
  ASSERT_TRUE(status.ok()) << status.message();
  std::unordered_map<std::string, const Value*> by_name;
  for (const Value& value : graph.values) by_name.emplace(value.name, &value);
  std::ifstream file(std::string(TENON_GOLDEN_DIR) + "/" + GetParam().name + ".shapes.txt");
  size_t compared = 0;
  for (std::string line; std::getline(file, line);) {
    const size_t tab = line.find('\t');
    auto found = by_name.find(line.substr(0, tab));
    if (found == by_name.end()) continue;
    const Value& value = *found->second;
    std::istringstream dims(line.substr(tab + 1));
    size_t axis = 0;
    ASSERT_TRUE(value.has_rank) << line;
    for (std::string dim; std::getline(dims, dim, ','); ++axis) {
      ASSERT_LT(axis, value.dims.size()) << line;
      if (dim == "?") continue;
      EXPECT_EQ(value.dims[axis].value, std::stoll(dim)) << line << " is " << value.type_text();
    }
    EXPECT_EQ(axis, value.dims.size()) << line << " is " << value.type_text();
    ++compared;
  }
  EXPECT_GT(compared, graph.nodes.size() * 3 / 4);
}

std::string histogram(const Graph& graph) {
  std::map<std::string, int> counts;
  for (const Node& node : graph.nodes) {
    std::string name = (node.domain.empty() ? "" : node.domain + ".") + node.op_type;
    if (const Attribute* kind = node.find("activation")) name += " " + kind->s;
    const bool product = node.op_type == "Conv" || node.op_type == "ConvTranspose" || node.op_type == "MatMul";
    if (node.domain == "tenon" && product && node.input(3) != kNoValue) name += " +residual";
    if (node.op_type == "LayerNorm" && node.input(1) != kNoValue) name += " +skip";
    ++counts[name];
  }
  std::string text = std::to_string(graph.nodes.size()) + " nodes\n";
  for (const auto& [name, count] : counts) text += std::to_string(count) + " " + name + "\n";
  return text;
}

TEST_P(ModelPasses, LeaveFewOperatorsAndTheSameResults) {
  const Graph original = load();
  Graph graph = original;
  const std::vector<ConstantRef> values = inputs(graph);
  Status status = run_named(graph, PassPhase::kLoad, {});
  ASSERT_TRUE(status.ok()) << status.message();
  std::string text = "load: " + histogram(graph);
  graph = with_shapes(graph, values);
  status = run_named(graph, PassPhase::kPlan, {});
  ASSERT_TRUE(status.ok()) << status.message();
  text += "plan: " + histogram(graph);

  std::ifstream file(std::string(TENON_GOLDEN_DIR) + "/" + GetParam().name + ".operators.txt");
  std::ostringstream wanted;
  wanted << file.rdbuf();
  EXPECT_EQ(text, wanted.str());
  if (text != wanted.str()) std::ofstream(std::string(GetParam().name) + ".operators.txt") << text;

  // The products alone keep fast kernels: plain loops over a whole model take long.
  Graph bare = original;
  status = run_named(bare, PassPhase::kLoad, {"convolutions", "matmuls"});
  ASSERT_TRUE(status.ok()) << status.message();
  Result<std::vector<ConstantRef>> before = interpret(bare, values), after = interpret(graph, values);
  ASSERT_TRUE(before.ok()) << before.status().message();
  ASSERT_TRUE(after.ok()) << after.status().message();
  for (size_t i = 0; i < before->size(); ++i)
    EXPECT_LT(relative_difference(*(*before)[i], *(*after)[i]), 1e-4) << "output " << i;
}

INSTANTIATE_TEST_SUITE_P(Models, ModelPasses,
                         testing::Values(ModelCase{"ppocr_v6_det", {{1, 3, 64, 96}}},
                                         ModelCase{"nudenet_yolov8n", {{1, 3, 320, 320}}},
                                         ModelCase{"magika", {{1, 2048}}}, ModelCase{"minilm_l3", {{1, 12}, {1, 12}}}),
                         [](const testing::TestParamInfo<ModelCase>& info) { return info.param.name; });

}  // namespace
}  // namespace tenon
