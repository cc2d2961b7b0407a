#include "ep/host/ep_host_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "abi/objects/run_options.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "abi/objects/sync_stream.h"
#include "ep/host/kernel_context.h"

namespace tenon::abi {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const EpHostApi& api() { return *ep_host_api(kEpHostApiVersion); }

std::string message_of(OrtStatus* status) {
  if (status == nullptr) return "ok";
  std::string text = status->message;
  release_status(status);
  return text;
}

TEST(EpHostApi, OnlyVersionZeroIsUnknown) {
  EXPECT_EQ(ep_host_api(0), nullptr);
  EXPECT_EQ(ep_host_api(kEpHostApiVersion), ep_host_api(kEpHostApiVersion + 1));
  EXPECT_EQ(api().size_bytes, sizeof(EpHostApi));
}

TEST(EpHostApi, FencesAreTheRunsOwn) {
  OrtRunOptions options;
  const RunFences* fences = reinterpret_cast<const RunFences*>(&options);
  ASSERT_EQ(api().RunOptions_GetFences(&options, sizeof(RunFences), &fences), nullptr);
  EXPECT_EQ(fences, nullptr);
  EXPECT_TRUE(options.fences_asked);
  const RunFences given{.size_bytes = sizeof(RunFences)};
  options.fences = &given;
  ASSERT_EQ(api().RunOptions_GetFences(&options, sizeof(RunFences), &fences), nullptr);
  EXPECT_EQ(fences, &given);
  const OrtRunOptions copy(options);
  ASSERT_EQ(api().RunOptions_GetFences(&copy, sizeof(RunFences), &fences), nullptr);
  EXPECT_EQ(fences, nullptr) << "fences are of one run";
}

TEST(EpHostApi, AFalseSizeIsRefusedWithBothSizes) {
  OrtRunOptions options;
  const RunFences given{.size_bytes = sizeof(RunFences)};
  options.fences = &given;
  for (const size_t size : {size_t{0}, sizeof(RunFences) - 1, sizeof(RunFences) + 1, SIZE_MAX}) {
    const RunFences* fences = &given;
    EXPECT_THAT(message_of(api().RunOptions_GetFences(&options, size, &fences)),
                AllOf(HasSubstr(std::to_string(size)), HasSubstr("this host knows 40 to 40")));
    EXPECT_EQ(fences, nullptr);
  }
  EXPECT_FALSE(options.fences_asked);
}

TEST(EpHostApi, TensorsOfACallAreDescribedOnlyInIt) {
  auto frame = std::make_shared<KernelFrame>();
  frame->inputs = {{DataType::kFloat, Shape{2, 3}}, {}};
  frame->outputs = {{DataType::kFloat, Shape{2, 3}}, {DataType::kFloat, Shape{}, Layout::kPlain, true}};
  OrtMemoryInfo device;
  device.device = {OrtMemoryInfoDeviceType_GPU, OrtDeviceMemoryType_HOST_ACCESSIBLE, 7, 2, 64};
  frame->output_memory = {device, device};
  OrtKernelContext context(nullptr, frame);
  const KernelTensors* tensors = nullptr;
  const auto ask = [&](size_t size) { return message_of(api().KernelContext_GetTensors(&context, size, &tensors)); };
  EXPECT_THAT(ask(sizeof(KernelTensors)), HasSubstr("outside"));
  struct Run final : KernelContext {
    Result<void*> allocate_output(size_t, const Shape&) override { return static_cast<void*>(nullptr); }
  } run;
  alignas(64) float memory[24] = {};
  const void* in[] = {memory, nullptr};
  void* out[] = {memory + 9, nullptr};
  run.inputs = in;
  run.outputs = out;
  OrtSyncStream stream;
  stream.impl = reinterpret_cast<OrtSyncStreamImpl*>(&memory);
  ASSERT_TRUE(context.begin(run, &stream).ok());
  ASSERT_EQ(ask(sizeof(KernelTensors)), "ok");
  EXPECT_EQ(tensors->size_bytes, sizeof(KernelTensors));
  EXPECT_EQ(tensors->descriptor_bytes, sizeof(TensorDescriptor));
  ASSERT_EQ(tensors->input_count, 2u);
  ASSERT_EQ(tensors->output_count, 2u);
  EXPECT_EQ(tensors->stream, &stream);
  EXPECT_EQ(tensors->stream_impl, stream.impl);
  const TensorDescriptor& x = tensors->inputs[0];
  EXPECT_EQ(x.element_type, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
  EXPECT_EQ(x.data, memory);
  EXPECT_GE(x.alignment, 64u);
  EXPECT_EQ(std::vector<int64_t>(x.dims, x.dims + x.rank), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(x.byte_size, 24u);
  EXPECT_EQ(x.device_type, OrtMemoryInfoDeviceType_CPU);
  EXPECT_EQ(tensors->inputs[1].element_type, ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED);
  const TensorDescriptor& y = tensors->outputs[0];
  EXPECT_EQ(y.data, memory + 9);
  EXPECT_EQ(y.alignment, 4u);
  EXPECT_EQ(y.device_type, OrtMemoryInfoDeviceType_GPU);
  EXPECT_EQ(y.memory_type, OrtDeviceMemoryType_HOST_ACCESSIBLE);
  EXPECT_EQ(y.vendor_id, 7u);
  EXPECT_EQ(y.device_id, 2u);
  EXPECT_EQ(tensors->outputs[1].element_type, ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED) << "only the kernel knows it";
  for (const size_t size : {size_t{0}, sizeof(KernelTensors) - 1, sizeof(KernelTensors) + 1})
    EXPECT_THAT(ask(size), AllOf(HasSubstr(std::to_string(size)), HasSubstr("this host knows 56 to 56")));
  (void)context.end();
  EXPECT_THAT(ask(sizeof(KernelTensors)), HasSubstr("outside"));
}

TEST(EpHostApi, AStatusKeepsTenonsCodeBesideTheAbis) {
  for (uint32_t core = 1; core <= static_cast<uint32_t>(StatusCode::kTimeout); ++core) {
    OrtStatus* status = api().CreateStatus(ORT_FAIL, core, "why");
    EXPECT_EQ(ort_api::GetErrorCode(status), ORT_FAIL);
    EXPECT_EQ(api().GetStatusCode(status), core);
    const Status taken = from_ort(status);
    EXPECT_EQ(static_cast<uint32_t>(taken.code()), core);
    EXPECT_EQ(taken.message(), "why");
  }
  EXPECT_EQ(api().CreateStatus(ORT_OK, 0, "fine"), nullptr);
  EXPECT_EQ(api().GetStatusCode(nullptr), 0u);
  // An EP's number that this host does not know, and no text: the ABI's code counts.
  OrtStatus* newer = api().CreateStatus(ORT_NOT_IMPLEMENTED, 99, nullptr);
  EXPECT_EQ(api().GetStatusCode(newer), static_cast<uint32_t>(StatusCode::kUnsupported));
  release_status(newer);
}

TEST(EpHostApi, NullsAreNamed) {
  const KernelTensors* tensors = nullptr;
  EXPECT_THAT(message_of(api().KernelContext_GetTensors(nullptr, sizeof(KernelTensors), &tensors)),
              HasSubstr("context"));
  const RunFences* fences = nullptr;
  EXPECT_THAT(message_of(api().RunOptions_GetFences(nullptr, sizeof(RunFences), &fences)), HasSubstr("options"));
  const OrtRunOptions options;
  EXPECT_THAT(message_of(api().RunOptions_GetFences(&options, sizeof(RunFences), nullptr)), HasSubstr("out"));
}

}  // namespace
}  // namespace tenon::abi
