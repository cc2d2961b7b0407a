// Lists the environment variables that Tenon reads, as `tenon env` prints them.
#pragma once

#include <span>
#include <string>

#include "tenon/status.h"

namespace tenon {

struct EnvironmentVariable {
  const char* name;           // "TENON_THREADS"
  const char* default_value;  // what counts when it is unset or empty; "" for none
  const char* help;           // one line
};

TENON_API std::span<const EnvironmentVariable> environment_variables();
// The value that counts now: the one that is set, else the default; "" for a name that is not in the list.
TENON_API std::string environment_value(const std::string& name);
// Whether each variable that takes a number or some words only has such a value. Sessions ask before anything else, so
// that a typo is no silent default; a program may ask earlier. Logs once a process a variable TENON_... whose name is a
// slip of one in the list.
// Errors: kInvalidArgument names the variable, its value and what it takes.
TENON_API Status check_environment();

}  // namespace tenon
