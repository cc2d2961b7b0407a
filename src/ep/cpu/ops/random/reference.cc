// Random numbers: RandomNormal, RandomUniform, their Like forms, Bernoulli and Multinomial. A tensor is cut into chunks
// of fixed length, so that its numbers do not depend on the threads.
#include <algorithm>

#include "ep/cpu/ops/random/draws.h"
#include "ep/cpu/ops/reference_access.h"
#include "ops/random.h"

namespace tenon::cpu::ref {

namespace {

// The type that numbers for a T are drawn in.
template <typename T>
using Drawn = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Elements [chunk * kDraws, ...) of y, `count` in all.
using FillChunk = void (*)(const Draws::Stream& stream, const RandomDesc& desc, int64_t chunk, void* y, int64_t count);

template <typename T>
void fill_chunk(const Draws::Stream& stream, const RandomDesc& desc, int64_t chunk, void* y, int64_t count) {
  using D = Drawn<T>;
  std::array<D, kDraws<D>> drawn;
  if (desc.normal) {
    draw_normal(stream, chunk, std::span(drawn));
  } else {
    draw_uniform(stream, chunk, std::span(drawn));
  }
  const auto offset = static_cast<D>(desc.normal ? desc.mean : desc.low);
  const D factor = desc.normal ? static_cast<D>(desc.scale) : static_cast<D>(desc.high) - static_cast<D>(desc.low);
  const int64_t begin = chunk * kDraws<D>, length = std::min(count - begin, kDraws<D>);
  T* const to = static_cast<T*>(y) + begin;
  for (int64_t i = 0; i < length; ++i) to[i] = T(offset + factor * drawn[i]);
}

int64_t chunks_of(int64_t count, int64_t length) { return count / length + (count % length != 0 ? 1 : 0); }
// Chunks that are worth a thread.
constexpr int64_t kGrain = 8;

Result<RefImpl> make_random(RefNode& node) {
  const TensorSpec& y = output_spec(node, 0);
  if (!node.inputs.empty()) TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  const auto fill = select(FloatTypes(), y.type, []<typename T>() -> FillChunk { return &fill_chunk<T>; });
  TENON_UNSUPPORTED_IF(fill == nullptr, "{} makes no {}.", node.node->op_type, data_type_name(y.type));
  const Shape& shape = node.inputs.empty() ? y.shape : node.inputs[0].shape;
  RefImpl impl;
  impl.run = [fill, desc = read_random(*node.node), draws = std::make_shared<Draws>(read_seed(*node.node)),
              count = shape.element_count(),
              each = y.type == DataType::kDouble ? kDraws<double> : kDraws<float>](KernelContext& context) -> Status {
    const Draws::Stream stream = draws->next_run();
    context.pool->parallel_for(chunks_of(count, each), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t chunk = begin; chunk < end; ++chunk) fill(stream, desc, chunk, context.outputs[0], count);
    });
    return {};
  };
  return impl;
}

Result<RefImpl> make_bernoulli(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  TENON_TRY_ASSIGN(const ReadNumber read, input_reader(node, 0));
  TENON_TRY_ASSIGN(const WriteNumber write, output_writer(node, 0));
  RefImpl impl;
  impl.run = [read, write, draws = std::make_shared<Draws>(read_seed(*node.node)),
              count = node.inputs[0].shape.element_count()](KernelContext& context) -> Status {
    const Draws::Stream stream = draws->next_run();
    constexpr int64_t kEach = kDraws<double>;
    context.pool->parallel_for(chunks_of(count, kEach), kGrain, [&](int64_t begin, int64_t end) {
      std::array<double, kEach> drawn;
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        draw_uniform(stream, chunk, std::span(drawn));
        const int64_t first = chunk * kEach, last = std::min(count, first + kEach);
        for (int64_t i = first; i < last; ++i) {
          write(context.outputs[0], i, drawn[i - first] < read(context.inputs[0], i) ? 1 : 0);
        }
      }
    });
    return {};
  };
  return impl;
}

// The sums of e^(weight - largest) up to each class, in `sums`.
void cumulate(ReadNumber read, const void* x, int64_t first, int64_t classes, double* sums) {
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t c = 0; c < classes; ++c) largest = std::max(largest, read(x, first + c));
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) {
    const double weight = std::exp(read(x, first + c) - largest);
    sum += weight > 0 ? weight : 0;  // NaN has no weight
    sums[c] = sum;
  }
}

Result<RefImpl> make_multinomial(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY_ASSIGN(const MultinomialDesc desc, read_multinomial(*node.node, node.inputs[0].shape));
  TENON_TRY(require_output(node, 0, Shape{desc.batch, desc.samples}));
  TENON_TRY_ASSIGN(const ReadNumber read, input_reader(node, 0));
  const DataType type = output_spec(node, 0).type;
  TENON_UNSUPPORTED_IF(type != DataType::kInt32 && type != DataType::kInt64, "Multinomial makes no {}.",
                       data_type_name(type));
  RefImpl impl;
  impl.scratch_bytes = desc.classes * sizeof(double);
  impl.run = [read, desc, wide = type == DataType::kInt64,
              draws = std::make_shared<Draws>(read_seed(*node.node))](KernelContext& context) -> Status {
    const Draws::Stream stream = draws->next_run();
    auto* const sums = reinterpret_cast<double*>(context.scratch);
    std::array<double, kDraws<double>> drawn;
    for (int64_t i = 0, next = 0; i < desc.batch * desc.samples; ++i) {
      if (i % desc.samples == 0) {
        cumulate(read, context.inputs[0], i / desc.samples * desc.classes, desc.classes, sums);
      }
      const int64_t at = i % kDraws<double>;
      if (at == 0) draw_uniform(stream, next++, std::span(drawn));
      double* const last = sums + desc.classes - 1;
      const int64_t chosen = std::upper_bound(sums, last, drawn[at] * *last) - sums;
      if (wide) {
        context.output<int64_t>(0)[i] = chosen;
      } else {
        context.output<int32_t>(0)[i] = static_cast<int32_t>(chosen);
      }
    }
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<~TypeSet{0}, &make_random>("RandomNormal", 1),
    ref_row<~TypeSet{0}, &make_random>("RandomUniform", 1),
    ref_row<~TypeSet{0}, &make_random>("RandomNormalLike", 1),
    ref_row<~TypeSet{0}, &make_random>("RandomUniformLike", 1),
    ref_row<kFloatSet, &make_bernoulli>("Bernoulli", 15),
    ref_row<kFloatSet, &make_multinomial>("Multinomial", 7),
};

}  // namespace

std::span<const KernelEntry> ref_random_rows() { return kRows; }

}  // namespace tenon::cpu::ref
