// Operators that make tensors from little or nothing: Shape, Size, Range (range.cc), ConstantOfShape, EyeLike, NonZero.
#include <algorithm>
#include <array>
#include <cstring>

#include "ep/cpu/ops/generate/range.h"
#include "ep/cpu/ops/moves/fill.h"
#include "ops/generate.h"

namespace tenon::cpu::ref {

namespace {

Result<RefImpl> make_shape(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& x = node.inputs[0].shape;
  const ShapeInterval interval = read_shape_interval(*node.node, x.rank());
  std::vector<int64_t> dims;
  if (interval.begin < interval.end) dims.assign(x.begin() + interval.begin, x.begin() + interval.end);
  TENON_TRY(require_output(node, 0, Shape{static_cast<int64_t>(dims.size())}));
  RefImpl impl;
  impl.run = [dims](KernelContext& context) -> Status {
    std::copy(dims.begin(), dims.end(), context.output<int64_t>(0));
    return {};
  };
  return impl;
}

Result<RefImpl> make_size(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY(require_output(node, 0, Shape{}));
  RefImpl impl;
  impl.run = [count = node.inputs[0].shape.element_count()](KernelContext& context) -> Status {
    *context.output<int64_t>(0) = count;
    return {};
  };
  return impl;
}

Result<RefImpl> make_constant_of_shape(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const TensorSpec out = output_spec(node, 0);
  TENON_INVALID_IF(node.inputs[0].type != DataType::kInt64, "ConstantOfShape has a shape of {}.",
                   data_type_name(node.inputs[0].type));
  TENON_INVALID_IF(node.inputs[0].shape.rank() != 1, "ConstantOfShape has a shape of {} dimensions, not a list.",
                   node.inputs[0].shape.rank());
  std::array<std::byte, 16> element{};
  if (const ConstantRef value = read_fill_value(*node.node)) {
    // One element below a byte takes a byte, its code in the lowest bits.
    TENON_INVALID_IF(value->type != node.output_type || value->shape.element_count() != 1 ||
                         value->size_bytes != data_type_size(out.type),
                     "ConstantOfShape has a value of {}{} for an output of {}.", data_type_name(value->type),
                     value->shape.to_string(), data_type_name(node.output_type));
    std::memcpy(element.data(), value->data, value->size_bytes);
  } else {
    TENON_INVALID_IF(out.type != DataType::kFloat, "ConstantOfShape without a value makes float32, not {}.",
                     data_type_name(node.output_type));
  }
  RefImpl impl;
  impl.run = [out, element, spec = node.inputs[0],
              bytes = static_cast<int64_t>(data_type_size(out.type))](KernelContext& context) -> Status {
    TENON_TRY_ASSIGN(const ShortVector dims, read_ints(context, 0, spec));
    TENON_INVALID_IF(dims.count > Shape::kMaxRank, "ConstantOfShape makes rank {}; the limit is {}.", dims.count,
                     Shape::kMaxRank);
    const Shape shape(dims.span());
    TENON_TRY(shape.checked_element_count().status());
    TENON_TRY_ASSIGN(void* const y, open_output(context, out, 0, shape));
    constexpr int64_t kGrain = 32768;
    context.pool->parallel_for(shape.element_count(), kGrain, [&](int64_t begin, int64_t end) {
      nn::fill_elements(static_cast<std::byte*>(y) + begin * bytes, element.data(), bytes, end - begin);
    });
    return {};
  };
  return impl;
}

Result<RefImpl> make_eye(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& x = node.inputs[0].shape;
  const TensorSpec& out = output_spec(node, 0);
  TENON_INVALID_IF(x.rank() != 2, "EyeLike needs a matrix, not {}.", x.to_string());
  TENON_TRY(require_output(node, 0, x));
  using One = void (*)(std::byte*);
  const One one = select(AllTypes(), out.type, []<typename T>() -> One {
    return [](std::byte* to) {
      const T value(1);
      std::memcpy(to, &value, sizeof(T));
    };
  });
  TENON_UNSUPPORTED_IF(one == nullptr, "EyeLike makes no {}.", data_type_name(out.type));
  const int64_t k = std::clamp(read_eye_diagonal(*node.node), -x[0], x[1]);
  RefImpl impl;
  impl.run = [one, rows = x[0], columns = x[1], k, bytes = data_type_size(out.type)](KernelContext& context) -> Status {
    auto* to = context.output<std::byte>(0);
    std::memset(to, 0, rows * columns * bytes);
    for (int64_t r = std::max<int64_t>(0, -k); r < rows && r + k < columns; ++r) {
      one(to + (r * columns + r + k) * static_cast<int64_t>(bytes));
    }
    return {};
  };
  return impl;
}

// Which of n elements differ from zero: bytes of 0 and 1, and how many there are.
using Test = int64_t (*)(const void* x, int64_t first, int64_t n, uint8_t* marks);

template <typename T>
int64_t mark_non_zero(const void* x, int64_t first, int64_t n, uint8_t* marks) {
  const T* from = static_cast<const T*>(x) + first;
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) {
    marks[i] = static_cast<Compute<T>>(from[i]) != Compute<T>(0) ? 1 : 0;
    count += marks[i];
  }
  return count;
}

template <typename T>
int64_t mark_complex(const void* x, int64_t first, int64_t n, uint8_t* marks) {
  const T* from = static_cast<const T*>(x) + 2 * first;
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) {
    marks[i] = from[2 * i] != T(0) || from[2 * i + 1] != T(0) ? 1 : 0;
    count += marks[i];
  }
  return count;
}

Result<RefImpl> make_non_zero(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  Test test = select(AllTypes(), node.inputs[0].type, []<typename T>() -> Test { return &mark_non_zero<T>; });
  if (node.inputs[0].type == DataType::kComplex64) test = &mark_complex<float>;
  if (node.inputs[0].type == DataType::kComplex128) test = &mark_complex<double>;
  TENON_UNSUPPORTED_IF(test == nullptr, "NonZero is not computed on {}.", data_type_name(node.inputs[0].type));
  RefImpl impl;
  impl.run = [test, x = node.inputs[0].shape, out = output_spec(node, 0)](KernelContext& context) -> Status {
    const int64_t elements = x.element_count();
    // A scalar counts as a vector of one.
    const Shape dims = x.rank() == 0 ? Shape{1} : x;
    constexpr int64_t kPiece = 1024;
    std::array<uint8_t, kPiece> marks;
    int64_t count = 0;
    for (int64_t i = 0; i < elements; i += kPiece)
      count += test(context.inputs[0], i, std::min(kPiece, elements - i), marks.data());
    TENON_TRY_ASSIGN(void* const y, open_output(context, out, 0, Shape{x.rank(), count}));
    auto* to = static_cast<int64_t*>(y);
    const int last = dims.rank() - 1;
    Strides at{};
    int64_t column = 0;
    for (int64_t i = 0; i < elements; i += kPiece) {
      const int64_t n = std::min(kPiece, elements - i);
      test(context.inputs[0], i, n, marks.data());
      for (int64_t j = 0; j < n; ++j) {
        if (marks[j] != 0) {
          for (int d = 0; d < x.rank(); ++d) to[d * count + column] = at[d];
          ++column;
        }
        for (int d = last; d >= 0; --d) {
          if (++at[d] < dims[d]) break;
          at[d] = 0;
        }
      }
    }
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    packed_ref_row<~TypeSet{0}, &make_shape>("Shape", 1),
    packed_ref_row<~TypeSet{0}, &make_size>("Size", 1),
    ref_row<type_set(RangeTypes()), &make_range>("Range", 11),
    ref_row<~TypeSet{0}, &make_constant_of_shape>("ConstantOfShape", 9),
    ref_row<~TypeSet{0}, &make_eye>("EyeLike", 9),
    ref_row<kAllSet | kComplexSet, &make_non_zero>("NonZero", 9),
};

}  // namespace

std::span<const KernelEntry> ref_generate_rows() { return kRows; }

}  // namespace tenon::cpu::ref
