#include "ep/cpu/ops/attention/key_cache.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"

namespace tenon::cpu {

using ref::input_spec;
using ref::output_spec;

namespace {

constexpr size_t kAlignment = 64;
// No position is near it, and sums with positions do not overflow.
constexpr int64_t kFarthest = int64_t{1} << 48;

Result<size_t> cache_bytes(const Shape& present, int64_t element) {
  const std::array<int64_t, 5> sizes{present[0], present[1], present[2], present[3], element};
  const std::optional<int64_t> bytes = checked_product(sizes);
  TENON_INVALID_IF(!bytes || *bytes > INT64_MAX / 2, "A cache of shape {} is too large.", present.to_string());
  return (static_cast<size_t>(*bytes) + kAlignment - 1) / kAlignment * kAlignment;
}

HeadStrides dense(const Shape& shape) { return {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3]}; }

}  // namespace

int64_t length_at(const KernelContext& context, size_t input, DataType type, int64_t i) {
  const int64_t value =
      type == DataType::kInt32 ? int64_t{context.input<int32_t>(input)[i]} : context.input<int64_t>(input)[i];
  return std::clamp(value, -kFarthest, kFarthest);
}

Status check_lengths(const TensorSpec& spec, std::string_view what) {
  TENON_UNSUPPORTED_IF(spec.present() && spec.type != DataType::kInt32 && spec.type != DataType::kInt64,
                       "The {} of attention are {}, not int32 or int64.", what, data_type_name(spec.type));
  return {};
}

Result<KeyCacheWriter> KeyCacheWriter::create(const KernelNode& node, const AttentionDesc& desc) {
  KeyCacheWriter writer;
  writer.desc_ = desc;
  writer.k_bytes_ = static_cast<int64_t>(data_type_size(input_spec(node, desc.k).type));
  writer.v_bytes_ = static_cast<int64_t>(data_type_size(input_spec(node, desc.v).type));
  for (const auto& [past, rows] : {std::pair{desc.past_k, desc.k}, std::pair{desc.past_v, desc.v}}) {
    if (past == kNoInput) continue;
    TENON_UNSUPPORTED_IF(input_spec(node, past).type != input_spec(node, rows).type,
                         "The cache of attention is {}, and its new rows are {}.",
                         data_type_name(input_spec(node, past).type), data_type_name(input_spec(node, rows).type));
  }
  if (desc.lengths != kNoInput) {
    writer.lengths_ = input_spec(node, desc.lengths);
    TENON_TRY(check_lengths(writer.lengths_, "lengths"));
  }
  if (desc.cache == KeyCache::kShared) {
    writer.total_type_ = input_spec(node, desc.total).type;
    TENON_TRY(check_lengths(input_spec(node, desc.total), "total lengths"));
    return writer;
  }
  writer.present_k_ = output_spec(node, 1);
  writer.present_v_ = output_spec(node, 2);
  for (const auto& [spec, shape] :
       {std::pair{&writer.present_k_, &desc.present_k}, std::pair{&writer.present_v_, &desc.present_v}}) {
    if (!spec->present() || spec->dynamic) continue;
    TENON_INVALID_IF(!(spec->shape == *shape), "A cache of attention has shape {}, but was planned as {}.",
                     shape->to_string(), spec->shape.to_string());
  }
  writer.writes_ = desc.cache != KeyCache::kNone || writer.present_k_.present() || writer.present_v_.present();
  if (writer.writes_ && !writer.present_k_.present()) {
    TENON_TRY_ASSIGN(writer.scratch_k_, cache_bytes(desc.present_k, writer.k_bytes_));
  }
  if (writer.writes_ && !writer.present_v_.present()) {
    TENON_TRY_ASSIGN(writer.scratch_v_, cache_bytes(desc.present_v, writer.v_bytes_));
  }
  return writer;
}

int64_t KeyCacheWriter::length(const KernelContext& context, int64_t batch) const {
  return desc_.lengths == kNoInput ? 0 : length_at(context, desc_.lengths, lengths_.type, batch);
}

int64_t KeyCacheWriter::offset(const KernelContext& context, const Run& run, int64_t batch) const {
  return desc_.offset(length(context, batch), run.is_first);
}

int64_t KeyCacheWriter::before(const KernelContext& context, const Run& run, int64_t batch) const {
  return desc_.cache == KeyCache::kShared ? offset(context, run, batch) : 0;
}

int64_t KeyCacheWriter::keys(const KernelContext& context, const Run& run, int64_t batch) const {
  if (desc_.cache == KeyCache::kShared) {
    // A first run may have queries behind its length; causal ones read keys up to their own position.
    return desc_.causal ? offset(context, run, batch) + desc_.keys : length(context, batch);
  }
  return desc_.lengths == kNoInput ? desc_.total_keys()
                                   : std::clamp<int64_t>(length(context, batch), 0, desc_.total_keys());
}

Status KeyCacheWriter::begin_shared(const KernelContext& context, Run& run) const {
  const int64_t total = length_at(context, desc_.total, total_type_, 0);
  run.is_first = total == desc_.queries;
  for (int64_t b = 0; b < desc_.batch; ++b) {
    const int64_t keys = length(context, b), least = run.is_first ? 0 : desc_.keys;
    TENON_INVALID_IF(keys < least || keys > total || keys > desc_.past + desc_.keys || desc_.keys != desc_.queries,
                     "Batch {} has a length of {} keys with {} new ones, {} in the cache and {} in total.", b, keys,
                     desc_.keys, desc_.past, total);
  }
  if (desc_.past_k == kNoInput) return {};
  const auto past = [&](int64_t depth) { return dense(Shape{desc_.batch, desc_.kv_heads, desc_.past, depth}); };
  run.past_k = {context.input<std::byte>(desc_.past_k), past(desc_.depth)};
  run.past_v = {context.input<std::byte>(desc_.past_v), past(desc_.value_depth)};
  return {};
}

Result<KeyCacheWriter::Run> KeyCacheWriter::begin(KernelContext& context, std::byte* scratch) const {
  Run run{.k = {context.input<std::byte>(desc_.k) + desc_.k_offset * k_bytes_, desc_.k_at},
          .v = {context.input<std::byte>(desc_.v) + desc_.v_offset * v_bytes_, desc_.v_at}};
  if (desc_.cache == KeyCache::kShared) {
    TENON_TRY(begin_shared(context, run));
    return run;
  }
  if (!writes_) return run;
  const auto open = [&](const TensorSpec& spec, size_t output, const Shape& shape,
                        std::byte* otherwise) -> Result<std::byte*> {
    if (!spec.present()) return otherwise;
    if (context.outputs[output] != nullptr || !spec.dynamic) return context.output<std::byte>(output);
    TENON_TRY_ASSIGN(void* const memory, context.allocate_output(output, shape));
    return static_cast<std::byte*>(memory);
  };
  TENON_TRY_ASSIGN(run.to_k, open(present_k_, 1, desc_.present_k, scratch));
  TENON_TRY_ASSIGN(run.to_v, open(present_v_, 2, desc_.present_v, scratch + scratch_k_));
  run.k = {run.to_k, dense(desc_.present_k)};
  run.v = {run.to_v, dense(desc_.present_v)};
  return run;
}

void KeyCacheWriter::write(const KernelContext& context, const Run& run, int64_t batch, int64_t head) const {
  const auto fill = [&](size_t past_input, size_t input, int64_t offset, const HeadStrides& from, const HeadStrides& at,
                        std::byte* to, int64_t depth, int64_t element) {
    const int64_t row = depth * element;
    std::byte* const head_rows = to + (batch * at.batch + head * at.head) * element;
    if (const auto* const old = context.input<std::byte>(past_input); old != nullptr) {
      std::memcpy(head_rows, old + (batch * desc_.kv_heads + head) * desc_.past * row, desc_.past * row);
    }
    const std::byte* const rows =
        context.input<std::byte>(input) + (offset + batch * from.batch + head * from.head) * element;
    for (int64_t s = 0; s < desc_.keys; ++s) {
      std::memcpy(head_rows + (desc_.past + s) * row, rows + s * from.row * element, row);
    }
  };
  fill(desc_.past_k, desc_.k, desc_.k_offset, desc_.k_at, run.k.at, run.to_k, desc_.depth, k_bytes_);
  fill(desc_.past_v, desc_.v, desc_.v_offset, desc_.v_at, run.v.at, run.to_v, desc_.value_depth, v_bytes_);
}

}  // namespace tenon::cpu
