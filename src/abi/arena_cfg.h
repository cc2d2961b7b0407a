// OrtArenaCfg: checked and stored without effect, because Tenon's planner lays out each run's memory itself.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <cstdint>

struct OrtArenaCfg {
  size_t max_mem = 0;
  int64_t arena_extend_strategy = -1;
  int64_t initial_chunk_size_bytes = -1;
  int64_t max_dead_bytes_per_chunk = -1;
  int64_t initial_growth_chunk_size_bytes = -1;
  int64_t max_power_of_two_extend_bytes = -1;
};
