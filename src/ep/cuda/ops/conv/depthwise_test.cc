// Depthwise convolutions against sums on the host, on a device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ep/cuda/compute/device_testing.h"
#include "ep/cuda/ops/conv/op.h"

namespace tenon::cuda {
namespace {

struct Problem {
  int images, in_h, in_w, channels, kernel, stride, pad, dilation;
  bool residual;
};

class DepthwiseConv : public DeviceTest {
 protected:
  static float rounded(float value, DataType type) {
    std::byte bytes[sizeof(float)];
    store_floats({&value, 1}, type, bytes);
    return floats_of({.type = type, .data = bytes, .size_bytes = data_type_size(type)})[0];
  }

  void check(DataType type, const Problem& problem, float tolerance) {
    const auto context = make_context({});
    ASSERT_NE(context, nullptr);
    const auto& [images, in_h, in_w, channels, kernel, stride, pad, dilation, has_residual] = problem;
    const int reach = dilation * (kernel - 1) + 1;
    const int out_h = (in_h + 2 * pad - reach) / stride + 1, out_w = (in_w + 2 * pad - reach) / stride + 1;
    Program program;
    const auto add = [&](DataType kind, const Shape& shape, StorageKind storage) {
      std::vector<TensorId>& list = storage == StorageKind::kInput ? program.inputs : program.outputs;
      list.push_back(*program.add_tensor(kind, shape, DeviceLayout::kPlain, storage, static_cast<int>(list.size())));
      return list.back();
    };
    ConvTensors tensors;
    tensors.x = add(type, Shape{images, in_h, in_w, channels}, StorageKind::kInput);
    tensors.w = add(type, Shape{kernel, kernel, channels}, StorageKind::kInput);
    tensors.bias = add(DataType::kFloat, Shape{channels}, StorageKind::kInput);
    const Shape out{images, out_h, out_w, channels};
    if (has_residual) tensors.residual = add(type, out, StorageKind::kInput);
    tensors.y = add(type, out, StorageKind::kOutput);
    ConvParams params;
    params.pixels = images * out_h * out_w;
    params.channels = params.in_c = params.group = channels;
    params.depth = kernel * kernel;
    params.in_h = in_h, params.in_w = in_w, params.out_h = out_h, params.out_w = out_w;
    params.kernel_h = params.kernel_w = kernel;
    params.stride_h = params.stride_w = stride;
    params.pad_h = params.pad_w = pad;
    params.dilation_h = params.dilation_w = dilation;
    auto op = std::make_unique<DepthwiseConvOp>(
        "test", type, params, Epilogue{.activation = Activation::kClip, .alpha = 0, .beta = 6}, tensors);
    DepthwiseConvOp& conv = *op;
    program.add_op(std::move(op));
    ASSERT_TRUE(program.finish().ok());

    std::vector<DeviceBlockRef> blocks;
    std::vector<CUdeviceptr> inputs, outputs;
    std::vector<std::vector<float>> values;
    for (TensorId id : program.inputs) {
      values.push_back(random_floats(program.tensor(id).shape.element_count(), static_cast<uint32_t>(id) + 1));
      for (float& value : values.back()) value = rounded(value, program.tensor(id).type);
      std::vector<std::byte> bytes(program.tensor(id).size_bytes());
      store_floats(values.back(), program.tensor(id).type, bytes.data());
      blocks.push_back(upload(*context, bytes.data(), bytes.size()));
      inputs.push_back(blocks.back()->address());
    }
    const std::vector<std::byte> poison(program.tensor(tensors.y).size_bytes(), std::byte{0xff});
    blocks.push_back(upload(*context, poison.data(), poison.size()));
    outputs = {blocks.back()->address()};
    const Addresses addresses{.program = &program, .inputs = inputs, .outputs = outputs};
    const Status prepared = conv.prepare({.device = device_.get(),
                                          .stream = context->stream(),
                                          .kernels = &context->kernels(),
                                          .algorithms = &context->algorithms(),
                                          .addresses = addresses});
    ASSERT_TRUE(prepared.ok()) << prepared.to_string();
    ASSERT_TRUE(conv.queue({.device = device_.get(), .stream = context->stream(), .addresses = addresses}).ok());
    ASSERT_EQ(device_->driver().StreamSynchronize(context->stream()), CUDA_SUCCESS);
    const std::vector<std::byte> bytes = download(outputs[0], poison.size());
    const std::vector<float> got =
        floats_of({.type = type, .shape = out, .data = bytes.data(), .size_bytes = bytes.size()});

    size_t at = 0;
    for (int n = 0; n < images; ++n)
      for (int oh = 0; oh < out_h; ++oh)
        for (int ow = 0; ow < out_w; ++ow)
          for (int c = 0; c < channels; ++c, ++at) {
            float sum = values[2][c];
            for (int r = 0; r < kernel; ++r)
              for (int s = 0; s < kernel; ++s) {
                const int h = oh * stride - pad + r * dilation, v = ow * stride - pad + s * dilation;
                if (h < 0 || h >= in_h || v < 0 || v >= in_w) continue;
                sum +=
                    values[0][((n * in_h + h) * in_w + v) * channels + c] * values[1][(r * kernel + s) * channels + c];
              }
            if (has_residual) sum += values[3][at];
            ASSERT_NEAR(got[at], std::clamp(sum, 0.0F, 6.0F), tolerance)
                << data_type_name(type) << " image " << n << " row " << oh << " column " << ow << " channel " << c;
          }
  }

  void check_all_types(const Problem& problem) {
    check(DataType::kFloat, problem, 1e-5F);
    check(DataType::kFloat16, problem, 1e-2F);
    check(DataType::kBfloat16, problem, 6e-2F);
  }
};

TEST_F(DepthwiseConv, SquaresOfThreeReadNothingOutside) {
  check_all_types({1, 7, 7, 48, 3, 1, 1, 1, true});
  check_all_types({2, 9, 11, 8, 3, 1, 0, 1, false});
  check_all_types({2, 14, 13, 96, 3, 2, 1, 1, false});
  check_all_types({1, 1, 1, 16, 3, 1, 1, 1, true});
}

TEST_F(DepthwiseConv, SquaresOfFiveReadNothingOutside) { check_all_types({2, 7, 6, 40, 5, 1, 2, 1, true}); }

TEST_F(DepthwiseConv, OtherWindowsTakeTheGeneralKernel) {
  check_all_types({1, 12, 10, 24, 5, 2, 2, 1, false});
  check_all_types({1, 12, 10, 24, 3, 1, 2, 2, true});
  check_all_types({1, 9, 9, 16, 7, 1, 3, 1, false});
}

}  // namespace
}  // namespace tenon::cuda
