// F8: eight floats, whatever the machine has: one 256-bit vector, or two of 128 bits. Over Highway's static dispatch.
// Only for simd/*.cc (see isa.h).
#pragma once

#ifndef TENON_ISA
#error "f8.h is for files that are compiled once for each instruction set"
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "ep/cpu/simd/isa.h"

#define TENON_INLINE inline __attribute__((always_inline))

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_MAX_BYTES >= 32
using DF = hn::FixedTag<float, 8>;
using DI = hn::FixedTag<int32_t, 8>;
struct F8 {
  hn::Vec<DF> v;
};
TENON_INLINE F8 load8(const float* p) { return {hn::LoadU(DF(), p)}; }
TENON_INLINE void store8(float* p, F8 a) { hn::StoreU(a.v, DF(), p); }
TENON_INLINE F8 set8(float x) { return {hn::Set(DF(), x)}; }
TENON_INLINE F8 zero8() { return {hn::Zero(DF())}; }
TENON_INLINE F8 operator+(F8 a, F8 b) { return {hn::Add(a.v, b.v)}; }
TENON_INLINE F8 operator-(F8 a, F8 b) { return {hn::Sub(a.v, b.v)}; }
TENON_INLINE F8 operator*(F8 a, F8 b) { return {hn::Mul(a.v, b.v)}; }
TENON_INLINE F8 operator/(F8 a, F8 b) { return {hn::Div(a.v, b.v)}; }
TENON_INLINE F8 min8(F8 a, F8 b) { return {hn::Min(a.v, b.v)}; }
TENON_INLINE F8 max8(F8 a, F8 b) { return {hn::Max(a.v, b.v)}; }
TENON_INLINE F8 fma8(F8 a, F8 b, F8 c) { return {hn::MulAdd(a.v, b.v, c.v)}; }      // a*b + c
TENON_INLINE F8 fnma8(F8 a, F8 b, F8 c) { return {hn::NegMulAdd(a.v, b.v, c.v)}; }  // c - a*b
TENON_INLINE F8 fms8(F8 a, F8 b, F8 c) { return {hn::MulSub(a.v, b.v, c.v)}; }      // a*b - c
TENON_INLINE F8 abs8(F8 a) { return {hn::Abs(a.v)}; }
TENON_INLINE F8 neg8(F8 a) { return {hn::Neg(a.v)}; }
TENON_INLINE F8 sqrt8(F8 a) { return {hn::Sqrt(a.v)}; }
TENON_INLINE F8 round8(F8 a) { return {hn::Round(a.v)}; }  // to nearest even
TENON_INLINE F8 floor8(F8 a) { return {hn::Floor(a.v)}; }
TENON_INLINE F8 copysign8(F8 magnitude, F8 sign) { return {hn::CopySign(magnitude.v, sign.v)}; }
// 2^n for integral n in [-127, 128].
TENON_INLINE F8 exp2i8(F8 n) {
  const auto bits = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(DI(), n.v), hn::Set(DI(), 127)));
  return {hn::BitCast(DF(), bits)};
}
TENON_INLINE F8 select_lt8(F8 a, F8 b, F8 yes, F8 no) { return {hn::IfThenElse(hn::Lt(a.v, b.v), yes.v, no.v)}; }
// b, but a in the lanes where that is NaN.
TENON_INLINE F8 keep_nan8(F8 a, F8 b) { return {hn::IfThenElse(hn::IsNaN(a.v), a.v, b.v)}; }
TENON_INLINE bool any_nan8(F8 a) { return !hn::AllFalse(DF(), hn::IsNaN(a.v)); }
TENON_INLINE float sum8(F8 a) { return hn::GetLane(hn::SumOfLanes(DF(), a.v)); }
TENON_INLINE float maximum8(F8 a) { return hn::GetLane(hn::MaxOfLanes(DF(), a.v)); }
TENON_INLINE float minimum8(F8 a) { return hn::GetLane(hn::MinOfLanes(DF(), a.v)); }
#else
using DF = hn::FixedTag<float, 4>;
using DI = hn::FixedTag<int32_t, 4>;
struct F8 {
  hn::Vec<DF> v, w;
};
#if HWY_ARCH_ARM_A64
// Highway's Min and Max on 64-bit Arm (FMINNM, FMAXNM) give the number where the other operand is a NaN.
TENON_INLINE hn::Vec<DF> min4(hn::Vec<DF> a, hn::Vec<DF> b) { return hn::Vec<DF>(vminq_f32(a.raw, b.raw)); }
TENON_INLINE hn::Vec<DF> max4(hn::Vec<DF> a, hn::Vec<DF> b) { return hn::Vec<DF>(vmaxq_f32(a.raw, b.raw)); }
#else
TENON_INLINE hn::Vec<DF> min4(hn::Vec<DF> a, hn::Vec<DF> b) { return hn::Min(a, b); }
TENON_INLINE hn::Vec<DF> max4(hn::Vec<DF> a, hn::Vec<DF> b) { return hn::Max(a, b); }
#endif
TENON_INLINE F8 load8(const float* p) { return {hn::LoadU(DF(), p), hn::LoadU(DF(), p + 4)}; }
TENON_INLINE void store8(float* p, F8 a) { hn::StoreU(a.v, DF(), p), hn::StoreU(a.w, DF(), p + 4); }
TENON_INLINE F8 set8(float x) { return {hn::Set(DF(), x), hn::Set(DF(), x)}; }
TENON_INLINE F8 zero8() { return {hn::Zero(DF()), hn::Zero(DF())}; }
TENON_INLINE F8 operator+(F8 a, F8 b) { return {hn::Add(a.v, b.v), hn::Add(a.w, b.w)}; }
TENON_INLINE F8 operator-(F8 a, F8 b) { return {hn::Sub(a.v, b.v), hn::Sub(a.w, b.w)}; }
TENON_INLINE F8 operator*(F8 a, F8 b) { return {hn::Mul(a.v, b.v), hn::Mul(a.w, b.w)}; }
TENON_INLINE F8 operator/(F8 a, F8 b) { return {hn::Div(a.v, b.v), hn::Div(a.w, b.w)}; }
TENON_INLINE F8 min8(F8 a, F8 b) { return {min4(a.v, b.v), min4(a.w, b.w)}; }
TENON_INLINE F8 max8(F8 a, F8 b) { return {max4(a.v, b.v), max4(a.w, b.w)}; }
TENON_INLINE F8 fma8(F8 a, F8 b, F8 c) { return {hn::MulAdd(a.v, b.v, c.v), hn::MulAdd(a.w, b.w, c.w)}; }
TENON_INLINE F8 fnma8(F8 a, F8 b, F8 c) { return {hn::NegMulAdd(a.v, b.v, c.v), hn::NegMulAdd(a.w, b.w, c.w)}; }
TENON_INLINE F8 fms8(F8 a, F8 b, F8 c) { return {hn::MulSub(a.v, b.v, c.v), hn::MulSub(a.w, b.w, c.w)}; }
TENON_INLINE F8 abs8(F8 a) { return {hn::Abs(a.v), hn::Abs(a.w)}; }
TENON_INLINE F8 neg8(F8 a) { return {hn::Neg(a.v), hn::Neg(a.w)}; }
TENON_INLINE F8 sqrt8(F8 a) { return {hn::Sqrt(a.v), hn::Sqrt(a.w)}; }
TENON_INLINE F8 round8(F8 a) { return {hn::Round(a.v), hn::Round(a.w)}; }
TENON_INLINE F8 floor8(F8 a) { return {hn::Floor(a.v), hn::Floor(a.w)}; }
TENON_INLINE F8 copysign8(F8 m, F8 s) { return {hn::CopySign(m.v, s.v), hn::CopySign(m.w, s.w)}; }
TENON_INLINE F8 exp2i8(F8 n) {
  const auto lo = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(DI(), n.v), hn::Set(DI(), 127)));
  const auto hi = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(DI(), n.w), hn::Set(DI(), 127)));
  return {hn::BitCast(DF(), lo), hn::BitCast(DF(), hi)};
}
TENON_INLINE F8 select_lt8(F8 a, F8 b, F8 yes, F8 no) {
  return {hn::IfThenElse(hn::Lt(a.v, b.v), yes.v, no.v), hn::IfThenElse(hn::Lt(a.w, b.w), yes.w, no.w)};
}
TENON_INLINE F8 keep_nan8(F8 a, F8 b) {
  return {hn::IfThenElse(hn::IsNaN(a.v), a.v, b.v), hn::IfThenElse(hn::IsNaN(a.w), a.w, b.w)};
}
TENON_INLINE bool any_nan8(F8 a) { return !hn::AllFalse(DF(), hn::IsNaN(a.v)) || !hn::AllFalse(DF(), hn::IsNaN(a.w)); }
TENON_INLINE float sum8(F8 a) { return hn::GetLane(hn::SumOfLanes(DF(), hn::Add(a.v, a.w))); }
TENON_INLINE float maximum8(F8 a) { return hn::GetLane(hn::MaxOfLanes(DF(), hn::Max(a.v, a.w))); }
TENON_INLINE float minimum8(F8 a) { return hn::GetLane(hn::MinOfLanes(DF(), hn::Min(a.v, a.w))); }
#endif

// min8 and max8 are NaN where their second operand is; where only the first is, processors differ. These are NaN
// wherever either operand is.
TENON_INLINE F8 min_or_nan8(F8 a, F8 b) { return keep_nan8(a, min8(a, b)); }
TENON_INLINE F8 max_or_nan8(F8 a, F8 b) { return keep_nan8(a, max8(a, b)); }
TENON_INLINE float minimum_or_nan8(F8 a) { return any_nan8(a) ? __builtin_nanf("") : minimum8(a); }
TENON_INLINE float maximum_or_nan8(F8 a) { return any_nan8(a) ? __builtin_nanf("") : maximum8(a); }

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
