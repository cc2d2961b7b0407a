// The DLPack structs. Debian 12's header is 0.6; additions of version 1 are declared here with the layout of the DLPack
// 1.0 specification.
#pragma once

#include <dlpack/dlpack.h>

#include <cstddef>
#include <cstdint>

#ifndef DLPACK_MAJOR_VERSION

struct DLPackVersion {
  uint32_t major;
  uint32_t minor;
};

struct DLManagedTensorVersioned {
  DLPackVersion version;  // of another major number, nothing after the deleter may be read
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  uint64_t flags;
  DLTensor dl_tensor;
};

static_assert(offsetof(DLManagedTensorVersioned, flags) == 8 + 2 * sizeof(void*));

#endif

namespace tenon {

inline constexpr uint32_t kDlpackMajor = 1;
inline constexpr uint64_t kDlpackReadOnly = 1;

// Type codes as in the specification; the older header lacks the later ones.
inline constexpr uint8_t kDlpackInt = 0, kDlpackUint = 1, kDlpackFloat = 2, kDlpackBfloat = 4, kDlpackComplex = 5,
                         kDlpackBool = 6, kDlpackFloat8E4M3FN = 10, kDlpackFloat8E4M3FNUZ = 11, kDlpackFloat8E5M2 = 12,
                         kDlpackFloat8E5M2FNUZ = 13, kDlpackFloat8E8M0 = 14;

}  // namespace tenon
