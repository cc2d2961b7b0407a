// Tables for signals: HannWindow, HammingWindow, BlackmanWindow and MelWeightMatrix.
#include <algorithm>
#include <cstring>
#include <numbers>

#include "ep/cpu/ops/gather/indices.h"
#include "ep/cpu/ops/reference_access.h"
#include "ops/signal.h"

namespace tenon::cpu::ref {

namespace {

// The one element of an integer input.
Result<IndexReader> scalar_reader(const KernelNode& node, size_t input) {
  TENON_INVALID_IF(node.inputs[input].shape.element_count() != 1, "{} has {} as input {}, not one number.",
                   node.node->op_type, node.inputs[input].shape.to_string(), input);
  return index_reader(node, input);
}

Result<RefImpl> make_window(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY_ASSIGN(const IndexReader read, scalar_reader(node, 0));
  TENON_TRY_ASSIGN(const WriteNumber write, output_writer(node, 0));
  RefImpl impl;
  impl.run = [read, write, desc = read_window_function(*node.node), op = node.node->op_type,
              out = output_spec(node, 0)](KernelContext& context) -> Status {
    const int64_t size = read(context.inputs[0], 0);
    TENON_INVALID_IF(size < 0, "{} has the size {}.", op, size);
    TENON_TRY_ASSIGN(void* const y, open_output(context, out, 0, Shape{size}));
    const auto period = static_cast<double>(desc.periodic ? size : size - 1);
    constexpr int64_t kGrain = 512;
    context.pool->parallel_for(size, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        double sum = desc.coefficients[0];
        for (int k = 1; k < 3; ++k) {
          if (desc.coefficients[k] == 0) continue;
          sum += desc.coefficients[k] * std::cos(2 * std::numbers::pi * k * static_cast<double>(n) / period);
        }
        write(y, n, sum);
      }
    });
    return {};
  };
  return impl;
}

// Frequencies in mel, which the ear hears as evenly spaced.
double mel_of(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double hertz_of(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }

struct MelPlan {
  IndexReader integers[3] = {};  // bins, length, rate
  ReadNumber edges[2] = {};
  WriteNumber write = nullptr;
  TensorSpec out;
};

// Triangles [left, center, right) of spectrogram bins, one for each column.
Status run_mel(const MelPlan& plan, KernelContext& context) {
  int64_t numbers[3];
  for (int i = 0; i < 3; ++i) numbers[i] = plan.integers[i](context.inputs[i], 0);
  const auto [bins, length, rate] = numbers;
  const double low = mel_of(plan.edges[0](context.inputs[3], 0)), high = mel_of(plan.edges[1](context.inputs[4], 0));
  TENON_INVALID_IF(bins < 0 || length < 0 || rate < 1 || std::isnan(low) || std::isnan(high),
                   "MelWeightMatrix has {} mel bins, dft_length {}, sample_rate {} and edges of {} and {} mel.", bins,
                   length, rate, low, high);
  const int64_t rows = length / 2 + 1;
  TENON_TRY(Shape({rows, bins}).checked_element_count().status());
  TENON_TRY_ASSIGN(void* const y, open_output(context, plan.out, 0, Shape{rows, bins}));
  std::memset(y, 0, rows * bins * static_cast<int64_t>(data_type_size(plan.out.type)));  // zero in every type
  const double step = (high - low) / static_cast<double>(bins + 2);
  const auto row_of = [&](int64_t edge) {
    const double hertz = hertz_of(low + step * static_cast<double>(edge));
    return std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
  };
  double edges[3] = {0, row_of(0), row_of(1)};
  for (int64_t m = 0; m < bins; ++m) {
    std::rotate(edges, edges + 1, edges + 3);
    edges[2] = row_of(m + 2);
    for (double edge : edges) {
      TENON_INVALID_IF(!(edge >= 0 && edge < static_cast<double>(rows)),
                       "MelWeightMatrix has an edge at row {} of its {}: a frequency is below 0 or above half the "
                       "sample rate.",
                       edge, rows);
    }
    const auto left = static_cast<int64_t>(edges[0]), center = static_cast<int64_t>(edges[1]),
               right = static_cast<int64_t>(edges[2]);
    if (left == center) plan.write(y, center * bins + m, 1);
    for (int64_t r = left; left < center && r <= center; ++r) {
      plan.write(y, r * bins + m, static_cast<double>(r - left) / static_cast<double>(center - left));
    }
    for (int64_t r = center; r < right; ++r) {
      plan.write(y, r * bins + m, static_cast<double>(right - r) / static_cast<double>(right - center));
    }
  }
  return {};
}

Result<RefImpl> make_mel(RefNode& node) {
  TENON_TRY(require_inputs(node, 5));
  MelPlan plan{.out = output_spec(node, 0)};
  for (size_t i = 0; i < 3; ++i) {
    TENON_TRY_ASSIGN(plan.integers[i], scalar_reader(node, i));
  }
  for (size_t i = 0; i < 2; ++i) {
    TENON_INVALID_IF(node.inputs[i + 3].shape.element_count() != 1,
                     "MelWeightMatrix has {} as input {}, not one number.", node.inputs[i + 3].shape.to_string(),
                     i + 3);
    TENON_TRY_ASSIGN(plan.edges[i], input_reader(node, i + 3));
  }
  TENON_TRY_ASSIGN(plan.write, output_writer(node, 0));
  RefImpl impl;
  impl.run = [plan](KernelContext& context) -> Status { return run_mel(plan, context); };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<~TypeSet{0}, &make_window>("BlackmanWindow", 17),
    ref_row<~TypeSet{0}, &make_window>("HammingWindow", 17),
    ref_row<~TypeSet{0}, &make_window>("HannWindow", 17),
    ref_row<~TypeSet{0}, &make_mel>("MelWeightMatrix", 17),
};

}  // namespace

std::span<const KernelEntry> ref_window_rows() { return kRows; }

}  // namespace tenon::cpu::ref
