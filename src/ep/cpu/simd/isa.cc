#include "ep/cpu/simd/isa.h"

#include <cstdint>
#include <string>

#include "base/env.h"
#include "base/fault.h"
#include "ep/cpu/simd/amx.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tenon::cpu {

namespace {

#if defined(__x86_64__)
// The register state that the operating system saves: without it, wider registers lose their upper halves.
uint64_t saved_state() {
  uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

Isa detect() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return Isa::kBaseline;
  constexpr uint32_t kFma = 1u << 12, kOsxsave = 1u << 27, kAvx = 1u << 28, kF16c = 1u << 29;
  constexpr uint32_t kLeaf1 = kFma | kOsxsave | kAvx | kF16c;
  if ((c & kLeaf1) != kLeaf1) return Isa::kBaseline;
  const uint64_t state = saved_state();
  if ((state & 0x6) != 0x6) return Isa::kBaseline;  // XMM and YMM
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return Isa::kBaseline;
  constexpr uint32_t kAvx2 = (1u << 5) | (1u << 3) | (1u << 8);  // AVX2, BMI1, BMI2
  if ((b & kAvx2) != kAvx2) return Isa::kBaseline;
  constexpr uint32_t kAvx512 = (1u << 16) | (1u << 17) | (1u << 28) | (1u << 30) | (1u << 31);  // F, DQ, CD, BW, VL
  if ((b & kAvx512) == kAvx512 && (state & 0xe6) == 0xe6) return Isa::kAvx512;
  return Isa::kAvx2;
}

bool has_vnni(Isa isa) {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (isa == Isa::kAvx512) return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & (1u << 11)) != 0;
  return isa == Isa::kAvx2 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & (1u << 4)) != 0;
}

bool has_vbmi() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & (1u << 1)) != 0;
}

bool has_amx() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  constexpr uint32_t kAmx = (1u << 22) | (1u << 24) | (1u << 25);  // AMX-BF16, AMX-TILE, AMX-INT8
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & kAmx) == kAmx && (saved_state() & 0x60000) == 0x60000;
}
#else
Isa detect() { return Isa::kBaseline; }
bool has_vnni(Isa) { return false; }
bool has_vbmi() { return false; }
bool has_amx() { return false; }
#endif

// Linux saves tile registers only for processes that asked, and refuses where a thread's signal stack is too small.
bool granted_amx() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

// Whether TENON_CPU_ISA chooses the set.
bool isa_is_named() {
  const std::string wanted = env_value(Env::kCpuIsa);
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512})
    if (wanted == isa_name(isa)) return true;
  return false;
}

}  // namespace

Isa selected_isa() {
  static const Isa chosen = [] {
    const Isa best = detect();
    const std::string wanted = env_value(Env::kCpuIsa);
    for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512})
      if (wanted == isa_name(isa) && isa < best) return isa;
    return best;
  }();
  return chosen;
}

bool selected_vnni() {
  static const bool has = !isa_is_named() && has_vnni(selected_isa());
  return has;
}

bool selected_vbmi() {
  static const bool has = !isa_is_named() && selected_isa() == Isa::kAvx512 && has_vbmi();
  return has;
}

Status request_amx() {
  TENON_UNSUPPORTED_IF(selected_isa() != Isa::kAvx512 || !has_vnni(Isa::kAvx512) || !has_amx(),
                       "This CPU has no AMX products of int8 and bfloat16 besides AVX-512.");
  TENON_FAULT_POINT("amx permission");
  TENON_UNSUPPORTED_IF(!granted_amx(), "The operating system grants this process no AMX tile registers.");
  return {};
}

bool selected_amx() {
  static const bool has = !isa_is_named() && request_amx().ok();
  return has;
}

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kBaseline:
      return "baseline";
  }
  return "baseline";
}

}  // namespace tenon::cpu
