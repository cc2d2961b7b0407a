#include "ep/cpu/simd/interleave.h"

#include "ep/cpu/simd/f8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

// Vectors of 32 bytes: what wider ones gain, their shuffles across lanes lose.
template <typename T>
using Tag = hn::CappedTag<T, 32 / sizeof(T)>;

template <typename T>
void apart(const T* src, T* dst, int64_t dst_stride, int64_t n) {
  const Tag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::Vec<Tag<T>> a, b, c;
    hn::LoadInterleaved3(d, src + 3 * i, a, b, c);
    hn::StoreU(a, d, dst + i);
    hn::StoreU(b, d, dst + dst_stride + i);
    hn::StoreU(c, d, dst + 2 * dst_stride + i);
  }
  for (; i < n; ++i)
    for (int64_t c = 0; c < 3; ++c) dst[c * dst_stride + i] = src[3 * i + c];
}

template <typename T>
void together(const T* src, int64_t src_stride, T* dst, int64_t n) {
  const Tag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreInterleaved3(hn::LoadU(d, src + i), hn::LoadU(d, src + src_stride + i),
                          hn::LoadU(d, src + 2 * src_stride + i), d, dst + 3 * i);
  for (; i < n; ++i)
    for (int64_t c = 0; c < 3; ++c) dst[3 * i + c] = src[c * src_stride + i];
}

}  // namespace

extern const InterleaveTable interleave_table;
const InterleaveTable interleave_table = {{&apart<uint8_t>, &together<uint8_t>},
                                          {&apart<uint16_t>, &together<uint16_t>},
                                          {&apart<uint32_t>, &together<uint32_t>}};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
