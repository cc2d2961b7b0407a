// Writing by index: ScatterElements (Scatter before version 11) and ScatterND, with their reductions.
#include <cstring>

#include "ep/cpu/ops/gather/indices.h"
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

// Of bool, addition and maximum are "or", multiplication and minimum "and", as in numpy.
template <typename Op>
Combine pick(DataType type) {
  return select(AllTypes(), type, []<typename T>() -> Combine {
    return [](void* target, const void* update, int64_t count) { combine<T>(target, update, count, Op()); };
  });
}

// Null for plain assignment.
Result<Combine> combine_of(const KernelNode& node) {
  TENON_TRY_ASSIGN(const ScatterReduction reduction, read_scatter_reduction(*node.node));
  const DataType type = node.inputs[0].type;
  Combine chosen = nullptr;
  switch (reduction) {
    case ScatterReduction::kNone:
      return chosen;
    case ScatterReduction::kAdd:
      chosen = pick<AddOp>(type);
      break;
    case ScatterReduction::kMul:
      chosen = pick<MulOp>(type);
      break;
    case ScatterReduction::kMax:
      chosen = pick<MaxOp>(type);
      break;
    case ScatterReduction::kMin:
      chosen = pick<MinOp>(type);
      break;
  }
  TENON_UNSUPPORTED_IF(chosen == nullptr, "{} has no reduction \"{}\" of {}.", node.node->op_type,
                       scatter_reduction_name(reduction), data_type_name(type));
  return chosen;
}

void write(Combine combine, void* target, const void* update, int64_t count, size_t bytes) {
  if (combine != nullptr) {
    combine(target, update, count);
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
  if (bytes > 0 && context.inputs[0] != context.outputs[0]) {
    std::memcpy(context.outputs[0], context.inputs[0], bytes);
  }
}

Result<RefImpl> make_elements(RefNode& node) {
  TENON_TRY(check_scatter(node));
  const Shape& x = node.inputs[0].shape;
  const Shape& indices = node.inputs[1].shape;
  TENON_TRY_ASSIGN(const int axis, read_elements_axis(*node.node, x, indices));
  TENON_INVALID_IF(!(indices == node.inputs[2].shape), "{} has indices {} but updates {}.", node.node->op_type,
                   indices.to_string(), node.inputs[2].shape.to_string());
  TENON_TRY_ASSIGN(const IndexReader read, index_reader(node, 1));
  TENON_TRY_ASSIGN(const Combine combine, combine_of(node));
  RefImpl impl;
  impl.run = [read, combine, x, indices, axis, all = node.inputs[0].size_bytes(),
              bytes = data_type_size(node.inputs[0].type)](KernelContext& context) -> Status {
    copy_input(context, all);
    const auto size = static_cast<int64_t>(bytes);
    return each_element(read, context.inputs[1], indices, x, axis, [&](int64_t i, int64_t offset) {
      write(combine, context.output<std::byte>(0) + offset * size, context.input<std::byte>(2) + i * size, 1, bytes);
    });
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
  const Tuples tuples = tuples_of(desc, x);
  TENON_TRY_ASSIGN(const IndexReader read, index_reader(node, 1));
  TENON_TRY_ASSIGN(const Combine combine, combine_of(node));
  RefImpl impl;
  impl.run = [read, combine, tuples, desc, all = node.inputs[0].size_bytes(),
              bytes = data_type_size(node.inputs[0].type)](KernelContext& context) -> Status {
    copy_input(context, all);
    const auto size = static_cast<int64_t>(bytes);
    for (int64_t t = 0; t < desc.tuples; ++t) {
      TENON_TRY_ASSIGN(const int64_t offset, tuples.offset(read, context.inputs[1], t));
      write(combine, context.output<std::byte>(0) + offset * size, context.input<std::byte>(2) + t * desc.slice * size,
            desc.slice, bytes);
    }
    return {};
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
