#include "ep/cpu/ops/blocked_testing.h"

namespace tenon::cpu {
namespace {

struct Case {
  std::string name;
  int64_t batch, channels, height, width, outputs, kernel, stride;
  int64_t pads[4] = {0, 0, 0, 0};
  int64_t extra = 0;  // output_padding
  std::string activation = "none";
  int residual = -1;
  Layout output = Layout::kBlocked8;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

class ConvTranspose : public testing::TestWithParam<Case> {};

TEST_P(ConvTranspose, MatchesPlainLoops) {
  const Case& c = GetParam();
  std::mt19937 random(11);
  const int64_t out_h = (c.height - 1) * c.stride + c.extra + c.kernel - c.pads[0] - c.pads[2];
  const int64_t out_w = (c.width - 1) * c.stride + c.extra + c.kernel - c.pads[1] - c.pads[3];
  const auto x = uniform_floats(random, c.batch * c.channels * c.height * c.width);
  const auto w = uniform_floats(random, c.channels * c.outputs * c.kernel * c.kernel);
  const auto bias = uniform_floats(random, c.outputs);
  const Shape shape{c.batch, c.outputs, out_h, out_w};
  const auto residual = uniform_floats(random, shape.element_count());

  std::vector<double> want(static_cast<size_t>(shape.element_count()));
  for (size_t i = 0; i < want.size(); ++i)
    want[i] = bias[i / static_cast<size_t>(out_h * out_w) % static_cast<size_t>(c.outputs)];
  for (int64_t n = 0; n < c.batch; ++n)
    for (int64_t k = 0; k < c.channels; ++k)
      for (int64_t i = 0; i < c.height; ++i)
        for (int64_t j = 0; j < c.width; ++j)
          for (int64_t o = 0; o < c.outputs; ++o)
            for (int64_t r = 0; r < c.kernel; ++r)
              for (int64_t s = 0; s < c.kernel; ++s) {
                const int64_t row = i * c.stride + r - c.pads[0], col = j * c.stride + s - c.pads[1];
                if (row < 0 || col < 0 || row >= out_h || col >= out_w) continue;
                want[static_cast<size_t>(((n * c.outputs + o) * out_h + row) * out_w + col)] +=
                    double{x[static_cast<size_t>(((n * c.channels + k) * c.height + i) * c.width + j)]} *
                    w[static_cast<size_t>(((k * c.outputs + o) * c.kernel + r) * c.kernel + s)];
              }
  for (size_t i = 0; i < want.size(); ++i) {
    const double add = c.residual < 0 ? 0 : residual[i];
    want[i] = c.residual == 1 ? activation_in_double(c.activation, want[i], 0, 0) + add
                              : activation_in_double(c.activation, want[i] + add, 0, 0);
  }

  ConvNode node("ConvTranspose", "tenon", 1);
  node.input({c.batch, c.channels, c.height, c.width}, x)
      .constant({c.channels, c.outputs, c.kernel, c.kernel}, w)
      .constant({c.outputs}, bias)
      .output(shape, c.output);
  if (c.residual >= 0) node.input(shape, residual);
  node.node().set_ints("strides", {c.stride, c.stride});
  node.node().set_ints("pads", {c.pads[0], c.pads[1], c.pads[2], c.pads[3]});
  node.node().set_ints("output_padding", {c.extra, c.extra});
  node.node().set_string("activation", c.activation);
  node.node().set_int("residual_after", std::max(0, c.residual));
  for (int threads : {1, 2}) {
    const auto got = node.run(threads);
    ASSERT_EQ(got.size(), 1u);
    expect_close(got[0], want, 2e-6);
  }
}

// auto_pad VALID means no padding, whatever `pads` says.
TEST(ConvTransposeAutoPad, ValidIgnoresPads) {
  std::mt19937 random(11);
  const auto x = uniform_floats(random, 8 * 4 * 4), w = uniform_floats(random, 8 * 8 * 3 * 3);
  std::vector<std::vector<float>> got;
  for (const int64_t pad : {0, 1}) {
    ConvNode node("ConvTranspose", "", 11);
    node.input({1, 8, 4, 4}, x).constant({8, 8, 3, 3}, w).output({1, 8, 6, 6});
    node.node().set_ints("pads", {pad, pad, pad, pad});
    node.node().set_string("auto_pad", "VALID");
    got.push_back(node.run(1).at(0));
  }
  EXPECT_EQ(got[0], got[1]);
}

INSTANTIATE_TEST_SUITE_P(
    , ConvTranspose,
    testing::Values(Case{"k2s2", 2, 24, 9, 13, 24, 2, 2, {}, 0, "relu"},
                    Case{"k2s2_to_plain", 1, 24, 9, 13, 1, 2, 2, {}, 0, "sigmoid", -1, Layout::kPlain},
                    Case{"k2s2_two_outputs_to_plain", 2, 19, 5, 7, 2, 2, 2, {}, 0, "none", -1, Layout::kPlain},
                    Case{"k1_to_plain", 1, 9, 5, 7, 3, 1, 1, {}, 0, "relu", -1, Layout::kPlain},
                    Case{"overlapping", 1, 10, 7, 6, 17, 4, 2, {1, 1, 1, 1}, 0, "sigmoid", 1},
                    Case{"k3s2_extra", 1, 16, 7, 9, 16, 3, 2, {1, 1, 1, 1}, 1, "silu", 0},
                    Case{"k3s1", 1, 8, 6, 5, 8, 3, 1, {1, 0, 1, 2}, 0, "none"},
                    Case{"stride_beyond_kernel", 1, 8, 5, 4, 12, 2, 3, {}, 0, "relu"},
                    Case{"large_pads", 1, 8, 6, 6, 8, 3, 2, {2, 2, 1, 1}, 0, "none"}),
    testing::PrintToStringParamName());

}  // namespace
}  // namespace tenon::cpu
