// Operators on bytes in blocks of 8 channels give the bytes that they give on the plain layout, whatever stands in the
// channels that fill up the last block, and the planner is offered that layout.
#include <cstring>

#include "ep/cpu/kernel_list.h"
#include "ep/cpu/ops/blocked_rows.h"
#include "ep/cpu/ops/blocked_testing.h"
#include "ops/quantized_bytes.h"

namespace tenon::cpu {
namespace {

using Bytes = std::vector<std::byte>;

struct Operand {
  DataType type;
  Shape shape;
  Bytes data;  // in the plain order
  bool constant = false;
};

class ByteNode {
 public:
  explicit ByteNode(std::string op_type, std::string domain = "", int version = 21) {
    node_.op_type = std::move(op_type);
    node_.domain = std::move(domain);
    node_.since_version = version;
  }
  Node& node() { return node_; }

  ByteNode& input(DataType type, const Shape& shape, bool constant = false) {
    Bytes data(static_cast<size_t>(shape.element_count()) * data_type_size(type));
    if (type == DataType::kFloat) {
      const std::vector<float> numbers = uniform_floats(random_, shape.element_count(), -20, 20);
      std::memcpy(data.data(), numbers.data(), data.size());
    } else {
      for (std::byte& byte : data) byte = static_cast<std::byte>(random_());
    }
    inputs_.push_back({type, shape, std::move(data), constant});
    return *this;
  }
  template <typename T>
  ByteNode& constant(DataType type, const Shape& shape, const std::vector<T>& values) {
    Bytes data(values.size() * sizeof(T));
    std::memcpy(data.data(), values.data(), data.size());
    inputs_.push_back({type, shape, std::move(data), true});
    return *this;
  }
  ByteNode& step(DataType type, float scale, int zero) {
    constant<float>(DataType::kFloat, {}, {scale});
    return constant<int8_t>(type, {}, {static_cast<int8_t>(zero)});
  }
  ByteNode& absent() {
    inputs_.push_back({});
    return *this;
  }
  ByteNode& output(DataType type, const Shape& shape) {
    outputs_.push_back({.type = type, .shape = shape});
    return *this;
  }

  // The kernel whose tensors lie so, but for constants and those below rank 3.
  Result<std::unique_ptr<Kernel>> create(Layout layout, ThreadPool* pool = nullptr) {
    specs_.clear();
    constants_.clear();
    graph_ = Graph();
    node_.inputs.clear();
    for (const Operand& operand : inputs_) {
      TensorSpec spec{.type = operand.type, .shape = operand.shape};
      constants_.push_back(nullptr);
      if (operand.constant) {
        auto held = std::make_shared<Constant>();
        held->type = operand.type;
        held->shape = operand.shape;
        held->data = operand.data.data();
        held->size_bytes = operand.data.size();
        constants_.back() = std::move(held);
      } else if (spec.present() && spec.shape.rank() >= 3) {
        spec.layout = layout;
      }
      specs_.push_back(spec);
      Value value;
      value.constant = constants_.back();
      node_.inputs.push_back(operand.type == DataType::kUndefined ? kNoValue : graph_.add_value(std::move(value)));
    }
    for (TensorSpec& spec : outputs_)
      if (spec.shape.rank() >= 3) spec.layout = layout;
    Status why(StatusCode::kNotFound, "There is no row.");
    for (const KernelEntry* row : rows_of(node_)) {
      why = row->match(asked(pool));
      if (why.ok()) return row->create(asked(pool));
    }
    return why;
  }

  LayoutChoice choice(Layout layout) {
    (void)create(layout);
    return choose_kernel_layouts(asked(nullptr));
  }

  // Outputs in the plain order.
  std::vector<Bytes> run(Layout layout, int threads) {
    std::vector<Bytes> results;
    const auto pool = ThreadPool::create({.threads = threads}).value();
    auto made = create(layout, pool.get());
    EXPECT_TRUE(made.ok()) << node_.op_type << ": " << made.status().message();
    if (!made.ok()) return results;
    const Kernel& kernel = *made.value();
    struct Context final : KernelContext {
      Result<void*> allocate_output(size_t, const Shape&) override {
        return Status(StatusCode::kInternal, "No output is dynamic.");
      }
    } context;
    std::vector<Bytes> held;
    std::vector<const void*> inputs;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      held.push_back(specs_[i].layout == Layout::kPlain ? inputs_[i].data : in_blocks(inputs_[i]));
      inputs.push_back(specs_[i].present() ? held.back().data() : nullptr);
    }
    constexpr size_t kGuard = 64;
    std::vector<Bytes> memory;
    std::vector<void*> outputs;
    for (const TensorSpec& spec : outputs_) {
      memory.emplace_back(spec.size_bytes() + kGuard, std::byte{0xa5});
      outputs.push_back(memory.back().data());
    }
    std::vector<float> scratch(kernel.scratch_bytes() / sizeof(float) + 1, 7.0f);
    context.inputs = inputs;
    context.outputs = outputs;
    context.scratch = reinterpret_cast<std::byte*>(scratch.data());
    context.pool = pool.get();
    pool->enter_run();
    const Status status = kernel.run(context);
    pool->leave_run();
    EXPECT_TRUE(status.ok()) << status.message();
    for (size_t i = 0; i < outputs_.size(); ++i) {
      for (size_t k = outputs_[i].size_bytes(); k < memory[i].size(); ++k)
        EXPECT_EQ(memory[i][k], std::byte{0xa5}) << node_.op_type << " writes past the end";
      results.push_back(in_order(outputs_[i], memory[i]));
    }
    return results;
  }

 private:
  KernelNode asked(ThreadPool* pool) const {
    KernelNode asked;
    asked.graph = &graph_;
    asked.node = &node_;
    asked.inputs = specs_;
    asked.outputs = outputs_;
    asked.constants = constants_;
    asked.pool = pool;
    return asked;
  }

  template <typename Move>
  static void each_element(const TensorSpec& spec, const Move& move) {
    const Shape& shape = spec.shape;
    const int64_t pixels = shape.element_count() / (shape[0] * shape[1]);
    for (int64_t n = 0, i = 0; n < shape[0]; ++n)
      for (int64_t c = 0; c < shape[1]; ++c)
        for (int64_t p = 0; p < pixels; ++p, ++i) move(i, blocked_at(shape, n, c, p));
  }
  Bytes in_blocks(const Operand& operand) {
    const TensorSpec spec{.type = operand.type, .shape = operand.shape, .layout = Layout::kBlocked8};
    const size_t size = data_type_size(operand.type);
    Bytes blocks(spec.size_bytes());
    if (size == 1)
      for (std::byte& byte : blocks) byte = static_cast<std::byte>(random_());
    each_element(spec, [&](int64_t plain, size_t blocked) {
      std::memcpy(blocks.data() + blocked * size, operand.data.data() + static_cast<size_t>(plain) * size, size);
    });
    return blocks;
  }
  static Bytes in_order(const TensorSpec& spec, const Bytes& data) {
    if (spec.layout == Layout::kPlain)
      return Bytes(data.begin(), data.begin() + static_cast<int64_t>(spec.size_bytes()));
    const size_t size = data_type_size(spec.type);
    Bytes plain(static_cast<size_t>(spec.shape.element_count()) * size);
    each_element(spec, [&](int64_t at, size_t blocked) {
      std::memcpy(plain.data() + static_cast<size_t>(at) * size, data.data() + blocked * size, size);
    });
    return plain;
  }

  Graph graph_;
  Node node_;
  std::vector<Operand> inputs_;
  std::vector<TensorSpec> specs_, outputs_;
  std::vector<ConstantRef> constants_;
  std::mt19937 random_{11};
};

// The node gives the same bytes in blocks, and is chosen to.
void expect_same(ByteNode node) {
  const LayoutChoice choice = node.choice(Layout::kBlocked8);
  EXPECT_EQ(choice.outputs[0], Layout::kBlocked8) << node.node().op_type;
  const std::vector<Bytes> plain = node.run(Layout::kPlain, 1);
  for (int threads : {1, 3}) EXPECT_EQ(node.run(Layout::kBlocked8, threads), plain) << node.node().op_type;
}

void expect_refused(ByteNode node) {
  EXPECT_EQ(node.create(Layout::kBlocked8).status().code(), StatusCode::kUnsupported) << node.node().op_type;
}

constexpr DataType kTypes[] = {DataType::kUint8, DataType::kInt8};
constexpr std::string_view kMicrosoft = "com.microsoft";
const Shape kShapes[] = {{2, 13, 9, 11}, {1, 24, 17, 40}, {3, 8, 5}, {1, 19, 3, 4, 5}, {1, 64, 1, 1}, {2, 3, 2, 2}};

TEST(BlockedBytes, ReordersGoBothWays) {
  for (DataType type : kTypes) {
    for (const Shape& shape : {Shape{2, 13, 9, 11}, Shape{1, 24, 33, 40}, Shape{1, 3, 2, 2}, Shape{3, 8, 5}}) {
      for (bool last : {false, true}) {
        const int64_t batch = shape[0], channels = shape[1], pixels = shape.element_count() / batch / channels;
        const Shape plain_shape = last ? Shape{batch, pixels, channels} : shape;
        std::mt19937 random(7);
        Bytes plain(static_cast<size_t>(shape.element_count()));
        for (std::byte& byte : plain) byte = static_cast<std::byte>(random());
        const TensorSpec flat{.type = type, .shape = plain_shape};
        const TensorSpec blocks{.type = type, .shape = shape, .layout = Layout::kBlocked8};
        const auto move = [&](bool back, const Bytes& from) {
          Node node;
          node.op_type = "Reorder";
          node.domain = "tenon";
          node.since_version = 1;
          node.set_string("to", back ? "plain" : "blocked8");
          if (last) node.set_int("channels_last", 1);
          KernelNode asked;
          asked.node = &node;
          asked.inputs = {back ? &blocks : &flat, 1};
          asked.outputs = {back ? &flat : &blocks, 1};
          EXPECT_TRUE(match_reorder(asked).ok());
          const auto kernel = create_reorder(asked).value();
          const auto pool = ThreadPool::create({.threads = 2}).value();
          Bytes to(asked.outputs[0].size_bytes(), std::byte{9});
          struct Context final : KernelContext {
            Result<void*> allocate_output(size_t, const Shape&) override { return nullptr; }
          } context;
          const void* const x = from.data();
          void* const y = to.data();
          context.inputs = {&x, 1};
          context.outputs = {&y, 1};
          context.pool = pool.get();
          pool->enter_run();
          EXPECT_TRUE(kernel->run(context).ok());
          pool->leave_run();
          return to;
        };
        Bytes want(blocks.size_bytes(), std::byte{0});
        for (int64_t n = 0; n < batch; ++n)
          for (int64_t c = 0; c < channels; ++c)
            for (int64_t p = 0; p < pixels; ++p)
              want[blocked_at(shape, n, c, p)] =
                  plain[static_cast<size_t>(last ? (n * pixels + p) * channels + c : (n * channels + c) * pixels + p)];
        EXPECT_EQ(move(false, plain), want) << shape.to_string() << last;
        for (int64_t n = 0; n < batch; ++n)  // whatever the other channels hold
          for (int64_t c = channels; c % 8 != 0; ++c)
            for (int64_t p = 0; p < pixels; ++p)
              want[blocked_at(shape, n, channels - 1, p) + static_cast<size_t>(c - channels + 1)] = std::byte{5};
        EXPECT_EQ(move(true, want), plain) << shape.to_string() << last;
      }
    }
  }
}

TEST(BlockedBytes, NumbersAreQuantizedAndBack) {
  for (DataType type : kTypes) {
    for (const Shape& shape : kShapes) {
      expect_same(ByteNode("QuantizeLinear").input(DataType::kFloat, shape).step(type, 0.11f, 3).output(type, shape));
      ByteNode back("DequantizeLinear");
      back.input(type, shape).step(type, 0.11f, 3).output(DataType::kFloat, shape);
      shape[1] % 8 == 0 ? expect_same(back) : expect_refused(back);
      ByteNode lookup("LookupBytes", "tenon", 1);
      expect_same(lookup.input(type, shape).input(type, {256}, true).output(type, shape));
    }
  }
  const Shape shape{1, 16, 4, 5};
  ByteNode axis("QuantizeLinear");
  axis.input(DataType::kFloat, shape).input(DataType::kFloat, {16}, true).output(DataType::kUint8, shape);
  expect_refused(axis);
  ByteNode dynamic("DynamicQuantizeLinear", "", 11);
  dynamic.input(DataType::kFloat, {1, 13, 4, 5}).output(DataType::kUint8, {1, 13, 4, 5});
  expect_same(dynamic.output(DataType::kFloat, {}).output(DataType::kUint8, {}));
}

TEST(BlockedBytes, SumsAndProductsOfOperandsThatBroadcast) {
  const auto made = [](const char* op, DataType type, const Shape& a, bool constant_a, const Shape& b, bool constant_b,
                       const Shape& y) {
    ByteNode node(op, std::string(kMicrosoft), 1);
    write_exact(node.node());  // else halves may go either way
    node.input(type, a, constant_a).step(type, 0.02f, 5).input(type, b, constant_b).step(type, 0.03f, -7);
    return node.step(type, 0.04f, 1).output(type, y);
  };
  for (DataType type : kTypes) {
    for (const char* op : {"QLinearAdd", "QLinearMul"}) {
      for (const Shape& shape : kShapes) {
        expect_same(made(op, type, shape, false, shape, false, shape));
        expect_same(made(op, type, shape, false, {}, true, shape));
        expect_same(made(op, type, {1}, false, shape, false, shape));
        Shape channels = shape;
        for (int d = 2; d < shape.rank(); ++d) channels[d] = 1;
        Shape one_image = channels;
        one_image[0] = 1;
        const Shape tail(one_image.dims().subspan(1));
        for (const auto& [operand, constant] : {std::pair<Shape, bool>{channels, false},
                                                {one_image, false},
                                                {channels, true},
                                                {one_image, true},
                                                {tail, true}}) {
          expect_same(made(op, type, shape, false, operand, constant, shape));
          expect_same(made(op, type, operand, constant, shape, false, shape));
        }
        expect_same(made(op, type, shape, false, Shape{1, 1, 1}, false, shape));
      }
      expect_same(made(op, type, {1, 1, 1, 1}, false, {1, 1, 1, 1}, false, {1, 1, 1, 1}));
      // More pixels than a piece of the channels' bytes.
      expect_same(made(op, type, {2, 12, 30, 41}, false, {2, 12, 1, 1}, false, {2, 12, 30, 41}));
      for (const Shape& b : {Shape{1, 16, 3, 4}, Shape{2, 1, 3, 4}, Shape{2, 1, 1, 1}, Shape{2, 16, 1, 4}})
        expect_refused(made(op, type, {2, 16, 3, 4}, false, b, false, {2, 16, 3, 4}));
      expect_refused(made(op, type, {2, 16, 3, 4}, false, {2, 16, 3, 4}, true, {2, 16, 3, 4}));
    }
  }
}

TEST(BlockedBytes, FunctionsOfOneByte) {
  for (DataType type : kTypes) {
    for (const Shape& shape : kShapes) {
      for (const char* op : {"QLinearSigmoid", "QLinearLeakyRelu"}) {
        ByteNode node(op, std::string(kMicrosoft), 1);
        expect_same(node.input(type, shape).step(type, 0.05f, 2).step(type, 0.01f, -3).output(type, shape));
      }
    }
  }
}

struct PoolCase {
  Shape x, y;
  std::vector<int64_t> kernel, strides, pads, dilations;
};

TEST(BlockedBytes, PoolsOfEveryStride) {
  const PoolCase cases[] = {
      {{2, 13, 9, 11}, {2, 13, 9, 11}, {3, 3}, {1, 1}, {1, 1, 1, 1}, {}},
      {{1, 24, 17, 40}, {1, 24, 9, 20}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {}},
      {{1, 16, 8, 8}, {1, 16, 4, 4}, {2, 2}, {2, 2}, {}, {}},
      {{1, 19, 15, 70}, {1, 19, 4, 17}, {4, 5}, {4, 4}, {1, 0, 0, 1}, {}},
      {{1, 9, 13, 13}, {1, 9, 13, 13}, {5, 5}, {1, 1}, {2, 2, 2, 2}, {}},
      {{1, 16, 12, 12}, {1, 16, 4, 3}, {3, 3}, {2, 3}, {}, {2, 2}},
      {{3, 11, 20}, {3, 11, 10}, {3}, {2}, {1, 0}, {}},
      {{1, 9, 4, 6, 6}, {1, 9, 3, 3, 3}, {2, 2, 2}, {1, 2, 2}, {}, {}},
      {{1, 8, 1, 1}, {1, 8, 1, 1}, {1, 1}, {1, 1}, {}, {}},
      {{1, 16, 120, 130}, {1, 16, 60, 65}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {}},
  };
  for (DataType type : kTypes) {
    for (const PoolCase& pool : cases) {
      const auto set = [&](Node& node) {
        node.set_ints("kernel_shape", pool.kernel);
        node.set_ints("strides", pool.strides);
        if (!pool.pads.empty()) node.set_ints("pads", pool.pads);
      };
      ByteNode maximum("MaxPool", "", 12);
      set(maximum.node());
      if (!pool.dilations.empty()) maximum.node().set_ints("dilations", pool.dilations);
      expect_same(maximum.input(type, pool.x).output(type, pool.y));
      if (!pool.dilations.empty()) continue;
      for (int64_t pads : {0, 1}) {
        ByteNode average("QLinearAveragePool", std::string(kMicrosoft), 1);
        set(average.node());
        average.node().set_int("count_include_pad", pads);
        expect_same(average.input(type, pool.x).step(type, 0.02f, 5).step(type, 0.03f, -6).output(type, pool.y));
      }
    }
    for (const Shape& shape : kShapes) {
      Shape y = shape;
      for (int d = 2; d < y.rank(); ++d) y[d] = 1;
      ByteNode global("QLinearGlobalAveragePool", std::string(kMicrosoft), 1);
      expect_same(global.input(type, shape).step(type, 0.02f, 5).step(type, 0.003f, -6).output(type, y));
    }
    ByteNode large("QLinearGlobalAveragePool", std::string(kMicrosoft), 1);
    expect_same(
        large.input(type, {1, 9, 40, 41}).step(type, 0.02f, 5).step(type, 0.003f, -6).output(type, {1, 9, 1, 1}));
  }
}

TEST(BlockedBytes, ImagesAreResized) {
  for (DataType type : kTypes) {
    for (const char* mode : {"nearest", "linear"}) {
      for (const auto& [h, w] : {std::pair<int64_t, int64_t>{12, 14}, {18, 7}, {24, 28}, {3, 3}}) {
        ByteNode node("Resize", "", 13);
        node.input(type, {2, 13, 6, 7}).absent().absent().constant<int64_t>(DataType::kInt64, {4}, {2, 13, h, w});
        node.node().set_string("mode", mode);
        node.node().set_string("coordinate_transformation_mode", "asymmetric");
        if (std::string_view(mode) == "nearest") node.node().set_string("nearest_mode", "floor");
        expect_same(node.output(type, {2, 13, h, w}));
      }
    }
  }
}

TEST(BlockedBytes, PartsOfWholeBlocks) {
  for (DataType type : kTypes) {
    ByteNode concat("Concat", "", 13), split("Split", "", 13);
    concat.input(type, {2, 8, 3, 5}).input(type, {2, 24, 3, 5}).input(type, {2, 5, 3, 5}).output(type, {2, 37, 3, 5});
    concat.node().set_int("axis", 1);
    expect_same(concat);
    split.input(type, {2, 37, 3, 5}).constant<int64_t>(DataType::kInt64, {3}, {8, 24, 5});
    split.output(type, {2, 8, 3, 5}).output(type, {2, 24, 3, 5}).output(type, {2, 5, 3, 5});
    split.node().set_int("axis", 1);
    expect_same(split);
    for (int64_t axis : {1, -3}) {
      for (int64_t last : {16, 5}) {
        ByteNode quantized("QLinearConcat", std::string(kMicrosoft), 1);
        quantized.node().set_int("axis", axis);
        quantized.step(type, 0.03f, 4);
        quantized.input(type, {2, 8, 3, 5}).step(type, 0.03f, 4).input(type, {2, 24, 3, 5}).step(type, 0.05f, -9);
        quantized.input(type, {2, last, 3, 5}).step(type, 0.01f, 0).output(type, {2, 32 + last, 3, 5});
        expect_same(quantized);
      }
    }
    ByteNode uneven("QLinearConcat", std::string(kMicrosoft), 1);
    uneven.node().set_int("axis", 1);
    uneven.step(type, 0.03f, 4).input(type, {1, 5, 2, 2}).step(type, 0.03f, 4).input(type, {1, 8, 2, 2});
    expect_refused(uneven.step(type, 0.03f, 4).output(type, {1, 13, 2, 2}));
  }
}

TEST(BlockedBytes, PadsAndSlices) {
  for (DataType type : kTypes) {
    for (const Shape& shape : {Shape{2, 13, 6, 7}, Shape{1, 16, 6, 7}}) {
      for (bool value : {false, true}) {
        ByteNode pad("Pad", "", 13);
        pad.input(type, shape).constant<int64_t>(DataType::kInt64, {8}, {0, 0, 1, 2, 0, 0, 3, -1});
        if (value) pad.constant<int8_t>(type, {}, {77});
        expect_same(pad.output(type, {shape[0], shape[1], 10, 8}));
      }
    }
    const auto sliced = [type](const Shape& x, int64_t start, int64_t end, int64_t axis, const Shape& y) {
      ByteNode slice("Slice", "", 13);
      slice.input(type, x)
          .constant<int64_t>(DataType::kInt64, {1}, {start})
          .constant<int64_t>(DataType::kInt64, {1}, {end});
      return slice.constant<int64_t>(DataType::kInt64, {1}, {axis}).output(type, y);
    };
    expect_same(sliced({2, 13, 6, 7}, 1, 5, 2, {2, 13, 4, 7}));
    expect_same(sliced({2, 37, 3, 4}, 8, 24, 1, {2, 16, 3, 4}));
    expect_same(sliced({2, 37, 3, 4}, 24, 37, 1, {2, 13, 3, 4}));
    expect_refused(sliced({2, 37, 3, 4}, 24, 36, 1, {2, 12, 3, 4}));
    expect_refused(sliced({2, 37, 3, 4}, 4, 12, 1, {2, 8, 3, 4}));
  }
}

}  // namespace
}  // namespace tenon::cpu
