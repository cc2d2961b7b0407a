// Convolutions through cuDNN's compiled kernels: y = relu(conv(x, w) + residual + bias), channels last, or without the
// relu. Its graph API would compile kernels for each shape when a session is made; these need nothing.
//
// Threads: any; a call holds the handle while it is queued.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "ep/cuda/compute/kernel_params.h"
#include "ep/cuda/driver/cuda_device.h"
#include "ep/cuda/driver/cudnn.h"

#include <tenon/types.h>

namespace tenon::cuda {

class CudnnHandle {
 public:
  // Errors: kNotFound where cuDNN is not there.
  static Result<std::unique_ptr<CudnnHandle>> create();
  ~CudnnHandle();
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;

  const Cudnn& library() const { return library_; }
  // Made at its first use: it loads most of cuDNN, which many models do not need.
  Result<cudnnHandle_t> native() const;
  std::mutex& use() const { return use_; }

 private:
  explicit CudnnHandle(const Cudnn& library) : library_(library) {}
  const Cudnn& library_;
  mutable std::mutex making_;
  mutable cudnnHandle_t handle_ = nullptr;
  mutable std::mutex use_;
};

// Whether cuDNN's compiled kernels may be faster than our own: with compute capability 9.0 they are not for 16 bits,
// and loading the library takes half a second.
bool measures_cudnn(const CudaDevice& device, DataType type);

// Does the set-up of cuDNN's first convolution, which takes 80 ms. A failure comes again, and is told, where the
// convolution is.
void warm_up(const CudnnHandle& handle, DataType type, bool tf32);

class CudnnConv {
 public:
  // Algorithms that want more than `workspace_bytes` are left out. `only`: the one that is of interest, or -1.
  static Result<std::unique_ptr<CudnnConv>> create(const CudnnHandle& handle, DataType type, const ConvParams& params,
                                                   bool relu, bool tf32, size_t workspace_bytes, int only = -1);
  ~CudnnConv();
  CudnnConv(const CudnnConv&) = delete;
  CudnnConv& operator=(const CudnnConv&) = delete;

  const std::vector<int>& algorithms() const { return algorithms_; }

  struct Pointers {
    const void* x = nullptr;
    const void* w = nullptr;
    const void* bias = nullptr;  // of the convolution's type
    const void* residual = nullptr;
    void* y = nullptr;
    void* workspace = nullptr;
  };
  Status queue(int algorithm, const Pointers& pointers, CUstream stream) const;

 private:
  CudnnConv(const CudnnHandle& handle, size_t workspace_bytes) : handle_(handle), workspace_bytes_(workspace_bytes) {}
  Status describe(DataType type, const ConvParams& params, bool relu, bool tf32, int only);

  const CudnnHandle& handle_;
  cudnnHandle_t native_ = nullptr;
  const size_t workspace_bytes_;
  cudnnTensorDescriptor_t x_ = nullptr, y_ = nullptr, bias_ = nullptr;
  cudnnFilterDescriptor_t w_ = nullptr;
  cudnnConvolutionDescriptor_t conv_ = nullptr;
  cudnnActivationDescriptor_t activation_ = nullptr;
  std::vector<int> algorithms_;
};

}  // namespace tenon::cuda
