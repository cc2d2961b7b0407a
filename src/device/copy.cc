#include "device/copy.h"

#include <cstring>

#include "base/log.h"
#include "base/status.h"
#include "base/trace.h"
#include "device/place.h"

namespace tenon {

Status copy_tensor(const Tensor& dst, const Tensor& src, CopyReason reason, const char* what, CopyLedger* ledger,
                   DataTransfer* transfer, DeviceStream* stream) {
  TENON_INVALID_IF(!dst.defined() || !src.defined(), "The {} of the copy of \"{}\" is undefined.",
                   dst.defined() ? "source" : "target", what);
  TENON_INVALID_IF(dst.type() != src.type(), "\"{}\" cannot be copied from {} to {}.", what, data_type_name(src.type()),
                   data_type_name(dst.type()));
  TENON_INVALID_IF(dst.size_bytes() != src.size_bytes(),
                   "\"{}\" cannot be copied from {} bytes (shape {}) to {} bytes (shape {}).", what, src.size_bytes(),
                   src.shape().to_string(), dst.size_bytes(), dst.shape().to_string());
  TENON_INVALID_IF(dst.read_only(), "\"{}\" cannot be copied to read-only memory.", what);
  const bool on_host = host_can_address(src.place()) && host_can_address(dst.place());
  if (!on_host && (transfer == nullptr || !transfer->can_copy(src.place(), dst.place()))) {
    const MemoryPlace& far = host_can_address(src.place()) ? dst.place() : src.place();
    return unsupported("\"{}\" cannot be copied from {} to {}: the host cannot address {}{}.", what,
                       src.place().to_string(), dst.place().to_string(), far.to_string(),
                       transfer == nullptr ? "" : ", and the EP's data transfer refuses the pair");
  }
  if (dst.data() == src.data() && same_memory(dst.place(), src.place())) return Status();
  if (on_host && dst.data() == src.data()) return Status();
  TENON_TRACE(kCopy, "\"{}\" moves {} bytes from {} to {}: {}.", what, src.size_bytes(), src.place().to_string(),
              dst.place().to_string(), copy_reason_name(reason));
  TraceSpan span("copy", what);
  if (src.size_bytes() > 0) {
    if (on_host) {
      std::memmove(dst.data(), src.data(), src.size_bytes());
    } else {
      TENON_TRY_CONTEXT(transfer->copy(dst, src, stream), "while copying \"{}\" from {} to {}", what,
                        src.place().to_string(), dst.place().to_string());
    }
  }
  if (ledger != nullptr)
    ledger->records.push_back(
        {.bytes = src.size_bytes(), .source = src.place(), .target = dst.place(), .reason = reason, .what = what});
  return Status();
}

}  // namespace tenon
