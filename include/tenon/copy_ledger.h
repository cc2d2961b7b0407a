// The copies that Tenon makes between tensors. One function makes them all, and records each one here (S6.1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/types.h"

namespace tenon {

enum class CopyReason : uint8_t {
  kNotCompatible,      // the consumer cannot use memory of the source's space
  kAlignment,          // the source is less aligned than the consumer needs
  kOutputUnknownSize,  // an output whose size was only known after it was computed, into the caller's buffer
  kOutputIsInput,      // a graph output that is a graph input (or constant) handed through into the caller's buffer
  kOutputShared,       // one value bound as two outputs
  kOverlap,            // a bound output overlaps a bound input that is still read after it is written
  kCallerAsked,        // an explicit copy
  kCarriedState,       // the state after the last iteration of a Loop or Scan, into the node's output
  kScanSlices,         // slices of a Loop or Scan that have to be moved to lie side by side, or along another axis
};
TENON_API std::string_view copy_reason_name(CopyReason reason);

struct CopyRecord {
  size_t bytes = 0;
  MemorySpace source;
  MemorySpace target;
  CopyReason reason = CopyReason::kCallerAsked;
  const char* what = "";  // the tensor's name from the user's side; lives as long as the session
  bool once = false;      // made once for the session (a constant that an EP wants in its memory), not in each run

  friend bool operator==(const CopyRecord& a, const CopyRecord& b) {
    return a.bytes == b.bytes && a.source == b.source && a.target == b.target && a.reason == b.reason &&
           std::string_view(a.what) == b.what && a.once == b.once;
  }
};

// Copies that are made once for a session are in the ledger of the first run that has one and ends after them.
// Threads: one run writes it; read it after the run.
struct CopyLedger {
  std::vector<CopyRecord> records;
  size_t bytes_copied() const {
    size_t sum = 0;
    for (const CopyRecord& record : records) sum += record.bytes;
    return sum;
  }
};

// The copies that a run will make, before any run.
struct ExplainedCopies {
  // In the order in which the session's first run makes them; later runs make those without `once`. What addresses
  // decide (an output that is bound over an input) is not among them.
  CopyLedger ledger;
  // A sentence for each part of the model whose copies only a run knows: after a shape that depends on data, in bodies.
  std::vector<std::string> open;
};

}  // namespace tenon
