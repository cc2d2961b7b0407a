#include "ep/host/custom_ops.h"

#include <gmock/gmock.h>

#include "abi/objects/slots.h"
#include "base/testing.h"
#include "graph/symbols.h"

namespace tenon::abi {
namespace {

using testing::HasSubstr;

// "Scale": float in, any out, at opset 2 and 3.
OrtCustomOp make_op() {
  OrtCustomOp op{};
  op.version = ORT_API_VERSION;
  op.GetName = [](const OrtCustomOp*) { return "Scale"; };
  op.GetInputTypeCount = [](const OrtCustomOp*) -> size_t { return 2; };
  op.GetInputType = [](const OrtCustomOp*, size_t index) {
    return index == 0 ? ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT : ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  };
  op.GetInputCharacteristic = [](const OrtCustomOp*, size_t index) {
    return index == 0 ? INPUT_OUTPUT_REQUIRED : INPUT_OUTPUT_OPTIONAL;
  };
  op.GetOutputTypeCount = [](const OrtCustomOp*) -> size_t { return 1; };
  op.GetOutputType = [](const OrtCustomOp*, size_t) { return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED; };
  op.GetStartVersion = [](const OrtCustomOp*) { return 2; };
  op.GetEndVersion = [](const OrtCustomOp*) { return 3; };
  op.CreateKernel = [](const OrtCustomOp*, const OrtApi*, const OrtKernelInfo*) -> void* { return nullptr; };
  op.KernelCompute = [](void*, OrtKernelContext*) {};
  op.KernelDestroy = [](void*) {};
  return op;
}

// y = Scale(a, b) in domain "mine".
Graph make_graph(DataType a, DataType b, int opset = 2) {
  Graph graph;
  graph.opsets = {{"", 17}, {"mine", opset}};
  const ValueId first = graph.add_value({.name = "a", .type = a});
  const ValueId second = b == DataType::kUndefined ? kNoValue : graph.add_value({.name = "b", .type = b});
  const ValueId y = graph.add_value({.name = "y"});
  graph.inputs = {first};
  graph.outputs = {y};
  graph.nodes.push_back({.op_type = "Scale", .domain = "mine", .inputs = {first, second}, .outputs = {y}});
  return graph;
}

std::string refusal(const OrtCustomOp& op) {
  OrtCustomOpDomain domain{"mine", {}};
  OrtStatus* status = ort_api::CustomOpDomain_Add(&domain, &op);
  EXPECT_EQ(ort_api::GetErrorCode(status), ORT_INVALID_ARGUMENT);
  std::string message = ort_api::GetErrorMessage(status);
  ort_api::ReleaseStatus(status);
  EXPECT_TRUE(domain.ops.empty());
  return message;
}

TEST(CustomOps, AnOperatorWithoutAMemberThatIsCalledIsRefusedByItsName) {
  OrtCustomOp op = make_op();
  op.KernelCompute = nullptr;
  EXPECT_THAT(refusal(op), HasSubstr("\"Scale\": OrtCustomOp::KernelCompute is null"));
  op = make_op();
  op.GetInputType = nullptr;
  EXPECT_THAT(refusal(op), HasSubstr("GetInputType is null"));
  op = make_op();
  op.GetName = nullptr;
  EXPECT_THAT(refusal(op), HasSubstr("GetName is null"));
  op = make_op();
  op.GetName = [](const OrtCustomOp*) -> const char* { throw 1; };
  EXPECT_THAT(refusal(op), HasSubstr("throws"));
}

TEST(CustomOps, AMemberAboveTheDeclaredVersionIsNotCalled) {
  OrtCustomOp op = make_op();
  op.version = 7;
  // Version 7 has no characteristics and no opset range; what lies there is not read.
  op.GetInputCharacteristic = [](const OrtCustomOp*, size_t) -> OrtCustomOpInputOutputCharacteristic { throw 1; };
  op.GetStartVersion = [](const OrtCustomOp*) -> int { throw 1; };
  OrtCustomOpDomain domain{"mine", {&op}};
  OrtCustomOpDomain* domains[] = {&domain};
  const Graph graph = make_graph(DataType::kFloat, DataType::kInt64, 9);
  EXPECT_EQ(CustomOps(domains).find(graph, graph.nodes[NodeId(0)]), &op);
}

TEST(CustomOps, ANodeIsServedByTypeVersionAndCount) {
  const OrtCustomOp op = make_op();
  OrtCustomOpDomain domain{"mine", {&op}};
  OrtCustomOpDomain* domains[] = {&domain};
  const CustomOps ops(domains);
  const auto why_not = [&](const Graph& graph) {
    std::string why;
    EXPECT_EQ(ops.find(graph, graph.nodes[NodeId(0)], &why), nullptr);
    return why;
  };
  const Graph good = make_graph(DataType::kFloat, DataType::kUndefined);
  EXPECT_EQ(ops.find(good, good.nodes[NodeId(0)]), &op);
  EXPECT_THAT(why_not(make_graph(DataType::kDouble, DataType::kInt64)), HasSubstr("float32"));
  EXPECT_THAT(why_not(make_graph(DataType::kFloat, DataType::kInt64, 1)), HasSubstr("from opset 2"));
  EXPECT_THAT(why_not(make_graph(DataType::kFloat, DataType::kInt64, 4)), HasSubstr("up to opset 3"));
  Graph many = make_graph(DataType::kFloat, DataType::kInt64);
  many.nodes[NodeId(0)].inputs.push_back(many.nodes[NodeId(0)].inputs[0]);
  EXPECT_THAT(why_not(many), HasSubstr("2 inputs"));
  Graph none = make_graph(DataType::kFloat, DataType::kInt64);
  none.nodes[NodeId(0)].inputs[0] = kNoValue;
  EXPECT_THAT(why_not(none), HasSubstr("input 0 is missing"));
  Graph other = make_graph(DataType::kFloat, DataType::kInt64);
  other.nodes[NodeId(0)].domain = "";
  EXPECT_EQ(ops.find(other, other.nodes[NodeId(0)]), nullptr);
}

TEST(CustomOps, AnyTypeOfOutputIsThatOfTheFirstAnyTypeOfInput) {
  const OrtCustomOp op = make_op();
  OrtCustomOpDomain domain{"mine", {&op}};
  OrtCustomOpDomain* domains[] = {&domain};
  Graph graph = make_graph(DataType::kFloat, DataType::kInt16);
  const Result<bool> changed = CustomOps(domains).infer_types(graph);
  ASSERT_TRUE(changed.ok());
  EXPECT_TRUE(*changed);
  EXPECT_EQ(graph.value(graph.outputs[0]).type, DataType::kInt16);
  // The second time there is nothing left to do.
  EXPECT_FALSE(*CustomOps(domains).infer_types(graph));
}

// "Scale" whose output has the shape that `infer` says.
OrtCustomOp make_shaped_op(decltype(OrtCustomOp::InferOutputShapeFn) infer) {
  OrtCustomOp op = make_op();
  op.InferOutputShapeFn = infer;
  return op;
}

Graph make_shaped_graph() {
  Graph graph = make_graph(DataType::kFloat, DataType::kFloat);
  for (ValueId id : graph.inputs) {
    graph.value(id).has_rank = true;
    graph.value(id).dims = {Dim{-1, "n"}, Dim{4, {}}};
  }
  graph.value(graph.nodes[NodeId(0)].inputs[1]).has_rank = true;
  Attribute attribute;
  attribute.name = "axis";
  attribute.i = 1;
  graph.nodes[NodeId(0)].attributes.edit().push_back(attribute);
  return graph;
}

TEST(CustomOps, AnOperatorSaysTheShapesOfItsOutputs) {
  const OrtCustomOp op = make_shaped_op([](const OrtCustomOp*, OrtShapeInferContext* context) -> OrtStatusPtr {
    size_t inputs = 0;
    EXPECT_EQ(ort_api::ShapeInferContext_GetInputCount(context, &inputs), nullptr);
    EXPECT_EQ(inputs, 2u);
    const OrtOpAttr* attribute = nullptr;
    EXPECT_EQ(ort_api::ShapeInferContext_GetAttribute(context, "axis", &attribute), nullptr);
    EXPECT_NE(attribute, nullptr);
    OrtTensorTypeAndShapeInfo* info = nullptr;
    OrtStatus* const beyond = ort_api::ShapeInferContext_GetInputTypeShape(context, 2, &info);
    EXPECT_STREQ(ort_api::GetErrorMessage(beyond), "Failed to fetch type shape info for the index.");
    ort_api::ReleaseStatus(beyond);
    OrtStatus* const missing = ort_api::ShapeInferContext_GetAttribute(context, "nothing", &attribute);
    EXPECT_STREQ(ort_api::GetErrorMessage(missing), "Attribute does not exist.");
    ort_api::ReleaseStatus(missing);
    EXPECT_EQ(ort_api::ShapeInferContext_GetInputTypeShape(context, 0, &info), nullptr);
    return ort_api::ShapeInferContext_SetOutputTypeShape(context, 0, info);
  });
  OrtCustomOpDomain domain{"mine", {&op}};
  OrtCustomOpDomain* domains[] = {&domain};
  Graph graph = make_shaped_graph();
  ASSERT_TRUE(*CustomOps(domains).infer_types(graph));
  const Value& y = graph.value(graph.outputs[0]);
  ASSERT_TRUE(y.has_rank);
  ASSERT_EQ(y.dims.size(), 2u);
  EXPECT_EQ(declared_symbol(y.dims[0].symbol), "n");
  EXPECT_NE(y.dims[0].symbol, "n");  // equal to no other dimension
  EXPECT_EQ(y.dims[1].value, 4);
  EXPECT_FALSE(*CustomOps(domains).infer_types(graph));
}

TEST(CustomOps, AShapeFunctionThatFailsOrThrowsIsAStatusThatNamesTheOperator) {
  const OrtCustomOp throws = make_shaped_op([](const OrtCustomOp*, OrtShapeInferContext*) -> OrtStatusPtr { throw 1; });
  const OrtCustomOp fails = make_shaped_op([](const OrtCustomOp*, OrtShapeInferContext* context) -> OrtStatusPtr {
    OrtTensorTypeAndShapeInfo* info = nullptr;
    EXPECT_EQ(ort_api::ShapeInferContext_GetInputTypeShape(context, 0, &info), nullptr);
    return ort_api::ShapeInferContext_SetOutputTypeShape(context, 5, info);
  });
  for (const OrtCustomOp* op : {&throws, &fails}) {
    OrtCustomOpDomain domain{"mine", {op}};
    OrtCustomOpDomain* domains[] = {&domain};
    Graph graph = make_shaped_graph();
    const Result<bool> inferred = CustomOps(domains).infer_types(graph);
    ASSERT_FALSE(inferred.ok());
    EXPECT_THAT(inferred.status().message(), HasSubstr("\"Scale\" of domain \"mine\""));
  }
}

TEST(CustomOps, TwoOperatorsThatTakeTheSameInputsAreTold) {
  const OrtCustomOp op = make_op();
  OrtCustomOp other = make_op();
  OrtCustomOpDomain domain{"mine", {&op, &other}};
  OrtCustomOpDomain* domains[] = {&domain};
  EXPECT_THAT(CustomOps(domains).check_names().message(), HasSubstr("two operators \"Scale\""));
  other.GetInputType = [](const OrtCustomOp*, size_t) { return ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE; };
  EXPECT_TRUE(CustomOps(domains).check_names().ok());
}

}  // namespace
}  // namespace tenon::abi
