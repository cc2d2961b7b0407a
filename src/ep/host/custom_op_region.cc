#include "ep/host/custom_op_region.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "abi/objects/slots.h"
#include "base/log.h"
#include "ep/host/custom_op_member.h"

namespace tenon::abi {

namespace {

class CustomOpRegion final : public PluginRegion {
 public:
  CustomOpRegion(const OrtCustomOp* op, std::string who, std::unique_ptr<OrtKernelInfo> info,
                 std::shared_ptr<const void> keep)
      : keep_(std::move(keep)),
        op_(op),
        who_(std::move(who)),
        info_(std::move(info)),
        compute_(TENON_CUSTOM_OP_MEMBER(op, KernelCompute)),
        compute_v2_(TENON_CUSTOM_OP_MEMBER(op, KernelComputeV2)) {}

  ~CustomOpRegion() override {
    if (!created_) return;
    const Status destroyed = call_value(who_, TENON_CUSTOM_OP_MEMBER(op_, KernelDestroy), kernel_);
    if (!destroyed.ok()) log_warning("plugin", "{}", destroyed.message());
  }

  Status prepare() {
    Status made = create();
    // The reference's code for a kernel that cannot be made, whatever code the operator gives.
    if (!made.ok()) remember_code(made, ORT_RUNTIME_EXCEPTION);
    return made;
  }

  Status compute(OrtKernelContext& context) const override {
    if (!compute_v2_) return runtime_exception(call_value(who_, compute_, kernel_, &context));
    const Result<OrtStatus*> status = call_value(who_, compute_v2_, kernel_, &context);
    return status.ok() ? take_status(who_, compute_v2_.name, *status) : runtime_exception(status.status());
  }

 private:
  // A null kernel is one: an operator without state has nothing to keep.
  Status create() {
    const auto create_v2 = TENON_CUSTOM_OP_MEMBER(op_, CreateKernelV2);
    const auto* info = static_cast<const OrtKernelInfo*>(info_.get());
    if (create_v2) {
      TENON_TRY(call(who_, create_v2, op_, &kOrtApi, info, &kernel_));
    } else {
      TENON_TRY_ASSIGN(kernel_, call_value(who_, TENON_CUSTOM_OP_MEMBER(op_, CreateKernel), op_, &kOrtApi, info));
    }
    created_ = true;
    return {};
  }

  // A kernel that throws is a RUNTIME_EXCEPTION, as in the reference.
  static Status runtime_exception(Status thrown) {
    if (!thrown.ok()) remember_code(thrown, ORT_RUNTIME_EXCEPTION);
    return thrown;
  }

  const std::shared_ptr<const void> keep_;
  const OrtCustomOp* const op_;
  const std::string who_;
  const std::unique_ptr<OrtKernelInfo> info_;
  const PluginMember<decltype(OrtCustomOp::KernelCompute)> compute_;
  const PluginMember<decltype(OrtCustomOp::KernelComputeV2)> compute_v2_;
  void* kernel_ = nullptr;
  bool created_ = false;
};

}  // namespace

Result<std::string> custom_op_ep(const OrtCustomOp* op) {
  const std::string who = "A custom operator";
  const auto member = TENON_CUSTOM_OP_MEMBER(op, GetExecutionProviderType);
  if (member.absent()) return std::string();
  TENON_TRY_ASSIGN(const char* type, call_value(who, member, op));
  if (type == nullptr) return std::string();
  TENON_TRY_ASSIGN(std::string ep, checked_text(who, member.name, type));
  if (ep == "CPUExecutionProvider") ep.clear();
  return ep;
}

Result<OrtMemType> custom_op_input_memory(const OrtCustomOp* op, size_t index) {
  const std::string who = "A custom operator";
  const auto member = TENON_CUSTOM_OP_MEMBER(op, GetInputMemoryType);
  if (member.absent()) return OrtMemTypeDefault;
  // A variadic last parameter takes the rest.
  TENON_TRY_ASSIGN(const size_t count, call_value(who, TENON_CUSTOM_OP_MEMBER(op, GetInputTypeCount), op));
  return call_value(who, member, op, count == 0 ? index : std::min(index, count - 1));
}

Result<std::shared_ptr<PluginRegion>> make_custom_op_region(const OrtCustomOp* op, const Region& region,
                                                            std::shared_ptr<const KernelHost> host, SpaceChoice spaces,
                                                            std::shared_ptr<const void> keep) {
  const Node& node = region.body.nodes[NodeId(0)];
  TENON_TRY_ASSIGN(auto info, make_kernel_info(region.body, node, std::move(host)));
  auto made = std::make_shared<CustomOpRegion>(
      op, format("The custom operator \"{}\" of domain \"{}\"", node.op_type, node.domain), std::move(info),
      std::move(keep));
  made->describe(region.body, node);
  made->spaces = std::move(spaces);
  made->spaces.inputs.resize(region.body.inputs.size());
  made->spaces.outputs.resize(region.body.outputs.size());
  TENON_TRY_CONTEXT(made->prepare(), "while making the kernel of {}", made->name);
  return std::shared_ptr<PluginRegion>(std::move(made));
}

}  // namespace tenon::abi
