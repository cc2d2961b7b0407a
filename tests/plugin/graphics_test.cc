// S1.9, graphics interop, and S2, the device of imported memory: the simulated EP's checks in a host. The same program
// runs in libtenon and in stock onnxruntime.
#include <cstring>

#include "hosts.h"

namespace tenon::hosts {
namespace {

using ::testing::HasSubstr;

class Graphics : public HostTest {
 protected:
  OrtGraphicsInteropConfig config(uint32_t graphics_api = ORT_GRAPHICS_API_VULKAN) {
    OrtGraphicsInteropConfig made = {};
    made.version = host().version();
    std::memcpy(&made.graphics_api, &graphics_api, sizeof(graphics_api));
    return made;
  }
  Status init(const OrtGraphicsInteropConfig& with) {
    return ok(host().interop().InitGraphicsInteropForEpDevice(host().device(), &with), "Init");
  }
  Status deinit() { return ok(host().interop().DeinitGraphicsInteropForEpDevice(host().device()), "Deinit"); }
  // False in hosts that do not have the functions.
  bool use_graphics(size_t device = kFullDevice) {
    use(device);
    return host_ != nullptr && host().version() >= 25;
  }
};

TEST_F(Graphics, InitAndDeinitComeInPairs) {
  if (!use_graphics()) GTEST_SKIP() << "the functions came with API 25";
  const int64_t inits = counter("total_graphics_inits");
  for (int turn = 0; turn < 2; ++turn) {
    ASSERT_THAT(init(config()), is_ok());
    EXPECT_EQ(counter("graphics_interops"), 1);
    ASSERT_THAT(deinit(), is_ok());
    EXPECT_EQ(counter("graphics_interops"), 0);
  }
  EXPECT_EQ(counter("total_graphics_inits"), inits + 2);
}

TEST_F(Graphics, ASecondInitIsRefusedAndTheFirstStays) {
  if (!use_graphics()) GTEST_SKIP() << "the functions came with API 25";
  ASSERT_THAT(init(config()), is_ok());
  EXPECT_THAT(init(config()), has_status(StatusCode::kInvalidArgument, HasSubstr("initialised already")));
  EXPECT_EQ(counter("graphics_interops"), 1);
  EXPECT_THAT(deinit(), is_ok());
  EXPECT_EQ(counter("graphics_interops"), 0);
}

TEST_F(Graphics, DeinitWithoutInitDoesNothing) {
  if (!use_graphics()) GTEST_SKIP() << "the functions came with API 25";
  for (int turn = 0; turn < 2; ++turn) EXPECT_THAT(deinit(), is_ok());
  EXPECT_EQ(counter("graphics_interops"), 0);
}

TEST_F(Graphics, AWrongConfigurationIsRefused) {
  if (!use_graphics()) GTEST_SKIP() << "the functions came with API 25";
  EXPECT_THAT(init(config(7)), has_status(StatusCode::kInvalidArgument, HasSubstr("graphics_api (7)")));
  OrtGraphicsInteropConfig wrong = config();
  wrong.version = 3;
  EXPECT_THAT(init(wrong), has_status(StatusCode::kInvalidArgument, HasSubstr("version (3)")));
  EXPECT_THAT(init(config(ORT_GRAPHICS_API_D3D12)),
              has_status(StatusCode::kInvalidArgument, HasSubstr("command_queue")));
  EXPECT_FALSE(
      ok(host().interop().InitGraphicsInteropForEpDevice(host().device(), nullptr), "Init without a configuration")
          .ok());
  EXPECT_EQ(counter("graphics_interops"), 0);
  int queue = 0;
  OrtGraphicsInteropConfig right = config(ORT_GRAPHICS_API_D3D12);
  right.command_queue = &queue;
  EXPECT_THAT(init(right), is_ok());
  EXPECT_THAT(deinit(), is_ok());
}

TEST_F(Graphics, AFailureOfTheEpLeavesItUninitialised) {
  if (!use_graphics()) GTEST_SKIP() << "the functions came with API 25";
  ASSERT_EQ(host().sim()->fail_at("init_graphics", 1), 1);
  EXPECT_THAT(init(config()), has_status(StatusCode::kDeviceError, HasSubstr("init_graphics")));
  EXPECT_EQ(counter("graphics_interops"), 0);
  ASSERT_THAT(init(config()), is_ok());
  // Deinit that fails may be asked again.
  ASSERT_EQ(host().sim()->fail_at("deinit_graphics", 1), 1);
  EXPECT_FALSE(deinit().ok());
  EXPECT_THAT(deinit(), is_ok());
  EXPECT_EQ(counter("graphics_interops"), 0);
}

TEST_F(Graphics, ADeviceWithoutItSaysSo) {
  if (!use_graphics(kNoHostAccessible)) GTEST_SKIP() << "the functions came with API 25";
  EXPECT_THAT(init(config()), has_status(StatusCode::kUnsupported, HasSubstr("Only simulated device 0")));
}

// S2: where the device that made a piece of memory is known, another one's is refused, naming both.
TEST_F(Graphics, MemoryOfAnotherDeviceIsRefused) {
  use();
  const auto importer = host().create_importer();
  ASSERT_THAT(importer, is_ok());
  ASSERT_NE(*importer, nullptr);
  std::vector<float> memory(1024);
  TenonExternalMemoryInfo info = {};
  info.version = TENON_EXTERNAL_MEMORY_INFO_VERSION;
  info.kind = TENON_EXTERNAL_MEMORY_HOST_ALLOCATION;
  info.handle.pointer = memory.data();
  OrtExternalMemoryDescriptor descriptor = {};
  descriptor.version = host().version();
  std::memcpy(&descriptor.handle_type, &info.kind, sizeof(info.kind));
  descriptor.native_handle = &info;
  descriptor.size_bytes = memory.size() * sizeof(float);
  const auto import = [&](const char* uuid, uint8_t last) {
    std::memcpy(info.device_uuid, uuid, 9);
    info.device_uuid[15] = last;
    OrtExternalMemoryHandle* handle = nullptr;
    Status status = ok(host().interop().ImportMemory(importer->get(), &descriptor, &handle), "ImportMemory");
    host().interop().ReleaseExternalMemoryHandle(handle);
    return status;
  };
  // "tenon-sim" and the device's number; the metadata has it as text.
  EXPECT_THAT(import("tenon-sim", 0), is_ok());
  EXPECT_THAT(import("\0\0\0\0\0\0\0\0", 0), is_ok()) << "not known, not checked";
  const auto refused = import("tenon-sim", 1);
  EXPECT_THAT(refused, has_status(StatusCode::kInvalidArgument, HasSubstr("74656e6f-6e2d-7369-6d00-000000000001")));
  EXPECT_THAT(refused.message(), HasSubstr("74656e6f-6e2d-7369-6d00-000000000000"));
  const OrtKeyValuePairs* metadata = api().EpDevice_EpMetadata(host().device());
  EXPECT_STREQ(api().GetKeyValue(metadata, "device_uuid"), "74656e6f-6e2d-7369-6d00-000000000000");
  EXPECT_EQ(counter("imported_memories"), 0);
}

// The LUID of a DXGI adapter is compared as the UUID is.
TEST_F(Graphics, MemoryOfAnotherAdapterIsRefused) {
  use();
  const auto importer = host().create_importer();
  ASSERT_THAT(importer, is_ok());
  const uint64_t number = host().sim()->nt_create_memory(4096);
  const auto import = [&](uint8_t last, uint8_t behind = 0, uint32_t kind = 0) {
    TenonExternalMemoryInfo info = {};
    info.kind = kind;
    info.flags = TENON_EXTERNAL_MEMORY_DEVICE_LUID;
    info.handle.nt_handle = reinterpret_cast<void*>(number);
    std::memcpy(info.device_uuid, "sim", 3);
    info.device_uuid[7] = last;
    info.device_uuid[8] = behind;
    return host().import_described(importer->get(), info, 4096).status();
  };
  EXPECT_THAT(import(0), is_ok());
  const Status refused = import(1);
  EXPECT_THAT(refused, has_status(StatusCode::kInvalidArgument, HasSubstr("LUID 73696d0000000001")));
  EXPECT_THAT(refused.message(), HasSubstr("LUID 73696d0000000000"));
  EXPECT_STREQ(api().GetKeyValue(api().EpDevice_EpMetadata(host().device()), "device_luid"), "73696d0000000000");
  EXPECT_THAT(import(0, 1), has_status(StatusCode::kInvalidArgument, HasSubstr("bytes behind it")));
  EXPECT_THAT(import(0, 0, TENON_EXTERNAL_MEMORY_HOST_ALLOCATION),
              has_status(StatusCode::kInvalidArgument, HasSubstr("LUID")));
  host().sim()->nt_close(number);
}

}  // namespace
}  // namespace tenon::hosts
