// Times the convolution layers of ppocr_v6_det and nudenet_yolov8n, each alone: one line a layer, with the GFLOP/s (of
// the fastest run) that a direct convolution would have needed (Winograd needs fewer products, so it may exceed the
// machine's peak).
//   tenon_conv_benchmark [threads] [filter]
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "ep/cpu/cpu_provider.h"
#include "ep/cpu/ops/conv/support.h"

namespace tenon::cpu {
namespace {

struct Layer {
  const char* model;
  int64_t channels, height, width, outputs, kernel, stride, pad_begin, pad_end, group;
  const char* activation;
  int count;  // in the model
};

constexpr Layer kLayers[] = {
    {"ppocr", 3, 736, 960, 24, 3, 2, 1, 1, 1, "relu", 1},    {"ppocr", 24, 368, 480, 12, 2, 1, 0, 1, 1, "relu", 1},
    {"ppocr", 12, 368, 480, 24, 2, 1, 0, 1, 1, "relu", 1},   {"ppocr", 48, 368, 480, 24, 3, 2, 1, 1, 1, "relu", 1},
    {"ppocr", 24, 184, 240, 48, 1, 1, 0, 0, 1, "relu", 1},   {"ppocr", 48, 184, 240, 48, 3, 1, 1, 1, 48, "none", 2},
    {"ppocr", 48, 184, 240, 96, 1, 1, 0, 0, 1, "gelu", 2},   {"ppocr", 96, 184, 240, 48, 1, 1, 0, 0, 1, "none", 2},
    {"ppocr", 48, 184, 240, 48, 3, 2, 1, 1, 48, "none", 1},  {"ppocr", 48, 184, 240, 96, 1, 1, 0, 0, 1, "none", 1},
    {"ppocr", 96, 184, 240, 96, 7, 1, 3, 3, 96, "none", 1},  {"ppocr", 96, 184, 240, 24, 1, 1, 0, 0, 1, "none", 1},
    {"ppocr", 96, 184, 240, 24, 3, 1, 1, 1, 1, "relu", 1},   {"ppocr", 48, 92, 120, 96, 1, 1, 0, 0, 1, "gelu", 1},
    {"ppocr", 96, 92, 120, 96, 1, 1, 0, 0, 1, "none", 2},    {"ppocr", 96, 92, 120, 96, 3, 1, 1, 1, 96, "none", 2},
    {"ppocr", 96, 92, 120, 192, 1, 1, 0, 0, 1, "gelu", 2},   {"ppocr", 192, 92, 120, 96, 1, 1, 0, 0, 1, "none", 2},
    {"ppocr", 96, 92, 120, 96, 3, 2, 1, 1, 96, "none", 1},   {"ppocr", 96, 92, 120, 96, 7, 1, 3, 3, 96, "none", 1},
    {"ppocr", 96, 46, 60, 192, 1, 1, 0, 0, 1, "gelu", 1},    {"ppocr", 192, 46, 60, 192, 1, 1, 0, 0, 1, "none", 1},
    {"ppocr", 192, 46, 60, 192, 3, 1, 1, 1, 192, "none", 4}, {"ppocr", 192, 46, 60, 384, 1, 1, 0, 0, 1, "gelu", 4},
    {"ppocr", 384, 46, 60, 192, 1, 1, 0, 0, 1, "none", 4},   {"ppocr", 192, 23, 30, 384, 1, 1, 0, 0, 1, "gelu", 1},
    {"ppocr", 384, 23, 30, 384, 1, 1, 0, 0, 1, "none", 1},   {"ppocr", 384, 23, 30, 384, 3, 1, 1, 1, 384, "none", 2},
    {"ppocr", 384, 23, 30, 768, 1, 1, 0, 0, 1, "gelu", 2},   {"ppocr", 768, 23, 30, 384, 1, 1, 0, 0, 1, "none", 2},
    {"nudenet", 3, 320, 320, 16, 3, 2, 1, 1, 1, "silu", 1},  {"nudenet", 16, 160, 160, 32, 3, 2, 1, 1, 1, "silu", 1},
    {"nudenet", 32, 80, 80, 32, 1, 1, 0, 0, 1, "silu", 1},   {"nudenet", 16, 80, 80, 16, 3, 1, 1, 1, 1, "silu", 2},
    {"nudenet", 48, 80, 80, 32, 1, 1, 0, 0, 1, "silu", 1},   {"nudenet", 32, 80, 80, 64, 3, 2, 1, 1, 1, "silu", 1},
    {"nudenet", 32, 40, 40, 32, 3, 1, 1, 1, 1, "silu", 6},   {"nudenet", 128, 40, 40, 64, 1, 1, 0, 0, 1, "silu", 1},
    {"nudenet", 64, 40, 40, 64, 3, 1, 1, 1, 1, "silu", 4},   {"nudenet", 64, 40, 40, 128, 3, 2, 1, 1, 1, "silu", 1},
    {"nudenet", 64, 20, 20, 64, 3, 1, 1, 1, 1, "silu", 8},   {"nudenet", 256, 20, 20, 128, 1, 1, 0, 0, 1, "silu", 1},
    {"nudenet", 384, 20, 20, 128, 1, 1, 0, 0, 1, "silu", 1}, {"nudenet", 128, 20, 20, 64, 3, 1, 1, 1, 1, "silu", 2},
    {"nudenet", 128, 20, 20, 256, 3, 2, 1, 1, 1, "silu", 1}, {"nudenet", 128, 10, 10, 128, 3, 1, 1, 1, 1, "silu", 4},
    {"nudenet", 384, 10, 10, 256, 1, 1, 0, 0, 1, "silu", 2}, {"nudenet", 256, 10, 10, 64, 3, 1, 1, 1, 1, "silu", 2},
    {"nudenet", 64, 10, 10, 64, 3, 1, 1, 1, 1, "silu", 2},   {"magika", 256, 512, 1, 512, 5, 1, 0, 0, 1, "none", 1},
};

double now(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

ConstantRef random_constant(std::mt19937& random, const Shape& shape) {
  std::byte* memory = nullptr;
  ConstantRef constant = make_constant(DataType::kFloat, shape, &memory).value();
  std::uniform_real_distribution<float> value(-0.1f, 0.1f);
  for (int64_t i = 0; i < shape.element_count(); ++i) reinterpret_cast<float*>(memory)[i] = value(random);
  return constant;
}

// Seconds of the median and of the fastest run; CPU time of the thread where it is alone, else wall time.
std::pair<double, double> time_layer(const Layer& layer, ThreadPool& pool, std::string* name) {
  std::mt19937 random(1);
  const int64_t kernel_w = layer.width == 1 ? 1 : layer.kernel;
  const int64_t out_h = (layer.height + layer.pad_begin + layer.pad_end - layer.kernel) / layer.stride + 1;
  const int64_t out_w = (layer.width + layer.pad_begin + layer.pad_end - kernel_w) / layer.stride + 1;
  Graph graph;
  Node node;
  node.op_type = "Conv";
  node.domain = "tenon";
  node.since_version = 1;
  node.set_ints("strides", {layer.stride, layer.stride});
  node.set_ints("pads", {layer.pad_begin, layer.pad_begin, layer.pad_end, layer.pad_end});
  node.set_int("group", layer.group);
  node.set_string("activation", layer.activation);
  const Shape w{layer.outputs, layer.channels / layer.group, layer.kernel, kernel_w};
  std::vector<TensorSpec> inputs = {{DataType::kFloat, {1, layer.channels, layer.height, layer.width}},
                                    {DataType::kFloat, w},
                                    {DataType::kFloat, {layer.outputs}}};
  std::vector<TensorSpec> outputs = {{DataType::kFloat, {1, layer.outputs, out_h, out_w}}};
  const std::vector<ConstantRef> constants = {nullptr, random_constant(random, w),
                                              random_constant(random, {layer.outputs})};
  KernelNode asked;
  asked.graph = &graph;
  asked.node = &node;
  asked.inputs = inputs;
  asked.outputs = outputs;
  asked.constants = constants;
  asked.pool = &pool;
  const LayoutChoice choice = choose_kernel_layouts(asked);
  inputs[0].layout = choice.inputs[0];
  outputs[0].layout = choice.outputs[0];
  const auto kernel = make_cpu_provider()->create_kernel(asked).value();
  *name = kernel->name();

  struct Context final : KernelContext {
    Result<void*> allocate_output(size_t, const Shape&) override {
      return Status(StatusCode::kInternal, "No output is dynamic.");
    }
  } context;
  const auto x = aligned_floats(static_cast<int64_t>(inputs[0].size_bytes() / 4));
  const auto y = aligned_floats(static_cast<int64_t>(outputs[0].size_bytes() / 4));
  const auto scratch = aligned_floats(static_cast<int64_t>(kernel->scratch_bytes() / 4));
  for (size_t i = 0; i < inputs[0].size_bytes() / 4; ++i) x.get()[i] = static_cast<float>(i % 17) - 8;
  const void* in[] = {x.get(), constants[1]->data, constants[2]->data};
  void* out[] = {y.get()};
  context.inputs = in;
  context.outputs = out;
  context.scratch = reinterpret_cast<std::byte*>(scratch.get());
  context.pool = &pool;
  const clockid_t clock = pool.threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  std::vector<double> samples;
  pool.enter_run();
  for (double total = 0; (total < 0.06 || samples.size() < 7) && samples.size() < 200;) {
    const double begin = now(clock);
    if (!kernel->run(context).ok()) std::abort();
    samples.push_back(now(clock) - begin);
    total += samples.back();
  }
  pool.leave_run();
  std::sort(samples.begin(), samples.end());
  return {samples[samples.size() / 2], samples[0]};
}

int benchmark(int threads, const char* filter) {
  const auto pool = ThreadPool::create({.threads = threads}).value();
  double totals[3] = {};
  constexpr const char* kModels[] = {"ppocr", "nudenet", "magika"};
  for (const Layer& layer : kLayers) {
    std::string name;
    const std::string text =
        format("{} {}->{} {}x{} k{} s{} g{} {}", layer.model, layer.channels, layer.outputs, layer.height, layer.width,
               layer.kernel, layer.stride, layer.group, layer.activation);
    if (text.find(filter) == std::string::npos) continue;
    const auto [seconds, least] = time_layer(layer, *pool, &name);
    const int64_t kernel_w = layer.width == 1 ? 1 : layer.kernel;
    const int64_t rows = (layer.height + layer.pad_begin + layer.pad_end - layer.kernel) / layer.stride + 1;
    const int64_t columns = (layer.width + layer.pad_begin + layer.pad_end - kernel_w) / layer.stride + 1;
    const int64_t products = layer.outputs * layer.channels / layer.group * layer.kernel * kernel_w;
    const double flops = 2.0 * static_cast<double>(rows * columns * products);
    std::printf(
        "{\"case\": \"%s\", \"kernel\": \"%s\", \"median_us\": %.1f, \"min_us\": %.1f, \"gflops\": %.1f, \"count\": "
        "%d}\n",
        text.c_str(), name.c_str(), seconds * 1e6, least * 1e6, flops / least * 1e-9, layer.count);
    for (int i = 0; i < 3; ++i)
      if (std::strcmp(layer.model, kModels[i]) == 0) totals[i] += least * layer.count;
  }
  for (int i = 0; i < 3; ++i) std::printf("{\"model\": \"%s\", \"conv_ms\": %.2f}\n", kModels[i], totals[i] * 1e3);
  return 0;
}

}  // namespace
}  // namespace tenon::cpu

int main(int argc, char** argv) {
  return tenon::cpu::benchmark(argc > 1 ? std::atoi(argv[1]) : 1, argc > 2 ? argv[2] : "");
}
