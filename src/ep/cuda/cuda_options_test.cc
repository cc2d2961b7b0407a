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
      {{{"ep.cuda.gpu_mem_limit", "18446744073709551616"}}, {"gpu_mem_limit", "18446744073709551615"}},
      {{{"ep.cuda.gpu_mem_limit", "-1"}}, {"gpu_mem_limit", "-1"}},
      {{{"ep.cuda.arena_extend_strategy", "kTwice"}}, {"arena_extend_strategy", "kNextPowerOfTwo|kSameAsRequested"}},
      {{{"ep.cuda.sdpa_kernel", "flash"}}, {"sdpa_kernel", "flash"}},
      {{{"ep.cuda.tunable_op_enabel", "1"}}, {"tunable_op_enabel", "\"tunable_op_enable\""}},
      {{{"ep.cuda.fuse_conv_bias", "perhaps"}}, {"fuse_conv_bias", "perhaps"}},
      {{{"use_tf32", "perhaps"}}, {"use_tf32", "perhaps"}},
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

// All that get_provider_options() of onnxruntime-gpu 1.23 prints of its CUDA EP, which changes nothing here.
const Entries kPrintedByStock = {{"sdpa_kernel", "0"},
                                 {"use_tf32", "1"},
                                 {"fuse_conv_bias", "0"},
                                 {"prefer_nhwc", "0"},
                                 {"tunable_op_max_tuning_duration_ms", "0"},
                                 {"enable_skip_layer_norm_strict_mode", "0"},
                                 {"tunable_op_tuning_enable", "0"},
                                 {"tunable_op_enable", "0"},
                                 {"use_ep_level_unified_stream", "0"},
                                 {"device_id", "0"},
                                 {"has_user_compute_stream", "0"},
                                 {"gpu_external_empty_cache", "0"},
                                 {"cudnn_conv_algo_search", "EXHAUSTIVE"},
                                 {"cudnn_conv1d_pad_to_nc1d", "0"},
                                 {"gpu_mem_limit", "18446744073709551615"},
                                 {"gpu_external_alloc", "0"},
                                 {"gpu_external_free", "0"},
                                 {"arena_extend_strategy", "kNextPowerOfTwo"},
                                 {"do_copy_in_default_stream", "1"},
                                 {"enable_cuda_graph", "0"},
                                 {"user_compute_stream", "0"},
                                 {"cudnn_conv_use_max_workspace", "1"}};

TEST(CudaOptions, TheDefaultsOfOnnxRuntimeLoadWithoutAWarning) {
  for (const char* prefix : {"ep.cuda.", "ep.tenoncudaexecutionprovider.", ""}) {
    Entries entries;
    for (const auto& [key, value] : kPrintedByStock) entries.emplace_back(prefix + key, value);
    const auto options = parse(entries);
    ASSERT_THAT(options, is_ok());
    EXPECT_THAT(options->warnings, ::testing::IsEmpty());
    EXPECT_EQ(options->memory_limit_bytes, SIZE_MAX);
    EXPECT_FALSE(options->user_stream || options->unified_stream || options->external_allocator.given());
  }
  // False and True are what Python makes of its own.
  EXPECT_THAT(parse({{"ep.cuda.fuse_conv_bias", "False"}, {"ep.cuda.cudnn_conv_use_max_workspace", "True"}})->warnings,
              ::testing::IsEmpty());
}

TEST(CudaOptions, OneWarningListsWhatHasNoEffect) {
  const auto options = parse({{"ep.cuda.arena_extend_strategy", "kSameAsRequested"},
                              {"ep.cuda.cudnn_conv_use_max_workspace", "0"},
                              {"ep.cuda.cudnn_conv1d_pad_to_nc1d", "1"},
                              {"ep.cuda.enable_skip_layer_norm_strict_mode", "1"},
                              {"ep.cuda.fuse_conv_bias", "1"},
                              {"ep.cuda.min_num_runs_before_cuda_graph_capture", "5"},
                              {"ep.cuda.prefer_nhwc", "1"},
                              {"ep.cuda.prefer_nhwc_layout", "true"},
                              {"ep.cuda.sdpa_kernel", "2"},
                              {"ep.cuda.tunable_op_enable", "1"},
                              {"ep.cuda.tunable_op_tuning_enable", "1"},
                              {"ep.cuda.tunable_op_max_tuning_duration_ms", "10"},
                              {"ep.cuda.use_tf32", "0"}});
  ASSERT_THAT(options, is_ok());
  ASSERT_EQ(options->warnings.size(), 1U);
  EXPECT_THAT(options->warnings[0], AllOf(HasSubstr("\"arena_extend_strategy\" = \"kSameAsRequested\", "),
                                          HasSubstr("\"sdpa_kernel\" = \"2\""), HasSubstr("\"prefer_nhwc_layout\""),
                                          HasSubstr("max_tuning_duration_ms\" = \"10\" have no effect"),
                                          ::testing::Not(HasSubstr("use_tf32"))));
}

// ONNX Runtime's plugin has two names for it, and numbers.
TEST(CudaOptions, TheSearchOfConvolutionsHasTwoNames) {
  EXPECT_EQ(parse({{"ep.cuda.cudnn_conv_algo", "1"}})->conv_search, "HEURISTIC");
  EXPECT_EQ(parse({{"ep.cuda.cudnn_conv_algo", "DEFAULT"}})->conv_search, "DEFAULT");
  EXPECT_EQ(parse({{"ep.cuda.cudnn_conv_algo", "2"}, {"ep.cuda.cudnn_conv_algo_search", "EXHAUSTIVE"}})->conv_search,
            "EXHAUSTIVE");
  EXPECT_FALSE(parse({{"ep.cuda.enable_cudnn", "0"}})->cudnn);
}

// S4.5: a session's entry that no host gives a prefix; one with a prefix outweighs it, in either order.
TEST(CudaOptions, ABareKeyWorks) {
  EXPECT_FALSE(parse({{"use_tf32", "0"}})->tf32);
  EXPECT_FALSE(parse({{"Use_TF32", "0"}})->tf32);
  EXPECT_TRUE(parse({{"use_tf32", "0"}, {"ep.cuda.use_tf32", "1"}})->tf32);
  EXPECT_TRUE(parse({{"ep.cuda.use_tf32", "1"}, {"use_tf32", "0"}})->tf32);
  EXPECT_EQ(parse({{"user_compute_stream", "4096"}})->user_stream, 4096U);
  EXPECT_THAT(parse({{"a_key_of_somebody_else", "0"}})->warnings, ::testing::IsEmpty());
  const auto typo = parse({{"use_tf23", "0"}});
  ASSERT_THAT(typo, is_ok());
  EXPECT_THAT(typo->warnings, ::testing::ElementsAre(AllOf(HasSubstr("use_tf23"), HasSubstr("\"use_tf32\""))));
}

// S4.1: a pointer sets the flag, whatever that says.
TEST(CudaOptions, APointerOutweighsItsFlag) {
  const auto options = parse({{"ep.cuda.has_user_compute_stream", "0"}, {"ep.cuda.user_compute_stream", "4096"}});
  ASSERT_THAT(options, is_ok());
  EXPECT_EQ(options->user_stream, 4096U);
  EXPECT_THAT(options->warnings,
              ::testing::ElementsAre(AllOf(HasSubstr("has_user_compute_stream"), HasSubstr("0x1000"))));
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
