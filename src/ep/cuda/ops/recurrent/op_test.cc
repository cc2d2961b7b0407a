// Lowering of recurrent nodes, and the kernels of their steps; needs no device.
#include "ep/cuda/ops/recurrent/op.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ep/cuda/compute/lowering.h"
#include "ops/shape_inference.h"
#include "plan/testing.h"

namespace tenon::cuda {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr size_t kSharedBytes = 227 * 1024;

std::vector<Dim> dims(std::initializer_list<int64_t> numbers) {
  std::vector<Dim> result;
  for (int64_t number : numbers) result.push_back({number, {}});
  return result;
}

struct Cell {
  std::string op = "GRU";
  int64_t length = 10, batch = 2, hidden = 32;
  std::string direction = "forward";
  bool constant = true;
  std::vector<std::string> activations;
};

Result<Program> lowered(const Cell& cell) {
  const int64_t gates = cell.op == "LSTM" ? 4 : cell.op == "GRU" ? 3 : 1, input = 16;
  const int64_t directions = cell.direction == "bidirectional" ? 2 : 1;
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", dims({cell.length, cell.batch, input}));
  const auto matrix = [&](const char* name, const Shape& shape) {
    if (!cell.constant) return builder.input(name, dims({shape[0], shape[1], shape[2]}));
    std::byte* data = nullptr;
    return builder.graph.add_constant(name, *make_constant(DataType::kFloat, shape, &data));
  };
  const ValueId w = matrix("w", Shape{directions, gates * cell.hidden, input});
  const ValueId r = matrix("r", Shape{directions, gates * cell.hidden, cell.hidden});
  builder.output(builder.node(cell.op, {x, w, r}, "y"));
  Node& node = builder.last();
  node.since_version = 14;
  node.set_int("hidden_size", cell.hidden);
  node.set_string("direction", cell.direction);
  if (!cell.activations.empty())
    node.attributes.edit().push_back(
        {.name = "activations", .kind = AttributeKind::kStrings, .strings = cell.activations});
  TENON_TRY(infer_shapes(builder.graph));
  return lower(builder.graph, {});
}

std::vector<std::string> choices_of(const Cell& cell, int compute_capability, size_t shared_bytes = kSharedBytes) {
  const Result<Program> program = lowered(cell);
  EXPECT_TRUE(program.ok()) << program.status().to_string();
  const auto* const op = dynamic_cast<const RecurrentOp*>(program->ops.back().get());
  EXPECT_NE(op, nullptr);
  return op->choice_texts(compute_capability, shared_bytes);
}

TEST(Recurrent, OneProductServesAllStepsOfAllDirections) {
  for (const auto& [op, width] : {std::pair{"LSTM", 256}, {"GRU", 192}, {"RNN", 64}}) {
    const Result<Program> program = lowered({.op = op, .direction = "bidirectional"});
    ASSERT_TRUE(program.ok()) << program.status().to_string();
    ASSERT_EQ(program->ops.size(), 2U) << program->to_text();
    EXPECT_THAT(program->to_text(), HasSubstr("product float32 20x" + std::to_string(width) + "x16"));
  }
}

TEST(Recurrent, ComputedWeightsAreMultipliedByTheLibrary) {
  const Result<Program> program = lowered({.constant = false});
  ASSERT_TRUE(program.ok()) << program.status().to_string();
  EXPECT_THAT(program->to_text(), HasSubstr("batched_product float32 20x96x16 transposed"));
}

TEST(Recurrent, OlderDevicesHaveAKernelAStep) {
  EXPECT_THAT(choices_of({}, 80), ElementsAre("steps"));
  EXPECT_THAT(choices_of({}, 90), Contains("cluster 8"));
  EXPECT_THAT(choices_of({}, 90).back(), "steps");
}

// 8192x2048 floats are 64 MiB: no cluster has the memory.
TEST(Recurrent, WhatNoClusterHoldsIsReadAtEachStep) {
  EXPECT_THAT(choices_of({.op = "LSTM", .hidden = 2048}, 90), ElementsAre("steps"));
  EXPECT_THAT(choices_of({.op = "GRU", .hidden = 400}, 90), Not(Contains("cluster 4")));
  EXPECT_THAT(choices_of({.op = "GRU", .hidden = 400}, 90), Contains("cluster 8"));
  EXPECT_THAT(choices_of({.op = "GRU", .hidden = 400}, 90, 1024), IsEmpty());
}

TEST(Recurrent, NothingIsQueuedForNoSequences) {
  const Result<Program> program = lowered({.batch = 0});
  ASSERT_TRUE(program.ok()) << program.status().to_string();
  EXPECT_TRUE(program->ops.empty());
}

TEST(Recurrent, UnknownFunctionsAreRefusedByName) {
  EXPECT_TRUE(lowered({.op = "RNN", .activations = {"Tanh", "Relu"}}).ok());  // the second is of another direction
  EXPECT_TRUE(lowered({.op = "RNN", .activations = {"softPlus"}}).ok());      // in any case, as onnxruntime takes them
  EXPECT_THAT(lowered({.op = "RNN", .activations = {"Mish"}}).status().to_string(), HasSubstr("\"Mish\""));
  EXPECT_EQ(lowered({.op = "LSTM", .activations = {"Tanh"}}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tenon::cuda
