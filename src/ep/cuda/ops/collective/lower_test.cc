// Programs of exchanges, on any machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing.h"
#include "ep/cuda/compute/region.h"
#include "graph/schema.h"
#include "ops/collective.h"
#include "plan/testing.h"

namespace tenon::cuda {
namespace {

using ::testing::HasSubstr;

// A model of one exchange.
Graph one_exchange(const std::string& op_type, std::initializer_list<int64_t> dims, DataType type, int64_t ranks,
                   int64_t axis) {
  plan_testing::GraphBuilder builder;
  std::vector<Dim> sizes;
  for (int64_t dim : dims) sizes.push_back({.value = dim, .symbol = {}});
  const ValueId x = builder.input("x", sizes, type), y = builder.node(op_type, {x}, "y", type);
  Node& node = builder.graph.nodes[NodeId(0)];
  node.domain = std::string(kContribDomain);
  node.since_version = 1;
  if (op_type != "AllReduce") node.set_int("group_size", ranks);
  if (op_type == "AllGather") node.set_int("axis", axis);
  builder.output(y);
  EXPECT_THAT(give_ranks(builder.graph, ranks), is_ok());
  return std::move(builder.graph);
}

Result<std::string> program_of(Graph graph, std::vector<Shape> shapes) {
  TENON_TRY_ASSIGN(const Region region, Region::prepare(std::move(graph)));
  TENON_TRY_ASSIGN(const Program program, region.lower_at(shapes, false));
  return program.to_text();
}

TEST(Collectives, BecomeOneOperatorEach) {
  const Shape shape{4, 6};
  EXPECT_EQ(program_of(one_exchange("AllReduce", {4, 6}, DataType::kFloat16, 2, 0), {shape}).value(),
            "%1:float16[4,6] (output 0) = all_reduce float16 24 of 2 ranks <- %0:float16[4,6] (input 0)\n");
  EXPECT_EQ(program_of(one_exchange("AllToAll", {4, 6}, DataType::kInt64, 3, 0), {shape}).value(),
            "%1:int64[4,6] (output 0) = all_to_all int64 8 of 3 ranks <- %0:int64[4,6] (input 0)\n");
  EXPECT_EQ(program_of(one_exchange("AllGather", {4, 6}, DataType::kBool, 2, 0), {shape}).value(),
            "%1:bool[8,6] (output 0) = all_gather bool 24 of 2 ranks <- %0:bool[4,6] (input 0)\n");
  // Along another axis the parts are put beside each other.
  EXPECT_THAT(program_of(one_exchange("AllGather", {4, 6}, DataType::kFloat, 2, 1), {shape}).value(),
              testing::AllOf(HasSubstr("%2:float32[2,4,6] (arena) = all_gather float32 24 of 2 ranks <- %0"),
                             HasSubstr("%1:float32[4,12] (output 0) = ")));
  // Unless there is one line.
  EXPECT_EQ(program_of(one_exchange("AllGather", {1, 6}, DataType::kFloat, 2, -1), {Shape{1, 6}}).value(),
            "%1:float32[1,12] (output 0) = all_gather float32 6 of 2 ranks <- %0:float32[1,6] (input 0)\n");
}

TEST(Collectives, OfOneRankAreNothing) {
  for (const char* name : {"AllReduce", "AllGather", "AllToAll"})
    EXPECT_THAT(program_of(one_exchange(name, {4, 6}, DataType::kFloat, 1, 1), {Shape{4, 6}}).value(),
                testing::Not(HasSubstr("ranks")))
        << name;
}

TEST(Collectives, WhatDoesNotDivideIsRefusedWithItsNumbers) {
  EXPECT_THAT(program_of(one_exchange("AllToAll", {5, 2}, DataType::kFloat, 3, 0), {Shape{5, 2}}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("10 elements of [5,2] among 3 ranks")));
  Graph graph = one_exchange("AllReduce", {2}, DataType::kFloat, 2, 0);
  graph.nodes[NodeId(0)].attributes.clear();
  EXPECT_THAT(program_of(std::move(graph), {Shape{2}}),
              has_status(StatusCode::kUnsupported, HasSubstr("how many ranks")));
}

}  // namespace
}  // namespace tenon::cuda
