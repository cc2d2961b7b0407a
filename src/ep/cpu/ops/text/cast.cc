#include "ep/cpu/ops/text/cast.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <string>

#include "ep/cpu/ops/sequence/objects.h"
#include "ep/cpu/ops/small_types.h"
#include "ep/cpu/ops/text/write.h"
#include "ops/elementwise.h"

namespace tenon::cpu::ref {

namespace {

// --- numbers to strings ---

// The shortest digits that give the same number again, laid out as C's %g does it.
template <typename T>
void write_float(T value, std::string& text) {
  if (value != value) return void(text = "NaN");
  if (value == std::numeric_limits<T>::infinity()) return void(text = "INF");
  if (value == -std::numeric_limits<T>::infinity()) return void(text = "-INF");
  constexpr int kMostDigits = sizeof(T) == 4 ? 8 : 17;  // before the point
  std::array<char, 400> buffer;
  char* const begin = buffer.data();
  char* end = std::to_chars(begin, begin + buffer.size(), value, std::chars_format::scientific).ptr;
  // "-d.ddde+xx"
  char* const first = begin + (*begin == '-' ? 1 : 0);
  char* const e = std::find(first, end, 'e');
  int exponent = 0;
  std::from_chars(e + (e[1] == '+' ? 2 : 1), end, exponent);
  const auto after_point = static_cast<int>(std::max<ptrdiff_t>(0, e - first - 2));
  if (exponent < -5 || exponent >= kMostDigits) {
    text.assign(begin, end);
  } else if (exponent >= 0 && exponent < after_point) {  // the point moves to the right
    std::copy(first + 2, first + 2 + exponent, first + 1);
    first[1 + exponent] = '.';
    text.assign(begin, e);
  } else {
    end = std::to_chars(begin, begin + buffer.size(), value, std::chars_format::fixed).ptr;
    text.assign(begin, end);
  }
}

template <typename T>
void write_number(T value, std::string& text) {
  if constexpr (std::is_same_v<T, Bool>) {
    text = value ? "1" : "0";
  } else if constexpr (std::is_integral_v<T>) {
    write_integer(value, text);
  } else {
    write_float(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(value), text);
  }
}

using Print = void (*)(const void* x, int64_t count, std::span<std::string> texts);
template <typename T>
void print(const void* x, int64_t count, std::span<std::string> texts) {
  const T* const numbers = static_cast<const T*>(x);
  for (int64_t i = 0; i < count; ++i) write_number(numbers[i], texts[i]);
}

// --- strings to numbers ---

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

// Also "NaN", "INF" and "-inf", in any case.
std::optional<double> read_double(std::string_view text) {
  text = without_blanks(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  if (text.starts_with('+')) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || text.empty()) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    // What is too large or too small: the nearest number that there is.
    const std::string copy(text);
    return std::strtod(copy.c_str(), nullptr);
  }
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

template <typename I>
std::optional<I> read_integer(std::string_view text) {
  std::string_view digits = without_blanks(text);
  if (digits.starts_with('+')) digits.remove_prefix(1);
  I value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc() && end == digits.data() + digits.size()) return value;
  // "3.7" and "1e3": the whole part.
  const std::optional<double> number = read_double(text);
  if (!number || !(*number > -9.3e18 && *number < 1.9e19)) return std::nullopt;
  if (*number < static_cast<double>(std::numeric_limits<I>::min()) ||
      *number >= static_cast<double>(std::numeric_limits<I>::max()))
    return std::nullopt;
  return static_cast<I>(*number);
}

// Elements read; fewer than all where one is no number of the type.
using Read = int64_t (*)(const TextAddress* x, int64_t count, void* y);
template <typename T>
int64_t read(const TextAddress* x, int64_t count, void* y) {
  T* to = static_cast<T*>(y);
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_integral_v<T>) {
      using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
      const std::optional<Wide> value = read_integer<Wide>(text_of(x[i]));
      if (!value) return i;
      to[i] = static_cast<T>(*value);
    } else {
      const std::optional<double> value = read_double(text_of(x[i]));
      if (!value) return i;
      to[i] = static_cast<T>(*value);
    }
  }
  return count;
}

Result<RefImpl> make_print(RefNode& node, int64_t count) {
  const DataType from = node.inputs[0].type;
  const bool is_small = has_type(kSmallSet, from);
  const Print chosen = select(AllTypes(), from, []<typename T>() -> Print { return &print<T>; });
  TENON_UNSUPPORTED_IF(chosen == nullptr && !is_small && from != DataType::kString,
                       "{} of {} to strings is not computed.", node.node->op_type, data_type_name(from));
  RefImpl impl;
  impl.run = [=](KernelContext& context) -> Status {
    auto* y = context.output<TextAddress>(0);
    if (from == DataType::kString) {
      std::copy_n(context.input<TextAddress>(0), count, y);
      return {};
    }
    TENON_TRY_ASSIGN(RunObjects * objects, run_objects(context));
    const std::span<std::string> texts = objects->add_texts(count);
    if (is_small) {
      std::vector<uint8_t> codes(count);
      if (has_type(kPackedSet, from)) {
        unpack_codes(from, context.inputs[0], 0, count, codes.data());
      } else {
        std::copy_n(context.input<uint8_t>(0), count, codes.begin());
      }
      for (int64_t i = 0; i < count; ++i) write_float(small_values(from)[codes[i]], texts[i]);
    } else {
      chosen(context.inputs[0], count, texts);
    }
    for (int64_t i = 0; i < count; ++i) y[i] = &texts[i];
    return {};
  };
  return impl;
}

Status no_number(const KernelContext& context, int64_t index, DataType type) {
  return invalid_argument("Element {}, \"{}\", is no number of type {}.", index,
                          text_of(context.input<TextAddress>(0)[index]), data_type_name(type));
}

Result<RefImpl> make_read(RefNode& node, int64_t count, DataType to) {
  RefImpl impl;
  if (has_type(kSmallSet, to)) {
    TENON_TRY_ASSIGN(const CastRounding rounding, read_cast_rounding(*node.node));
    impl.run = [=](KernelContext& context) -> Status {
      std::vector<double> values(count);
      const int64_t done = read<double>(context.input<TextAddress>(0), count, values.data());
      if (done < count) return no_number(context, done, to);
      std::vector<uint8_t> codes(count);
      for (int64_t i = 0; i < count; ++i) {
        codes[i] = has_type(kSmallIntSet, to) ? static_cast<uint8_t>(static_cast<int64_t>(values[i]))
                                              : small_code(to, values[i], rounding);
      }
      if (has_type(kPackedSet, to)) {
        pack_codes(to, codes.data(), 0, count, context.outputs[0]);
      } else {
        std::copy(codes.begin(), codes.end(), context.output<uint8_t>(0));
      }
      return {};
    };
    return impl;
  }
  const Read chosen = select(AllTypes(), to, []<typename T>() -> Read { return &read<T>; });
  TENON_UNSUPPORTED_IF(chosen == nullptr, "{} of strings to {} is not computed.", node.node->op_type,
                       data_type_name(to));
  impl.run = [=](KernelContext& context) -> Status {
    const int64_t done = chosen(context.input<TextAddress>(0), count, context.outputs[0]);
    return done < count ? no_number(context, done, to) : Status();
  };
  return impl;
}

}  // namespace

Status match_string_cast(const KernelNode& node) {
  const DataType from = input_spec(node, 0).type, to = output_spec(node, 0).type;
  TENON_UNSUPPORTED_IF(from != DataType::kString && to != DataType::kString, "No side is strings.");
  TENON_UNSUPPORTED_IF(
      from == DataType::kObject || to == DataType::kObject || has_type(kComplexSet, from) || has_type(kComplexSet, to),
      "{} from {} to {} is not computed.", node.node->op_type, data_type_name(from), data_type_name(to));
  for (const TensorSpec& spec : node.inputs)
    TENON_UNSUPPORTED_IF(spec.layout != Layout::kPlain, "The reference kernel takes plain tensors only.");
  return {};
}

Result<RefImpl> make_string_cast(RefNode& node) {
  TENON_TRY(require_inputs(node, node.node->op_type == "CastLike" ? 2 : 1));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  const int64_t count = node.inputs[0].shape.element_count();
  const DataType to = output_spec(node, 0).type;
  if (to == DataType::kString) return make_print(node, count);
  return make_read(node, count, to);
}

}  // namespace tenon::cpu::ref
