// Times the inner loops of matrix products, attention, norms and elementwise kernels on one thread: CPU time, medians.
// One JSON line a case. Not built by default: ninja tenon_nn_benchmark.
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "ep/cpu/simd/gemm.h"
#include "ep/cpu/simd/isa.h"

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
  std::vector<float> a(static_cast<size_t>(m * k), 0.5f), c(static_cast<size_t>(m * n));
  std::vector<float> bias(static_cast<size_t>(n), 0.25f);
  const auto floats = static_cast<size_t>(gemm_packed_floats(k, n));
  auto* packed = static_cast<float*>(std::aligned_alloc(64, floats * sizeof(float) * static_cast<size_t>(sets)));
  std::fill(packed, packed + floats * static_cast<size_t>(sets), 0.125f);
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
              task.b = packed + floats * static_cast<size_t>(turn);
              turn = (turn + 1) % sets;
              gemm_table().run(task);
            });
  const float want = static_cast<float>(k) / 16 + 0.25f;
  if (activation == Activation::kNone && c.back() != want)
    std::printf("wrong: %g, not %g\n", c.back(), want), std::exit(1);
  std::free(packed);
}

void run_all() {
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
