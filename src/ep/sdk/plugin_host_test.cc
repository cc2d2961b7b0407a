// The SDK against a host of the test's own: versions, codes, exceptions, and the streams of old hosts.
#include "ep/sdk/plugin_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "ep/sdk/plugin_importer.h"
#include "ep/sdk/plugin_kernel.h"

// The host's own types, as the test's host makes them.
struct OrtStatus {
  OrtErrorCode code;
  std::string message;
};

namespace tenon::plugin {
namespace {

using testing::HasSubstr;

struct FakeHost {
  static inline uint32_t version = 31;
  static inline const char* text = "1.31.1";
  static inline int live_statuses = 0;
  static inline std::vector<uint32_t> asked;
  static inline int new_stream_reads = 0;
  static inline int old_stream_reads = 0;

  static const OrtApi& table() {
    static const OrtApi api = [] {
      OrtApi made{};
      made.CreateStatus = [](OrtErrorCode code, const char* message) noexcept -> OrtStatus* {
        ++live_statuses;
        return new OrtStatus{code, message};
      };
      made.GetErrorCode = [](const OrtStatus* status) noexcept { return status->code; };
      made.GetErrorMessage = [](const OrtStatus* status) noexcept -> const char* { return status->message.c_str(); };
      made.ReleaseStatus = [](OrtStatus* status) noexcept {
        --live_statuses;
        delete status;
      };
      made.GetEpApi = []() noexcept -> const OrtEpApi* {
        static const OrtEpApi ep{};
        return &ep;
      };
      made.GetModelEditorApi = []() noexcept -> const OrtModelEditorApi* { return nullptr; };
      made.KernelContext_GetSyncStream = [](const OrtKernelContext*, OrtSyncStream** out) noexcept -> OrtStatus* {
        ++new_stream_reads;
        *out = nullptr;
        return nullptr;
      };
      made.KernelContext_GetGPUComputeStream = [](const OrtKernelContext*, void** out) noexcept -> OrtStatus* {
        ++old_stream_reads;
        *out = &live_statuses;
        return nullptr;
      };
      return made;
    }();
    return api;
  }
  static const OrtApi* get_api(uint32_t wanted) noexcept {
    asked.push_back(wanted);
    return wanted <= version ? &table() : nullptr;
  }
  static Result<HostApi> connect(uint32_t has, const char* says) {
    version = has;
    text = says;
    asked.clear();
    static const OrtApiBase base = [] {
      OrtApiBase made{};
      made.GetApi = &get_api;
      made.GetVersionString = []() noexcept -> const char* { return text; };
      return made;
    }();
    return HostApi::connect(&base);
  }
};

TEST(HostApi, TheVersionIsTheLowerOfTheTwo) {
  const auto newer = FakeHost::connect(40, "1.40.0");
  ASSERT_TRUE(newer.ok());
  EXPECT_EQ(newer->version(), kOurApiVersion);
  const auto older = FakeHost::connect(24, "1.24.4");
  ASSERT_TRUE(older.ok());
  EXPECT_EQ(older->version(), 24u);
  // A host prints an error for a version that it does not have: so none is asked for.
  EXPECT_THAT(FakeHost::asked, testing::ElementsAre(24u));
}

TEST(HostApi, AVersionTextThatIsNoneIsNotTrusted) {
  for (const char* text : {"", "nightly", "1.", "1.x"}) {
    const auto host = FakeHost::connect(28, text);
    ASSERT_TRUE(host.ok()) << text;
    EXPECT_EQ(host->version(), 28u) << text;
  }
}

TEST(HostApi, AHostThatIsTooOldIsRefusedWithBothVersions) {
  const auto host = FakeHost::connect(22, "1.22.0");
  ASSERT_FALSE(host.ok());
  EXPECT_EQ(host.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(host.status().message(), HasSubstr("1.22.0"));
  EXPECT_THAT(host.status().message(), HasSubstr("1.24"));
  EXPECT_FALSE(HostApi::connect(nullptr).ok());
}

TEST(HostApi, NoExceptionCrossesTheAbi) {
  const auto host = FakeHost::connect(31, "1.31.1");
  ASSERT_TRUE(host.ok());
  OrtStatus* status = host->guarded([]() -> Status { throw std::runtime_error("inner"); });
  ASSERT_NE(status, nullptr);
  EXPECT_EQ(status->code, ORT_RUNTIME_EXCEPTION);
  EXPECT_EQ(host->take(status, "Compute").message(), "inner - from the host's Compute");
  status = host->guarded([]() -> Status { throw std::bad_alloc(); });
  EXPECT_EQ(host->take(status, "Compute").code(), StatusCode::kDeviceError);
  status = host->guarded([]() -> Status { throw 3; });
  EXPECT_FALSE(host->take(status, "Compute").ok());
  EXPECT_EQ(host->guarded([] { return Status(); }), nullptr);
  EXPECT_EQ(FakeHost::live_statuses, 0);
}

TEST(HostApi, CodesTravelBothWays) {
  const auto host = FakeHost::connect(31, "1.31.1");
  for (StatusCode code : {StatusCode::kInvalidArgument, StatusCode::kUnsupported, StatusCode::kNotFound,
                          StatusCode::kDeviceLost, StatusCode::kInternal, StatusCode::kDeviceError}) {
    OrtStatus* status = host->to_ort(Status(code, "why"));
    // With this code Python's sessions fall back to the CPU EP without an error.
    EXPECT_NE(status->code, ORT_EP_FAIL);
    EXPECT_EQ(host->take(status, "F").code(), code);
  }
  EXPECT_EQ(host->to_ort(Status()), nullptr);
  EXPECT_EQ(FakeHost::live_statuses, 0);
}

// S5.1: the slot is above what an API 24 host has; it is never read there.
TEST(KernelCall, AnOldHostGivesItsStreamThroughTheOldFunction) {
  auto* context = reinterpret_cast<OrtKernelContext*>(&FakeHost::version);
  const auto old_host = FakeHost::connect(24, "1.24.4");
  FakeHost::new_stream_reads = FakeHost::old_stream_reads = 0;
  const auto stream = KernelCall(*old_host, context).stream_handle();
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ(*stream, &FakeHost::live_statuses);
  EXPECT_EQ(FakeHost::new_stream_reads, 0);

  const auto new_host = FakeHost::connect(28, "1.28.0");
  FakeHost::old_stream_reads = 0;
  const auto none = KernelCall(*new_host, context).stream_handle();
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(*none, nullptr) << "a synchronous call";
  EXPECT_EQ(FakeHost::new_stream_reads, 1);
  EXPECT_EQ(FakeHost::old_stream_reads, 0);
}

TEST(DataTypes, TheTwoEnumsAgreeBothWays) {
  for (int number = 1; number <= static_cast<int>(DataType::kInt2); ++number) {
    const auto type = static_cast<DataType>(number);
    const ONNXTensorElementDataType ort = ort_element_type(type);
    if (ort == ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED) continue;
    EXPECT_EQ(data_type(ort), type) << number;
  }
  EXPECT_EQ(data_type(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT4E2M1), DataType::kFloat4E2M1);
  EXPECT_EQ(data_type(static_cast<ONNXTensorElementDataType>(99)), DataType::kUndefined);
  EXPECT_EQ(data_type(static_cast<ONNXTensorElementDataType>(-1)), DataType::kUndefined);
}

// S1.3: the text names the field and its values.
TEST(CheckMemoryDescriptor, NamesTheField) {
  OrtExternalMemoryDescriptor descriptor{};
  descriptor.version = ORT_API_VERSION;
  descriptor.size_bytes = 64;
  EXPECT_TRUE(check_memory_descriptor(&descriptor).ok());
  descriptor.version = 0;
  EXPECT_THAT(check_memory_descriptor(&descriptor).message(), HasSubstr("version of the memory descriptor is 0"));
  descriptor.version = 24;
  descriptor.offset_bytes = SIZE_MAX;
  EXPECT_THAT(check_memory_descriptor(&descriptor).message(), HasSubstr("offset_bytes"));
  descriptor.size_bytes = 0;
  EXPECT_THAT(check_memory_descriptor(&descriptor).message(), HasSubstr("size_bytes is 0"));
  EXPECT_FALSE(check_memory_descriptor(nullptr).ok());
}

// S1.4
TEST(CheckTensorDescriptor, RefusesWhatDoesNotFit) {
  int64_t dims[] = {2, 3};
  OrtExternalTensorDescriptor descriptor{};
  descriptor.version = ORT_API_VERSION;
  descriptor.element_type = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  descriptor.shape = dims;
  descriptor.rank = 2;
  descriptor.offset_bytes = 40;
  const auto view = check_tensor_descriptor(&descriptor, 64);
  ASSERT_TRUE(view.ok()) << view.status().message();
  EXPECT_EQ(view->size_bytes, 24u);
  const auto refused = [&] { return check_tensor_descriptor(&descriptor, 64).status().code(); };
  descriptor.offset_bytes = 44;
  EXPECT_EQ(refused(), StatusCode::kInvalidArgument);
  descriptor.offset_bytes = 2;
  EXPECT_EQ(refused(), StatusCode::kInvalidArgument);
  descriptor.offset_bytes = SIZE_MAX - 3;
  EXPECT_EQ(refused(), StatusCode::kInvalidArgument);
  descriptor.offset_bytes = 0;
  descriptor.element_type = ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
  EXPECT_EQ(refused(), StatusCode::kInvalidArgument);
  descriptor.element_type = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  dims[0] = -1;
  EXPECT_FALSE(check_tensor_descriptor(&descriptor, 64).ok());
  dims[0] = INT64_MAX;
  EXPECT_FALSE(check_tensor_descriptor(&descriptor, 64).ok());
  descriptor.rank = 1000;
  EXPECT_EQ(refused(), StatusCode::kInvalidArgument);
  descriptor.rank = 2;
  descriptor.shape = nullptr;
  EXPECT_EQ(refused(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tenon::plugin
