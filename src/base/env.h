// Reads environment variables. Each variable of Tenon is a row of the table in env.cc, which alone reads the
// environment.
//
// Each call reads the environment again, so callers keep the value and do not call this on a hot path.
#pragma once

#include <tenon/environment.h>
#include <tenon/status.h>

#include <cstdint>
#include <string>

namespace tenon {

// In the order of the table.
enum class Env : uint8_t { kCpuIsa, kDump, kLog, kOfferDevices, kThreads, kTrace, kTraceFile };

// The value that is set, else the default.
std::string env_value(Env variable);
// A whole number in [lowest, highest]. kInvalidArgument names the variable and its value.
Result<int64_t> env_integer(Env variable, int64_t lowest, int64_t highest);

// A variable that another program sets for its children, such as the RANK of a launcher; "" when it is not set.
std::string launcher_value(const char* name);

}  // namespace tenon
