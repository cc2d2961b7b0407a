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

}  // namespace
}  // namespace tenon::cuda
