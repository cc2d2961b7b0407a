// The table of tenon/timeline_api.h: shared timelines, the fences of runs and the end of a stream's work.
#include <tenon/external_memory.h>
#include <tenon/fence.h>

#include <utility>

#include "abi/interop_api.h"
#include "abi/interop_cpu.h"
#include "abi/objects/run_options.h"
#include "abi/objects/status.h"
#include "abi/own_tables.h"
#include "ep/api/run_fences.h"

struct TenonTimeline {
  std::shared_ptr<tenon::SharedTimeline> timeline;
};

namespace tenon::abi {

namespace {

OrtStatus* give_timeline(Result<std::shared_ptr<SharedTimeline>> made, TenonTimeline** out) {
  if (!made.ok()) return to_ort(made.status());
  *out = new TenonTimeline{*std::move(made)};
  return nullptr;
}

OrtStatus* TENON_TIMELINE_CALL create_timeline(const char* name, uint64_t initial_value, TenonTimeline** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateTimeline", {{"name", name}, {"out", out}})) return bad;
  return guarded([&] { return give_timeline(SharedTimeline::create(name, initial_value), out); });
}

OrtStatus* TENON_TIMELINE_CALL open_timeline(const char* name, int32_t fd, TenonTimeline** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("OpenTimeline", {{"name", name}, {"out", out}})) return bad;
  return guarded([&] { return give_timeline(SharedTimeline::open(name, fd), out); });
}

OrtStatus* TENON_TIMELINE_CALL export_timeline(const TenonTimeline* timeline, int32_t* fd) noexcept {
  if (OrtStatus* bad = check_pointers("ExportTimeline", {{"timeline", timeline}, {"fd", fd}})) {
    if (fd != nullptr) *fd = -1;
    return bad;
  }
  *fd = -1;
  return guarded([&]() -> OrtStatus* {
    Result<OwnedHandle> copy = OwnedHandle::duplicate_fd(timeline->timeline->fd());
    if (!copy.ok()) return to_ort(copy.status());
    *fd = copy->release_fd();
    return nullptr;
  });
}

void TENON_TIMELINE_CALL release_timeline(TenonTimeline* timeline) noexcept { delete timeline; }

OrtStatus* TENON_TIMELINE_CALL get_timeline_value(const TenonTimeline* timeline, uint64_t* value) noexcept {
  clear(value);
  if (OrtStatus* bad = check_pointers("GetTimelineValue", {{"timeline", timeline}, {"value", value}})) return bad;
  return guarded([&]() -> OrtStatus* {
    const Result<uint64_t> reached = timeline->timeline->value();
    if (reached.ok()) *value = *reached;
    return to_ort(reached.status());
  });
}

OrtStatus* give_answer(const Result<bool>& answer, uint32_t* out) noexcept {
  if (answer.ok()) *out = *answer ? 1 : 0;
  return to_ort(answer.status());
}

OrtStatus* TENON_TIMELINE_CALL wait_timeline(TenonTimeline* timeline, uint64_t value, int64_t timeout_ns,
                                             uint32_t* reached) noexcept {
  clear(reached);
  if (OrtStatus* bad = check_pointers("WaitTimeline", {{"timeline", timeline}, {"reached", reached}})) return bad;
  return guarded([&] { return give_answer(wait_until(*timeline->timeline, value, timeout_ns), reached); });
}

OrtStatus* TENON_TIMELINE_CALL signal_timeline(TenonTimeline* timeline, uint64_t value) noexcept {
  if (OrtStatus* bad = check_pointers("SignalTimeline", {{"timeline", timeline}})) return bad;
  return guarded([&] { return to_ort(timeline->timeline->signal(value)); });
}

OrtStatus* TENON_TIMELINE_CALL poison_timeline(TenonTimeline* timeline, uint64_t value, const OrtStatus* why) noexcept {
  if (OrtStatus* bad = check_pointers("PoisonTimeline", {{"timeline", timeline}, {"why", why}})) return bad;
  if (why->code == ORT_OK)
    return make_ort_status(ORT_INVALID_ARGUMENT, "PoisonTimeline needs a status that is a failure; this one is OK.");
  return guarded([&]() -> OrtStatus* {
    timeline->timeline->poison(value, Status(core_code(*why), why->message));
    return nullptr;
  });
}

OrtStatus* read_fences(const char* which, const TenonFence* fences, size_t count, std::vector<Fence>* out) {
  if (count > 0 && fences == nullptr)
    return ort_error(ORT_INVALID_ARGUMENT, "SetRunFences has {} {}, and no array of them.", count, which);
  if (count > kMostRunFences)
    return ort_error(ORT_INVALID_ARGUMENT, "SetRunFences has {} {}; a run takes {} at most.", count, which,
                     kMostRunFences);
  out->reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (fences[i].timeline == nullptr)
      return ort_error(ORT_INVALID_ARGUMENT, "Fence {} of {} in the {} of SetRunFences has no timeline.", i, count,
                       which);
    out->push_back({fences[i].timeline->timeline, fences[i].value});
  }
  return nullptr;
}

OrtStatus* TENON_TIMELINE_CALL set_run_fences(OrtRunOptions* options, const TenonFence* waits, size_t wait_count,
                                              const TenonFence* signals, size_t signal_count) noexcept {
  if (OrtStatus* bad = check_pointers("SetRunFences", {{"options", options}})) return bad;
  return guarded([&]() -> OrtStatus* {
    std::vector<Fence> new_waits, new_signals;
    if (OrtStatus* bad = read_fences("waits", waits, wait_count, &new_waits)) return bad;
    if (OrtStatus* bad = read_fences("signals", signals, signal_count, &new_signals)) return bad;
    options->waits = std::move(new_waits);
    options->signals = std::move(new_signals);
    return nullptr;
  });
}

OrtStatus* TENON_TIMELINE_CALL import_timeline_of(OrtExternalResourceImporter* importer, TenonTimeline* timeline,
                                                  OrtExternalSemaphoreHandle** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("ImportTimeline", {{"importer", importer}, {"timeline", timeline}, {"out", out}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    const Result<OrtExternalSemaphoreHandle*> handle = import_timeline(*importer, timeline->timeline);
    if (handle.ok()) *out = *handle;
    return to_ort(handle.status());
  });
}

OrtStatus* TENON_TIMELINE_CALL drain_stream(OrtSyncStream* stream, int64_t timeout_ns, uint32_t* drained) noexcept {
  clear(drained);
  if (OrtStatus* bad = check_pointers("DrainStream", {{"stream", stream}, {"drained", drained}})) return bad;
  return guarded([&] { return give_answer(drain(*stream, timeout_ns), drained); });
}

}  // namespace

const TenonTimelineApi* TENON_TIMELINE_CALL timeline_api(uint32_t version) noexcept {
  static constexpr TenonTimelineApi kApi = {.version = TENON_TIMELINE_API_VERSION,
                                            .reserved = 0,
                                            .CreateTimeline = &create_timeline,
                                            .OpenTimeline = &open_timeline,
                                            .ExportTimeline = &export_timeline,
                                            .ReleaseTimeline = &release_timeline,
                                            .GetTimelineValue = &get_timeline_value,
                                            .WaitTimeline = &wait_timeline,
                                            .SignalTimeline = &signal_timeline,
                                            .PoisonTimeline = &poison_timeline,
                                            .SetRunFences = &set_run_fences,
                                            .ImportTimeline = &import_timeline_of,
                                            .DrainStream = &drain_stream};
  return version == 0 ? nullptr : &kApi;
}

}  // namespace tenon::abi
