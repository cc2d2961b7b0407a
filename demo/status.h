// Failures and text of programs/, by their short names.
#pragma once

#include "programs/status.h"

namespace tenon::demo {

using namespace programs;

}  // namespace tenon::demo
