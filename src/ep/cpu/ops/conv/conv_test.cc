// How kernels of convolutions are chosen. Their results are tests/problems/conv.txt.
#include "ep/cpu/ops/blocked_testing.h"

namespace tenon::cpu {
namespace {

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

// Winograd's blocks of tiles depend on the number of threads, and so do direct kernels' ranges: the results do not.
TEST(ConvThreads, GiveTheSameBits) {
  std::mt19937 random(3);
  struct Case {
    int64_t batch, channels, outputs, height, width, stride;
  };
  for (const Case& q : {Case{1, 16, 16, 40, 44, 1}, Case{2, 24, 40, 21, 19, 1}, Case{1, 160, 136, 18, 17, 1},
                        Case{1, 40, 72, 21, 20, 2}, Case{1, 72, 200, 10, 11, 1}, Case{2, 264, 72, 7, 9, 1}}) {
    ConvNode node("Conv", "", 11);
    const int64_t height = (q.height - 1) / q.stride + 1, width = (q.width - 1) / q.stride + 1;
    const auto values = [&](int64_t count) { return uniform_floats(random, count); };
    node.input({q.batch, q.channels, q.height, q.width}, values(q.batch * q.channels * q.height * q.width));
    node.constant({q.outputs, q.channels, 3, 3}, values(q.outputs * q.channels * 9));
    node.constant({q.outputs}, values(q.outputs)).output({q.batch, q.outputs, height, width});
    node.node().set_ints("pads", {1, 1, 1, 1});
    node.node().set_ints("strides", {q.stride, q.stride});
    const auto alone = node.run(1);
    for (const int threads : {2, 5, 16}) EXPECT_EQ(node.run(threads), alone) << threads << " threads";
  }
}

// Products with subnormal numbers are slow: constant weights and biases have none left.
TEST(ConvWeights, SubnormalValuesAreZero) {
  for (const int64_t group : {1, 16}) {
    ConvNode node("Conv", "", 11);
    node.input({1, 16, 6, 6}, std::vector<float>(576, 1e3f));
    node.constant({16, 16 / group, 3, 3}, std::vector<float>(144 * 16 / group, 1e-39f));
    node.constant({16}, std::vector<float>(16, 1e-40f)).output({1, 16, 4, 4});
    node.node().set_int("group", group);
    const std::vector<float> got = node.run(1).at(0);
    for (const float value : got) ASSERT_EQ(value, 0.0f);
  }
}

// Winograd takes several times the weight's memory: few tiles do not pay for what no cache holds.
TEST(ConvMatch, FewTilesOfALineKeepFarWeightsPlain) {
  struct Case {
    int64_t channels, width;
    bool winograd;
  };
  for (const Case& q : {Case{64, 120, true}, Case{384, 120, false}, Case{384, 400, true}}) {
    ConvNode node("Conv", "", 11);
    node.input({1, q.channels, q.width}, std::vector<float>(q.channels * q.width));
    node.constant({q.channels, q.channels, 3}, std::vector<float>(q.channels * q.channels * 3));
    node.output({1, q.channels, q.width}).node().set_ints("pads", {1, 1});
    EXPECT_EQ(node.create().value()->name() == "conv_line_winograd", q.winograd) << q.channels << " x " << q.width;
  }
}

// Small maps pay neither for the transforms nor for weights that take longer to arrive than the products.
TEST(ConvMatch, SmallMapsAndFewChannelsTakeNoTiles) {
  struct Case {
    int64_t channels, side;
    bool winograd;
  };
  for (const Case& q :
       {Case{128, 5, false}, Case{128, 10, true}, Case{128, 28, true}, Case{16, 9, false}, Case{16, 56, true}}) {
    ConvNode node("Conv", "", 11);
    node.input({1, q.channels, q.side, q.side}, std::vector<float>(q.channels * q.side * q.side));
    node.constant({q.channels, q.channels, 3, 3}, std::vector<float>(q.channels * q.channels * 9));
    node.output({1, q.channels, q.side, q.side}).node().set_ints("pads", {1, 1, 1, 1});
    EXPECT_EQ(node.create().value()->name() == "conv3x3_winograd", q.winograd) << q.channels << ", side " << q.side;
  }
}

TEST(ConvMatch, RefusesWhatItCannotDo) {
  std::mt19937 random(1);
  ConvNode axes("Conv", "", 11);  // four spatial dimensions
  axes.input({1, 8, 2, 2, 3, 3}, uniform_floats(random, 288)).constant({8, 8, 1, 1, 1, 1}, uniform_floats(random, 64));
  axes.output({1, 8, 2, 2, 3, 3});
  EXPECT_EQ(axes.create().status().code(), StatusCode::kUnsupported);

  ConvNode groups("Conv", "", 11);  // groups of 3 channels are no whole blocks, nor are four of them
  groups.input({1, 6, 3, 3}, uniform_floats(random, 54)).constant({6, 3, 1, 1}, uniform_floats(random, 18));
  groups.output({1, 6, 3, 3});
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
