// NCCL, found when the plugin runs. Its functions are declared here: a toolkit has no header of it, and these have kept
// their signatures since version 2.7.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/fault.h"
#include "base/status.h"

namespace tenon::cuda {

struct NcclComm;  // ncclComm

// ncclResult_t; those that have a name here.
enum class NcclResult : int { kSuccess = 0, kUnhandledCudaError = 1, kInvalidArgument = 4, kInvalidUsage = 5 };
// ncclDataType_t.
enum class NcclType : int { kUint8 = 1, kInt64 = 5, kFloat16 = 6, kFloat32 = 7, kFloat64 = 8 };
// ncclRedOp_t.
enum class NcclReduction : int { kSum = 0 };

struct NcclUniqueId {
  std::array<char, 128> bytes{};
};

#define TENON_NCCL_FUNCTIONS(X)                                                                               \
  X(GetVersion, (int* version))                                                                               \
  X(GetUniqueId, (NcclUniqueId * id))                                                                         \
  X(CommInitRank, (NcclComm * *communicator, int ranks, NcclUniqueId id, int rank))                           \
  X(CommDestroy, (NcclComm * communicator))                                                                   \
  X(CommAbort, (NcclComm * communicator))                                                                     \
  X(GroupStart, ())                                                                                           \
  X(GroupEnd, ())                                                                                             \
  X(AllReduce, (const void* send, void* receive, size_t count, NcclType type, NcclReduction reduction,        \
                NcclComm* communicator, CUstream stream))                                                     \
  X(AllGather,                                                                                                \
    (const void* send, void* receive, size_t count, NcclType type, NcclComm* communicator, CUstream stream))  \
  X(Send, (const void* send, size_t count, NcclType type, int peer, NcclComm* communicator, CUstream stream)) \
  X(Recv, (void* receive, size_t count, NcclType type, int peer, NcclComm* communicator, CUstream stream))

struct Nccl {
#define TENON_NCCL_MEMBER_(name, parameters) NcclResult(*name) parameters = nullptr;
  TENON_NCCL_FUNCTIONS(TENON_NCCL_MEMBER_)
#undef TENON_NCCL_MEMBER_
  const char* (*GetLastError)(NcclComm* communicator) = nullptr;
};

// Loaded once. Errors: kNotFound when the library is not there, kUnsupported for one before 2.14, whose
// communicators cannot be given up while another thread is in a call.
Result<const Nccl*> nccl();

// "ncclAllReduce: remote error (6), the last words of the library."
Status nccl_error(const Nccl& library, NcclResult result, const char* call);

}  // namespace tenon::cuda

#define TENON_NCCL_TRY(library, function, ...)                                                \
  do {                                                                                        \
    TENON_FAULT_POINT("nccl" #function);                                                      \
    if (const ::tenon::cuda::NcclResult tenon_nccl_result_ = (library).function(__VA_ARGS__); \
        tenon_nccl_result_ != ::tenon::cuda::NcclResult::kSuccess)                            \
      return ::tenon::cuda::nccl_error((library), tenon_nccl_result_, "nccl" #function);      \
  } while (false)
