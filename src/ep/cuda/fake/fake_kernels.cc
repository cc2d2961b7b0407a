// Kernels of the fake driver: any image is a module that has the kernels which tests have set by name.
//
// Its rules are the driver's: parameters are read when the kernel is queued, also into a capture; a function lives as
// long as its module; what runs on memory that was freed is the device's error.
#include <chrono>
#include <cstring>
#include <thread>

#include "ep/cuda/fake/fake_state.h"

namespace tenon::cuda::fake {

namespace {

struct Function {
  Kernel kernel;
};
struct Module {
  std::map<std::string, std::unique_ptr<Function>, std::less<>> functions;
};

// With the state's lock held.
struct Kernels {
  std::map<std::string, Kernel, std::less<>> by_name;
  std::map<Module*, std::unique_ptr<Module>> modules;
};
Kernels& kernels() {
  static Kernels* const all = new Kernels;
  return *all;
}

CUresult CUDAAPI module_load(CUmodule* out, const void* image) {
  TENON_FAKE_CONTEXT("cuModuleLoadData");
  if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(state().mutex);
  if (kernels().by_name.empty()) return CUDA_ERROR_NOT_SUPPORTED;
  auto made = std::make_unique<Module>();
  Module* const key = made.get();
  kernels().modules[key] = std::move(made);
  *out = reinterpret_cast<CUmodule>(key);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI module_unload(CUmodule module) {
  TENON_FAKE_CONTEXT("cuModuleUnload");
  expect_no_foreign_waits("cuModuleUnload");
  {
    const std::lock_guard lock(state().mutex);
    if (kernels().modules.erase(reinterpret_cast<Module*>(module)) == 1) return CUDA_SUCCESS;
  }
  violation("Something is unloaded as a module that is none.");
  return CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI get_function(CUfunction* out, CUmodule module, const char* name) {
  TENON_FAKE_CONTEXT("cuModuleGetFunction");
  const std::lock_guard lock(state().mutex);
  const auto found = kernels().modules.find(reinterpret_cast<Module*>(module));
  if (found == kernels().modules.end()) return CUDA_ERROR_INVALID_HANDLE;
  const auto kernel = kernels().by_name.find(name);
  if (kernel == kernels().by_name.end()) return CUDA_ERROR_NOT_FOUND;
  auto& function = found->second->functions[name];
  if (function == nullptr) function = std::make_unique<Function>(Function{kernel->second});
  *out = reinterpret_cast<CUfunction>(function.get());
  return CUDA_SUCCESS;
}

CUresult CUDAAPI set_function_attribute(CUfunction function, CUfunction_attribute, int) {
  TENON_FAKE_CONTEXT("cuFuncSetAttribute");
  return function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

const Function* find_function(CUfunction function) {
  {
    const std::lock_guard lock(state().mutex);
    for (const auto& [key, module] : kernels().modules)
      for (const auto& [name, known] : module->functions)
        if (known.get() == reinterpret_cast<const Function*>(function)) return known.get();
  }
  violation("Something is launched as a kernel that is none.");
  return nullptr;
}

CUresult CUDAAPI launch_kernel(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  TENON_FAKE_CONTEXT("cuLaunchKernelEx");
  const auto stream = find_stream(config->hStream);
  const Function* const found = find_function(function);
  if (stream == nullptr || found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (extra != nullptr || config->gridDimX == 0 || config->gridDimY == 0 || config->gridDimZ == 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::vector<std::vector<std::byte>> values;
  for (size_t i = 0; i < found->kernel.parameter_bytes.size(); ++i) {
    const auto* const from = static_cast<const std::byte*>(parameters[i]);
    values.emplace_back(from, from + found->kernel.parameter_bytes[i]);
  }
  stream->queue([run = found->kernel.run, values = std::move(values)]() mutable {
    std::vector<void*> pointers;
    for (auto& value : values) pointers.push_back(value.data());
    return run(pointers.data());
  });
  return CUDA_SUCCESS;
}

// A library of the process that unloads its code when the process ends: as the driver does, it waits until no stream
// waits for another API. Of the plugin's own modules that is a violation.
CUresult CUDAAPI library_load(CUlibrary* out, const void* code, CUjit_option*, void**, unsigned, CUlibraryOption*,
                              void**, unsigned) {
  TENON_FAKE_ENTER("cuLibraryLoadData");
  if (code == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUlibrary>(const_cast<void*>(code));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI library_module(CUmodule* out, CUlibrary library) {
  TENON_FAKE_CONTEXT("cuLibraryGetModule");
  *out = reinterpret_cast<CUmodule>(library);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI library_unload(CUlibrary) {
  TENON_FAKE_ENTER("cuLibraryUnload");
  for (;;) {
    {
      const std::lock_guard lock(state().mutex);
      if (state().foreign_waits == 0) return CUDA_SUCCESS;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

void set_kernel(const std::string& name, Kernel kernel) {
  const std::lock_guard lock(state().mutex);
  kernels().by_name[name] = std::move(kernel);
}

bool is_memory(const void* address, size_t size_bytes) {
  const std::lock_guard lock(state().mutex);
  return find_region(reinterpret_cast<uintptr_t>(address), size_bytes) != nullptr;
}

void add_kernel_functions(Table& table) {
  add_function(table, "cuModuleLoadData", &module_load);
  add_function(table, "cuModuleUnload", &module_unload);
  add_function(table, "cuModuleGetFunction", &get_function);
  add_function(table, "cuFuncSetAttribute", &set_function_attribute);
  add_function(table, "cuLaunchKernelEx", &launch_kernel);
  add_function(table, "cuLibraryLoadData", &library_load);
  add_function(table, "cuLibraryGetModule", &library_module);
  add_function(table, "cuLibraryUnload", &library_unload);
}

}  // namespace tenon::cuda::fake
