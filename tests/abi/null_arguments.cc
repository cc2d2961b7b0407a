// Calls every function of every table with nothing but nulls and zeroes, each in a process of its own, and prints what
// came of it: "OrtApi.CreateEnv: code 2: ...", "OrtApi.ReleaseEnv: returned", "OrtApi.X: signal 11".
#include <sys/wait.h>
#include <tenon/onnxruntime_c_api.h>
#include <unistd.h>

#include <cstdio>
#include <type_traits>

namespace {

const OrtApi* ort_api() { return OrtGetApiBase()->GetApi(ORT_API_VERSION); }

template <typename Table>
const Table* table();
template <>
const OrtApi* table() {
  return ort_api();
}
template <>
const OrtEpApi* table() {
  return ort_api()->GetEpApi();
}
template <>
const OrtModelEditorApi* table() {
  return ort_api()->GetModelEditorApi();
}
template <>
const OrtCompileApi* table() {
  return ort_api()->GetCompileApi();
}
template <>
const OrtInteropApi* table() {
  return ort_api()->GetInteropApi();
}
template <>
const OrtModelPackageApi* table() {
  return ort_api()->GetModelPackageApi();
}

void print_status(const char* name, OrtStatus* status) {
  if (status == nullptr) {
    std::printf("%s: ok\n", name);
  } else {
    std::printf("%s: code %d: %s\n", name, static_cast<int>(ort_api()->GetErrorCode(status)),
                ort_api()->GetErrorMessage(status));
    ort_api()->ReleaseStatus(status);
  }
}

template <typename Returned, typename... Arguments>
void call(const char* name, Returned (*function)(Arguments...) noexcept) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    if constexpr (std::is_same_v<Returned, OrtStatus*>) {
      print_status(name, function(Arguments{}...));
    } else {
      function(Arguments{}...);
      std::printf("%s: returned\n", name);
    }
    std::fflush(stdout);
    ::_exit(0);
  }
  int state = 0;
  ::waitpid(child, &state, 0);
  if (WIFSIGNALED(state)) {
    std::printf("%s: signal %d\n", name, WTERMSIG(state));
  } else if (WEXITSTATUS(state) != 0) {
    std::printf("%s: exit %d\n", name, WEXITSTATUS(state));
  }
}

}  // namespace

int main() {
#define TENON_SLOT(table_name, function) call(#table_name "." #function, table<table_name>()->function);
#include "all_slots.inc"
  return 0;
}
