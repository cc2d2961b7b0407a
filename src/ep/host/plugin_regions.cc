#include "ep/host/plugin_regions.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "abi/objects/allocator.h"
#include "abi/objects/slots.h"
#include "base/guarded.h"
#include "base/log.h"
#include "ep/api/in_place.h"
#include "ep/host/plugin_profiler.h"
#include "ep/host/plugin_stream.h"
#include "runtime/node_observer.h"

namespace tenon::abi {

namespace {

void warn(const Status& status) {
  if (!status.ok()) log_warning("plugin", "{}", status.message());
}

class CompiledRegion final : public PluginRegion {
 public:
  CompiledRegion(std::shared_ptr<ComputeInfos> infos, size_t index)
      : infos_(std::move(infos)),
        info_(infos_->infos()[index]),
        create_(TENON_MEMBER(info_, OrtNodeComputeInfo, CreateState)),
        compute_(TENON_MEMBER(info_, OrtNodeComputeInfo, Compute)),
        release_(TENON_MEMBER(info_, OrtNodeComputeInfo, ReleaseState)) {}

  ~CompiledRegion() override {
    // A null state needs no release, and plugins may leave the member out then.
    if (created_ && !(state_ == nullptr && release_.absent())) warn(call_value(who(), release_, info_, state_));
  }

  Status prepare() {
    TENON_TRY(create_.check(who()));
    TENON_TRY(compute_.check(who()));
    OrtNodeComputeContext context{name};
    TENON_TRY(call(who(), create_, info_, &context, &state_));
    created_ = true;
    return {};
  }

  Status compute(OrtKernelContext& context) const override { return call(who(), compute_, info_, state_, &context); }

  bool may_run_in_place(size_t input, size_t output, std::span<const TensorSpec> inputs) const override {
    if (!infos_->in_place()) return false;
    const auto* told = reinterpret_cast<const InPlaceComputeInfo*>(info_);
    constexpr size_t kEnd = offsetof(InPlaceComputeInfo, MayRunInPlace) + sizeof(told->MayRunInPlace);
    if (told->size_bytes < kEnd || told->MayRunInPlace == nullptr) return false;
    std::vector<const int64_t*> dims;
    std::vector<size_t> ranks;
    for (const TensorSpec& spec : inputs) {
      if (spec.dynamic) return false;
      const std::span<const int64_t> shape = spec.shape.dims();
      dims.push_back(shape.data());
      ranks.push_back(shape.size());
    }
    return told->MayRunInPlace(info_, input, output, dims.data(), ranks.data(), inputs.size()) != 0;
  }

  std::string note() const override {
    if (!infos_->in_place()) return "";
    const auto* told = reinterpret_cast<const InPlaceComputeInfo*>(info_);
    constexpr size_t kEnd = offsetof(InPlaceComputeInfo, Describe) + sizeof(told->Describe);
    if (told->size_bytes < kEnd || told->Describe == nullptr) return "";
    const char* const text = told->Describe(info_);
    // A plan is lines of text, and who wrote this may have had anything in mind.
    constexpr size_t kMost = 200;
    std::string note(text != nullptr ? text : "", text != nullptr ? ::strnlen(text, kMost) : 0);
    std::replace_if(note.begin(), note.end(), [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, ' ');
    return note;
  }

 private:
  const std::string& who() const { return infos_->ep().who(); }

  const std::shared_ptr<ComputeInfos> infos_;
  OrtNodeComputeInfo* const info_;
  PluginMember<decltype(OrtNodeComputeInfo::CreateState)> create_;
  PluginMember<decltype(OrtNodeComputeInfo::Compute)> compute_;
  PluginMember<decltype(OrtNodeComputeInfo::ReleaseState)> release_;
  void* state_ = nullptr;
  bool created_ = false;
};

class KernelRegion final : public PluginRegion {
 public:
  KernelRegion(std::shared_ptr<PluginEp> ep, std::unique_ptr<OrtKernelInfo> info)
      : ep_(std::move(ep)), info_(std::move(info)) {}

  ~KernelRegion() override {
    if (impl_ != nullptr) warn(call_value(ep_->who(), release_, impl_));
  }

  Status prepare(const OrtKernelRegistry::Entry& entry, bool host_memory) {
    PluginMember<OrtKernelCreateFunc> create{.function = entry.create,
                                             .name = "OrtKernelCreateFunc",
                                             .state = PluginMember<OrtKernelCreateFunc>::State::kUsable};
    if (entry.create == nullptr) create.state = PluginMember<OrtKernelCreateFunc>::State::kNull;
    OrtKernelImpl* impl = nullptr;
    TENON_TRY(call(ep_->who(), create, entry.state, static_cast<const OrtKernelInfo*>(info_.get()), &impl));
    TENON_TRY(check_object(ep_->who(), "OrtKernelImpl", impl, create.name));
    compute_ = TENON_MEMBER(impl, OrtKernelImpl, Compute);
    release_ = TENON_MEMBER(impl, OrtKernelImpl, Release);
    TENON_TRY(release_.check(ep_->who()));
    impl_ = impl;
    TENON_TRY(compute_.check(ep_->who()));
    control_flow_ = as_control_flow(impl);
    if (control_flow_ != nullptr) {
      TENON_INVALID_IF(control_flow_->op_type != info_->node.op_type,
                       "{}: the kernel that was made for a node {} is the host's for a node {}.", ep_->who(),
                       info_->node.op_type, control_flow_->op_type);
      control_flow_->who = ep_->who();
      return {};
    }
    return host_memory ? pack() : Status();
  }

  Status compute(OrtKernelContext& context) const override { return call(ep_->who(), compute_, impl_, &context); }
  ControlFlowImpl* control_flow() const override { return control_flow_; }

 private:
  // The kernel keeps what it packs; the weight stays an input all the same, so that nothing else changes.
  Status pack() {
    const auto pre_pack = TENON_MEMBER(impl_, OrtKernelImpl, PrePackWeight);
    if (pre_pack.absent()) return {};
    for (size_t i = 0; i < info_->inputs.size(); ++i) {
      const OrtValue* weight = info_->inputs[i].constant.get();
      if (weight == nullptr) continue;
      bool packed = false;
      TENON_TRY(call(ep_->who(), pre_pack, impl_, weight, static_cast<int>(i), default_allocator(),
                     static_cast<OrtSharedPrePackedWeightCache*>(nullptr), &packed));
    }
    return {};
  }

  const std::shared_ptr<PluginEp> ep_;
  const std::unique_ptr<OrtKernelInfo> info_;
  OrtKernelImpl* impl_ = nullptr;
  ControlFlowImpl* control_flow_ = nullptr;
  PluginMember<decltype(OrtKernelImpl::Compute)> compute_;
  PluginMember<decltype(OrtKernelImpl::Release)> release_;
};

// The tensors of a run in the order of a node's own inputs and outputs.
class MappedRun final : public KernelContext {
 public:
  explicit MappedRun(const PluginRegion& region)
      : region_(region), in_(region.input_map.size()), out_(region.output_map.size()) {}

  void begin(KernelContext& run) {
    run_ = &run;
    for (size_t i = 0; i < in_.size(); ++i) {
      const int32_t from = region_.input_map[i];
      in_[i] = from < 0 ? nullptr : run.inputs[from];
    }
    for (size_t i = 0; i < out_.size(); ++i) {
      const int32_t to = region_.output_map[i];
      out_[i] = to < 0 ? nullptr : run.outputs[to];
    }
    inputs = in_;
    outputs = out_;
    scratch = run.scratch;
    pool = run.pool;
    stream = run.stream;
    this->run = run.run;
  }

  Result<void*> allocate_output(size_t index, const Shape& shape) override {
    TENON_CHECK(index < region_.output_map.size() && region_.output_map[index] >= 0);
    return run_->allocate_output(region_.output_map[index], shape);
  }

 private:
  const PluginRegion& region_;
  KernelContext* run_ = nullptr;
  std::vector<const void*> in_;
  std::vector<void*> out_;
};

class RegionKernel final : public Kernel {
 public:
  RegionKernel(std::shared_ptr<const PluginRegion> region, std::shared_ptr<const KernelHost> host,
               std::shared_ptr<const KernelFrame> frame)
      : region_(std::move(region)), host_(std::move(host)), frame_(std::move(frame)) {}

  Status run(KernelContext& context) const override {
    TENON_TRY_ASSIGN(std::unique_ptr<Frame> frame, take());
    KernelContext* run = &context;
    if (region_->mapped) {
      frame->mapped.begin(context);
      run = &frame->mapped;
    }
    Status status = frame->context.begin(*run, to_ort(context.stream));
    if (status.ok()) {
      PluginProfiler* profiler = host_->profiler();
      const auto event = profiler != nullptr ? profiler->start_event() : PluginProfiler::Event();
      status = region_->compute(frame->context);
      if (profiler != nullptr) {
        profiler->stop_event(event, region_->node_name.empty() ? region_->name : region_->node_name, region_->op_type);
      }
      if (!host_->is_cpu_ep()) NodeObserver::set_by_plugin(true);
      Status ended = frame->context.end();
      if (status.ok()) status = std::move(ended);
    }
    idle_.lock()->push_back(std::move(frame));
    if (!status.ok()) return std::move(status).with_context(format("while running {}", region_->label));
    return status;
  }

  bool may_run_in_place(size_t input, size_t output) const override {
    return region_->may_run_in_place(input, output, frame_->inputs);
  }

  std::string_view name() const override { return name_; }

 private:
  struct Frame {
    Frame(const PluginRegion& region, std::shared_ptr<const KernelHost> host, std::shared_ptr<const KernelFrame> frame)
        : context(std::move(host), std::move(frame)), mapped(region) {}
    OrtKernelContext context;
    MappedRun mapped;
  };

  Result<std::unique_ptr<Frame>> take() const {
    auto idle = idle_.lock();
    if (!idle->empty()) {
      std::unique_ptr<Frame> frame = std::move(idle->back());
      idle->pop_back();
      return frame;
    }
    return std::make_unique<Frame>(*region_, host_, frame_);
  }

  static std::string name_of(const PluginRegion& region) {
    const std::string note = region.note();
    return note.empty() ? region.name : region.name + ", " + note;
  }

  const std::shared_ptr<const PluginRegion> region_;
  const std::string name_ = name_of(*region_);
  const std::shared_ptr<const KernelHost> host_;
  const std::shared_ptr<const KernelFrame> frame_;
  mutable Guarded<std::vector<std::unique_ptr<Frame>>> idle_;
};

int32_t index_of(std::span<const ValueId> values, ValueId id) {
  const auto found = std::find(values.begin(), values.end(), id);
  return found != values.end() && id != kNoValue ? static_cast<int32_t>(found - values.begin()) : -1;
}

std::string output_label(const Graph& body, const Node& node, ValueId output) {
  return format("\"{}\" of {}", output == kNoValue ? std::string() : body.value(output).name, node.label(body));
}

}  // namespace

void PluginRegion::describe(const Graph& body, const Node& node) {
  name = label = node.label(body);
  node_name = node.name;
  op_type = node.op_type;
  mapped = true;
  for (ValueId id : node.inputs) input_map.push_back(index_of(body.inputs, id));
  for (ValueId id : node.outputs) {
    output_map.push_back(index_of(body.outputs, id));
    output_labels.push_back(output_label(body, node, id));
  }
}

void PluginRegion::describe(const Region& region) {
  constexpr size_t kShown = 4;
  const Graph& body = region.body;
  name = region.name;
  for (size_t i = 0; i < std::min(body.nodes.size(), kShown); ++i)
    label += (i == 0 ? "" : ", ") + body.nodes.elements()[i].label(body);
  if (body.nodes.size() > kShown) label += format(" and {} more", body.nodes.size() - kShown);
  label = format("the region \"{}\" of {}", name, label);
  for (const ValueId output : body.outputs) {
    const auto maker = std::find_if(body.nodes.begin(), body.nodes.end(),
                                    [&](const Node& node) { return index_of(node.outputs, output) >= 0; });
    output_labels.push_back(maker != body.nodes.end() ? output_label(body, *maker, output)
                                                      : format("\"{}\"", body.value(output).name));
  }
}

ComputeInfos::~ComputeInfos() {
  if (std::all_of(infos_.begin(), infos_.end(), [](const OrtNodeComputeInfo* info) { return info == nullptr; })) return;
  const auto release = TENON_MEMBER(ep_->get(), OrtEp, ReleaseNodeComputeInfos);
  warn(call_value(ep_->who(), release, ep_->get(), infos_.data(), infos_.size()));
}

Result<std::shared_ptr<PluginRegion>> make_compiled_region(std::shared_ptr<ComputeInfos> infos, size_t index,
                                                           const Region& region) {
  TENON_TRY(check_object(infos->ep().who(), "OrtNodeComputeInfo", infos->infos()[index], "OrtEp::Compile"));
  auto made = std::make_shared<CompiledRegion>(std::move(infos), index);
  made->describe(region);
  TENON_TRY(made->prepare());
  return std::shared_ptr<PluginRegion>(std::move(made));
}

Result<std::shared_ptr<PluginRegion>> make_kernel_region(std::shared_ptr<PluginEp> ep,
                                                         const OrtKernelRegistry::Entry& entry, const Region& region,
                                                         std::shared_ptr<const KernelHost> host, bool host_memory,
                                                         std::span<std::unique_ptr<OrtValue>> placed) {
  const Node& node = region.body.nodes[NodeId(0)];
  TENON_TRY_ASSIGN(auto info, make_kernel_info(region.body, node, std::move(host)));
  for (size_t i = 0; i < placed.size(); ++i) {
    if (placed[i] != nullptr) info->inputs[i].constant = std::move(placed[i]);
  }
  auto made = std::make_shared<KernelRegion>(std::move(ep), std::move(info));
  made->describe(region.body, node);
  TENON_TRY_CONTEXT(made->prepare(entry, host_memory), "while making the kernel of {}", made->name);
  return std::shared_ptr<PluginRegion>(std::move(made));
}

Result<std::unique_ptr<Kernel>> make_region_kernel(std::shared_ptr<const PluginRegion> region, const KernelNode& node,
                                                   std::shared_ptr<const KernelHost> host,
                                                   const IdVector<AllocatorId, OrtMemoryInfo>& memory) {
  auto frame = std::make_shared<KernelFrame>();
  const auto add = [&](std::vector<TensorSpec>& specs, std::vector<OrtMemoryInfo>& infos,
                       std::span<const TensorSpec> given, std::span<const AllocatorId> spaces, int32_t index) {
    specs.push_back(index < 0 ? TensorSpec{} : given[index]);
    const AllocatorId allocator = index < 0 || spaces.empty() ? AllocatorId::none() : spaces[index];
    infos.push_back(allocator.valid() ? memory[allocator] : OrtMemoryInfo{});
  };
  const size_t inputs = region->mapped ? region->input_map.size() : node.inputs.size();
  for (size_t i = 0; i < inputs; ++i) {
    const int32_t index = region->mapped ? region->input_map[i] : static_cast<int32_t>(i);
    add(frame->inputs, frame->input_memory, node.inputs, region->spaces.inputs, index);
    std::shared_ptr<const OrtValue> text;
    const ConstantRef constant = index < 0 ? nullptr : node.constants[index];
    if (constant && constant->type == DataType::kString) {
      TENON_TRY_ASSIGN(text, value_of(constant));
    }
    frame->constants.push_back(std::move(text));
  }
  const size_t outputs = region->mapped ? region->output_map.size() : node.outputs.size();
  for (size_t i = 0; i < outputs; ++i) {
    const int32_t index = region->mapped ? region->output_map[i] : static_cast<int32_t>(i);
    add(frame->outputs, frame->output_memory, node.outputs, region->spaces.outputs, index);
  }
  frame->output_labels = region->output_labels;
  return std::unique_ptr<Kernel>(std::make_unique<RegionKernel>(std::move(region), std::move(host), std::move(frame)));
}

const char* ep_api::NodeComputeContext_NodeName(const OrtNodeComputeContext* context) noexcept {
  return context != nullptr ? context->name.c_str() : "";
}

}  // namespace tenon::abi
