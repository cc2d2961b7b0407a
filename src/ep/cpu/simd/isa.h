// One source, one object for each instruction set. A simd/*.cc file is compiled once for each set in the CMake list
// with -DTENON_ISA=avx2 (say) and that set's flags; everything in it lives in TENON_ISA_NAMESPACE, so that no inline
// function compiled for a newer CPU can be picked by the linker for an older one. Such a file includes no standard
// header with templates or inline functions that it calls (<algorithm>, <vector>, <string>, <cmath> functions): those
// would be shared.
//
// A family (gemm, conv, ...) declares a plain struct of function pointers in simd/<family>.h; simd/<family>_simd.cc
// defines it for each set with TENON_SIMD_TABLE, and simd/<family>_select.cc picks one with TENON_SIMD_SELECT.
#pragma once

#ifdef TENON_ISA
#define TENON_ISA_CONCAT_INNER_(a, b) a##b
#define TENON_ISA_CONCAT_(a, b) TENON_ISA_CONCAT_INNER_(a, b)
#define TENON_ISA_NAMESPACE TENON_ISA_CONCAT_(isa_, TENON_ISA)
#endif

namespace tenon::cpu {

enum class Isa { kBaseline, kAvx2, kAvx512 };

// The best set that both this CPU (CPUID, XCR0) and this build have; TENON_CPU_ISA=baseline|avx2|avx512 lowers it.
Isa selected_isa();
const char* isa_name(Isa isa);
// Whether this CPU has dot products of four bytes (AVX512-VNNI with kAvx512, AVX-VNNI with kAvx2) besides that set.
// Never where TENON_CPU_ISA names a set.
bool selected_vnni();
// Whether the chosen set is AVX-512 and the CPU also permutes bytes across registers (VBMI), under the same condition.
bool selected_vbmi();

}  // namespace tenon::cpu

// In simd/<family>_select.cc: TENON_SIMD_SELECT(GemmTable, gemm_table) declares the tables of all sets and defines
// `const GemmTable& gemm_table()`. In simd/<family>_simd.cc, inside namespace tenon::cpu::TENON_ISA_NAMESPACE:
// `extern const GemmTable gemm_table; const GemmTable gemm_table = {...};`
#if defined(__x86_64__)
#define TENON_SIMD_SELECT(Table, name)      \
  namespace tenon::cpu {                    \
  namespace isa_baseline {                  \
  extern const Table name;                  \
  }                                         \
  namespace isa_avx2 {                      \
  extern const Table name;                  \
  }                                         \
  namespace isa_avx512 {                    \
  extern const Table name;                  \
  }                                         \
  const Table& name() {                     \
    static const Table* const chosen = [] { \
      switch (selected_isa()) {             \
        case Isa::kAvx512:                  \
          return &isa_avx512::name;         \
        case Isa::kAvx2:                    \
          return &isa_avx2::name;           \
        default:                            \
          return &isa_baseline::name;       \
      }                                     \
    }();                                    \
    return *chosen;                         \
  }                                         \
  }
// The same for a family that is also compiled for the sets with VNNI.
#define TENON_VNNI_SELECT(Table, name)                                        \
  namespace tenon::cpu {                                                      \
  namespace isa_baseline {                                                    \
  extern const Table name;                                                    \
  }                                                                           \
  namespace isa_avx2 {                                                        \
  extern const Table name;                                                    \
  }                                                                           \
  namespace isa_avx2vnni {                                                    \
  extern const Table name;                                                    \
  }                                                                           \
  namespace isa_avx512 {                                                      \
  extern const Table name;                                                    \
  }                                                                           \
  namespace isa_avx512vnni {                                                  \
  extern const Table name;                                                    \
  }                                                                           \
  const Table& name() {                                                       \
    static const Table* const chosen = [] {                                   \
      switch (selected_isa()) {                                               \
        case Isa::kAvx512:                                                    \
          return selected_vnni() ? &isa_avx512vnni::name : &isa_avx512::name; \
        case Isa::kAvx2:                                                      \
          return selected_vnni() ? &isa_avx2vnni::name : &isa_avx2::name;     \
        default:                                                              \
          return &isa_baseline::name;                                         \
      }                                                                       \
    }();                                                                      \
    return *chosen;                                                           \
  }                                                                           \
  }
#else
#define TENON_VNNI_SELECT(Table, name) TENON_SIMD_SELECT(Table, name)
#define TENON_SIMD_SELECT(Table, name)               \
  namespace tenon::cpu {                             \
  namespace isa_baseline {                           \
  extern const Table name;                           \
  }                                                  \
  const Table& name() { return isa_baseline::name; } \
  }
#endif
