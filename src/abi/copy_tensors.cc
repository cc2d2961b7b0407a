// CopyTensors: copies between tensors in any memory space, through copy_tensor (device/copy.h).
#include <memory>
#include <string>
#include <utility>

#include "abi/interop_cpu.h"
#include "abi/objects/env.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "abi/objects/sync_stream.h"
#include "abi/objects/value.h"
#include "base/config_keys.h"
#include "device/copy.h"
#include "ep/host/plugin_factory.h"
#include "runtime/ep_registry.h"

namespace tenon::abi {

namespace {

// Two libraries may copy between the same spaces. The stream's own is asked first: no other can use that stream.
std::shared_ptr<DataTransfer> find_transfer(const MemorySpace& src, const MemorySpace& dst, OrtSyncStream* stream) {
  if (stream != nullptr && stream->library != nullptr) {
    for (const std::shared_ptr<PluginFactory>& factory : stream->library->factories()) {
      DataTransfer* transfer = factory->transfer();
      if (transfer != nullptr && transfer->can_copy(src, dst)) return {factory, transfer};
    }
  }
  return tenon::EpRegistry::instance().find_transfer(src, dst);
}

// Strict mode of an env (config entry tenon.disallow_copies of CreateEnvWithOptions).
bool disallows_copies(const OrtEnv* env) {
  const char* value = env != nullptr ? env->config_entries.find(kDisallowCopiesKey) : nullptr;
  return value != nullptr && parse_flag(value).value_or(false);
}

Status check_pair(const OrtValue* src, const OrtValue* dst, size_t index) {
  TENON_INVALID_IF(src == nullptr || dst == nullptr, "Tensor {} of CopyTensors is null.", index);
  TENON_INVALID_IF(!src->is_tensor() || !dst->is_tensor() || src->is_string_tensor() || dst->is_string_tensor(),
                   "Value {} of CopyTensors is no tensor of numbers.", index);
  TENON_INVALID_IF(!(src->tensor.shape() == dst->tensor.shape()),
                   "Tensor {} of CopyTensors has shape {} and goes to {}.", index, src->tensor.shape().to_string(),
                   dst->tensor.shape().to_string());
  TENON_TRY_CONTEXT(check_writable(*dst, "be a target of CopyTensors"), "in tensor {} of CopyTensors", index);
  return Status();
}

// Written down in `env` (null after its end) where a program asks for that.
Status copy_now(const OrtEnv* env, const Tensor& src, const Tensor& dst, size_t index, DataTransfer* transfer,
                DeviceStream* stream) {
  const std::string what = format("tensor {} of CopyTensors", index);
  CopyLedger ledger;
  TENON_TRY(copy_tensor(dst, src, CopyReason::kCallerAsked, what.c_str(), &ledger, transfer, stream));
  if (env != nullptr) add_caller_copies(*env, ledger);
  return {};
}

// On a stream of the CPU device the copy is queued, as a run is; the program keeps both tensors until then.
Status copy_one(const std::shared_ptr<OrtEnv>& env, const Tensor& src, const Tensor& dst, OrtSyncStream* stream,
                size_t index) {
  const bool moves = dst.data() != src.data() && src.size_bytes() > 0;
  if (moves && disallows_copies(env.get())) {
    const std::string what = format("tensor {} of CopyTensors", index);
    return copy_disallowed(what.c_str(), src.space(), dst.space(), CopyReason::kCallerAsked);
  }
  auto transfer = find_transfer(src.space(), dst.space(), stream);
  if (CpuStream* cpu = stream != nullptr ? CpuStream::from(*stream) : nullptr; cpu != nullptr) {
    return cpu->queue().enqueue([env, dst, src, index, transfer = std::move(transfer)] {
      return copy_now(env.get(), src, dst, index, transfer.get(), nullptr);
    });
  }
  return copy_now(env.get(), src, dst, index, transfer.get(), stream != nullptr ? stream->stream : nullptr);
}

}  // namespace

OrtStatus* ort_api::CopyTensors(const OrtEnv* env, const OrtValue* const* src_tensors, OrtValue* const* dst_tensors,
                                OrtSyncStream* stream, size_t num_tensors) noexcept {
  if (OrtStatus* bad =
          check_pointers("CopyTensors", {{"env", env}, {"src_tensors", src_tensors}, {"dst_tensors", dst_tensors}}))
    return bad;
  if (num_tensors == 0) return make_ort_status(ORT_INVALID_ARGUMENT, "Invalid arguments provided to CopyTensors.");
  return guarded([&]() -> OrtStatus* {
    const std::shared_ptr<OrtEnv> current = current_env();
    for (size_t i = 0; i < num_tensors; ++i) {
      Status status = check_pair(src_tensors[i], dst_tensors[i], i);
      if (status.ok()) status = copy_one(current, src_tensors[i]->tensor, dst_tensors[i]->tensor, stream, i);
      if (!status.ok()) return to_ort(status);
    }
    return nullptr;
  });
}

}  // namespace tenon::abi
