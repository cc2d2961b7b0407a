#include "graph/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "graph/model_writer.h"

namespace tenon {
namespace {

using namespace model_writer;  // NOLINT(google-build-using-namespace)
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<Model> read(const std::string& data, const ReaderLimits& limits = {}) {
  return read_model_bytes(bytes(data), "", limits);
}

// One Relu between "x" and "y", with what a test adds.
GraphText relu_graph() {
  return {.nodes = {node({.op_type = "Relu", .inputs = {"x"}, .outputs = {"y"}, .name = "relu"})},
          .inputs = {float_info("x")},
          .outputs = {float_info("y")}};
}

std::string small_model() {
  GraphText text;
  text.nodes = {
      node({.op_type = "Constant",
            .outputs = {"shape"},
            .attributes = {ints_attribute("value_ints", {1, 2})},
            .name = "constant"}),
      node({.op_type = "Add", .inputs = {"x", "w"}, .outputs = {"sum"}}),
      node({.op_type = "Reshape", .inputs = {"sum", "shape"}, .outputs = {"y"}}),
      node({.op_type = "If",
            .inputs = {"c"},
            .outputs = {"z"},
            .attributes = {graph_attribute(
                               "then_branch",
                               graph({.nodes = {node({.op_type = "Relu", .inputs = {"sum"}, .outputs = {"a"}})},
                                      .inputs = {},
                                      .outputs = {float_info("a")}})),
                           graph_attribute("else_branch",
                                           graph({.nodes = {node(
                                                      {.op_type = "Neg", .inputs = {"w"}, .outputs = {"b"}})},
                                                  .inputs = {},
                                                  .outputs = {float_info("b")}}))}}),
      node({.op_type = "Twice", .inputs = {"z"}, .outputs = {"t"}, .domain = "local"})};
  text.inputs = {float_info("x", {"N", int64_t{2}}), value_info("c", tensor_type(9, {}))};
  text.outputs = {float_info("y", {int64_t{1}, int64_t{2}}), float_info("t")};
  text.initializers = {raw_tensor<float>("w", 1, {2}, {1.5f, -2.0f})};
  text.value_infos = {float_info("sum", {"N", int64_t{2}})};
  return model(
      graph(text),
      {.opsets = {opset("", 17), opset("local", 1)},
       .functions = {function({.name = "Twice",
                               .domain = "local",
                               .inputs = {"in"},
                               .outputs = {"out"},
                               .nodes = {node({.op_type = "Add", .inputs = {"in", "in"}, .outputs = {"out"}})}})}});
}

void expect_error(const Result<Model>& model, StatusCode code, const ::testing::Matcher<std::string>& message) {
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().code(), code) << model.status().message();
  EXPECT_THAT(model.status().message(), message);
}

TEST(ReadModel, EveryTruncationIsAnErrorOrAModel) {
  const std::string whole = small_model();
  ASSERT_TRUE(read(whole).ok()) << read(whole).status().message();
  size_t failed = 0;
  for (size_t length = 0; length < whole.size(); ++length) {
    const Result<Model> model = read(whole.substr(0, length));
    failed += !model.ok();
    EXPECT_EQ(model.ok(), model.status().message().empty());
  }
  // A cut behind the graph leaves a model without its function, one before it leaves none.
  EXPECT_GT(failed, whole.size() * 9 / 10);
}

TEST(ReadModel, EveryBitFlipIsAnErrorOrAModel) {
  const std::string whole = small_model();
  size_t failed = 0;
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string broken = whole;
    broken[bit / 8] = static_cast<char>(broken[bit / 8] ^ (1 << bit % 8));
    const Result<Model> model = read(broken);
    failed += !model.ok();
    if (model.ok()) {
      EXPECT_FALSE(model->graph.to_text().empty());
    } else {
      EXPECT_NE(model.status().code(), StatusCode::kInternal) << model.status().message();
    }
  }
  EXPECT_GT(failed, whole.size());
}

TEST(ReadModel, RandomBytesAreNoModel) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string noise(random() % 200, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    EXPECT_FALSE(read(noise).ok());
  }
}

TEST(ReadModel, AnEmptyOrGraphlessModelIsRefused) {
  expect_error(read(""), StatusCode::kInvalidArgument, HasSubstr("empty"));
  expect_error(read(message([](auto& to) { to.add_int64(1, 8); })), StatusCode::kInvalidArgument,
               HasSubstr("has no graph"));
  const std::string one = model(graph(relu_graph()));
  expect_error(read(one + one), StatusCode::kInvalidArgument, HasSubstr("two graphs"));
}

TEST(ReadModel, BytesThatOnlyBeginLikeAnOrtFormatModelAreRefused) {
  for (const size_t size : {0, 1, 4, 24, 64, 4096}) {
    for (const char filling : {'\0', '\1', '\x04', '\xff'})
      expect_error(read(std::string("\x08\0\0\0ORTM", 8) + std::string(size, filling)), StatusCode::kInvalidArgument,
                   HasSubstr("ONNX Runtime's format"));
  }
}

TEST(ReadModel, VersionsOutsideTheKnownOnesNameBoth) {
  const std::string relu = graph(relu_graph());
  expect_error(read(model(relu, {.ir_version = 15})), StatusCode::kUnsupported,
               AllOf(HasSubstr("IR version 15"), HasSubstr("14")));
  expect_error(read(model(relu, {.ir_version = 0})), StatusCode::kInvalidArgument, HasSubstr("IR version 0"));
  EXPECT_TRUE(read(model(relu, {.ir_version = 1})).ok());
  expect_error(read(model(relu, {.opsets = {opset("", 29)}})), StatusCode::kUnsupported,
               AllOf(HasSubstr("opset 29 of ai.onnx"), HasSubstr("28")));
  expect_error(read(model(relu, {.opsets = {opset("ai.onnx", 5)}})), StatusCode::kUnsupported,
               AllOf(HasSubstr("opset 5 of ai.onnx"), HasSubstr("7")));
  // Relu of opset 6 is that of opset 7.
  EXPECT_TRUE(read(model(relu, {.opsets = {opset("ai.onnx", 6)}})).ok());
  expect_error(read(model(relu, {.opsets = {opset("", 17), opset("ai.onnx.ml", 6)}})), StatusCode::kUnsupported,
               AllOf(HasSubstr("opset 6 of ai.onnx.ml"), HasSubstr("5")));
  const Result<Model> twice = read(model(relu, {.opsets = {opset("", 17), opset("ai.onnx", 18)}}));
  ASSERT_TRUE(twice.ok());
  EXPECT_EQ(twice->graph.opset(""), 18);  // the later, as in ONNX Runtime
  expect_error(read(model(relu, {.opsets = {opset("", -3)}})), StatusCode::kInvalidArgument, HasSubstr("-3"));
  EXPECT_TRUE(read(model(relu, {.ir_version = 14, .opsets = {opset("", 28), opset("com.example", 77)}})).ok());
  EXPECT_TRUE(read(model(relu, {.ir_version = 3, .opsets = {opset("", 7)}})).ok());
}

// As in onnxruntime: a domain that it knows itself is at its newest opset, unless the model imports nothing at all.
TEST(ReadModel, AMissingImportOfAKnownDomainIsItsNewestOpset) {
  const auto onnx = read(model(graph(relu_graph()), {.opsets = {opset("com.example", 1)}}));
  ASSERT_TRUE(onnx.ok()) << onnx.status().message();
  EXPECT_EQ(onnx->graph.opset(""), 28);
  EXPECT_EQ(onnx->graph.nodes[NodeId(0)].since_version, 14);

  GraphText text = relu_graph();
  text.nodes = {node({.op_type = "Normalizer", .inputs = {"x"}, .outputs = {"t"}, .domain = "ai.onnx.ml"}),
                node({.op_type = "Gelu", .inputs = {"t"}, .outputs = {"y"}, .domain = "com.microsoft"})};
  const auto others = read(model(graph(text), {.opsets = {opset("", 17)}}));
  ASSERT_TRUE(others.ok()) << others.status().message();
  EXPECT_EQ(others->graph.opset("ai.onnx.ml"), 5);
  EXPECT_EQ(others->graph.opset("com.microsoft"), 1);
  EXPECT_EQ(others->graph.nodes[NodeId(0)].since_version, 1);

  const auto unused = read(model(graph(relu_graph()), {.opsets = {opset("", 17)}}));
  ASSERT_TRUE(unused.ok()) << unused.status().message();
  EXPECT_EQ(unused->graph.opset("com.microsoft"), 0);

  expect_error(read(model(graph(relu_graph()), {.opsets = {}})), StatusCode::kInvalidArgument,
               AllOf(HasSubstr("Relu \"relu\""), HasSubstr("ai.onnx")));
}

TEST(ReadModel, TheDomainTenonIsRefused) {
  GraphText text = relu_graph();
  text.nodes = {node({.op_type = "Conv", .inputs = {"x"}, .outputs = {"y"}, .name = "n", .domain = "tenon"})};
  expect_error(read(model(graph(text))), StatusCode::kInvalidArgument, HasSubstr("\"tenon\""));
  expect_error(read(model(graph(relu_graph()), {.opsets = {opset("", 17), opset("tenon", 1)}})),
               StatusCode::kInvalidArgument, HasSubstr("\"tenon\""));
}

TEST(ReadModel, UnknownOperatorsStayWithoutASchema) {
  GraphText text = relu_graph();
  text.nodes = {node({.op_type = "FusedThing", .inputs = {"x"}, .outputs = {"y"}, .domain = "com.microsoft"})};
  auto model_read = read(model(graph(text), {.opsets = {opset("", 17), opset("com.microsoft", 1)}}));
  ASSERT_TRUE(model_read.ok()) << model_read.status().message();
  EXPECT_EQ(model_read->graph.nodes[NodeId(0)].since_version, 0);
}

TEST(ReadModel, NamesMustBeUtf8AndWithinTheLimit) {
  GraphText text = relu_graph();
  text.nodes.push_back(node({.op_type = "Relu", .inputs = {"x"}, .outputs = {"caf\xc3\xa9"}}));
  EXPECT_TRUE(read(model(graph(text))).ok());
  text.nodes.back() = node({.op_type = "Relu", .inputs = {"x"}, .outputs = {"caf\xc3"}});
  expect_error(read(model(graph(text))), StatusCode::kInvalidArgument, HasSubstr("not UTF-8"));
  text.nodes.back() = node({.op_type = "Relu", .inputs = {"x"}, .outputs = {"\xed\xa0\x80"}});
  expect_error(read(model(graph(text))), StatusCode::kInvalidArgument, HasSubstr("not UTF-8"));
  text.nodes.back() = node({.op_type = "Relu", .inputs = {"x"}, .outputs = {std::string(2000, 'n')}});
  expect_error(read(model(graph(text)), {.max_string_bytes = 1000}), StatusCode::kResourceExhausted,
               AllOf(HasSubstr("2000"), HasSubstr("1000")));
  text.nodes.back() = node({.op_type = "Relu",
                            .inputs = {"x"},
                            .outputs = {"z"},
                            .attributes = {string_attribute("s", std::string(2000, 'n'))}});
  expect_error(read(model(graph(text)), {.max_string_bytes = 1000}), StatusCode::kResourceExhausted, HasSubstr("2000"));
}

TEST(ReadModel, MoreNodesThanTheLimitAreRefused) {
  GraphText text = relu_graph();
  for (int i = 0; i < 20; ++i)
    text.nodes.push_back(node({.op_type = "Relu", .inputs = {"x"}, .outputs = {format("v{}", i)}}));
  expect_error(read(model(graph(text)), {.max_nodes = 10}), StatusCode::kResourceExhausted, HasSubstr("10 nodes"));
}

TEST(ReadModel, FillsInfoTypesAndSymbols) {
  const std::string data = small_model() + message([](auto& to) {
                             to.add_string(2, "writer");
                             to.add_string(3, "1.2");
                             to.add_string(4, "org.example");
                             to.add_int64(5, 42);
                             to.add_string(6, "about");
                             to.add_message(14, message([](auto& entry) {
                                              entry.add_string(1, "key");
                                              entry.add_string(2, "value");
                                            }));
                           });
  auto model = read(data);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->info.ir_version, 8);
  EXPECT_EQ(model->info.producer_name, "writer");
  EXPECT_EQ(model->info.producer_version, "1.2");
  EXPECT_EQ(model->info.domain, "org.example");
  EXPECT_EQ(model->info.model_version, 42);
  EXPECT_EQ(model->info.doc_string, "about");
  EXPECT_THAT(model->info.metadata, ElementsAre(std::pair<std::string, std::string>("key", "value")));
  EXPECT_EQ(model->info.file_bytes, data.size());
  EXPECT_EQ(model->graph.to_text(),
            "graph \"g\"(%x:float32[N,2], %c:bool[]) ai.onnx@17 local@1\n"
            "%w:float32[2]=const\n"
            "%shape:int64[2]=const\n"
            "%sum:float32[N,2] = Add@14(%x, %w)\n"
            "%y:float32[1,2] = Reshape@14(%sum, %shape)\n"
            "%z:undefined[...] = If@16(%c) {else_branch=graph, then_branch=graph}\n"
            "  else_branch:\n"
            "    graph \"g\"() ai.onnx@17 local@1\n"
            "    %w:float32[2]=const\n"
            "    %b:float32[2] = Neg@13(%w)\n"
            "    return %b:float32[2]\n"
            "  then_branch: %sum<-%sum\n"
            "    graph \"g\"() ai.onnx@17 local@1\n"
            "    %a:float32[2] = Relu@14(%sum)\n"
            "    return %a:float32[2]\n"
            "%t:float32[2] = Add@14(%z, %z)\n"
            "return %y:float32[1,2], %t:float32[2]\n");
}

}  // namespace
}  // namespace tenon
