// A decoder's step of GroupQueryAttention: which kernels it becomes, and, on a device, its results beside sums on the
// host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ep/cuda/compute/device_testing.h"
#include "ep/cuda/compute/template_op.h"
#include "plan/testing.h"

namespace tenon::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Problem {
  int64_t batch = 1, heads = 4, kv_heads = 2, depth = 16, room = 40;
  std::vector<int32_t> last;  // positions, one a batch
  int64_t turned = 0;         // elements of a head that are turned
  bool interleaved = false, packed = true, positions = false, bias = false, sink = false;
  int64_t window = -1;
  float softcap = 0;
};

std::vector<Dim> dims(const Shape& shape) {
  std::vector<Dim> made;
  for (int64_t size : shape) made.push_back({size, {}});
  return made;
}

// The node, whose lengths a kernel of the same run computes.
class StepGraph {
 public:
  StepGraph(const Problem& problem, DataType type) {
    const auto& [batch, heads, kv_heads, depth, room, last, turned, interleaved, packed, positions, bias, sink, window,
                 softcap] = problem;
    const auto input = [&](const char* name, const Shape& shape, DataType of) {
      return builder.input(name, dims(shape), of);
    };
    const int64_t row = heads * depth, kv_row = kv_heads * depth;
    std::vector<ValueId> inputs(12, kNoValue);
    if (packed) {
      inputs[0] = input("q", {batch, 1, row + 2 * kv_row}, type);
    } else {
      inputs[0] = input("q", {batch, 1, row}, type);
      inputs[1] = input("k", {batch, 1, kv_row}, type);
      inputs[2] = input("v", {batch, 1, kv_row}, type);
    }
    inputs[3] = input("past_k", {batch, kv_heads, room, depth}, type);
    inputs[4] = input("past_v", {batch, kv_heads, room, depth}, type);
    const ValueId counted = input("counted", {batch}, DataType::kInt32);
    inputs[5] = builder.node("Sub", {counted, integer("one", 1)}, "last", DataType::kInt32);
    inputs[6] = integer("total", static_cast<int32_t>(room));
    if (turned > 0) {
      inputs[7] = input("cos", {room, turned / 2}, type);
      inputs[8] = input("sin", {room, turned / 2}, type);
      if (positions) inputs[9] = input("positions", {batch, 1}, DataType::kInt64);
    }
    if (bias) inputs[10] = input("bias", {batch, 1, 1, room}, type);
    if (sink) inputs[11] = input("sink", {heads}, type);
    const ValueId y = builder.node("GroupQueryAttention", inputs, "y", type);
    Node& node = builder.last();
    node.domain = "com.microsoft";
    node.since_version = 1;
    node.set_int("num_heads", heads);
    node.set_int("kv_num_heads", kv_heads);
    node.set_int("do_rotary", turned > 0 ? 1 : 0);
    node.set_int("rotary_interleaved", interleaved ? 1 : 0);
    node.set_int("local_window_size", window);
    node.set_float("softcap", softcap);
    node.outputs = {y, builder.value("present_k", type), builder.value("present_v", type)};
    for (ValueId id : std::vector<ValueId>(node.outputs)) builder.output(id);
  }

  ValueId integer(const char* name, int32_t number) {
    std::byte* data = nullptr;
    ConstantRef made = *make_constant(DataType::kInt32, Shape{}, &data);
    *reinterpret_cast<int32_t*>(data) = number;
    return builder.graph.add_constant(name, std::move(made));
  }

  Result<Program> program(bool clusters) const {
    TENON_TRY_ASSIGN(const Region region, Region::prepare(builder.graph));
    std::vector<Shape> shapes;
    for (ValueId id : region.graph().inputs) shapes.push_back(region.graph().value(id).shape());
    return region.lower_at(shapes, false, Program::kWorkspaceBytes, false, clusters);
  }

  plan_testing::GraphBuilder builder;
};

TEST(StepOfAttention, IsOneKernelWhereBlocksAreClusters) {
  const StepGraph graph({.turned = 16}, DataType::kFloat16);
  const Result<Program> one = graph.program(true), three = graph.program(false);
  ASSERT_TRUE(one.ok() && three.ok()) << one.status().to_string() << three.status().to_string();
  EXPECT_THAT(one->to_text(), HasSubstr("step of attention"));
  EXPECT_THAT(one->to_text(), Not(HasSubstr("place heads")));
  EXPECT_THAT(three->to_text(), Not(HasSubstr("step of attention")));
  EXPECT_THAT(three->to_text(), HasSubstr("place heads"));
}

// A pack of eight elements that are turned would have its partners in two packs.
TEST(StepOfAttention, HalvesThatAreNoWholePacksHaveTheOtherKernels) {
  const StepGraph graph({.turned = 8}, DataType::kFloat16);
  const Result<Program> program = graph.program(true);
  ASSERT_TRUE(program.ok()) << program.status().to_string();
  EXPECT_THAT(program->to_text(), Not(HasSubstr("step of attention")));
}

// Caches may be read before the kernels ahead have ended if the run updates them in place and nothing of an earlier run
// is at work.
TEST(StepOfAttention, ReadsCachesEarlyInPlaceAndAlone) {
  const StepGraph graph({.turned = 16}, DataType::kFloat16);
  const Result<Program> program = graph.program(true);
  ASSERT_TRUE(program.ok()) << program.status().to_string();
  const TemplateOp* step = nullptr;
  for (const auto& op : program->ops)
    if (op->description(*program).starts_with("step of attention")) step = dynamic_cast<const TemplateOp*>(op.get());
  ASSERT_NE(step, nullptr);
  const std::vector<CUdeviceptr> inputs = {1 << 16, 2 << 16, 3 << 16, 4 << 16, 5 << 16, 6 << 16},
                                 constants(program->constants.size(), 7 << 16);
  std::vector<CUdeviceptr> outputs = {8 << 16, 9 << 16, 10 << 16};
  const auto early = [&](bool alone) {
    const Addresses addresses{&*program, 11 << 16, constants, inputs, outputs};
    return step->arguments(addresses, alone).back();
  };
  EXPECT_EQ(early(true), 0U);
  outputs[1] = inputs[1];
  EXPECT_EQ(early(true), 0U);
  outputs[2] = inputs[2];
  EXPECT_EQ(early(true), inputs[1]);
  EXPECT_EQ(early(false), 0U);
}

class StepOnDevice : public DeviceTest {
 protected:
  struct Tensor {
    std::string name;
    DataType type;
    std::vector<float> numbers;  // as the type has them
    DeviceBlockRef block;
  };

  // Numbers as the type keeps them; integers as they are.
  static std::vector<std::byte> bytes_of(Tensor& tensor) {
    std::vector<std::byte> bytes(tensor.numbers.size() * data_type_size(tensor.type));
    for (size_t i = 0; i < tensor.numbers.size(); ++i) {
      if (tensor.type == DataType::kInt32) reinterpret_cast<int32_t*>(bytes.data())[i] = int32_t(tensor.numbers[i]);
      if (tensor.type == DataType::kInt64) reinterpret_cast<int64_t*>(bytes.data())[i] = int64_t(tensor.numbers[i]);
    }
    if (tensor.type == DataType::kInt32 || tensor.type == DataType::kInt64) return bytes;
    store_floats(tensor.numbers, tensor.type, bytes.data());
    tensor.numbers = floats_of({.type = tensor.type, .data = bytes.data(), .size_bytes = bytes.size()});
    return bytes;
  }

  // Beside the past and in its place; queued, then as a graph, which may read the caches early.
  void check(const Problem& problem, DataType type, double tolerance) {
    if (!case_is_in_part()) return;
    const auto context = shared_context(false);
    ASSERT_NE(context, nullptr);
    const StepGraph graph(problem, type);
    Result<Program> lowered = graph.program(true);
    ASSERT_TRUE(lowered.ok()) << lowered.status().to_string();
    if (device_->compute_capability() >= 90) {
      ASSERT_THAT(lowered->to_text(), HasSubstr("step of attention"));
    } else {
      lowered = graph.program(false);
    }
    auto plan = ComputePlan::create(context, *std::move(lowered));
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    tensors_.clear();
    for (ValueId id : graph.builder.graph.inputs) {
      const Value& value = graph.builder.graph.value(id);
      Tensor tensor{.name = value.name, .type = value.type};
      tensor.numbers = random_floats(value.shape().element_count(), static_cast<uint32_t>(tensors_.size()) + 1, -2, 2);
      if (value.name == "counted") tensor.numbers = {problem.last.begin(), problem.last.end()};
      if (value.name == "counted")
        for (float& number : tensor.numbers) number += 1;
      if (value.name == "positions") tensor.numbers.assign(problem.batch, 3);
      const std::vector<std::byte> bytes = bytes_of(tensor);
      tensor.block = upload(*context, bytes.data(), bytes.size());
      tensors_.push_back(std::move(tensor));
    }
    for (const bool in_place : {false, true}) {
      std::vector<CUdeviceptr> inputs, outputs;
      for (const Tensor& tensor : tensors_) inputs.push_back(tensor.block->address());
      std::vector<DeviceBlockRef> made;
      for (TensorId id : (*plan)->program().outputs) {
        const std::vector<std::byte> poison((*plan)->program().tensor(id).size_bytes(), std::byte{0xff});
        made.push_back(upload(*context, poison.data(), poison.size()));
        outputs.push_back(made.back()->address());
      }
      if (in_place) outputs[1] = named("past_k").block->address(), outputs[2] = named("past_v").block->address();
      std::vector<std::byte> first;
      for (int run = 0; run < 4; ++run) {
        ASSERT_TRUE((*plan)->run(inputs, outputs, context->stream()).ok());
        ASSERT_EQ(device_->driver().StreamSynchronize(context->stream()), CUDA_SUCCESS);
        const std::vector<std::byte> bytes =
            download(outputs[0], (*plan)->program().tensor((*plan)->program().outputs[0]).size_bytes());
        if (run == 0) first = bytes;
        EXPECT_EQ(bytes, first) << "run " << run;
      }
      const auto result = [&](int index) {
        const std::vector<std::byte> bytes =
            download(outputs[index], (*plan)->program().tensor((*plan)->program().outputs[index]).size_bytes());
        return floats_of({.type = type, .data = bytes.data(), .size_bytes = bytes.size()});
      };
      compare(problem, result(0), result(1), result(2), tolerance);
      if (HasFatalFailure()) return;
    }
  }

  Tensor& named(const std::string& name) {
    return *std::find_if(tensors_.begin(), tensors_.end(), [&](const Tensor& tensor) { return tensor.name == name; });
  }
  bool has(const std::string& name) const {
    return std::any_of(tensors_.begin(), tensors_.end(), [&](const Tensor& tensor) { return tensor.name == name; });
  }

  // The head of a new row, turned by its position.
  std::vector<double> turned(const Problem& problem, const float* from, int64_t position) {
    std::vector<double> head(from, from + problem.depth);
    const int64_t half = problem.turned / 2;
    if (has("positions")) position = 3;
    for (int64_t i = 0; i < half; ++i) {
      const int64_t a = problem.interleaved ? 2 * i : i, b = problem.interleaved ? 2 * i + 1 : i + half;
      const double c = named("cos").numbers[position * half + i], s = named("sin").numbers[position * half + i];
      head[a] = from[a] * c - from[b] * s;
      head[b] = from[b] * c + from[a] * s;
    }
    return head;
  }

  void compare(const Problem& problem, const std::vector<float>& y, const std::vector<float>& keys,
               const std::vector<float>& values, double tolerance) {
    const auto& [batch, heads, kv_heads, depth, room, last, turns, interleaved, packed, positions, bias, sink, window,
                 softcap] = problem;
    const int64_t row = packed ? (heads + 2 * kv_heads) * depth : heads * depth;
    const int64_t kv_row = packed ? row : kv_heads * depth;
    const float* const q = named("q").numbers.data();
    const float* const k = packed ? q + heads * depth : named("k").numbers.data();
    const float* const v = packed ? q + (heads + kv_heads) * depth : named("v").numbers.data();
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t kv = h / (heads / kv_heads), position = last[b];
        const float* const cache_k = keys.data() + (b * kv_heads + kv) * room * depth;
        const float* const cache_v = values.data() + (b * kv_heads + kv) * room * depth;
        const std::vector<double> key = turned(problem, k + b * kv_row + kv * depth, position);
        for (int64_t d = 0; d < depth; ++d) {
          ASSERT_NEAR(cache_k[position * depth + d], key[d], 4 * tolerance) << "key of head " << kv;
          ASSERT_EQ(cache_v[position * depth + d], v[b * kv_row + kv * depth + d]) << "value of head " << kv;
        }
        const float* const past = named("past_k").numbers.data() + (b * kv_heads + kv) * room * depth;
        for (int64_t i = 0; i < position * depth; ++i) ASSERT_EQ(cache_k[i], past[i]) << i;
        const std::vector<double> query = turned(problem, q + b * row + h * depth, position);
        const int64_t first = window > 0 ? std::max<int64_t>(position - window + 1, 0) : 0;
        std::vector<double> scores;
        for (int64_t at = first; at <= position; ++at) {
          double score = 0;
          for (int64_t d = 0; d < depth; ++d) score += query[d] * cache_k[at * depth + d];
          score /= std::sqrt(static_cast<double>(depth));
          if (softcap > 0) score = softcap * std::tanh(score / softcap);
          if (bias) score += named("bias").numbers[b * room + at];
          scores.push_back(score);
        }
        double total = sink ? std::exp(named("sink").numbers[h]) : 0;
        for (double& score : scores) total += score = std::exp(score);
        for (int64_t d = 0; d < depth; ++d) {
          double sum = 0;
          for (size_t i = 0; i < scores.size(); ++i)
            sum += scores[i] * cache_v[(first + static_cast<int64_t>(i)) * depth + d];
          ASSERT_NEAR(y[(b * heads + h) * depth + d], sum / total, tolerance) << "batch " << b << " head " << h;
        }
      }
  }

  void check_all_types(const Problem& problem) {
    check(problem, DataType::kFloat, 1e-5);
    check(problem, DataType::kFloat16, 3e-3);
    check(problem, DataType::kBfloat16, 2e-2);
  }

  std::vector<Tensor> tensors_;
};

TEST_F(StepOnDevice, CachesOfAllLengthsAndShapes) {
  check_all_types({.last = {39}, .turned = 16});
  check_all_types({.last = {0}, .turned = 16, .packed = false});
  check_all_types(
      {.batch = 3, .heads = 12, .kv_heads = 4, .depth = 64, .room = 300, .last = {299, 17, 130}, .turned = 64});
  check_all_types(
      {.heads = 7, .kv_heads = 1, .depth = 128, .room = 700, .last = {650}, .turned = 128, .packed = false});
  check_all_types({.batch = 2, .heads = 5, .kv_heads = 5, .depth = 40, .room = 90, .last = {60, 89}});
  check_all_types(
      {.batch = 40, .heads = 8, .kv_heads = 8, .depth = 256, .room = 33, .last = std::vector<int32_t>(40, 20)});
  check_all_types({.heads = 12,
                   .kv_heads = 4,
                   .depth = 64,
                   .room = small_sizes() ? 600 : 4096,
                   .last = {small_sizes() ? 590 : 4095},
                   .turned = 32});
}

TEST_F(StepOnDevice, EverythingThatChangesScores) {
  check_all_types({.last = {30}, .turned = 8, .interleaved = true});
  check_all_types({.batch = 2, .last = {30, 8}, .turned = 16, .interleaved = true, .positions = true});
  check_all_types({.batch = 2, .room = 200, .last = {199, 5}, .turned = 16, .window = 20});
  check_all_types({.room = 200, .last = {150}, .softcap = 5});
  check_all_types({.batch = 2, .room = 200, .last = {150, 199}, .turned = 16, .bias = true});
  check_all_types({.room = 200, .last = {150}, .turned = 16, .sink = true});
}

}  // namespace
}  // namespace tenon::cuda
