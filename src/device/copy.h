// The one function that moves bytes between tensors (S6.1). Nothing else in Tenon does.
#pragma once

#include <tenon/copy_ledger.h>
#include <tenon/tensor.h>

#include "device/device.h"

namespace tenon {

// Copies src's bytes to dst and writes that down in `ledger` (may be null). `what` is the tensor's name and must
// outlive the ledger. Memory that is already the same address in the same place is no transfer: nothing moves, nothing
// is written down. Overlapping ranges are copied as memmove does. Allocates nothing while the ledger has room in
// reserve.
// What the host can address it moves itself, now. Otherwise `transfer` (may be null) does, on `stream` when there is
// one: then the call may return before the bytes have moved, and a failure comes out of whatever waits for the stream.
// Errors: kInvalidArgument for undefined tensors, other types or sizes; kUnsupported when the host cannot address one
// of the places and nobody else moves the bytes. On error nothing was written down.
Status copy_tensor(const Tensor& dst, const Tensor& src, CopyReason reason, const char* what, CopyLedger* ledger,
                   DataTransfer* transfer = nullptr, DeviceStream* stream = nullptr);

}  // namespace tenon
