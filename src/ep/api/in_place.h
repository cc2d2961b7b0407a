// The struct by which a plugin tells Tenon's host which outputs of a compiled node may share memory with its inputs,
// and what a plan should say of it.
//
// ONNX Runtime's ABI has no word for it, so a host has to copy an output that is bound over an input. An EP whose
// device has `tenon.in_place` = "1" in its EP metadata promises that every OrtNodeComputeInfo of its Compile is the
// first member of an InPlaceComputeInfo. Other hosts read the first member alone.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tenon {

inline constexpr const char* kInPlaceKey = "tenon.in_place";

extern "C" {

struct InPlaceComputeInfo {
  OrtNodeComputeInfo info;
  uint32_t size_bytes;  // of this struct; members beyond are not there
  // Whether output `output` of the node may have exactly the address and size of input `input`, for inputs of these
  // shapes (`ranks[i]` numbers at `dims[i]`): 1 or 0. Of several inputs at one address each is asked for. From any
  // thread, as Compute.
  int32_t(ORT_API_CALL* MayRunInPlace)(OrtNodeComputeInfo* info, size_t input, size_t output,
                                       const int64_t* const* dims, const size_t* ranks, size_t count) NO_EXCEPTION;
  // A remark for readers of a plan on how the node computes ("float32 products in TF32"); it stands behind the
  // kernel's name. Valid as long as the node. Null, as a result too: nothing.
  const char*(ORT_API_CALL* Describe)(const OrtNodeComputeInfo* info)NO_EXCEPTION;
};

}  // extern "C"

static_assert(std::is_standard_layout_v<InPlaceComputeInfo>);

}  // namespace tenon
