#include "ep/sdk/plugin_fences.h"

namespace tenon::plugin {

namespace {

Result<FencesOfRun> from_handles(const HostApi& host, const OrtRunOptions* options) {
  FencesOfRun fences;
  const RunFences* given = nullptr;
  TENON_EP_HOST_TRY(host, RunOptions_GetFences, options, sizeof(RunFences), &given);
  if (given == nullptr) return fences;
  TENON_INVALID_IF(given->wait_count > kMostRunFences || given->signal_count > kMostRunFences,
                   "The host gives {} waits and {} signals of a run; {} of each are the most.", given->wait_count,
                   given->signal_count, kMostRunFences);
  fences.waits = {given->waits, given->wait_count};
  fences.signals = {given->signals, given->signal_count};
  fences.calls = given->calls;
  return fences;
}

}  // namespace

Result<FencesOfRun> FencesOfRun::read(const HostApi& host, const OrtRunOptions* options) {
  if (options == nullptr) return FencesOfRun();
  // In Tenon's host the entries name handles of the program's, which are not the EP's.
  if (host.tenon() != nullptr) return from_handles(host, options);
  FencesOfRun fences;
  constexpr const char* kKeys[] = {kRunWaitsKey, kRunSignalsKey};
  for (size_t i = 0; i < 2; ++i) {
    TENON_TRY_ASSIGN(fences.text[i], parse_run_fences(kKeys[i], host.ort().GetRunConfigEntry(options, kKeys[i])));
  }
  fences.waits = fences.text[0];
  fences.signals = fences.text[1];
  return fences;
}

}  // namespace tenon::plugin
