// LoRA adapters, as Python sees them.
#pragma once

#include "core.h"

namespace tenon::python {

// The parameters of a file, for runs.
struct Adapter {
  Owned<OrtLoraAdapter, &OrtApi::ReleaseLoraAdapter> handle;  // null until Load
};

}  // namespace tenon::python
