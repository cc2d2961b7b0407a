// The kernels of mode=kernels: one object a node, from the host's kernel infos.
#include "ep/sim/sim_ep.h"
#include "ep/sim/sim_plugin_objects.h"

namespace tenon::sim {

using plugin::HostApi;
using plugin::TensorArgument;

namespace {

// Hosts answer an error for an attribute that is not set: then it has its default.
Status read_attributes(const HostApi& host, const OrtKernelInfo* info, SimNode& node) {
  const OrtApi& ort = host.ort();
  for (const auto& [name, kind] : node.op->attributes) {
    OrtStatus* status = nullptr;
    int64_t integer = 0;
    float number = 0;
    size_t count = 0;
    if (kind == AttributeKind::kInt) {
      status = ort.KernelInfoGetAttribute_int64(info, name, &integer);
      if (status == nullptr) node.set_int(name, integer);
    } else if (kind == AttributeKind::kFloat) {
      status = ort.KernelInfoGetAttribute_float(info, name, &number);
      if (status == nullptr) node.set_float(name, number);
    } else if (kind == AttributeKind::kString) {
      status = ort.KernelInfoGetAttribute_string(info, name, nullptr, &count);
      if (status == nullptr && count != 0) {
        std::string text(count, '\0');
        TENON_ORT_TRY(host, KernelInfoGetAttribute_string, info, name, text.data(), &count);
        text.resize(count - 1);  // the size counts the zero at the end
        node.set_string(name, std::move(text));
      }
    } else {
      status = ort.KernelInfoGetAttributeArray_int64(info, name, nullptr, &count);
      if (status == nullptr && count != 0) {
        std::vector<int64_t> list(count);
        TENON_ORT_TRY(host, KernelInfoGetAttributeArray_int64, info, name, list.data(), &count);
        node.set_ints(name, std::move(list));
      }
    }
    if (status != nullptr) ort.ReleaseStatus(status);
  }
  return Status();
}

class SimKernel final : public plugin::NodeKernel {
 public:
  SimKernel(const HostApi& host, std::shared_ptr<SimRuntime> runtime, std::shared_ptr<const SimNode> node)
      : NodeKernel(host), runtime_(std::move(runtime)), node_(std::move(node)) {}

 private:
  Status compute(OrtKernelContext* context) override {
    TENON_TRY(runtime_->hit(SimStep::compute));
    const plugin::KernelCall call(host(), context);
    TENON_TRY_ASSIGN(void* stream, SimExecutor::stream_of(call, host()));
    SimExecutor executor(runtime_, stream);
    TENON_TRY_ASSIGN(const size_t count, call.input_count());
    std::vector<SimArgument> in;
    std::vector<SimTensor> tensors;
    std::vector<const std::byte*> on_host;
    for (size_t i = 0; i < count; ++i) {
      TENON_TRY_ASSIGN(const TensorArgument input, call.input(i));
      tensors.push_back({input.type, input.shape});
      const bool reads_here = static_cast<int>(i) == node_->op->host_input;
      on_host.push_back(reads_here ? static_cast<const std::byte*>(input.data) : nullptr);
      // Its values have been read when the work runs.
      in.push_back(reads_here ? SimArgument() : SimArgument{.tensor = tensors.back(), .address = input.data});
    }
    TENON_TRY_CONTEXT(check_operands(*node_->op, tensors), "while running {}", node_->name);
    auto made = node_->op->infer({.tensors = tensors, .host = on_host}, *node_);
    if (!made.ok()) return std::move(made).status().with_context(tenon::format("while running {}", node_->name));
    std::vector<SimArgument> out;
    for (size_t i = 0; i < made->size(); ++i) {
      TENON_TRY_ASSIGN(const TensorArgument output, call.output(i, (*made)[i].shape));
      TENON_INVALID_IF(output.type != (*made)[i].type, "Output {} of {} has elements of type {} instead of {}.", i,
                       node_->name, data_type_name(output.type), data_type_name((*made)[i].type));
      out.push_back({.tensor = (*made)[i], .address = output.data});
    }
    TENON_TRY(executor.launch(node_, in, out));
    return executor.finish();
  }

  const std::shared_ptr<SimRuntime> runtime_;
  const std::shared_ptr<const SimNode> node_;
  SimCounters::Live counted_{counters().kernels};
};

Result<std::string> node_name(const HostApi& host, const OrtKernelInfo* info) {
  size_t size = 0;
  if (OrtStatus* status = host.ort().KernelInfo_GetNodeName(info, nullptr, &size)) host.ort().ReleaseStatus(status);
  std::string name(size, '\0');
  if (size != 0) TENON_ORT_TRY(host, KernelInfo_GetNodeName, info, name.data(), &size);
  if (!name.empty()) name.resize(name.find('\0') == std::string::npos ? name.size() : name.find('\0'));
  return name;
}

}  // namespace

std::vector<plugin::KernelRow> sim_copy_rows(const HostApi& host, const std::shared_ptr<SimRuntime>& runtime) {
  return plugin::copy_kernel_rows(
      host, [runtime](const TensorArgument& src, const TensorArgument& dst, void* stream) -> Status {
        TENON_TRY_ASSIGN(const size_t size_bytes, tensor_size_bytes(src.type, src.shape));
        std::shared_ptr<SimStream> ours;
        if (stream != nullptr) {
          ours = static_cast<SimStream*>(stream)->shared_from_this();
          runtime->runs.use(ours);
        }
        return runtime->device->copy({.src = src.data,
                                      .src_on_device = src.space.vendor_id == kSimVendorId,
                                      .dst = dst.data,
                                      .dst_on_device = dst.space.vendor_id == kSimVendorId,
                                      .size_bytes = size_bytes},
                                     ours);
      });
}

std::vector<plugin::KernelRow> sim_kernel_rows(const HostApi& host, const std::shared_ptr<SimRuntime>& runtime) {
  std::vector<plugin::KernelRow> rows;
  for (const SimOp& op : sim_ops()) {
    plugin::KernelRow row{.op_type = std::string(op.op_type), .since = op.since, .until = op.until};
    row.types.emplace_back(std::string(op.type_parameter), std::vector<DataType>(op.types.begin(), op.types.end()));
    if (op.host_input >= 0) row.host_inputs.push_back(op.host_input);
    row.create = [host, runtime, &op](const OrtKernelInfo* info) -> Result<std::unique_ptr<plugin::NodeKernel>> {
      TENON_TRY(runtime->hit(SimStep::create_kernel));
      auto node = std::make_shared<SimNode>(op);
      TENON_TRY_ASSIGN(node->name, node_name(host, info));
      if (node->name.empty()) node->name = std::string(op.op_type);
      TENON_TRY(read_attributes(host, info, *node));
      return std::unique_ptr<plugin::NodeKernel>(std::make_unique<SimKernel>(host, runtime, std::move(node)));
    };
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace tenon::sim
