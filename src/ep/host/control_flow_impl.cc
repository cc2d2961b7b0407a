#include "ep/host/control_flow_impl.h"

#include <utility>
#include <vector>

#include "abi/objects/slots.h"
#include "abi/objects/value.h"
#include "base/log.h"
#include "device/copy.h"
#include "ep/api/device_provider.h"
#include "ep/host/kernel_info.h"
#include "runtime/memory.h"

namespace tenon::abi {

namespace {

OrtStatus* ORT_API_CALL compute(OrtKernelImpl* self, OrtKernelContext*) noexcept {
  const auto* impl = static_cast<ControlFlowImpl*>(self);
  return ort_error(
      ORT_FAIL, "The {} kernel is run by the host: give it back from OrtKernelCreateFunc as it is, and do not call it.",
      impl->op_type);
}

void ORT_API_CALL release(OrtKernelImpl* self) noexcept {
  auto* impl = static_cast<ControlFlowImpl*>(self);
  const std::string who = impl->who.empty() ? impl->op_type : impl->who;
  Status status;
  if (impl->loop != nullptr)
    status = call_value(who, TENON_MEMBER(impl->loop, OrtLoopKernelHelper, Release), impl->loop);
  if (impl->scan != nullptr)
    status = call_value(who, TENON_MEMBER(impl->scan, OrtScanKernelHelper, Release), impl->scan);
  if (!status.ok()) log_warning("plugin", "{}", status.message());
  delete impl;
}

OrtStatus* check_info(const char* op_type, const OrtKernelInfo* info) noexcept {
  if (info == nullptr)
    return ort_error(ORT_INVALID_ARGUMENT,
                     "Must specify a non-null OrtKernelInfo instance to create {} {} OrtKernelImpl",
                     op_type[0] == 'I' ? "an" : "a", op_type);
  if (info->node.op_type != op_type || !info->node.domain.empty())
    return ort_error(ORT_INVALID_ARGUMENT, "The OrtKernelInfo is of a node {}, not {}.", info->node.op_type, op_type);
  return nullptr;
}

OrtStatus* check_out(const char* op_type, const void* out) noexcept {
  if (out != nullptr) return nullptr;
  return ort_error(ORT_INVALID_ARGUMENT, "Must specify a non-null output parameter to hold the OrtKernelImpl for {}",
                   op_type);
}

OrtStatus* check_helper(const char* op_type, const char* kind, const void* helper) noexcept {
  if (helper == nullptr)
    return ort_error(ORT_INVALID_ARGUMENT, "Must specify a non-null {} instance to create a {} OrtKernelImpl", kind,
                     op_type);
  return to_ort(check_object("the EP", kind, helper, "an argument"));
}

template <typename F>
OrtStatus* check_function(const char* kind, const PluginMember<F>& member) noexcept {
  if (member) return nullptr;
  if (member.state == PluginMember<F>::State::kNull)
    return ort_error(ORT_INVALID_ARGUMENT, "{} must have a non-null {} function", kind, member.name);
  return to_ort(member.check("the EP"));
}

std::unique_ptr<ControlFlowImpl> make_impl(const char* op_type) {
  auto impl = std::make_unique<ControlFlowImpl>();
  impl->ort_version_supported = ORT_API_VERSION;
  impl->flags = 0;
  impl->OrtKernelImpl::Compute = &compute;
  impl->OrtKernelImpl::Release = &release;
  impl->OrtKernelImpl::PrePackWeight = nullptr;
  impl->OrtKernelImpl::SetSharedPrePackedWeight = nullptr;
  impl->op_type = op_type;
  return impl;
}

// Memory as the helper's EP knows it: the tensor itself, or a tensor of the EP's own memory.
class Staged {
 public:
  Staged(const HelperMemory& memory, const char* what, const RunInfo& info)
      : memory_(memory), what_(what), info_(info) {}

  // The helper's own work moves bytes from one tensor to another too.
  Status permit() const {
    return info_.disallow_copies ? copy_disallowed(what_, space(), space(), CopyReason::kScanSlices) : Status();
  }
  void note(size_t bytes) const {
    note_copy({.bytes = bytes, .source = space(), .target = space(), .reason = CopyReason::kScanSlices, .what = what_},
              info_.ledger);
  }

  Result<Tensor> make(DataType type, const Shape& shape) const {
    TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(type, shape));
    TENON_TRY_ASSIGN(const std::shared_ptr<std::byte> block, allocate_device(*memory_.allocator, bytes));
    return Tensor::view(type, shape, block.get(), bytes, block, memory_.allocator->space());
  }
  Result<Tensor> in(const Tensor& host) const {
    if (memory_.allocator == nullptr) return host;
    TENON_TRY_ASSIGN(Tensor own, make(host.type(), host.shape()));
    TENON_TRY(move(own, host));
    return own;
  }
  Result<Tensor> out(const Tensor& host) const {
    return memory_.allocator == nullptr ? Result<Tensor>(host) : make(host.type(), host.shape());
  }
  Status back(const Tensor& own, Tensor& host) const {
    return memory_.allocator == nullptr ? Status() : move(host, own);
  }
  OrtValue value(const Tensor& tensor) const {
    return memory_.allocator == nullptr ? make_value(tensor) : make_value(tensor, memory_.allocator->info());
  }

 private:
  MemorySpace space() const { return memory_.allocator == nullptr ? MemorySpace{} : memory_.allocator->space(); }
  // permit() has asked for strict mode.
  Status move(const Tensor& dst, const Tensor& src) const {
    return copy_tensor(dst, src, CopyReason::kNotCompatible, what_, info_.ledger, memory_.transfer);
  }

  const HelperMemory& memory_;
  const char* const what_;
  const RunInfo& info_;
};

class PluginHelper final : public SubgraphHelper {
 public:
  explicit PluginHelper(const ControlFlowImpl& impl) : impl_(impl) {
    if (impl.loop != nullptr) concat_ = TENON_MEMBER(impl.loop, OrtLoopKernelHelper, ConcatOutput);
    if (impl.scan != nullptr) transpose_ = TENON_MEMBER(impl.scan, OrtScanKernelHelper, Transpose);
  }

  Status concat(std::span<const Tensor> parts, Tensor& output, const char* what, const RunInfo& info) const override {
    const Staged staged(impl_.memory, what, info);
    TENON_TRY(staged.permit());
    std::vector<OrtValue> values;
    for (const Tensor& part : parts) {
      TENON_TRY_ASSIGN(const Tensor own, staged.in(part));
      values.push_back(staged.value(own));
    }
    std::vector<const OrtValue*> pointers;
    pointers.reserve(values.size());
    for (const OrtValue& value : values) pointers.push_back(&value);
    TENON_TRY_ASSIGN(const Tensor own, staged.out(output));
    TENON_TRY(call(impl_.who, concat_, impl_.loop, static_cast<void*>(nullptr), pointers.data(), pointers.size(),
                   own.data(), own.size_bytes()));
    staged.note(own.size_bytes());
    return staged.back(own, output);
  }

  Status transpose(std::span<const size_t> permutation, const Tensor& input, Tensor& output, const char* what,
                   const RunInfo& info) const override {
    const Staged staged(impl_.memory, what, info);
    TENON_TRY(staged.permit());
    TENON_TRY_ASSIGN(const Tensor from, staged.in(input));
    TENON_TRY_ASSIGN(const Tensor to, staged.out(output));
    const OrtValue from_value = staged.value(from);
    OrtValue to_value = staged.value(to);
    TENON_TRY(call(impl_.who, transpose_, impl_.scan, permutation.data(), permutation.size(), &from_value,
                   static_cast<OrtSyncStream*>(nullptr), &to_value));
    staged.note(to.size_bytes());
    return staged.back(to, output);
  }

 private:
  const ControlFlowImpl& impl_;
  PluginMember<decltype(OrtLoopKernelHelper::ConcatOutput)> concat_;
  PluginMember<decltype(OrtScanKernelHelper::Transpose)> transpose_;
};

}  // namespace

ControlFlowImpl* as_control_flow(OrtKernelImpl* impl) {
  // Nobody else's impl has this function, and every one of ours has it.
  return impl != nullptr && impl->Release == &release ? static_cast<ControlFlowImpl*>(impl) : nullptr;
}

std::unique_ptr<SubgraphHelper> make_helper(const ControlFlowImpl& impl) {
  if (impl.loop == nullptr && impl.scan == nullptr) return nullptr;
  return std::make_unique<PluginHelper>(impl);
}

OrtStatus* ep_api::CreateIfKernel(const OrtKernelInfo* kernel_info, OrtKernelImpl** kernel_out) noexcept {
  clear(kernel_out);
  if (OrtStatus* bad = check_info("If", kernel_info)) return bad;
  if (OrtStatus* bad = check_out("If", kernel_out)) return bad;
  return guarded([&]() -> OrtStatus* {
    *kernel_out = make_impl("If").release();
    return nullptr;
  });
}

// Takes the helper over when the call succeeds.
OrtStatus* ep_api::CreateLoopKernel(const OrtKernelInfo* kernel_info, OrtLoopKernelHelper* helper,
                                    OrtKernelImpl** kernel_out) noexcept {
  clear(kernel_out);
  if (OrtStatus* bad = check_info("Loop", kernel_info)) return bad;
  if (OrtStatus* bad = check_helper("Loop", "OrtLoopKernelHelper", helper)) return bad;
  if (OrtStatus* bad = check_function("OrtLoopKernelHelper", TENON_MEMBER(helper, OrtLoopKernelHelper, Release)))
    return bad;
  if (OrtStatus* bad = check_function("OrtLoopKernelHelper", TENON_MEMBER(helper, OrtLoopKernelHelper, ConcatOutput)))
    return bad;
  if (OrtStatus* bad = check_out("Loop", kernel_out)) return bad;
  return guarded([&]() -> OrtStatus* {
    std::unique_ptr<ControlFlowImpl> impl = make_impl("Loop");
    impl->loop = helper;
    *kernel_out = impl.release();
    return nullptr;
  });
}

OrtStatus* ep_api::CreateScanKernel(const OrtKernelInfo* kernel_info, OrtScanKernelHelper* helper,
                                    OrtKernelImpl** kernel_out) noexcept {
  clear(kernel_out);
  if (OrtStatus* bad = check_info("Scan", kernel_info)) return bad;
  if (OrtStatus* bad = check_helper("Scan", "OrtScanKernelHelper", helper)) return bad;
  if (OrtStatus* bad = check_function("OrtScanKernelHelper", TENON_MEMBER(helper, OrtScanKernelHelper, Release)))
    return bad;
  if (OrtStatus* bad = check_function("OrtScanKernelHelper", TENON_MEMBER(helper, OrtScanKernelHelper, Transpose)))
    return bad;
  if (OrtStatus* bad = check_out("Scan", kernel_out)) return bad;
  // As the reference: a batch has no axes to transpose.
  if (kernel_info->node.since_version < 9)
    return ort_error(ORT_FAIL, "Kernel implementations for Scan older than opset version 9 are not supported");
  return guarded([&]() -> OrtStatus* {
    std::unique_ptr<ControlFlowImpl> impl = make_impl("Scan");
    impl->scan = helper;
    *kernel_out = impl.release();
    return nullptr;
  });
}

}  // namespace tenon::abi
