#include "ep/sdk/plugin_kernel.h"

#include <tenon/kernel_stream.h>

#include <algorithm>
#include <cstddef>
#include <span>

#include "ep/sdk/plugin_memory.h"
#include "ep/sdk/plugin_stream.h"

namespace tenon::plugin {

namespace {

Status check_tensor(DataType type, size_t rank) {
  TENON_UNSUPPORTED_IF(data_type_bits(type) == 0 || holds_addresses(type),
                       "A tensor has element type {}, which this EP does not take.", data_type_name(type));
  TENON_UNSUPPORTED_IF(rank > Shape::kMaxRank, "A tensor has {} dimensions; {} are supported.", rank, Shape::kMaxRank);
  return Status();
}

// onnxruntime 1.31 goes on when an allocator has no more: the tensor then lies nowhere.
Status check_memory(const void* data, size_t size_bytes) {
  if (data == nullptr && size_bytes != 0)
    return resource_exhausted("There is no memory for a tensor of {} bytes.", size_bytes);
  return Status();
}

}  // namespace

Result<TensorArgument> describe_tensor(const HostApi& host, const OrtValue* value) {
  TensorArgument tensor;
  if (value == nullptr) return tensor;
  int is_tensor = 0;
  TENON_ORT_TRY(host, IsTensor, value, &is_tensor);
  TENON_UNSUPPORTED_IF(is_tensor == 0, "A value is no tensor; this EP takes tensors only.");
  OrtTensorTypeAndShapeInfo* info = nullptr;
  TENON_ORT_TRY(host, GetTensorTypeAndShape, value, &info);
  const auto owned = host.own(info, host.ort().ReleaseTensorTypeAndShapeInfo);
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  TENON_ORT_TRY(host, GetTensorElementType, info, &type);
  tensor.type = data_type(type);
  size_t rank = 0;
  TENON_ORT_TRY(host, GetDimensionsCount, info, &rank);
  TENON_TRY(check_tensor(tensor.type, rank));
  std::vector<int64_t> dims(rank);
  TENON_ORT_TRY(host, GetDimensions, info, dims.data(), rank);
  tensor.shape = Shape(dims);
  const void* data = nullptr;
  TENON_ORT_TRY(host, GetTensorData, value, &data);
  tensor.data = const_cast<void*>(data);
  TENON_TRY_ASSIGN(const size_t size_bytes, tensor_size_bytes(tensor.type, tensor.shape));
  TENON_TRY(check_memory(data, size_bytes));
  if (const OrtMemoryDevice* device = host.ep().Value_GetMemoryDevice(value)) tensor.space = memory_space(host, device);
  return tensor;
}

namespace {

const TensorDescriptor& descriptor(const KernelTensors& tensors, const TensorDescriptor* first, size_t index) {
  return *reinterpret_cast<const TensorDescriptor*>(reinterpret_cast<const std::byte*>(first) +
                                                    index * tensors.descriptor_bytes);
}

Result<TensorArgument> from_descriptor(const TensorDescriptor& from) {
  TensorArgument tensor;
  if (from.element_type == ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED) return tensor;
  tensor.type = data_type(from.element_type);
  TENON_TRY(check_tensor(tensor.type, from.rank));
  tensor.shape = Shape(std::span<const int64_t>(from.dims, from.rank));
  tensor.data = from.data;
  TENON_TRY(check_memory(from.data, from.byte_size));
  tensor.space = memory_space(from.device_type, from.memory_type, from.vendor_id, from.device_id);
  return tensor;
}

Result<TensorArgument> with_context(Result<TensorArgument> tensor, const char* doing, size_t index) {
  if (!tensor.ok()) return std::move(tensor).status().with_context(format("while {} {}", doing, index));
  return tensor;
}

}  // namespace

Status KernelCall::ask() const {
  if (tensors_ != nullptr || host_.tenon() == nullptr) return Status();
  const KernelTensors* tensors = nullptr;
  TENON_EP_HOST_TRY(host_, KernelContext_GetTensors, context_, sizeof(KernelTensors), &tensors);
  TENON_INVALID_IF(tensors == nullptr || tensors->size_bytes < sizeof(KernelTensors) ||
                       tensors->descriptor_bytes < sizeof(TensorDescriptor),
                   "The host describes the tensors of a call in {} and {} bytes; {} and {} are the least.",
                   tensors != nullptr ? tensors->size_bytes : 0, tensors != nullptr ? tensors->descriptor_bytes : 0,
                   sizeof(KernelTensors), sizeof(TensorDescriptor));
  tensors_ = tensors;
  return Status();
}

Result<size_t> KernelCall::input_count() const {
  TENON_TRY(ask());
  if (tensors_ != nullptr) return tensors_->input_count;
  size_t count = 0;
  TENON_ORT_TRY(host_, KernelContext_GetInputCount, context_, &count);
  return count;
}

Result<size_t> KernelCall::output_count() const {
  TENON_TRY(ask());
  if (tensors_ != nullptr) return tensors_->output_count;
  size_t count = 0;
  TENON_ORT_TRY(host_, KernelContext_GetOutputCount, context_, &count);
  return count;
}

Result<TensorArgument> KernelCall::input(size_t index) const {
  TENON_TRY(ask());
  if (tensors_ != nullptr) {
    if (index >= tensors_->input_count) return TensorArgument();
    return with_context(from_descriptor(descriptor(*tensors_, tensors_->inputs, index)), "reading input", index);
  }
  const OrtValue* value = nullptr;
  TENON_ORT_TRY(host_, KernelContext_GetInput, context_, index, &value);
  return with_context(describe_tensor(host_, value), "reading input", index);
}

Result<TensorArgument> KernelCall::output(size_t index, const Shape& shape) const {
  TENON_TRY(ask());
  if (tensors_ == nullptr || index >= tensors_->output_count) return make_output(index, shape);
  const TensorDescriptor& known = descriptor(*tensors_, tensors_->outputs, index);
  const bool fits = known.element_type != ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED &&
                    std::ranges::equal(std::span<const int64_t>(known.dims, known.rank), shape.dims());
  // The host makes what the plan does not have, and says what is wrong with another shape.
  return fits ? with_context(from_descriptor(known), "making output", index) : make_output(index, shape);
}

Result<TensorArgument> KernelCall::make_output(size_t index, const Shape& shape) const {
  OrtValue* value = nullptr;
  TENON_ORT_TRY(host_, KernelContext_GetOutput, context_, index, shape.begin(), shape.rank(), &value);
  return with_context(describe_tensor(host_, value), "making output", index);
}

Result<void*> KernelCall::stream_handle() const {
  TENON_TRY(ask());
  if (tensors_ != nullptr) {
    if (tensors_->stream == nullptr) return static_cast<void*>(nullptr);
    SyncStream* own = SyncStream::from(tensors_->stream_impl);
    if (own == nullptr) return SyncStream::foreign(tensors_->stream_impl, "a kernel");
    return own->handle();
  }
  KernelStream stream;
  TENON_TRY(host_.take(KernelStream::get(host_.ort(), host_.version(), context_, &stream), "KernelStream::get"));
  TENON_TRY(SyncStream::check_own(host_, stream.sync_stream(), "a kernel"));
  return stream.native_handle();
}

NodeKernel::NodeKernel(const HostApi& host) : OrtKernelImpl{}, host_(host) {
  ort_version_supported = host.version();
  OrtKernelImpl::Compute = [](OrtKernelImpl* table, OrtKernelContext* context) noexcept -> OrtStatus* {
    auto& kernel = *static_cast<NodeKernel*>(table);
    return kernel.host_.guarded([&]() -> Status {
      TENON_INVALID_IF(context == nullptr, "Compute gets no kernel context.");
      return kernel.compute(context);
    });
  };
  OrtKernelImpl::Release = [](OrtKernelImpl* table) noexcept { delete static_cast<NodeKernel*>(table); };
}

OrtKernelImpl* NodeKernel::release_to_host(std::unique_ptr<NodeKernel> kernel) { return kernel.release(); }

namespace {

class CopyKernel final : public NodeKernel {
 public:
  CopyKernel(const HostApi& host, CopyFunction copy) : NodeKernel(host), copy_(std::move(copy)) {}

 private:
  Status compute(OrtKernelContext* context) override {
    const KernelCall call(host(), context);
    TENON_TRY_ASSIGN(const TensorArgument src, call.input(0));
    TENON_INVALID_IF(!src.present(), "A copy between host and device has no input.");
    TENON_TRY_ASSIGN(const TensorArgument dst, call.output(0, src.shape));
    TENON_INVALID_IF(dst.type != src.type, "A copy between host and device is to change {} to {}.",
                     data_type_name(src.type), data_type_name(dst.type));
    if (src.shape.element_count() == 0) return Status();
    TENON_TRY_ASSIGN(void* stream, call.stream_handle());
    return copy_(src, dst, stream);
  }

  const CopyFunction copy_;
};

}  // namespace

std::vector<KernelRow> copy_kernel_rows(const HostApi& host, CopyFunction copy) {
  std::vector<DataType> types;
  for (int32_t number = 1; number <= static_cast<int32_t>(DataType::kInt4); ++number) {
    const auto type = static_cast<DataType>(number);
    const OrtDataType* known = nullptr;
    // Hosts differ in which types they have.
    OrtStatus* status = host.ep().GetTensorDataType(ort_element_type(type), &known);
    if (status != nullptr) host.ort().ReleaseStatus(status);
    if (status == nullptr && known != nullptr && data_type_bits(type) != 0 && !holds_addresses(type))
      types.push_back(type);
  }
  const auto create = [host, copy = std::move(copy)](const OrtKernelInfo*) -> Result<std::unique_ptr<NodeKernel>> {
    return std::unique_ptr<NodeKernel>(std::make_unique<CopyKernel>(host, copy));
  };
  KernelRow from{.op_type = "MemcpyFromHost", .types = {{"T", types}}, .host_inputs = {0}, .create = create};
  KernelRow to{.op_type = "MemcpyToHost", .types = {{"T", types}}, .host_outputs = {0}, .create = create};
  return {std::move(from), std::move(to)};
}

Result<std::unique_ptr<KernelRegistry>> KernelRegistry::create(const HostApi& host, const std::string& ep_name,
                                                               std::vector<KernelRow> rows) {
  std::unique_ptr<KernelRegistry> registry(new KernelRegistry());
  registry->host_ = host;
  OrtKernelRegistry* created = nullptr;
  TENON_ORT_EP_TRY(host, CreateKernelRegistry, &created);
  registry->registry_ = host.own(created, host.ep().ReleaseKernelRegistry);
  for (KernelRow& row : rows) {
    const std::string op_type = row.op_type;
    TENON_TRY_CONTEXT(registry->add(ep_name, std::move(row)), "while registering the kernel of {}", op_type);
  }
  return registry;
}

Status KernelRegistry::add(const std::string& ep_name, KernelRow row) {
  OrtKernelDefBuilder* builder = nullptr;
  TENON_ORT_EP_TRY(host_, CreateKernelDefBuilder, &builder);
  const auto owned_builder = host_.own(builder, host_.ep().ReleaseKernelDefBuilder);
  TENON_ORT_EP_TRY(host_, KernelDefBuilder_SetOperatorType, builder, row.op_type.c_str());
  TENON_ORT_EP_TRY(host_, KernelDefBuilder_SetDomain, builder, row.domain.c_str());
  TENON_ORT_EP_TRY(host_, KernelDefBuilder_SetSinceVersion, builder, row.since, row.until);
  TENON_ORT_EP_TRY(host_, KernelDefBuilder_SetExecutionProvider, builder, ep_name.c_str());
  for (size_t input : row.host_inputs)
    TENON_ORT_EP_TRY(host_, KernelDefBuilder_SetInputMemType, builder, input, OrtMemTypeCPUInput);
  for (size_t output : row.host_outputs)
    TENON_ORT_EP_TRY(host_, KernelDefBuilder_SetOutputMemType, builder, output, OrtMemTypeCPUOutput);
  for (const auto& [parameter, allowed] : row.types) {
    std::vector<const OrtDataType*> types;
    for (DataType type : allowed) {
      const OrtDataType* ort_type = nullptr;
      TENON_ORT_EP_TRY(host_, GetTensorDataType, ort_element_type(type), &ort_type);
      types.push_back(ort_type);
    }
    TENON_ORT_EP_TRY(host_, KernelDefBuilder_AddTypeConstraint, builder, parameter.c_str(), types.data(), types.size());
  }
  OrtKernelDef* definition = nullptr;
  TENON_ORT_EP_TRY(host_, KernelDefBuilder_Build, builder, &definition);
  const auto owned_definition = host_.own(definition, host_.ep().ReleaseKernelDef);
  entries_.push_back(std::make_unique<Entry>(Entry{host_, std::move(row)}));
  const OrtKernelCreateFunc create = [](void* state, const OrtKernelInfo* info,
                                        OrtKernelImpl** out) noexcept -> OrtStatus* {
    const auto& entry = *static_cast<const Entry*>(state);
    return entry.host.guarded([&]() -> Status {
      TENON_INVALID_IF(out == nullptr, "The result pointer of a kernel's create function is null.");
      *out = nullptr;
      TENON_TRY_ASSIGN(auto kernel, entry.row.create(info));
      *out = NodeKernel::release_to_host(std::move(kernel));
      return Status();
    });
  };
  TENON_ORT_EP_TRY(host_, KernelRegistry_AddKernel, registry_.get(), definition, create, entries_.back().get());
  return Status();
}

}  // namespace tenon::plugin
