// The stream on which a kernel runs (S5.1), for kernels of EP plugins and of custom operators. Header only, over ONNX
// Runtime's C ABI: nothing of libtenon is linked, and it works in every host of that ABI.
//
//   tenon::KernelStream stream;
//   if (OrtStatus* bad = tenon::KernelStream::get(*api, api_version, context, &stream)) return bad;
//   launch(static_cast<cudaStream_t>(stream.native_handle()));        // in any host
//   OrtSyncStream* const host_stream = stream.sync_stream();          // in hosts of API 28 or newer; null in others
//
// ABI: KernelContext_GetSyncStream (OrtApi, API 28) and SyncStream_GetHandle (API 23); in older hosts
// KernelContext_GetGPUComputeStream (API 10).
// Ownership: the stream is the run's; it is borrowed for the length of the kernel's Compute.
// Threads: any; each call of Compute has a context of its own.
#pragma once

#include "tenon/onnxruntime_c_api.h"

#include <cstdint>

namespace tenon {

class KernelStream {
 public:
  // The first version of the C ABI whose hosts name the stream itself.
  static constexpr uint32_t kFirstVersion = 28;

  // `api` is what OrtApiBase::GetApi(api_version) gave: no slot that is newer than `api_version` is read.
  // Null for OK. Errors: INVALID_ARGUMENT for a null `context` or `out`, and what the host answers; the caller releases
  // the status with api.ReleaseStatus, and *out has no stream.
  static OrtStatus* get(const OrtApi& api, uint32_t api_version, const OrtKernelContext* context,
                        KernelStream* out) noexcept {
    if (context == nullptr || out == nullptr)
      return api.CreateStatus(ORT_INVALID_ARGUMENT, "KernelStream::get takes a kernel context and a result pointer.");
    *out = KernelStream();
    if (api_version < kFirstVersion) return api.KernelContext_GetGPUComputeStream(context, &out->native_handle_);
    out->known_ = true;
    if (OrtStatus* bad = api.KernelContext_GetSyncStream(context, &out->sync_stream_)) return bad;
    if (out->sync_stream_ != nullptr) out->native_handle_ = api.SyncStream_GetHandle(out->sync_stream_);
    return nullptr;
  }

  // Null where the kernel runs without a stream (a synchronous run, a CPU device), and in a host that does not say.
  OrtSyncStream* sync_stream() const noexcept { return sync_stream_; }
  // Whether the host is API 28 or newer: only then does a null sync_stream() mean that there is none.
  bool host_names_streams() const noexcept { return known_; }
  // The device's own handle, for example a cudaStream_t; null where there is none, and for the device's default stream.
  void* native_handle() const noexcept { return native_handle_; }

 private:
  OrtSyncStream* sync_stream_ = nullptr;
  void* native_handle_ = nullptr;
  bool known_ = false;
};

}  // namespace tenon
