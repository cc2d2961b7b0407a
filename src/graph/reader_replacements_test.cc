// Initializers that a program gives in place of those in the file, and data that the reader keeps beside the graph.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/model_writer.h"
#include "graph/reader.h"

namespace tenon {
namespace {

using namespace model_writer;  // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;

std::string scaled_model(bool weight_is_input) {
  GraphText text;
  text.nodes = {node({.op_type = "Mul", .inputs = {"x", "w"}, .outputs = {"y"}})};
  text.inputs = {float_info("x", {int64_t{2}})};
  if (weight_is_input) text.inputs.push_back(float_info("w", {int64_t{2}}));
  text.outputs = {float_info("y", {int64_t{2}})};
  text.initializers = {raw_tensor<float>("w", 1, {2}, {1.0f, 2.0f})};
  return model(graph(text), {.opsets = {opset("", 17)}});
}

ConstantRef floats(const Shape& shape, float value) {
  std::byte* data = nullptr;
  ConstantRef constant = make_constant(DataType::kFloat, shape, &data).value();
  std::fill_n(reinterpret_cast<float*>(data), shape.element_count(), value);
  return constant;
}

const Value& value_named(const Graph& graph, std::string_view name) {
  for (const Value& value : graph.values)
    if (value.name == name) return value;
  ADD_FAILURE() << "There is no value " << name;
  return graph.value(ValueId(0));
}

TEST(ReaderReplacements, AnInitializerIsUsedWhereItLies) {
  ReaderReplacements replacements;
  replacements.initializers["w"] = floats({2}, 5.0f);
  const Result<Model> model = read_model_bytes(bytes(scaled_model(false)), "", {}, replacements);
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_EQ(value_named(model->graph, "w").constant, replacements.initializers["w"]);
}

TEST(ReaderReplacements, AnInitializerOfAnotherShapeOrTypeIsRefused) {
  ReaderReplacements replacements;
  replacements.initializers["w"] = floats({3}, 5.0f);
  const Result<Model> model = read_model_bytes(bytes(scaled_model(false)), "", {}, replacements);
  EXPECT_THAT(model.status().message(), HasSubstr("\"w\" is float32[3], and the model's is float32[2]"));
}

TEST(ReaderReplacements, ANameThatTheModelDoesNotHaveIsIgnored) {
  ReaderReplacements replacements;
  replacements.initializers["q"] = floats({3}, 5.0f);
  EXPECT_TRUE(read_model_bytes(bytes(scaled_model(false)), "", {}, replacements).ok());
}

TEST(ReaderNotes, AnInitializerThatIsListedAsInputIsOverridable) {
  const Result<Model> model = read_model_bytes(bytes(scaled_model(true)), "");
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  ASSERT_EQ(model->notes.overridable.size(), 1u);
  EXPECT_EQ(model->graph.value(model->notes.overridable[0]).name, "w");
  EXPECT_EQ(model->graph.inputs.size(), 1u);
}

TEST(ReaderNotes, OverridableInitializersBecomeInputsOnDemand) {
  ReaderReplacements replacements;
  replacements.initializers_as_inputs = true;
  const Result<Model> model = read_model_bytes(bytes(scaled_model(true)), "", {}, replacements);
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_EQ(model->graph.inputs.size(), 2u);
  EXPECT_EQ(value_named(model->graph, "w").constant, nullptr);
}

TEST(ReaderNotes, ABrokenEncodingIsToldFromABrokenModel) {
  std::string garbage(64, '\xff');
  EXPECT_THAT(read_model_bytes(bytes(garbage), "").status().message(), HasSubstr(std::string(kBrokenEncoding)));
}

}  // namespace
}  // namespace tenon
