// Cast and CastLike between every type of numbers.
#include <algorithm>
#include <array>
#include <cstring>

#include "ep/cpu/ops/elementwise/casts.h"
#include "ep/cpu/ops/reference_kernel.h"
#include "ep/cpu/ops/small_types.h"
#include "ops/elementwise.h"

namespace tenon::cpu::ref {

namespace {

// Elements of a chunk that is worth claiming.
constexpr int64_t kGrain = 16384;

// Elements that are converted at a time where a side is a type that C++ lacks.
constexpr int64_t kChunk = 256;

// x of a small type through its values, which float32 holds exactly.
struct FromSmall {
  DataType type;
  CastSteps convert;  // from float32

  void run(const void* x, int64_t first, int64_t count, void* y) const {
    std::array<uint8_t, kChunk> codes{};
    std::array<float, kChunk> values{};
    if (has_type(kPackedSet, type)) {
      unpack_codes(type, x, first, count, codes.data());
    } else {
      std::memcpy(codes.data(), static_cast<const uint8_t*>(x) + first, count);
    }
    const std::array<float, 256>& table = small_values(type);
    for (int64_t i = 0; i < count; ++i) values[i] = table[codes[i]];
    convert.run(values.data(), y, count);
  }
};

// y of a small type: floats are rounded once from double, integers are the low bits of int8.
struct ToSmall {
  DataType type;
  CastRounding rounding;
  CastSteps convert;  // to int8 or double

  void run(const void* x, int64_t first, int64_t count, void* y) const {
    std::array<uint8_t, kChunk> codes{};
    if (has_type(kSmallIntSet, type)) {
      convert.run(x, codes.data(), count);
    } else {
      std::array<double, kChunk> values{};
      convert.run(x, values.data(), count);
      for (int64_t i = 0; i < count; ++i) codes[i] = small_code(type, values[i], rounding);
    }
    if (has_type(kPackedSet, type)) {
      pack_codes(type, codes.data(), first, count, y);
    } else {
      std::memcpy(static_cast<uint8_t*>(y) + first, codes.data(), count);
    }
  }
};

// A cast with a small type on one side or both: by chunks, through float32 where x is small.
Result<RefImpl> make_small_cast(const RefNode& node, DataType from, DataType to) {
  const bool from_small = has_type(kSmallSet, from), to_small = has_type(kSmallSet, to);
  const DataType middle = has_type(kSmallIntSet, to) ? DataType::kInt8 : DataType::kDouble;
  TENON_TRY_ASSIGN(const CastRounding rounding, read_cast_rounding(*node.node));
  const FromSmall decode{from, from_small ? CastSteps(DataType::kFloat, to_small ? middle : to) : CastSteps()};
  const ToSmall encode{to, rounding, to_small ? CastSteps(from_small ? middle : from, middle) : CastSteps()};
  TENON_UNSUPPORTED_IF((from_small && !decode.convert) || (to_small && !encode.convert),
                       "{} is not computed from {} to {}.", node.node->op_type, data_type_name(from),
                       data_type_name(to));
  RefImpl impl;
  impl.elementwise = true;
  impl.run = [=, count = node.inputs[0].shape.element_count(), from_bytes = static_cast<int64_t>(data_type_size(from)),
              to_bytes = static_cast<int64_t>(data_type_size(to))](KernelContext& context) -> Status {
    const auto* x = context.input<std::byte>(0);
    auto* y = context.output<std::byte>(0);
    const auto convert = [&](int64_t first) {
      const int64_t length = std::min(kChunk, count - first);
      if (!to_small) {
        decode.run(x, first, length, y + first * to_bytes);
      } else if (!from_small) {
        encode.run(x + first * from_bytes, first, length, y);
      } else {
        std::array<double, kChunk> values{};
        decode.run(x, first, length, values.data());
        encode.run(values.data(), first, length, y);
      }
    };
    context.pool->parallel_for((count + kChunk - 1) / kChunk, kGrain / kChunk, [&](int64_t begin, int64_t end) {
      for (int64_t chunk = begin; chunk < end; ++chunk) convert(chunk * kChunk);
    });
    return {};
  };
  return impl;
}

Result<RefImpl> make_cast(RefNode& node) {
  TENON_TRY(require_inputs(node, node.node->op_type == "CastLike" ? 2 : 1));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  DataType to = DataType::kUndefined;
  if (node.node->op_type == "CastLike") {
    to = node.inputs[1].type;
  } else {
    TENON_TRY_ASSIGN(to, read_cast_type(*node.node));
  }
  TENON_INVALID_IF(output_spec(node, 0).type != to, "{} makes {}, but its output was planned as {}.",
                   node.node->op_type, data_type_name(to), data_type_name(output_spec(node, 0).type));
  const DataType from = node.inputs[0].type;
  if (has_type(kSmallSet, from) || has_type(kSmallSet, to)) return make_small_cast(node, from, to);
  const CastSteps steps(from, to);
  TENON_UNSUPPORTED_IF(!steps, "{} is not computed from {} to {}.", node.node->op_type, data_type_name(from),
                       data_type_name(to));
  RefImpl impl;
  impl.elementwise = true;
  impl.run = [steps, count = node.inputs[0].shape.element_count(), x_bytes = data_type_size(node.inputs[0].type),
              y_bytes = data_type_size(to)](KernelContext& context) -> Status {
    context.pool->parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
      steps.run(context.input<std::byte>(0) + begin * x_bytes, context.output<std::byte>(0) + begin * y_bytes,
                end - begin);
    });
    return {};
  };
  return impl;
}

Status match_cast(const KernelNode& node) {
  constexpr TypeSet kTypes = kAllSet | kSmallSet;
  TENON_TRY(check_types(node, kTypes, 0));
  const TensorSpec& out = output_spec(node, 0);
  TENON_UNSUPPORTED_IF(out.present() && !has_type(kTypes, out.type), "{} to {} is not computed.", node.node->op_type,
                       data_type_name(out.type));
  return {};
}

constexpr KernelEntry kRows[] = {
    {"", "Cast", 6, kAnyVersion, "ref", &match_cast, &create_packed_ref<&make_cast>},
    {"", "CastLike", 15, kAnyVersion, "ref", &match_cast, &create_packed_ref<&make_cast>},
};

}  // namespace

std::span<const KernelEntry> ref_cast_rows() { return kRows; }

}  // namespace tenon::cpu::ref
