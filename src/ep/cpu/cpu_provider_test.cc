#include "ep/cpu/cpu_provider.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon::cpu {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// y = op(a, b) at opset 17, nothing known but the types.
struct OneNode {
  OneNode(std::string op_type, DataType type, std::string domain = "", int version = 14) {
    graph.opsets = {{"", 17}, {"com.example", 3}};
    Value value;
    value.type = type;
    for (const char* name : {"a", "b", "y"}) {
      value.name = name;
      graph.add_value(value);
    }
    node.name = "n7";
    node.op_type = std::move(op_type);
    node.domain = std::move(domain);
    node.since_version = version;
    node.inputs = {ValueId(0), ValueId(1)};
    node.outputs = {ValueId(2)};
  }
  Status can_run() { return make_cpu_provider()->can_run(graph, node); }
  Graph graph;
  Node node;
};

TEST(CpuProvider, RunsAKnownOperatorOfUnknownShape) {
  EXPECT_TRUE(OneNode("Add", DataType::kFloat).can_run().ok());
  // Types that are not known yet are no reason to refuse.
  EXPECT_TRUE(OneNode("Add", DataType::kUndefined).can_run().ok());
}

TEST(CpuProvider, RefusesAMisspeltOperatorWithCloseNames) {
  const Status status = OneNode("Ad", DataType::kFloat).can_run();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("n7"), HasSubstr("operator Ad "), HasSubstr("ai.onnx"),
                                      HasSubstr("opset 17"), HasSubstr("Add")));
}

TEST(CpuProvider, RefusesAForeignDomainAndSaysWhatIsKnown) {
  const Status status = OneNode("FancyOp", DataType::kFloat, "com.example", 3).can_run();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("com.example"), HasSubstr("opset 3"), HasSubstr("ai.onnx up to opset")));
}

TEST(CpuProvider, RefusesATypeAndNamesTheOnesThatItHas) {
  const Status status = OneNode("And", DataType::kFloat, "", 7).can_run();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("float32, float32"), HasSubstr("It has kernels for bool.")));
  EXPECT_THAT(OneNode("Add", DataType::kString).can_run().message(),
              AllOf(HasSubstr("float32"), HasSubstr("int64"), Not(HasSubstr("bool,"))));
}

TEST(CpuProvider, RefusesAValueThatIsNoTensor) {
  OneNode one("Add", DataType::kUndefined);
  one.graph.value(ValueId(1)).is_tensor = false;
  EXPECT_THAT(one.can_run().message(), HasSubstr("\"b\", which is no tensor"));
}

TEST(CpuProvider, CollectsEachRowsReason) {
  OneNode one("Conv", DataType::kInt32, "", 11);
  const std::vector<TensorSpec> inputs = {{.type = DataType::kInt32, .shape = {1, 1, 3, 3}},
                                          {.type = DataType::kInt32, .shape = {1, 1, 1, 1}}};
  const std::vector<TensorSpec> outputs = {{.type = DataType::kInt32, .shape = {1, 1, 3, 3}}};
  const std::vector<ConstantRef> constants(2);
  KernelNode asked;
  asked.graph = &one.graph;
  asked.node = &one.node;
  asked.inputs = inputs;
  asked.outputs = outputs;
  asked.constants = constants;
  const auto kernel = make_cpu_provider()->create_kernel(asked);
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(kernel.status().message(), AllOf(HasSubstr("n7"), HasSubstr("conv_direct: "), HasSubstr("ref: ")));
}

}  // namespace
}  // namespace tenon::cpu
