// CopyTensors: bytes between tensors wherever they live, through the one function that copies.
#include "abi/env.h"
#include "abi/slots.h"
#include "abi/status.h"
#include "abi/sync_stream.h"
#include "abi/value.h"
#include "device/copy.h"
#include "runtime/ep_registry.h"

namespace tenon::abi {

namespace {

Status copy_one(const OrtValue* src, OrtValue* dst, DeviceStream* stream, size_t index) {
  TENON_INVALID_IF(src == nullptr || dst == nullptr, "Tensor {} of CopyTensors is null.", index);
  TENON_INVALID_IF(!src->is_tensor() || !dst->is_tensor() || src->is_string_tensor() || dst->is_string_tensor(),
                   "Value {} of CopyTensors is no tensor of numbers.", index);
  TENON_INVALID_IF(!(src->tensor.shape() == dst->tensor.shape()),
                   "Tensor {} of CopyTensors has shape {} and goes to {}.", index, src->tensor.shape().to_string(),
                   dst->tensor.shape().to_string());
  TENON_INVALID_IF(dst->tensor.read_only(), "Tensor {} of CopyTensors goes to read-only memory.", index);
  const auto transfer = tenon::EpRegistry::instance().find_transfer(src->tensor.place(), dst->tensor.place());
  return copy_tensor(dst->tensor, src->tensor, CopyReason::kCallerAsked, "CopyTensors", nullptr, transfer.get(),
                     stream);
}

}  // namespace

OrtStatus* ort_api::CopyTensors(const OrtEnv* env, const OrtValue* const* src_tensors, OrtValue* const* dst_tensors,
                                OrtSyncStream* stream, size_t num_tensors) noexcept {
  if (OrtStatus* bad =
          check_pointers("CopyTensors", {{"env", env}, {"src_tensors", src_tensors}, {"dst_tensors", dst_tensors}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    for (size_t i = 0; i < num_tensors; ++i) {
      const Status status = copy_one(src_tensors[i], dst_tensors[i], stream != nullptr ? stream->stream : nullptr, i);
      if (!status.ok()) return to_ort(status);
    }
    return nullptr;
  });
}

}  // namespace tenon::abi
