// Attention against sums on the host, on a device: masks of every form, and sizes that fill no block.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ep/cuda/compute/device_testing.h"
#include "ep/cuda/compute/parallel.h"
#include "ep/cuda/ops/attention/op.h"

namespace tenon::cuda {
namespace {

struct Problem {
  int batch, heads, queries, keys, head_size;
  // The mask's dimensions, each its full size or 1; none: no mask.
  std::vector<int64_t> mask = {};
  bool causal = false;  // the queries are the last ones of as many positions as there are keys
  int value_size = 0;   // of a head of V; 0: head_size

  int64_t value_row() const { return int64_t{heads} * (value_size != 0 ? value_size : head_size); }
};

class Attention : public DeviceTest {
 protected:
  void check(DataType type, const Problem& problem, float tolerance) {
    if (!case_is_in_part()) return;
    const auto context = shared_context(true);
    ASSERT_NE(context, nullptr);
    const int64_t row = static_cast<int64_t>(problem.heads) * problem.head_size, value_row = problem.value_row();
    Program program;
    std::vector<std::vector<float>> values;
    std::vector<DeviceBlockRef> blocks;
    std::vector<CUdeviceptr> inputs;
    const auto input = [&](const Shape& shape, float low, float high) {
      const auto index = static_cast<int>(inputs.size());
      const TensorId id = *program.add_tensor(type, shape, DeviceLayout::kPlain, StorageKind::kInput, index);
      program.inputs.push_back(id);
      std::vector<float> numbers = random_floats(shape.element_count(), static_cast<uint32_t>(index) + 1, low, high);
      std::vector<std::byte> bytes(program.tensor(id).size_bytes());
      store_floats(numbers, type, bytes.data());
      values.push_back(floats_of({.type = type, .data = bytes.data(), .size_bytes = bytes.size()}));
      blocks.push_back(upload(*context, bytes.data(), bytes.size()));
      inputs.push_back(blocks.back()->address());
      return id;
    };
    AttentionOp::Tensors tensors;
    tensors.q = input(Shape{problem.batch, problem.queries, row}, -2, 2);
    tensors.k = input(Shape{problem.batch, problem.keys, row}, -2, 2);
    tensors.v = input(Shape{problem.batch, problem.keys, value_row}, -1, 1);
    AttentionParams params{.batch = problem.batch,
                           .heads = problem.heads,
                           .queries = problem.queries,
                           .keys = problem.keys,
                           .head_size = problem.head_size,
                           .value_size = static_cast<int32_t>(value_row / problem.heads),
                           .q_batch = problem.queries * row,
                           .q_head = problem.head_size,
                           .q_row = row,
                           .k_batch = problem.keys * row,
                           .k_head = problem.head_size,
                           .k_row = row,
                           .v_batch = problem.keys * value_row,
                           .v_head = value_row / problem.heads,
                           .v_row = value_row,
                           .y_batch = problem.queries * value_row,
                           .y_head = value_row / problem.heads,
                           .y_row = value_row,
                           .causal = problem.causal ? 1 : 0,
                           .before = problem.keys - problem.queries,
                           .scale = 0.25F};
    if (!problem.mask.empty()) {
      const Shape shape(problem.mask);
      tensors.mask = input(shape, -4, 0);
      int64_t stride = 1;
      int64_t* const strides[] = {&params.mask_batch, &params.mask_head, &params.mask_query, &params.mask_key};
      for (int i = 3; i >= 0; --i) {
        *strides[i] = shape[i] != 1 ? stride : 0;
        stride *= shape[i];
      }
    }
    const Shape out{problem.batch, problem.queries, value_row};
    tensors.y = *program.add_tensor(type, out, DeviceLayout::kPlain, StorageKind::kOutput, 0);
    program.outputs = {tensors.y};
    if (type == DataType::kFloat && value_row % 8 == 0) {
      params.terms = 3;
      params.parts_factor = 0x1p10F;
      const Shape parts{int64_t{problem.batch} * problem.queries, params.terms * value_row};
      tensors.y_parts = *program.add_tensor(DataType::kFloat16, parts, DeviceLayout::kPlain, StorageKind::kOutput, 1);
      program.outputs.push_back(tensors.y_parts);
    }
    auto op = std::make_unique<AttentionOp>("test", type, params, tensors);
    AttentionOp& attention = *op;
    program.add_op(std::move(op));
    ASSERT_TRUE(program.finish().ok());
    std::vector<CUdeviceptr> outputs;
    for (TensorId id : program.outputs) {
      const Result<DeviceBlockRef> block = context->allocate(program.tensor(id).size_bytes());
      ASSERT_TRUE(block.ok()) << block.status().to_string();
      blocks.push_back(*block);
      outputs.push_back(blocks.back()->address());
    }
    const Addresses addresses{.program = &program, .inputs = inputs, .outputs = outputs};
    const Status prepared = attention.prepare({.device = device_.get(),
                                               .stream = context->stream(),
                                               .kernels = &context->kernels(),
                                               .algorithms = &context->algorithms(),
                                               .addresses = addresses});
    ASSERT_TRUE(prepared.ok()) << prepared.to_string();
    // Twice: the bits are the same.
    std::vector<std::byte> bits[2];
    for (std::vector<std::byte>& of_run : bits) {
      for (size_t i = 0; i < outputs.size(); ++i)
        ASSERT_EQ(device_->driver().MemsetD8Async(outputs[i], 0xff, program.tensor(program.outputs[i]).size_bytes(),
                                                  context->stream()),
                  CUDA_SUCCESS);
      ASSERT_TRUE(attention.queue({.device = device_.get(), .stream = context->stream(), .addresses = addresses}).ok());
      ASSERT_EQ(device_->driver().StreamSynchronize(context->stream()), CUDA_SUCCESS);
      of_run = download(outputs[0], program.tensor(program.outputs[0]).size_bytes());
    }
    ASSERT_EQ(bits[0], bits[1]);
    used_.insert(attention.choice());
    const auto result = [&](size_t index) {
      const DeviceTensor& tensor = program.tensor(program.outputs[index]);
      const std::vector<std::byte> bytes = download(outputs[index], tensor.size_bytes());
      return floats_of({.type = tensor.type, .data = bytes.data(), .size_bytes = bytes.size()});
    };
    const std::vector<float> got = result(0);
    if (tensors.y_parts != kNoTensor) check_parts(got, result(1), value_row);

    const std::vector<float> want = expected(problem, params, values);
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[i], want[i], tolerance) << data_type_name(type) << " " << attention.choice() << " query "
                                              << i / value_row << " column " << i % value_row;
  }

  static std::vector<float> expected(const Problem& problem, const AttentionParams& params,
                                     const std::vector<std::vector<float>>& values) {
    const int64_t row = params.q_row, value_row = params.v_row, values_a_head = params.v_head;
    std::vector<float> result(problem.batch * problem.queries * value_row);
    run_parallel(
        size_t{1} * problem.batch * problem.heads,
        [&](size_t index) {
          const auto head = static_cast<int64_t>(index);
          const int64_t n = head / problem.heads, h = head % problem.heads, column = h * problem.head_size;
          std::vector<float> weights(problem.keys);
          for (int64_t q = 0; q < problem.queries; ++q) {
            const int64_t at = (n * problem.queries + q) * row + column;
            float total = 0, largest = -INFINITY;
            for (int64_t k = 0; k < problem.keys; ++k) {
              float score = 0;
              const float* const key = &values[1][(n * problem.keys + k) * row + column];
              for (int d = 0; d < problem.head_size; ++d) score += values[0][at + d] * key[d];
              score *= params.scale;
              if (!problem.mask.empty())
                score += values[3][n * params.mask_batch + h * params.mask_head + q * params.mask_query +
                                   k * params.mask_key];
              if (problem.causal && k > params.before + q) score = -INFINITY;
              weights[k] = score;
              largest = std::max(largest, score);
            }
            for (float& weight : weights) total += weight = std::exp(weight - largest);
            float* const out = &result[(n * problem.queries + q) * value_row + h * values_a_head];
            for (int64_t k = 0; k < problem.keys; ++k) {
              const float* const value = &values[2][(n * problem.keys + k) * value_row + h * values_a_head];
              for (int64_t d = 0; d < values_a_head; ++d) out[d] += weights[k] / total * value[d];
            }
          }
        },
        16);
    return result;
  }

  // Rows of y times 2^10 as f16 parts: what is left of them, and them twice.
  static void check_parts(const std::vector<float>& y, const std::vector<float>& parts, int64_t row) {
    const size_t width = row;
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t low = i / width * 3 * width + i % width;
      const float scaled = y[i] * 0x1p10F, high = parts[low + 2 * width];
      ASSERT_LE(std::fabs(high - scaled), std::ldexp(std::fabs(scaled), -11) + 0x1p-25F) << i;
      ASSERT_EQ(parts[low + width], high) << i;
      ASSERT_LE(std::fabs(parts[low] + high - scaled), std::ldexp(std::fabs(scaled), -21) + 0x1p-25F) << i;
    }
  }

  void check_halves(const Problem& problem) {
    check(DataType::kFloat16, problem, 4e-3F);
    check(DataType::kBfloat16, problem, 3e-2F);
  }
  void check_all_types(const Problem& problem) {
    check(DataType::kFloat, problem, 4e-3F);
    check_halves(problem);
  }

  std::set<std::string> used_;  // kernels
};

// 12 heads of 16 images are many blocks of many queries; one image's are few, whose warps share the keys.
TEST_F(Attention, MasksOfEveryFormAreAdded) {
  const int queries = small_sizes() ? 24 : 128, keys = small_sizes() ? 72 : 128;
  for (const int batch : {1, 16})
    for (const std::vector<int64_t>& mask : {std::vector<int64_t>(),
                                             {batch, 1, 1, keys},
                                             {batch, 1, queries, keys},
                                             {1, 12, queries, keys},
                                             {1, 1, queries, 1}})
      check_all_types({batch, 12, queries, keys, 64, mask});
}

TEST_F(Attention, SizesThatFillNoBlockAreExact) {
  check_all_types({3, 5, 77, 100, 64, {3, 1, 1, 100}});
  check_all_types({3, 5, 77, 99, 64, {3, 1, 77, 99}});
  const int batch = small_sizes() ? 9 : 20;  // 132 blocks are many
  check_all_types({batch, 8, 70, 33, 32, {batch, 1, 1, 33}});
  check_all_types({batch, 8, 70, 136, 128, {batch, 8, 70, 136}});
  check_all_types({2, 3, 9, 11, 48, {2, 1, 1, 11}});
}

// A head of each size, and sizes between them, whose rows end with zeros; few queries and many of them.
TEST_F(Attention, TilesServeEveryHeadWithoutAMask) {
  for (const int head : {4, 20, 24, 32, 36, 40, 56, 64, 80, 96, 128}) {
    check_halves({2, 3, 9, 11, head});
    check_halves({1, 5, small_sizes() ? 40 : 130, small_sizes() ? 130 : 333, head});
    if (small_sizes()) continue;
    check_halves({1, 17, 70, 200, head});
    if (head <= 40) check_halves({9, 16, 100, 129, head});  // 144 blocks of 128 queries
  }
  if (small_sizes() || device_ == nullptr) return;
  for (const char* kernel : {"f16_24_1x4x1", "f16_24_2x4x1", "f16_24_1x1x4", "f16_32_1x4x1", "f16_40_2x4x1",
                             "f16_64_1x4x1", "f16_80_1x1x4", "bf16_128_1x4x1"})
    EXPECT_TRUE(used_.contains(std::string("attention_") + kernel)) << kernel;
}

// Values that are longer than queries and keys, or shorter.
TEST_F(Attention, ValuesMayHaveAnotherSize) {
  const int many = small_sizes() ? 2 : 40;
  for (const std::vector<int64_t>& mask : {std::vector<int64_t>(), {1, 4, 49, 49}})
    for (const auto& [head, value] : {std::pair(16, 32), {32, 128}, {64, 24}, {12, 40}}) {
      check_all_types({1, 4, 49, 49, head, mask, false, value});
      check_halves({many, 4, 49, 49, head, mask, false, value});
    }
}

TEST_F(Attention, CausalQueriesSeeTheKeysBeforeThem) {
  const int many = small_sizes() ? 2 : 17;
  for (const int head : {20, 40, 64, 128}) {
    check_halves({.batch = 1, .heads = 2, .queries = 77, .keys = 77, .head_size = head, .causal = true});
    check_halves({.batch = 2, .heads = 3, .queries = 20, .keys = 150, .head_size = head, .causal = true});
    check_halves({.batch = many, .heads = 8, .queries = 130, .keys = 200, .head_size = head, .causal = true});
  }
}

}  // namespace
}  // namespace tenon::cuda
