// Outputs that may share memory with inputs; needs no device.
#include "ep/cuda/compute/in_place.h"

#include <gtest/gtest.h>

#include "ep/cuda/compute/region.h"
#include "plan/testing.h"

namespace tenon::cuda {
namespace {

std::vector<Dim> square() { return {Dim{16, {}}, Dim{16, {}}}; }

// x and z of 16 x 16, and what a test makes of them.
struct Graphs {
  plan_testing::GraphBuilder builder;
  ValueId x = builder.input("x", square());
  ValueId z = builder.input("z", square());

  ValueId node(const char* op, std::vector<ValueId> inputs, const char* name) {
    return builder.node(op, std::move(inputs), name, DataType::kFloat);
  }
  Program program() {
    Result<Region> region = Region::prepare(builder.graph);
    EXPECT_TRUE(region.ok()) << region.status().to_string();
    std::vector<Shape> shapes;
    for (ValueId id : region->graph().inputs) shapes.push_back(region->graph().value(id).shape());
    Result<Program> program = region->lower_at(shapes, true);
    EXPECT_TRUE(program.ok()) << program.status().to_string();
    return *std::move(program);
  }
};

// S3.2
TEST(InPlace, AChainOfElementsReadsEachBeforeItWritesIt) {
  Graphs graphs;
  graphs.builder.output(graphs.node("Exp", {graphs.node("Add", {graphs.x, graphs.z}, "sum")}, "y"));
  const Program program = graphs.program();
  EXPECT_TRUE(may_run_in_place(program, 0, 0)) << program.to_text();
  EXPECT_TRUE(may_run_in_place(program, 1, 0));
  EXPECT_FALSE(may_run_in_place(program, 2, 0));
  EXPECT_FALSE(may_run_in_place(program, 0, 1));
}

TEST(InPlace, AnInputThatIsReadElsewhereTooIsNot) {
  Graphs graphs;
  const ValueId turned = graphs.node("Transpose", {graphs.x}, "turned");
  graphs.builder.last().set_ints("perm", {1, 0});
  graphs.builder.output(graphs.node("Add", {graphs.z, turned}, "y"));
  const Program program = graphs.program();
  EXPECT_FALSE(may_run_in_place(program, 0, 0)) << program.to_text();
  EXPECT_TRUE(may_run_in_place(program, 1, 0));
}

TEST(InPlace, AProductReadsWholeRows) {
  Graphs graphs;
  graphs.builder.output(graphs.node("MatMul", {graphs.x, graphs.z}, "y"));
  const Program program = graphs.program();
  EXPECT_FALSE(may_run_in_place(program, 0, 0)) << program.to_text();
  EXPECT_FALSE(may_run_in_place(program, 1, 0));
}

// An input that only earlier operators read is free when the last one writes.
TEST(InPlace, AnInputThatIsOverIsFree) {
  Graphs graphs;
  const ValueId product = graphs.node("MatMul", {graphs.x, graphs.z}, "product");
  graphs.builder.output(graphs.node("Softmax", {graphs.node("MatMul", {product, product}, "again")}, "y"));
  const Program program = graphs.program();
  EXPECT_TRUE(may_run_in_place(program, 0, 0)) << program.to_text();
  EXPECT_TRUE(may_run_in_place(program, 1, 0));
}

// The first output is written before the second one's operator reads x.
TEST(InPlace, AnInputThatIsReadLaterIsNot) {
  Graphs graphs;
  const ValueId first = graphs.node("MatMul", {graphs.z, graphs.z}, "first");
  graphs.builder.output(first);
  graphs.builder.output(graphs.node("MatMul", {first, graphs.x}, "second"));
  const Program program = graphs.program();
  EXPECT_FALSE(may_run_in_place(program, 0, 0)) << program.to_text();
  EXPECT_FALSE(may_run_in_place(program, 0, 1));
  EXPECT_TRUE(may_run_in_place(program, 1, 1));
}

// A cache with room for the new keys and values: those of the past stay where they are.
TEST(InPlace, APresentIsItsPast) {
  plan_testing::GraphBuilder builder;
  const auto dims = [](std::vector<int64_t> sizes) {
    std::vector<Dim> made;
    for (int64_t size : sizes) made.push_back({size, {}});
    return made;
  };
  const auto input = [&](const char* name, std::vector<int64_t> sizes, DataType type = DataType::kFloat) {
    const ValueId id = builder.input(name, dims(std::move(sizes)));
    builder.graph.value(id).type = type;
    return id;
  };
  const ValueId q = input("q", {1, 1, 32}), k = input("k", {1, 1, 16}), v = input("v", {1, 1, 16});
  const ValueId past_k = input("past_k", {1, 2, 9, 8}), past_v = input("past_v", {1, 2, 9, 8});
  const ValueId lengths = input("lengths", {1}, DataType::kInt32);
  std::byte* data = nullptr;
  Result<ConstantRef> total = make_constant(DataType::kInt32, Shape{}, &data);
  ASSERT_TRUE(total.ok());
  *reinterpret_cast<int32_t*>(data) = 9;
  const ValueId largest = builder.graph.add_constant("total", *std::move(total));
  const ValueId y = builder.node("GroupQueryAttention", {q, k, v, past_k, past_v, lengths, largest}, "y");
  Node& node = builder.last();
  node.domain = "com.microsoft";
  node.since_version = 1;
  node.set_int("num_heads", 4);
  node.set_int("kv_num_heads", 2);
  const ValueId present_k = builder.value("present_k"), present_v = builder.value("present_v");
  builder.last().outputs = {y, present_k, present_v};
  for (ValueId id : {y, present_k, present_v}) builder.output(id);
  Result<Region> region = Region::prepare(builder.graph);
  ASSERT_TRUE(region.ok()) << region.status().to_string();
  std::vector<Shape> shapes;
  for (ValueId id : region->graph().inputs) shapes.push_back(region->graph().value(id).shape());
  Result<Program> program = region->lower_at(shapes, true);
  ASSERT_TRUE(program.ok()) << program.status().to_string();
  EXPECT_TRUE(may_run_in_place(*program, 3, 1)) << program->to_text();
  EXPECT_TRUE(may_run_in_place(*program, 4, 2));
  // The values of the past are read after the new keys are written.
  EXPECT_FALSE(may_run_in_place(*program, 4, 1));
  EXPECT_FALSE(may_run_in_place(*program, 0, 1));
}

}  // namespace
}  // namespace tenon::cuda
