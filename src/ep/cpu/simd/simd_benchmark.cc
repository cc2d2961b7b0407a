// Times the inner loops of matrix products, attention, norms and elementwise kernels on one thread: CPU time, medians.
// One JSON line a case. Not built by default: ninja tenon_simd_benchmark.
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "ep/cpu/simd/elementwise.h"
#include "ep/cpu/simd/gemm.h"
#include "ep/cpu/simd/isa.h"
#include "ep/cpu/simd/norm.h"

namespace tenon::cpu {
namespace {

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Median and least seconds of one call of `body`, over at least 15 samples of about 2 ms.
template <typename Body>
void time_case(const char* name, double amount, const char* unit, const Body& body) {
  body();
  double begin = thread_seconds();
  body();
  const int inner = std::max(1, static_cast<int>(2e-3 / std::max(1e-9, thread_seconds() - begin)));
  std::vector<double> samples;
  for (int sample = 0; sample < 31; ++sample) {
    begin = thread_seconds();
    for (int i = 0; i < inner; ++i) body();
    samples.push_back((thread_seconds() - begin) / inner);
  }
  std::sort(samples.begin(), samples.end());
  const double median = samples[samples.size() / 2];
  std::printf("{\"case\": \"%s\", \"isa\": \"%s\", \"median_us\": %.2f, \"min_us\": %.2f, \"%s\": %.1f}\n", name,
              isa_name(selected_isa()), median * 1e6, samples[0] * 1e6, unit, amount / median * 1e-9);
}

// `sets` weights in turn: with more than the caches hold, a product of one row is bound by memory as in a real model.
void time_gemm(int64_t m, int64_t k, int64_t n, Activation activation, int sets) {
  std::vector<float> a(m * k, 0.5f), c(m * n);
  std::vector<float> bias(n, 0.25f);
  const size_t floats = gemm_packed_floats(k, n);
  auto* packed = static_cast<float*>(std::aligned_alloc(64, floats * sizeof(float) * sets));
  std::fill(packed, packed + floats * sets, 0.125f);
  GemmTask task{.a = a.data(),
                .lda = k,
                .b = packed,
                .panel_stride = k * kGemmPanel,
                .c = c.data(),
                .ldc = n,
                .m = m,
                .n = n,
                .k = k,
                .bias = bias.data(),
                .epilogue = {.activation = activation}};
  int turn = 0;
  const std::string name = "gemm f32 " + std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n) +
                           (activation == Activation::kGelu ? " gelu" : "");
  time_case(name.c_str(), 2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n), "gflops",
            [&] {
              task.b = packed + floats * turn;
              turn = (turn + 1) % sets;
              gemm_table().run(task);
            });
  const float want = static_cast<float>(k) / 16 + 0.25f;
  if (activation == Activation::kNone && c.back() != want)
    std::printf("wrong: %g, not %g\n", c.back(), want), std::exit(1);
  std::free(packed);
}

// Values in [-2, 2), the same every time.
std::vector<float> some_values(int64_t count) {
  std::vector<float> values(count);
  uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) / 4194304.0f - 2;
  }
  return values;
}

// Bytes read and written once, whatever the caches do.
void time_memory_bound() {
  constexpr int64_t kRows = 1536, kColumns = 128, kCount = kRows * kColumns;
  constexpr double kBytes = 2.0 * kCount * sizeof(float);
  const std::vector<float> x = some_values(kCount), b = some_values(kCount);
  std::vector<float> y(kCount);
  time_case("softmax f32 1536x128 axis=1", kBytes, "gbytes_per_s",
            [&] { norm_table().softmax_rows(x.data(), y.data(), kRows, kColumns, false); });
  float top = -INFINITY;
  const float sum = norm_table().exponentials(y.data(), nullptr, 0, kColumns, &top);
  if (!(sum > 0) || !(sum <= kColumns)) std::printf("wrong: a sum of %g\n", sum), std::exit(1);
  time_case("softmax f32 16x8400 axis=0", 2.0 * 16 * 8400 * sizeof(float), "gbytes_per_s",
            [&] { norm_table().softmax_columns(x.data(), y.data(), 16, 8400, 0, 8400, false); });
  time_case("layer_norm f32 128x384 skip", 3.0 * 128 * 384 * sizeof(float), "gbytes_per_s", [&] {
    norm_table().layer_norm({.x = x.data(),
                             .skip = b.data(),
                             .scale = b.data(),
                             .bias = b.data(),
                             .y = y.data(),
                             .rows = 128,
                             .n = 384,
                             .epsilon = 1e-5f});
  });
  time_case("reduce_sum f32 512x256 axis=0", 512.0 * 256 * sizeof(float), "gbytes_per_s",
            [&] { norm_table().reduce_columns(x.data(), y.data(), 512, 256, 0, 256, Reduction::kSum); });
  for (const auto& [name, op] : {std::pair{"exp f32 196608", Unary::kExp},
                                 {"erf f32 196608", Unary::kErf},
                                 {"gelu f32 196608", Unary::kGelu},
                                 {"tanh f32 196608", Unary::kTanh},
                                 {"sigmoid f32 196608", Unary::kSigmoid},
                                 {"relu f32 196608", Unary::kRelu}})
    time_case(name, kBytes, "gbytes_per_s",
              [&, chosen = op] { eltwise_table().unary[static_cast<int>(chosen)](x.data(), y.data(), kCount, 0, 0); });
  time_case("add f32 196608", 1.5 * kBytes, "gbytes_per_s", [&] {
    eltwise_table().binary[static_cast<int>(Binary::kAdd)](x.data(), 1, b.data(), 1, y.data(), kCount);
  });
  time_case("transpose f32 512x384", kBytes, "gbytes_per_s", [&] {
    eltwise_table().transpose32(reinterpret_cast<const uint32_t*>(x.data()), 384, reinterpret_cast<uint32_t*>(y.data()),
                                512, 512, 384);
  });
}

void run_all() {
  time_memory_bound();
  time_gemm(128, 384, 384, Activation::kNone, 1);
  time_gemm(128, 384, 1152, Activation::kNone, 1);
  time_gemm(128, 384, 1536, Activation::kNone, 1);
  time_gemm(128, 384, 1536, Activation::kGelu, 1);
  time_gemm(128, 1536, 384, Activation::kNone, 1);
  time_gemm(196, 1024, 256, Activation::kNone, 1);
  time_gemm(3136, 64, 64, Activation::kNone, 1);
  time_gemm(49, 512, 2048, Activation::kNone, 8);
  time_gemm(1, 2048, 1000, Activation::kNone, 8);
  time_gemm(1, 512, 2048, Activation::kNone, 8);
  time_gemm(4, 512, 512, Activation::kNone, 8);
}

}  // namespace
}  // namespace tenon::cpu

int main() { tenon::cpu::run_all(); }
