// S1.9: the host keeps the order of graphics interop for an EP that does not keep it itself: Init comes before the
// device's first stream, importer, allocation or session, and Deinit when none of them lives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/onnxruntime_c_api.h>

#include <functional>
#include <string>

#include "bad_plugin_host.h"
#include "onnx_builder.h"

namespace tenon {
namespace {

using bad_plugin::kPlugin;
using ::testing::HasSubstr;

const OrtApi& api() { return *OrtGetApiBase()->GetApi(ORT_API_VERSION); }
const OrtInteropApi& interop() { return *api().GetInteropApi(); }

std::string text_of(OrtStatus* status) {
  std::string text = status == nullptr ? "" : api().GetErrorMessage(status);
  if (status != nullptr) {
    EXPECT_EQ(api().GetErrorCode(status), ORT_INVALID_ARGUMENT) << text;
  }
  api().ReleaseStatus(status);
  return text;
}

class GraphicsOrder : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(text_of(api().CreateEnv(ORT_LOGGING_LEVEL_ERROR, "graphics", &env_)), "");
    register_again();
  }
  void TearDown() override {
    EXPECT_EQ(text_of(api().UnregisterExecutionProviderLibrary(env_, "bad")), "");
    api().ReleaseEnv(env_);
  }
  void register_again() {
    if (device_ != nullptr) {
      ASSERT_EQ(text_of(api().UnregisterExecutionProviderLibrary(env_, "bad")), "");
    }
    ASSERT_EQ(text_of(api().RegisterExecutionProviderLibrary(env_, "bad", kPlugin)), "");
    const OrtEpDevice* const* devices = nullptr;
    size_t count = 0;
    ASSERT_EQ(text_of(api().GetEpDevices(env_, &devices, &count)), "");
    device_ = devices[count - 1];
  }
  std::string init() {
    OrtGraphicsInteropConfig config{};
    config.version = ORT_API_VERSION;
    config.graphics_api = ORT_GRAPHICS_API_VULKAN;
    return text_of(interop().InitGraphicsInteropForEpDevice(device_, &config));
  }
  std::string deinit() { return text_of(interop().DeinitGraphicsInteropForEpDevice(device_)); }

  // Something of the device that lives until it is called.
  using Release = std::function<void()>;
  Release stream() {
    OrtSyncStream* made = nullptr;
    EXPECT_EQ(text_of(api().CreateSyncStreamForEpDevice(device_, nullptr, &made)), "");
    return [made] { api().ReleaseSyncStream(made); };
  }
  Release importer() {
    OrtExternalResourceImporter* made = nullptr;
    EXPECT_EQ(text_of(interop().CreateExternalResourceImporterForDevice(device_, &made)), "");
    return [made] { interop().ReleaseExternalResourceImporter(made); };
  }
  Release tensor() {
    OrtAllocator* allocator = shared_allocator();
    const int64_t shape[] = {4};
    OrtValue* made = nullptr;
    EXPECT_EQ(text_of(api().CreateTensorAsOrtValue(allocator, shape, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &made)),
              "");
    return [made] { api().ReleaseValue(made); };
  }
  Release block() {
    OrtAllocator* allocator = shared_allocator();
    void* made = allocator->Alloc(allocator, 64);
    EXPECT_NE(made, nullptr);
    return [allocator, made] { allocator->Free(allocator, made); };
  }
  Release session() {
    const std::string model = api_testing::OnnxModel()
                                  .input("x", DataType::kFloat, {3})
                                  .output("y", DataType::kFloat, {3})
                                  .node({"Relu", {"x"}, {"y"}})
                                  .bytes();
    OrtSessionOptions* options = nullptr;
    OrtSession* made = nullptr;
    EXPECT_EQ(text_of(api().CreateSessionOptions(&options)), "");
    EXPECT_EQ(text_of(api().SessionOptionsAppendExecutionProvider_V2(options, env_, &device_, 1, nullptr, nullptr, 0)),
              "");
    EXPECT_EQ(text_of(api().CreateSessionFromArray(env_, model.data(), model.size(), options, &made)), "");
    api().ReleaseSessionOptions(options);
    return [made] { api().ReleaseSession(made); };
  }
  OrtAllocator* shared_allocator() {
    OrtAllocator* allocator = nullptr;
    const OrtMemoryInfo* info = api().EpDevice_MemoryInfo(device_, OrtDeviceMemoryType_DEFAULT);
    EXPECT_EQ(text_of(api().GetSharedAllocator(env_, info, &allocator)), "");
    return allocator;
  }

  struct Kind {
    const char* name;
    Release (GraphicsOrder::*make)();
  };
  static constexpr Kind kKinds[] = {{"stream", &GraphicsOrder::stream},
                                    {"importer", &GraphicsOrder::importer},
                                    {"allocation", &GraphicsOrder::tensor},
                                    {"allocation", &GraphicsOrder::block},
                                    {"session", &GraphicsOrder::session}};

  const bad_plugin::WithDevice with_device_;
  OrtEnv* env_ = nullptr;
  const OrtEpDevice* device_ = nullptr;
};

TEST_F(GraphicsOrder, InitAfterAnObjectOfTheDeviceIsRefused) {
  for (const Kind& kind : kKinds) {
    register_again();
    const Release release = (this->*kind.make)();
    const std::string refused = init();
    EXPECT_THAT(refused, HasSubstr("EP \"BadEp\"")) << kind.name;
    EXPECT_THAT(refused, HasSubstr(std::string("1 ") + kind.name)) << kind.name;
    release();
    // A released object may have left a context behind.
    EXPECT_THAT(init(), HasSubstr(std::string("1 ") + kind.name)) << kind.name;
    EXPECT_EQ(deinit(), "") << "nothing is initialised";
  }
}

TEST_F(GraphicsOrder, DeinitWhileAnObjectOfTheDeviceLivesIsRefused) {
  for (const Kind& kind : kKinds) {
    ASSERT_EQ(init(), "") << kind.name;
    const Release release = (this->*kind.make)();
    const std::string refused = deinit();
    EXPECT_THAT(refused, HasSubstr("EP \"BadEp\"")) << kind.name;
    EXPECT_THAT(refused, HasSubstr(std::string("1 ") + kind.name)) << kind.name;
    EXPECT_THAT(init(), HasSubstr("initialised already")) << "the refused Deinit has no effect";
    release();
    EXPECT_EQ(deinit(), "") << kind.name;
  }
}

// The plugin's memory is freed by the plugin, also when its name is gone from the list.
TEST_F(GraphicsOrder, ATensorOfASharedAllocatorOutlivesTheRegistration) {
  const Release tensor_gone = tensor();
  const Release block_gone = block();
  register_again();
  block_gone();
  tensor_gone();
  EXPECT_EQ(init(), "") << "the new registration has made nothing";
  EXPECT_EQ(deinit(), "");
}

}  // namespace
}  // namespace tenon
