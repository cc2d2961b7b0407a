// OrtApi's KernelContext_* functions. A run calls them for each kernel: they look up and allocate nothing but what they
// are asked for.
#include <algorithm>

#include "abi/objects/allocator.h"
#include "abi/objects/slots.h"
#include "abi/objects/sync_stream.h"
#include "abi/objects/view_arguments.h"
#include "ep/api/abi_since.h"
#include "ep/host/kernel_context.h"

namespace tenon::abi {

namespace {

OrtStatus* not_running() noexcept {
  return ort_error(ORT_INVALID_ARGUMENT, "The kernel context is used outside of the kernel's computation.");
}

OrtStatus* find_allocator(const OrtKernelContext& context, const OrtMemoryInfo& memory, OrtAllocator** found) noexcept {
  *found = context.host->allocator(memory);
  return *found != nullptr ? nullptr : ort_error(ORT_INVALID_ARGUMENT, "No requested allocator available");
}

}  // namespace

OrtStatus* ort_api::KernelContext_GetInputCount(const OrtKernelContext* context, size_t* out) noexcept {
  return get_from("context", context, "out", out, [](const OrtKernelContext& c) { return c.inputs.size(); });
}

OrtStatus* ort_api::KernelContext_GetOutputCount(const OrtKernelContext* context, size_t* out) noexcept {
  return get_from("context", context, "out", out, [](const OrtKernelContext& c) { return c.outputs.size(); });
}

// An index past the end gives null and success, like an absent optional input, as in the reference.
OrtStatus* ort_api::KernelContext_GetInput(const OrtKernelContext* context, size_t index,
                                           const OrtValue** out) noexcept {
  return get_from("context", context, "out", out,
                  [&](const OrtKernelContext& c) { return index < c.inputs.size() ? c.inputs[index].shown : nullptr; });
}

OrtStatus* ort_api::KernelContext_GetOutput(OrtKernelContext* context, size_t index, const int64_t* dim_values,
                                            size_t dim_count, OrtValue** out) noexcept {
  clear(out);
  if (context == nullptr) return null_argument("context");
  if (out == nullptr) return null_argument("out");
  if (context->run == nullptr) return not_running();
  if (index >= context->outputs.size()) return nullptr;
  OrtKernelContext::Slot& slot = context->outputs[index];
  if (slot.shown != nullptr && dim_values != nullptr) {  // the common case: an output whose shape the plan has
    const auto known = slot.value.tensor.shape().dims();
    if (std::equal(known.begin(), known.end(), dim_values, dim_values + dim_count)) {
      *out = &slot.value;
      return nullptr;
    }
  }
  return guarded([&]() -> OrtStatus* {
    const Result<Shape> shape = to_shape(dim_values, dim_count);
    if (!shape.ok()) return to_ort(shape.status());
    const Result<OrtValue*> value = context->output(index, *shape);
    if (!value.ok()) return to_ort(value.status());
    *out = *value;
    return nullptr;
  });
}

// Null for an output whose size only the kernel knows.
OrtStatus* ort_api::KernelContext_GetPreallocatedOutput(const OrtKernelContext* context, size_t output_index,
                                                        OrtValue** output) noexcept {
  clear(output);
  if (context == nullptr) return null_argument("context");
  if (output == nullptr) return null_argument("output");
  if (output_index >= context->outputs.size()) return ort_error(ORT_INVALID_ARGUMENT, "output_index is out of range");
  *output = const_cast<OrtValue*>(context->outputs[output_index].shown);
  return nullptr;
}

// S5.1: null and success in a synchronous run on the CPU device.
OrtStatus* ort_api::KernelContext_GetSyncStream(const OrtKernelContext* context, OrtSyncStream** out) noexcept {
  return get_from("context", context, "out", out, [](const OrtKernelContext& c) { return c.stream; });
}

OrtStatus* ort_api::KernelContext_GetGPUComputeStream(const OrtKernelContext* context, void** out) noexcept {
  return get_from("context", context, "out", out, [](const OrtKernelContext& c) -> void* {
    return c.stream != nullptr && c.stream->stream != nullptr ? c.stream->stream->native_handle() : nullptr;
  });
}

OrtStatus* ort_api::KernelContext_GetLogger(const OrtKernelContext* context, const OrtLogger** logger) noexcept {
  return get_from("context", context, "logger", logger, [](const OrtKernelContext& c) { return c.host->logger(); });
}

OrtStatus* ort_api::KernelContext_GetResource(const OrtKernelContext* context, int, int, void** resource) noexcept {
  clear(resource);
  if (context == nullptr) return null_argument("context");
  if (resource == nullptr) return null_argument("resource");
  return ort_error(ORT_INVALID_ARGUMENT, "Failed to fetch a stream hosting the requested resource");
}

OrtStatus* ort_api::KernelContext_GetAllocator(const OrtKernelContext* context, const OrtMemoryInfo* mem_info,
                                               OrtAllocator** out) noexcept {
  clear(out);
  if (context == nullptr) return null_argument("context");
  if (mem_info == nullptr) return null_argument("mem_info");
  if (out == nullptr) return null_argument("out");
  return guarded([&]() -> OrtStatus* {
    OrtAllocator* found = nullptr;
    if (OrtStatus* bad = find_allocator(*context, *mem_info, &found)) return bad;
    *out = borrow_allocator(found, context->host);
    return nullptr;
  });
}

// The memory is the caller's, who frees it with the same allocator. It is tagged with the kernel's stream where the
// allocator can do that (S5.2).
OrtStatus* ort_api::KernelContext_GetScratchBuffer(const OrtKernelContext* context, const OrtMemoryInfo* mem_info,
                                                   size_t count_or_bytes, void** out) noexcept {
  clear(out);
  if (context == nullptr) return null_argument("context");
  if (mem_info == nullptr) return null_argument("mem_info");
  if (out == nullptr) return null_argument("out");
  if (count_or_bytes == 0) return nullptr;
  return guarded([&]() -> OrtStatus* {
    OrtAllocator* found = nullptr;
    if (OrtStatus* bad = find_allocator(*context, *mem_info, &found)) return bad;
    if (context->stream != nullptr && found->version >= abi_since::kOrtAllocator_AllocOnStream &&
        found->AllocOnStream != nullptr) {
      *out = found->AllocOnStream(found, count_or_bytes, context->stream);
    } else if (Result<void*> made = allocate(found, count_or_bytes); made.ok()) {
      *out = *made;
    } else {
      return to_ort(made.status());
    }
    if (*out != nullptr) return nullptr;
    return ort_error(ORT_RUNTIME_EXCEPTION, "The allocator of \"{}\" has no {} bytes.", mem_info->name, count_or_bytes);
  });
}

OrtStatus* ort_api::KernelContext_ParallelFor(const OrtKernelContext* context, void (*fn)(void*, size_t), size_t total,
                                              size_t num_batch, void* usr_data) noexcept {
  if (context == nullptr) return null_argument("context");
  if (fn == nullptr) return null_argument("fn");
  if (context->run == nullptr) return not_running();
  if (total > INT64_MAX) return ort_error(ORT_INVALID_ARGUMENT, "'total' ({}) is too large.", total);
  const size_t batches = std::clamp<size_t>(num_batch, 1, std::max<size_t>(total, 1));
  const auto grain = static_cast<int64_t>(num_batch == 0 ? 1 : (total + batches - 1) / batches);
  context->run->pool->parallel_for(static_cast<int64_t>(total), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) fn(usr_data, i);
  });
  return nullptr;
}

}  // namespace tenon::abi
