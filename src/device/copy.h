// The one function that moves bytes between tensors (S6.1). Nothing else in Tenon does.
#pragma once

#include <tenon/copy_ledger.h>
#include <tenon/tensor.h>

namespace tenon {

// Copies src's bytes to dst and writes that down in `ledger` (may be null). `what` is the tensor's name and must
// outlive the ledger. Memory that is already the same address is no transfer: nothing moves, nothing is written down.
// Overlapping ranges are copied as memmove does. Allocates nothing while the ledger has room in reserve.
// Errors: kInvalidArgument for undefined tensors, other types or sizes; kUnsupported when the host cannot address one
// of the places. On error nothing was copied.
Status copy_tensor(const Tensor& dst, const Tensor& src, CopyReason reason, const char* what, CopyLedger* ledger);

}  // namespace tenon
