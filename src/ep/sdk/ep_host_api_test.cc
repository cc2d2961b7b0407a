// The SDK in a host that has EpHostApi, and in one that has not: the fences of a run, and the tensors of a call.
#include "ep/api/ep_host_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing.h"
#include "ep/sdk/plugin_fences.h"
#include "ep/sdk/plugin_kernel.h"

// The host's own type, as the test's host makes it.
struct OrtStatus {
  OrtErrorCode code;
  std::string message;
  uint32_t core = 0;
};

namespace tenon::plugin {
namespace {

using testing::HasSubstr;

int object;
const auto* const kOptions = reinterpret_cast<const OrtRunOptions*>(&object);

// The state of the fake host: its answers, and how often it was asked.
const char* waits_text = nullptr;
const char* signals_text = nullptr;
const RunFences* given = nullptr;
const KernelTensors* given_tensors = nullptr;
int asked_tensors = 0;
int asked_outputs = 0;
const char* refusal = nullptr;
EpHostApi table;
const EpHostApi* own_table = nullptr;

OrtApi host_table() {
  OrtApi api{};
  api.GetEpApi = []() noexcept -> const OrtEpApi* {
    static const OrtEpApi ep{};
    return &ep;
  };
  api.GetModelEditorApi = []() noexcept -> const OrtModelEditorApi* { return nullptr; };
  api.CreateStatus = [](OrtErrorCode code, const char* message) noexcept { return new OrtStatus{code, message}; };
  api.GetErrorCode = [](const OrtStatus* status) noexcept { return status->code; };
  api.GetErrorMessage = [](const OrtStatus* status) noexcept -> const char* { return status->message.c_str(); };
  api.ReleaseStatus = [](OrtStatus* status) noexcept { delete status; };
  api.GetRunConfigEntry = [](const OrtRunOptions*, const char* key) noexcept -> const char* {
    return key == std::string_view(kRunWaitsKey)     ? waits_text
           : key == std::string_view(kRunSignalsKey) ? signals_text
                                                     : "";
  };
  // The function of a stock host: here only a mark that it was called.
  api.KernelContext_GetOutput = [](OrtKernelContext*, size_t, const int64_t*, size_t, OrtValue** out) noexcept {
    ++asked_outputs;
    *out = nullptr;
    return static_cast<OrtStatus*>(nullptr);
  };
  api.GetExperimentalFunction = [](const char* name) noexcept -> OrtExperimentalFnPtr {
    const GetEpHostApiFn get = [](uint32_t version) noexcept {
      return version == kEpHostApiVersion ? own_table : nullptr;
    };
    return name == std::string_view(kGetEpHostApi) ? reinterpret_cast<OrtExperimentalFnPtr>(get) : nullptr;
  };
  return api;
}

class PluginFences : public testing::Test {
 protected:
  void SetUp() override {
    waits_text = signals_text = refusal = nullptr;
    given = nullptr;
    given_tensors = nullptr;
    asked_tensors = asked_outputs = 0;
    own_table = nullptr;
    table = {.size_bytes = sizeof(EpHostApi), .version = kEpHostApiVersion};
    table.CreateStatus = [](OrtErrorCode code, uint32_t core, const char* message) noexcept {
      return new OrtStatus{code, message, core};
    };
    table.GetStatusCode = [](const OrtStatus* status) noexcept { return status->core; };
    table.RunOptions_GetFences = [](const OrtRunOptions* options, size_t size_bytes,
                                    const RunFences** out) noexcept -> OrtStatus* {
      EXPECT_NE(options, nullptr);  // a host refuses null
      EXPECT_EQ(size_bytes, sizeof(RunFences));
      if (refusal != nullptr)
        return new OrtStatus{ORT_INVALID_ARGUMENT, refusal, static_cast<uint32_t>(StatusCode::kInvalidArgument)};
      *out = given;
      return nullptr;
    };
    table.KernelContext_GetTensors = [](const OrtKernelContext*, size_t size_bytes,
                                        const KernelTensors** out) noexcept -> OrtStatus* {
      EXPECT_EQ(size_bytes, sizeof(KernelTensors));
      ++asked_tensors;
      *out = given_tensors;
      return nullptr;
    };
  }
  static HostApi host() {
    static const OrtApi api = host_table();
    static const OrtApiBase base = {.GetApi = [](uint32_t) noexcept -> const OrtApi* { return &api; },
                                    .GetVersionString = []() noexcept -> const char* { return "1.32.0"; }};
    return HostApi::connect(&base).value();
  }
};

constexpr StatusCode kAllCodes[] = {
    StatusCode::kInvalidArgument,   StatusCode::kUnsupported, StatusCode::kNotFound,   StatusCode::kOutOfRange,
    StatusCode::kResourceExhausted, StatusCode::kDeviceError, StatusCode::kDeviceLost, StatusCode::kCancelled,
    StatusCode::kInternal,          StatusCode::kTimeout};

// ONNX Runtime has one code for several of ours. A run out of time is no defect of the plugin in Tenon's host.
TEST_F(PluginFences, EveryCodeOfOursPassesThroughTenonsHost) {
  own_table = &table;
  for (const StatusCode code : kAllCodes) {
    OrtStatus* status = host().to_ort(Status(code, "why"));
    EXPECT_EQ(status->code, ort_code(code));
    EXPECT_THAT(host().take(status, "F"), has_status(code, HasSubstr("why")));
  }
  EXPECT_EQ(host().take(host().guarded([]() -> Status { throw std::bad_alloc(); }), "F").code(),
            StatusCode::kResourceExhausted);
  // A number of a newer host.
  EXPECT_EQ(host().take(new OrtStatus{ORT_FAIL, "new", 99}, "F").code(), StatusCode::kDeviceError);
}

TEST_F(PluginFences, AStockHostGetsCodesOfItsOwn) {
  for (const StatusCode code : kAllCodes) {
    OrtStatus* status = host().to_ort(Status(code, "why"));
    EXPECT_EQ(status->core, 0u);
    EXPECT_NE(status->code, ORT_OK);
    EXPECT_NE(status->code, ORT_EP_FAIL);
    EXPECT_FALSE(host().take(status, "F").ok());
  }
}

OrtExternalSemaphoreHandle* handle(uintptr_t number) { return reinterpret_cast<OrtExternalSemaphoreHandle*>(number); }

TEST_F(PluginFences, AStockHostPassesTheProgramsText) {
  waits_text = "0x10:3, 32:4";
  signals_text = "0x10:5";
  const auto fences = FencesOfRun::read(host(), kOptions);
  ASSERT_THAT(fences, is_ok());
  ASSERT_EQ(fences->waits.size(), 2u);
  EXPECT_EQ(fences->waits[1].semaphore, handle(32));
  EXPECT_EQ(fences->waits[1].value, 4u);
  ASSERT_EQ(fences->signals.size(), 1u);
  EXPECT_EQ(fences->signals[0].value, 5u);
  EXPECT_EQ(fences->calls, 0u);
  signals_text = "garbage";
  EXPECT_THAT(FencesOfRun::read(host(), kOptions), has_status(StatusCode::kInvalidArgument, HasSubstr(kRunSignalsKey)));
}

TEST_F(PluginFences, WithoutOptionsOrEntriesThereAreNone) {
  EXPECT_TRUE(FencesOfRun::read(host(), nullptr).value().empty());
  EXPECT_TRUE(FencesOfRun::read(host(), kOptions).value().empty());
  own_table = &table;
  EXPECT_TRUE(FencesOfRun::read(host(), nullptr).value().empty());
  EXPECT_TRUE(FencesOfRun::read(host(), kOptions).value().empty());
}

// The program's text names handles of the host's, which mean nothing to the EP.
TEST_F(PluginFences, TenonsHostPassesHandlesAndNoText) {
  own_table = &table;
  waits_text = signals_text = "0x10:3";
  EXPECT_TRUE(FencesOfRun::read(host(), kOptions).value().empty());
  const RunFence waits[] = {{handle(64), 7}}, signals[] = {{handle(64), 8}, {handle(96), 1}};
  const RunFences fences{.size_bytes = sizeof(RunFences),
                         .calls = 1,
                         .waits = waits,
                         .signals = signals,
                         .wait_count = 1,
                         .signal_count = 2};
  given = &fences;
  const auto read = FencesOfRun::read(host(), kOptions);
  ASSERT_THAT(read, is_ok());
  EXPECT_EQ(read->waits.data(), waits);
  EXPECT_EQ(read->waits.size(), 1u);
  EXPECT_EQ(read->signals.data(), signals);
  EXPECT_EQ(read->signals.size(), 2u);
  EXPECT_EQ(read->calls, 1u);
}

TEST_F(PluginFences, MoreThanAnEpTakesIsRefusedWithBothNumbers) {
  own_table = &table;
  const std::vector<RunFence> many(kMostRunFences + 1, RunFence{handle(64), 1});
  const RunFences fences{.size_bytes = sizeof(RunFences),
                         .calls = 1,
                         .waits = many.data(),
                         .signals = many.data(),
                         .wait_count = 1,
                         .signal_count = many.size()};
  given = &fences;
  EXPECT_THAT(FencesOfRun::read(host(), kOptions),
              has_status(StatusCode::kInvalidArgument, HasSubstr("1 waits and 65 signals")));
}

TEST_F(PluginFences, TheHostsRefusalIsPassedOn) {
  own_table = &table;
  refusal = "no";
  EXPECT_THAT(FencesOfRun::read(host(), kOptions),
              has_status(StatusCode::kInvalidArgument, HasSubstr("no - from the host's RunOptions_GetFences")));
}

// Of an older Tenon, whose functions end before those that are called here.
TEST_F(PluginFences, ATableThatIsTooShortIsNotCalled) {
  table.size_bytes = sizeof(EpHostApi) - 1;
  own_table = &table;
  EXPECT_EQ(host().tenon(), nullptr);
  table.size_bytes = sizeof(EpHostApi);
  EXPECT_EQ(host().tenon(), &table);
}

// Descriptors of a newer host: each is longer than the one that this plugin was built with.
struct LongerDescriptor {
  TensorDescriptor known;
  uint64_t added;
};

class PluginTensors : public PluginFences {
 protected:
  void SetUp() override {
    PluginFences::SetUp();
    own_table = &table;
    inputs_[0].known = describe(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, x_, 24);
    inputs_[2].known = describe(ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, x_, 48);
    outputs_[0].known = describe(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, y_, 24);
    outputs_[0].known.device_type = OrtMemoryInfoDeviceType_GPU;
    outputs_[0].known.memory_type = OrtDeviceMemoryType_HOST_ACCESSIBLE;
    outputs_[0].known.vendor_id = 7;
    outputs_[0].known.device_id = 2;
    tensors_ = {.size_bytes = sizeof(KernelTensors) + 8,
                .descriptor_bytes = sizeof(LongerDescriptor),
                .inputs = &inputs_[0].known,
                .outputs = &outputs_[0].known,
                .input_count = 3,
                .output_count = 2};
    given_tensors = &tensors_;
  }
  TensorDescriptor describe(ONNXTensorElementDataType type, void* data, size_t bytes) const {
    TensorDescriptor tensor{};
    tensor.element_type = type;
    tensor.data = data;
    tensor.dims = dims_;
    tensor.rank = 2;
    tensor.byte_size = bytes;
    return tensor;
  }

  const int64_t dims_[2] = {2, 3};
  int64_t x_[6] = {};
  float y_[6] = {};
  LongerDescriptor inputs_[3] = {};   // the second is absent
  LongerDescriptor outputs_[2] = {};  // the second has the size that the kernel gives it
  KernelTensors tensors_ = {};
  OrtKernelContext* const context_ = reinterpret_cast<OrtKernelContext*>(&object);
};

TEST_F(PluginTensors, OneQuestionDescribesAllTensorsOfACall) {
  const HostApi tenon = host();
  const KernelCall call(tenon, context_);
  EXPECT_EQ(call.input_count().value(), 3u);
  EXPECT_EQ(call.output_count().value(), 2u);
  const auto first = call.input(0), absent = call.input(1), third = call.input(2), beyond = call.input(3);
  ASSERT_THAT(first, is_ok());
  EXPECT_EQ(first->type, DataType::kFloat);
  EXPECT_EQ(first->shape, (Shape{2, 3}));
  EXPECT_EQ(first->data, x_);
  EXPECT_EQ(first->space, MemorySpace());
  EXPECT_FALSE(absent.value().present());
  EXPECT_EQ(third.value().type, DataType::kInt64);
  EXPECT_FALSE(beyond.value().present());
  const auto output = call.output(0, Shape{2, 3});
  ASSERT_THAT(output, is_ok());
  EXPECT_EQ(output->data, y_);
  EXPECT_EQ(output->space.device_type, DeviceType::kGpu);
  EXPECT_EQ(output->space.kind, MemoryKind::kHostAccessible);
  EXPECT_EQ(output->space.vendor_id, 7u);
  EXPECT_EQ(output->space.device_id, 2);
  EXPECT_EQ(call.stream_handle().value(), nullptr) << "a synchronous call";
  EXPECT_EQ(asked_tensors, 1);
  EXPECT_EQ(asked_outputs, 0);
}

// The host makes those that the plan does not have, and refuses another shape itself.
TEST_F(PluginTensors, OtherOutputsAreTheHostsToMake) {
  const HostApi tenon = host();
  const KernelCall call(tenon, context_);
  ASSERT_THAT(call.output(1, Shape{4}), is_ok());
  ASSERT_THAT(call.output(0, Shape{3, 2}), is_ok());
  ASSERT_THAT(call.output(0, Shape{2, 3, 1}), is_ok());
  ASSERT_THAT(call.output(2, Shape{1}), is_ok());
  EXPECT_EQ(asked_outputs, 4);
}

TEST_F(PluginTensors, AHostThatDescribesTooLittleIsRefused) {
  const HostApi tenon = host();
  const auto refused = [&](const char* text) {
    EXPECT_THAT(KernelCall(tenon, context_).input(0), has_status(StatusCode::kInvalidArgument, HasSubstr(text)));
  };
  tensors_.descriptor_bytes = sizeof(TensorDescriptor) - 8;
  refused("and 48 bytes");
  tensors_.descriptor_bytes = sizeof(TensorDescriptor);
  tensors_.size_bytes = 12;
  refused("in 12 and");
  given_tensors = nullptr;
  refused("in 0 and 0 bytes");
}

TEST_F(PluginTensors, TypesAndMemoryThatTheEpCannotTakeAreNamed) {
  const HostApi tenon = host();
  inputs_[0].known.element_type = ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
  EXPECT_THAT(KernelCall(tenon, context_).input(0), has_status(StatusCode::kUnsupported, HasSubstr("string")));
  inputs_[0].known = describe(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, nullptr, 24);
  EXPECT_THAT(KernelCall(tenon, context_).input(0),
              has_status(StatusCode::kResourceExhausted, HasSubstr("24 bytes. - while reading input 0")));
}

TEST_F(PluginTensors, AStreamOfAnotherLibraryIsRefused) {
  const HostApi tenon = host();
  OrtSyncStreamImpl other{};
  tensors_.stream = reinterpret_cast<OrtSyncStream*>(&object);
  tensors_.stream_impl = &other;
  EXPECT_THAT(KernelCall(tenon, context_).stream_handle(),
              has_status(StatusCode::kInvalidArgument, HasSubstr("a kernel of")));
  tensors_.stream_impl = nullptr;
  EXPECT_THAT(KernelCall(tenon, context_).stream_handle(),
              has_status(StatusCode::kInvalidArgument, HasSubstr("no implementation of an EP library")));
}

}  // namespace
}  // namespace tenon::plugin
