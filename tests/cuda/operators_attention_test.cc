// Attention as one operator: every size of a head that has a kernel and some that have none, odd sequences, masks of
// every form.
#include <limits>

#include "operators_testing.h"

namespace tenon::cuda {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

enum class Mask : uint8_t { kNone, kPadding, kCausal, kOfHeads, kWholeRows };

// [batch or 1, heads or 1, queries or 1, keys], added to the scores. The first key is never masked but by kWholeRows.
Operand make_mask(Mask mask, int64_t batch, int64_t heads, int64_t queries, int64_t keys, float masked) {
  if (mask == Mask::kOfHeads) return {.shape = Shape{batch, heads, queries, keys}, .low = -3, .high = 3};
  Operand made;
  if (mask == Mask::kPadding) {
    made.shape = Shape{batch, 1, 1, keys};
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t k = 0; k < keys; ++k) made.floats.push_back(k > 0 && k >= keys - b * keys / 3 ? masked : 0);
    return made;
  }
  made.shape = Shape{1, 1, queries, keys};
  if (mask == Mask::kWholeRows) {
    // Of each five queries one has all its keys masked, and one a NaN among its masks.
    for (int64_t q = 0; q < queries; ++q)
      for (int64_t k = 0; k < keys; ++k)
        made.floats.push_back(q % 5 == 1 ? masked : q % 5 == 3 && k == keys / 2 ? std::nanf("") : 0);
    return made;
  }
  for (int64_t q = 0; q < queries; ++q)
    for (int64_t k = 0; k < keys; ++k) made.floats.push_back(k <= q + keys - queries ? 0 : masked);
  return made;
}

class Attention : public Operators, public testing::WithParamInterface<int64_t> {
 protected:
  void check_attention(int64_t batch, int64_t heads, int64_t queries, int64_t keys, Mask mask, float masked,
                       bool guarded = false) {
    SCOPED_TRACE(format("{}x{}x{}x{} keys {} mask {} {}", batch, heads, queries, GetParam(), keys,
                        static_cast<int>(mask), masked));
    const int64_t head = GetParam();
    Case test{
        "Attention",
        {{Shape{batch, queries, heads * head}}, {Shape{batch, keys, heads * head}}, {Shape{batch, keys, heads * head}}},
        [&](Node& node) {
          node.domain = "tenon";
          node.set_int("num_heads", heads);
          node.set_float("scale", 2.0F / std::sqrt(static_cast<float>(head)));
          node.set_int("guarded", guarded ? 1 : 0);
        },
        1};
    if (mask != Mask::kNone) test.inputs.push_back(make_mask(mask, batch, heads, queries, keys, masked));
    check(test);
  }
};

// Compute: against the CPU EP in float32, TF32, float16 and bfloat16.
TEST_P(Attention, IsTheCpuEpsForEveryMaskAndLength) {
  for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{1, 1}, {7, 7}, {33, 33}, {16, 129}, {128, 128}}) {
    check_attention(2, 3, queries, keys, Mask::kNone, 0);
    check_attention(3, 2, queries, keys, Mask::kPadding, -10000);
    check_attention(2, 2, queries, keys, Mask::kPadding, kNever);
    check_attention(1, 4, queries, keys, Mask::kCausal, kNever);
    check_attention(2, 2, queries, keys, Mask::kOfHeads, 0);
  }
  // Many blocks of queries: the other form of the kernel.
  check_attention(small_sizes() ? 3 : 8, 16, 130, 130, Mask::kCausal, -10000);
  check_attention(small_sizes() ? 5 : 8, 16, 67, 200, Mask::kPadding, -10000);
}

// Compute: what Softmax gives, not the zeros of an empty sum (docs/reference/operators.md).
TEST_P(Attention, ARowThatIsMaskedThroughoutIsNaN) {
  for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{2, 1}, {7, 7}, {33, 129}, {128, 40}})
    check_attention(2, 3, queries, keys, Mask::kWholeRows, kNever);
  check_attention(small_sizes() ? 3 : 8, 16, 130, 130, Mask::kWholeRows, kNever);
}

// Compute: zeros instead, where the model replaces NaN after its softmax.
TEST_P(Attention, AGuardedRowThatIsMaskedThroughoutIsZeros) {
  for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{2, 1}, {7, 7}, {33, 129}, {128, 40}})
    check_attention(2, 3, queries, keys, Mask::kWholeRows, kNever, true);
  check_attention(small_sizes() ? 3 : 8, 16, 130, 130, Mask::kWholeRows, kNever, true);
}

INSTANTIATE_TEST_SUITE_P(Heads, Attention, testing::Values<int64_t>(32, 64, 80, 128, 24));

}  // namespace
}  // namespace tenon::cuda
