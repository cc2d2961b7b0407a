#include "ep/host/kernel_context.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "abi/objects/sync_stream.h"
#include "abi/objects/value_tensor.h"
#include "ep/api/device_provider.h"
#include "ep/api/run_objects.h"

using tenon::Result;
using tenon::Shape;
using tenon::Status;
using tenon::Tensor;
using tenon::TensorSpec;
using tenon::abi::KernelFrame;
using tenon::abi::KernelHost;

namespace {

// A value for a tensor of the plan whose memory is not known yet.
OrtKernelContext::Slot make_slot(const TensorSpec& spec, const std::vector<OrtMemoryInfo>& memory, size_t index) {
  OrtKernelContext::Slot slot;
  if (!spec.present()) return slot;
  slot.value.kind = ONNX_TYPE_TENSOR;
  slot.value.element_type = tenon::abi::to_element_type(spec.type);
  slot.value.shape = spec.shape;
  if (index < memory.size()) slot.value.memory = memory[index];
  return slot;
}

// Points a value at memory. In a steady run that is the memory of the run before.
Status point_at(OrtValue& value, const TensorSpec& spec, const Shape& shape, void* data) {
  if (value.tensor.defined() && value.tensor.data() == data && value.tensor.shape() == shape) return Status();
  TENON_TRY_ASSIGN(const size_t size_bytes, tenon::tensor_size_bytes(spec.type, shape));
  tenon::MemorySpace space = tenon::abi::to_memory_space(value.memory);
  space.alignment = 0;  // the plan has seen to it; a view need not check again
  TENON_TRY_ASSIGN(value.tensor, Tensor::view(spec.type, shape, data, size_bytes, nullptr, space));
  value.shape = shape;
  return Status();
}

// Strings and objects are values of their own: of the program's form for kernels, and back after them.
Status read_addresses(OrtValue& value, const TensorSpec& spec, const void* data) {
  TENON_TRY_ASSIGN(const size_t bytes, tenon::tensor_size_bytes(spec.type, spec.shape));
  TENON_TRY_ASSIGN(const Tensor tensor, Tensor::view(spec.type, spec.shape, const_cast<void*>(data), bytes));
  value = tenon::abi::make_value(tensor);
  return Status();
}

Status write_addresses(const OrtValue& value, const TensorSpec& spec, void* data, tenon::RunObjects& objects) {
  TENON_TRY_ASSIGN(const Tensor made, tenon::abi::to_tensor(value, spec.type == tenon::DataType::kObject));
  TENON_TRY_ASSIGN(const Tensor kept, tenon::deep_copy(made));
  if (kept.size_bytes() > 0) std::memcpy(data, kept.data(), kept.size_bytes());
  objects.keep(kept.owner());
  return Status();
}

// A value for strings that a kernel writes.
void make_empty_strings(OrtValue& value, const Shape& shape) {
  value.kind = ONNX_TYPE_TENSOR;
  value.element_type = ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
  value.shape = shape;
  value.strings = std::make_shared<std::vector<std::string>>(shape.element_count());
}

// "Output 0 (\"y\" of Relu \"relu_1\")"
std::string output_text(const KernelFrame& frame, size_t index) {
  std::string text = tenon::format("Output {}", index);
  if (index < frame.output_labels.size()) text += tenon::format(" ({})", frame.output_labels[index]);
  return text;
}

tenon::TensorDescriptor describe(const TensorSpec& spec, const OrtKernelContext::Slot& slot) {
  tenon::TensorDescriptor tensor = {};
  if (!spec.present() || spec.dynamic) return tensor;
  const OrtMemoryDevice& device = slot.value.memory.device;
  // Strings and objects have no bytes that an EP could read.
  const bool numbers = !tenon::holds_addresses(spec.type);
  const Result<size_t> bytes = numbers ? tenon::tensor_size_bytes(spec.type, spec.shape) : Result<size_t>(0);
  tensor.element_type = slot.value.element_type;
  tensor.device_type = device.type;
  tensor.dims = spec.shape.begin();
  tensor.rank = spec.shape.dims().size();
  tensor.byte_size = bytes.ok() ? *bytes : 0;
  tensor.memory_type = device.memory_type;
  tensor.vendor_id = device.vendor_id;
  tensor.device_id = static_cast<uint32_t>(device.device_id);
  return tensor;
}

void point_at(tenon::TensorDescriptor& tensor, void* data) {
  constexpr int kMostBits = 12;
  if (tensor.data == data) return;
  tensor.data = data;
  tensor.alignment = 1u << std::min(std::countr_zero(reinterpret_cast<uintptr_t>(data)), kMostBits);
}

}  // namespace

OrtKernelContext::OrtKernelContext(std::shared_ptr<const KernelHost> kernel_host,
                                   std::shared_ptr<const KernelFrame> kernel_frame)
    : host(std::move(kernel_host)), frame(std::move(kernel_frame)) {
  inputs.reserve(frame->inputs.size());
  outputs.reserve(frame->outputs.size());
  for (size_t i = 0; i < frame->inputs.size(); ++i)
    inputs.push_back(make_slot(frame->inputs[i], frame->input_memory, i));
  for (size_t i = 0; i < frame->outputs.size(); ++i)
    outputs.push_back(make_slot(frame->outputs[i], frame->output_memory, i));
  for (size_t i = 0; i < inputs.size(); ++i) input_tensors.push_back(describe(frame->inputs[i], inputs[i]));
  for (size_t i = 0; i < outputs.size(); ++i) output_tensors.push_back(describe(frame->outputs[i], outputs[i]));
  tensors = {.size_bytes = sizeof(tenon::KernelTensors),
             .descriptor_bytes = sizeof(tenon::TensorDescriptor),
             .inputs = input_tensors.data(),
             .outputs = output_tensors.data(),
             .input_count = inputs.size(),
             .output_count = outputs.size()};
}

Status OrtKernelContext::begin(tenon::KernelContext& kernel_run, OrtSyncStream* kernel_stream) {
  run = &kernel_run;
  stream = kernel_stream;
  tensors.stream = kernel_stream;
  tensors.stream_impl = kernel_stream != nullptr ? kernel_stream->impl : nullptr;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Slot& slot = inputs[i];
    const TensorSpec& spec = frame->inputs[i];
    slot.shown = nullptr;
    if (!spec.present()) continue;
    if (i < frame->constants.size() && frame->constants[i] != nullptr) {
      slot.shown = frame->constants[i].get();
      continue;
    }
    if (tenon::holds_addresses(spec.type)) {
      TENON_TRY_CONTEXT(read_addresses(slot.value, spec, kernel_run.inputs[i]), "while passing input {} to a kernel",
                        i);
      slot.shown = &slot.value;
      continue;
    }
    TENON_TRY_CONTEXT(point_at(slot.value, spec, spec.shape, const_cast<void*>(kernel_run.inputs[i])),
                      "while passing input {} to a kernel", i);
    point_at(input_tensors[i], slot.value.tensor.data());
    slot.shown = &slot.value;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    Slot& slot = outputs[i];
    const TensorSpec& spec = frame->outputs[i];
    slot.shown = nullptr;
    slot.made = false;
    if (!spec.present() || spec.dynamic) continue;
    if (tenon::holds_addresses(spec.type)) {
      slot.value = OrtValue();
      slot.data = kernel_run.outputs[i];
      if (spec.type == tenon::DataType::kString) make_empty_strings(slot.value, spec.shape);
      slot.shown = &slot.value;
      continue;
    }
    TENON_TRY_CONTEXT(point_at(slot.value, spec, spec.shape, kernel_run.outputs[i]),
                      "while passing output {} to a kernel", i);
    point_at(output_tensors[i], slot.value.tensor.data());
    slot.shown = &slot.value;
  }
  return Status();
}

Status OrtKernelContext::end() {
  tenon::KernelContext* const ended = std::exchange(run, nullptr);
  stream = nullptr;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const TensorSpec& spec = frame->outputs[i];
    if (spec.present() && tenon::holds_addresses(spec.type) && (!spec.dynamic || outputs[i].made)) {
      if (ended->run == nullptr || ended->run->objects == nullptr)
        return tenon::internal_error("{} is of strings or an object, outside of a run.", output_text(*frame, i));
      TENON_TRY_CONTEXT(write_addresses(outputs[i].value, spec, outputs[i].data, *ended->run->objects),
                        "while taking output {} from a kernel", i);
    }
    if (frame->outputs[i].present() && frame->outputs[i].dynamic && !outputs[i].made)
      return tenon::device_error("{} has a size that only the kernel knows, and the kernel did not give it.",
                                 output_text(*frame, i));
  }
  return Status();
}

Result<OrtValue*> OrtKernelContext::output(size_t index, const Shape& shape) {
  if (index >= outputs.size() || !frame->outputs[index].present()) return static_cast<OrtValue*>(nullptr);
  const TensorSpec& spec = frame->outputs[index];
  Slot& slot = outputs[index];
  if (!spec.dynamic || slot.made) {
    const Shape& known = slot.value.shape;
    TENON_INVALID_IF(!(known == shape), "{} has the shape {} in the model, and the kernel asks for {}.",
                     output_text(*frame, index), known.to_string(), shape.to_string());
    return &slot.value;
  }
  TENON_TRY_ASSIGN(void* const data, run->allocate_output(index, shape));
  slot.data = data;
  if (spec.type == tenon::DataType::kString) {
    make_empty_strings(slot.value, shape);
  } else {
    TENON_TRY(point_at(slot.value, spec, shape, data));
  }
  slot.shown = &slot.value;
  slot.made = true;
  return &slot.value;
}

namespace tenon::abi {

std::unique_ptr<OrtKernelContext> KernelContextPool::take() {
  {
    auto idle = idle_.lock();
    if (!idle->empty()) {
      std::unique_ptr<OrtKernelContext> context = std::move(idle->back());
      idle->pop_back();
      return context;
    }
  }
  return std::make_unique<OrtKernelContext>(host_, frame_);
}

void KernelContextPool::give_back(std::unique_ptr<OrtKernelContext> context) {
  idle_.lock()->push_back(std::move(context));
}

}  // namespace tenon::abi
