// Random numbers: RandomNormal, RandomUniform, their Like forms, Bernoulli and Multinomial. A tensor is cut into chunks
// of fixed length, so that its numbers do not depend on the threads.
#include <algorithm>
#include <cstring>

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

// Whether each of n draws is below its probability, x[first + i].
using Decide = void (*)(const void* x, int64_t first, const double* drawn, int64_t n, uint8_t* yes);

template <typename T>
void decide(const void* x, int64_t first, const double* drawn, int64_t n, uint8_t* yes) {
  const T* const from = static_cast<const T*>(x) + first;
  for (int64_t i = 0; i < n; ++i) yes[i] = drawn[i] < static_cast<double>(static_cast<Compute<T>>(from[i])) ? 1 : 0;
}

// Writes `one` where yes, else zeros, for elements of the size of a T.
template <typename T>
void write_ones(const uint8_t* yes, int64_t n, const std::byte* one, std::byte* y) {
  T value;
  std::memcpy(&value, one, sizeof(T));
  auto* const to = reinterpret_cast<T*>(y);
  for (int64_t i = 0; i < n; ++i) to[i] = yes[i] != 0 ? value : T(0);
}

Result<RefImpl> make_bernoulli(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  const auto chosen = select(FloatTypes(), node.inputs[0].type, []<typename T>() -> Decide { return &decide<T>; });
  TENON_TRY_ASSIGN(const WriteNumber write, output_writer(node, 0));
  std::array<std::byte, 8> one{};
  write(one.data(), 0, 1);
  const auto bytes = static_cast<int64_t>(data_type_size(node.outputs[0].type));
  const auto write_all = bytes == 8   ? &write_ones<uint64_t>
                         : bytes == 4 ? &write_ones<uint32_t>
                         : bytes == 2 ? &write_ones<uint16_t>
                                      : &write_ones<uint8_t>;
  RefImpl impl;
  impl.run = [chosen, write_all, one, bytes, draws = std::make_shared<Draws>(read_seed(*node.node)),
              count = node.inputs[0].shape.element_count()](KernelContext& context) -> Status {
    const Draws::Stream stream = draws->next_run();
    constexpr int64_t kEach = kDraws<double>;
    context.pool->parallel_for(chunks_of(count, kEach), kGrain, [&](int64_t begin, int64_t end) {
      std::array<double, kEach> drawn;
      std::array<uint8_t, kEach> yes;
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        draw_uniform(stream, chunk, std::span(drawn));
        const int64_t first = chunk * kEach, n = std::min(count - first, kEach);
        chosen(context.inputs[0], first, drawn.data(), n, yes.data());
        write_all(yes.data(), n, one.data(), context.output<std::byte>(0) + first * bytes);
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
