// Small maps: kPoolBeside of them are turned to lie beside each other, so that vectors are full whatever the windows
// are.
#include <algorithm>
#include <array>
#include <vector>

#include "ep/cpu/ops/moves/copy.h"
#include "ep/cpu/ops/narrow/operands.h"
#include "ep/cpu/ops/pool/inside.h"
#include "ep/cpu/ops/pool/rows.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/pool.h"
#include "ops/pool.h"

namespace tenon::cpu::nn {

namespace {

constexpr int64_t kLargestMap = 256;  // pixels of an image or an output
constexpr int64_t kMostTaps = 16384;  // of all outputs of a map

class SmallPool final : public Kernel {
 public:
  SmallPool(const PoolDesc& pool, DataType type)
      : type_(type),
        maps_(pool.batch * pool.channels),
        pixels_(pool.window.in_count()),
        outputs_(pool.window.out_count()) {
    const std::vector<WindowAxis>& axes = pool.window.axes;
    const std::vector<std::vector<Inside>> insides = insides_of(pool.window);
    for (int64_t out = 0; out < outputs_; ++out) {
      std::vector<int64_t> at(axes.size());
      for (int64_t d = std::ssize(axes) - 1, rest = out; d >= 0; rest /= axes[d].out, --d) at[d] = rest % axes[d].out;
      std::vector<int32_t> places = {0};
      int64_t divisor = 1;
      for (size_t d = 0; d < axes.size(); ++d) {
        const Inside& inside = insides[d][at[d]];
        std::vector<int32_t> next;
        for (const int32_t place : places)
          for (int64_t k = 0; k < inside.count(); ++k)
            next.push_back(static_cast<int32_t>(place * axes[d].in + inside.begin + k * axes[d].dilation));
        places = std::move(next);
        divisor *= pool.count_include_pad ? axes[d].padded_taps(at[d]) : inside.count();
      }
      taps_.insert(taps_.end(), places.begin(), places.end());
      ends_.push_back(static_cast<int32_t>(taps_.size()));
      if (pool.kind == PoolDesc::Kind::kAverage) divisors_.push_back(static_cast<float>(divisor));
    }
  }

  Status run(KernelContext& context) const override {
    const int64_t groups = (maps_ + kPoolBeside - 1) / kPoolBeside;
    constexpr int64_t kWork = 4096;  // vectors of a chunk
    const int64_t work = std::ssize(taps_) + pixels_ + outputs_;
    context.pool->parallel_for(groups, std::max<int64_t>(1, kWork / work), [&](int64_t begin, int64_t end) {
      alignas(64) std::array<float, kPoolBeside * kLargestMap> plain, x, y;
      x.fill(0);  // where the last group has fewer maps
      for (int64_t first = begin * kPoolBeside; first < std::min(maps_, end * kPoolBeside); first += kPoolBeside) {
        const int64_t maps = std::min(kPoolBeside, maps_ - first);
        const float* const from = read_floats(type_, context.inputs[0], first * pixels_, maps * pixels_, plain.data());
        transpose(sizeof(float), from, pixels_, x.data(), kPoolBeside, maps, pixels_);
        pool_table().listed({.x = x.data(),
                             .y = y.data(),
                             .taps = taps_.data(),
                             .ends = ends_.data(),
                             .divisors = divisors_.empty() ? nullptr : divisors_.data(),
                             .outputs = outputs_});
        float* const to = begin_floats(type_, context.outputs[0], first * outputs_, plain.data());
        transpose(sizeof(float), y.data(), kPoolBeside, to, outputs_, outputs_, maps);
        end_floats(type_, context.outputs[0], first * outputs_, maps * outputs_, to);
      }
    });
    return {};
  }
  std::string_view name() const override { return divisors_.empty() ? "max_pool small" : "average_pool small"; }

 private:
  const DataType type_;
  const int64_t maps_, pixels_, outputs_;
  std::vector<int32_t> taps_, ends_;
  std::vector<float> divisors_;  // of averages
};

}  // namespace

Status match_small_pool(const KernelNode& node) {
  TENON_TRY(match_plain_pool(node));
  TENON_UNSUPPORTED_IF(!is_any_float(node.inputs[0].type), "The operand is {}.", data_type_name(node.inputs[0].type));
  TENON_TRY_ASSIGN(const PoolDesc pool, read_pool(*node.node, node.inputs[0].shape));
  const Window& window = pool.window;
  TENON_UNSUPPORTED_IF(window.in_count() > kLargestMap || window.out_count() > kLargestMap ||
                           window.kernel_count() > kMostTaps / window.out_count(),
                       "The maps have more than {} pixels, or {} taps.", kLargestMap, kMostTaps);
  TENON_UNSUPPORTED_IF(pool.batch * pool.channels < kPoolBeside / 2, "There are {} maps.", pool.batch * pool.channels);
  // Rows of windows that overlap are folded once, and those that fit into a register stay there.
  const auto overlaps = [](const WindowAxis& axis) { return axis.stride == 1 && axis.dilation == 1; };
  constexpr int64_t kFewRows = 4;
  TENON_UNSUPPORTED_IF(window.rank() == 2 && window.axes[0].out >= kFewRows &&
                           (std::all_of(window.axes.begin(), window.axes.end(), overlaps) ||
                            takes_strided_rows(window, pool.kind == PoolDesc::Kind::kMax)),
                       "The windows are folded row by row.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_small_pool(const KernelNode& node) {
  TENON_TRY_ASSIGN(const PoolDesc pool, read_pool(*node.node, node.inputs[0].shape));
  return std::unique_ptr<Kernel>(std::make_unique<SmallPool>(pool, node.inputs[0].type));
}

}  // namespace tenon::cpu::nn
