// Which kernels an instance or group normalisation of an image becomes; needs no device.
#include "ep/cuda/ops/norm/channels_last.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ep/cuda/compute/device_op.h"
#include "ep/cuda/compute/region.h"
#include "plan/testing.h"

namespace tenon::cuda {
namespace {

using ::testing::HasSubstr;

// The operators of a graph whose inputs have these shapes.
class Network {
 public:
  ValueId input(const std::string& name, const Shape& shape, bool fixed = true) {
    std::vector<Dim> dims;
    for (int64_t size : shape) dims.push_back({size, {}});
    if (!fixed) dims[0] = {-1, "images"};
    shapes_.push_back(shape);
    return builder_.input(name, std::move(dims), DataType::kFloat);
  }
  ValueId numbers(const Shape& shape, float value) {
    std::byte* data = nullptr;
    ConstantRef constant = *make_constant(DataType::kFloat, shape, &data);
    store_floats(std::vector<float>(shape.element_count(), value), DataType::kFloat, data);
    return builder_.graph.add_constant(next("c"), std::move(constant));
  }
  ValueId integers(std::vector<int64_t> values) {
    return builder_.graph.add_constant(next("i"), make_int64_constant(values));
  }
  ValueId node(const std::string& op, std::vector<ValueId> inputs, DataType type = DataType::kFloat) {
    return builder_.node(op, std::move(inputs), next("v"), type);
  }
  ValueId conv(ValueId x, int64_t channels, int64_t outputs) {
    const ValueId y = node("Conv", {x, numbers({outputs, channels, 3, 3}, 0.5F)});
    last().set_ints("pads", {1, 1, 1, 1});
    return y;
  }
  ValueId group_norm(ValueId x, int64_t channels, int64_t groups) {
    const ValueId y = node("GroupNormalization", {x, numbers({channels}, 2), numbers({channels}, 1)});
    last().set_int("num_groups", groups);
    last().since_version = 21;
    return y;
  }
  ValueId transpose(ValueId x, std::vector<int64_t> perm) {
    const ValueId y = node("Transpose", {x});
    last().set_ints("perm", std::move(perm));
    return y;
  }
  Node& last() { return builder_.last(); }
  plan_testing::GraphBuilder& builder() { return builder_; }

  std::vector<std::string> ops(ValueId output) {
    builder_.output(output);
    Result<Region> region = Region::prepare(std::move(builder_.graph));
    EXPECT_TRUE(region.ok()) << region.status().to_string();
    const Result<Program> program = region->lower_at(shapes_, true);
    EXPECT_TRUE(program.ok()) << program.status().to_string();
    std::vector<std::string> words;
    if (program.ok())
      for (const auto& op : program->ops) {
        const std::string text = op->description(*program);
        words.push_back(text.substr(0, text.find(" float32")));
      }
    return words;
  }

 private:
  std::string next(const char* what) { return what + std::to_string(count_++); }
  plan_testing::GraphBuilder builder_;
  std::vector<Shape> shapes_;
  int count_ = 0;
};

using Ops = std::vector<std::string>;

TEST(LowerImageNorm, StaysAmongConvolutionsWithChannelsLast) {
  Network net;
  const ValueId x = net.conv(net.input("x", {1, 16, 16, 16}), 16, 32);
  const ValueId y = net.conv(net.node("Relu", {net.group_norm(x, 32, 8)}), 32, 16);
  EXPECT_EQ(net.ops(y), (Ops{"reorder", "conv", "image_norm relu", "conv", "reorder"}));
}

// A block cannot keep a slice of so many pixels.
TEST(LowerImageNorm, LargeImagesTakeTheMomentsOfChunksFirst) {
  Network net;
  const ValueId x = net.conv(net.input("x", {1, 16, 128, 128}), 16, 32);
  const ValueId norm = net.node("InstanceNormalization", {x, net.numbers({32}, 2), net.numbers({32}, 1)});
  const ValueId y = net.conv(net.node("Relu", {norm}), 32, 16);
  EXPECT_EQ(net.ops(y), (Ops{"reorder", "conv", "image_moments", "image_norm relu", "conv", "reorder"}));
}

TEST(LowerImageNorm, ASumOfEachChannelAndAShortcutAreTakenIn) {
  Network net;
  const ValueId image = net.input("x", {2, 16, 16, 16}), time = net.input("t", {2, 32, 1, 1});
  const ValueId x = net.conv(image, 16, 32), shortcut = net.node("Sigmoid", {net.conv(image, 16, 32)});
  const ValueId norm = net.group_norm(net.node("Add", {x, time}), 32, 8);
  // A convolution reads the shortcut too, so that it is no step of the chain.
  const ValueId sum = net.node("Relu", {net.node("Add", {norm, shortcut})});
  const ValueId y = net.node("Add", {net.conv(sum, 32, 32), net.conv(shortcut, 32, 32)});
  EXPECT_EQ(net.ops(y), (Ops{"reorder", "conv", "conv", "image_norm Add relu", "conv", "conv", "reorder"}));
}

// What is not lowered with the norm is lowered after it.
TEST(LowerImageNorm, PlainImagesKeepTheirKernels) {
  Network net;
  const ValueId image = net.input("x", {2, 16, 16, 16}), time = net.input("t", {2, 16, 1, 1});
  const ValueId norm = net.group_norm(net.node("Add", {image, time}), 16, 4);
  EXPECT_EQ(net.ops(net.node("Sigmoid", {norm})), (Ops{"Add", "normalise", "sigmoid"}));
}

// As exporters write one without the operator: groups are the channels of a reshaped image, whose shape is a constant
// or read from the image.
TEST(LowerImageNorm, ReshapesAroundAnInstanceNormAreAGroupNorm) {
  for (bool fixed : {true, false}) {
    Network net;
    const ValueId x = net.conv(net.input("x", {1, 16, 16, 16}, fixed), 16, 32);
    const ValueId flat = net.node("Reshape", {x, net.integers({0, 8, -1})});
    const ValueId norm = net.node("InstanceNormalization", {flat, net.numbers({8}, 1), net.numbers({8}, 0)});
    const ValueId shape = fixed ? net.integers({1, 32, 16, 16}) : net.node("Shape", {x}, DataType::kInt64);
    const ValueId back = net.node("Reshape", {norm, shape});
    const ValueId scaled = net.node("Mul", {back, net.numbers({32, 1, 1}, 3)});
    const ValueId y = net.conv(net.node("Relu", {net.node("Add", {scaled, net.numbers({32, 1, 1}, 1)})}), 32, 16);
    EXPECT_EQ(net.ops(y), (Ops{"reorder", "conv", "image_norm relu", "conv", "reorder"}));
  }
}

// Pixels as rows, as attention wants them, are channels last by another name.
TEST(LowerImageNorm, RowsOfPixelsAreViews) {
  Network net;
  const ValueId x = net.conv(net.input("x", {1, 16, 16, 16}), 16, 32);
  const ValueId flat = net.node("Reshape", {x, net.integers({1, 32, 256})});
  const ValueId rows = net.node("Softmax", {net.transpose(flat, {0, 2, 1})});
  const ValueId image = net.node("Reshape", {net.transpose(rows, {0, 2, 1}), net.integers({1, 32, 16, 16})});
  const Ops ops = net.ops(net.conv(image, 32, 16));
  ASSERT_EQ(ops.size(), 5U) << ::testing::PrintToString(ops);
  EXPECT_THAT(ops[2], HasSubstr("softmax"));
  EXPECT_EQ(ops[4], "reorder");
}

// Others would read a transposed tensor through a kernel of their own.
TEST(LowerImageNorm, ATransposeForOthersIsAKernel) {
  Network net;
  const ValueId rows = net.node("Softmax", {net.input("x", {1, 64, 32})});
  const ValueId turned = net.transpose(rows, {0, 2, 1});
  EXPECT_EQ(net.ops(net.node("Softmax", {turned})).size(), 3U);
}

// Chains read a half where it lies.
TEST(LowerImageNorm, HalvesOfAGateAreNotCopied) {
  Network net;
  const ValueId x = net.node("Softmax", {net.input("x", {8, 64})});
  const ValueId half = net.node("Split", {x});
  net.last().set_int("axis", -1);
  net.last().set_int("num_outputs", 2);
  const ValueId other = net.builder().graph.add_value(net.builder().graph.value(half));
  net.last().outputs.push_back(other);
  const Ops ops = net.ops(net.node("Mul", {half, net.node("Sigmoid", {other})}));
  ASSERT_EQ(ops.size(), 2U) << ::testing::PrintToString(ops);
}

TEST(PlanImageNorm, SlicesAreWholeGroupsAndWholeVectors) {
  for (int64_t groups : {1, 2, 4, 8, 32, 160, 320})
    for (int64_t side : {1, 7, 16, 64, 300})
      for (DataType type : {DataType::kFloat, DataType::kFloat16}) {
        const GroupNormDesc desc{.batch = 2, .channels = 320, .groups = groups, .inner = side * side};
        const auto plan = plan_image_norm(desc, type);
        ASSERT_TRUE(plan) << groups << " " << side;
        const ChannelsLastNormParams& p = plan->params;
        const int64_t width = static_cast<int64_t>(p.vectors.size) * plan->vector;
        EXPECT_EQ(width * static_cast<int64_t>(p.slices.size), 320);
        EXPECT_EQ(p.slice_groups * desc.group_channels(), width);
        EXPECT_LE(p.rows * static_cast<int64_t>(p.vectors.size), plan->threads);
        EXPECT_LE(p.slice_groups, plan->threads / plan->lanes);
        EXPECT_EQ(plan->once, plan->moment_blocks == 0);
        if (plan->once) {
          EXPECT_GE(p.rows * plan->turns, desc.inner);
        } else {
          const ChannelsLastNormParams& m = plan->moments;
          const int64_t part_width = static_cast<int64_t>(m.vectors.size) * plan->vector;
          EXPECT_EQ(part_width * static_cast<int64_t>(m.slices.size), 320);
          EXPECT_EQ(m.slice_groups * desc.group_channels(), part_width);
          EXPECT_LE(m.rows * static_cast<int64_t>(m.vectors.size), plan->threads);
          EXPECT_LE(m.slice_groups, plan->threads / plan->moment_lanes);
          EXPECT_LE(p.part_count, 64);
          EXPECT_GE(int64_t{p.part_pixels} * p.part_count, desc.inner);
          EXPECT_LT(int64_t{p.part_pixels} * (p.part_count - 1), desc.inner);
          EXPECT_GE(int64_t{p.chunk_pixels} * static_cast<int64_t>(p.chunks.size), desc.inner);
        }
      }
}

TEST(PlanImageNorm, RefusesWhatNoBlockHasWhole) {
  EXPECT_FALSE(plan_image_norm({.batch = 1, .channels = 8192, .groups = 1, .inner = 4}, DataType::kFloat));
  EXPECT_FALSE(plan_image_norm({.batch = 1, .channels = 8, .groups = 1, .inner = 4}, DataType::kDouble));
  EXPECT_FALSE(plan_image_norm({.batch = 1, .channels = 8, .groups = 1, .inner = 0}, DataType::kFloat));
}

}  // namespace
}  // namespace tenon::cuda
