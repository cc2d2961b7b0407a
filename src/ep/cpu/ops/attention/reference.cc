// Attention of ai.onnx, and Attention, PackedAttention and CachedAttention of domain tenon
// (docs/reference/internal-operators.md).
#include <algorithm>
#include <cstring>

#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/attention/key_cache.h"
#include "ops/attention.h"

namespace tenon::cpu::ref {

namespace {

using Dot = double (*)(const void* a, int64_t a_at, const void* b, int64_t b_at, int64_t n);
using Gather = void (*)(double weight, const void* v, int64_t at, int64_t n, double* sum);
using Put = void (*)(void* y, int64_t at, double value);
using Get = double (*)(const void* x, int64_t at);

Dot dot_of(DataType type) {
  return select(FloatTypes(), type, []<typename T>() -> Dot {
    return [](const void* a, int64_t a_at, const void* b, int64_t b_at, int64_t n) {
      const T *x = static_cast<const T*>(a) + a_at, *y = static_cast<const T*>(b) + b_at;
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(y[i]);
      return sum;
    };
  });
}

Gather gather_of(DataType type) {
  return select(FloatTypes(), type, []<typename T>() -> Gather {
    return [](double weight, const void* v, int64_t at, int64_t n, double* sum) {
      const T* x = static_cast<const T*>(v) + at;
      for (int64_t i = 0; i < n; ++i) sum[i] += weight * static_cast<double>(x[i]);
    };
  });
}

Put put_of(DataType type) {
  return select(FloatTypes(), type, []<typename T>() -> Put {
    return [](void* y, int64_t at, double value) { static_cast<T*>(y)[at] = T(value); };
  });
}

// What a mask adds to a score.
Get mask_of(DataType type) {
  return select(AllTypes(), type, []<typename T>() -> Get {
    return [](const void* x, int64_t at) {
      const T value = static_cast<const T*>(x)[at];
      if constexpr (std::is_same_v<T, Bool>) return value ? 0.0 : -std::numeric_limits<double>::infinity();
      return static_cast<double>(value);
    };
  });
}

struct Attend {
  AttentionDesc desc;
  Dot dot = nullptr;
  Gather gather = nullptr;
  Get mask = nullptr, sink = nullptr;
  Put put = nullptr;

  // One query's scores in steps of qk_matmul_output_mode.
  struct Query {
    const KernelContext& context;
    const KeyCacheWriter::Run& run;
    int64_t b, h, t;
    KeyRange range;
    int64_t before;  // keys that lie in the past
  };

  int64_t row_of(const Query& at, const KeyCacheWriter::Rows& rows, int64_t row) const {
    return at.b * rows.at.batch + at.h / (desc.heads / desc.kv_heads) * rows.at.head + row * rows.at.row;
  }

  double product(const Query& at, int64_t s) const {
    const bool is_past = s < at.before;
    const KeyCacheWriter::Rows& k = is_past ? at.run.past_k : at.run.k;
    const int64_t q_at = at.b * desc.q_at.batch + at.h * desc.q_at.head + at.t * desc.q_at.row;
    const int64_t k_at = row_of(at, k, is_past ? s : s - at.before);
    return dot(at.context.inputs[desc.q], q_at, k.data, k_at, desc.depth) * desc.scale;
  }
  double capped(double score) const {
    const auto cap = static_cast<double>(desc.softcap);
    return cap > 0 ? cap * std::tanh(score / cap) : score;
  }
  double bias(const Query& at, int64_t s) const {
    if (s < at.range.first || s >= at.range.last) return -std::numeric_limits<double>::infinity();
    if (mask == nullptr) return 0;
    const auto& steps = desc.mask_strides;
    return mask(at.context.inputs[desc.mask], at.b * steps[0] + at.h * steps[1] + at.t * steps[2] + s * steps[3]);
  }

  void query(const Query& at, int64_t all_keys, double* sums, void* y, void* scores) const {
    double most = -std::numeric_limits<double>::infinity(), least_masked = most, total = 0;
    for (int64_t s = at.range.first; s < at.range.last; ++s) {
      const double added = bias(at, s);
      least_masked = std::max(least_masked, added);
      most = std::max(most, capped(product(at, s)) + added);
    }
    double own = 0;
    if (sink != nullptr) {
      own = sink(at.context.inputs[desc.sink], at.h);
      most = std::max(most, own);
      total = std::exp(own - most);
    }
    const bool empty = std::isinf(least_masked) && least_masked < 0;
    std::fill_n(sums, desc.value_depth, 0.0);
    for (int64_t s = at.range.first; s < at.range.last; ++s) {
      const double weight = std::exp(capped(product(at, s)) + bias(at, s) - most);
      total += weight;
      const bool is_past = s < at.before;
      const KeyCacheWriter::Rows& v = is_past ? at.run.past_v : at.run.v;
      gather(weight, v.data, row_of(at, v, is_past ? s : s - at.before), desc.value_depth, sums);
    }
    const bool zeros = (empty && desc.empty != EmptyQuery::kNaN) || at.range.first >= at.range.last ||
                       (desc.empty == EmptyQuery::kZerosForNaN && !(total > 0));
    const int64_t y_at = at.b * desc.y_at.batch + at.h * desc.y_at.head + at.t * desc.y_at.row;
    for (int64_t i = 0; i < desc.value_depth; ++i) put(y, y_at + i, zeros ? 0 : sums[i] / total);
    if (scores == nullptr) return;
    const int64_t row = ((at.b * desc.heads + at.h) * desc.queries + at.t) * all_keys;
    for (int64_t s = 0; s < all_keys; ++s) {
      double score = product(at, s);
      if (desc.score_output >= 1) score = capped(score);
      if (desc.score_output >= 2) score += bias(at, s);
      if (desc.score_output == 3) score = zeros ? 0 : std::exp(score - most) / total;
      put(scores, row + s, score);
    }
  }
};

Result<RefImpl> make_attention(RefNode& node) {
  TENON_TRY_ASSIGN(const AttentionDesc desc, read_attention(*node.node, input_shapes(node)));
  const DataType type = node.inputs[0].type;
  Attend attend{.desc = desc};
  attend.dot = dot_of(type);
  attend.put = put_of(type);
  attend.gather = gather_of(input_spec(node, desc.v).type);
  TENON_UNSUPPORTED_IF(attend.gather == nullptr || input_spec(node, desc.k).type != type,
                       "{} is not computed with Q of {}, K of {} and V of {}.", node.node->op_type,
                       data_type_name(type), data_type_name(input_spec(node, desc.k).type),
                       data_type_name(input_spec(node, desc.v).type));
  if (desc.mask != kNoInput) {
    attend.mask = mask_of(input_spec(node, desc.mask).type);
    TENON_UNSUPPORTED_IF(attend.mask == nullptr, "{} is not computed with a mask of {}.", node.node->op_type,
                         data_type_name(input_spec(node, desc.mask).type));
  }
  if (desc.sink != kNoInput) {
    TENON_UNSUPPORTED_IF(input_spec(node, desc.sink).type != type, "{} has a sink of {} for Q of {}.",
                         node.node->op_type, data_type_name(input_spec(node, desc.sink).type), data_type_name(type));
    attend.sink = mask_of(type);
  }
  TENON_TRY(require_output(node, 0, desc.y));
  if (desc.cache != KeyCache::kShared) {
    TENON_TRY(require_output(node, 1, desc.present_k));
    TENON_TRY(require_output(node, 2, desc.present_v));
    TENON_TRY(require_output(node, 3, desc.scores));
  }
  TENON_TRY_ASSIGN(const KeyCacheWriter cache, KeyCacheWriter::create(node, desc));
  RefImpl impl;
  impl.scratch_bytes = cache.scratch_bytes() + desc.value_depth * sizeof(double);
  impl.run = [attend, cache](KernelContext& context) -> Status {
    const AttentionDesc& desc = attend.desc;
    TENON_TRY_ASSIGN(const KeyCacheWriter::Run run, cache.begin(context, context.scratch));
    auto* const sums = reinterpret_cast<double*>(context.scratch + cache.scratch_bytes());
    for (int64_t b = 0; b < desc.batch; ++b) {
      for (int64_t h = 0; h < desc.kv_heads && KeyCacheWriter::writes(run); ++h) cache.write(context, run, b, h);
      const int64_t keys = cache.keys(context, run, b), offset = cache.offset(context, run, b);
      const int64_t before = cache.before(context, run, b);
      for (int64_t h = 0; h < desc.heads; ++h) {
        for (int64_t t = 0; t < desc.queries; ++t) {
          attend.query({context, run, b, h, t, key_range(desc, t, offset, keys), before}, desc.total_keys(), sums,
                       context.outputs[0], context.output<void>(3));
        }
      }
    }
    return {};
  };
  return impl;
}

Result<RefImpl> make_cache_update(RefNode& node) {
  TENON_TRY_ASSIGN(const CacheUpdateDesc desc, read_cache_update(*node.node, input_shapes(node)));
  TENON_TRY(check_lengths(input_spec(node, 2), "lengths"));
  TENON_TRY(check_lengths(input_spec(node, 3), "total lengths"));
  TENON_INVALID_IF(desc.has_past && input_spec(node, 1).type != node.inputs[0].type,
                   "A cache of {} has new rows of {}.", data_type_name(input_spec(node, 1).type),
                   data_type_name(node.inputs[0].type));
  RefImpl impl;
  impl.run = [desc, spec = output_spec(node, 0), lengths = input_spec(node, 2).type, totals = input_spec(node, 3).type,
              element = static_cast<int64_t>(data_type_size(node.inputs[0].type))](KernelContext& context) -> Status {
    const int64_t total = desc.grows ? length_at(context, 3, totals, 0) : desc.past;
    const int64_t room = std::max(desc.past, total);
    const bool is_first = desc.grows && total == desc.rows;
    for (int64_t b = 0; b < desc.batch; ++b) {
      const int64_t keys = length_at(context, 2, lengths, b), before = is_first ? 0 : keys - desc.rows;
      TENON_INVALID_IF(before < 0 || before > desc.past || before + desc.rows > room,
                       "Batch {} has a length of {} with {} new rows in a cache of {}.", b, keys, desc.rows, room);
    }
    TENON_TRY_ASSIGN(void* const memory,
                     open_output(context, spec, 0, Shape{desc.batch, desc.heads, room, desc.depth}));
    const int64_t row = desc.depth * element;
    context.pool->parallel_for(desc.batch * desc.heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t b = i / desc.heads, h = i % desc.heads;
        const int64_t before = is_first ? 0 : length_at(context, 2, lengths, b) - desc.rows;
        std::byte* const to = static_cast<std::byte*>(memory) + i * room * row;
        // A cache that is input and output keeps what it has.
        const bool in_place = context.input<void>(1) == memory;
        const int64_t kept = in_place ? 0 : desc.grows ? before : desc.past;
        if (kept > 0) std::memcpy(to, context.input<std::byte>(1) + i * desc.past * row, kept * row);
        const std::byte* const from = context.input<std::byte>(0) + (b * desc.at.batch + h * desc.at.head) * element;
        for (int64_t s = 0; s < desc.rows; ++s) {
          std::memcpy(to + (before + s) * row, from + s * desc.at.row * element, row);
        }
        const int64_t filled = std::max(kept, before + desc.rows);
        if (!in_place) std::memset(to + filled * row, 0, (room - filled) * row);
      }
    });
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<kFloatSet, &make_attention>("Attention", 23),
    ref_row<kFloat32Set, &make_attention>("Attention", 1, kAnyVersion, "tenon"),
    ref_row<kFloatSet | type_set(TypeList<int8_t, uint8_t>()), &make_cache_update>("CacheUpdate", 1, kAnyVersion,
                                                                                   "tenon"),
    ref_row<kFloatSet, &make_attention>("CachedAttention", 1, kAnyVersion, "tenon"),
    ref_row<kFloat32Set, &make_attention>("PackedAttention", 1, kAnyVersion, "tenon"),
};

}  // namespace

std::span<const KernelEntry> ref_attention_rows() { return kRows; }

}  // namespace tenon::cpu::ref
