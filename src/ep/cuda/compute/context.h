// Resources on the device that the regions of one session share: kernels, the cuBLASLt handle, measured choices,
// constants.
//
// Ownership: holds the device; memory comes from the session's source and goes back to it. Threads: any, except that
// preparing and capturing happen one at a time (`preparing`).
#pragma once

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "ep/cuda/communicator.h"
#include "ep/cuda/compute/algorithm_cache.h"
#include "ep/cuda/compute/blas.h"
#include "ep/cuda/compute/cudnn_conv.h"
#include "ep/cuda/compute/kernel_cache.h"
#include "ep/cuda/compute/kernel_library.h"
#include "ep/cuda/compute/program.h"
#include "ep/cuda/compute/tuning.h"
#include "ep/cuda/driver/nvrtc.h"
#include "ep/sdk/scratch.h"

namespace tenon::cuda {

struct ComputeOptions {
  bool tf32 = true;
  bool measure = true;           // false: the first algorithm that fits
  bool graphs = true;            // one captured graph a run, where that is possible
  bool libraries = true;         // cuBLASLt and cuDNN where they are; else kernels of our own
  bool cudnn = true;             // false: of the libraries, cuBLASLt alone
  bool compiler = true;          // NVRTC where it is; else only kernels that are kept beside `cache_file`
  bool capture_at_once = false;  // at a binding's first run instead of its second
  std::string cache_file;        // of measured choices; beside it lies generated machine code. "": nothing is kept
  int64_t tune_budget_ms = 0;    // of a session's measuring; 0: no limit
  size_t plans = 16;             // of a region that stay
  // Gets a line for the program where measuring takes long; may be empty.
  std::function<void(const std::string&)> tell;
  // Gets plans and contexts that nobody uses any more, and lets go of them when the driver holds nobody up who does;
  // empty: that is at once.
  std::function<void(std::shared_ptr<void>)> release_later;
  // Of the ranks of a sharded model; null: there is one.
  std::shared_ptr<Communicator> communicator;
  // Asked before a plan is made, whose kernels the driver loads; empty: that is always right.
  std::function<Status()> before_loading;
};

// A block of device memory that goes back when its holder does.
class DeviceBlock {
 public:
  DeviceBlock(std::shared_ptr<plugin::ScratchSource> source, void* memory)
      : source_(std::move(source)), memory_(memory) {}
  // A part of another one.
  DeviceBlock(std::shared_ptr<const DeviceBlock> whole, size_t offset_bytes)
      : whole_(std::move(whole)), memory_(static_cast<std::byte*>(whole_->memory_) + offset_bytes) {}
  ~DeviceBlock() {
    if (source_ != nullptr) source_->free(memory_);
  }
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;
  CUdeviceptr address() const { return reinterpret_cast<CUdeviceptr>(memory_); }

 private:
  const std::shared_ptr<plugin::ScratchSource> source_;
  const std::shared_ptr<const DeviceBlock> whole_;
  void* const memory_;
};
using DeviceBlockRef = std::shared_ptr<const DeviceBlock>;

class ComputeContext {
 public:
  static Result<std::shared_ptr<ComputeContext>> create(std::shared_ptr<CudaDevice> device,
                                                        std::shared_ptr<plugin::ScratchSource> memory,
                                                        ComputeOptions options);
  ~ComputeContext();

  const std::shared_ptr<CudaDevice>& device() const { return device_; }
  const ComputeOptions& options() const { return options_; }
  KernelLibrary& kernels() { return kernels_; }
  KernelCache& kernel_cache() { return kernel_cache_; }
  BlasHandle* blas() { return opened().blas_.get(); }
  // Whether blas() is to be expected; does not wait for it.
  bool has_blas() const { return options_.libraries && cublaslt().ok(); }
  bool has_clusters() const { return device()->compute_capability() >= 90; }
  CudnnHandle* cudnn() { return opened().cudnn_.get(); }
  AlgorithmCache& algorithms() { return *opened().algorithms_; }
  TuningBudget& tuning() { return tuning_; }
  // A sentence for each library that is not there, with the cost of that.
  const std::vector<std::string>& missing() { return opened().missing_; }
  // NVRTC. Errors: kNotFound, with what the loader said.
  Result<const Nvrtc*> compiler() const;
  // Whether kernels can be written: by NVRTC, or because a session before this one has kept some. Else nothing should
  // be claimed. Errors: kNotFound, with what the loader said.
  Status can_generate() const;
  // Loads the kernels of convolutions and products of a type on threads of their own, while the region is made, unless
  // the kept choices can do without; without kept choices the libraries too, which are to be measured then. By one
  // thread.
  void load_early(const Graph& graph);
  std::string cache_folder() const;
  // For measuring, uploads and capture; used with `preparing` held.
  CUstream stream() const { return stream_; }
  std::mutex preparing;

  Result<DeviceBlockRef> allocate(size_t size_bytes);
  // The constants on the device, in order; each is uploaded at its first use, and stays while its source does. Several
  // threads pack them, and another one uploads them meanwhile: nothing may read them before finish(). With `preparing`
  // held from the first call to the end of the second; `constants` stay until then.
  struct Uploading {
    std::vector<DeviceBlockRef> blocks;
    std::span<const DeviceConstant> constants;
    std::vector<size_t> wanted;  // of them, which were not there
    std::future<Status> done;
  };
  Result<Uploading> begin_upload(std::span<const DeviceConstant> constants);
  Status finish(Uploading& uploading);

 private:
  struct Uploaded {
    bool has_source = false;
    std::weak_ptr<const Constant> source;  // a key names it by its address, which may come again
    DeviceBlockRef block;
  };
  void open_libraries(const std::string& device_name);
  void load_usual();
  std::string products_module(DataType type) const;
  AlgorithmCache::Kept kept_products(DataType type);
  void load_on_a_thread(std::function<void()> load);
  // Waits for the libraries, which a thread opens while the host reads the model: they are hundreds of megabytes.
  ComputeContext& opened() {
    if (opening_.valid()) opening_.wait();
    return *this;
  }
  Status upload(std::span<const DeviceConstant> constants, std::span<const size_t> wanted,
                std::span<const DeviceBlockRef> blocks);

  // Instead of delete.
  static void retire(ComputeContext* context);
  ComputeContext(std::shared_ptr<CudaDevice> device, std::shared_ptr<plugin::ScratchSource> memory,
                 ComputeOptions options)
      : device_(device),
        memory_(std::move(memory)),
        options_(std::move(options)),
        kernels_(device),
        kernel_cache_({std::move(device), cache_folder(), [this] { return compiler(); }}) {}

  const std::shared_ptr<CudaDevice> device_;
  const std::shared_ptr<plugin::ScratchSource> memory_;
  const ComputeOptions options_;
  TuningBudget tuning_{options_.tune_budget_ms, options_.tell};
  KernelLibrary kernels_;
  KernelCache kernel_cache_;
  std::unique_ptr<BlasHandle> blas_;
  std::unique_ptr<CudnnHandle> cudnn_;
  std::unique_ptr<AlgorithmCache> algorithms_;
  std::vector<std::string> missing_;
  std::shared_future<void> opening_;
  std::vector<std::future<void>> loading_;
  CUstream stream_ = nullptr, upload_stream_ = nullptr;
  std::map<std::string, Uploaded> constants_;
};

}  // namespace tenon::cuda
