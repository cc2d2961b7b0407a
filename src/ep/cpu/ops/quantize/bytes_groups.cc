// QLinearSoftmax, QLinearReduceMean, QLinearAveragePool, QLinearGlobalAveragePool, and ReduceSumInteger: results that
// depend on a group of elements.
#include <cstring>

#include "ep/cpu/ops/kernel_support.h"
#include "ep/cpu/ops/quantize/byte_rows.h"
#include "ep/cpu/ops/quantize/bytes.h"
#include "ep/cpu/ops/reference_window.h"
#include "ops/attributes.h"
#include "ops/reduce.h"

namespace tenon::cpu::ref {

namespace {

struct Operands {
  ByteTensor x, y;
};

Result<Operands> read_operands(const RefNode& node) {
  TENON_TRY_ASSIGN(const QuantizedForm form, read_quantized_form(*node.node));
  TENON_TRY(require_inputs(node, 2));
  TENON_INVALID_IF(!input_spec(node, form.y.scale).present(), "{} needs input {}, which is absent.", node.node->op_type,
                   form.y.scale);
  Operands operands;
  TENON_TRY_ASSIGN(operands.x, byte_tensor(node, form.x[0], node.inputs[0].type));
  TENON_TRY_ASSIGN(operands.y, byte_tensor(node, form.y, output_spec(node, 0).type));
  return operands;
}

Result<RefImpl> make_softmax(RefNode& node) {
  TENON_TRY_ASSIGN(const Operands operands, read_operands(node));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  TENON_TRY_ASSIGN(const SoftmaxDesc desc, read_quantized_softmax(*node.node, node.inputs[0].shape));
  RefImpl impl;
  impl.run = [operands, desc](KernelContext& context) -> Status {
    const ByteStore store(operands.y, context);
    const float scale = operands.x.scale(context);
    // By how many steps a number lies below the largest of its group.
    ByteValues powers;
    for (size_t i = 0; i < powers.size(); ++i) powers[i] = std::exp(-std::abs(scale) * static_cast<float>(i));
    context.pool->parallel_for(desc.outer * desc.inner, 16, [&](int64_t begin, int64_t end) {
      for (int64_t group = begin; group < end; ++group) {
        const int64_t first = group / desc.inner * desc.length * desc.inner + group % desc.inner;
        const auto* x = context.input<uint8_t>(0) + first;
        auto* y = context.output<uint8_t>(0) + first;
        const auto number = [&](int64_t k) {
          const int32_t value = operands.x.number(x[k * desc.inner]);
          return scale < 0 ? -value : value;
        };
        int32_t most = -256;
        for (int64_t k = 0; k < desc.length; ++k) most = std::max(most, number(k));
        double sum = 0;
        for (int64_t k = 0; k < desc.length; ++k) sum += static_cast<double>(powers[most - number(k)]);
        for (int64_t k = 0; k < desc.length; ++k)
          y[k * desc.inner] = store(static_cast<float>(static_cast<double>(powers[most - number(k)]) / sum));
      }
    });
    return {};
  };
  return impl;
}

struct Groups {
  Shape outer, inner;  // the axes that stay, and those that go; the others have size 1
  int64_t group = 1;
  Shape output;
};

Result<Groups> read_groups(const RefNode& node) {
  const Shape& x = node.inputs[0].shape;
  const Attributes attributes(*node.node);
  TENON_TRY_ASSIGN(const AxisSet reduced, reduced_axes(attributes.integers("axes"), false, x.rank()));
  Groups groups;
  groups.outer = groups.inner = x;
  for (int d = 0; d < x.rank(); ++d) (reduced.test(d) ? groups.outer : groups.inner)[d] = 1;
  groups.group = groups.inner.element_count();
  groups.output = reduced_shape(x, reduced, attributes.find_integer("keepdims").value_or(1) != 0);
  return groups;
}

// use(sum, index of the output) for each group of X.
template <typename Use>
void sum_groups(const Groups& groups, const ByteTensor& x, const KernelContext& context, const Shape& shape,
                Use&& use) {
  const Strides strides = dense_strides(shape);
  const Walk outer = make_walk(groups.outer, {strides}), inner = make_walk(groups.inner, {strides});
  const auto* data = context.input<uint8_t>(0);
  int64_t index = 0;
  outer.run([&](const auto& at) {
    for (int64_t i = 0; i < outer.inner; ++i) {
      int64_t sum = 0;
      const int64_t first = at[0] + i * outer.inner_strides[0];
      inner.run([&](const auto& offset) {
        if (inner.inner_strides[0] == 1) {
          sum += x.sum(data + first + offset[0], inner.inner);
          return true;
        }
        for (int64_t k = 0; k < inner.inner; ++k) {
          sum += x.number(data[first + offset[0] + k * inner.inner_strides[0]]);
        }
        return true;
      });
      use(sum, index++);
    }
    return true;
  });
}

Result<RefImpl> make_reduce_mean(RefNode& node) {
  TENON_TRY_ASSIGN(const Operands operands, read_operands(node));
  TENON_TRY_ASSIGN(const Groups groups, read_groups(node));
  TENON_TRY(require_output(node, 0, groups.output));
  RefImpl impl;
  impl.run = [operands, groups, shape = node.inputs[0].shape](KernelContext& context) -> Status {
    const ByteStore store(operands.y, context);
    const auto scale = static_cast<double>(operands.x.scale(context));
    const auto zero = static_cast<double>(operands.x.zero_point(context));
    sum_groups(groups, operands.x, context, shape, [&](int64_t sum, int64_t index) {
      const double mean = static_cast<double>(sum) / static_cast<double>(groups.group) - zero;
      context.output<uint8_t>(0)[index] = store(static_cast<float>(mean * scale));
    });
    return {};
  };
  return impl;
}

Result<RefImpl> make_reduce_sum(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY_ASSIGN(const ByteTensor x, byte_tensor(node, {0, kNoInput, kNoInput}, node.inputs[0].type));
  TENON_TRY_ASSIGN(const Groups groups, read_groups(node));
  TENON_TRY(require_output(node, 0, groups.output));
  RefImpl impl;
  impl.run = [x, groups, shape = node.inputs[0].shape](KernelContext& context) -> Status {
    sum_groups(groups, x, context, shape,
               [&](int64_t sum, int64_t index) { context.output<int32_t>(0)[index] = static_cast<int32_t>(sum); });
    return {};
  };
  return impl;
}

Result<RefImpl> make_pool(RefNode& node) {
  TENON_TRY_ASSIGN(const Operands operands, read_operands(node));
  TENON_TRY_ASSIGN(const QuantizedPoolDesc desc, read_quantized_pool(*node.node, node.inputs[0].shape));
  TENON_TRY(require_output(node, 0, desc.output));
  RefImpl impl;
  if (desc.pool.global && !desc.channels_last) impl.name = "global_average_pool int8";
  impl.run = [operands, desc](KernelContext& context) -> Status {
    const PoolDesc& pool = desc.pool;
    const Window& window = pool.window;
    const ByteStore store(operands.y, context);
    const auto scale = static_cast<double>(operands.x.scale(context));
    const int64_t zero = operands.x.zero_point(context);
    const int64_t in = window.in_count(), out = window.out_count(), taps = window.kernel_count();
    // Elements from one position to the next, and where a plane begins.
    const int64_t step = desc.channels_last ? pool.channels : 1;
    const auto first = [&](int64_t plane, int64_t positions) {
      return desc.channels_last ? plane / pool.channels * positions * pool.channels + plane % pool.channels
                                : plane * positions;
    };
    constexpr int64_t kTaps = 8192;
    const int64_t grain = std::max<int64_t>(1, kTaps / std::max<int64_t>(1, out * taps));
    context.pool->parallel_for(pool.batch * pool.channels, grain, [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const auto* x = context.input<uint8_t>(0) + first(plane, in);
        auto* y = context.output<uint8_t>(0) + first(plane, out);
        if (pool.global && step == 1 && in > 0) {
          const double mean = static_cast<double>(operands.x.sum(x, in)) / static_cast<double>(in);
          *y = store(static_cast<float>((mean - static_cast<double>(zero)) * scale));
          continue;
        }
        Strides at{};
        for (int64_t p = 0; p < out; ++p, advance(window, &WindowAxis::out, at)) {
          int64_t sum = 0, count = 0;
          Strides tap{};
          for (int64_t k = 0; k < taps; ++k, advance(window, &WindowAxis::kernel, tap)) {
            const int64_t source = source_of(window, at, tap);
            if (source < 0) continue;
            ++count;
            sum += operands.x.number(x[source * step]) - zero;
          }
          const int64_t divisor = pool.count_include_pad ? taps : count;
          const double mean = divisor > 0 ? static_cast<double>(sum) / static_cast<double>(divisor) : 0;
          y[p * step] = store(static_cast<float>(mean * scale));
        }
      }
    });
    return {};
  };
  return impl;
}

// The sums of 8 channels beside each other, of x ^ flip. The bytes of 8 channels are added as two times four numbers of
// 16 bits.
void sum_blocks(const uint8_t* x, uint8_t flip, int64_t pixels, int64_t* sums) {
  constexpr uint64_t kEven = 0x00ff00ff00ff00ff;
  constexpr int64_t kMost = 256;  // pixels whose sums have 16 bits
  std::fill_n(sums, 8, int64_t{0});
  for (int64_t first = 0; first < pixels; first += kMost) {
    uint64_t even = 0, odd = 0;
    for (int64_t i = first; i < std::min(first + kMost, pixels); ++i) {
      uint64_t block;
      std::memcpy(&block, x + i * 8, 8);
      block ^= uint64_t{0x0101010101010101} * flip;
      even += block & kEven;
      odd += (block >> 8) & kEven;
    }
    for (int c = 0; c < 8; ++c) sums[c] += static_cast<int64_t>(((c % 2 == 0 ? even : odd) >> (c / 2 * 16)) & 0xffff);
  }
}

// The mean of the maps of blocks.
Result<RefImpl> make_blocked_global_pool(RefNode& node) {
  TENON_TRY_ASSIGN(const Operands operands, read_operands(node));
  TENON_TRY_ASSIGN(const QuantizedPoolDesc desc, read_quantized_pool(*node.node, node.inputs[0].shape));
  TENON_TRY(require_output(node, 0, desc.output));
  RefImpl impl;
  impl.name = "global_average_pool int8";
  impl.run = [operands, pixels = desc.pool.window.in_count(),
              planes = stored_count(node.outputs[0]) / 8](KernelContext& context) -> Status {
    const ByteStore store(operands.y, context);
    const ByteStep step = operands.x.step(context);
    context.pool->parallel_for(planes, grain_of(pixels / 4), [&](int64_t begin, int64_t end) {
      int64_t sums[8];
      for (int64_t plane = begin; plane < end; ++plane) {
        sum_blocks(context.input<uint8_t>(0) + plane * pixels * 8, step.flip, pixels, sums);
        for (int c = 0; c < 8; ++c) {
          // As in make_pool(): the sum of the numbers as they are.
          const double mean = static_cast<double>(sums[c] - step.flip * pixels) / static_cast<double>(pixels);
          const double above = mean - static_cast<double>(operands.x.zero_point(context));
          context.output<uint8_t>(0)[plane * 8 + c] =
              store(static_cast<float>(above * static_cast<double>(step.scale)));
        }
      }
    });
    return {};
  };
  return impl;
}

constexpr TypeSet kBytes = type_set(TypeList<int8_t, uint8_t>());
constexpr std::string_view kDomain = "com.microsoft";

constexpr KernelEntry kRows[] = {
    ref_row<kBytes, &make_softmax>("QLinearSoftmax", 1, kAnyVersion, kDomain),
    ref_row<kBytes, &make_reduce_mean>("QLinearReduceMean", 1, kAnyVersion, kDomain),
    ref_row<kBytes, &make_reduce_sum>("ReduceSumInteger", 1, kAnyVersion, kDomain),
    ref_row<kBytes, &make_pool>("QLinearAveragePool", 1, kAnyVersion, kDomain),
    ref_row<kBytes, &make_pool>("QLinearGlobalAveragePool", 1, kAnyVersion, kDomain),
};

}  // namespace

std::span<const KernelEntry> ref_byte_group_rows() { return kRows; }

}  // namespace tenon::cpu::ref

namespace tenon::cpu::nn {

Status match_byte_global_pool(const KernelNode& node) {
  TENON_TRY(expect_one_layout(node));
  TENON_TRY(expect_layout(node.inputs[0], Layout::kBlocked8, "The input"));
  TENON_UNSUPPORTED_IF(!is_byte_type(node.inputs[0].type), "The operand is {}.", data_type_name(node.inputs[0].type));
  TENON_TRY_ASSIGN(const QuantizedPoolDesc desc, read_quantized_pool(*node.node, node.inputs[0].shape));
  TENON_UNSUPPORTED_IF(desc.channels_last || desc.pool.window.in_count() <= 0,
                       "The channels are the last axis, or the maps are empty.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_byte_global_pool(const KernelNode& node) {
  return ref::wrap(node, &ref::make_blocked_global_pool);
}

}  // namespace tenon::cpu::nn
