#include "device/copy.h"

#include <cstring>

#include "base/log.h"
#include "base/status.h"
#include "base/trace.h"

namespace tenon {

Status copy_tensor(const Tensor& dst, const Tensor& src, CopyReason reason, const char* what, CopyLedger* ledger) {
  TENON_INVALID_IF(!dst.defined() || !src.defined(), "The {} of the copy of \"{}\" is undefined.",
                   dst.defined() ? "source" : "target", what);
  TENON_INVALID_IF(dst.type() != src.type(), "\"{}\" cannot be copied from {} to {}.", what, data_type_name(src.type()),
                   data_type_name(dst.type()));
  TENON_INVALID_IF(dst.size_bytes() != src.size_bytes(),
                   "\"{}\" cannot be copied from {} bytes (shape {}) to {} bytes (shape {}).", what, src.size_bytes(),
                   src.shape().to_string(), dst.size_bytes(), dst.shape().to_string());
  TENON_INVALID_IF(dst.read_only(), "\"{}\" cannot be copied to read-only memory.", what);
  for (const Tensor* tensor : {&src, &dst}) {
    const MemoryPlace& place = tensor->place();
    // Whatever its alignment: a copy is what mends a wrong one.
    const bool addressable = devices_are_memory_compatible(place, MemoryPlace{});
    TENON_UNSUPPORTED_IF(!addressable, "\"{}\" cannot be copied from {} to {}: the host cannot address {}.", what,
                         src.place().to_string(), dst.place().to_string(), place.to_string());
  }
  if (dst.data() == src.data()) return Status();
  TENON_TRACE(kCopy, "\"{}\" moves {} bytes from {} to {}: {}.", what, src.size_bytes(), src.place().to_string(),
              dst.place().to_string(), copy_reason_name(reason));
  TraceSpan span("copy", what);
  if (src.size_bytes() > 0) std::memmove(dst.data(), src.data(), src.size_bytes());
  if (ledger != nullptr)
    ledger->records.push_back(
        {.bytes = src.size_bytes(), .source = src.place(), .target = dst.place(), .reason = reason, .what = what});
  return Status();
}

}  // namespace tenon
