// Pooling, resize, elementwise, concat, split and reorders on the blocked layout.
#include "ep/cpu/ops/blocked_testing.h"

namespace tenon::cpu {
namespace {

size_t at4(const Shape& shape, int64_t n, int64_t c, int64_t h, int64_t w) {
  return static_cast<size_t>(((n * shape[1] + c) * shape[2] + h) * shape[3] + w);
}

struct PoolCase {
  std::string name, op_type;
  Shape x;
  int64_t kernel, stride, out_h, out_w;
  int64_t pads[4] = {0, 0, 0, 0};
  bool count_pads = false;
};

std::ostream& operator<<(std::ostream& out, const PoolCase& c) { return out << c.name; }

class Pool : public testing::TestWithParam<PoolCase> {};

TEST_P(Pool, MatchesPlainLoops) {
  const PoolCase& c = GetParam();
  std::mt19937 random(3);
  // All negative: a padding that counted as zero would win.
  const auto x = uniform_floats(random, c.x.element_count(), -2, -1);
  const Shape y{c.x[0], c.x[1], c.out_h, c.out_w};
  std::vector<double> want;
  for (int64_t n = 0; n < y[0]; ++n)
    for (int64_t k = 0; k < y[1]; ++k)
      for (int64_t i = 0; i < y[2]; ++i)
        for (int64_t j = 0; j < y[3]; ++j) {
          double best = -1e30, sum = 0;
          int64_t inputs = 0, padded = 0;
          for (int64_t r = 0; r < c.kernel; ++r)
            for (int64_t s = 0; s < c.kernel; ++s) {
              const int64_t row = i * c.stride - c.pads[0] + r, col = j * c.stride - c.pads[1] + s;
              padded += row < c.x[2] + c.pads[2] && col < c.x[3] + c.pads[3];
              if (row < 0 || col < 0 || row >= c.x[2] || col >= c.x[3]) continue;
              const double value = x[at4(c.x, n, k, row, col)];
              best = std::max(best, value);
              sum += value;
              ++inputs;
            }
          want.push_back(c.op_type == "MaxPool" ? best : sum / static_cast<double>(c.count_pads ? padded : inputs));
        }
  ConvNode node(c.op_type, "", 19);
  node.input(c.x, x).output(y);
  node.node().set_ints("kernel_shape", {c.kernel, c.kernel});
  node.node().set_ints("strides", {c.stride, c.stride});
  node.node().set_ints("pads", {c.pads[0], c.pads[1], c.pads[2], c.pads[3]});
  node.node().set_int("count_include_pad", c.count_pads ? 1 : 0);
  node.node().set_int("ceil_mode", c.name.find("ceil") != std::string::npos ? 1 : 0);
  for (int threads : {1, 2}) expect_close(node.run(threads)[0], want, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(
    , Pool,
    testing::Values(PoolCase{"max5", "MaxPool", {2, 20, 13, 15}, 5, 1, 13, 15, {2, 2, 2, 2}},
                    PoolCase{"max2_same", "MaxPool", {1, 8, 12, 31}, 2, 1, 12, 31, {0, 0, 1, 1}},
                    PoolCase{"max3s2", "MaxPool", {1, 9, 15, 17}, 3, 2, 8, 9, {1, 1, 1, 1}},
                    PoolCase{"max3s2_ceil", "MaxPool", {1, 9, 14, 16}, 3, 2, 7, 8, {0, 0, 0, 0}},
                    PoolCase{"avg3", "AveragePool", {1, 11, 9, 30}, 3, 1, 9, 30, {1, 1, 1, 1}},
                    PoolCase{"avg3_pads", "AveragePool", {1, 11, 9, 30}, 3, 1, 9, 30, {1, 1, 1, 1}, true},
                    PoolCase{"avg2s2_ceil_pads", "AveragePool", {1, 8, 8, 8}, 3, 2, 4, 4, {0, 0, 0, 0}, true}),
    testing::PrintToStringParamName());

TEST(GlobalPool, MatchesPlainLoops) {
  std::mt19937 random(5);
  const Shape shape{2, 12, 37, 41};
  const auto x = uniform_floats(random, shape.element_count(), -3, 1);
  std::vector<double> mean, maximum;
  for (int64_t plane = 0; plane < 24; ++plane) {
    double sum = 0, best = -1e30;
    for (int64_t i = 0; i < 37 * 41; ++i) {
      sum += x[static_cast<size_t>(plane * 37 * 41 + i)];
      best = std::max<double>(best, x[static_cast<size_t>(plane * 37 * 41 + i)]);
    }
    mean.push_back(sum / (37 * 41));
    maximum.push_back(best);
  }
  for (Layout layout : {Layout::kBlocked8, Layout::kPlain}) {
    for (int threads : {1, 2}) {
      ConvNode average("GlobalAveragePool", "", 1), largest("GlobalMaxPool", "", 1), reduce("ReduceMean", "", 18);
      average.input(shape, x).output({2, 12, 1, 1}, layout);
      largest.input(shape, x).output({2, 12, 1, 1}, layout);
      reduce.input(shape, x).constant(std::vector<int64_t>{-1, 2}).output({2, 12, 1, 1}, layout);
      expect_close(average.run(threads)[0], mean, 1e-6);
      expect_close(largest.run(threads)[0], maximum, 0);
      expect_close(reduce.run(threads)[0], mean, 1e-6);
    }
  }
  ConvNode one_axis("ReduceMean", "", 18);
  one_axis.input(shape, x).constant(std::vector<int64_t>{2}).output({2, 12, 1, 41});
  EXPECT_EQ(one_axis.create().status().code(), StatusCode::kUnsupported);
}

TEST(ResizeNearest, CopiesTheNearestPixel) {
  std::mt19937 random(9);
  const Shape shape{2, 11, 5, 7};
  const auto x = uniform_floats(random, shape.element_count());
  struct Mode {
    const char *transform, *nearest;
    int64_t out_h, out_w;
    int64_t (*source)(int64_t out, int64_t in_size, int64_t out_size);
  };
  const Mode modes[] = {
      {"asymmetric", "floor", 10, 14, [](int64_t o, int64_t, int64_t) { return o / 2; }},
      {"asymmetric", "floor", 40, 56, [](int64_t o, int64_t, int64_t) { return o / 8; }},
      {"half_pixel", "round_prefer_floor", 15, 21, [](int64_t o, int64_t, int64_t) { return o / 3; }},
      {"asymmetric", "ceil", 10, 14,
       [](int64_t o, int64_t in, int64_t) { return std::min<int64_t>(in - 1, (o + 1) / 2); }},
  };
  for (const Mode& mode : modes) {
    std::vector<double> want;
    for (int64_t plane = 0; plane < 22; ++plane)
      for (int64_t i = 0; i < mode.out_h; ++i)
        for (int64_t j = 0; j < mode.out_w; ++j)
          want.push_back(
              x[static_cast<size_t>((plane * 5 + mode.source(i, 5, mode.out_h)) * 7 + mode.source(j, 7, mode.out_w))]);
    ConvNode node("Resize", "", 13);
    node.input(shape, x).absent().absent().constant(std::vector<int64_t>{2, 11, mode.out_h, mode.out_w});
    node.output({2, 11, mode.out_h, mode.out_w});
    node.node().set_string("mode", "nearest");
    node.node().set_string("coordinate_transformation_mode", mode.transform);
    node.node().set_string("nearest_mode", mode.nearest);
    for (int threads : {1, 2}) expect_close(node.run(threads)[0], want, 0);
  }
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

TEST(BlockedBinary, ServesEveryOperandKind) {
  std::mt19937 random(13);
  const Shape shape{2, 13, 6, 7};
  const auto a = uniform_floats(random, shape.element_count(), 1, 2),
             b = uniform_floats(random, shape.element_count(), 1, 2);
  const auto channels = uniform_floats(random, 13, 1, 2), images = uniform_floats(random, 26, 1, 2);
  const std::pair<const char*, double (*)(double, double)> operators[] = {{"Add", [](double p, double q) { return p + q; }},
                                                                          {"Sub", [](double p, double q) { return p - q; }},
                                                                          {"Mul", [](double p, double q) { return p * q; }},
                                                                          {"Div", [](double p, double q) { return p / q; }},
                                                                          {"Min", [](double p, double q) { return std::min(p, q); }},
                                                                          {"Max", [](double p, double q) { return std::max(p, q); }}};
  for (const auto& [name, apply] : operators) {
    for (int kind = 0; kind < 5; ++kind) {
      for (bool swapped : {false, true}) {
        std::vector<double> want;
        for (size_t i = 0; i < a.size(); ++i) {
          const size_t channel = i / 42 % 13, image = i / 42;
          const double q = kind == 0   ? b[i]
                           : kind == 1 ? channels[channel]
                           : kind == 2 ? images[image]
                           : kind == 3 ? channels[channel]
                                       : double{0.75f};
          want.push_back(swapped ? apply(q, a[i]) : apply(a[i], q));
        }
        ConvNode node(name, "", 14);
        auto other = [&] {
          if (kind == 0) node.input(shape, b);
          if (kind == 1) node.input({1, 13, 1, 1}, channels);
          if (kind == 2) node.input({2, 13, 1, 1}, images);
          if (kind == 3) node.constant({13, 1, 1}, channels);
          if (kind == 4) node.constant(Shape{}, {0.75f});
        };
        if (swapped) other();
        node.input(shape, a);
        if (!swapped) other();
        node.output(shape);
        for (int threads : {1, 2}) expect_close(node.run(threads)[0], want, 1e-6);
      }
    }
  }
}

TEST(BlockedActivation, MatchesDouble) {
  std::mt19937 random(17);
  const Shape shape{1, 11, 9, 10};
  const auto x = uniform_floats(random, shape.element_count(), -9, 9);
  for (const char* name : {"none", "relu", "clip", "leaky_relu", "sigmoid", "hardsigmoid", "hardswish", "silu", "gelu",
                           "gelu_tanh", "tanh"}) {
    std::vector<double> want;
    for (float value : x) want.push_back(activation_in_double(name, value, 0.25, 0.5));
    ConvNode node("Activation", "tenon", 1);
    node.input(shape, x).output(shape);
    node.node().set_string("activation", name);
    node.node().set_float("activation_alpha", 0.25f);
    node.node().set_float("activation_beta", 0.5f);
    for (int threads : {1, 2}) expect_close(node.run(threads)[0], want, 1e-6);
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
      to_blocked.input(shape, x, Layout::kPlain).output(shape, Layout::kBlocked8);
      to_plain.input(shape, x, Layout::kBlocked8).output(shape, Layout::kPlain);
      expect_close(to_blocked.run(threads)[0], want, 0);
      expect_close(to_plain.run(threads)[0], want, 0);
    }
  }
}

TEST(BlockedConcat, AndSplitAreInverse) {
  std::mt19937 random(23);
  const Shape whole{2, 29, 5, 6};
  const auto x = uniform_floats(random, whole.element_count());
  const int64_t sizes[] = {8, 16, 5};
  ConvNode split("Split", "", 13), concat("Concat", "", 13);
  split.input(whole, x).constant(std::vector<int64_t>{8, 16, 5});
  split.node().set_int("axis", 1);
  // Split takes its sizes as an input that a blocked kernel does not read.
  int64_t first = 0;
  std::vector<std::vector<double>> parts;
  for (int64_t size : sizes) {
    const Shape part{2, size, 5, 6};
    split.output(part);
    std::vector<float> values;
    for (int64_t n = 0; n < 2; ++n)
      for (int64_t i = 0; i < size * 30; ++i) values.push_back(x[static_cast<size_t>((n * 29 + first) * 30 + i)]);
    parts.emplace_back(values.begin(), values.end());
    concat.input(part, values);
    first += size;
  }
  concat.output(whole);
  concat.node().set_int("axis", -3);
  for (int threads : {1, 2}) {
    expect_close(concat.run(threads)[0], std::vector<double>(x.begin(), x.end()), 0);
    const auto got = split.run(threads);
    ASSERT_EQ(got.size(), 3u);
    for (size_t i = 0; i < 3; ++i) expect_close(got[i], parts[i], 0);
  }
  ConvNode uneven("Concat", "", 13);
  uneven.input({1, 5, 2, 2}, std::vector<float>(20)).input({1, 8, 2, 2}, std::vector<float>(32)).output({1, 13, 2, 2});
  uneven.node().set_int("axis", 1);
  EXPECT_EQ(uneven.create().status().code(), StatusCode::kUnsupported);
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

}  // namespace
}  // namespace tenon::cpu
