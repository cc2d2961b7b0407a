// The fake NCCL as a library that programs find in NCCL's place; its operations go to the driver that they have.
#include "ep/cuda/fake/fake_nccl.h"

namespace {

using tenon::cuda::Nccl;
using tenon::cuda::NcclComm;
using tenon::cuda::NcclReduction;
using tenon::cuda::NcclResult;
using tenon::cuda::NcclType;
using tenon::cuda::NcclUniqueId;

const Nccl& table() { return tenon::cuda::fake::nccl(*tenon::cuda::cuda_driver().value()); }

}  // namespace

extern "C" {

#define TENON_SHOWN [[gnu::visibility("default")]]
TENON_SHOWN NcclResult ncclGetVersion(int* version) { return table().GetVersion(version); }
TENON_SHOWN NcclResult ncclGetUniqueId(NcclUniqueId* id) { return table().GetUniqueId(id); }
TENON_SHOWN NcclResult ncclCommInitRank(NcclComm** communicator, int ranks, NcclUniqueId id, int rank) {
  return table().CommInitRank(communicator, ranks, id, rank);
}
TENON_SHOWN NcclResult ncclCommDestroy(NcclComm* communicator) { return table().CommDestroy(communicator); }
TENON_SHOWN NcclResult ncclCommAbort(NcclComm* communicator) { return table().CommAbort(communicator); }
TENON_SHOWN NcclResult ncclGroupStart() { return table().GroupStart(); }
TENON_SHOWN NcclResult ncclGroupEnd() { return table().GroupEnd(); }
TENON_SHOWN NcclResult ncclAllReduce(const void* send, void* receive, size_t count, NcclType type,
                                     NcclReduction reduction, NcclComm* communicator, CUstream stream) {
  return table().AllReduce(send, receive, count, type, reduction, communicator, stream);
}
TENON_SHOWN NcclResult ncclAllGather(const void* send, void* receive, size_t count, NcclType type,
                                     NcclComm* communicator, CUstream stream) {
  return table().AllGather(send, receive, count, type, communicator, stream);
}
TENON_SHOWN NcclResult ncclSend(const void* send, size_t count, NcclType type, int peer, NcclComm* communicator,
                                CUstream stream) {
  return table().Send(send, count, type, peer, communicator, stream);
}
TENON_SHOWN NcclResult ncclRecv(void* receive, size_t count, NcclType type, int peer, NcclComm* communicator,
                                CUstream stream) {
  return table().Recv(receive, count, type, peer, communicator, stream);
}
TENON_SHOWN const char* ncclGetLastError(NcclComm* communicator) { return table().GetLastError(communicator); }
#undef TENON_SHOWN

}  // extern "C"
