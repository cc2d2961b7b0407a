// OrtRunOptions.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <atomic>
#include <string>
#include <vector>

#include "abi/key_value_pairs.h"

struct OrtRunOptions {
  int log_severity_level = -1;  // -1: the session's
  int log_verbosity_level = 0;
  std::string tag;
  // Set and unset from any thread, also during the run.
  std::atomic<bool> terminate = false;
  OrtKeyValuePairs config_entries;
  OrtSyncStream* sync_stream = nullptr;  // borrowed
  bool profiling = false;
  std::string profile_prefix;
};
