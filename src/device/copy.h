// The functions that copy bytes between tensors (S6.1), and that record copies of other code in the ledger.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <tenon/copy_ledger.h>
#include <tenon/tensor.h>

#include "device/device.h"

namespace tenon {

// Copies src's bytes to dst and writes that down in `ledger` (may be null). `what` is the tensor's name and must
// outlive the ledger. Memory that is already the same address in the same space is no transfer: nothing moves, nothing
// is written down. Overlapping ranges are copied as memmove does. Allocates nothing while the ledger has room in
// reserve.
// The host moves the bytes at once if it can address both spaces. Otherwise `transfer` (may be null) does, on `stream`
// if given: then the call may return before the bytes have moved, and a failure comes out of what waits for the stream.
// Errors: kInvalidArgument for undefined tensors, other types or sizes; kUnsupported when the host cannot address one
// of the spaces and nobody else moves the bytes. On error nothing was written down.
Status copy_tensor(const Tensor& dst, const Tensor& src, CopyReason reason, const char* what, CopyLedger* ledger,
                   DataTransfer* transfer = nullptr, DeviceStream* stream = nullptr);

// Moves dimension `axis` of `whole` first: `src` has the shape `whole`, `dst` that shape with the axis first; the other
// way round with `back`. Both are dense host memory of whole bytes an element, and it is written down as one copy.
void copy_moving_axis(const Shape& whole, int axis, bool back, size_t element_bytes, const std::byte* src,
                      std::byte* dst, CopyReason reason, const char* what, CopyLedger* ledger);

// Writes a copy down without making it: for bytes that an EP's own code moves between tensors, and for plans.
// Memory spaces are kept without their alignment. Without bytes there is no copy, and no record. `ledger` may be null.
void note_copy(const CopyRecord& record, CopyLedger* ledger);

// Strict mode's refusal: kInvalidArgument, with the tensor, both spaces and the reason.
Status copy_disallowed(const char* what, const MemorySpace& source, const MemorySpace& target, CopyReason reason);

}  // namespace tenon
