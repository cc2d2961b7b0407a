#include "ep/cpu/simd/boxes.h"

#include "ep/cpu/simd/wide.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;

// The rectangles that a box shares with others: their sides are not above 0 where they lie apart.
struct Shared {
  V width, height;

  Shared(const BoxLists& boxes, int64_t first, const Box& box) {
    const D d;
    const auto side = [&](const float* low, const float* high, float from, float to) {
      return hn::Sub(hn::Min(hn::LoadU(d, high + first), hn::Set(d, to)),
                     hn::Max(hn::LoadU(d, low + first), hn::Set(d, from)));
    };
    width = side(boxes.left, boxes.right, box.left, box.right);
    height = side(boxes.top, boxes.bottom, box.top, box.bottom);
  }
  hn::Mask<D> exists() const {
    const V zero = hn::Zero(D());
    return hn::And(hn::Gt(width, zero), hn::Gt(height, zero));
  }
  hn::Mask<D> counts(V other_area, const Box& box, float threshold) const {
    const D d;
    const V zero = hn::Zero(d), shared = hn::Mul(width, height);
    const V all = hn::Sub(hn::Add(hn::Set(d, box.area), other_area), shared);
    return hn::And(hn::And(exists(), hn::And(hn::Gt(other_area, zero), hn::Gt(all, zero))),
                   hn::Gt(hn::Div(shared, all), hn::Set(d, threshold)));
  }
};

bool overlaps(const BoxLists& boxes, int64_t count, const Box& box, float threshold) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (!(box.area > 0)) return false;
  const auto any_counts = [&](const BoxLists& lists, int64_t first) {
    const V area = hn::LoadU(d, lists.area + first);
    return !hn::AllFalse(d, Shared(lists, first, box).counts(area, box, threshold));
  };
  constexpr int kTogether = 4;  // vectors, of which most share nothing
  int64_t i = 0;
  for (; i + kTogether * lanes <= count; i += kTogether * lanes) {
    hn::Mask<D> any = Shared(boxes, i, box).exists();
#pragma GCC unroll 4
    for (int k = 1; k < kTogether; ++k) any = hn::Or(any, Shared(boxes, i + k * lanes, box).exists());
    if (hn::AllFalse(d, any)) continue;
    for (int k = 0; k < kTogether; ++k)
      if (any_counts(boxes, i + k * lanes)) return true;
  }
  for (; i + lanes <= count; i += lanes)
    if (any_counts(boxes, i)) return true;
  if (i == count) return false;
  // The last vector takes in boxes before it, or zeros.
  if (count >= lanes) return any_counts(boxes, count - lanes);
  alignas(64) float padded[5][16] = {};
  const float* const lists[5] = {boxes.left, boxes.top, boxes.right, boxes.bottom, boxes.area};
  for (int list = 0; list < 5; ++list)
    for (int64_t k = 0; k < count; ++k) padded[list][k] = lists[list][k];
  return any_counts({padded[0], padded[1], padded[2], padded[3], padded[4]}, 0);
}

}  // namespace

extern const BoxesTable boxes_table;
const BoxesTable boxes_table = {&overlaps};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
