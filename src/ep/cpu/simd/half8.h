// Eight floats from 16-bit memory and back, and the same for one. Only for simd/*.cc (see isa.h).
#pragma once

#include "ep/cpu/simd/wide.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace tenon::cpu::TENON_ISA_NAMESPACE {

TENON_INLINE uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
TENON_INLINE float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }

// The type of memory: an f16 or a bf16, both as bits.
struct Half {
  static TENON_INLINE float decode(uint16_t bits) {
    const uint32_t sign = (uint32_t{bits} & 0x8000u) << 16, magnitude = bits & 0x7fffu;
    // Below the smallest normal number, a multiple of 2^-24.
    const uint32_t small = bits_of(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
    const uint32_t normal = (magnitude << 13) + 0x38000000u;
    const uint32_t special = (magnitude << 13) | 0x7f800000u;
    return float_of(sign | (magnitude >= 0x7c00u ? special : magnitude < 0x400u ? small : normal));
  }
  static TENON_INLINE uint16_t encode(float value) {
    const uint32_t bits = bits_of(value), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    // The last place of 0.5 is 2^-24, that of the small numbers: the sum rounds as they have to.
    const uint32_t small = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
    const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    const uint32_t finite = magnitude < 0x38800000u ? small : normal;
    const uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
    return static_cast<uint16_t>(sign | (magnitude >= 0x477ff000u ? special : finite));
  }
#if defined(__F16C__)
  static TENON_INLINE F8 load8(const uint16_t* p) {
    return {hn::Vec<DF>{_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))}};
  }
  static TENON_INLINE void store8(uint16_t* p, F8 a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a.v.raw, _MM_FROUND_TO_NEAREST_INT));
  }
#elif HWY_ARCH_ARM_A64
  static TENON_INLINE F8 load8(const uint16_t* p) {
    return {hn::Vec<DF>(vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)))),
            hn::Vec<DF>(vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4))))};
  }
  static TENON_INLINE void store8(uint16_t* p, F8 a) {
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(a.v.raw)));
    vst1_u16(p + 4, vreinterpret_u16_f16(vcvt_f16_f32(a.w.raw)));
  }
#else
  static TENON_INLINE F8 load8(const uint16_t* p) {
    float lanes[8];
    for (int i = 0; i < 8; ++i) lanes[i] = decode(p[i]);
    return tenon::cpu::TENON_ISA_NAMESPACE::load8(lanes);
  }
  static TENON_INLINE void store8(uint16_t* p, F8 a) {
    float lanes[8];
    tenon::cpu::TENON_ISA_NAMESPACE::store8(lanes, a);
    for (int i = 0; i < 8; ++i) p[i] = encode(lanes[i]);
  }
#endif
#if HWY_MAX_BYTES >= 64
  static TENON_INLINE FW load_wide(const uint16_t* p) {
    return {hn::Vec<DW>{_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))}};
  }
  static TENON_INLINE void store_wide(uint16_t* p, FW a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v.raw, _MM_FROUND_TO_NEAREST_INT));
  }
#else
  static TENON_INLINE FW load_wide(const uint16_t* p) { return load8(p); }
  static TENON_INLINE void store_wide(uint16_t* p, FW a) { store8(p, a); }
#endif
};

struct Brain {
  static TENON_INLINE float decode(uint16_t bits) { return float_of(uint32_t{bits} << 16); }
  static TENON_INLINE uint16_t encode(float value) {
    const uint32_t bits = bits_of(value);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded);
  }
  static TENON_INLINE F8 load8(const uint16_t* p) {
#if HWY_MAX_BYTES >= 32
    const auto words = hn::PromoteTo(hn::FixedTag<uint32_t, 8>(), hn::LoadU(hn::FixedTag<uint16_t, 8>(), p));
    return {hn::BitCast(DF(), hn::ShiftLeft<16>(words))};
#else
    const hn::FixedTag<uint32_t, 4> words;
    const hn::FixedTag<uint16_t, 4> parts;
    return {hn::BitCast(DF(), hn::ShiftLeft<16>(hn::PromoteTo(words, hn::LoadU(parts, p)))),
            hn::BitCast(DF(), hn::ShiftLeft<16>(hn::PromoteTo(words, hn::LoadU(parts, p + 4))))};
#endif
  }
  template <class V>
  static TENON_INLINE auto encoded(V value) {
    const hn::RebindToUnsigned<hn::DFromV<V>> words;
    const auto bits = hn::BitCast(words, value);
    const auto even = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(even, hn::Set(words, 0x7fff))));
    const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(words, 0x40));
    const auto result = hn::IfThenElse(hn::RebindMask(words, hn::IsNaN(value)), quiet, rounded);
    // No number is above 2^16, so the conversion of the signed word saturates nothing.
    const hn::RebindToSigned<decltype(words)> numbers;
    return hn::DemoteTo(hn::Rebind<uint16_t, decltype(words)>(), hn::BitCast(numbers, result));
  }
  static TENON_INLINE void store8(uint16_t* p, F8 a) {
#if HWY_MAX_BYTES >= 32
    hn::StoreU(encoded(a.v), hn::FixedTag<uint16_t, 8>(), p);
#else
    hn::StoreU(encoded(a.v), hn::FixedTag<uint16_t, 4>(), p);
    hn::StoreU(encoded(a.w), hn::FixedTag<uint16_t, 4>(), p + 4);
#endif
  }
#if HWY_MAX_BYTES >= 64
  static TENON_INLINE FW load_wide(const uint16_t* p) {
    const auto words = hn::PromoteTo(hn::FixedTag<uint32_t, 16>(), hn::LoadU(hn::FixedTag<uint16_t, 16>(), p));
    return {hn::BitCast(DW(), hn::ShiftLeft<16>(words))};
  }
  static TENON_INLINE void store_wide(uint16_t* p, FW a) { hn::StoreU(encoded(a.v), hn::FixedTag<uint16_t, 16>(), p); }
#else
  static TENON_INLINE FW load_wide(const uint16_t* p) { return load8(p); }
  static TENON_INLINE void store_wide(uint16_t* p, FW a) { store8(p, a); }
#endif
};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
