#include <tenon/copy_ledger.h>

namespace tenon {

std::string_view copy_reason_name(CopyReason reason) {
  switch (reason) {
    case CopyReason::kNotCompatible:
      return "not_compatible";
    case CopyReason::kAlignment:
      return "alignment";
    case CopyReason::kOutputUnknownSize:
      return "output_unknown_size";
    case CopyReason::kOutputIsInput:
      return "output_is_input";
    case CopyReason::kOutputShared:
      return "output_shared";
    case CopyReason::kOverlap:
      return "overlap";
    case CopyReason::kCallerAsked:
      return "caller_asked";
    case CopyReason::kCarriedState:
      return "carried_state";
    case CopyReason::kScanSlices:
      return "scan_slices";
  }
  return "unknown";
}

}  // namespace tenon
