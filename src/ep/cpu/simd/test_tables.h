// For tests: every instruction set's table, not only the one that this machine prefers.
#pragma once

#include <vector>

#include "ep/cpu/simd/isa.h"

namespace tenon::cpu {

// The sets that this machine can run, worst first.
inline std::vector<Isa> testable_isas() {
  std::vector<Isa> isas;
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512})
    if (isa <= selected_isa()) isas.push_back(isa);
  return isas;
}

}  // namespace tenon::cpu

// Declare the tables of one family once in a test file, before their first use; then `name##_of(isa)` is that set's.
#if defined(__x86_64__)
#define TENON_TEST_TABLES(Table, name)                              \
  namespace tenon::cpu {                                            \
  namespace isa_baseline {                                          \
  extern const Table name;                                          \
  }                                                                 \
  namespace isa_avx2 {                                              \
  extern const Table name;                                          \
  }                                                                 \
  namespace isa_avx512 {                                            \
  extern const Table name;                                          \
  }                                                                 \
  inline const Table& name##_of(Isa isa) {                          \
    if (isa == Isa::kAvx512) return isa_avx512::name;               \
    return isa == Isa::kAvx2 ? isa_avx2::name : isa_baseline::name; \
  }                                                                 \
  }
#else
#define TENON_TEST_TABLES(Table, name)                              \
  namespace tenon::cpu {                                            \
  namespace isa_baseline {                                          \
  extern const Table name;                                          \
  }                                                                 \
  inline const Table& name##_of(Isa) { return isa_baseline::name; } \
  }
#endif
