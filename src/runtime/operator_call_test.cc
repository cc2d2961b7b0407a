// Operators outside of a model: what kernels of a program's own operators call.
#include "runtime/operator_call.h"

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include <tenon/object.h>

#include "base/testing.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<ThreadPool> pool_of(int threads) { return *ThreadPool::create({.threads = threads}); }

template <size_t N>
Tensor floats(std::array<float, N>& data, const Shape& shape = Shape{static_cast<int64_t>(N)}) {
  return *Tensor::view(DataType::kFloat, shape, data.data(), sizeof(data));
}

std::unique_ptr<OperatorCall> add() {
  return *OperatorCall::create(
      {.op_type = "Add", .version = 14, .types = {{"T", DataType::kFloat}}, .input_count = 2, .output_count = 1});
}

Attribute integer(const char* name, int64_t value) {
  Attribute attribute;
  attribute.name = name;
  attribute.i = value;
  return attribute;
}

class OperatorCallTest : public ::testing::Test {
 protected:
  Status invoke(const OperatorCall& call, std::vector<Tensor> inputs, std::vector<OperatorCall::Output>& outputs) {
    return call.invoke(inputs, outputs, {.pool = pool_.get()});
  }
  Status invoke(const OperatorCall& call, std::vector<Tensor> inputs, const Tensor& output) {
    std::vector<OperatorCall::Output> outputs = {{.tensor = output}};
    return invoke(call, std::move(inputs), outputs);
  }

  const std::shared_ptr<ThreadPool> pool_ = pool_of(2);
};

TEST_F(OperatorCallTest, WritesInPlaceForEachShape) {
  const auto call = add();
  std::array<float, 4> a = {1, 2, 3, 4}, b = {10, 20, 30, 40}, sum = {};
  ASSERT_THAT(invoke(*call, {floats(a), floats(b)}, floats(sum)), is_ok());
  EXPECT_THAT(sum, ElementsAre(11, 22, 33, 44));
  std::array<float, 1> one = {100};
  ASSERT_THAT(invoke(*call, {floats(a, Shape{2, 2}), floats(one)}, floats(sum, Shape{2, 2})), is_ok());
  EXPECT_THAT(sum, ElementsAre(101, 102, 103, 104));
}

TEST_F(OperatorCallTest, AnOutputMayBeAnInput) {
  const auto call = add();
  std::array<float, 4> a = {1, 2, 3, 4};
  ASSERT_THAT(invoke(*call, {floats(a), floats(a)}, floats(a)), is_ok());
  EXPECT_THAT(a, ElementsAre(2, 4, 6, 8));
}

TEST_F(OperatorCallTest, VariadicOperatorsTakeAllTheirInputs) {
  const auto call = *OperatorCall::create(
      {.op_type = "Concat", .version = 13, .attributes = {integer("axis", 0)}, .input_count = 3, .output_count = 1});
  std::array<float, 1> a = {1}, c = {4};
  std::array<float, 2> b = {2, 3};
  std::vector<OperatorCall::Output> outputs(1);
  ASSERT_THAT(invoke(*call, {floats(a), floats(b), floats(c)}, outputs), is_ok());
  ASSERT_EQ(outputs[0].tensor.shape(), Shape{4});
  EXPECT_EQ(outputs[0].tensor.data_as<float>()[3], 4);
}

TEST_F(OperatorCallTest, OptionalParametersMayBeAbsent) {
  const auto clip = *OperatorCall::create(
      {.op_type = "Clip", .version = 13, .types = {{"T", DataType::kFloat}}, .input_count = 3, .output_count = 1});
  std::array<float, 3> x = {-1, 1, 5}, y = {};
  std::array<float, 1> most = {2};
  ASSERT_THAT(invoke(*clip, {floats(x), Tensor(), floats(most, Shape{})}, floats(y)), is_ok());
  EXPECT_THAT(y, ElementsAre(-1, 1, 2));
  const auto top = *OperatorCall::create({.op_type = "TopK", .version = 11, .input_count = 2, .output_count = 2});
  int64_t k = 1, index = -1;
  std::vector<OperatorCall::Output> outputs(2);
  outputs[0].wanted = false;
  outputs[1].tensor = *Tensor::view(DataType::kInt64, Shape{1}, &index, sizeof(index));
  ASSERT_THAT(invoke(*top, {floats(x), *Tensor::view(DataType::kInt64, Shape{1}, &k, sizeof(k))}, outputs), is_ok());
  EXPECT_EQ(index, 2);
  outputs[1].wanted = false;
  EXPECT_THAT(invoke(*top, {floats(x), *Tensor::view(DataType::kInt64, Shape{1}, &k, sizeof(k))}, outputs),
              has_status(StatusCode::kInvalidArgument, HasSubstr("No output of TopK is wanted")));
}

TEST_F(OperatorCallTest, StringsAndSequencesPassBothWays) {
  const auto identity =
      *OperatorCall::create({.op_type = "Identity", .version = 16, .input_count = 1, .output_count = 1});
  std::vector<OperatorCall::Output> outputs(1);
  ASSERT_THAT(invoke(*identity, {*string_tensor({"red", ""}, Shape{2})}, outputs), is_ok());
  EXPECT_EQ(text_at(outputs[0].tensor, 0), "red");
  const auto at = *OperatorCall::create({.op_type = "SequenceAt", .version = 11, .input_count = 2, .output_count = 1});
  std::array<float, 2> a = {1, 2}, b = {3, 4};
  int64_t index = 1;
  const Tensor list = object_tensor(Object::sequence({Object::tensor(floats(a)), Object::tensor(floats(b))}));
  outputs = std::vector<OperatorCall::Output>(1);
  const Tensor which = *Tensor::view(DataType::kInt64, Shape{}, &index, sizeof(index));
  ASSERT_THAT(invoke(*at, {list, which}, outputs), is_ok());
  EXPECT_EQ(outputs[0].tensor.data_as<float>()[0], 3);
  EXPECT_THAT(invoke(*at, {object_tensor(Object::sequence({})), which}, outputs),
              has_status(StatusCode::kUnsupported, HasSubstr("without elements")));
}

TEST_F(OperatorCallTest, WrongTensorsAreNamed) {
  const auto call = add();
  std::array<float, 4> a = {};
  std::array<float, 3> three = {};
  int64_t integers[4] = {};
  const Tensor whole = *Tensor::view(DataType::kInt64, Shape{4}, integers, sizeof(integers));
  EXPECT_THAT(invoke(*call, {floats(a)}, floats(a)),
              has_status(StatusCode::kInvalidArgument, HasSubstr("input count: 1, expect: 2")));
  EXPECT_FALSE(invoke(*call, {floats(a), whole}, floats(a)).ok());
  EXPECT_FALSE(invoke(*call, {floats(a), floats(three)}, floats(a)).ok());
  EXPECT_FALSE(invoke(*call, {floats(a), floats(a)}, whole).ok());
  EXPECT_FALSE(invoke(*call, {floats(a), floats(a)}, floats(three)).ok());
  EXPECT_THAT(invoke(*call, {floats(a), floats(a)}, floats(a, Shape{2, 2})),
              has_status(StatusCode::kInvalidArgument, HasSubstr("[2,2]")));
  // The operator is as usable afterwards as before.
  EXPECT_THAT(invoke(*call, {floats(a), floats(a)}, floats(a)), is_ok());
}

TEST_F(OperatorCallTest, WhatCannotBeMadeSaysWhy) {
  EXPECT_THAT(OperatorCall::create({.op_type = "Ad", .version = 14, .input_count = 2, .output_count = 1}),
              has_status(StatusCode::kUnsupported, HasSubstr("Add")));
  EXPECT_THAT(OperatorCall::create({.op_type = "Add", .domain = "no.such", .version = 1}),
              has_status(StatusCode::kUnsupported, HasSubstr("no.such")));
  EXPECT_THAT(OperatorCall::create({.op_type = "Add", .version = 1 << 30, .input_count = 2, .output_count = 1}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("Version 1073741824")));
  EXPECT_THAT(
      OperatorCall::create(
          {.op_type = "Cast", .version = 13, .types = {{"T1", DataType::kFloat}}, .input_count = 1, .output_count = 1}),
      has_status(StatusCode::kInvalidArgument, HasSubstr("\"to\"")));
}

TEST_F(OperatorCallTest, RunsOfManyThreadsShareIt) {
  const auto call = add();
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const auto pool = pool_of(1 + t % 3);
      std::vector<float> a(1000 + t, static_cast<float>(t)), sum(a.size());
      const Shape shape{static_cast<int64_t>(a.size())};
      const Tensor from = *Tensor::view(DataType::kFloat, shape, a.data(), a.size() * sizeof(float));
      for (int i = 0; i < 50; ++i) {
        const Tensor inputs[] = {from, from};
        OperatorCall::Output output;
        output.tensor = *Tensor::view(DataType::kFloat, shape, sum.data(), sum.size() * sizeof(float));
        if (!call->invoke(inputs, {&output, 1}, {.pool = pool.get()}).ok() || sum.back() != 2.0F * t) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(OperatorCallTest, CopiesAreTheCallingRuns) {
  // Identity hands its input through: a bound output is a copy of it.
  const auto identity = *OperatorCall::create(
      {.op_type = "Identity", .version = 16, .types = {{"V", DataType::kFloat}}, .input_count = 1, .output_count = 1});
  std::array<float, 2> x = {1, 2}, y = {};
  CopyLedger ledger;
  RunInfo run{.ledger = &ledger};
  const Tensor inputs[] = {floats(x)};
  OperatorCall::Output output{.tensor = floats(y)};
  ASSERT_THAT(identity->invoke(inputs, {&output, 1}, {.pool = pool_.get(), .run = &run}), is_ok());
  EXPECT_THAT(y, ElementsAre(1, 2));
  EXPECT_EQ(ledger.bytes_copied(), sizeof(x));
  run.disallow_copies = true;
  output.tensor = floats(y);
  EXPECT_FALSE(identity->invoke(inputs, {&output, 1}, {.pool = pool_.get(), .run = &run}).ok());
}

TEST_F(OperatorCallTest, ACancelledRunEndsIt) {
  const auto call = add();
  std::array<float, 2> x = {1, 2}, y = {};
  const std::atomic<bool> cancel = true;
  const RunInfo run{.cancel = &cancel};
  const Tensor inputs[] = {floats(x), floats(x)};
  OperatorCall::Output output{.tensor = floats(y)};
  EXPECT_THAT(call->invoke(inputs, {&output, 1}, {.pool = pool_.get(), .run = &run}),
              has_status(StatusCode::kCancelled));
}

TEST_F(OperatorCallTest, NothingOfACallIsKept) {
  const auto call = add();
  auto numbers = std::make_shared<std::array<float, 2>>();
  const std::weak_ptr<const void> alive = numbers;
  {
    const Tensor x = *Tensor::view(DataType::kFloat, Shape{2}, numbers->data(), sizeof *numbers, numbers);
    numbers.reset();
    std::vector<OperatorCall::Output> outputs(1);
    ASSERT_THAT(invoke(*call, {x, x}, outputs), is_ok());
  }
  EXPECT_TRUE(alive.expired());
}

}  // namespace
}  // namespace tenon
