// The options of a session on CUDA (S4), named as ONNX Runtime names them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "ep/cuda/rank_options.h"
#include "ep/sdk/plugin_options.h"

namespace tenon::cuda {

// The program's own allocator (S4.3). alloc and free are both set, or neither.
struct ExternalAllocator {
  void* (*alloc)(size_t size_bytes) = nullptr;
  void (*free)(void* memory) = nullptr;
  void (*empty_cache)() = nullptr;
  bool given() const { return alloc != nullptr; }
};

struct CudaOptions {
  std::optional<int> device_id;
  // S4.1: the stream of all of the session's work; null inside the optional means CUDA's legacy default stream.
  std::optional<uint64_t> user_stream;
  // S4.2: one stream for the whole session; implied by a user stream and by an external allocator.
  bool unified_stream = false;
  // false: copies between the host and the device run on a stream of their own, ordered with the computation by events.
  bool copy_in_compute_stream = true;
  ExternalAllocator external_allocator;
  size_t memory_limit_bytes = SIZE_MAX;  // of the session's arenas and scratch memory
  // Not given: a binding is captured when it comes for the second time, where that is possible. true: already when it
  // comes for the first; false: never.
  std::optional<bool> cuda_graph;
  bool tf32 = true;
  bool cudnn = true;  // false: it is not loaded
  // How convolutions choose: "EXHAUSTIVE" measures, "HEURISTIC" asks the library, "DEFAULT" takes its first.
  std::string conv_search = "EXHAUSTIVE";
  // Where chosen algorithms persist; "": in memory only.
  std::string algorithm_cache;

  // How long making the session, or a plan for new shapes, may wait for fences that nobody has signalled; 0: for ever.
  int64_t load_timeout_ms = 10'000;
  // Of a session's measuring; 0: as long as it takes.
  int64_t tune_budget_ms = 1000;

  RankOptions ranks;

  // For the session's log, a sentence each: options that are given and have no effect, and what else is not as written.
  std::vector<std::string> warnings;

  // The rows, for whoever lists them.
  static std::span<const plugin::OptionRow> rows();
  // From a session's config entries; `prefixes` as for plugin::OptionValues::parse, and keys may be bare. All that ONNX
  // Runtime's own CUDA EPs take is taken. Errors: kInvalidArgument names the option, or both options of an excluded
  // pair (S4.4, S4.5).
  static Result<CudaOptions> parse(std::span<const std::string_view> prefixes,
                                   std::span<const std::pair<std::string, std::string>> entries);
};

}  // namespace tenon::cuda
