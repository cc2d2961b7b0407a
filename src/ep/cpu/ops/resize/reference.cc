// Resize and Upsample: nearest, linear and cubic along any set of axes, with antialiasing.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/system.h"
#include "ep/cpu/ops/reference_kernel.h"
#include "ops/resize.h"

namespace tenon::cpu::ref {

namespace {

using Taps = ResizeTaps;

// Integers lose their fraction; what does not fit becomes the nearest that does.
template <typename T>
T store(double value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(
        std::clamp(value, static_cast<double>(std::numeric_limits<T>::min()),
                   static_cast<double>(std::numeric_limits<T>::max()) * (sizeof(T) == 8 ? 0.999 : 1)));
  } else {
    return T(value);
  }
}

// The weights and the sum of one element: float32 for integers of at most 32 bits, where ONNX Runtime's last digit
// decides what is cut off.
template <typename T>
using Sum = std::conditional_t<std::is_integral_v<T> && sizeof(T) <= 4, float, double>;

using Interpolate = void (*)(const void* x, void* y, const std::vector<Taps>& taps, const Shape& out,
                             double extrapolation, std::byte* scratch, ThreadPool& pool);

// Elements of a chunk: each takes tens of nanoseconds.
constexpr int64_t kGrain = 256;

// Where element `e` of `out` lies along each axis.
Strides coordinates_of(const Shape& out, int64_t e) {
  Strides at{};
  for (int d = out.rank() - 1; d >= 0; --d) {
    at[d] = e % out[d];
    e /= out[d];
  }
  return at;
}

template <typename T>
void interpolate_elements(const void* x, void* y, const std::vector<Taps>& taps, const Shape& out, double extrapolation,
                          int64_t begin, int64_t end) {
  const int rank = out.rank();
  Strides at = coordinates_of(out, begin);
  for (int64_t e = begin; e < end; ++e) {
    bool outside = false;
    for (int d = 0; d < rank; ++d) outside |= taps[d].outside[at[d]];
    Sum<T> value = 0;
    Strides tap{};
    bool more = !outside;
    int64_t only = -1;
    while (more) {
      Sum<T> weight = 1;
      int64_t offset = 0;
      for (int d = 0; d < rank; ++d) {
        const int64_t k = at[d] * taps[d].width + tap[d];
        weight *= static_cast<Sum<T>>(taps[d].weight[k]);
        offset += taps[d].index[k];
      }
      if (weight != 0) value += weight * static_cast<Sum<T>>(static_cast<const T*>(x)[offset]);
      if (weight == 1) only = offset;
      more = false;
      for (int d = rank - 1; d >= 0 && !more; --d) {
        more = ++tap[d] < taps[d].width;
        if (!more) tap[d] = 0;
      }
    }
    // A whole element is copied: integers beyond a double's precision stay what they are.
    if (only >= 0) {
      static_cast<T*>(y)[e] = static_cast<const T*>(x)[only];
    } else {
      static_cast<T*>(y)[e] = store<T>(outside ? extrapolation : value);
    }
    for (int d = rank - 1; d >= 0; --d) {
      if (++at[d] < out[d]) break;
      at[d] = 0;
    }
  }
}

template <typename T>
void interpolate(const void* x, void* y, const std::vector<Taps>& taps, const Shape& out, double extrapolation,
                 std::byte* /*scratch*/, ThreadPool& pool) {
  pool.parallel_for(out.element_count(), kGrain, [&](int64_t begin, int64_t end) {
    interpolate_elements<T>(x, y, taps, out, extrapolation, begin, end);
  });
}

// Elements between two axes of interpolate_axes, at most: the axes from one on have the output's size, those before the
// input's.
Result<int64_t> most_between(const std::vector<Taps>& taps, const Shape& out) {
  int64_t most = 1;
  for (int done = out.rank(); done >= 0; --done) {
    std::vector<int64_t> sizes(out.rank());
    for (int d = 0; d < out.rank(); ++d) sizes[d] = d < done ? taps[d].in : out[d];
    const std::optional<int64_t> count = checked_product(sizes);
    if (!count || *count > INT64_MAX / 32)
      return resource_exhausted("A Resize to {} has more elements between two of its axes than memory can hold.",
                                out.to_string());
    most = std::max(most, *count);
  }
  return most;
}

// A weighted sum of integers, rounded. Halves are common with weights like 3/5, and which way they go depends on how
// the weights were rounded: bytes have weights of 22 binary places, the others float32, as in ONNX Runtime.
template <typename T>
struct RoundedSum {
  using Weight = Sum<T>;
  static Weight prepare(double weight) { return static_cast<Weight>(weight); }
  Sum<T> value = 0;
  void add(Weight weight, T element) { value += weight * static_cast<Sum<T>>(element); }
  T rounded() const { return store<T>(static_cast<double>(std::round(value))); }
};
template <typename T>
  requires(sizeof(T) == 1)
struct RoundedSum<T> {
  using Weight = int64_t;
  static constexpr int kPlaces = 22;
  static Weight prepare(double weight) {
    return static_cast<int64_t>(std::round(static_cast<float>(weight) * static_cast<float>(1 << kPlaces)));
  }
  int64_t value = int64_t{1} << (kPlaces - 1);
  void add(Weight weight, T element) { value += weight * element; }
  T rounded() const {
    using Limits = std::numeric_limits<T>;
    return static_cast<T>(std::clamp<int64_t>(value >> kPlaces, Limits::min(), Limits::max()));
  }
};

// Bytes that are weighted side by side, which compilers make vectors of: neighbours in a row, or one of each of as many
// rows.
constexpr int64_t kSide = 16;

// One axis: outer matrices of `in` rows of `inner` bytes become matrices of `out` rows.
template <typename T>
struct ByteAxis {
  const Taps& axis;
  int64_t outer, out, inner;
  std::vector<int32_t> weights;  // of RoundedSum
  std::vector<int64_t> rows;     // that the taps read

  ByteAxis(const Taps& taps, int64_t outer_count, int64_t out_count, int64_t inner_count)
      : axis(taps), outer(outer_count), out(out_count), inner(inner_count) {
    for (double weight : axis.weight) weights.push_back(static_cast<int32_t>(RoundedSum<T>::prepare(weight)));
    for (int64_t index : axis.index) rows.push_back(index / axis.stride);
  }
  // Whether sums fit 32 bits: those of weights that are not far from 1.
  bool fits() const {
    constexpr int64_t kMost = (int64_t{1} << 31) - (int64_t{1} << RoundedSum<T>::kPlaces);
    for (size_t first = 0; first < weights.size(); first += axis.width) {
      int64_t sum = 0;
      for (int64_t k = 0; k < axis.width; ++k) sum += std::abs(int64_t{weights[first + k]});
      if (sum * 255 > kMost) return false;
    }
    return true;
  }

  void run(const T* x, T* y, ThreadPool& pool) const {
    if (inner >= kSide) {
      pool.parallel_for(outer * out, std::max<int64_t>(1, 4 * kGrain / inner), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const T* const matrix = x + row / out * axis.in * inner;
          T* const to = y + row * inner;
          for (int64_t j = 0; j + kSide <= inner; j += kSide) weigh(row % out, matrix + j, inner, to + j);
          // The last ones overlap others.
          if (inner % kSide != 0) weigh(row % out, matrix + inner - kSide, inner, to + inner - kSide);
        }
      });
      return;
    }
    // Element e of kSide matrices side by side.
    const int64_t in_bytes = axis.in * inner, out_bytes = out * inner;
    pool.parallel_for((outer + kSide - 1) / kSide, 1, [&](int64_t begin, int64_t end) {
      std::vector<T> side(in_bytes * kSide);
      T results[kSide];
      for (int64_t block = begin; block < end; ++block) {
        const int64_t first = block * kSide, count = std::min(kSide, outer - first);
        for (int64_t s = 0; s < count; ++s)
          for (int64_t e = 0; e < in_bytes; ++e) side[e * kSide + s] = x[(first + s) * in_bytes + e];
        for (int64_t e = 0; e < out_bytes; ++e) {
          weigh(e / inner, side.data() + e % inner * kSide, inner * kSide, results);
          for (int64_t s = 0; s < count; ++s) y[(first + s) * out_bytes + e] = results[s];
        }
      }
    });
  }

 private:
  // kSide neighbours of row `row` of the output, of rows that lie `stride` apart.
  void weigh(int64_t row, const T* x, int64_t stride, T* y) const {
    int32_t sums[kSide];
    std::fill_n(sums, kSide, 1 << (RoundedSum<T>::kPlaces - 1));
    for (int64_t k = row * axis.width; k < (row + 1) * axis.width; ++k) {
      const T* const from = x + rows[k] * stride;
      const int32_t weight = weights[k];
      for (int64_t s = 0; s < kSide; ++s) sums[s] += weight * from[s];
    }
    constexpr int32_t kLow = std::numeric_limits<T>::min(), kHigh = std::numeric_limits<T>::max();
    for (int64_t s = 0; s < kSide; ++s)
      y[s] = static_cast<T>(std::clamp(sums[s] >> RoundedSum<T>::kPlaces, kLow, kHigh));
  }
};

// Whether some elements lie beyond the input.
bool any_outside(const std::vector<Taps>& taps) {
  return std::any_of(taps.begin(), taps.end(), [](const Taps& axis) {
    return std::find(axis.outside.begin(), axis.outside.end(), true) != axis.outside.end();
  });
}

// Antialiased integers, one axis at a time from the last to the first, as ONNX Runtime does it: the result of each axis
// is rounded to the nearest integer before the next axis reads it. `scratch` has room for most_between() elements
// twice.
template <typename T>
void interpolate_axes(const void* x, void* y, const std::vector<Taps>& taps, const Shape& out, double extrapolation,
                      std::byte* scratch, ThreadPool& pool) {
  Shape shape = out;  // of `from`: the input's size on the axes that are still to come
  for (int d = 0; d < out.rank(); ++d) shape[d] = taps[d].in;
  const auto* from = static_cast<const T*>(x);
  T* buffers[2] = {reinterpret_cast<T*>(scratch), reinterpret_cast<T*>(scratch) + *most_between(taps, out)};
  const auto stays = [&](int d) { return taps[d].width == 1 && taps[d].in == out[d]; };
  const bool outside = any_outside(taps);
  int last = 0;  // the axis that is computed last: into y, if y has no elements from outside
  while (last < out.rank() && stays(last)) ++last;
  for (int d = out.rank() - 1; d >= 0; --d) {
    const Taps& axis = taps[d];
    if (stays(d)) continue;
    int64_t outer = 1, inner = 1;
    for (int k = 0; k < out.rank(); ++k) (k < d ? outer : inner) *= k == d ? 1 : shape[k];
    T* const to = d == last && !outside ? static_cast<T*>(y) : from == buffers[0] ? buffers[1] : buffers[0];
    shape[d] = out[d];
    if constexpr (sizeof(T) == 1) {
      if (const ByteAxis<T> bytes(axis, outer, out[d], inner); bytes.fits()) {
        bytes.run(std::exchange(from, to), to, pool);
        continue;
      }
    }
    std::vector<typename RoundedSum<T>::Weight> weights(axis.weight.size());
    std::transform(axis.weight.begin(), axis.weight.end(), weights.begin(), &RoundedSum<T>::prepare);
    // Where each tap's elements begin, from the first element of a matrix of `inner` columns on.
    std::vector<int64_t> sources(axis.index.size());
    for (size_t k = 0; k < sources.size(); ++k) sources[k] = axis.index[k] / axis.stride * inner;
    const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, inner));
    pool.parallel_for(outer * out[d], grain, [&](int64_t begin, int64_t end) {
      const T* matrix = from + begin / out[d] * axis.in * inner;
      int64_t first = begin % out[d] * axis.width;
      for (int64_t row = begin; row < end; ++row, first += axis.width) {
        if (first == out[d] * axis.width) {
          first = 0;
          matrix += axis.in * inner;
        }
        for (int64_t j = 0; j < inner; ++j) {
          RoundedSum<T> sum;
          for (int64_t k = first; k < first + axis.width; ++k) sum.add(weights[k], matrix[sources[k] + j]);
          to[row * inner + j] = sum.rounded();
        }
      }
    });
    from = to;
  }
  const int64_t count = out.element_count();
  if (!outside) {
    if (last == out.rank()) std::copy_n(from, count, static_cast<T*>(y));
    return;
  }
  Strides at{};
  for (int64_t e = 0; e < count; ++e) {
    bool here = false;
    for (int d = 0; d < out.rank(); ++d) here |= taps[d].outside[at[d]];
    static_cast<T*>(y)[e] = here ? store<T>(extrapolation) : from[e];
    for (int d = out.rank() - 1; d >= 0; --d) {
      if (++at[d] < out[d]) break;
      at[d] = 0;
    }
  }
}

// Reads float32, float64, float16 or bfloat16.
using FloatReader = double (*)(const void* x, int64_t i);
FloatReader float_reader(DataType type) {
  return select(FloatTypes(), type, []<typename T>() -> FloatReader {
    return [](const void* x, int64_t i) { return static_cast<double>(static_cast<const T*>(x)[i]); };
  });
}

// A Resize of a tensor of shape `x`, and the inputs that say how large the output is.
struct Sizes {
  Shape x;
  ResizeDesc resize;
  TensorSpec roi, scales, sizes;
};

ResizeValues values_of(const Sizes& plan, std::span<const void* const> inputs) {
  ResizeValues values;
  const auto read_floats = [&](const TensorSpec& spec, size_t input, std::vector<double>& out) {
    for (int64_t i = 0; spec.present() && i < spec.shape.element_count(); ++i)
      out.push_back(float_reader(spec.type)(inputs[input], i));
  };
  // A region of interest of another length is ignored.
  if (plan.roi.present() && plan.roi.shape.element_count() == 2 * static_cast<int64_t>(plan.resize.axes.size()))
    read_floats(plan.roi, plan.resize.roi_input, values.roi);
  read_floats(plan.scales, plan.resize.scales_input, values.scales);
  const void* const sizes = plan.sizes.present() ? inputs[plan.resize.sizes_input] : nullptr;
  for (int64_t i = 0; plan.sizes.present() && i < plan.sizes.shape.element_count(); ++i)
    values.sizes.push_back(plan.sizes.type == DataType::kInt32 ? static_cast<const int32_t*>(sizes)[i]
                                                               : static_cast<const int64_t*>(sizes)[i]);
  return values;
}

using Types = AllTypes;

// The table of a long axis may take more memory than the output, whose size the planner checks.
Status check_table(const ResizeSettings& settings, const ResizeAxis& axis) {
  const size_t taps = settings.mode == ResizeSettings::Mode::kNearest  ? 1
                      : settings.mode == ResizeSettings::Mode::kLinear ? 2
                                                                       : 4;
  const size_t bytes = taps * (sizeof(int64_t) + sizeof(double));
  if (static_cast<size_t>(axis.out) <= memory_bytes() / bytes) return {};
  return resource_exhausted(
      "A Resize to {} elements along one axis needs {} bytes for each; there are {} bytes of memory.", axis.out, bytes,
      memory_bytes());
}

Result<RefImpl> make_resize(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  Sizes plan;
  plan.x = node.inputs[0].shape;
  TENON_TRY_ASSIGN(plan.resize, read_resize(*node.node, plan.x.rank()));
  plan.roi = input_spec(node, plan.resize.roi_input);
  plan.scales = input_spec(node, plan.resize.scales_input);
  plan.sizes = input_spec(node, plan.resize.sizes_input);
  TENON_INVALID_IF((plan.scales.present() && float_reader(plan.scales.type) == nullptr) ||
                       (plan.roi.present() && float_reader(plan.roi.type) == nullptr),
                   "{} has scales of {} and a roi of {}.", node.node->op_type, data_type_name(plan.scales.type),
                   data_type_name(plan.roi.type));
  const ResizeSettings& settings = plan.resize.settings;
  const bool stepwise = settings.antialias && settings.mode != ResizeSettings::Mode::kNearest;
  const Interpolate chosen = select(Types(), node.inputs[0].type, [&]<typename T>() -> Interpolate {
    if constexpr (std::is_integral_v<T>) {
      if (stepwise) return &interpolate_axes<T>;
    }
    return &interpolate<T>;
  });
  TENON_UNSUPPORTED_IF(chosen == nullptr, "{} is not computed on {}.", node.node->op_type,
                       data_type_name(node.inputs[0].type));

  // With known scales and sizes the taps are made once.
  struct Prepared {
    Shape out;
    std::vector<Taps> taps;
  };
  const auto prepare = [plan](std::span<const void* const> inputs) -> Result<Prepared> {
    Prepared prepared;
    TENON_TRY_ASSIGN(std::vector<ResizeAxis> axes, resize_axes(plan.resize, plan.x.dims(), values_of(plan, inputs)));
    for (const ResizeAxis& axis : axes) prepared.out.push_back(axis.out);
    TENON_TRY_ASSIGN(const int64_t count, prepared.out.checked_element_count());
    if (count == 0) return prepared;
    const Strides strides = dense_strides(plan.x);
    for (size_t d = 0; d < axes.size(); ++d) {
      TENON_TRY(check_table(plan.resize.settings, axes[d]));
      axes[d].stride = strides[d];
      prepared.taps.push_back(make_resize_taps(plan.resize.settings, axes[d]));
    }
    return prepared;
  };
  bool known = true;
  std::vector<const void*> values(node.inputs.size(), nullptr);
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    const bool constant = i < node.constants.size() && node.constants[i] != nullptr;
    if (constant) values[i] = node.constants[i]->data;
    known &= constant || !node.inputs[i].present() || node.inputs[i].shape.element_count() == 0;
  }
  std::shared_ptr<const Prepared> ready;
  if (known) {
    TENON_TRY_ASSIGN(Prepared prepared, prepare(values));
    TENON_TRY(require_output(node, 0, prepared.out));
    ready = std::make_shared<const Prepared>(std::move(prepared));
  }
  RefImpl impl;
  const size_t pair_bytes = stepwise ? 2 * data_type_size(node.inputs[0].type) : 0;
  if (ready != nullptr && !ready->taps.empty() && stepwise) {
    TENON_TRY_ASSIGN(const int64_t between, most_between(ready->taps, ready->out));
    impl.scratch_bytes = pair_bytes * between;
  }
  impl.run = [prepare, ready, chosen, pair_bytes, out = output_spec(node, 0),
              extrapolation = settings.extrapolation](KernelContext& context) -> Status {
    if (ready != nullptr) {
      if (!ready->taps.empty() || ready->out.rank() == 0) {
        chosen(context.inputs[0], context.outputs[0], ready->taps, ready->out, extrapolation, context.scratch,
               *context.pool);
      }
      return {};
    }
    TENON_TRY_ASSIGN(const Prepared prepared, prepare(context.inputs));
    TENON_TRY_ASSIGN(void* const y, open_output(context, out, 0, prepared.out));
    if (!prepared.taps.empty() || prepared.out.rank() == 0) {
      std::vector<std::byte> scratch;
      if (pair_bytes > 0 && !prepared.taps.empty()) {
        TENON_TRY_ASSIGN(const int64_t between, most_between(prepared.taps, prepared.out));
        if (pair_bytes * static_cast<size_t>(between) > memory_bytes())
          return resource_exhausted("A Resize to {} has {} elements between two of its axes, more than memory holds.",
                                    prepared.out.to_string(), between);
        scratch.resize(pair_bytes * between);
      }
      chosen(context.inputs[0], y, prepared.taps, prepared.out, extrapolation, scratch.data(), *context.pool);
    }
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<type_set(Types()), &make_resize>("Resize", 10),
    ref_row<type_set(Types()), &make_resize>("Upsample", 7),
};

}  // namespace

std::span<const KernelEntry> ref_resize_rows() { return kRows; }

}  // namespace tenon::cpu::ref
