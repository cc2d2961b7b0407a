#include "ep/cuda/rank_options.h"

#include <gtest/gtest.h>

#include "base/system.h"
#include "base/testing.h"
#include "ep/cuda/cuda_options.h"

namespace tenon::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Texts = std::vector<std::pair<std::string, std::string>>;

// Sets the test's variables and removes all others of ranks; the end removes the test's too.
class OptionsOfRanks : public ::testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }

  static Result<RankOptions> read(const Texts& environment, const Texts& options) {
    clear();
    for (const auto& [name, value] : environment) set_environment_variable(name.c_str(), value.c_str());
    constexpr std::string_view kPrefixes[] = {"ep.cuda."};
    TENON_TRY_ASSIGN(const CudaOptions parsed, CudaOptions::parse(kPrefixes, options));
    return parsed.ranks;
  }

 private:
  static void clear() {
    for (const char* name :
         {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
          "PMI_RANK", "PMI_SIZE", "MASTER_ADDR", "MASTER_PORT", "RANK0_IP", "RANK0_PORT"})
      set_environment_variable(name, nullptr);
  }
};

TEST_F(OptionsOfRanks, WithoutAWordThereIsOne) {
  const auto ranks = read({}, {});
  ASSERT_THAT(ranks, is_ok());
  EXPECT_FALSE(ranks->given);
  EXPECT_EQ(ranks->ranks, 1);
  EXPECT_EQ(read({}, {{"ep.cuda.collective_world_size", "1"}})->given, true);
}

TEST_F(OptionsOfRanks, ComeFromTheOptions) {
  const auto ranks = read({}, {{"ep.cuda.collective_rank", "1"},
                               {"ep.cuda.collective_world_size", "4"},
                               {"ep.cuda.collective_rendezvous", "/tmp/place"},
                               {"ep.cuda.collective_timeout_ms", "1500"}});
  ASSERT_THAT(ranks, is_ok());
  EXPECT_EQ(ranks->who(), "rank 1 of 4");
  EXPECT_EQ(ranks->meeting_place, "/tmp/place");
  EXPECT_EQ(ranks->timeout_ms, 1500);
}

TEST_F(OptionsOfRanks, ComeFromLaunchers) {
  const auto torchrun = read({{"RANK", "2"},
                              {"WORLD_SIZE", "3"},
                              {"LOCAL_RANK", "0"},
                              {"LOCAL_WORLD_SIZE", "1"},
                              {"MASTER_ADDR", "node"},
                              {"MASTER_PORT", "29500"}},
                             {});
  ASSERT_THAT(torchrun, is_ok());
  EXPECT_EQ(torchrun->who(), "rank 2 of 3");
  EXPECT_EQ(torchrun->meeting_place, "node:29501");
  EXPECT_EQ(read({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}, {})->who(), "rank 1 of 2");
  EXPECT_EQ(read({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, {})->who(), "rank 0 of 2");
  const auto onnxruntime = read({{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}}, {});
  EXPECT_EQ(onnxruntime->who(), "rank 1 of 2");
  EXPECT_EQ(onnxruntime->meeting_place, "localhost:18888");
  EXPECT_EQ(read({{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}, {"RANK0_IP", "::1"}, {"RANK0_PORT", "7"}}, {})
                ->meeting_place,
            "::1:7");
}

TEST_F(OptionsOfRanks, OptionsOutweighTheEnvironment) {
  const Texts launched = {{"RANK", "2"}, {"WORLD_SIZE", "3"}};
  EXPECT_EQ(read(launched, {{"ep.cuda.collective_world_size", "1"}, {"ep.cuda.collective_rank", "0"}})->who(),
            "rank 0 of 1");
  EXPECT_EQ(read(launched, {{"ep.cuda.collective_rank", "1"}})->who(), "rank 1 of 3");
  EXPECT_EQ(read(launched, {{"ep.cuda.collective_rendezvous", "host:1"}})->meeting_place, "host:1");
}

TEST_F(OptionsOfRanks, ContradictionsNameTheirValues) {
  EXPECT_THAT(read({}, {{"ep.cuda.collective_rank", "1"}}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("without \"collective_world_size\"")));
  EXPECT_THAT(read({}, {{"ep.cuda.collective_world_size", "2"}}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("is 2 without \"collective_rank\"")));
  EXPECT_THAT(read({}, {{"ep.cuda.collective_world_size", "2"}, {"ep.cuda.collective_rank", "2"}}),
              has_status(StatusCode::kInvalidArgument, AllOf(HasSubstr("is 2, and"), HasSubstr("size\" is 2"))));
  EXPECT_THAT(read({}, {{"ep.cuda.collective_world_size", "2"}, {"ep.cuda.collective_rank", "0"}}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("no place to meet")));
  EXPECT_THAT(read({}, {{"ep.cuda.collective_world_size", "0"}}), has_status(StatusCode::kInvalidArgument));
}

// A launcher's variables are no business of a model without collectives.
TEST_F(OptionsOfRanks, WhatIsWrongWithTheEnvironmentIsKept) {
  for (const Texts& wrong : {Texts{{"RANK", "3"}, {"WORLD_SIZE", "3"}}, Texts{{"RANK", "a"}, {"WORLD_SIZE", "3"}}}) {
    const auto ranks = read(wrong, {});
    ASSERT_THAT(ranks, is_ok());
    EXPECT_THAT(ranks->wrong,
                has_status(StatusCode::kInvalidArgument, HasSubstr("RANK = \"" + wrong[0].second + "\"")));
  }
  EXPECT_FALSE(read({{"RANK", "1"}}, {})->given);
}

}  // namespace
}  // namespace tenon::cuda
