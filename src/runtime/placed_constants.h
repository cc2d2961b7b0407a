// The constants of a session in the memory of its EPs, each copied once to each memory space.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <tenon/tensor.h>

#include "base/guarded.h"
#include "ep/api/device_provider.h"
#include "runtime/kept_texts.h"
#include "runtime/once_copies.h"
#include "runtime/session_spaces.h"

namespace tenon {

// Ownership: keeps a copy as long as its constant is alive. Lifetime: what it is given outlives it. Threads: any. An
// EP's code runs with no lock held; of two threads that want a constant at once, both copy it and the first copy stays.
class PlacedConstants {
 public:
  PlacedConstants(const SessionSpaces& spaces, DeviceProviders providers, KeptTexts& texts, OnceCopies& copies)
      : spaces_(spaces), providers_(providers), texts_(texts), copies_(copies) {}

  // `name` is the constant's, for the ledger. Errors: kInvalidArgument where bytes would move and copies are
  // disallowed, the allocator's and the transfer's.
  Result<Tensor> place(const ConstantRef& constant, const std::string& name, SpaceId space, bool disallow_copies);
  // The same for a plan that never runs: `copies` (may be null) gets the copy, and the tensor has the space but not
  // the bytes.
  Result<Tensor> explain(const ConstantRef& constant, const std::string& name, SpaceId space, CopyLedger* copies) const;

 private:
  struct Placed {
    std::weak_ptr<const Constant> source;
    Tensor tensor;
  };
  // One that an EP has put there itself; no tensor when none has.
  Tensor find_own(const ConstantRef& constant, SpaceId space) const;
  Result<Tensor> copy(const ConstantRef& constant, const std::string& name, SpaceId space, bool disallow_copies);

  const SessionSpaces& spaces_;
  const DeviceProviders providers_;
  KeptTexts& texts_;
  OnceCopies& copies_;
  Guarded<std::map<std::pair<const Constant*, SpaceId>, Placed>> placed_;
};

}  // namespace tenon
