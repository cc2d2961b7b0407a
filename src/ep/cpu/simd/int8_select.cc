#include "ep/cpu/simd/amx.h"
#include "ep/cpu/simd/int8.h"
#include "ep/cpu/simd/isa.h"

#if defined(__x86_64__)
// TENON_VNNI_SELECT, and tiles before all of these.
namespace tenon::cpu {
namespace isa_baseline {
extern const Int8Table int8_table;
}
namespace isa_avx2 {
extern const Int8Table int8_table;
}
namespace isa_avx2vnni {
extern const Int8Table int8_table;
}
namespace isa_avx512 {
extern const Int8Table int8_table;
}
namespace isa_avx512vnni {
extern const Int8Table int8_table, int8_amx_table;
}
const Int8Table& int8_table() {
  static const Int8Table* const chosen = [] {
    if (selected_amx()) return &isa_avx512vnni::int8_amx_table;
    switch (selected_isa()) {
      case Isa::kAvx512:
        return selected_vnni() ? &isa_avx512vnni::int8_table : &isa_avx512::int8_table;
      case Isa::kAvx2:
        return selected_vnni() ? &isa_avx2vnni::int8_table : &isa_avx2::int8_table;
      default:
        return &isa_baseline::int8_table;
    }
  }();
  return *chosen;
}
}  // namespace tenon::cpu
#else
TENON_SIMD_SELECT(Int8Table, int8_table)
#endif
