// cuBLASLt, found when the plugin runs.
#pragma once

#include <cublasLt.h>

#include "base/fault.h"
#include "base/status.h"

namespace tenon::cuda {

#define TENON_CUBLASLT_FUNCTIONS(X) \
  X(Create)                         \
  X(Destroy)                        \
  X(GetVersion)                     \
  X(Matmul)                         \
  X(MatmulDescCreate)               \
  X(MatmulDescDestroy)              \
  X(MatmulDescSetAttribute)         \
  X(MatrixLayoutCreate)             \
  X(MatrixLayoutDestroy)            \
  X(MatrixLayoutSetAttribute)       \
  X(MatmulPreferenceCreate)         \
  X(MatmulPreferenceDestroy)        \
  X(MatmulPreferenceSetAttribute)   \
  X(MatmulAlgoGetHeuristic)         \
  X(MatmulAlgoCheck)

struct CublasLt {
#define TENON_CUBLASLT_MEMBER_(name) decltype(&::cublasLt##name) name = nullptr;
  TENON_CUBLASLT_FUNCTIONS(TENON_CUBLASLT_MEMBER_)
#undef TENON_CUBLASLT_MEMBER_
};

// Loaded once. Errors: kNotFound when the library is not there.
Result<const CublasLt*> cublaslt();

// "cublasLtMatmul: CUBLAS_STATUS_NOT_SUPPORTED (15)."
Status cublas_error(cublasStatus_t result, const char* call);

}  // namespace tenon::cuda

#define TENON_CUBLASLT_TRY(library, function, ...)                                    \
  do {                                                                                \
    TENON_FAULT_POINT("cublasLt" #function);                                          \
    if (const cublasStatus_t tenon_cublas_result_ = (library).function(__VA_ARGS__);  \
        tenon_cublas_result_ != CUBLAS_STATUS_SUCCESS)                                \
      return ::tenon::cuda::cublas_error(tenon_cublas_result_, "cublasLt" #function); \
  } while (false)
