// Failures and text of programs/, by their short names.
#pragma once

#include "programs/status.h"

namespace tenon::conformance {

using namespace programs;  // NOLINT(google-build-using-namespace)

}  // namespace tenon::conformance
