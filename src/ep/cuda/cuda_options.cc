#include "ep/cuda/cuda_options.h"

namespace tenon::cuda {

namespace {

using plugin::OptionKind;

constexpr plugin::OptionRow kRows[] = {
    {"device_id", OptionKind::kInteger, "0", "", 0, 1023},
    {"has_user_compute_stream", OptionKind::kFlag, "0"},
    {"user_compute_stream", OptionKind::kAddress, "0"},
    {"do_copy_in_default_stream", OptionKind::kFlag, "1"},
    {"use_ep_level_unified_stream", OptionKind::kFlag, "0"},
    {"gpu_external_alloc", OptionKind::kAddress, "0"},
    {"gpu_external_free", OptionKind::kAddress, "0"},
    {"gpu_external_empty_cache", OptionKind::kAddress, "0"},
    {"gpu_mem_limit", OptionKind::kInteger, "0", "", 0, INT64_MAX},  // 0: no limit
    {"enable_cuda_graph", OptionKind::kFlag, "0"},
    {"use_tf32", OptionKind::kFlag, "1"},
    {"prefer_nhwc", OptionKind::kFlag, "0"},  // read, and that is all: it is so anyway
    {"cudnn_conv_algo_search", OptionKind::kChoice, "EXHAUSTIVE", "EXHAUSTIVE|HEURISTIC|DEFAULT"},
    {"algorithm_cache", OptionKind::kText, ""},
    {"load_timeout_ms", OptionKind::kInteger, "10000", "", 0, INT32_MAX},
};

// CUDA's names for its default streams, as a stream's value: neither the null stream nor the legacy one can be
// captured.
constexpr uint64_t kNullStream = 0, kLegacyStream = 1;

template <typename Function>
Function* function_at(uint64_t address) {
  return reinterpret_cast<Function*>(static_cast<uintptr_t>(address));
}

}  // namespace

std::span<const plugin::OptionRow> CudaOptions::rows() { return kRows; }

Result<CudaOptions> CudaOptions::parse(std::span<const std::string_view> prefixes,
                                       std::span<const std::pair<std::string, std::string>> entries) {
  TENON_TRY_ASSIGN(const plugin::OptionValues values, plugin::OptionValues::parse(kRows, prefixes, entries));
  CudaOptions options;
  if (values.given("device_id")) options.device_id = static_cast<int>(values.integer("device_id"));

  const uint64_t stream = values.address("user_compute_stream");
  const bool denied = values.given("has_user_compute_stream") && !values.flag("has_user_compute_stream");
  TENON_INVALID_IF(denied && stream != 0,
                   "Option \"user_compute_stream\" is {:#x}, but \"has_user_compute_stream\" is 0.", stream);
  if (values.flag("has_user_compute_stream") || stream != 0) options.user_stream = stream;

  options.external_allocator = {.alloc = function_at<void*(size_t)>(values.address("gpu_external_alloc")),
                                .free = function_at<void(void*)>(values.address("gpu_external_free")),
                                .empty_cache = function_at<void()>(values.address("gpu_external_empty_cache"))};
  const ExternalAllocator& external = options.external_allocator;
  TENON_INVALID_IF((external.alloc != nullptr) != (external.free != nullptr),
                   "Option \"{}\" is given without \"{}\"; an external allocator needs both.",
                   external.alloc != nullptr ? "gpu_external_alloc" : "gpu_external_free",
                   external.alloc != nullptr ? "gpu_external_free" : "gpu_external_alloc");
  TENON_INVALID_IF(external.empty_cache != nullptr && !external.given(),
                   "Option \"gpu_external_empty_cache\" is given without \"gpu_external_alloc\".");
  TENON_INVALID_IF(
      options.user_stream && external.given(),
      "Options \"user_compute_stream\" and \"gpu_external_alloc\" exclude each other: an external allocator "
      "orders its blocks by streams of its own.");

  if (values.given("enable_cuda_graph")) options.cuda_graph = values.flag("enable_cuda_graph");
  TENON_INVALID_IF(
      options.cuda_graph.value_or(false) && options.user_stream &&
          (*options.user_stream == kNullStream || *options.user_stream == kLegacyStream),
      "Options \"enable_cuda_graph\" and \"user_compute_stream\" = {:#x} exclude each other: CUDA's legacy "
      "default stream cannot be captured.",
      *options.user_stream);

  options.unified_stream =
      values.flag("use_ep_level_unified_stream") || options.user_stream.has_value() || external.given();
  options.copy_in_compute_stream = values.flag("do_copy_in_default_stream");
  if (const int64_t limit = values.integer("gpu_mem_limit"); limit > 0)
    options.memory_limit_bytes = static_cast<size_t>(limit);
  options.tf32 = values.flag("use_tf32");
  options.conv_search = values.text("cudnn_conv_algo_search");
  options.algorithm_cache = values.text("algorithm_cache");
  options.load_timeout_ms = values.integer("load_timeout_ms");
  return options;
}

}  // namespace tenon::cuda
