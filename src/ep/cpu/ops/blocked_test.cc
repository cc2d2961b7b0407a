// Layouts, padding channels and refusals of kernels on blocks of channels. Results are the lines of tests/problems with
// `blocked`.
#include "ep/cpu/ops/blocked_testing.h"

namespace tenon::cpu {
namespace {

// Missing channels of the last block are zero, and convolutions that follow rely on it. ConvNode checks it, and that
// nothing is written beside outputs and scratch.
TEST(BlockedKernels, KeepPaddingChannelsZero) {
  std::mt19937 random(3);
  const Shape x{2, 11, 6, 7};
  const auto values = uniform_floats(random, x.element_count(), 1, 2);
  const auto check = [](ConvNode& node) {
    for (int threads : {1, 2}) EXPECT_EQ(node.run(threads).size(), 1U);
  };
  for (const auto& [outputs, group, kernel] : {std::array<int64_t, 3>{5, 1, 1}, {13, 1, 3}, {11, 11, 3}, {11, 11, 5}}) {
    ConvNode conv("Conv", "", 11);
    conv.input(x, values).constant({outputs, 11 / group, kernel, kernel},
                                   uniform_floats(random, outputs * 11 / group * kernel * kernel));
    conv.output({2, outputs, 6, 7});
    conv.node().set_int("group", group);
    conv.node().set_string("auto_pad", "SAME_UPPER");
    check(conv);
  }
  ConvNode transposed("ConvTranspose", "", 11);
  transposed.input(x, values).constant({11, 5, 2, 2}, uniform_floats(random, 220)).output({2, 5, 12, 14});
  transposed.node().set_ints("strides", {2, 2});
  check(transposed);
  for (const char* op : {"MaxPool", "AveragePool"}) {
    ConvNode pool(op, "", 19);
    pool.input(x, values).output({2, 11, 5, 6});
    pool.node().set_ints("kernel_shape", {2, 2});
    check(pool);
  }
  for (const char* op : {"GlobalAveragePool", "GlobalMaxPool"}) {
    ConvNode pool(op, "", 1);
    check(pool.input(x, values).output({2, 11, 1, 1}));
  }
  ConvNode resize("Resize", "", 13);
  resize.input(x, values).absent().absent().constant(std::vector<int64_t>{2, 11, 12, 14}).output({2, 11, 12, 14});
  resize.node().set_string("coordinate_transformation_mode", "asymmetric");
  resize.node().set_string("nearest_mode", "floor");
  check(resize);
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Min", "Max"}) {
    ConvNode both(op, "", 14), scalar(op, "", 14);
    check(both.input(x, values).input(x, values).output(x));
    check(scalar.input(x, values).constant(Shape{}, {0.75f}).output(x));
  }
  ConvNode concat("Concat", "", 13);
  concat.input({2, 8, 6, 7}, std::vector<float>(672)).input(x, values).output({2, 19, 6, 7});
  concat.node().set_int("axis", 1);
  check(concat);
}

TEST(BlockedKernels, RefuseOneSpatialAxisAndUnevenParts) {
  ConvNode one_axis("ReduceMean", "", 18);
  one_axis.input({2, 12, 3, 4}, std::vector<float>(288)).constant(std::vector<int64_t>{2}).output({2, 12, 1, 4});
  EXPECT_EQ(one_axis.create().status().code(), StatusCode::kUnsupported);
  ConvNode uneven("Concat", "", 13);
  uneven.input({1, 5, 2, 2}, std::vector<float>(20)).input({1, 8, 2, 2}, std::vector<float>(32)).output({1, 13, 2, 2});
  uneven.node().set_int("axis", 1);
  EXPECT_EQ(uneven.create().status().code(), StatusCode::kUnsupported);
}

// A scale of 1.1 leaves 8 channels 8, but repeats the first: only images are resized here.
TEST(ResizeNearest, RefusesScalesOfChannels) {
  std::mt19937 random(9);
  for (const float scale : {1.0f, 1.1f}) {
    ConvNode node("Resize", "", 13);
    node.input({1, 8, 2, 2}, uniform_floats(random, 32)).absent().constant({4}, {1, scale, 2, 2});
    node.output({1, 8, 4, 4});
    node.node().set_string("coordinate_transformation_mode", "asymmetric");
    EXPECT_EQ(node.create().ok(), scale == 1.0f);
  }
}

TEST(BlockedActivation, KeepsNan) {
  ConvNode node("Relu", "", 14);
  node.input({1, 8, 1, 3}, std::vector<float>(24, std::nanf(""))).output({1, 8, 1, 3});
  const auto got = node.run(1);
  for (float value : got[0]) EXPECT_TRUE(std::isnan(value));
}

TEST(Reorder, GoesBothWays) {
  std::mt19937 random(19);
  for (const Shape& shape : {Shape{2, 13, 9, 11}, Shape{1, 24, 33, 40}, Shape{1, 3, 2, 2}, Shape{3, 8, 5}}) {
    const auto x = uniform_floats(random, shape.element_count());
    const std::vector<double> want(x.begin(), x.end());
    for (int threads : {1, 2}) {
      ConvNode to_blocked("Reorder", "tenon", 1), to_plain("Reorder", "tenon", 1);
      to_blocked.node().set_string("to", "blocked8");
      to_plain.node().set_string("to", "plain");
      to_blocked.input(shape, x, Layout::kPlain).output(shape, Layout::kBlocked8);
      to_plain.input(shape, x, Layout::kBlocked8).output(shape, Layout::kPlain);
      expect_close(to_blocked.run(threads)[0], want, 0);
      expect_close(to_plain.run(threads)[0], want, 0);
    }
  }
}

TEST(Reorder, GoesBothWaysWhereChannelsAreLast) {
  std::mt19937 random(23);
  for (const Shape& shape : {Shape{2, 13, 9, 11}, Shape{1, 24, 33, 40}, Shape{1, 3, 2, 2}, Shape{3, 800, 5}}) {
    const auto x = uniform_floats(random, shape.element_count());
    const int64_t channels = shape[1], pixels = shape.element_count() / shape[0] / channels;
    std::vector<float> last(x.size());
    for (int64_t n = 0; n < shape[0]; ++n)
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t i = 0; i < pixels; ++i) last[(n * pixels + i) * channels + c] = x[(n * channels + c) * pixels + i];
    const Shape of_last{shape[0], pixels, channels};
    for (int threads : {1, 2}) {
      ConvNode to_blocked("Reorder", "tenon", 1), to_plain("Reorder", "tenon", 1);
      to_blocked.node().set_string("to", "blocked8");
      to_plain.node().set_string("to", "plain");
      for (ConvNode* node : {&to_blocked, &to_plain}) node->node().set_int("channels_last", 1);
      to_blocked.input(of_last, last, Layout::kPlain).output(shape, Layout::kBlocked8);
      to_plain.input(shape, x, Layout::kBlocked8).output(of_last, Layout::kPlain);
      expect_close(to_blocked.run(threads)[0], std::vector<double>(x.begin(), x.end()), 0);
      expect_close(to_plain.run(threads)[0], std::vector<double>(last.begin(), last.end()), 0);
    }
  }
}

LayoutChoice chosen(const ConvNode& node) { return choose_kernel_layouts(node.asked(nullptr)); }

// The first convolution reads few plain channels as they are; what follows stays blocked; the rest is plain.
TEST(LayoutChoice, KeepsConvolutionRegionsBlocked) {
  std::mt19937 random(29);
  ConvNode stem("Conv", "", 11);
  stem.input({1, 3, 8, 8}, uniform_floats(random, 192), Layout::kPlain)
      .constant({16, 3, 1, 1}, uniform_floats(random, 48));
  stem.output({1, 16, 8, 8}, Layout::kPlain);
  EXPECT_EQ(chosen(stem).inputs[0], Layout::kPlain);
  EXPECT_EQ(chosen(stem).outputs[0], Layout::kBlocked8);

  KernelNode read_plain = stem.asked(nullptr);
  read_plain.outputs_read_plain = true;
  EXPECT_EQ(choose_kernel_layouts(read_plain).outputs[0], Layout::kPlain);

  ConvNode add("Add", "", 14);
  add.input({1, 16, 8, 8}, uniform_floats(random, 1024)).constant({1, 16, 1, 1}, uniform_floats(random, 16));
  add.output({1, 16, 8, 8}, Layout::kPlain);
  EXPECT_EQ(chosen(add).inputs[0], Layout::kBlocked8);
  EXPECT_EQ(chosen(add).inputs[1], Layout::kPlain);
  EXPECT_EQ(chosen(add).outputs[0], Layout::kBlocked8);

  ConvNode last("ConvTranspose", "", 11);
  last.input({1, 24, 4, 4}, uniform_floats(random, 384)).constant({24, 1, 2, 2}, uniform_floats(random, 96));
  last.output({1, 1, 8, 8}, Layout::kPlain);
  last.node().set_ints("strides", {2, 2});
  EXPECT_EQ(chosen(last).inputs[0], Layout::kBlocked8);
  EXPECT_EQ(chosen(last).outputs[0], Layout::kPlain);

  ConvNode plain("Add", "", 14);
  plain.input({1, 16, 8, 8}, uniform_floats(random, 1024), Layout::kPlain);
  plain.input({1, 16, 8, 8}, uniform_floats(random, 1024), Layout::kPlain).output({1, 16, 8, 8}, Layout::kPlain);
  EXPECT_EQ(chosen(plain).outputs[0], Layout::kPlain);
}

// Blocks hold float32 or bytes: a node that a cast to 16 bits has gone into works on plain numbers.
TEST(LayoutChoice, NodesThatMake16BitsStayPlain) {
  const std::vector<float> x(1024, 1.0f), one(1, 1.0f);
  for (const std::string op : {"GlobalAveragePool", "ReduceMean", "Add", "Relu", "Abs", "AveragePool", "MaxPool"}) {
    const bool is_mean = op == "GlobalAveragePool" || op == "ReduceMean";
    ConvNode narrow(op, "", 13);
    narrow.input({1, 16, 8, 8}, x);
    if (op == "Add") narrow.constant({1}, one);
    if (op == "ReduceMean") narrow.node().set_ints("axes", {2, 3});
    if (op == "AveragePool" || op == "MaxPool") narrow.node().set_ints("kernel_shape", {1, 1});
    narrow.output(is_mean ? Shape{1, 16, 1, 1} : Shape{1, 16, 8, 8}, Layout::kPlain);
    for (DataType type : {DataType::kFloat, DataType::kFloat16}) {
      KernelNode asked = narrow.asked(nullptr);
      TensorSpec y = asked.outputs[0];
      y.type = type;
      asked.outputs = std::span(&y, 1);
      const Layout want = type == DataType::kFloat ? Layout::kBlocked8 : Layout::kPlain;
      EXPECT_EQ(choose_kernel_layouts(asked).inputs[0], want) << op;
      EXPECT_EQ(choose_kernel_layouts(asked).outputs[0], want) << op;
    }
  }
}

}  // namespace
}  // namespace tenon::cpu
