// Plans with exchanges over the fake driver, with the fake NCCL, whose ranks are threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "ep/cuda/compute/plan.h"
#include "ep/cuda/fake/fake_cuda.h"
#include "ep/cuda/fake/fake_nccl.h"
#include "graph/schema.h"
#include "ops/collective.h"
#include "plan/testing.h"

namespace tenon::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Exchanges one after the other.
Graph exchanges(const std::string& op_type, int64_t elements, int64_t ranks, int count) {
  plan_testing::GraphBuilder builder;
  ValueId x = builder.input("x", {{elements, {}}}, DataType::kFloat);
  for (int i = 0; i < count; ++i) x = builder.node(op_type, {x}, format("y{}", i), DataType::kFloat);
  for (Node& node : builder.graph.nodes) {
    node.domain = std::string(kContribDomain);
    node.since_version = 1;
    if (op_type != "AllReduce") node.set_int("group_size", ranks);
    if (op_type == "AllGather") node.set_int("axis", 0);
  }
  builder.output(x);
  EXPECT_THAT(give_ranks(builder.graph, ranks), is_ok());
  return std::move(builder.graph);
}

class PinnedMemory final : public plugin::ScratchSource {
 public:
  const CudaDevice* device = nullptr;
  Result<void*> allocate(size_t size_bytes) override {
    void* memory = nullptr;
    TENON_CUDA_TRY(fake::driver(), MemHostAlloc, &memory, size_bytes, 0);
    return memory;
  }
  void free(void* memory) override {
    const Result<ContextScope> scope = ContextScope::enter(*device);
    (void)fake::driver().MemFreeHost(memory);
  }
};

class Exchanges : public ::testing::Test {
 protected:
  static constexpr int kRanks = 2;
  void SetUp() override { fake::configure({.devices = kRanks}); }
  void TearDown() override {
    EXPECT_THAT(fake::take_violations(), ElementsAre());
    EXPECT_EQ(fake::live_communicators(), 0);
    fake::configure({});
  }

  // A rank's plan, with its tensors and stream. Everything in here is released by the thread that made it.
  struct Rank {
    int rank = 0;
    std::shared_ptr<CudaDevice> device;
    std::shared_ptr<Communicator> communicator;
    PinnedMemory memory;
    std::shared_ptr<ComputeContext> context;
    std::shared_ptr<ComputeRegion> region;
    std::shared_ptr<ComputePlan> plan;
    CUstream stream = nullptr;
    float *x = nullptr, *y = nullptr;

    Status run() {
      const auto in = reinterpret_cast<CUdeviceptr>(x), out = reinterpret_cast<CUdeviceptr>(y);
      return plan->run(std::span(&in, 1), std::span(&out, 1), stream);
    }
    void synchronize() { ASSERT_EQ(fake::driver().StreamSynchronize(stream), CUDA_SUCCESS); }
  };

  // Runs `work` with the plan of each rank, on a thread for each.
  void run(const std::string& op_type, int64_t elements, int count, const std::function<void(Rank&)>& work,
           int64_t timeout_ms = 20'000) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([&, rank] {
        Rank own{.rank = rank};
        own.device = *CudaDevice::open(fake::driver(), rank);
        const auto scope = ContextScope::enter(*own.device);
        ASSERT_TRUE(scope.ok());
        own.communicator = std::make_shared<Communicator>(
            own.device,
            RankOptions{
                .rank = rank, .ranks = kRanks, .given = true, .meeting_place = place_, .timeout_ms = timeout_ms},
            nullptr);
        own.memory.device = own.device.get();
        const auto scratch = std::make_shared<PinnedMemory>();
        scratch->device = own.device.get();
        auto context =
            ComputeContext::create(own.device, scratch, {.libraries = false, .communicator = own.communicator});
        ASSERT_THAT(context, is_ok());
        own.context = *context;
        ASSERT_THAT(own.communicator->start(fake::nccl(fake::driver())), is_ok());
        auto region = ComputeRegion::create(own.context, exchanges(op_type, elements, kRanks, count));
        ASSERT_THAT(region, is_ok());
        own.region = std::move(*region);
        auto plan = own.region->plan(std::vector<Shape>{Shape{elements}});
        ASSERT_THAT(plan, is_ok());
        own.plan = std::move(*plan);
        const size_t bytes = sizeof(float) * own.plan->output_shape(0).element_count();
        own.x = static_cast<float*>(*own.memory.allocate(sizeof(float) * elements));
        own.y = static_cast<float*>(*own.memory.allocate(bytes));
        ASSERT_EQ(fake::driver().StreamCreateWithPriority(&own.stream, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
        work(own);
        own.synchronize();
        ASSERT_EQ(fake::driver().StreamDestroy(own.stream), CUDA_SUCCESS);
        for (float* memory : {own.x, own.y}) own.memory.free(memory);
      });
    for (std::thread& thread : threads) thread.join();
  }

  const std::string place_ = ::testing::TempDir() + format("tenon_exchanges_{}", ::getpid());
};

// The first run is queued, the second one captured, and all further ones are launches of that graph.
TEST_F(Exchanges, AreCapturedWithTheRestOfAPlan) {
  run("AllReduce", 3, 2, [](Rank& own) {
    for (int turn = 0; turn < 5; ++turn) {
      for (int i = 0; i < 3; ++i) own.x[i] = static_cast<float>(10 * turn + i + own.rank);
      ASSERT_THAT(own.run(), is_ok());
      own.synchronize();
      for (int i = 0; i < 3; ++i) EXPECT_EQ(own.y[i], static_cast<float>(2 * (2 * (10 * turn + i) + 1))) << turn;
    }
    EXPECT_EQ(own.plan->stats().captured, 1U);
    EXPECT_EQ(own.plan->stats().launched, 4U);
  });
}

TEST_F(Exchanges, GatherAndSpread) {
  run("AllGather", 2, 1, [](Rank& own) {
    for (int turn = 0; turn < 3; ++turn) {
      own.x[0] = static_cast<float>(turn + 10 * own.rank);
      own.x[1] = own.x[0] + 1;
      ASSERT_THAT(own.run(), is_ok());
      own.synchronize();
      const auto at = static_cast<float>(turn);
      EXPECT_THAT(std::vector<float>(own.y, own.y + 4), ElementsAre(at, at + 1, at + 10, at + 11));
    }
  });
  run("AllToAll", 4, 1, [](Rank& own) {
    for (int turn = 0; turn < 3; ++turn) {
      for (int i = 0; i < 4; ++i) own.x[i] = static_cast<float>(100 * turn + 10 * own.rank + i);
      ASSERT_THAT(own.run(), is_ok());
      own.synchronize();
      const auto at = static_cast<float>(100 * turn + 2 * own.rank);
      EXPECT_THAT(std::vector<float>(own.y, own.y + 4), ElementsAre(at, at + 1, at + 10, at + 11));
    }
  });
}

// Making a plan runs its kernels, but the other ranks may have theirs already.
TEST_F(Exchanges, PlansAreMadeWithoutTheOtherRanks) {
  run("AllReduce", 3, 1, [&](Rank& own) {
    if (own.rank == 1) {
      auto region = ComputeRegion::create(own.context, exchanges("AllReduce", 5, kRanks, 1));
      ASSERT_THAT(region, is_ok());
      ASSERT_THAT((*region)->plan(std::vector<Shape>{Shape{5}}), is_ok());
    }
    own.x[0] = own.x[1] = own.x[2] = 1;
    ASSERT_THAT(own.run(), is_ok());
    own.synchronize();
    EXPECT_EQ(own.y[2], 2);
  });
}

// A rank that ends, or never runs, must not keep another one from ending; captured or not.
TEST_F(Exchanges, ReleaseOfAPlanThatWaitsForARankDoesNotHang) {
  for (const int runs_together : {1, 2}) {
    const int64_t began = monotonic_ns();
    run("AllReduce", 3, 1, [&](Rank& own) {
      for (int i = 0; i < runs_together; ++i) {
        ASSERT_THAT(own.run(), is_ok());
        own.synchronize();
      }
      if (own.rank == 1) return;
      ASSERT_THAT(own.run(), is_ok());
      EXPECT_EQ(fake::driver().StreamQuery(own.stream), CUDA_ERROR_NOT_READY);
      own.region = nullptr;
      own.plan = nullptr;
      EXPECT_THAT(own.communicator->ready(), has_status(StatusCode::kDeviceError, HasSubstr("given up")));
    });
    EXPECT_LT(monotonic_ns() - began, 6'000'000'000);
  }
}

}  // namespace
}  // namespace tenon::cuda
