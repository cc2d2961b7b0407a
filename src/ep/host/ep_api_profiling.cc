// OrtEpApi: profiling events.
#include "abi/objects/profiling_event.h"
#include "abi/objects/slots.h"
#include "abi/objects/view_arguments.h"

namespace tenon::abi {

namespace {

constexpr int kCategories = 4;

template <typename T, typename Get>
OrtStatus* get(const OrtProfilingEvent* event, const char* what, T* out, Get&& from) noexcept {
  clear(out);
  if (event == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "OrtProfilingEvent is NULL");
  if (out == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "output parameter for the event {} is NULL", what);
  *out = from(*event);
  return nullptr;
}

OrtStatus* check_arguments(OrtProfilingEventCategory category, const char* name, const char* const* keys,
                           const char* const* values, size_t count) noexcept {
  if (static_cast<int>(category) < 0 || static_cast<int>(category) >= kCategories) {
    return ort_error(ORT_INVALID_ARGUMENT,
                     "OrtProfilingEventCategory value '{}' is out of the expected range: [0 ... {})",
                     static_cast<int>(category), kCategories);
  }
  if (name == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "Event name argument is NULL");
  if (count == 0) return nullptr;
  if (keys == nullptr || values == nullptr)
    return ort_error(ORT_INVALID_ARGUMENT, "`arg_keys` and `arg_values` must be non-null when `num_args` > 0");
  for (size_t i = 0; i < count; ++i) {
    if (keys[i] == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "Arg key at index {} is NULL", i);
    if (values[i] == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "Arg value at index {} is NULL", i);
  }
  return nullptr;
}

}  // namespace

OrtStatus* ep_api::CreateProfilingEvent(OrtProfilingEventCategory category, int32_t process_id, int32_t thread_id,
                                        const char* event_name, int64_t timestamp_us, int64_t duration_us,
                                        const char* const* arg_keys, const char* const* arg_values, size_t num_args,
                                        OrtProfilingEvent** out) noexcept {
  clear(out);
  if (out == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "OrtProfilingEvent output parameter is NULL");
  if (OrtStatus* bad = check_arguments(category, event_name, arg_keys, arg_values, num_args)) return bad;
  return guarded([&]() -> OrtStatus* {
    auto event = std::make_unique<OrtProfilingEvent>(
        OrtProfilingEvent{category, process_id, thread_id, event_name, timestamp_us, duration_us, {}});
    for (size_t i = 0; i < num_args; ++i) event->arguments[arg_keys[i]] = arg_values[i];
    *out = event.release();
    return nullptr;
  });
}

void ep_api::ReleaseProfilingEvent(OrtProfilingEvent* input) noexcept { delete input; }

OrtStatus* ep_api::ProfilingEvent_GetCategory(const OrtProfilingEvent* event, OrtProfilingEventCategory* out) noexcept {
  return get(event, "category", out, [](const OrtProfilingEvent& e) { return e.category; });
}

OrtStatus* ep_api::ProfilingEvent_GetName(const OrtProfilingEvent* event, const char** out) noexcept {
  return get(event, "name", out, [](const OrtProfilingEvent& e) { return e.name.c_str(); });
}

OrtStatus* ep_api::ProfilingEvent_GetTimestampUs(const OrtProfilingEvent* event, int64_t* out) noexcept {
  return get(event, "timestamp", out, [](const OrtProfilingEvent& e) { return e.timestamp_us; });
}

OrtStatus* ep_api::ProfilingEvent_GetDurationUs(const OrtProfilingEvent* event, int64_t* out) noexcept {
  return get(event, "duration", out, [](const OrtProfilingEvent& e) { return e.duration_us; });
}

// Null and success for a key that is not there.
OrtStatus* ep_api::ProfilingEvent_GetArgValue(const OrtProfilingEvent* event, const char* key,
                                              const char** out) noexcept {
  clear(out);
  if (event == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "OrtProfilingEvent is NULL");
  if (key == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "Key parameter is NULL");
  if (out == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "Output parameter is NULL");
  const auto found = event->arguments.find(key);
  if (found != event->arguments.end()) *out = found->second.c_str();
  return nullptr;
}

OrtStatus* ep_api::ProfilingEventsContainer_AddEvents(OrtProfilingEventsContainer* events_container,
                                                      const OrtProfilingEvent* const* events,
                                                      size_t num_events) noexcept {
  if (events_container == nullptr)
    return ort_error(ORT_INVALID_ARGUMENT, "OrtProfilingEventsContainer instance is NULL");
  if (num_events > 0 && events == nullptr) return null_argument("events");
  for (size_t i = 0; i < num_events; ++i)
    if (events[i] == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "Event at index {} is NULL", i);
  return guarded([&]() -> OrtStatus* {
    events_container->events.reserve(events_container->events.size() + num_events);
    for (size_t i = 0; i < num_events; ++i) events_container->events.push_back(*events[i]);
    return nullptr;
  });
}

}  // namespace tenon::abi
