// For tests: one node with its tensors, run through the kernel that vector_kernels() picks, outputs between guard
// bytes.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ep/cpu/cpu_provider.h"
#include "graph/graph.h"

namespace tenon::cpu {

class TestNode {
 public:
  TestNode(std::string op_type, std::string domain, int version) {
    node_.op_type = std::move(op_type);
    node_.domain = std::move(domain);
    node_.since_version = version;
  }
  Node& node() { return node_; }

  template <typename T>
  TestNode& input(DataType type, const Shape& shape, const std::vector<T>& values, bool constant = false) {
    EXPECT_EQ(shape.element_count(), static_cast<int64_t>(values.size()));
    auto& bytes = data_.emplace_back(std::make_unique<std::vector<std::byte>>(values.size() * sizeof(T)));
    if (!values.empty()) std::memcpy(bytes->data(), values.data(), bytes->size());
    node_.inputs.push_back(ValueId(inputs_.size()));
    inputs_.push_back({.type = type, .shape = shape});
    constants_.push_back(nullptr);
    if (constant) {
      auto held = std::make_shared<Constant>();
      held->type = type;
      held->shape = shape;
      held->data = bytes->data();
      held->size_bytes = bytes->size();
      constants_.back() = std::move(held);
    }
    return *this;
  }
  TestNode& input(const Shape& shape, const std::vector<float>& values, bool constant = false) {
    return input<float>(DataType::kFloat, shape, values, constant);
  }
  TestNode& absent() {
    data_.push_back(nullptr);
    node_.inputs.push_back(kNoValue);
    inputs_.push_back({});
    constants_.push_back(nullptr);
    return *this;
  }
  TestNode& output(DataType type, const Shape& shape) {
    outputs_.push_back({.type = type, .shape = shape});
    return *this;
  }
  TestNode& output(const Shape& shape) { return output(DataType::kFloat, shape); }

  // The first matching row's kernel.
  Result<std::unique_ptr<Kernel>> create() const {
    KernelNode asked;
    asked.graph = &graph_;
    asked.node = &node_;
    asked.inputs = inputs_;
    asked.outputs = outputs_;
    asked.constants = constants_;
    Status why(StatusCode::kNotFound, "no row");
    for (const KernelEntry& row : vector_kernels()) {
      if (row.op_type != node_.op_type || row.domain != node_.domain) continue;
      if (node_.since_version < row.since || node_.since_version > row.until) continue;
      why = row.match(asked);
      if (why.ok()) return row.create(asked);
    }
    return why;
  }

  // Runs on `threads` threads; checks the guards around outputs and scratch. The outputs' bytes.
  std::vector<std::vector<std::byte>> run_bytes(int threads) const {
    std::vector<std::vector<std::byte>> results;
    auto made = create();
    EXPECT_TRUE(made.ok()) << made.status().message();
    if (!made.ok()) return results;
    const Kernel& kernel = *made.value();
    struct Context final : KernelContext {
      Result<void*> allocate_output(size_t, const Shape&) override { return internal_error("No output is dynamic."); }
    } context;
    constexpr size_t kGuard = 64;
    constexpr std::byte kMark{0xa5};
    std::vector<std::unique_ptr<std::byte[]>> held;
    std::vector<std::pair<std::byte*, size_t>> guarded;
    const auto room = [&](size_t bytes) {
      held.push_back(std::make_unique<std::byte[]>(bytes + 3 * kGuard));
      auto address = reinterpret_cast<uintptr_t>(held.back().get()) + kGuard;
      auto* data = reinterpret_cast<std::byte*>((address + 63) / 64 * 64);
      std::memset(data - kGuard, 0xa5, kGuard);
      std::memset(data, 0xff, bytes);  // NaN: whatever is not written shows
      std::memset(data + bytes, 0xa5, kGuard);
      guarded.emplace_back(data, bytes);
      return data;
    };
    std::vector<const void*> inputs;
    inputs.reserve(data_.size());
    for (size_t i = 0; i < data_.size(); ++i) {
      const bool packed = constants_[i] != nullptr && !kernel.reads(i);
      inputs.push_back(data_[i] && !packed ? data_[i]->data() : nullptr);
    }
    std::vector<void*> outputs;
    outputs.reserve(outputs_.size());
    for (const TensorSpec& spec : outputs_) outputs.push_back(spec.present() ? room(spec.size_bytes()) : nullptr);
    context.inputs = inputs;
    context.outputs = outputs;
    context.scratch = room(kernel.scratch_bytes());
    const auto pool = ThreadPool::create({.threads = threads}).value();
    context.pool = pool.get();
    pool->enter_run();
    const Status status = kernel.run(context);
    pool->leave_run();
    EXPECT_TRUE(status.ok()) << status.message();
    for (auto [data, bytes] : guarded)
      for (size_t i = 0; i < kGuard; ++i) {
        EXPECT_EQ(data[bytes + i], kMark) << "written past the end";
        EXPECT_EQ(data[-1 - static_cast<ptrdiff_t>(i)], kMark) << "written before the begin";
      }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const auto* begin = static_cast<const std::byte*>(outputs[i]);
      results.emplace_back(begin, begin + (begin ? outputs_[i].size_bytes() : 0));
    }
    return results;
  }

  template <typename T = float>
  std::vector<T> run(int threads, size_t output = 0) const {
    const auto all = run_bytes(threads);
    if (output >= all.size()) return {};
    std::vector<T> values(all[output].size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), all[output].data(), all[output].size());
    return values;
  }

  Graph& graph() { return graph_; }

 private:
  Graph graph_;
  Node node_;
  std::vector<TensorSpec> inputs_, outputs_;
  std::vector<ConstantRef> constants_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> data_;
};

inline std::vector<float> random_floats(std::mt19937& random, int64_t count, float low = -1, float high = 1) {
  std::uniform_real_distribution<float> value(low, high);
  std::vector<float> out(count);
  for (float& x : out) x = value(random);
  return out;
}

inline void expect_near(const std::vector<float>& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], tolerance * std::max(1.0, std::abs(want[i]))) << "at " << i;
}

}  // namespace tenon::cpu
