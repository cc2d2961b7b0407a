// RotaryEmbedding of ai.onnx and com.microsoft. The loops run over contiguous halves of a head on every thread.
#include "ops/rotary.h"
#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/loops.h"
#include "ep/cpu/ops/reference_kernel.h"

namespace tenon::cpu::ref {

namespace {

using Turn = void (*)(const RotaryDesc& desc, const void* x, const void* cos, const void* sin, int64_t row, void* y,
                      int64_t at);

// One head of one token.
template <typename T>
void turn(const RotaryDesc& desc, const void* x, const void* cos, const void* sin, int64_t row, void* y, int64_t at) {
  using C = Compute<T>;
  const int64_t half = desc.turned / 2;
  const T* const from = static_cast<const T*>(x) + at;
  T* const to = static_cast<T*>(y) + at;
  const T* const c = static_cast<const T*>(cos) + row * half;
  const T* const s = static_cast<const T*>(sin) + row * half;
  const auto pair = [&](int64_t i, int64_t first, int64_t second) {
    const C a = from[first], b = from[second];
    to[first] = T(static_cast<C>(c[i]) * a - static_cast<C>(s[i]) * b);
    to[second] = T(static_cast<C>(s[i]) * a + static_cast<C>(c[i]) * b);
  };
  if (desc.interleaved) {
    for (int64_t i = 0; i < half; ++i) pair(i, 2 * i, 2 * i + 1);
  } else {
    TENON_INDEPENDENT_LOOP
    for (int64_t i = 0; i < half; ++i) pair(i, i, half + i);
  }
  for (int64_t i = desc.turned; i < desc.depth; ++i) to[i] = from[i];
}

int64_t position(const RotaryDesc& desc, const int64_t* ids, int64_t batch, int64_t token) {
  const int64_t i = batch * desc.tokens + token;
  if (desc.positions == RotaryDesc::Positions::kByToken) return i;
  return desc.positions == RotaryDesc::Positions::kGiven ? ids[i] : ids[0] + token;
}

Result<RefImpl> make_rotary(RefNode& node) {
  TENON_TRY_ASSIGN(const RotaryDesc desc, read_rotary(*node.node, input_shapes(node)));
  const DataType type = node.inputs[0].type;
  for (size_t input : {desc.cos, desc.sin}) {
    TENON_UNSUPPORTED_IF(input_spec(node, input).type != type, "RotaryEmbedding has X of {} and angles of {}.",
                         data_type_name(type), data_type_name(input_spec(node, input).type));
  }
  const DataType ids = input_spec(node, desc.ids).type;
  TENON_UNSUPPORTED_IF(desc.ids != kNoInput && ids != DataType::kInt64, "RotaryEmbedding has positions of {}.",
                       data_type_name(ids));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  const Turn chosen = select(FloatTypes(), type, []<typename T>() -> Turn { return &turn<T>; });
  RefImpl impl;
  impl.run = [desc, chosen](KernelContext& context) -> Status {
    const auto* const ids = context.input<int64_t>(desc.ids);
    const int64_t given = ids == nullptr                                        ? 0
                          : desc.positions == RotaryDesc::Positions::kFollowing ? 1
                                                                                : desc.batch * desc.tokens;
    for (int64_t i = 0; i < given; ++i) {
      const int64_t last = desc.positions == RotaryDesc::Positions::kFollowing ? desc.tokens : 1;
      TENON_INVALID_IF(ids[i] < 0 || ids[i] > desc.rows - last, "Position {} is not in [0, {}).", ids[i], desc.rows);
    }
    const int64_t grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, desc.heads * desc.depth));
    context.pool->parallel_for(desc.batch * desc.tokens, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t batch = i / desc.tokens, token = i % desc.tokens;
        for (int64_t h = 0; h < desc.heads; ++h) {
          chosen(desc, context.inputs[0], context.inputs[desc.cos], context.inputs[desc.sin],
                 position(desc, ids, batch, token), context.outputs[0],
                 batch * desc.at.batch + h * desc.at.head + token * desc.at.row);
        }
      }
    });
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<kFloatSet, &make_rotary>("RotaryEmbedding", 23),
    ref_row<kFloatSet, &make_rotary>("RotaryEmbedding", 1, kAnyVersion, "com.microsoft"),
};

}  // namespace

std::span<const KernelEntry> ref_rotary_rows() { return kRows; }

}  // namespace tenon::cpu::ref
