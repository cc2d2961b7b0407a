#include "base/env.h"

#include <charconv>
#include <cstdlib>
#include <iterator>

#include "base/status.h"

namespace tenon {

namespace {

constexpr EnvironmentVariable kVariables[] = {
    {"TENON_CPU_ISA", "",
     "Highest instruction set that the CPU kernels use: baseline, avx2 or avx512; empty: the machine's."},
    {"TENON_DUMP", "", "Folder to write each graph and plan to, as text that diffs; empty: nothing is written."},
    {"TENON_LOG", "warning", "Least severe messages that are logged: info, warning or error."},
    {"TENON_MODELS", "", "Folder of the test models; empty: tests that need them skip."},
    {"TENON_OFFER_DEVICES", "",
     "Devices that EP libraries registered through the C ABI are offered beside the machine's own, separated by "
     "semicolons: type=cpu,vendor=0x8086."},
    {"TENON_PART", "0/1", "K/N: of the cases of a CUDA test this process runs the K-th of each N, from 0."},
    {"TENON_PYTHON", "python3", "Python interpreter that tests run scripts with."},
    {"TENON_RESULTS", "", "Folder that tests write their measurements to; empty: nothing is written."},
    {"TENON_SMALL_SIZES", "", "Not empty: CUDA tests take the smallest problems of each kernel, for slow tools."},
    {"TENON_THREADS", "0", "Threads of a session that sets none; 0: one for each CPU that the process may use."},
    {"TENON_TRACE", "", "Topics to log, separated by commas: dispatch, plan, copy, sync, interop, or all."},
    {"TENON_TRACE_FILE", "", "File to write spans to, in the format of Chrome's and Perfetto's trace viewers."},
};
static_assert(std::size(kVariables) == static_cast<size_t>(Env::kTraceFile) + 1);

std::string value_of(const EnvironmentVariable& variable) {
  const char* value = std::getenv(variable.name);
  return value != nullptr && *value != '\0' ? value : variable.default_value;
}

}  // namespace

std::span<const EnvironmentVariable> environment_variables() { return kVariables; }

std::string environment_value(const std::string& name) {
  for (const EnvironmentVariable& variable : kVariables)
    if (name == variable.name) return value_of(variable);
  return "";
}

std::string env_value(Env variable) { return value_of(kVariables[static_cast<size_t>(variable)]); }

Result<int64_t> env_integer(Env variable, int64_t lowest, int64_t highest) {
  const std::string text = env_value(variable);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  TENON_INVALID_IF(error != std::errc() || end != text.data() + text.size() || value < lowest || value > highest,
                   "The environment variable {} is \"{}\", which is no whole number from {} to {}.",
                   kVariables[static_cast<size_t>(variable)].name, text, lowest, highest);
  return value;
}

}  // namespace tenon
