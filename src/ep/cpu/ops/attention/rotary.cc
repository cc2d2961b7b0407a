// RotaryEmbedding of ai.onnx and com.microsoft, and tenon.RotateHalf. The loops run over contiguous halves of a head on
// every thread.
#include "ops/rotary.h"

#include <algorithm>

#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/narrow/operands.h"
#include "ep/cpu/ops/reference_kernel.h"
#include "ep/cpu/simd/lines.h"

namespace tenon::cpu::ref {

namespace {

// Elements of 16 bits that are converted at a time.
constexpr int64_t kBlock = 2048;

// `rows` heads that lie side by side, with angles that are `angle_step` apart.
template <typename T>
void turn(const RotaryDesc& desc, const T* x, const T* cos, const T* sin, int64_t rows, int64_t angle_step, T* y) {
  const int64_t half = desc.turned / 2;
  if constexpr (std::is_same_v<T, float>) {
    const auto loop = desc.interleaved ? line_table().turn_interleaved : line_table().turn;
    loop(x, cos, sin, rows, desc.depth, angle_step, half, y);
  }
  for (int64_t r = 0; r < rows; ++r, x += desc.depth, y += desc.depth, cos += angle_step, sin += angle_step) {
    if constexpr (!std::is_same_v<T, float>) {
      using C = Compute<T>;
      const int64_t step = desc.interleaved ? 2 : 1, second = desc.interleaved ? 1 : half;
      for (int64_t i = 0; i < half; ++i) {
        const C a = x[step * i], b = x[step * i + second], c = cos[i], s = sin[i];
        y[step * i] = T(c * a - s * b);
        y[step * i + second] = T(s * a + c * b);
      }
    }
    for (int64_t i = desc.turned; i < desc.depth; ++i) y[i] = x[i];
  }
}

int64_t position(const RotaryDesc& desc, const int64_t* ids, int64_t batch, int64_t token) {
  const int64_t i = batch * desc.tokens + token;
  if (desc.positions == RotaryDesc::Positions::kByToken) return i;
  return desc.positions == RotaryDesc::Positions::kGiven ? ids[i] : ids[0] + token;
}

// Tokens [begin, end) of one batch and one head of each, or all heads where they lie side by side.
using Turn = void (*)(const RotaryDesc& desc, const KernelContext& context, int64_t batch, int64_t begin, int64_t end);

template <typename T>
void turn_tokens(const RotaryDesc& desc, const KernelContext& context, int64_t batch, int64_t begin, int64_t end) {
  const auto* const ids = context.input<int64_t>(desc.ids);
  const int64_t half = desc.turned / 2;
  const bool together = desc.at.head == desc.depth;
  const auto angles = [&](size_t input, int64_t token) {
    return context.input<T>(input) + position(desc, ids, batch, token) * half;
  };
  const int64_t heads = together ? desc.heads : 1;
  for (int64_t h = 0; h < desc.heads; h += heads) {
    for (int64_t token = begin; token < end; ++token) {
      const int64_t at = batch * desc.at.batch + h * desc.at.head + token * desc.at.row;
      turn(desc, context.input<T>(0) + at, angles(desc.cos, token), angles(desc.sin, token), heads, 0,
           context.output<T>(0) + at);
    }
  }
}

void copy_floats(DataType type, const void* data, int64_t at, int64_t n, float* to) {
  if (const float* const from = nn::read_floats(type, data, at, n, to); from != to) std::copy_n(from, n, to);
}

// Of X, the angles and Y.
struct Types {
  DataType x, angles, y;
};

// The same with operands of 16 bits, in blocks of float32: angles are converted once for all heads.
void turn_narrow(const RotaryDesc& desc, const KernelContext& context, const Types& types, int64_t batch, int64_t begin,
                 int64_t end) {
  const auto* const ids = context.input<int64_t>(desc.ids);
  const int64_t half = desc.turned / 2, depth = desc.depth;
  // Neighbours: heads of a token, or tokens of a head.
  const bool heads_together = desc.at.head == depth, tokens_together = desc.at.row == depth;
  const int64_t tokens = std::max<int64_t>(1, kBlock / depth);
  alignas(64) float cos[kBlock], sin[kBlock], x[kBlock], y[kBlock];
  for (int64_t first = begin; first < end; first += tokens) {
    const int64_t last = std::min(end, first + tokens);
    for (int64_t token = first; token < last; ++token) {
      const int64_t row = position(desc, ids, batch, token) * half, to = (token - first) * half;
      copy_floats(types.angles, context.inputs[desc.cos], row, half, cos + to);
      copy_floats(types.angles, context.inputs[desc.sin], row, half, sin + to);
    }
    const auto run = [&](int64_t head, int64_t heads, int64_t from, int64_t to) {
      const int64_t at = batch * desc.at.batch + head * desc.at.head + from * desc.at.row;
      const int64_t count = heads * (to - from) * depth;
      const float* const values = nn::read_floats(types.x, context.inputs[0], at, count, x);
      float* const results = nn::begin_floats(types.y, context.outputs[0], at, y);
      const int64_t row = (from - first) * half;
      turn<float>(desc, values, cos + row, sin + row, heads * (to - from), heads > 1 ? 0 : half, results);
      nn::end_floats(types.y, context.outputs[0], at, count, results);
    };
    const int64_t heads = heads_together ? std::max<int64_t>(1, kBlock / depth) : 1;
    for (int64_t head = 0; head < desc.heads; head += heads) {
      const int64_t count = std::min(heads, desc.heads - head);
      if (tokens_together && count == 1) {
        run(head, 1, first, last);
        continue;
      }
      for (int64_t token = first; token < last; ++token) run(head, count, token, token + 1);
    }
  }
}

Result<RefImpl> make_rotary(RefNode& node) {
  TENON_TRY_ASSIGN(const RotaryDesc desc, read_rotary(*node.node, input_shapes(node)));
  const Types types{node.inputs[0].type, input_spec(node, desc.cos).type, output_spec(node, 0).type};
  TENON_UNSUPPORTED_IF(input_spec(node, desc.sin).type != types.angles,
                       "RotaryEmbedding has cosines of {} and sines of {}.", data_type_name(types.angles),
                       data_type_name(input_spec(node, desc.sin).type));
  const bool same = types.x == types.angles && types.x == types.y;
  const bool floats = nn::is_any_float(types.x) && nn::is_any_float(types.angles) && nn::is_any_float(types.y);
  TENON_UNSUPPORTED_IF(!same && (!floats || desc.depth > kBlock), "RotaryEmbedding has X of {} and angles of {}.",
                       data_type_name(types.x), data_type_name(types.angles));
  const DataType ids = input_spec(node, desc.ids).type;
  TENON_UNSUPPORTED_IF(desc.ids != kNoInput && ids != DataType::kInt64, "RotaryEmbedding has positions of {}.",
                       data_type_name(ids));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  const bool narrow = floats && (nn::is_narrow(types.x) || !same) && desc.depth > 0 && desc.depth <= kBlock;
  const Turn chosen = select(FloatTypes(), types.x, []<typename T>() -> Turn { return &turn_tokens<T>; });
  RefImpl impl;
  impl.run = [desc, chosen, narrow, types](KernelContext& context) -> Status {
    const auto* const given_ids = context.input<int64_t>(desc.ids);
    const int64_t given = given_ids == nullptr                                  ? 0
                          : desc.positions == RotaryDesc::Positions::kFollowing ? 1
                                                                                : desc.batch * desc.tokens;
    for (int64_t i = 0; i < given; ++i) {
      const int64_t last = desc.positions == RotaryDesc::Positions::kFollowing ? desc.tokens : 1;
      TENON_INVALID_IF(given_ids[i] < 0 || given_ids[i] > desc.rows - last, "Position {} is not in [0, {}).",
                       given_ids[i], desc.rows);
    }
    const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, desc.heads * desc.depth));
    context.pool->parallel_for(desc.batch * desc.tokens, grain, [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t batch = begin / desc.tokens, first = begin % desc.tokens;
        const int64_t last = std::min(desc.tokens, first + end - begin);
        if (narrow) {
          turn_narrow(desc, context, types, batch, first, last);
        } else {
          chosen(desc, context, batch, first, last);
        }
        begin += last - first;
      }
    });
    return {};
  };
  return impl;
}

// Rows [begin, end) of Y.
void rotate_rows(const RotateHalfDesc& desc, const KernelContext& context, int64_t begin, int64_t end) {
  const RotateHalfDesc::Rows& inner = desc.rows.back();
  const auto loop = desc.interleaved ? line_table().rotate_neighbours : line_table().rotate_halves;
  while (begin < end) {
    const int64_t first = begin % inner.count, count = std::min(end - begin, inner.count - first);
    RotatedRows task{.x = context.input<float>(0) + first * inner.x,
                     .cos = context.input<float>(1) + first * inner.cos,
                     .sin = context.input<float>(2) + first * inner.sin,
                     .y = context.output<float>(0) + begin * desc.depth,
                     .rows = count,
                     .turned = desc.turned,
                     .x_step = inner.x,
                     .cos_step = inner.cos,
                     .sin_step = inner.sin,
                     .y_step = desc.depth};
    int64_t rest = begin / inner.count;
    for (size_t i = desc.rows.size() - 1; i-- > 0; rest /= desc.rows[i].count) {
      const int64_t at = rest % desc.rows[i].count;
      task.x += at * desc.rows[i].x, task.cos += at * desc.rows[i].cos, task.sin += at * desc.rows[i].sin;
    }
    loop(task);
    for (int64_t row = 0; row < count && desc.turned < desc.depth; ++row)
      std::copy_n(task.x + row * inner.x + desc.turned, desc.depth - desc.turned,
                  task.y + row * desc.depth + desc.turned);
    begin += count;
  }
}

Result<RefImpl> make_rotate_half(RefNode& node) {
  TENON_TRY_ASSIGN(const RotateHalfDesc desc, read_rotate_half(*node.node, input_shapes(node)));
  for (const TensorSpec& input : node.inputs)
    TENON_UNSUPPORTED_IF(input.type != DataType::kFloat, "RotateHalf has an operand of {}.",
                         data_type_name(input.type));
  TENON_TRY(require_output(node, 0, desc.y));
  RefImpl impl;
  impl.name = "rotate half";
  impl.run = [desc](KernelContext& context) -> Status {
    const int64_t elements = desc.y.element_count();
    if (elements == 0) return {};
    context.pool->parallel_for(elements / desc.depth, std::max<int64_t>(1, 16384 / desc.depth),
                               [&](int64_t begin, int64_t end) { rotate_rows(desc, context, begin, end); });
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<kFloatSet, &make_rotary>("RotaryEmbedding", 23),
    ref_row<kFloatSet, &make_rotary>("RotaryEmbedding", 1, kAnyVersion, "com.microsoft"),
    ref_row<kFloatSet, &make_rotate_half>("RotateHalf", 1, kAnyVersion, "tenon"),
};

}  // namespace

std::span<const KernelEntry> ref_rotary_rows() { return kRows; }

}  // namespace tenon::cpu::ref
