// Operators that ai.onnx had on trial until opset 10, which converters of Core ML and of Windows ML write, and the
// copies that ONNX Runtime puts between devices.
#include <limits>

#include "plan/expand.h"

namespace tenon::expand {

namespace {

ValueId times(Expansion& to, ValueId x, float factor, ValueId made = kNoValue) {
  return to.add("Mul", {x, to.scalar(factor, to.type(x))}, {}, made);
}

float factor(const Expansion& to, std::string_view name) { return to.attributes().find_number(name).value_or(1); }

void affine(Expansion& to) {
  const ValueId offset = to.scalar(to.attributes().find_number("beta").value_or(0), to.type(to.in(0)));
  to.add("Add", {times(to, to.in(0), factor(to, "alpha")), offset}, {}, to.out(0));
}

void scale(Expansion& to) { times(to, to.in(0), factor(to, "scale"), to.out(0)); }

void scaled_tanh(Expansion& to) {
  times(to, to.add("Tanh", {times(to, to.in(0), factor(to, "beta"))}), factor(to, "alpha"), to.out(0));
}

void parametric_softplus(Expansion& to) {
  times(to, to.add("Softplus", {times(to, to.in(0), factor(to, "beta"))}), factor(to, "alpha"), to.out(0));
}

void image_scaler(Expansion& to) {
  const std::span<const float> bias = to.attributes().numbers("bias");
  const int64_t channels = to.known_size(to.in(0), 1), count = std::ssize(bias);
  if (count == 0 || (channels >= 0 && channels != count)) {
    to.fail(invalid_argument("ImageScaler has a bias of {} numbers for {} channels.", count, channels));
    return;
  }
  const ValueId offsets = to.cast(to.reshape(to.numbers(bias), {count, 1, 1}), to.type(to.in(0)));
  to.add("Add", {times(to, to.in(0), factor(to, "scale")), offsets}, {}, to.out(0));
}

void crop(Expansion& to) {
  const std::span<const int64_t> border = to.attributes().integers("border"), size = to.attributes().integers("scale");
  if (border.size() != 4 || (!size.empty() && size.size() != 2)) {
    to.fail(
        invalid_argument("Crop has {} numbers in \"border\" instead of 4, and {} in \"scale\" instead of none or 2.",
                         border.size(), size.size()));
    return;
  }
  int64_t starts[2] = {}, ends[2] = {};
  for (int i = 0; i < 2; ++i) {
    const int64_t before = border[1 - i], after = border[3 - i], has = to.known_size(to.in(0), 2 + i);
    const int64_t kept = size.empty() ? after : size[i];
    const int64_t most = has >= 0 ? has : std::numeric_limits<int64_t>::max();
    if (before < 0 || kept < 0 || before > most || kept > most - before) {
      to.fail(invalid_argument("Crop with {} before and {} {} does not fit axis {} of at most {} elements.", before,
                               kept, size.empty() ? "behind" : "kept", 2 + i, most));
      return;
    }
    starts[i] = before;
    ends[i] = !size.empty() ? before + kept : after == 0 ? std::numeric_limits<int64_t>::max() : -after;
  }
  to.add("Slice", {to.in(0), to.constant(starts), to.constant(ends), to.constant({2, 3})}, {}, to.out(0));
}

void dynamic_slice(Expansion& to) { to.add("Slice", {to.in(0), to.in(1), to.in(2), to.in(3)}, {}, to.out(0)); }

void copy(Expansion& to) { to.add("Identity", {to.in(0)}, {}, to.out(0)); }

constexpr Row kRows[] = {
    {"", "Affine", &affine},
    {"", "Crop", &crop},
    {"", "DynamicSlice", &dynamic_slice},
    {"", "ImageScaler", &image_scaler},
    {"", "MemcpyFromHost", &copy},
    {"", "MemcpyToHost", &copy},
    {"", "ParametricSoftplus", &parametric_softplus},
    {"", "Scale", &scale},
    {"", "ScaledTanh", &scaled_tanh},
};

}  // namespace

std::span<const Row> experimental_rows() { return kRows; }

}  // namespace tenon::expand
