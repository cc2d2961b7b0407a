// Convolutions against plain loops in double: random shapes, pads, strides, groups, epilogues and thread counts.
#include "ep/cpu/ops/blocked_testing.h"

namespace tenon::cpu {
namespace {

struct Case {
  std::string name;
  int64_t batch, channels, height, width, outputs;
  int64_t kernel_h, kernel_w, stride = 1, dilation = 1;
  int64_t pads[4] = {0, 0, 0, 0};
  int64_t group = 1;
  std::string activation = "none";
  double alpha = 0, beta = 0;
  int residual = -1;  // -1: none, else residual_after
  Layout input = Layout::kBlocked8;
  std::string kernel = "";  // expected, if given
  bool winograd = true;
  double tolerance = 2e-6;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

class Conv : public testing::TestWithParam<Case> {};

TEST_P(Conv, MatchesPlainLoops) {
  const Case& c = GetParam();
  std::mt19937 random(static_cast<unsigned>(c.channels * 131 + c.width));
  const int64_t out_h = (c.height + c.pads[0] + c.pads[2] - (c.kernel_h - 1) * c.dilation - 1) / c.stride + 1;
  const int64_t out_w = (c.width + c.pads[1] + c.pads[3] - (c.kernel_w - 1) * c.dilation - 1) / c.stride + 1;
  const int64_t group_in = c.channels / c.group, group_out = c.outputs / c.group;
  const auto x = uniform_floats(random, c.batch * c.channels * c.height * c.width);
  const auto w = uniform_floats(random, c.outputs * group_in * c.kernel_h * c.kernel_w);
  const auto bias = uniform_floats(random, c.outputs);
  const auto residual = uniform_floats(random, c.batch * c.outputs * out_h * out_w);

  std::vector<double> want;
  for (int64_t n = 0; n < c.batch; ++n)
    for (int64_t o = 0; o < c.outputs; ++o)
      for (int64_t i = 0; i < out_h; ++i)
        for (int64_t j = 0; j < out_w; ++j) {
          double z = bias[static_cast<size_t>(o)];
          for (int64_t k = 0; k < group_in; ++k)
            for (int64_t r = 0; r < c.kernel_h; ++r)
              for (int64_t s = 0; s < c.kernel_w; ++s) {
                const int64_t row = i * c.stride - c.pads[0] + r * c.dilation;
                const int64_t col = j * c.stride - c.pads[1] + s * c.dilation;
                if (row < 0 || col < 0 || row >= c.height || col >= c.width) continue;
                const int64_t channel = o / group_out * group_in + k;
                z += double{x[static_cast<size_t>(((n * c.channels + channel) * c.height + row) * c.width + col)]} *
                     w[static_cast<size_t>(((o * group_in + k) * c.kernel_h + r) * c.kernel_w + s)];
              }
          const double add = c.residual < 0 ? 0 : residual[want.size()];
          want.push_back(c.residual == 1 ? activation_in_double(c.activation, z, c.alpha, c.beta) + add
                                         : activation_in_double(c.activation, z + add, c.alpha, c.beta));
        }

  const Shape y_shape{c.batch, c.outputs, out_h, out_w};
  // The bias and the residual are constants, or known at run time only.
  auto describe = [&](ConvNode& node, bool constant_bias, bool constant_residual) {
    node.input({c.batch, c.channels, c.height, c.width}, x, c.input)
        .constant({c.outputs, group_in, c.kernel_h, c.kernel_w}, w);
    constant_bias ? node.constant({c.outputs}, bias) : node.input({c.outputs}, bias, Layout::kPlain);
    node.output(y_shape).winograd(c.winograd);
    if (c.residual >= 0) constant_residual ? node.constant(y_shape, residual) : node.input(y_shape, residual);
    node.node().set_ints("strides", {c.stride, c.stride});
    node.node().set_ints("dilations", {c.dilation, c.dilation});
    node.node().set_ints("pads", {c.pads[0], c.pads[1], c.pads[2], c.pads[3]});
    node.node().set_int("group", c.group);
    node.node().set_string("activation", c.activation);
    node.node().set_float("activation_alpha", static_cast<float>(c.alpha));
    node.node().set_float("activation_beta", static_cast<float>(c.beta));
    node.node().set_int("residual_after", std::max(0, c.residual));
  };
  ConvNode node("Conv", "tenon", 1);
  describe(node, true, false);
  for (int threads : {1, 2, 3}) {
    std::string name;
    const auto got = node.run(threads, &name);
    EXPECT_TRUE(c.kernel.empty() || name == c.kernel) << name;
    ASSERT_EQ(got.size(), 1u);
    expect_close(got[0], want, c.tolerance);
  }
  auto kernel = node.create();
  ASSERT_TRUE(kernel.ok());
  if (c.residual >= 0 && kernel.value()->may_run_in_place(3, 0))
    expect_close(node.run(2, nullptr, true)[0], want, c.tolerance);
  for (auto [constant_bias, constant_residual] : {std::pair{false, false}, {true, true}, {false, true}}) {
    if (c.residual < 0 && constant_residual) continue;
    ConvNode other("Conv", "tenon", 1);
    describe(other, constant_bias, constant_residual);
    std::string name;
    const auto got = other.run(2, &name);
    EXPECT_TRUE(c.kernel.empty() || name == c.kernel) << name;
    ASSERT_EQ(got.size(), 1u);
    expect_close(got[0], want, c.tolerance);
    const auto made = other.create();
    ASSERT_TRUE(made.ok());
    EXPECT_FALSE(constant_residual && made.value()->may_run_in_place(3, 0)) << "a constant's memory would change";
  }
}

INSTANTIATE_TEST_SUITE_P(Direct, Conv,
                         testing::Values(Case{.name = "point",
                                              .batch = 2,
                                              .channels = 24,
                                              .height = 7,
                                              .width = 9,
                                              .outputs = 48,
                                              .kernel_h = 1,
                                              .kernel_w = 1,
                                              .activation = "relu",
                                              .kernel = "conv1x1"},
                                         Case{.name = "point_tails",
                                              .batch = 1,
                                              .channels = 13,
                                              .height = 5,
                                              .width = 11,
                                              .outputs = 27,
                                              .kernel_h = 1,
                                              .kernel_w = 1,
                                              .activation = "sigmoid"},
                                         Case{.name = "point_many_channels",
                                              .batch = 1,
                                              .channels = 700,
                                              .height = 9,
                                              .width = 8,
                                              .outputs = 40,
                                              .kernel_h = 1,
                                              .kernel_w = 1,
                                              .activation = "gelu",
                                              .residual = 1},
                                         Case{.name = "point_residual_before",
                                              .batch = 1,
                                              .channels = 520,
                                              .height = 9,
                                              .width = 8,
                                              .outputs = 24,
                                              .kernel_h = 1,
                                              .kernel_w = 1,
                                              .activation = "relu",
                                              .residual = 0},
                                         Case{.name = "point_one_pixel",
                                              .batch = 3,
                                              .channels = 96,
                                              .height = 1,
                                              .width = 1,
                                              .outputs = 20,
                                              .kernel_h = 1,
                                              .kernel_w = 1,
                                              .activation = "hardsigmoid",
                                              .alpha = 0.2,
                                              .beta = 0.5},
                                         Case{.name = "point_strided",
                                              .batch = 1,
                                              .channels = 16,
                                              .height = 9,
                                              .width = 13,
                                              .outputs = 16,
                                              .kernel_h = 1,
                                              .kernel_w = 1,
                                              .stride = 2},
                                         Case{.name = "k2_same_upper",
                                              .batch = 1,
                                              .channels = 24,
                                              .height = 10,
                                              .width = 14,
                                              .outputs = 12,
                                              .kernel_h = 2,
                                              .kernel_w = 2,
                                              .pads = {0, 0, 1, 1},
                                              .activation = "relu"},
                                         Case{.name = "k2_12_channels",
                                              .batch = 1,
                                              .channels = 12,
                                              .height = 10,
                                              .width = 14,
                                              .outputs = 24,
                                              .kernel_h = 2,
                                              .kernel_w = 2,
                                              .pads = {0, 0, 1, 1},
                                              .activation = "relu"},
                                         Case{.name = "k3_stride2",
                                              .batch = 2,
                                              .channels = 48,
                                              .height = 20,
                                              .width = 26,
                                              .outputs = 24,
                                              .kernel_h = 3,
                                              .kernel_w = 3,
                                              .stride = 2,
                                              .pads = {1, 1, 1, 1},
                                              .activation = "silu"},
                                         Case{.name = "k3_stride3_uneven_pads",
                                              .batch = 1,
                                              .channels = 10,
                                              .height = 17,
                                              .width = 19,
                                              .outputs = 9,
                                              .kernel_h = 3,
                                              .kernel_w = 3,
                                              .stride = 3,
                                              .pads = {2, 0, 1, 2},
                                              .activation = "clip",
                                              .alpha = 0.25,
                                              .beta = 1.5},
                                         Case{.name = "k3_dilated",
                                              .batch = 1,
                                              .channels = 16,
                                              .height = 15,
                                              .width = 13,
                                              .outputs = 32,
                                              .kernel_h = 3,
                                              .kernel_w = 3,
                                              .dilation = 2,
                                              .pads = {2, 2, 2, 2},
                                              .activation = "leaky_relu",
                                              .alpha = 0.1},
                                         Case{.name = "k3_without_winograd",
                                              .batch = 1,
                                              .channels = 64,
                                              .height = 14,
                                              .width = 15,
                                              .outputs = 40,
                                              .kernel_h = 3,
                                              .kernel_w = 3,
                                              .pads = {1, 1, 1, 1},
                                              .activation = "hardswish",
                                              .alpha = 1.0 / 6,
                                              .beta = 0.5,
                                              .residual = 1,
                                              .kernel = "conv3x3",
                                              .winograd = false},
                                         Case{.name = "k5_window_larger_than_map",
                                              .batch = 1,
                                              .channels = 8,
                                              .height = 3,
                                              .width = 2,
                                              .outputs = 16,
                                              .kernel_h = 5,
                                              .kernel_w = 5,
                                              .pads = {2, 2, 2, 2}},
                                         Case{.name = "k1x7",
                                              .batch = 1,
                                              .channels = 9,
                                              .height = 6,
                                              .width = 20,
                                              .outputs = 17,
                                              .kernel_h = 1,
                                              .kernel_w = 7,
                                              .pads = {0, 3, 0, 3},
                                              .activation = "tanh"},
                                         Case{.name = "column",
                                              .batch = 1,
                                              .channels = 40,
                                              .height = 61,
                                              .width = 1,
                                              .outputs = 56,
                                              .kernel_h = 5,
                                              .kernel_w = 1,
                                              .activation = "gelu_tanh",
                                              .winograd = false},
                                         Case{.name = "groups",
                                              .batch = 2,
                                              .channels = 32,
                                              .height = 9,
                                              .width = 10,
                                              .outputs = 48,
                                              .kernel_h = 3,
                                              .kernel_w = 3,
                                              .pads = {1, 1, 1, 1},
                                              .group = 2,
                                              .activation = "relu",
                                              .residual = 0},
                                         Case{.name = "stem",
                                              .batch = 2,
                                              .channels = 3,
                                              .height = 23,
                                              .width = 31,
                                              .outputs = 24,
                                              .kernel_h = 3,
                                              .kernel_w = 3,
                                              .stride = 2,
                                              .pads = {1, 1, 1, 1},
                                              .activation = "relu",
                                              .input = Layout::kPlain,
                                              .kernel = "conv3x3_plain"},
                                         Case{.name = "stem_7x7",
                                              .batch = 1,
                                              .channels = 3,
                                              .height = 30,
                                              .width = 33,
                                              .outputs = 30,
                                              .kernel_h = 7,
                                              .kernel_w = 7,
                                              .stride = 2,
                                              .pads = {3, 3, 3, 3},
                                              .activation = "sigmoid",
                                              .input = Layout::kPlain},
                                         Case{.name = "plain_point",
                                              .batch = 1,
                                              .channels = 16,
                                              .height = 4,
                                              .width = 50,
                                              .outputs = 1,
                                              .kernel_h = 1,
                                              .kernel_w = 1,
                                              .input = Layout::kPlain}),
                         testing::PrintToStringParamName());

INSTANTIATE_TEST_SUITE_P(Depthwise, Conv,
                         testing::Values(Case{.name = "dw3",
                                              .batch = 2,
                                              .channels = 20,
                                              .height = 19,
                                              .width = 33,
                                              .outputs = 20,
                                              .kernel_h = 3,
                                              .kernel_w = 3,
                                              .pads = {1, 1, 1, 1},
                                              .group = 20,
                                              .activation = "relu",
                                              .kernel = "conv3x3_depthwise"},
                                         Case{.name = "dw3_stride2",
                                              .batch = 1,
                                              .channels = 16,
                                              .height = 22,
                                              .width = 40,
                                              .outputs = 16,
                                              .kernel_h = 3,
                                              .kernel_w = 3,
                                              .stride = 2,
                                              .pads = {1, 1, 1, 1},
                                              .group = 16,
                                              .activation = "hardswish",
                                              .alpha = 1.0 / 6,
                                              .beta = 0.5},
                                         Case{.name = "dw5",
                                              .batch = 1,
                                              .channels = 24,
                                              .height = 15,
                                              .width = 17,
                                              .outputs = 24,
                                              .kernel_h = 5,
                                              .kernel_w = 5,
                                              .pads = {2, 2, 2, 2},
                                              .group = 24,
                                              .activation = "sigmoid",
                                              .residual = 1},
                                         Case{.name = "dw7",
                                              .batch = 1,
                                              .channels = 12,
                                              .height = 23,
                                              .width = 30,
                                              .outputs = 12,
                                              .kernel_h = 7,
                                              .kernel_w = 7,
                                              .pads = {3, 3, 3, 3},
                                              .group = 12,
                                              .activation = "sigmoid",
                                              .residual = 0},
                                         Case{.name = "dw3_dilated",
                                              .batch = 1,
                                              .channels = 8,
                                              .height = 15,
                                              .width = 18,
                                              .outputs = 8,
                                              .kernel_h = 3,
                                              .kernel_w = 3,
                                              .dilation = 3,
                                              .pads = {3, 3, 3, 3},
                                              .group = 8,
                                              .residual = 1},
                                         Case{.name = "dw1x31",
                                              .batch = 1,
                                              .channels = 9,
                                              .height = 1,
                                              .width = 70,
                                              .outputs = 9,
                                              .kernel_h = 1,
                                              .kernel_w = 31,
                                              .pads = {0, 15, 0, 15},
                                              .group = 9,
                                              .activation = "clip",
                                              .alpha = 0.1,
                                              .beta = 1}),
                         testing::PrintToStringParamName());

INSTANTIATE_TEST_SUITE_P(Winograd, Conv,
                         testing::Values(Case{.name = "even",
                                              .batch = 1,
                                              .channels = 32,
                                              .height = 16,
                                              .width = 24,
                                              .outputs = 32,
                                              .kernel_h = 3,
                                              .kernel_w = 3,
                                              .pads = {1, 1, 1, 1},
                                              .activation = "relu",
                                              .kernel = "conv3x3_winograd",
                                              .tolerance = 2e-5},
                                         Case{.name = "uneven",
                                              .batch = 2,
                                              .channels = 27,
                                              .height = 13,
                                              .width = 19,
                                              .outputs = 21,
                                              .kernel_h = 3,
                                              .kernel_w = 3,
                                              .pads = {1, 1, 1, 1},
                                              .activation = "sigmoid",
                                              .residual = 1,
                                              .kernel = "conv3x3_winograd",
                                              .tolerance = 2e-5},
                                         Case{.name = "no_pads",
                                              .batch = 1,
                                              .channels = 16,
                                              .height = 26,
                                              .width = 14,
                                              .outputs = 24,
                                              .kernel_h = 3,
                                              .kernel_w = 3,
                                              .activation = "silu",
                                              .residual = 0,
                                              .kernel = "conv3x3_winograd",
                                              .tolerance = 2e-5},
                                         Case{.name = "wide_pads",
                                              .batch = 1,
                                              .channels = 24,
                                              .height = 14,
                                              .width = 15,
                                              .outputs = 96,
                                              .kernel_h = 3,
                                              .kernel_w = 3,
                                              .pads = {2, 1, 1, 2},
                                              .kernel = "conv3x3_winograd",
                                              .tolerance = 2e-5},
                                         Case{.name = "many_blocks",
                                              .batch = 1,
                                              .channels = 64,
                                              .height = 45,
                                              .width = 50,
                                              .outputs = 48,
                                              .kernel_h = 3,
                                              .kernel_w = 3,
                                              .pads = {1, 1, 1, 1},
                                              .activation = "gelu",
                                              .kernel = "conv3x3_winograd",
                                              .tolerance = 2e-5},
                                         Case{.name = "column_of_5",
                                              .batch = 1,
                                              .channels = 40,
                                              .height = 61,
                                              .width = 1,
                                              .outputs = 56,
                                              .kernel_h = 5,
                                              .kernel_w = 1,
                                              .activation = "gelu_tanh",
                                              .kernel = "conv_line_winograd",
                                              .tolerance = 2e-5},
                                         Case{.name = "line_of_3",
                                              .batch = 2,
                                              .channels = 27,
                                              .height = 1,
                                              .width = 75,
                                              .outputs = 21,
                                              .kernel_h = 1,
                                              .kernel_w = 3,
                                              .pads = {0, 1, 0, 1},
                                              .activation = "sigmoid",
                                              .residual = 1,
                                              .kernel = "conv_line_winograd",
                                              .tolerance = 2e-5},
                                         Case{.name = "line_of_4_many_channels",
                                              .batch = 1,
                                              .channels = 300,
                                              .height = 1,
                                              .width = 1000,
                                              .outputs = 40,
                                              .kernel_h = 1,
                                              .kernel_w = 4,
                                              .pads = {0, 3, 0, 2},
                                              .activation = "clip",
                                              .alpha = -20,
                                              .beta = 30,
                                              .residual = 0,
                                              .kernel = "conv_line_winograd",
                                              .tolerance = 2e-5},
                                         Case{.name = "many_channels",
                                              .batch = 1,
                                              .channels = 130,
                                              .height = 14,
                                              .width = 15,
                                              .outputs = 136,
                                              .kernel_h = 3,
                                              .kernel_w = 3,
                                              .pads = {1, 1, 1, 1},
                                              .activation = "clip",
                                              .alpha = -20,
                                              .beta = 30,
                                              .residual = 1,
                                              .kernel = "conv3x3_winograd",
                                              .tolerance = 2e-5}),
                         testing::PrintToStringParamName());

// A convolution of one dimension lies along a row; SAME pads come from the output's size.
TEST(ConvOneDimension, MatchesPlainLoops) {
  std::mt19937 random(7);
  const auto x = uniform_floats(random, 2 * 10 * 40), w = uniform_floats(random, 18 * 10 * 4);
  std::vector<double> want;
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t o = 0; o < 18; ++o)
      for (int64_t i = 0; i < 20; ++i) {
        double z = 0;
        for (int64_t c = 0; c < 10; ++c)
          for (int64_t k = 0; k < 4; ++k) {
            const int64_t at = i * 2 - 1 + k;
            if (at >= 0 && at < 40)
              z +=
                  double{x[static_cast<size_t>((n * 10 + c) * 40 + at)]} * w[static_cast<size_t>((o * 10 + c) * 4 + k)];
          }
        want.push_back(z);
      }
  ConvNode node("Conv", "", 11);
  node.input({2, 10, 40}, x).constant({18, 10, 4}, w).output({2, 18, 20});
  node.node().set_ints("strides", {2});
  node.node().set_string("auto_pad", "SAME_UPPER");
  for (int threads : {1, 2}) expect_close(node.run(threads)[0], want, 2e-6);
}

// ONNX Runtime takes an empty auto_pad for NOTSET: the pads count.
TEST(ConvAutoPad, AnEmptyTextLeavesThePads) {
  std::mt19937 random(7);
  const auto x = uniform_floats(random, 8 * 5), w = uniform_floats(random, 8 * 8 * 3);
  std::vector<std::vector<float>> got;
  for (const char* auto_pad : {"NOTSET", ""}) {
    ConvNode node("Conv", "", 11);
    node.input({1, 8, 5}, x).constant({8, 8, 3}, w).output({1, 8, 5});
    node.node().set_ints("pads", {2, 0});
    node.node().set_string("auto_pad", auto_pad);
    got.push_back(node.run(1).at(0));
  }
  EXPECT_EQ(got[0], got[1]);
}

TEST(ConvMatch, RefusesWhatItCannotDo) {
  std::mt19937 random(1);
  ConvNode cube("Conv", "", 11);
  cube.input({1, 8, 3, 3, 3}, uniform_floats(random, 216)).constant({8, 8, 1, 1, 1}, uniform_floats(random, 64));
  cube.output({1, 8, 3, 3, 3});
  EXPECT_EQ(cube.create().status().code(), StatusCode::kUnsupported);

  ConvNode groups("Conv", "", 11);  // groups of 4 channels are no whole blocks
  groups.input({1, 8, 3, 3}, uniform_floats(random, 72)).constant({8, 4, 1, 1}, uniform_floats(random, 32));
  groups.output({1, 8, 3, 3});
  groups.node().set_int("group", 2);
  EXPECT_EQ(groups.create().status().code(), StatusCode::kUnsupported);

  ConvNode strides("Conv", "", 11);  // beyond what the kernels count
  strides.input({1, 8, 3, 3}, uniform_floats(random, 72)).constant({8, 8, 1, 1}, uniform_floats(random, 64));
  strides.output({1, 8, 1, 1});
  strides.node().set_ints("strides", {5000, 5000});
  EXPECT_EQ(strides.create().status().code(), StatusCode::kUnsupported);

  ConvNode variable("Conv", "", 11);
  variable.input({1, 8, 3, 3}, uniform_floats(random, 72));
  variable.input({8, 8, 1, 1}, uniform_floats(random, 64), Layout::kPlain).output({1, 8, 3, 3});
  EXPECT_EQ(variable.create().status().code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace tenon::cpu
