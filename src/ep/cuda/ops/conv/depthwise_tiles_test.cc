// Which convolutions tiles serve and how they are chosen, without a device; on a device tiles against sums on the
// host.
#include "ep/cuda/ops/conv/depthwise_tiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "ep/cuda/compute/algorithm_cache.h"
#include "ep/cuda/compute/device_testing.h"
#include "ep/cuda/compute/kernel_template_testing.h"
#include "ep/cuda/compute/template_op.h"

namespace tenon::cuda {
namespace {

struct Window {
  int kernel = 7, stride = 1;
};

struct Problem {
  int images = 1, in_h = 1, in_w = 1, channels = 2;
  Window h, w;
};

// "Same" pads.
ConvParams params_of(const Problem& problem) {
  const auto& [images, in_h, in_w, channels, h, w] = problem;
  ConvParams params;
  params.in_h = in_h, params.in_w = in_w, params.in_c = params.channels = params.group = channels;
  params.kernel_h = h.kernel, params.kernel_w = w.kernel;
  params.stride_h = h.stride, params.stride_w = w.stride;
  params.pad_h = h.kernel / 2, params.pad_w = w.kernel / 2;
  params.out_h = (in_h + 2 * params.pad_h - h.kernel) / h.stride + 1;
  params.out_w = (in_w + 2 * params.pad_w - w.kernel) / w.stride + 1;
  params.pixels = images * params.out_h * params.out_w;
  return params;
}

ConvParams square(int channels, int size, int kernel, int stride = 1, int images = 1) {
  return params_of({images, size, size, channels, {kernel, stride}, {kernel, stride}});
}

std::optional<DepthwiseTiles> tiles_of(const ConvParams& params, DataType type = DataType::kFloat16) {
  return DepthwiseTiles::choose(type, params);
}

TEST(DepthwiseTiles, ServeLargeWindowsOfAllFloats) {
  for (DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16})
    for (int kernel : {2, 5, 7, 9})
      for (int stride : {1, 2})
        for (int channels : {2, 34, 96}) EXPECT_TRUE(tiles_of(square(channels, 14, kernel, stride), type).has_value());
}

TEST(DepthwiseTiles, LeaveOtherWindowsToTheGeneralKernel) {
  EXPECT_FALSE(tiles_of(square(96, 56, 3)).has_value());  // held in registers by a kernel of its own
  EXPECT_FALSE(tiles_of(square(96, 56, 1)).has_value());
  EXPECT_FALSE(tiles_of(square(33, 56, 7)).has_value());
  EXPECT_FALSE(tiles_of(square(96, 56, 7, 3)).has_value());
  EXPECT_FALSE(tiles_of(square(96, 56, 31)).has_value());
  EXPECT_FALSE(tiles_of(square(96, 56, 7), DataType::kDouble).has_value());
  ConvParams dilated = square(96, 56, 7);
  dilated.dilation_h = 2;
  EXPECT_FALSE(tiles_of(dilated).has_value());
}

// Elements are counted in 32 bits.
TEST(DepthwiseTiles, LeaveLargeTensorsToTheGeneralKernel) {
  EXPECT_TRUE(tiles_of(square(1024, 1024, 7)).has_value());
  EXPECT_FALSE(tiles_of(square(1024, 1024, 7, 1, 2)).has_value());
}

// Half of the 132 processors at least, and no more blocks than a processor holds at once where images are small.
TEST(DepthwiseTiles, SmallImagesOccupyTheProcessors) {
  for (const ConvParams& params : {square(768, 7, 7), square(384, 14, 7), square(192, 28, 7), square(96, 56, 7)}) {
    const std::optional<DepthwiseTiles> tiles = tiles_of(params);
    ASSERT_TRUE(tiles.has_value());
    EXPECT_GE(tiles->blocks(), 66) << tiles->text();
    EXPECT_LE(tiles->blocks(), 3 * 132) << tiles->text();
  }
}

// Each tile is a kernel to compile, and shapes that vary want few of them.
TEST(DepthwiseTiles, AreOfFewKindsForAllSizes) {
  std::set<std::string> kinds;
  for (int size = 5; size < 200; ++size)
    for (int channels : {32, 96, 512, 1024}) kinds.insert(tiles_of(square(channels, size, 7))->text());
  EXPECT_LE(kinds.size(), 8U) << ::testing::PrintToString(kinds);
}

// Eight outputs of a row share what they read; many blocks fill the processors anyway.
TEST(DepthwiseTiles, LargeImagesHaveManyOutputsOfAThread) {
  EXPECT_EQ(tiles_of(square(96, 56, 7, 1, 16))->text(), "8 of 8x8");
}

// A thread's outputs lie along the axis in which the window is wide.
TEST(DepthwiseTiles, AColumnIsARowOfTheTransposedImage) {
  const DepthwiseTiles rows = *tiles_of(params_of({2, 40, 70, 48, {1, 1}, {9, 2}}));
  const DepthwiseTiles columns = *tiles_of(params_of({2, 70, 40, 48, {9, 2}, {1, 1}}));
  EXPECT_EQ(rows.text(), columns.text());
  const auto p = params_of<DepthwiseTilesParams>(rows.kernel({}, true));
  const auto q = params_of<DepthwiseTilesParams>(columns.kernel({}, true));
  EXPECT_EQ(rows.kernel({}, true).instance, columns.kernel({}, true).instance);
  EXPECT_EQ(p.out_w, q.out_w);
  EXPECT_EQ(p.x_column, 48);
  EXPECT_EQ(p.x_row, 70 * 48);
  EXPECT_EQ(q.x_column, 40 * 48);
  EXPECT_EQ(q.x_row, 48);
}

// Copies are as wide as the distance of two pixels allows.
TEST(DepthwiseTiles, InstancesCompile) {
  const Epilogue gelu{.activation = Activation::kGelu};
  expect_instance_compiles(tiles_of(square(96, 56, 7))->kernel(gelu, true));
  expect_instance_compiles(DepthwiseTiles::all(DataType::kBfloat16, square(34, 14, 5, 2)).back().kernel(gelu, false));
  expect_instance_compiles(tiles_of(square(34, 14, 9), DataType::kFloat)->kernel({}, true));
}

class DepthwiseTilesOnDevice : public DeviceTest {
 protected:
  struct Setup {
    Program program;
    std::vector<DeviceBlockRef> blocks;
    std::vector<CUdeviceptr> inputs, outputs;
    std::vector<std::vector<float>> values;  // of x, w, bias, residual
  };

  // A program of one tile's kernel, and its tensors.
  void make(ComputeContext& context, DataType type, const ConvParams& p, const TemplateKernel& kernel, bool residual,
            Setup& setup) {
    const int64_t images = p.pixels / (int64_t{p.out_h} * p.out_w);
    const Shape out{images, p.out_h, p.out_w, p.channels};
    std::vector<TensorId> reads;
    const auto add = [&](DataType kind, const Shape& shape, StorageKind storage) {
      std::vector<TensorId>& list = storage == StorageKind::kInput ? setup.program.inputs : setup.program.outputs;
      list.push_back(
          *setup.program.add_tensor(kind, shape, DeviceLayout::kPlain, storage, static_cast<int>(list.size())));
      return list.back();
    };
    reads.push_back(add(type, Shape{images, p.in_h, p.in_w, p.channels}, StorageKind::kInput));
    reads.push_back(add(type, Shape{p.kernel_h, p.kernel_w, p.channels}, StorageKind::kInput));
    reads.push_back(add(DataType::kFloat, Shape{p.channels}, StorageKind::kInput));
    reads.push_back(residual ? add(type, out, StorageKind::kInput) : kNoTensor);
    const TensorId y = add(type, out, StorageKind::kOutput);
    setup.program.add_kernel({kernel.instance, kernel.header, kernel.text});
    setup.program.add_op(std::make_unique<TemplateOp>("test", "tiles", kernel, reads, std::vector<TensorId>{y}));
    ASSERT_TRUE(setup.program.finish().ok());
    for (TensorId id : setup.program.inputs) {
      const DeviceTensor& tensor = setup.program.tensor(id);
      std::vector<std::byte> bytes(tensor.size_bytes());
      store_floats(random_floats(tensor.shape.element_count(), static_cast<uint32_t>(id) + 1), tensor.type,
                   bytes.data());
      setup.values.push_back(
          floats_of({.type = tensor.type, .shape = tensor.shape, .data = bytes.data(), .size_bytes = bytes.size()}));
      setup.blocks.push_back(upload(context, bytes.data(), bytes.size()));
      setup.inputs.push_back(setup.blocks.back()->address());
    }
    const std::vector<std::byte> poison(setup.program.tensor(y).size_bytes(), std::byte{0xff});
    setup.blocks.push_back(upload(context, poison.data(), poison.size()));
    setup.outputs = {setup.blocks.back()->address()};
    const Addresses addresses{.program = &setup.program, .inputs = setup.inputs, .outputs = setup.outputs};
    Result<CompiledKernels> compiled = context.kernel_cache().compile(setup.program.kernels);
    ASSERT_TRUE(compiled.ok()) << compiled.status().to_string();
    ASSERT_TRUE(setup.program.ops[0]
                    ->prepare({.device = device_.get(),
                               .stream = context.stream(),
                               .kernels = &context.kernels(),
                               .compiled = &*compiled,
                               .algorithms = &context.algorithms(),
                               .addresses = addresses})
                    .ok());
    compiled_.push_back(*std::move(compiled));
  }

  // By several threads, so that make() finds them.
  static void compile(ComputeContext& context, const Epilogue& epilogue, const std::vector<DepthwiseTiles>& all) {
    std::vector<KernelCode> codes;
    for (const DepthwiseTiles& tiles : all) {
      const TemplateKernel kernel = tiles.kernel(epilogue, true);
      codes.push_back({kernel.instance, kernel.header, kernel.text});
    }
    const Result<CompiledKernels> compiled = context.kernel_cache().compile(codes);
    ASSERT_TRUE(compiled.ok()) << compiled.status().to_string();
  }

  Status queue(Setup& setup, CUstream stream) {
    const Addresses addresses{.program = &setup.program, .inputs = setup.inputs, .outputs = setup.outputs};
    return setup.program.ops[0]->queue({.device = device_.get(), .stream = stream, .addresses = addresses});
  }

  void check(DataType type, const Problem& problem, bool residual, float tolerance) {
    if (!case_is_in_part()) return;
    const std::shared_ptr<ComputeContext> context = shared_context(true);
    ASSERT_NE(context, nullptr);
    const ConvParams p = params_of(problem);
    const Epilogue epilogue{.activation = Activation::kClip, .alpha = 0, .beta = 6, .residual_after = false};
    // Every seventh or so, others for each type: a compiler has to make them all.
    const std::vector<DepthwiseTiles> all = DepthwiseTiles::all(type, p);
    std::vector<DepthwiseTiles> some = {all.begin(), all.begin() + (all.empty() ? 0 : 1)};
    for (size_t i = 1 + static_cast<size_t>(type) % 7; i < all.size(); i += 7) some.push_back(all[i]);
    compile(*context, epilogue, some);
    std::vector<std::byte> first;
    for (const DepthwiseTiles& tiles : some) {
      SCOPED_TRACE(format("{} {}", data_type_name(type), tiles.text()));
      Setup setup;
      // All inputs are there before the kernel begins, so it may read them early.
      make(*context, type, p, tiles.kernel(epilogue, first.empty()), residual, setup);
      if (HasFatalFailure()) return;
      ASSERT_TRUE(queue(setup, context->stream()).ok());
      ASSERT_EQ(device_->driver().StreamSynchronize(context->stream()), CUDA_SUCCESS);
      const DeviceTensor& y = setup.program.tensor(setup.program.outputs[0]);
      const std::vector<std::byte> bytes = download(setup.outputs[0], y.size_bytes());
      if (!first.empty()) {
        EXPECT_EQ(bytes, first);
        continue;
      }
      first = bytes;
      compare(p, setup.values,
              floats_of({.type = type, .shape = y.shape, .data = bytes.data(), .size_bytes = bytes.size()}), tolerance);
    }
    EXPECT_FALSE(first.empty());
  }

  static void compare(const ConvParams& p, const std::vector<std::vector<float>>& values, const std::vector<float>& got,
                      float tolerance) {
    for (size_t at = 0; at < got.size(); ++at) {
      const auto c = static_cast<int>(at % p.channels), pixel = static_cast<int>(at / p.channels);
      const int ow = pixel % p.out_w, oh = pixel / p.out_w % p.out_h, n = pixel / (p.out_w * p.out_h);
      float sum = values[2][c];
      for (int r = 0; r < p.kernel_h; ++r)
        for (int s = 0; s < p.kernel_w; ++s) {
          const int h = oh * p.stride_h - p.pad_h + r, v = ow * p.stride_w - p.pad_w + s;
          if (h < 0 || h >= p.in_h || v < 0 || v >= p.in_w) continue;
          sum += values[0][((n * p.in_h + h) * p.in_w + v) * p.channels + c] *
                 values[1][(r * p.kernel_w + s) * p.channels + c];
        }
      if (values.size() > 3) sum += values[3][at];
      ASSERT_NEAR(got[at], std::clamp(sum, 0.0F, 6.0F), tolerance)
          << "image " << n << " row " << oh << " column " << ow << " channel " << c;
    }
  }

  std::vector<CompiledKernels> compiled_;
};

// The sums have the same order in all of them.
TEST_F(DepthwiseTilesOnDevice, AllTilesGiveTheSameBits) {
  const std::vector<Problem> problems = {{2, 7, 7, 72, {7, 1}, {7, 1}},   {1, 13, 18, 40, {5, 2}, {5, 2}},
                                         {1, 9, 11, 34, {9, 1}, {9, 1}},  {2, 1, 75, 36, {1, 1}, {31, 1}},
                                         {2, 37, 5, 32, {9, 2}, {1, 1}},  {1, 3, 2, 98, {7, 1}, {7, 1}},
                                         {1, 10, 12, 64, {3, 1}, {5, 2}}, {3, 6, 6, 16, {2, 2}, {2, 2}}};
  for (size_t i = 0; i < problems.size(); ++i) {
    SCOPED_TRACE(format("problem {}", i));
    check(DataType::kFloat, problems[i], i % 2 == 0, 1e-4F);
    check(DataType::kFloat16, problems[i], i % 2 == 0, 1e-2F);
    check(DataType::kBfloat16, problems[i], i % 2 == 0, 6e-2F);
  }
}

}  // namespace
}  // namespace tenon::cuda
