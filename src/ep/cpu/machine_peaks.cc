#include <tenon/machine_peaks.h>
#include <tenon/thread_pool.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>

#include "base/deadline.h"
#include "base/status.h"
#include "ep/cpu/simd/probe.h"

namespace tenon {

namespace {

constexpr int kTries = 6;  // the best one counts: anything else in the machine only takes away
constexpr int64_t kRounds = 400'000;
constexpr size_t kReadBytes = size_t{64} << 20;
constexpr std::align_val_t kAlignment{64};

struct Release {
  void operator()(float* data) const { ::operator delete(data, kAlignment); }
};

// The largest rate of `work`, which returns an amount, over a few tries; each thread does it once a try.
template <typename Work>
double best_rate(ThreadPool& pool, const Work& work) {
  double best = 0;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    std::atomic<int64_t> amount{0};
    const int64_t begin_ns = monotonic_ns();
    pool.parallel_for(pool.threads(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) amount.fetch_add(work(i), std::memory_order_relaxed);
    });
    const int64_t took_ns = std::max<int64_t>(monotonic_ns() - begin_ns, 1);
    best = std::max(best, static_cast<double>(amount.load()) * 1e9 / static_cast<double>(took_ns));
  }
  return best;
}

}  // namespace

Result<MachinePeaks> measure_machine_peaks(int threads) {
  TENON_TRY_ASSIGN(const std::shared_ptr<ThreadPool> pool, ThreadPool::create({.threads = threads}));
  const size_t count = kReadBytes / sizeof(float), all = count * static_cast<size_t>(pool->threads());
  const std::unique_ptr<float, Release> data(
      static_cast<float*>(::operator new(all * sizeof(float), kAlignment, std::nothrow)));
  if (data == nullptr) return resource_exhausted("There is no memory for {} bytes to read.", all * sizeof(float));
  std::fill_n(data.get(), all, 1.0f);
  const cpu::ProbeTable& probe = cpu::probe_table();
  std::atomic<float> result{0};
  MachinePeaks peaks;
  pool->enter_run();
  peaks.flops = best_rate(*pool, [&](int64_t) {
    float sum = 0;
    const int64_t done = probe.multiply_add(kRounds, &sum);
    result.store(sum, std::memory_order_relaxed);
    return done;
  });
  peaks.bytes = best_rate(*pool, [&](int64_t thread) {
    result.store(probe.read(data.get() + static_cast<size_t>(thread) * count, static_cast<int64_t>(count)),
                 std::memory_order_relaxed);
    return static_cast<int64_t>(kReadBytes);
  });
  pool->leave_run();
  return peaks;
}

}  // namespace tenon
