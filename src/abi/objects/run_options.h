// OrtRunOptions.
#pragma once

#include <tenon/fence.h>
#include <tenon/onnxruntime_c_api.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "abi/objects/copy_records.h"
#include "abi/objects/key_value_pairs.h"
#include "ep/api/ep_host_api.h"

namespace tenon::abi {
struct AdapterParameter;  // abi/lora_adapter.h
}

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
  std::shared_ptr<tenon::abi::CopyRecords> copies;  // null: nobody asks
  std::vector<tenon::Fence> waits, signals;         // beside those that entries name
  // LoRA adapters: what each feeds to a run besides its inputs.
  std::vector<std::shared_ptr<const std::vector<tenon::abi::AdapterParameter>>> adapters;
  // Of the copy that an EP gets in OnRunStart: the run's fences, and whether the EP has asked for them. Null: none.
  const tenon::RunFences* fences = nullptr;
  mutable bool fences_asked = false;

  OrtRunOptions() = default;
  // A copy of the current values, for one run; without fences.
  OrtRunOptions(const OrtRunOptions& other)
      : log_severity_level(other.log_severity_level),
        log_verbosity_level(other.log_verbosity_level),
        tag(other.tag),
        terminate(other.terminate.load()),
        config_entries(other.config_entries),
        sync_stream(other.sync_stream),
        profiling(other.profiling),
        profile_prefix(other.profile_prefix),
        copies(other.copies),
        adapters(other.adapters) {}
};
