// A library that has code on the GPU, and unloads it in an exit handler of its own: what cuBLASLt, and whatever has
// CUDA's runtime in it, does. The driver is in the process already, and a context on device 0.
#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace {

constexpr char kCode[] = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }\n";

PFN_cuGetProcAddress_v12000 look_up = nullptr;
CUlibrary code = nullptr;

template <typename Function, typename... Arguments>
CUresult call(const char* name, int version, Arguments... arguments) {
  void* found = nullptr;
  if (const CUresult result = look_up(name, &found, version, 0, nullptr); result != CUDA_SUCCESS) return result;
  return reinterpret_cast<Function>(found)(arguments...);
}

void unload() { (void)call<PFN_cuLibraryUnload_v12000>("cuLibraryUnload", 12000, code); }

CUresult load() {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  look_up = reinterpret_cast<PFN_cuGetProcAddress_v12000>(::dlsym(driver, "cuGetProcAddress_v2"));
  CUcontext context = nullptr;
  if (const CUresult result = call<PFN_cuDevicePrimaryCtxRetain_v7000>("cuDevicePrimaryCtxRetain", 7000, &context, 0);
      result != CUDA_SUCCESS)
    return result;
  if (const CUresult result = call<PFN_cuCtxPushCurrent_v4000>("cuCtxPushCurrent", 4000, context);
      result != CUDA_SUCCESS)
    return result;
  CUresult result = call<PFN_cuLibraryLoadData_v12000>("cuLibraryLoadData", 12000, &code, kCode, nullptr, nullptr, 0U,
                                                       nullptr, nullptr, 0U);
  CUmodule module = nullptr;  // in the context: a library alone has nothing to unload
  if (result == CUDA_SUCCESS) result = call<PFN_cuLibraryGetModule_v12000>("cuLibraryGetModule", 12000, &module, code);
  (void)call<PFN_cuCtxPopCurrent_v4000>("cuCtxPopCurrent", 4000, &context);
  return result;
}

__attribute__((constructor)) void begin() {
  const CUresult result = load();
  if (result != CUDA_SUCCESS) {
    std::printf("WRONG  a library cannot load its code: %d\n", static_cast<int>(result));
    std::fflush(stdout);
    ::_Exit(1);
  }
  (void)std::atexit(&unload);
}

}  // namespace
