// Writing by index: ScatterElements (Scatter before version 11) and ScatterND, with their reductions.
#include <atomic>
#include <cstring>

#include "ep/cpu/ops/gather/indices.h"
#include "ep/cpu/simd/elementwise.h"
#include "ops/gather.h"

namespace tenon::cpu::ref {

namespace {

// Combines `count` elements of `update` into `target`.
using Combine = void (*)(void* target, const void* update, int64_t count);

template <typename T, typename Op>
void combine(void* target, const void* update, int64_t count, Op op) {
  T* to = static_cast<T*>(target);
  for (int64_t i = 0; i < count; ++i) {
    to[i] = T(op(static_cast<Compute<T>>(to[i]), static_cast<Compute<T>>(static_cast<const T*>(update)[i])));
  }
}
template <typename T>
using Arithmetic = std::conditional_t<std::is_floating_point_v<T>, T, uint64_t>;

struct AddOp {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Arithmetic<T>>(a) + static_cast<Arithmetic<T>>(b));
  }
};
struct MulOp {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Arithmetic<T>>(a) * static_cast<Arithmetic<T>>(b));
  }
};
struct MaxOp {
  template <typename T>
  T operator()(T a, T b) const {
    return b > a || b != b ? b : a;
  }
};
struct MinOp {
  template <typename T>
  T operator()(T a, T b) const {
    return b < a || b != b ? b : a;
  }
};

// The same for one element each, at `offsets` of the target.
using CombineAt = void (*)(void* target, const void* update, const int64_t* offsets, int64_t count);

struct Combination {
  Combine rows = nullptr;  // null: plain assignment
  CombineAt elements = nullptr;
};

// Rows of float32 on the widest registers.
template <Binary kOp>
void combine_floats(void* target, const void* update, int64_t count) {
  auto* const to = static_cast<float*>(target);
  eltwise_table().binary[static_cast<int>(kOp)](to, 1, static_cast<const float*>(update), 1, to, count);
}

// Of bool, addition and maximum are "or", multiplication and minimum "and", as in numpy.
template <typename Op>
Combination pick(DataType type) {
  return select(AllTypes(), type, []<typename T>() -> Combination {
    return {[](void* target, const void* update, int64_t count) { combine<T>(target, update, count, Op()); },
            [](void* target, const void* update, const int64_t* offsets, int64_t count) {
              for (int64_t i = 0; i < count; ++i)
                combine<T>(static_cast<T*>(target) + offsets[i], static_cast<const T*>(update) + i, 1, Op());
            }};
  });
}

template <size_t kBytes>
void assign_at(void* target, const void* update, const int64_t* offsets, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(static_cast<std::byte*>(target) + offsets[i] * kBytes,
                static_cast<const std::byte*>(update) + i * kBytes, kBytes);
}

CombineAt assignment_of(size_t bytes) {
  switch (bytes) {
    case 1:
      return &assign_at<1>;
    case 2:
      return &assign_at<2>;
    case 4:
      return &assign_at<4>;
    case 8:
      return &assign_at<8>;
    case 16:
      return &assign_at<16>;
    default:
      return nullptr;
  }
}

Result<Combination> combination_of(const KernelNode& node) {
  TENON_TRY_ASSIGN(const ScatterReduction reduction, read_scatter_reduction(*node.node));
  const DataType type = node.inputs[0].type;
  Combination chosen;
  switch (reduction) {
    case ScatterReduction::kNone:
      chosen.elements = assignment_of(data_type_size(type));
      break;
    case ScatterReduction::kAdd:
      chosen = pick<AddOp>(type);
      if (type == DataType::kFloat) chosen.rows = &combine_floats<Binary::kAdd>;
      break;
    case ScatterReduction::kMul:
      chosen = pick<MulOp>(type);
      if (type == DataType::kFloat) chosen.rows = &combine_floats<Binary::kMul>;
      break;
    case ScatterReduction::kMax:
      chosen = pick<MaxOp>(type);
      break;
    case ScatterReduction::kMin:
      chosen = pick<MinOp>(type);
      break;
  }
  TENON_UNSUPPORTED_IF(chosen.elements == nullptr, "{} has no reduction \"{}\" of {}.", node.node->op_type,
                       scatter_reduction_name(reduction), data_type_name(type));
  return chosen;
}

void write(const Combination& combination, void* target, const void* update, int64_t count, size_t bytes) {
  if (combination.rows != nullptr) {
    combination.rows(target, update, count);
  } else {
    std::memcpy(target, update, count * bytes);
  }
}

Status check_scatter(RefNode& node) {
  TENON_TRY(require_inputs(node, 3));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  TENON_INVALID_IF(node.inputs[2].type != node.inputs[0].type, "{} puts {} into {}.", node.node->op_type,
                   data_type_name(node.inputs[2].type), data_type_name(node.inputs[0].type));
  return {};
}

void copy_input(KernelContext& context, size_t bytes) {
  if (context.inputs[0] == context.outputs[0]) return;
  constexpr int64_t kGrain = 256 << 10;
  context.pool->parallel_for(static_cast<int64_t>(bytes), kGrain, [&](int64_t begin, int64_t end) {
    std::memcpy(context.output<std::byte>(0) + begin, context.input<std::byte>(0) + begin, end - begin);
  });
}

Result<RefImpl> make_elements(RefNode& node) {
  TENON_TRY(check_scatter(node));
  const Shape& x = node.inputs[0].shape;
  const Shape& indices = node.inputs[1].shape;
  TENON_TRY_ASSIGN(const int axis, read_elements_axis(*node.node, x, indices));
  TENON_INVALID_IF(!(indices == node.inputs[2].shape), "{} has indices {} but updates {}.", node.node->op_type,
                   indices.to_string(), node.inputs[2].shape.to_string());
  TENON_TRY_ASSIGN(const IndexRows rows, index_rows(node, 1));
  TENON_TRY_ASSIGN(const Combination combination, combination_of(node));
  RefImpl impl;
  impl.run = [box = ElementBox(rows, indices, x, axis), combination, all = node.inputs[0].size_bytes(),
              bytes = static_cast<int64_t>(data_type_size(node.inputs[0].type))](KernelContext& context) -> Status {
    copy_input(context, all);
    const auto scatter = [&](int64_t i, int64_t base, const int64_t* offsets, int64_t n, bool is_run) {
      const std::byte* const updates = context.input<std::byte>(2) + i * bytes;
      std::byte* const target = context.output<std::byte>(0) + base * bytes;
      if (is_run) {
        write(combination, target + offsets[0] * bytes, updates, n, bytes);
      } else {
        combination.elements(target, updates, offsets, n);
      }
    };
    return run_elements(box, context.inputs[1], false, *context.pool, scatter);
  };
  return impl;
}

Result<RefImpl> make_nd(RefNode& node) {
  TENON_TRY(check_scatter(node));
  const Shape& x = node.inputs[0].shape;
  const Shape& indices = node.inputs[1].shape;
  TENON_TRY_ASSIGN(const GatherNdDesc desc, read_gather_nd(*node.node, x, indices));
  TENON_INVALID_IF(node.inputs[2].shape != desc.output, "ScatterND has updates {} for indices {} into {}.",
                   node.inputs[2].shape.to_string(), indices.to_string(), x.to_string());
  const Tuples tuples(desc, x);
  TENON_TRY_ASSIGN(const IndexRows rows, index_rows(node, 1));
  TENON_TRY_ASSIGN(const Combination combination, combination_of(node));
  RefImpl impl;
  impl.run = [rows, combination, tuples, desc, all = node.inputs[0].size_bytes(),
              bytes = data_type_size(node.inputs[0].type)](KernelContext& context) -> Status {
    copy_input(context, all);
    // Several tuples may name one slice, and the last one counts: threads share the slices, not the tuples.
    constexpr int64_t kElements = 16384, kLeastPiece = 64;
    std::atomic<int64_t> failed{-1};
    const int64_t grain = std::max(kLeastPiece, kElements / std::max<int64_t>(1, desc.tuples));
    context.pool->parallel_for(desc.slice, grain, [&](int64_t begin, int64_t end) {
      tuples.each_piece(rows, context.inputs[1], 0, desc.tuples, failed,
                        [&](int64_t t, const int64_t* offsets, int64_t n) {
                          const auto* const updates = context.input<std::byte>(2) + t * desc.slice * bytes;
                          if (desc.slice == 1) return combination.elements(context.outputs[0], updates, offsets, n);
                          for (int64_t i = 0; i < n; ++i)
                            write(combination, context.output<std::byte>(0) + (offsets[i] + begin) * bytes,
                                  updates + (i * desc.slice + begin) * bytes, end - begin, bytes);
                        });
    });
    return tuples.status(rows, context.inputs[1], desc.tuples, failed.load(std::memory_order_relaxed));
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<~TypeSet{0}, &make_elements>("Scatter", 9),
    ref_row<~TypeSet{0}, &make_elements>("ScatterElements", 11),
    ref_row<~TypeSet{0}, &make_nd>("ScatterND", 11),
};

}  // namespace

std::span<const KernelEntry> ref_scatter_rows() { return kRows; }

}  // namespace tenon::cpu::ref
