#include "ep/cuda/cuda_options.h"

#include <gtest/gtest.h>

#include "base/testing.h"

namespace tenon::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Entries = std::vector<std::pair<std::string, std::string>>;

Result<CudaOptions> parse(const Entries& entries) {
  constexpr std::string_view kPrefixes[] = {"ep.tenoncudaexecutionprovider.", "ep.cuda."};
  return CudaOptions::parse(kPrefixes, entries);
}

// S4.4, S4.5: what is wrong, and the words that the message must have.
struct Refused {
  Entries entries;
  std::vector<std::string> words;
};

TEST(CudaOptions, BadOptionsAreRefusedByName) {
  const Refused cases[] = {
      {{{"ep.cuda.user_compute_stream", "banana"}}, {"user_compute_stream", "banana", "0x"}},
      {{{"ep.cuda.user_compute_stream", "-1"}}, {"user_compute_stream", "-1"}},
      {{{"ep.cuda.user_compute_steam", "1"}}, {"user_compute_steam", "close ones are", "\"user_compute_stream\""}},
      {{{"ep.cuda.enable_cuda_graph", "maybe"}}, {"enable_cuda_graph", "maybe"}},
      {{{"ep.cuda.gpu_mem_limit", "much"}}, {"gpu_mem_limit", "much"}},
      {{{"ep.cuda.cudnn_conv_algo_search", "BEST"}}, {"cudnn_conv_algo_search", "EXHAUSTIVE|HEURISTIC|DEFAULT"}},
      {{{"ep.cuda.gpu_external_alloc", "4096"}}, {"gpu_external_alloc", "without \"gpu_external_free\""}},
      {{{"ep.cuda.gpu_external_free", "4096"}}, {"gpu_external_free", "without \"gpu_external_alloc\""}},
      {{{"ep.cuda.gpu_external_empty_cache", "4096"}}, {"gpu_external_empty_cache", "gpu_external_alloc"}},
      {{{"ep.cuda.user_compute_stream", "4096"},
        {"ep.cuda.gpu_external_alloc", "4096"},
        {"ep.cuda.gpu_external_free", "4096"}},
       {"user_compute_stream", "gpu_external_alloc", "exclude each other"}},
      {{{"ep.cuda.has_user_compute_stream", "1"}, {"ep.cuda.enable_cuda_graph", "1"}},
       {"enable_cuda_graph", "user_compute_stream", "legacy default stream"}},
      {{{"ep.cuda.user_compute_stream", "1"}, {"ep.cuda.enable_cuda_graph", "1"}}, {"legacy default stream"}},
      {{{"ep.cuda.has_user_compute_stream", "0"}, {"ep.cuda.user_compute_stream", "4096"}},
       {"has_user_compute_stream", "0x1000"}},
  };
  for (const Refused& refused : cases) {
    const auto options = parse(refused.entries);
    ASSERT_THAT(options, has_status(StatusCode::kInvalidArgument)) << refused.entries[0].first;
    for (const std::string& word : refused.words) EXPECT_THAT(options.status().message(), HasSubstr(word));
  }
}

// S4.1: a flag alone means CUDA's default stream, a pointer alone implies the flag; decimal or hex.
TEST(CudaOptions, TheUsersStreamIsReadInEveryForm) {
  EXPECT_FALSE(parse({}).value().user_stream.has_value());
  EXPECT_EQ(parse({{"ep.cuda.has_user_compute_stream", "1"}}).value().user_stream, 0U);
  EXPECT_EQ(parse({{"ep.cuda.user_compute_stream", "4096"}}).value().user_stream, 4096U);
  EXPECT_EQ(parse({{"ep.cuda.user_compute_stream", "0xFf00"}}).value().user_stream, 0xff00U);
  EXPECT_FALSE(parse({{"ep.cuda.user_compute_stream", "0"}}).value().user_stream.has_value());
}

// S4.5: bare, as the host prefixes them, and with ONNX Runtime's prefix.
TEST(CudaOptions, KeysMayCarryEitherPrefixOrBoth) {
  for (const char* key : {"ep.tenoncudaexecutionprovider.use_tf32", "ep.cuda.use_tf32",
                          "ep.tenoncudaexecutionprovider.ep.cuda.use_tf32", "EP.CUDA.USE_TF32"}) {
    EXPECT_FALSE(parse({{key, "0"}}).value().tf32) << key;
  }
  EXPECT_TRUE(parse({{"session.use_tf32", "0"}, {"ep.other.use_tf32", "0"}}).value().tf32);
}

// S4.2
TEST(CudaOptions, AUserStreamAndAnExternalAllocatorForceOneStream) {
  EXPECT_FALSE(parse({}).value().unified_stream);
  EXPECT_TRUE(parse({{"ep.cuda.use_ep_level_unified_stream", "1"}}).value().unified_stream);
  EXPECT_TRUE(parse({{"ep.cuda.user_compute_stream", "4096"}}).value().unified_stream);
  EXPECT_TRUE(
      parse({{"ep.cuda.gpu_external_alloc", "4096"}, {"ep.cuda.gpu_external_free", "8192"}}).value().unified_stream);
}

// S4.4: graphs on a stream that can be captured are allowed, the per-thread default stream among them.
TEST(CudaOptions, GraphsRunOnAUsersStream) {
  EXPECT_THAT(parse({{"ep.cuda.user_compute_stream", "4096"}, {"ep.cuda.enable_cuda_graph", "1"}}), is_ok());
  EXPECT_THAT(parse({{"ep.cuda.user_compute_stream", "2"}, {"ep.cuda.enable_cuda_graph", "1"}}), is_ok());
}

TEST(CudaOptions, AMemoryLimitOfZeroIsNone) {
  EXPECT_EQ(parse({}).value().memory_limit_bytes, SIZE_MAX);
  EXPECT_EQ(parse({{"ep.cuda.gpu_mem_limit", "0"}}).value().memory_limit_bytes, SIZE_MAX);
  EXPECT_EQ(parse({{"ep.cuda.gpu_mem_limit", "1024"}}).value().memory_limit_bytes, 1024U);
}

}  // namespace
}  // namespace tenon::cuda
