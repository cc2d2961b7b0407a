#include "ep/host/control_flow_region.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/guarded.h"
#include "plan/control_flow.h"
#include "plan/kernel_node.h"
#include "plan/regions.h"
#include "runtime/run_state.h"

namespace tenon::abi {

namespace {

// Where an input of the inner node comes from: the region's input, or a constant of its body.
struct Source {
  int32_t index = -1;
  ConstantRef constant;
};

struct Mapping {
  std::vector<Source> inputs;
  std::vector<int32_t> outputs;
};

// The tensors of a run in the order of the inner node.
class InnerRun final : public KernelContext, public AdoptingContext {
 public:
  explicit InnerRun(const Mapping& mapping)
      : mapping_(mapping), in_(mapping.inputs.size()), out_(mapping.outputs.size()) {}

  void begin(KernelContext& outer) {
    outer_ = &outer;
    for (size_t i = 0; i < in_.size(); ++i) {
      const Source& source = mapping_.inputs[i];
      const std::byte* const constant = source.constant ? source.constant->data.bytes() : nullptr;
      in_[i] = source.index >= 0 ? outer.inputs[source.index] : constant;
    }
    for (size_t i = 0; i < out_.size(); ++i) {
      const int32_t to = mapping_.outputs[i];
      out_[i] = to < 0 ? nullptr : outer.outputs[to];
    }
    inputs = in_;
    outputs = out_;
    scratch = outer.scratch;
    pool = outer.pool;
    run = outer.run;
  }

  Result<void*> allocate_output(size_t index, const Shape& shape) override {
    TENON_CHECK(index < mapping_.outputs.size() && mapping_.outputs[index] >= 0);
    return outer_->allocate_output(mapping_.outputs[index], shape);
  }
  bool adopt_output(size_t index, const Shape& shape, std::shared_ptr<std::byte>& memory,
                    size_t& capacity_bytes) override {
    auto* adopting = dynamic_cast<AdoptingContext*>(outer_);
    return adopting != nullptr && mapping_.outputs[index] >= 0 &&
           adopting->adopt_output(mapping_.outputs[index], shape, memory, capacity_bytes);
  }

 private:
  const Mapping& mapping_;
  KernelContext* outer_ = nullptr;
  std::vector<const void*> in_;
  std::vector<void*> out_;
};

class HostedKernel final : public Kernel {
 public:
  HostedKernel(std::shared_ptr<const PluginRegion> region, std::unique_ptr<SubgraphHelper> helper,
               std::unique_ptr<Kernel> inner, Mapping mapping)
      : region_(std::move(region)),
        helper_(std::move(helper)),
        inner_(std::move(inner)),
        mapping_(std::move(mapping)) {}

  Status run(KernelContext& context) const override {
    std::unique_ptr<InnerRun> run = take();
    run->begin(context);
    Status status = inner_->run(*run);
    idle_.lock()->push_back(std::move(run));
    if (!status.ok()) return std::move(status).with_context(format("while running \"{}\"", region_->name));
    return status;
  }
  size_t scratch_bytes() const override { return inner_->scratch_bytes(); }
  std::string_view name() const override { return region_->name; }

 private:
  std::unique_ptr<InnerRun> take() const {
    auto idle = idle_.lock();
    if (idle->empty()) return std::make_unique<InnerRun>(mapping_);
    std::unique_ptr<InnerRun> run = std::move(idle->back());
    idle->pop_back();
    return run;
  }

  const std::shared_ptr<const PluginRegion> region_;  // has what the helper calls
  const std::unique_ptr<SubgraphHelper> helper_;
  const std::unique_ptr<Kernel> inner_;
  const Mapping mapping_;
  mutable Guarded<std::vector<std::unique_ptr<InnerRun>>> idle_;
};

int32_t index_of(const std::vector<ValueId>& values, ValueId id) {
  const auto found = std::find(values.begin(), values.end(), id);
  return id != kNoValue && found != values.end() ? static_cast<int32_t>(found - values.begin()) : -1;
}

}  // namespace

Result<std::unique_ptr<Kernel>> make_control_flow_kernel(std::shared_ptr<const PluginRegion> region,
                                                         const KernelNode& node, const SubgraphKernels& subgraphs) {
  Graph body = region_body(*node.node);
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    Value& value = body.value(body.inputs[i]);
    value.type = node.inputs[i].type;
    value.set_shape(node.inputs[i].shape);
    value.constant = node.constants[i];
  }
  lower_control_flow(body);
  const Node& inner = body.nodes[NodeId(0)];
  KernelNode base = node;
  KernelNodeData data(body, inner, base);
  Mapping mapping;
  for (ValueId id : inner.inputs) {
    Source source;
    source.index = index_of(body.inputs, id);
    if (source.index < 0 && id != kNoValue) source.constant = body.value(id).constant;
    if (source.index < 0 && id != kNoValue && !source.constant)
      return internal_error("Input \"{}\" of {} is none of its region's.", body.value(id).name, region->name);
    mapping.inputs.push_back(std::move(source));
  }
  for (size_t i = 0; i < inner.outputs.size(); ++i) {
    const int32_t to = index_of(body.outputs, inner.outputs[i]);
    mapping.outputs.push_back(to);
    data.outputs[i] = to < 0 ? TensorSpec{} : node.outputs[to];
  }
  std::unique_ptr<SubgraphHelper> helper = make_helper(*region->control_flow());
  TENON_TRY_ASSIGN(std::unique_ptr<Kernel> kernel, subgraphs.create(data.view, helper.get()));
  return std::unique_ptr<Kernel>(
      std::make_unique<HostedKernel>(std::move(region), std::move(helper), std::move(kernel), std::move(mapping)));
}

}  // namespace tenon::abi
