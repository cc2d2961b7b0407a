#include "device/copy.h"

#include <cstring>

#include "base/log.h"
#include "base/status.h"
#include "base/trace.h"
#include "device/memory_space.h"

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
  const bool on_host = host_can_address(src.space()) && host_can_address(dst.space());
  if (!on_host && (transfer == nullptr || !transfer->can_copy(src.space(), dst.space()))) {
    const MemorySpace& far = host_can_address(src.space()) ? dst.space() : src.space();
    return unsupported("\"{}\" cannot be copied from {} to {}: the host cannot address {}{}.", what,
                       src.space().to_string(), dst.space().to_string(), far.to_string(),
                       transfer == nullptr ? "" : ", and the EP's data transfer refuses the pair");
  }
  if (dst.data() == src.data() && same_memory(dst.space(), src.space())) return Status();
  if (on_host && dst.data() == src.data()) return Status();
  TENON_TRACE(kCopy, "\"{}\" moves {} bytes from {} to {}: {}.", what, src.size_bytes(), src.space().to_string(),
              dst.space().to_string(), copy_reason_name(reason));
  TraceSpan span("copy", what);
  if (span) {
    span.args()
        .add("from", src.space().to_string())
        .add("to", dst.space().to_string())
        .add("bytes", src.size_bytes())
        .add("reason", copy_reason_name(reason));
  }
  if (src.size_bytes() > 0) {
    if (on_host) {
      std::memmove(dst.data(), src.data(), src.size_bytes());
    } else {
      TENON_TRY_CONTEXT(transfer->copy(dst, src, stream), "while copying \"{}\" from {} to {}", what,
                        src.space().to_string(), dst.space().to_string());
    }
  }
  note_copy({.bytes = src.size_bytes(), .source = src.space(), .target = dst.space(), .reason = reason, .what = what},
            ledger);
  return Status();
}

void copy_moving_axis(const Shape& whole, int axis, bool back, size_t element_bytes, const std::byte* src,
                      std::byte* dst, CopyReason reason, const char* what, CopyLedger* ledger) {
  size_t outer = 1, inner = element_bytes;
  for (int i = 0; i < whole.rank(); ++i) {
    if (i < axis) outer *= whole[i];
    if (i > axis) inner *= whole[i];
  }
  const size_t length = whole[axis];
  for (size_t row = 0; row < outer; ++row) {
    for (size_t at = 0; at < length; ++at) {
      const size_t in_whole = (row * length + at) * inner, in_first = (at * outer + row) * inner;
      std::memcpy(dst + (back ? in_whole : in_first), src + (back ? in_first : in_whole), inner);
    }
  }
  note_copy({.bytes = outer * length * inner, .source = {}, .target = {}, .reason = reason, .what = what}, ledger);
}

void note_copy(const CopyRecord& record, CopyLedger* ledger) {
  if (ledger == nullptr || record.bytes == 0) return;
  CopyRecord& kept = ledger->records.emplace_back(record);
  kept.source.alignment = kept.target.alignment = 0;
}

Status copy_disallowed(const char* what, const MemorySpace& source, const MemorySpace& target, CopyReason reason) {
  return invalid_argument("\"{}\" would have to be copied from {} to {} ({}), and tenon.disallow_copies is set.", what,
                          source.to_string(), target.to_string(), copy_reason_name(reason));
}

}  // namespace tenon
