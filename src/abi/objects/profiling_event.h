// OrtProfilingEvent and the container that OrtEpProfilerImpl::EndProfiling fills.
//
// Ownership: an event is its creator's until it is released; the container copies what is added.
// Threads: one at a time.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <map>
#include <string>
#include <vector>

struct OrtProfilingEvent {
  OrtProfilingEventCategory category = OrtProfilingEventCategory_SESSION;
  int32_t process_id = 0;
  int32_t thread_id = 0;
  std::string name;
  int64_t timestamp_us = 0;
  int64_t duration_us = 0;
  std::map<std::string, std::string, std::less<>> arguments;
  std::string json;  // more arguments that are no text, each with a ',' before it
};

struct OrtProfilingEventsContainer {
  std::vector<OrtProfilingEvent> events;
};
