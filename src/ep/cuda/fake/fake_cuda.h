// A CUDA driver without a GPU, for tests: it enforces what the driver's documentation asks of its callers (an fd that
// was handed over is the driver's, mappings go before their memory object, a semaphore only when its waits have run, a
// context must be current) and records every violation. It runs the kernels that tests write for it.
//
// Streams are threads, device memory is host memory that begins poisoned and is inaccessible once freed, opaque fds are
// memfds and shared timelines (docs/reference/shared-timeline.md), NT handles come from make_nt_*.
// As a library named libcuda.so.1 it stands in for the driver of a whole program; violations then end the process.
// Threads: every function from any thread.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>
#include <tenon/fence.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ep/cuda/driver/cuda_driver.h"

namespace tenon::cuda::fake {

CUresult CUDAAPI get_proc_address(const char* name, void** out, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* answer);
// The table over this driver, loaded as the real one is.
const CudaDriver& driver();

struct Config {
  int devices = 1;
  int compute_capability = 90;
  size_t memory_bytes = size_t{1} << 30;
  bool integrated = false;
  int version = CUDA_VERSION;
  bool graphics = false;  // takes contexts inside those of graphics APIs
  bool abort_on_violation = false;
};
// From now on. Objects that are alive stay.
void configure(const Config& config);

// The callers' violations of the API since the last call.
std::vector<std::string> take_violations();
int64_t calls(const char* function);  // of "cuStreamSynchronize", since the process began
// Allocations, streams, events, external objects and registrations that are alive.
int64_t live_objects();
int64_t live_graphs();  // of them: graphs and executable graphs
// The nth call of a function from now (1: the next) fails with `result`.
void fail(const char* function, int nth, CUresult result);
// The same over all functions that can fail in a context that is well; 0: none does.
void fail_at(int64_t nth, CUresult result);
std::string failed_call();  // by that; "" when none has yet

// A kernel that runs on the host. Modules have every one that is set; before the first there are no modules.
struct Kernel {
  std::vector<size_t> parameter_bytes;
  std::function<CUresult(void* const* parameters)> run;
};
void set_kernel(const std::string& name, Kernel kernel);
// Whether all of it is one live allocation.
bool is_memory(const void* address, size_t size_bytes);

// The flags of the last memory object that was imported: only its maker knows whether an allocation is dedicated.
unsigned imported_flags();

// The parameters of the live contexts that were made inside a graphics API's.
std::vector<CUctxCigParam> graphics_contexts();

// NT handles: Windows' own there, stand-ins for them elsewhere.
void* make_nt_memory(size_t size_bytes);
std::byte* nt_view(void* handle);
void* make_nt_fence(std::shared_ptr<Timeline> timeline);
std::shared_ptr<Timeline> nt_timeline(void* handle);
bool nt_is_open(void* handle);
void close_nt(void* handle);
// An allocation of another process, as its cuIpcGetMemHandle would name it.
CUipcMemHandle make_ipc_memory(size_t size_bytes);

}  // namespace tenon::cuda::fake
