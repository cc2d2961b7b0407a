/* Functions of the simulated EP's plugin beside ONNX Runtime's ABI, for tests: counters, failures on demand, and the
 * model of Windows' NT handles. Load the plugin's file once more (dlopen gives the same library) and ask for
 * TenonSimGetTestApi.
 *
 * Threads: every function from any thread. Functions that return int answer 1 for yes or done, 0 for no. */
#ifndef TENON_EP_SIM_SIM_TEST_API_H_
#define TENON_EP_SIM_SIM_TEST_API_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_SIM_TEST_API_VERSION 1

typedef struct TenonSimTestApi {
  uint32_t version;
  /* The value of a counter (src/ep/sim/sim_counters.h); -1 for a name that is none. */
  int64_t (*counter)(const char* name);
  /* Makes the nth visit of a step fail once; a null or empty name: of any step. nth 0 disarms. 0 for an unknown name.
   */
  int (*fail_at)(const char* step, int64_t nth);
  /* Whether the armed failure has happened. */
  int (*fault_fired)(void);

  /* NT handles are numbers of a table of this process. create gives 0 when it fails; initial_value is a fence's. */
  uint64_t (*nt_create_memory)(size_t size_bytes);
  uint64_t (*nt_create_fence)(uint64_t initial_value);
  uint64_t (*nt_duplicate)(uint64_t handle);
  int (*nt_close)(uint64_t handle);
  /* Where this process reads and writes the memory behind a handle; null for no such memory. */
  void* (*nt_map)(uint64_t handle);
  int (*nt_fence_signal)(uint64_t handle, uint64_t value);
  /* 0 for no such fence. */
  int (*nt_fence_value)(uint64_t handle, uint64_t* value);
} TenonSimTestApi;

/* Null for a version that this library does not have. */
typedef const TenonSimTestApi* (*TenonSimGetTestApiFn)(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
