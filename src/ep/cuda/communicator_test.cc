// Over the fake driver, with the fake NCCL; ranks are threads.
#include "ep/cuda/communicator.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "base/testing.h"
#include "ep/cuda/fake/fake_cuda.h"
#include "ep/cuda/fake/fake_nccl.h"

namespace tenon::cuda {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Nccl& library() { return fake::nccl(fake::driver()); }

class Ranks : public ::testing::Test {
 protected:
  void SetUp() override { fake::configure({.devices = 4}); }
  void TearDown() override {
    EXPECT_THAT(fake::take_violations(), ElementsAre());
    fake::configure({});
  }

  std::shared_ptr<Communicator> make(int rank, int ranks, int64_t timeout_ms = 20'000) {
    auto device = CudaDevice::open(fake::driver(), rank);
    EXPECT_THAT(device, is_ok());
    return std::make_shared<Communicator>(
        *device,
        RankOptions{.rank = rank, .ranks = ranks, .given = true, .meeting_place = place_, .timeout_ms = timeout_ms},
        [](const std::string&) {});
  }

  // Runs `work` of each rank on a thread of its own, in the context of its device.
  static void run(int ranks, const std::function<void(int rank)>& work) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        const auto device = CudaDevice::open(fake::driver(), rank);
        ASSERT_THAT(device, is_ok());
        const auto scope = ContextScope::enter(**device);
        ASSERT_TRUE(scope.ok());
        work(rank);
      });
    for (std::thread& thread : threads) thread.join();
  }

  static CUdeviceptr address_of(std::vector<float>& values) { return reinterpret_cast<CUdeviceptr>(values.data()); }

  const std::string place_ = ::testing::TempDir() + format("tenon_ranks_{}", ::getpid());
};

TEST_F(Ranks, ExchangeTensorsInEveryWay) {
  constexpr int kRanks = 3;
  run(kRanks, [&](int rank) {
    const auto ranks = make(rank, kRanks);
    ASSERT_THAT(ranks->start(library()), is_ok());
    ASSERT_THAT(ranks->ready(), is_ok());
    CUstream stream = nullptr;
    ASSERT_EQ(fake::driver().StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
    const auto own = static_cast<float>(rank);
    std::vector<float> x = {own, own + 10, own + 20}, sum(3), all(9), parts(3);
    EXPECT_THAT(ranks->all_reduce(address_of(x), address_of(sum), 3, NcclType::kFloat32, stream), is_ok());
    EXPECT_THAT(ranks->all_gather(address_of(x), address_of(all), 3, NcclType::kFloat32, stream), is_ok());
    EXPECT_THAT(ranks->all_to_all(address_of(x), address_of(parts), 1, NcclType::kFloat32, sizeof(float), stream),
                is_ok());
    // In place.
    EXPECT_THAT(ranks->all_reduce(address_of(x), address_of(x), 3, NcclType::kFloat32, stream), is_ok());
    ASSERT_EQ(fake::driver().StreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_THAT(sum, ElementsAre(3, 33, 63));
    EXPECT_THAT(x, ElementsAre(3, 33, 63));
    EXPECT_THAT(all, ElementsAre(0, 10, 20, 1, 11, 21, 2, 12, 22));
    EXPECT_THAT(parts, ElementsAre(10 * own, 10 * own + 1, 10 * own + 2));
    ASSERT_EQ(fake::driver().StreamDestroy(stream), CUDA_SUCCESS);
  });
  EXPECT_EQ(fake::live_communicators(), 0);
}

// Sessions of one process are made one after the other, by one thread.
TEST_F(Ranks, AreMadeOneAfterTheOther) {
  const auto first = make(0, 2), second = make(1, 2);
  ASSERT_THAT(first->start(library()), is_ok());
  ASSERT_THAT(second->start(library()), is_ok());
  EXPECT_THAT(first->ready(), is_ok());
  EXPECT_THAT(second->ready(), is_ok());
}

TEST_F(Ranks, ThatDoNotComeAreNamedWithTheTime) {
  const auto first = make(0, 3, 200);
  ASSERT_THAT(first->start(library()), is_ok());
  EXPECT_THAT(first->ready(), has_status(StatusCode::kTimeout, AllOf(HasSubstr("Ranks 1 and 2 of 3 have not come"),
                                                                     HasSubstr("rank 0 of 3"), HasSubstr("0.2 s"))));
  const auto second = make(1, 3, 200);
  ASSERT_THAT(second->start(library()), is_ok());
  EXPECT_THAT(second->ready(), has_status(StatusCode::kTimeout, HasSubstr("waits for another rank")));
  EXPECT_THAT(first->ready(), has_status(StatusCode::kTimeout, HasSubstr("Rank 2 of 3 has not come")));
  // One that is late is in time for the next run.
  const auto third = make(2, 3);
  ASSERT_THAT(third->start(library()), is_ok());
  EXPECT_THAT(third->ready(), is_ok());
  const int64_t began = monotonic_ns();
  while (!first->ready().ok() && monotonic_ns() - began < 10'000'000'000) {
  }
  EXPECT_THAT(first->ready(), is_ok());
}

TEST_F(Ranks, ReleaseWithoutTheOthersDoesNotHang) {
  const int64_t began = monotonic_ns();
  {
    ASSERT_THAT(make(1, 2)->start(library()), is_ok());
  }
  {
    ASSERT_THAT(make(0, 2)->start(library()), is_ok());
  }
  EXPECT_LT(monotonic_ns() - began, 2'000'000'000);
}

// Work that waits for a rank which does not take part ends when the communicator is given up.
TEST_F(Ranks, GivingUpEndsTheWorkOfAllLaterRuns) {
  run(2, [&](int rank) {
    const auto ranks = make(rank, 2);
    ASSERT_THAT(ranks->start(library()), is_ok());
    ASSERT_THAT(ranks->ready(), is_ok());
    if (rank == 1) return;
    CUstream stream = nullptr;
    ASSERT_EQ(fake::driver().StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
    std::vector<float> x(4);
    EXPECT_THAT(ranks->all_reduce(address_of(x), address_of(x), 4, NcclType::kFloat32, stream), is_ok());
    EXPECT_EQ(fake::driver().StreamQuery(stream), CUDA_ERROR_NOT_READY);
    ranks->give_up("Rank 1 sleeps.");
    EXPECT_EQ(fake::driver().StreamSynchronize(stream), CUDA_SUCCESS);
    const auto given_up =
        has_status(StatusCode::kDeviceError, AllOf(HasSubstr("given up"), HasSubstr("Rank 1 sleeps.")));
    EXPECT_THAT(ranks->ready(), given_up);
    EXPECT_THAT(ranks->all_reduce(address_of(x), address_of(x), 4, NcclType::kFloat32, stream), given_up);
    ASSERT_EQ(fake::driver().StreamDestroy(stream), CUDA_SUCCESS);
  });
}

TEST_F(Ranks, TheRemarkNamesTheOthers) {
  EXPECT_THAT(make(0, 2)->remark(), HasSubstr("as rank 0 of 2: rank 1 may not"));
  EXPECT_THAT(make(1, 3)->remark(), HasSubstr("as rank 1 of 3: ranks 0 and 2 may not"));
}

}  // namespace
}  // namespace tenon::cuda
