#include <dirent.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/types.h>
#include <tenon/thread_pool.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace tenon {
namespace {

std::shared_ptr<ThreadPool> make_pool(int threads, bool allow_spinning = true) {
  return ThreadPool::create({.threads = threads, .allow_spinning = allow_spinning}).value();
}

void work_for(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

// Every index exactly once, chunks of at least the grain but for the last.
void expect_covers_once(ThreadPool& pool, int64_t count, int64_t grain) {
  std::vector<std::atomic<int>> seen(count);
  std::atomic<int> short_chunks{0};
  pool.parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    if (end - begin < grain && end != count) ++short_chunks;
    for (int64_t i = begin; i < end; ++i) ++seen[i];
  });
  EXPECT_EQ(short_chunks, 0) << count << " by " << grain;
  for (int64_t i = 0; i < count; ++i) ASSERT_EQ(seen[i], 1) << i << " of " << count;
}

TEST(ThreadPool, RefusesNegativeAndAbsurdThreadCounts) {
  EXPECT_EQ(ThreadPool::create({.threads = -1}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ThreadPool::create({.threads = 100000}).status().code(), StatusCode::kInvalidArgument);
}

TEST(ThreadPool, CountsTheCallerAmongItsThreads) {
  EXPECT_EQ(make_pool(1)->threads(), 1);
  EXPECT_EQ(make_pool(3)->threads(), 3);
  EXPECT_GE(make_pool(0)->threads(), 1);
}

TEST(ThreadPool, CoversEveryIndexOnce) {
  for (int threads : {1, 2, 5}) {
    for (bool allow_spinning : {true, false}) {
      const auto pool = make_pool(threads, allow_spinning);
      pool->enter_run();
      for (int64_t count : {0, 1, 2, 7, 16, 17, 100, 1001})
        for (int64_t grain : {1, 2, 16, 100, 5000}) expect_covers_once(*pool, count, grain);
      pool->leave_run();
      expect_covers_once(*pool, 333, 1);  // outside a run too
    }
  }
}

TEST(ThreadPool, OneThreadRunsEverythingOnTheCallerInOneChunk) {
  const auto pool = make_pool(1);
  int calls = 0;
  pool->parallel_for(1000, 1, [&](int64_t begin, int64_t end) {
    ++calls;
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 1000);
  });
  EXPECT_EQ(calls, 1);
}

TEST(ThreadPool, NestedRegionsRunOnTheCallingThread) {
  const auto pool = make_pool(4);
  std::atomic<int> total{0};
  std::atomic<int> foreign{0};
  pool->parallel_for(32, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto me = std::this_thread::get_id();
      pool->parallel_for(10, 1, [&](int64_t b, int64_t e) {
        if (std::this_thread::get_id() != me) ++foreign;
        total += static_cast<int>(e - b);
      });
    }
  });
  EXPECT_EQ(total, 320);
  EXPECT_EQ(foreign, 0);
}

// Work that is done before a worker has woken wakes none.
TEST(ThreadPool, LittleWorkStaysOnTheCaller) {
  const auto pool = make_pool(4);
  const auto me = std::this_thread::get_id();
  std::atomic<int> foreign{0};
  // A time slice lost in the first chunk looks like much work, so a loaded machine gets further attempts.
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // all workers sleep
    foreign = 0;
    for (int round = 0; round < 100; ++round)
      pool->parallel_for(64, 16, [&](int64_t, int64_t) {
        if (std::this_thread::get_id() != me) ++foreign;
      });
    if (foreign < 40) break;
  }
  EXPECT_LT(foreign, 40) << "of 400";
}

// A worker that has claimed nothing is never waited for: the caller finishes while the only worker is stuck elsewhere.
TEST(ThreadPool, FinishesWhileAllWorkersAreBusyForAnotherCaller) {
  const auto pool = make_pool(2);
  std::atomic<bool> worker_stuck{false}, release{false};
  std::thread other([&] {
    const auto me = std::this_thread::get_id();
    while (!worker_stuck)
      pool->parallel_for(16, 1, [&](int64_t, int64_t) {
        if (std::this_thread::get_id() == me) return work_for(std::chrono::microseconds(50));
        worker_stuck = true;
        while (!release) std::this_thread::yield();
      });
  });
  while (!worker_stuck) std::this_thread::yield();
  expect_covers_once(*pool, 1000, 1);
  release = true;
  other.join();
}

// The pool is shared by sessions: 16 callers at once, each with its own sums to get right. Also run under tsan.
TEST(ThreadPool, SixteenCallersAtOnce) {
  for (bool allow_spinning : {true, false}) {
    const auto pool = make_pool(3, allow_spinning);
    std::vector<std::thread> callers;
    std::atomic<int> wrong{0};
    for (int caller = 0; caller < 16; ++caller) {
      callers.emplace_back([&, caller] {
        for (int round = 0; round < 200; ++round) {
          std::vector<int64_t> out(50 + caller + round, 0);
          const auto count = static_cast<int64_t>(out.size());
          pool->enter_run();
          for (int region = 0; region < 3; ++region)
            pool->parallel_for(count, 1 + region, [&](int64_t begin, int64_t end) {
              for (int64_t i = begin; i < end; ++i) out[i] += i * caller;
            });
          pool->leave_run();
          const int64_t sum = std::accumulate(out.begin(), out.end(), int64_t{0});
          if (sum != 3 * caller * (count * (count - 1) / 2)) ++wrong;
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(wrong, 0);
  }
}

// More callers than slots: those without one work alone.
TEST(ThreadPool, HundredCallersAtOnce) {
  const auto pool = make_pool(2);
  std::atomic<int64_t> total{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 100; ++caller)
    callers.emplace_back([&] {
      for (int round = 0; round < 20; ++round)
        pool->parallel_for(40, 1, [&](int64_t begin, int64_t end) { total += end - begin; });
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 100 * 20 * 40);
}

TEST(ThreadPool, ManyShortLives) {
  for (int i = 0; i < 100; ++i) {
    const auto pool = make_pool(4);
    if (i % 2 == 0) expect_covers_once(*pool, 64, 1);
  }
}

// Workers are parked outside runs: an idle pool costs no CPU time.
TEST(ThreadPool, IdleWorkersBurnNoTime) {
  const auto pool = make_pool(4);
  const auto cpu_ms = [] {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
  };
  pool->enter_run();
  expect_covers_once(*pool, 1000, 1);
  pool->leave_run();
  // Workers look for further work before they park; on a loaded machine that takes until they get their time slices.
  double used_ms = 200;
  for (int attempt = 0; attempt < 50 && used_ms >= 40; ++attempt) {
    const double before = cpu_ms();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    used_ms = cpu_ms() - before;
  }
  EXPECT_LT(used_ms, 40.0);
}

// Which CPUs a thread may use, by its number in /proc; 0 is the calling thread.
cpu_set_t cpus_of(pid_t thread) {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(thread, sizeof set, &set), 0);
  return set;
}

cpu_set_t without(cpu_set_t set, int cpu) {
  CPU_CLR(cpu, &set);
  return set;
}

cpu_set_t only(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return set;
}

// The threads of this process that are named like a pool's workers.
std::vector<pid_t> workers() {
  std::vector<pid_t> found;
  DIR* const folder = opendir("/proc/self/task");
  if (folder == nullptr) return found;
  while (const dirent* const entry = readdir(folder)) {
    const std::string name = entry->d_name;
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file("/proc/self/task/" + name + "/comm");
    std::string comm;
    if (std::getline(file, comm) && comm == "tenon-worker") found.push_back(static_cast<pid_t>(std::stol(name)));
  }
  closedir(folder);
  return found;
}

// Regions with enough work to wake the pool's only worker, until its CPUs are `wanted` or a minute has gone by.
// The pauses let it fall asleep.
void wake_until(ThreadPool& pool, pid_t worker, const cpu_set_t& wanted) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    pool.parallel_for(4, 1, [](int64_t, int64_t) { work_for(std::chrono::microseconds(200)); });
    const cpu_set_t now = cpus_of(worker);
    if (CPU_EQUAL(&now, &wanted)) return;
  } while (std::chrono::steady_clock::now() < end);
  const cpu_set_t now = cpus_of(worker);
  EXPECT_TRUE(CPU_EQUAL(&now, &wanted)) << "a worker with " << CPU_COUNT(&now) << " CPUs";
}

class ThreadPoolCpus : public testing::Test {
 protected:
  void SetUp() override {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &before_)) cpus_.push_back(cpu);
    if (cpus_.size() < 2) GTEST_SKIP() << "This process may use one CPU only.";
    pool_ = make_pool(2);
    for (int i = 0; i < 60'000 && workers().empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_EQ(workers().size(), 1u);
    worker_ = workers()[0];
  }

  void TearDown() override { stay_on(before_); }

  static void stay_on(const cpu_set_t& set) { ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0); }

  const cpu_set_t before_ = cpus_of(0);
  std::vector<int> cpus_;
  std::shared_ptr<ThreadPool> pool_;
  pid_t worker_ = 0;
};

TEST_F(ThreadPoolCpus, AWorkerIsKeptOffTheCpuOfItsCaller) {
  for (const int cpu : {cpus_[0], cpus_[1], cpus_[0]}) {
    stay_on(only(cpu));
    wake_until(*pool_, worker_, without(before_, cpu));
  }
}

TEST_F(ThreadPoolCpus, AWorkerWhoseCpusTheProgramSetIsLeftAlone) {
  const cpu_set_t set = only(cpus_[0]);
  ASSERT_EQ(sched_setaffinity(worker_, sizeof set, &set), 0);
  stay_on(only(cpus_[0]));
  for (int i = 0; i < 20; ++i) wake_until(*pool_, worker_, set);
}

}  // namespace
}  // namespace tenon
