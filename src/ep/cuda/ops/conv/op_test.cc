// Every tile, split and cuBLASLt algorithm against the plain kernel.
#include "ep/cuda/ops/conv/op.h"

#include <cmath>

#include "base/format.h"
#include "ep/cuda/compute/device_testing.h"

namespace tenon::cuda {
namespace {

struct Problem {
  int images, in_h, in_w, in_c, outputs, kernel, stride, pad;
  Epilogue epilogue;
  bool bias, residual;
  bool nan = false;  // all of the first image
};

// With small sizes a large problem takes the first choice of each kind.
bool is_tried(const std::vector<std::string>& texts, size_t index, int64_t products) {
  constexpr int64_t kLarge = 2'000'000;
  const auto kind = [&](size_t i) { return std::string_view(texts[i]).substr(0, texts[i].find(' ')); };
  if (!small_sizes() || products < kLarge) return true;
  for (size_t i = 0; i < index; ++i)
    if (kind(i) == kind(index)) return false;
  return true;
}

class ConvChoices : public DeviceTest {
 protected:
  void check(DataType type, bool tf32, const Problem& problem, double tolerance) {
    if (!case_is_in_part()) return;
    const int out_h = (problem.in_h + 2 * problem.pad - problem.kernel) / problem.stride + 1;
    const int out_w = (problem.in_w + 2 * problem.pad - problem.kernel) / problem.stride + 1;
    ConvParams params;
    params.in_h = problem.in_h, params.in_w = problem.in_w, params.in_c = problem.in_c;
    params.out_h = out_h, params.out_w = out_w;
    params.pixels = problem.images * out_h * out_w;
    params.channels = problem.outputs;
    params.kernel_h = params.kernel_w = problem.kernel;
    params.stride_h = params.stride_w = problem.stride;
    params.pad_h = params.pad_w = problem.pad;
    params.depth = problem.kernel * problem.kernel * problem.in_c;
    const std::shared_ptr<ComputeContext> context = shared_context(tf32);
    Program program;
    const auto input = [&](DataType of, const Shape& shape) {
      const auto index = static_cast<int32_t>(program.inputs.size());
      program.inputs.push_back(*program.add_tensor(of, shape, DeviceLayout::kPlain, StorageKind::kInput, index));
      return program.inputs.back();
    };
    ConvTensors tensors;
    tensors.x = input(type, Shape{problem.images, problem.in_h, problem.in_w, problem.in_c});
    tensors.w = input(type, Shape{problem.outputs, problem.kernel * problem.kernel, problem.in_c});
    if (problem.bias) {
      tensors.bias = input(DataType::kFloat, Shape{problem.outputs});
      tensors.bias_typed = input(type, Shape{problem.outputs});
    }
    if (const SplitProblem split = choose_split(type, tf32, program.workspace_bytes, params); split.terms != 0) {
      tensors.terms = split.terms;
      tensors.parts = input(DataType::kFloat16, Shape{problem.outputs, params.depth * split.terms + 2});
    }
    const Shape out{params.pixels, problem.outputs};
    if (problem.residual) tensors.residual = input(type, out);
    tensors.y = *program.add_tensor(type, out, DeviceLayout::kPlain, StorageKind::kOutput, 0);
    program.outputs = {tensors.y};
    auto op = std::make_unique<ConvOp>("test", type, params, problem.epilogue, tensors);
    ConvOp& conv = *op;
    program.add_op(std::move(op));
    ASSERT_TRUE(program.finish().ok());

    std::vector<DeviceBlockRef> blocks;
    std::vector<CUdeviceptr> inputs, outputs;
    std::vector<float> bias, weights;
    for (TensorId id : program.inputs) {
      const size_t count = program.tensor(id).shape.element_count();
      std::vector<float> values = random_floats(count, static_cast<uint32_t>(id) + 1);
      if (id == tensors.bias) bias = values;
      if (id == tensors.bias_typed) values = bias;
      if (id == tensors.w) weights = values;
      if (id == tensors.x && problem.nan) std::fill_n(values.begin(), count / problem.images, std::nanf(""));
      std::vector<std::byte> bytes(program.tensor(id).size_bytes());
      if (id == tensors.parts) {
        split_weights(
            weights, {.rows = params.pixels, .columns = params.channels, .depth = params.depth, .terms = tensors.terms},
            bytes.data());
      } else {
        store_floats(values, program.tensor(id).type, bytes.data());
      }
      blocks.push_back(upload(*context, bytes.data(), bytes.size()));
      inputs.push_back(blocks.back()->address());
    }
    const size_t out_bytes = program.tensor(tensors.y).size_bytes();
    const std::vector<std::byte> poison(out_bytes, std::byte{0xff});
    blocks.push_back(upload(*context, poison.data(), out_bytes));
    outputs = {blocks.back()->address()};
    const DeviceBlockRef arena = *context->allocate(program.arena_bytes);
    const Addresses addresses{.program = &program, .arena = arena->address(), .inputs = inputs, .outputs = outputs};
    const PrepareContext prepare{.device = device_.get(),
                                 .stream = context->stream(),
                                 .kernels = &context->kernels(),
                                 .blas = context->blas(),
                                 .cudnn = context->cudnn(),
                                 .algorithms = &context->algorithms(),
                                 .tf32 = tf32,
                                 .measure = false,
                                 .addresses = addresses};
    const Status prepared = conv.prepare(prepare);
    ASSERT_TRUE(prepared.ok()) << prepared.to_string();
    const auto texts = conv.choice_texts(prepare);
    ASSERT_TRUE(texts.ok()) << texts.status().to_string();
    std::vector<float> expected;
    for (size_t t = 0; t < texts->size(); ++t) {
      if (!is_tried(*texts, t, int64_t{params.pixels} * params.depth * params.channels)) continue;
      const std::string& text = (*texts)[t];
      ASSERT_EQ(device_->driver().Memcpy(outputs[0], reinterpret_cast<CUdeviceptr>(poison.data()), out_bytes),
                CUDA_SUCCESS);
      // As in upload(): else the poison may land on the results.
      ASSERT_EQ(device_->driver().CtxSynchronize(), CUDA_SUCCESS);
      const Status used = conv.use(prepare, text);
      ASSERT_TRUE(used.ok()) << used.to_string();
      const Status queued = conv.queue({.device = device_.get(), .stream = context->stream(), .addresses = addresses});
      ASSERT_TRUE(queued.ok()) << text << ": " << queued.to_string();
      ASSERT_EQ(device_->driver().StreamSynchronize(context->stream()), CUDA_SUCCESS) << text;
      const std::vector<std::byte> bytes = download(outputs[0], out_bytes);
      const std::vector<float> got =
          floats_of({.type = type, .shape = out, .data = bytes.data(), .size_bytes = out_bytes});
      if (expected.empty()) {
        expected = got;
        const size_t spoilt = problem.nan ? got.size() / problem.images : 0;
        for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(std::isnan(got[i]), i < spoilt) << text << ": element " << i;
        continue;
      }
      float largest = 0;
      for (float value : expected) largest = std::max(largest, std::fabs(value));
      size_t wrong = 0, first = 0;
      for (size_t i = 0; i < got.size(); ++i)
        if (!(std::fabs(got[i] - expected[i]) <= tolerance * largest) &&
            !(std::isnan(got[i]) && std::isnan(expected[i])) && wrong++ == 0)
          first = i;
      EXPECT_EQ(wrong, 0U) << text.substr(0, 24) << " in " << conv.description(program) << ": " << wrong << " of "
                           << got.size() << " differ, first element " << first << ": " << got[first] << " instead of "
                           << expected[first];
    }
    // The cache's file is only a hint: what is no choice here is chosen anew.
    const std::string key = (tf32 ? "" : "exact ") + conv.description(program);
    for (const std::string& bad : {std::string("blas 00"), std::string("split_f16 00"),
                                   "blas " + std::string(2 * sizeof(cublasLtMatmulAlgo_t), '0'),
                                   std::string("cudnn 99"), std::string("cudnn x"), std::string("tile 7x7 splits 3")}) {
      context->algorithms().add(key, bad);
      const Status again = conv.prepare(prepare);
      EXPECT_TRUE(again.ok()) << bad << ": " << again.to_string();
      EXPECT_NE(conv.choice(), bad);
      EXPECT_TRUE(conv.queue({.device = device_.get(), .stream = context->stream(), .addresses = addresses}).ok())
          << bad;
      EXPECT_EQ(device_->driver().StreamSynchronize(context->stream()), CUDA_SUCCESS) << bad;
    }
  }

  void check_all_types(const Problem& problem) {
    // Relative to the largest output. The outputs of tanh end at 1, the sums before it, whose rounding shows, do not.
    const float scale = problem.epilogue.activation == Activation::kTanh ? 4 : 1;
    check(DataType::kFloat16, true, problem, scale * 2e-3F);
    check(DataType::kBfloat16, true, problem, scale * 2e-2F);
    check(DataType::kFloat, true, problem, scale * 2e-3F);
    check(DataType::kFloat, false, problem, scale * 5e-5F);  // sums on tensor cores are a little shorter
  }
};

TEST_F(ConvChoices, ProductsAgree) {
  check_all_types({1, 1, 1, 768, 256, 1, 1, 0, {}, true, false});
  check_all_types({128, 1, 1, 768, 768, 1, 1, 0, {}, true, true});
  check_all_types({130, 1, 1, 200, 72, 1, 1, 0, {.activation = Activation::kRelu}, true, true});
  // Large enough for f16 parts: with an activation and what is added before or after it.
  check_all_types({67, 1, 1, 1024, 2048, 1, 1, 0, {.activation = Activation::kGelu}, true, true});
  check_all_types(
      {40, 1, 1, 2048, 1024, 1, 1, 0, {.activation = Activation::kRelu, .residual_after = true}, true, true});
}

TEST_F(ConvChoices, RaggedEdgesAgree) {
  check_all_types({3, 1, 1, 64, 1001, 1, 1, 0, {.activation = Activation::kTanh}, true, false});
  check_all_types({1, 9, 7, 24, 20, 3, 1, 1, {.activation = Activation::kClip, .alpha = 0, .beta = 6}, true, false});
}

TEST_F(ConvChoices, ConvolutionsAgree) {
  check_all_types({2, 14, 14, 64, 96, 3, 1, 1, {.activation = Activation::kRelu}, true, true});
  // Windows split into f16 parts, with one K split and with several.
  check_all_types({2, 9, 11, 128, 128, 3, 2, 1, {.activation = Activation::kRelu}, true, true});
  check_all_types({1, 7, 8, 256, 256, 3, 1, 1, {}, false, true});
  check_all_types({2, 9, 8, 264, 192, 1, 2, 0, {}, true, false});
  check_all_types({1, 30, 31, 8, 64, 7, 2, 3, {.activation = Activation::kRelu}, true, false});
  check_all_types({1, 14, 14, 512, 128, 3, 2, 1, {}, false, false});
  check_all_types({1, 7, 7, 64, 64, 1, 2, 0, {.activation = Activation::kSilu, .residual_after = true}, true, true});
  // Deep enough for each number of splits, and columns that the wide tiles do not fill.
  check_all_types({1, 13, 12, 168, 248, 3, 1, 1, {.activation = Activation::kSilu}, true, true});
}

// Bounds of an activation are no value for a NaN, whatever computes it: kernels, cuBLASLt or cuDNN.
TEST_F(ConvChoices, EveryChoiceKeepsANaN) {
  const Epilogue epilogues[] = {{.activation = Activation::kNone},
                                {.activation = Activation::kRelu},
                                {.activation = Activation::kClip, .alpha = -0.5F, .beta = 6},
                                {.activation = Activation::kLeakyRelu, .alpha = 0.1F},
                                {.activation = Activation::kSigmoid},
                                {.activation = Activation::kHardSigmoid, .alpha = 0.2F, .beta = 0.5F},
                                {.activation = Activation::kHardSwish, .alpha = 1.0F / 6, .beta = 0.5F},
                                {.activation = Activation::kSilu},
                                {.activation = Activation::kGelu},
                                {.activation = Activation::kGeluTanh},
                                {.activation = Activation::kTanh}};
  for (const Epilogue& epilogue : epilogues) {
    check_all_types({64, 1, 1, 256, 128, 1, 1, 0, epilogue, true, true, true});
    check_all_types({2, 9, 8, 64, 64, 3, 1, 1, epilogue, true, false, true});
  }
  // Products for which some TF32 algorithms of cuBLASLt lose it.
  check_all_types({2, 28, 28, 128, 512, 1, 1, 0, {.activation = Activation::kRelu}, true, false, true});
  check_all_types({2, 40, 39, 64, 256, 1, 1, 0, {.activation = Activation::kRelu}, true, false, true});
  // Large enough for f16 parts.
  check_all_types({67, 1, 1, 1024, 2048, 1, 1, 0, {.activation = Activation::kRelu}, true, false, true});
}

// The direct kernel serves what does not fill vectors.
TEST_F(ConvChoices, OddChannelsHaveAChoice) {
  check(DataType::kFloat16, true, {1, 8, 8, 3, 5, 3, 1, 1, {}, true, false}, 1e-3);
}

}  // namespace
}  // namespace tenon::cuda
