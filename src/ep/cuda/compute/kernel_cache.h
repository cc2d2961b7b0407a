// The kernels that one session compiles at run time: each is compiled once, for whichever plan asks first. What plans
// may ask for next can be compiled ahead of them.
//
// Machine code is also kept in a folder, under a name made of the kernels, the headers that this build embeds and the
// device's architecture. A file has a checksum, and is replaced as a whole; the oldest go when there are many.
//
// Threads: any; NVRTC runs without a lock, so two plans that want the same kernel at once may both compile it.
#pragma once

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/guarded.h"
#include "ep/cuda/compute/program.h"
#include "ep/cuda/driver/cuda_device.h"
#include "ep/cuda/driver/nvrtc.h"

namespace tenon::cuda {

// Ownership: holds the modules of its kernels. Threads: immutable.
class CompiledKernels {
 public:
  // Errors: kInternal for a kernel that was not compiled.
  Result<CUfunction> function(const std::string& name) const;

 private:
  friend class KernelCache;
  struct Kernel {
    std::shared_ptr<CudaModule> module;
    CUfunction function = nullptr;
  };
  std::map<std::string, Kernel> kernels_;
};

// As many as are worth their while here.
size_t compiling_threads();

class KernelCache {
 public:
  struct Setting {
    std::shared_ptr<CudaDevice> device;
    std::string folder;                              // "": nothing is kept
    std::function<Result<const Nvrtc*>()> compiler;  // asked where something is to be compiled
    size_t most_files = 1024;                        // that stay in the folder, of some 50 KB each
    size_t threads = compiling_threads();
  };
  explicit KernelCache(Setting setting) : setting_(std::move(setting)) {}

  // Kernels that were asked for. Those that nobody has compiled yet are being compiled. Lifetime: below the cache's;
  // the destructor waits.
  class Pending {
   private:
    friend class KernelCache;
    struct Work;
    std::shared_ptr<Work> work_;
    std::future<void> compiling_;
  };
  // Begins to compile by several threads, and returns at once.
  Pending begin(std::span<const KernelCode> kernels);
  // Waits for the threads. The device's context is current. Errors: the compiler's, with the headers and kernels.
  Result<CompiledKernels> finish(Pending pending);
  Result<CompiledKernels> compile(std::span<const KernelCode> kernels) { return finish(begin(kernels)); }
  // Whether begin() would have to compile one of them.
  bool lacks(std::span<const KernelCode> kernels) const;
  // Compiles a kernel for plans to come, unless there is code for it or for kMostAhead others that no plan has asked
  // for. It is not loaded: that may have to wait for streams. A failure comes again, and is told, where a plan wants
  // the kernel.
  // Where `cancelled` becomes true, it is as if nobody had begun.
  void compile_ahead(const KernelCode& kernel, const std::atomic<bool>& cancelled);
  static constexpr size_t kMostAhead = 256;

 private:
  // Code that no plan has loaded yet.
  struct Ahead;
  using Kernels = std::map<std::string, CompiledKernels::Kernel>;
  Result<NvrtcImage> compile_anew(std::span<const KernelCode> kernels,
                                  const std::atomic<bool>* cancelled = nullptr) const;
  Result<Kernels> load(std::span<const KernelCode> kernels, std::span<const std::byte> code,
                       std::span<const std::string> names) const;
  // Of the kept code; "" where nothing is kept.
  std::string path_of(std::span<const KernelCode> kernels) const;
  // That code; empty where there is none.
  std::vector<std::byte> kept(std::span<const KernelCode> kernels) const;

  const Setting setting_;
  Guarded<std::map<std::string, CompiledKernels::Kernel>> known_;
  Guarded<std::map<std::string, std::shared_ptr<Ahead>>> ahead_;
};

// The kernels in programs of up to four, which `threads` compile at the same time.
std::vector<std::span<const KernelCode>> program_groups(std::span<const KernelCode> kernels, size_t threads);
// One program of NVRTC; needs no device.
Result<NvrtcImage> compile_kernels(const Nvrtc& compiler, std::span<const KernelCode> kernels, int compute_capability,
                                   const std::atomic<bool>* cancelled = nullptr);
// That text: the headers included, then the texts that instances need.
std::string kernel_text(std::span<const KernelCode> kernels);

}  // namespace tenon::cuda
