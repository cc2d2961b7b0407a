// The kernels that are compiled with the plugin, found by name; and one way to queue any kernel.
//
// Ownership: holds the modules it has loaded. Lifetime: functions are valid as long as the library.
// Threads: find() from any thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <tenon/types.h>

#include "base/guarded.h"
#include "ep/cuda/driver/cuda_device.h"

namespace tenon::cuda {

class KernelLibrary {
 public:
  explicit KernelLibrary(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {}

  // `module`: the .cu file's name. A module is loaded at its first use; dynamic shared memory is allowed up to
  // `shared_bytes`. Errors: kNotFound for a name that the build does not have; what the driver says.
  Result<CUfunction> find(std::string_view module, const std::string& name, unsigned shared_bytes = 0);
  // Loads a module before it is needed.
  Status load(std::string_view module);

 private:
  struct State {
    std::map<std::string, std::shared_ptr<CudaModule>, std::less<>> modules;
    std::map<std::string, CUfunction, std::less<>> functions;
  };
  Result<std::shared_ptr<CudaModule>> module(State& state, std::string_view name) const;
  const std::shared_ptr<CudaDevice> device_;
  Guarded<State> state_;
};

// "f16", "bf16", "f32": how kernels are named for a type. Empty for one that they do not have.
std::string_view kernel_type(DataType type);

// Errors: kUnsupported where a dimension is beyond what every device takes.
Status check_launch(const LaunchShape& shape);

// Queues a kernel that takes `pointers` (addresses of its parameters). Blocks of a cluster share their sums;
// from compute capability 9.0 on, its start may overlap the end of the kernel before it, which all kernels here allow.
Status queue_kernel(const CudaDevice& device, CUfunction function, const LaunchShape& shape, unsigned cluster_z,
                    CUstream stream, void** pointers);
// The same for a kernel that takes one struct and no cluster.
template <typename Params>
Status queue_params(const CudaDevice& device, CUstream stream, CUfunction function, const LaunchShape& shape,
                    Params params) {
  void* pointers[] = {&params};
  return queue_kernel(device, function, shape, 1, stream, pointers);
}

}  // namespace tenon::cuda
