// Needs no device.
#include "ep/cuda/compute/rewrites.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ep/cuda/compute/device_op.h"
#include "ep/cuda/compute/region.h"
#include "plan/testing.h"

namespace tenon::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// silu(x w) * (x v), or sigmoid(x w) * v where the gate is a row of its own.
std::string gate_of(int64_t rows, bool whole) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", {{rows, {}}, {64, {}}});
  std::byte* data = nullptr;
  const auto weights = [&](const char* name) {
    return builder.graph.add_constant(name, *make_constant(DataType::kFloat, Shape{64, 96}, &data));
  };
  const ValueId a = builder.node("MatMul", {x, weights("w")}, "a");
  const ValueId sigmoid = builder.node("Sigmoid", {a}, "sigmoid"), silu = builder.node("Mul", {a, sigmoid}, "silu");
  const ValueId other =
      whole ? builder.node("MatMul", {x, weights("v")}, "b") : builder.input("row", {{1, {}}, {96, {}}});
  builder.output(builder.node("Mul", {silu, other}, "y"));
  const Result<Region> region = Region::prepare(builder.graph);
  EXPECT_TRUE(region.ok()) << region.status().to_string();
  std::vector<Shape> shapes;
  for (ValueId id : region->graph().inputs) shapes.push_back(region->graph().value(id).shape());
  const Result<Program> program = region->lower_at(shapes, true);
  EXPECT_TRUE(program.ok()) << program.status().to_string();
  return program->to_text();
}

TEST(LeaveGates, OfManyRowsTheActivationIsTheGatesKernels) {
  const std::string text = gate_of(40, true);
  EXPECT_THAT(text, HasSubstr("Mul silu"));
  EXPECT_THAT(text, Not(HasSubstr("act 7")));
}

TEST(LeaveGates, OfFewRowsOneKernelComputesAll) {
  EXPECT_THAT(gate_of(3, true), HasSubstr("3x96*96x64"));
}

// A row that is broadcast is no gate: the product keeps its activation.
TEST(LeaveGates, AFactorOfAnotherShapeChangesNothing) { EXPECT_THAT(gate_of(40, false), HasSubstr("act 7")); }

}  // namespace
}  // namespace tenon::cuda
