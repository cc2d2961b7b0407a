// cuDNN's functions that this plugin uses, found when it runs.
#pragma once

#include <cudnn.h>

#include "base/fault.h"
#include "base/status.h"

namespace tenon::cuda {

#define TENON_CUDNN_FUNCTIONS(X)        \
  X(GetVersion)                         \
  X(GetErrorString)                     \
  X(Create)                             \
  X(Destroy)                            \
  X(SetStream)                          \
  X(GetStream)                          \
  X(CreateTensorDescriptor)             \
  X(DestroyTensorDescriptor)            \
  X(SetTensor4dDescriptor)              \
  X(CreateFilterDescriptor)             \
  X(DestroyFilterDescriptor)            \
  X(SetFilter4dDescriptor)              \
  X(CreateConvolutionDescriptor)        \
  X(DestroyConvolutionDescriptor)       \
  X(SetConvolution2dDescriptor)         \
  X(SetConvolutionGroupCount)           \
  X(SetConvolutionMathType)             \
  X(CreateActivationDescriptor)         \
  X(DestroyActivationDescriptor)        \
  X(SetActivationDescriptor)            \
  X(GetConvolutionForwardWorkspaceSize) \
  X(ConvolutionBiasActivationForward)

struct Cudnn {
#define TENON_CUDNN_MEMBER_(name) decltype(&::cudnn##name) name = nullptr;
  TENON_CUDNN_FUNCTIONS(TENON_CUDNN_MEMBER_)
#undef TENON_CUDNN_MEMBER_
  size_t version = 0;  // 91900: 9.19.0
};

// Loaded once. Errors: kNotFound when the library is not there; kUnsupported when it is older than kOldestCudnn.
Result<const Cudnn*> cudnn();

inline constexpr size_t kOldestCudnn = 91900;
Status check_cudnn_version(size_t version);

Status cudnn_error(const Cudnn& library, cudnnStatus_t result, const char* call);

}  // namespace tenon::cuda

#define TENON_CUDNN_TRY(library, function, ...)                                             \
  do {                                                                                      \
    TENON_FAULT_POINT("cudnn" #function);                                                   \
    if (const cudnnStatus_t tenon_cudnn_result_ = (library).function(__VA_ARGS__);          \
        tenon_cudnn_result_ != CUDNN_STATUS_SUCCESS)                                        \
      return ::tenon::cuda::cudnn_error((library), tenon_cudnn_result_, "cudnn" #function); \
  } while (false)
