// Lists the environment variables that Tenon reads, as `tenon env` prints them.
#pragma once

#include <span>
#include <string>

#include "tenon/export.h"

namespace tenon {

struct EnvironmentVariable {
  const char* name;           // "TENON_THREADS"
  const char* default_value;  // what counts when it is unset or empty; "" for none
  const char* help;           // one line
};

TENON_API std::span<const EnvironmentVariable> environment_variables();
// What counts now: the value that is set, else the default; "" for a name that is not in the list.
TENON_API std::string environment_value(const std::string& name);

}  // namespace tenon
