#include "ep/cuda/cuda_options.h"

#include <algorithm>

#include "base/edit_distance.h"

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
    {"gpu_mem_limit", OptionKind::kSize, "0"},  // 0: no limit, as the largest number, which is ONNX Runtime's default
    {"enable_cuda_graph", OptionKind::kFlag, "0"},
    {"use_tf32", OptionKind::kFlag, "1"},
    {"cudnn_conv_algo_search", OptionKind::kChoice, "EXHAUSTIVE", "EXHAUSTIVE|HEURISTIC|DEFAULT"},
    {"cudnn_conv_algo", OptionKind::kChoice, "EXHAUSTIVE", "EXHAUSTIVE|HEURISTIC|DEFAULT|0|1|2"},
    {"enable_cudnn", OptionKind::kFlag, "1"},
    {"algorithm_cache", OptionKind::kText, ""},
    {"load_timeout_ms", OptionKind::kInteger, "10000", "", 0, INT32_MAX},
    {"tune_budget_ms", OptionKind::kInteger, "1000", "", 0, INT32_MAX},
    {"collective_rank", OptionKind::kInteger, "0", "", 0, INT32_MAX},
    {"collective_world_size", OptionKind::kInteger, "1", "", 1, INT32_MAX},
    {"collective_rendezvous", OptionKind::kText, ""},
    {"collective_timeout_ms", OptionKind::kInteger, "300000", "", 0, INT32_MAX},
    // From here on: of ONNX Runtime's CUDA EPs, with its defaults, and without an effect here.
    {"arena_extend_strategy", OptionKind::kChoice, "kNextPowerOfTwo", "kNextPowerOfTwo|kSameAsRequested"},
    {"cudnn_conv_use_max_workspace", OptionKind::kFlag, "1"},
    {"cudnn_conv1d_pad_to_nc1d", OptionKind::kFlag, "0"},
    {"enable_skip_layer_norm_strict_mode", OptionKind::kFlag, "0"},
    {"fuse_conv_bias", OptionKind::kFlag, "0"},
    {"min_num_runs_before_cuda_graph_capture", OptionKind::kInteger, "2", "", 0, INT32_MAX},
    {"prefer_nhwc", OptionKind::kFlag, "0"},
    {"prefer_nhwc_layout", OptionKind::kFlag, "0"},
    {"sdpa_kernel", OptionKind::kInteger, "0", "", 0, INT32_MAX},
    {"tunable_op_enable", OptionKind::kFlag, "0"},
    {"tunable_op_tuning_enable", OptionKind::kFlag, "0"},
    {"tunable_op_max_tuning_duration_ms", OptionKind::kInteger, "0", "", 0, INT32_MAX},
};
constexpr std::string_view kFirstWithoutEffect = "arena_extend_strategy";

// CUDA's names for its default streams, as a stream's value: neither the null stream nor the legacy one can be
// captured.
constexpr uint64_t kNullStream = 0, kLegacyStream = 1;

template <typename Function>
Function* function_at(uint64_t address) {
  return reinterpret_cast<Function*>(static_cast<uintptr_t>(address));
}

// The options that somebody has changed for nothing.
void warn_of_no_effect(const plugin::OptionValues& values, std::vector<std::string>* warnings) {
  const auto* const first = std::find_if(std::begin(kRows), std::end(kRows),
                                         [](const plugin::OptionRow& row) { return row.name == kFirstWithoutEffect; });
  std::string list;
  size_t count = 0;
  for (const plugin::OptionRow& row : std::span(first, std::end(kRows))) {
    if (!values.given(row.name) || values.is_default(row)) continue;
    list += (count++ == 0 ? "" : ", ") + format("\"{}\" = \"{}\"", row.name, values.text(row.name));
  }
  if (count == 1) warnings->push_back(format("Option {} has no effect on this EP.", list));
  if (count > 1) warnings->push_back(format("Options {} have no effect on this EP.", list));
}

// A session's entry without a prefix that is nearly an option. ONNX Runtime's own entries have dots.
void warn_of_typos(std::span<const std::pair<std::string, std::string>> entries, std::vector<std::string>* warnings) {
  constexpr size_t kMostEdits = 2, kShortestKey = 7;
  for (const auto& [key, text] : entries) {
    if (key.size() < kShortestKey || key.find('.') != std::string::npos) continue;
    for (const plugin::OptionRow& row : kRows) {
      const size_t distance = edit_distance(key, row.name);
      if (distance == 0) break;
      if (distance > kMostEdits) continue;
      warnings->push_back(
          format("Session entry \"{}\" is no option of this EP, and is ignored; \"{}\" is one.", key, row.name));
      break;
    }
  }
}

// cudnn_conv_algo_search, or the name that ONNX Runtime's plugin has for it, which takes ONNX Runtime's numbers too.
std::string read_conv_search(const plugin::OptionValues& values) {
  if (values.given("cudnn_conv_algo_search") || !values.given("cudnn_conv_algo"))
    return values.text("cudnn_conv_algo_search");
  const std::string& text = values.text("cudnn_conv_algo");
  if (text == "0") return "EXHAUSTIVE";
  if (text == "1") return "HEURISTIC";
  return text == "2" ? "DEFAULT" : text;
}

}  // namespace

std::span<const plugin::OptionRow> CudaOptions::rows() { return kRows; }

Result<CudaOptions> CudaOptions::parse(std::span<const std::string_view> prefixes,
                                       std::span<const std::pair<std::string, std::string>> entries) {
  TENON_TRY_ASSIGN(const plugin::OptionValues values,
                   plugin::OptionValues::parse(kRows, prefixes, entries, plugin::BareKeys::kOurs));
  CudaOptions options;
  warn_of_no_effect(values, &options.warnings);
  warn_of_typos(entries, &options.warnings);
  if (values.given("device_id")) options.device_id = static_cast<int>(values.integer("device_id"));

  const uint64_t stream = values.address("user_compute_stream");
  if (stream != 0 && values.given("has_user_compute_stream") && !values.flag("has_user_compute_stream"))
    options.warnings.push_back(format(
        "Option \"has_user_compute_stream\" is 0, but \"user_compute_stream\" is {:#x}: the session runs on that "
        "stream.",
        stream));
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
  if (const uint64_t limit = values.size("gpu_mem_limit"); limit > 0 && limit < SIZE_MAX)
    options.memory_limit_bytes = limit;
  options.tf32 = values.flag("use_tf32");
  options.cudnn = values.flag("enable_cudnn");
  options.conv_search = read_conv_search(values);
  options.algorithm_cache = values.text("algorithm_cache");
  options.load_timeout_ms = values.integer("load_timeout_ms");
  options.tune_budget_ms = values.integer("tune_budget_ms");
  TENON_TRY_ASSIGN(options.ranks, RankOptions::read(values));
  return options;
}

}  // namespace tenon::cuda
