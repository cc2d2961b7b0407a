#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/trace.h"
#include "ep/cpu/futex.h"
#include "tenon/custom_threads.h"

namespace tenon {

namespace {

constexpr int kMaxThreads = 1024;
constexpr int kChunksPerThread = 8;
// About 40 us on Zen 3. Longer spins win nothing on an idle machine and cost whole time slices on a busy one.
constexpr int kWorkerSpins = 2000;
constexpr int kCallerSpins = 4000;
// A caller wakes one more worker if its remaining work takes as long as so many calls of the operating system, and at
// least so many nanoseconds: one call to wake the worker, and about two until the worker runs.
constexpr double kWorthWakingCalls = 3, kWorthWakingNs = 8000;
// In a virtual machine such a call may take 20 us, or ten times as long if another thread takes the CPU meanwhile: more
// is not believed.
constexpr int kLongestCallNs = 30000;

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// True while this thread runs a chunk: nested regions then run on it alone.
thread_local bool inside_chunk = false;

class InsideChunk {
 public:
  InsideChunk() : before_(inside_chunk) { inside_chunk = true; }
  ~InsideChunk() { inside_chunk = before_; }

 private:
  bool before_;
};

int usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::clamp(CPU_COUNT(&set), 1, kMaxThreads);
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxThreads);  // more than 1024 CPUs
}

// The caller does everything: no thread, no atomic.
class SerialPool final : public ThreadPool {
 public:
  int threads() const override { return 1; }
  void enter_run() override {}
  void leave_run() override {}

 protected:
  void for_chunks(int64_t count, int64_t, Chunk chunk, const void* context) override {
    if (count > 0) chunk(context, 0, count);
  }
};

using Body = void (*)(const void* context, int64_t begin, int64_t end);

// A region whose chunks are spans of the trace, on the threads that run them.
struct TracedRegion {
  Body chunk;
  const void* context;
  TraceSubject subject;

  static void run(const void* region, int64_t begin, int64_t end) {
    const auto& traced = *static_cast<const TracedRegion*>(region);
    const TraceSubject::Scope scope(traced.subject);
    TraceSpan span("part", traced.subject.node);
    if (span) span.args().add("begin", begin).add("end", end);
    traced.chunk(traced.context, begin, end);
  }
};

// One parallel region. Slots live as long as the pool, so a worker may look at one that has been reused since: `ticket`
// holds {generation, next chunk}, and a claim is a compare-exchange on it. When it succeeds, the region is still the
// one whose fields the worker has read. Fields are stored with release after the old generation was closed, and loaded
// with acquire: a worker that sees a new field also sees the closed ticket, and its claim fails.
struct alignas(64) Slot {
  static constexpr uint64_t kIndexBits = 24;
  static constexpr uint64_t kIndexMask = (uint64_t{1} << kIndexBits) - 1;  // as an index: closed

  std::atomic<uint64_t> ticket{kIndexMask};
  std::atomic<Body> chunk{nullptr};
  std::atomic<const void*> context{nullptr};
  std::atomic<int64_t> count{0};
  std::atomic<int64_t> chunk_size{1};
  std::atomic<uint32_t> chunks{0};
  alignas(64) std::atomic<uint32_t> done{0};  // chunks finished in this generation
  std::atomic<uint32_t> caller_sleeps{0};

  // Claims one chunk and runs it as run(body, argument, begin, end); false if none is left.
  template <typename Run>
  bool run_one(const Run& run) {
    uint64_t seen = ticket.load(std::memory_order_acquire);
    for (;;) {
      const auto index = static_cast<uint32_t>(seen & kIndexMask);
      const uint32_t total = chunks.load(std::memory_order_acquire);
      if (index >= total) return false;
      const auto body = chunk.load(std::memory_order_acquire);
      const void* const argument = context.load(std::memory_order_acquire);
      const int64_t end = count.load(std::memory_order_acquire);
      const int64_t size = chunk_size.load(std::memory_order_acquire);
      if (!ticket.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
      const int64_t begin = index * size;
      {
        InsideChunk inside;
        run(body, argument, begin, std::min(end, begin + size));
      }
      const uint32_t finished = done.fetch_add(1, std::memory_order_seq_cst) + 1;
      // From here the slot may already serve another region; waking its caller early is harmless.
      if (finished == total && caller_sleeps.load(std::memory_order_seq_cst) != 0) cpu::futex_wake(done, 1);
      return true;
    }
  }

  bool run_one() {
    return run_one([](Body body, const void* argument, int64_t begin, int64_t end) { body(argument, begin, end); });
  }

  void open(int64_t total_count, int64_t size, uint32_t total_chunks, Body body, const void* argument) {
    done.store(0, std::memory_order_relaxed);
    count.store(total_count, std::memory_order_release);
    chunk_size.store(size, std::memory_order_release);
    chunks.store(total_chunks, std::memory_order_release);
    chunk.store(body, std::memory_order_release);
    context.store(argument, std::memory_order_release);
    const uint64_t generation = (ticket.load(std::memory_order_relaxed) >> kIndexBits) + 1;
    ticket.store(generation << kIndexBits, std::memory_order_release);
  }

  void close() { ticket.store(ticket.load(std::memory_order_relaxed) | kIndexMask, std::memory_order_release); }

  void wait_done(uint32_t total) {
    for (int spin = 0; spin < kCallerSpins; ++spin) {
      if (done.load(std::memory_order_acquire) == total) return;
      pause_cpu();
    }
    caller_sleeps.store(1, std::memory_order_seq_cst);
    for (;;) {
      const uint32_t finished = done.load(std::memory_order_seq_cst);
      if (finished == total) break;
      cpu::futex_wait(done, finished);
    }
    caller_sleeps.store(0, std::memory_order_relaxed);
  }
};

// Keeps sleeping workers off the CPU of the caller who wakes them. Linux in a virtual machine takes a CPU that its host
// has halted for a busy one, and lets a worker wake where its caller runs: there it waits for the caller's time slice
// to end, while another CPU idles.
class KeepApart {
 public:
  // Of a pool of `threads` made by this thread: there must be a CPU for each.
  void start(int threads) {
    CPU_ZERO(&allowed_);
    enabled_ = sched_getaffinity(0, sizeof allowed_, &allowed_) == 0 && CPU_COUNT(&allowed_) >= threads;
    last_ = allowed_;
  }

  // Takes this thread's CPU from the workers. A program that has set their CPUs itself is left alone from then on.
  void from_this_cpu(std::vector<std::thread>& workers) {
    if (!enabled_.load(std::memory_order_relaxed) || workers.empty()) return;
    const int cpu = sched_getcpu();
    if (cpu < 0 || cpu >= CPU_SETSIZE || cpu == from_.load(std::memory_order_relaxed)) return;
    if (busy_.test_and_set(std::memory_order_acquire)) return;
    cpu_set_t others = allowed_;
    CPU_CLR(cpu, &others);
    for (std::thread& worker : workers) {
      cpu_set_t now;
      if (pthread_getaffinity_np(worker.native_handle(), sizeof now, &now) != 0 || !CPU_EQUAL(&now, &last_) ||
          pthread_setaffinity_np(worker.native_handle(), sizeof others, &others) != 0) {
        enabled_.store(false, std::memory_order_relaxed);
        break;
      }
    }
    last_ = others;
    from_.store(cpu, std::memory_order_relaxed);
    busy_.clear(std::memory_order_release);
  }

 private:
  cpu_set_t allowed_;
  std::atomic<bool> enabled_{false};
  std::atomic_flag busy_;  // guards last_
  cpu_set_t last_;         // the workers' CPUs
  std::atomic<int> from_{-1};
};

class WorkerPool final : public ThreadPool {
 public:
  WorkerPool(bool allow_spinning, const CustomThreads& custom) : allow_spinning_(allow_spinning), custom_(custom) {}

  ~WorkerPool() override {
    stop_.store(true, std::memory_order_seq_cst);
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    cpu::futex_wake(epoch_, kMaxThreads);
    for (std::thread& worker : workers_) worker.join();
    for (void* worker : custom_workers_) custom_.join(worker);
  }

  Status start(int threads) {
    if (custom_.create) return start_custom(threads);
    keep_apart_.start(threads);
    // The application's signals are not for these threads.
    sigset_t all, before;
    sigfillset(&all);
    // A fault of a worker still reaches the application's handler; blocked, it would end the process without a word.
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    Status status;
    try {
      workers_.reserve(threads - 1);
      for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
    } catch (const std::system_error& error) {
      status = resource_exhausted("Thread {} of {} cannot be started: {}.", workers_.size() + 1, threads, error.what());
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    for (std::thread& worker : workers_) pthread_setname_np(worker.native_handle(), "tenon-worker");
    return status;
  }

  int threads() const override { return static_cast<int>(workers_.size() + custom_workers_.size()) + 1; }
  void enter_run() override { runs_.fetch_add(1, std::memory_order_relaxed); }
  void leave_run() override { runs_.fetch_sub(1, std::memory_order_relaxed); }

 protected:
  void for_chunks(int64_t count, int64_t grain, Chunk chunk, const void* context) override {
    if (count <= 0) return;
    grain = std::max<int64_t>(grain, 1);
    const int64_t most = static_cast<int64_t>(threads()) * kChunksPerThread;
    const int64_t grains = (count - 1) / grain + 1;
    const int64_t size = ((grains - 1) / most + 1) * grain;
    const int64_t chunks = (count - 1) / size + 1;
    const int index = chunks > 1 && !inside_chunk ? take_slot() : -1;
    if (index < 0) {
      InsideChunk inside;
      chunk(context, 0, count);
      return;
    }
    Slot& slot = slots_[index];
    std::optional<TracedRegion> traced;
    if (trace_file_enabled()) [[unlikely]] {
      context = &traced.emplace(TracedRegion{chunk, context, TraceSubject::current()});
      chunk = &TracedRegion::run;
    }
    slot.open(count, size, static_cast<uint32_t>(chunks), chunk, context);
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) {
      slot.run_one([&](Body body, const void* argument, int64_t begin, int64_t end) {
        const int64_t probe_end = std::min(end, begin + grain);
        const auto start = std::chrono::steady_clock::now();
        body(argument, begin, probe_end);
        const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
        wake_for(taken.count() * static_cast<double>(count) / static_cast<double>(probe_end - begin) - taken.count(),
                 chunks - 1);
        if (probe_end < end) body(argument, probe_end, end);
      });
    }
    while (slot.run_one()) {
    }
    slot.wait_done(static_cast<uint32_t>(chunks));
    slot.close();
    taken_.fetch_and(~(uint64_t{1} << index), std::memory_order_release);
  }

 private:
  Status start_custom(int threads) {
    custom_workers_.reserve(threads - 1);
    for (int i = 1; i < threads; ++i) {
      void* const worker = custom_.create([](void* pool) { static_cast<WorkerPool*>(pool)->work(); }, this);
      if (worker == nullptr) {
        return resource_exhausted("The application's function made no thread {} of {}.", i + 1, threads);
      }
      custom_workers_.push_back(worker);
    }
    return Status();
  }

  // Wakes as many sleeping workers as `work_ns` of work in at most `chunks` chunks are worth.
  void wake_for(double work_ns, int64_t chunks) {
    const int sleepers = sleepers_.load(std::memory_order_seq_cst), call_ns = call_ns_.load(std::memory_order_relaxed);
    const double each = std::max(kWorthWakingNs, kWorthWakingCalls * call_ns);
    const auto worth = static_cast<int64_t>(std::min(work_ns / each, static_cast<double>(kMaxThreads)));
    const int64_t count = std::min({int64_t{sleepers}, chunks, worth});
    if (count <= 0) return;
    if (runs_.load(std::memory_order_relaxed) <= 1) keep_apart_.from_this_cpu(workers_);  // several callers: in vain
    const auto start = std::chrono::steady_clock::now();
    cpu::futex_wake(epoch_, static_cast<int>(count));
    const auto taken = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start);
    const int one = static_cast<int>(std::min<int64_t>(taken.count() / count, kLongestCallNs));
    call_ns_.store((7 * call_ns + one) / 8, std::memory_order_relaxed);  // several callers may lose one of them
  }

  // A free slot, or -1: then 64 other callers keep the workers busy anyway.
  int take_slot() {
    uint64_t taken = taken_.load(std::memory_order_relaxed);
    for (;;) {
      const int index = std::countr_one(taken);
      if (index >= 64) return -1;
      if (taken_.compare_exchange_weak(taken, taken | (uint64_t{1} << index), std::memory_order_acquire,
                                       std::memory_order_relaxed))
        return index;
    }
  }

  bool run_anything() {
    bool ran = false;
    for (uint64_t taken = taken_.load(std::memory_order_acquire); taken != 0; taken &= taken - 1) {
      Slot& slot = slots_[std::countr_zero(taken)];
      while (slot.run_one()) ran = true;
    }
    return ran;
  }

  void work() {
    for (;;) {
      const uint32_t epoch = epoch_.load(std::memory_order_seq_cst);
      if (run_anything()) continue;
      if (stop_.load(std::memory_order_seq_cst)) return;
      if (spin_until_changed(epoch)) continue;
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      cpu::futex_wait(epoch_, epoch);  // returns at once if a region was opened since
      sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    }
  }

  bool spin_until_changed(uint32_t epoch) const {
    if (!allow_spinning_) return false;
    for (int spin = 0; spin < kWorkerSpins && runs_.load(std::memory_order_relaxed) > 0; ++spin) {
      if (epoch_.load(std::memory_order_acquire) != epoch) return true;
      pause_cpu();
    }
    return false;
  }

  const bool allow_spinning_;
  const CustomThreads custom_;
  std::vector<void*> custom_workers_;
  std::vector<std::thread> workers_;
  KeepApart keep_apart_;
  std::array<Slot, 64> slots_;
  alignas(64) std::atomic<uint64_t> taken_{0};  // bit i: slot i is in use
  alignas(64) std::atomic<uint32_t> epoch_{0};  // counts opened regions; parked workers sleep on it
  alignas(64) std::atomic<int> sleepers_{0};
  alignas(64) std::atomic<int> runs_{0};
  std::atomic<int> call_ns_{0};  // that waking a worker takes, on average of late
  std::atomic<bool> stop_{false};
};

}  // namespace

Result<std::shared_ptr<ThreadPool>> ThreadPool::create(const ThreadPoolOptions& options) {
  return make_thread_pool(options, {});
}

Result<std::shared_ptr<ThreadPool>> make_thread_pool(const ThreadPoolOptions& options, const CustomThreads& custom) {
  TENON_INVALID_IF(options.threads < 0 || options.threads > kMaxThreads,
                   "The number of threads ({}) is not in [0, {}].", options.threads, kMaxThreads);
  TENON_INVALID_IF(!custom.create != !custom.join,
                   "Of the functions that create and join a thread, only one is given.");
  const int threads = options.threads == 0 ? usable_cpus() : options.threads;
  if (threads == 1) return std::shared_ptr<ThreadPool>(std::make_shared<SerialPool>());
  auto pool = std::make_shared<WorkerPool>(options.allow_spinning, custom);
  TENON_TRY(pool->start(threads));
  return std::shared_ptr<ThreadPool>(std::move(pool));
}

}  // namespace tenon
