// OrtEnv: one a process, as in the reference. The first CreateEnv makes it, later ones share it (their arguments are
// ignored), the last ReleaseEnv destroys it.
#pragma once

#include <tenon/onnxruntime_c_api.h>
#include <tenon/thread_pool.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "abi/objects/copy_records.h"
#include "abi/objects/key_value_pairs.h"
#include "abi/objects/logger.h"
#include "abi/objects/memory_info.h"
#include "abi/objects/threading_options.h"
#include "base/guarded.h"

namespace tenon::abi {

// The plugin libraries and devices of an env; belongs to the plugin host, which makes it when it is first needed.
class EpRegistry;

// An allocator that sessions may use in place of their own.
struct SharedAllocator {
  OrtMemoryInfo info;
  OrtAllocator* allocator = nullptr;
  std::shared_ptr<const void> owner;  // null: the program's, which keeps it alive
};

}  // namespace tenon::abi

struct OrtEnv {
  std::shared_ptr<OrtLogger> logger;
  OrtKeyValuePairs config_entries;
  // Threads for sessions that have DisablePerSessionThreads; null without global thread pools.
  std::shared_ptr<tenon::ThreadPool> pool;
  bool has_global_pool = false;
  // Of the threads of sessions that are made from now on; empty: the program does not ask.
  tenon::Guarded<std::optional<OrtThreadPoolCallbacksConfig>> thread_callbacks;
  tenon::Guarded<std::vector<tenon::abi::SharedAllocator>> allocators;
  tenon::Guarded<std::shared_ptr<tenon::abi::EpRegistry>> eps;
  // Of the copies that programs ask for outside of runs; null: nobody asks.
  tenon::Guarded<std::shared_ptr<tenon::abi::CopyRecords>> copies;
};

namespace tenon::abi {

// The env that exists, or null. Holding it keeps it alive past the last ReleaseEnv.
std::shared_ptr<OrtEnv> current_env();
// The env that exists, or a new one: for programs of the C++ API, whose plugins look for one. Counts as a CreateEnv
// until it is dropped; Tenon's own log lines stay where they are.
Result<std::shared_ptr<OrtEnv>> hold_env();
// Writes down what a program has had copied outside of runs, if it asked for that.
void add_caller_copies(const OrtEnv& env, const CopyLedger& ledger);

}  // namespace tenon::abi
