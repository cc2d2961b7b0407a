#include "abi/thread_callbacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "base/guarded.h"
#include "graph/model_writer.h"

namespace tenon::abi {
namespace {

// Each item's data is its number, from 1.
struct Work {
  std::atomic<uintptr_t> enqueued{0};
  std::atomic<int> running{0}, abandoned{0};
  Guarded<std::multiset<uintptr_t>> started, stopped;

  OrtThreadPoolCallbacksConfig config() {
    return {.version = ORT_API_VERSION,
            .on_enqueue = [](void* context) -> void* {
              return reinterpret_cast<void*>(++static_cast<Work*>(context)->enqueued);
            },
            .on_start_work =
                [](void* context, void* data) {
                  auto& work = *static_cast<Work*>(context);
                  ++work.running;
                  work.started.lock()->insert(reinterpret_cast<uintptr_t>(data));
                },
            .on_stop_work =
                [](void* context, void* data) {
                  auto& work = *static_cast<Work*>(context);
                  --work.running;
                  work.stopped.lock()->insert(reinterpret_cast<uintptr_t>(data));
                },
            .on_abandon = [](void* context, void*) { ++static_cast<Work*>(context)->abandoned; },
            .user_context = this};
  }
};

std::shared_ptr<ThreadPool> pool_of(int threads, const OrtThreadPoolCallbacksConfig& config) {
  return make_observed_pool(*ThreadPool::create({.threads = threads}), config);
}

TEST(ThreadCallbacks, EachItemIsEnqueuedStartedAndStoppedOnce) {
  Work work;
  const std::shared_ptr<ThreadPool> pool = pool_of(3, work.config());
  for (const int64_t count : {2, 7, 64, 1000, 100'001}) {
    std::atomic<int64_t> sum{0};
    pool->parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      EXPECT_GT(work.running.load(), 0);
      for (int64_t i = begin; i < end; ++i) sum += i;
    });
    EXPECT_EQ(sum, count * (count - 1) / 2);
    EXPECT_EQ(work.running, 0);
  }
  EXPECT_GT(work.enqueued, 5u);
  std::multiset<uintptr_t> all;
  for (uintptr_t i = 1; i <= work.enqueued; ++i) all.insert(i);
  EXPECT_EQ(*work.started.lock(), all);
  EXPECT_EQ(*work.stopped.lock(), all);
  EXPECT_EQ(work.abandoned, 0);
}

TEST(ThreadCallbacks, CallersInParallelAndRegionsInRegions) {
  Work work;
  const std::shared_ptr<ThreadPool> pool = pool_of(3, work.config());
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int turn = 0; turn < 50; ++turn) {
        pool->parallel_for(8, 1, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i)
            pool->parallel_for(10, 1, [&](int64_t first, int64_t last) { sum += last - first; });
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 50 * 8 * 10);
  EXPECT_EQ(work.enqueued, 4u * 50 * 8) << "the inner regions are not handed to threads";
  EXPECT_EQ(work.started.lock()->size(), work.enqueued);
  EXPECT_EQ(work.stopped.lock()->size(), work.enqueued);
}

TEST(ThreadCallbacks, OneThreadAndOnePieceAreNotTold) {
  Work work;
  int ran = 0;
  pool_of(1, work.config())->parallel_for(100, 1, [&](int64_t begin, int64_t end) {
    ran += static_cast<int>(end - begin);
  });
  pool_of(3, work.config())->parallel_for(100, 1000, [&](int64_t begin, int64_t end) {
    ran += static_cast<int>(end - begin);
  });
  pool_of(3, work.config())->parallel_for(0, 1, [&](int64_t, int64_t) { ++ran; });
  EXPECT_EQ(ran, 200);
  EXPECT_EQ(work.enqueued, 0u);
}

TEST(ThreadCallbacks, MembersMayBeNull) {
  const std::shared_ptr<ThreadPool> pool = pool_of(3, {.version = ORT_API_VERSION});
  std::atomic<int64_t> count{0};
  pool->parallel_for(100, 1, [&](int64_t begin, int64_t end) { count += end - begin; });
  EXPECT_EQ(count, 100);
}

std::string message_of(OrtStatus* status) {
  if (status == nullptr) return "ok";
  std::string text = status->message;
  release_status(status);
  return text;
}

TEST(ThreadCallbacks, SlotChecksItsArguments) {
  OrtEnv* env = nullptr;
  ASSERT_EQ(ort_api::CreateEnv(ORT_LOGGING_LEVEL_ERROR, "callbacks", &env), nullptr);
  Work work;
  OrtThreadPoolCallbacksConfig config = work.config();
  EXPECT_EQ(message_of(ort_api::SetPerSessionThreadPoolCallbacks(env, nullptr)), "config must not be null");
  EXPECT_THAT(message_of(ort_api::SetPerSessionThreadPoolCallbacks(nullptr, &config)), testing::HasSubstr("env"));
  for (const uint32_t version : {0, ORT_API_VERSION + 1}) {
    config.version = version;
    EXPECT_THAT(message_of(ort_api::SetPerSessionThreadPoolCallbacks(env, &config)), testing::HasSubstr("version"));
  }
  config.version = ORT_API_VERSION;
  EXPECT_EQ(message_of(ort_api::SetPerSessionThreadPoolCallbacks(env, &config)), "ok");
  ort_api::ReleaseEnv(env);
}

// A session that is made after the call tells of its runs; one that was made before does not.
TEST(ThreadCallbacks, ARunOfASessionIsTold) {
  namespace w = model_writer;
  const std::string model =
      w::model(w::graph({.nodes = {w::node({.op_type = "Erf", .inputs = {"x"}, .outputs = {"y"}})},
                         .inputs = {w::float_info("x", {"n"})},
                         .outputs = {w::float_info("y", {"n"})}}));
  Work work;
  const OrtThreadPoolCallbacksConfig config = work.config();
  OrtEnv* env = nullptr;
  OrtSessionOptions* options = nullptr;
  OrtSession *before = nullptr, *after = nullptr;
  ASSERT_EQ(ort_api::CreateEnv(ORT_LOGGING_LEVEL_ERROR, "callbacks", &env), nullptr);
  ASSERT_EQ(ort_api::CreateSessionOptions(&options), nullptr);
  ASSERT_EQ(ort_api::SetIntraOpNumThreads(options, 3), nullptr);
  ASSERT_EQ(ort_api::CreateSessionFromArray(env, model.data(), model.size(), options, &before), nullptr);
  ASSERT_EQ(ort_api::SetPerSessionThreadPoolCallbacks(env, &config), nullptr);
  ASSERT_EQ(ort_api::CreateSessionFromArray(env, model.data(), model.size(), options, &after), nullptr);
  OrtAllocator* allocator = nullptr;
  OrtValue* x = nullptr;
  const int64_t dims[] = {1 << 20};
  ASSERT_EQ(ort_api::GetAllocatorWithDefaultOptions(&allocator), nullptr);
  ASSERT_EQ(ort_api::CreateTensorAsOrtValue(allocator, dims, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &x), nullptr);
  for (OrtSession* session : {before, after}) {
    EXPECT_EQ(work.enqueued, 0u);
    const char *input = "x", *output = "y";
    OrtValue* y = nullptr;
    ASSERT_EQ(ort_api::Run(session, nullptr, &input, &x, 1, &output, 1, &y), nullptr);
    ort_api::ReleaseValue(y);
  }
  EXPECT_GT(work.enqueued, 1u);
  EXPECT_EQ(work.stopped.lock()->size(), work.enqueued);
  ort_api::ReleaseValue(x);
  ort_api::ReleaseSession(before);
  ort_api::ReleaseSession(after);
  ort_api::ReleaseSessionOptions(options);
  ort_api::ReleaseEnv(env);
}

}  // namespace
}  // namespace tenon::abi
