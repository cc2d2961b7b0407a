// For tests: one float node whose tensors may be blocked, run through the row that blocked_kernels() picks.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ep/cpu/cpu_provider.h"
#include "graph/graph.h"

namespace tenon::cpu {

inline int64_t blocked_size(const Shape& shape) {
  return shape.element_count() / std::max<int64_t>(1, shape[1]) * ((shape[1] + 7) / 8 * 8);
}

// Where element {n, c, pixel} lies.
inline size_t blocked_at(const Shape& shape, int64_t n, int64_t c, int64_t pixel) {
  const int64_t pixels = shape.element_count() / (shape[0] * shape[1]);
  return ((n * ((shape[1] + 7) / 8) + c / 8) * pixels + pixel) * 8 + c % 8;
}

inline std::vector<float> to_blocked(const Shape& shape, const std::vector<float>& plain) {
  std::vector<float> blocked(blocked_size(shape), 0.0f);
  const int64_t pixels = shape.element_count() / (shape[0] * shape[1]);
  for (int64_t n = 0, i = 0; n < shape[0]; ++n)
    for (int64_t c = 0; c < shape[1]; ++c)
      for (int64_t p = 0; p < pixels; ++p, ++i) blocked[blocked_at(shape, n, c, p)] = plain[i];
  return blocked;
}

class ConvNode {
 public:
  ConvNode(std::string op_type, std::string domain, int version) {
    node_.op_type = std::move(op_type);
    node_.domain = std::move(domain);
    node_.since_version = version;
  }
  Node& node() { return node_; }

  // `plain` is in plain order, whatever the layout.
  ConvNode& input(const Shape& shape, std::vector<float> plain, Layout layout = Layout::kBlocked8) {
    if (layout == Layout::kBlocked8) plain = to_blocked(shape, plain);
    add(DataType::kFloat, shape, layout, plain.data(), plain.size() * sizeof(float), false);
    return *this;
  }
  ConvNode& constant(const Shape& shape, const std::vector<float>& values) {
    add(DataType::kFloat, shape, Layout::kPlain, values.data(), values.size() * sizeof(float), true);
    return *this;
  }
  ConvNode& constant(const std::vector<int64_t>& values) {
    add(DataType::kInt64, Shape{static_cast<int64_t>(values.size())}, Layout::kPlain, values.data(),
        values.size() * sizeof(int64_t), true);
    return *this;
  }
  ConvNode& absent() {
    specs_.push_back({});
    constants_.push_back(nullptr);
    data_.push_back(nullptr);
    return *this;
  }
  ConvNode& output(const Shape& shape, Layout layout = Layout::kBlocked8) {
    outputs_.push_back({.type = DataType::kFloat, .shape = shape, .layout = layout});
    return *this;
  }

  KernelNode asked(ThreadPool* pool) const {
    KernelNode asked;
    asked.graph = &graph_;
    asked.node = &node_;
    asked.inputs = specs_;
    asked.outputs = outputs_;
    asked.constants = constants_;
    asked.pool = pool;
    asked.winograd = true;
    return asked;
  }

  Result<std::unique_ptr<Kernel>> create(ThreadPool* pool = nullptr) const {
    Status why(StatusCode::kNotFound, "There is no row.");
    const KernelNode node = asked(pool);
    for (const KernelEntry& row : blocked_kernels()) {
      if (row.op_type != node_.op_type || row.domain != node_.domain) continue;
      if (node_.since_version < row.since || node_.since_version > row.until) continue;
      why = row.match(node);
      if (why.ok()) return row.create(node);
    }
    return why;
  }

  // Every output in plain order. Checks guard bytes around outputs and scratch, and that padding channels are zero.
  std::vector<std::vector<float>> run(int threads) const {
    std::vector<std::vector<float>> results;
    const auto pool = ThreadPool::create({.threads = threads}).value();
    auto made = create(pool.get());
    EXPECT_TRUE(made.ok()) << made.status().message();
    if (!made.ok()) return results;
    const Kernel& kernel = *made.value();
    struct Context final : KernelContext {
      Result<void*> allocate_output(size_t, const Shape&) override {
        return Status(StatusCode::kInternal, "No output is dynamic.");
      }
    } context;
    std::vector<const void*> inputs;
    inputs.reserve(data_.size());
    for (size_t i = 0; i < data_.size(); ++i) {
      const bool packed = constants_[i] != nullptr && !kernel.reads(i);
      inputs.push_back(data_[i] && !packed ? data_[i]->data() : nullptr);
    }
    std::vector<void*> outputs;
    for (const TensorSpec& spec : outputs_) outputs.push_back(room(spec.size_bytes()));
    context.inputs = inputs;
    context.outputs = outputs;
    context.scratch = room(kernel.scratch_bytes());
    context.pool = pool.get();
    pool->enter_run();
    const Status status = kernel.run(context);
    pool->leave_run();
    EXPECT_TRUE(status.ok()) << status.message();
    check_guards();
    for (size_t i = 0; i < outputs_.size(); ++i)
      results.push_back(plain_values(outputs_[i], static_cast<const float*>(outputs[i])));
    guarded_.clear();
    held_.clear();
    return results;
  }

 private:
  void add(DataType type, const Shape& shape, Layout layout, const void* data, size_t bytes, bool constant) {
    data_.push_back(std::make_unique<std::vector<std::byte>>(bytes));
    std::memcpy(data_.back()->data(), data, bytes);
    specs_.push_back({.type = type, .shape = shape, .layout = layout});
    constants_.push_back(nullptr);
    if (!constant) return;
    auto held = std::make_shared<Constant>();
    held->type = type;
    held->shape = shape;
    held->data = data_.back()->data();
    held->size_bytes = bytes;
    constants_.back() = std::move(held);
  }

  static constexpr size_t kGuard = 256;

  // Memory full of NaN between guard bytes.
  std::byte* room(size_t bytes) const {
    held_.push_back(std::make_unique<std::byte[]>(bytes + 3 * kGuard));
    const auto address = reinterpret_cast<uintptr_t>(held_.back().get()) + kGuard;
    auto* data = reinterpret_cast<std::byte*>((address + 63) / 64 * 64);
    std::memset(data - kGuard / 2, 0xa5, kGuard / 2);
    std::memset(data, 0xff, bytes);
    std::memset(data + bytes, 0xa5, kGuard);
    guarded_.emplace_back(data, bytes);
    return data;
  }
  void check_guards() const {
    for (auto [data, bytes] : guarded_) {
      for (size_t i = 0; i < kGuard; ++i) ASSERT_EQ(data[bytes + i], std::byte{0xa5}) << "written past the end";
      for (size_t i = 1; i <= kGuard / 2; ++i)
        ASSERT_EQ(data[-static_cast<ptrdiff_t>(i)], std::byte{0xa5}) << "written before the begin";
    }
  }

  static std::vector<float> plain_values(const TensorSpec& spec, const float* data) {
    const Shape& shape = spec.shape;
    std::vector<float> plain;
    if (spec.layout == Layout::kPlain) return std::vector<float>(data, data + shape.element_count());
    const int64_t pixels = shape.element_count() / (shape[0] * shape[1]);
    for (int64_t n = 0; n < shape[0]; ++n) {
      for (int64_t c = 0; c < (shape[1] + 7) / 8 * 8; ++c) {
        for (int64_t p = 0; p < pixels; ++p) {
          const float value = data[blocked_at(shape, n, c, p)];
          if (c < shape[1])
            plain.push_back(value);
          else
            EXPECT_EQ(value, 0.0f) << "padding channel " << c << " pixel " << p;
        }
      }
    }
    return plain;
  }

  Graph graph_;
  Node node_;
  std::vector<TensorSpec> specs_, outputs_;
  std::vector<ConstantRef> constants_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> data_;
  mutable std::vector<std::unique_ptr<std::byte[]>> held_;
  mutable std::vector<std::pair<std::byte*, size_t>> guarded_;
};

inline std::vector<float> uniform_floats(std::mt19937& random, int64_t count, float low = -1, float high = 1) {
  std::uniform_real_distribution<float> value(low, high);
  std::vector<float> out(count);
  for (float& x : out) x = value(random);
  return out;
}

// Errors are measured against the largest expected value.
inline void expect_close(const std::vector<float>& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  double largest = 1e-3;
  for (double value : want) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], tolerance * largest) << "at " << i;
}

}  // namespace tenon::cpu
