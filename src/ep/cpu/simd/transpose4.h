// Transposes 4x4 floats in registers. Only for simd/*.cc (see isa.h).
#pragma once

#include "ep/cpu/simd/f8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

// dst[j * dst_stride + i] = src[i * src_stride + j] for i, j < 4.
TENON_INLINE void transpose4x4(const float* src, int64_t src_stride, float* dst, int64_t dst_stride) {
  const hn::FixedTag<float, 4> d4;
  const hn::FixedTag<double, 2> d2;
  const auto r0 = hn::LoadU(d4, src);
  const auto r1 = hn::LoadU(d4, src + src_stride);
  const auto r2 = hn::LoadU(d4, src + 2 * src_stride);
  const auto r3 = hn::LoadU(d4, src + 3 * src_stride);
  const auto a = hn::BitCast(d2, hn::InterleaveLower(d4, r0, r1));  // 00 10 01 11
  const auto b = hn::BitCast(d2, hn::InterleaveLower(d4, r2, r3));  // 20 30 21 31
  const auto c = hn::BitCast(d2, hn::InterleaveUpper(d4, r0, r1));
  const auto d = hn::BitCast(d2, hn::InterleaveUpper(d4, r2, r3));
  hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(d2, a, b)), d4, dst);
  hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(d2, a, b)), d4, dst + dst_stride);
  hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(d2, c, d)), d4, dst + 2 * dst_stride);
  hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(d2, c, d)), d4, dst + 3 * dst_stride);
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
