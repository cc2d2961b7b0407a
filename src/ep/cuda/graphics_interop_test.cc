#include "ep/cuda/graphics_interop.h"

#include "ep/cuda/cuda_plugin_objects.h"
#include "ep/cuda/importer_testing.h"

namespace tenon::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class GraphicsInterop : public ::testing::Test {
 protected:
  GraphicsInterop() {
    fake::configure({.graphics = true});
    (void)fake::take_violations();
  }
  void TearDown() override {
    EXPECT_THAT(fake::graphics_contexts(), IsEmpty());
    EXPECT_THAT(fake::take_violations(), IsEmpty());
  }

  static OrtGraphicsInteropConfig config(OrtGraphicsApi api, void* queue = nullptr) {
    OrtGraphicsInteropConfig made{};
    made.version = ORT_API_VERSION;
    made.graphics_api = api;
    made.command_queue = queue;
    return made;
  }
  static Result<CUctxCigParam> read(const OrtGraphicsInteropConfig& config, const plugin::TextPairs& options = {}) {
    return read_graphics_config(fake::driver(), 0, "CUDA device 0 (fake)", config, options);
  }
  static std::string address(const void* pointer) { return std::to_string(reinterpret_cast<uintptr_t>(pointer)); }

  char queue_ = 0;
  char blob_[64] = {};
};

// S1.9
TEST_F(GraphicsInterop, EachApiHasItsOwnWayToSayWhatItShares) {
  const CUctxCigParam d3d12 = read(config(ORT_GRAPHICS_API_D3D12, &queue_)).value();
  EXPECT_EQ(d3d12.sharedDataType, CIG_DATA_TYPE_D3D12_COMMAND_QUEUE);
  EXPECT_EQ(d3d12.sharedData, &queue_);
  const CUctxCigParam vulkan =
      read(config(ORT_GRAPHICS_API_VULKAN), {{"VkExternalComputeQueueDataParamsNV_data", address(blob_)}}).value();
  EXPECT_EQ(vulkan.sharedDataType, CIG_DATA_TYPE_NV_BLOB);
  EXPECT_EQ(vulkan.sharedData, &blob_);
}

// S1.9
TEST_F(GraphicsInterop, AnIncompleteOrUnknownConfigurationIsRefusedWithTheFieldsName) {
  const auto refused = [](const Result<CUctxCigParam>& result, const char* name) {
    EXPECT_THAT(result, has_status(StatusCode::kInvalidArgument, HasSubstr(name)));
  };
  refused(read(config(ORT_GRAPHICS_API_D3D12)), "command_queue");
  refused(read(config(ORT_GRAPHICS_API_VULKAN)), "VkExternalComputeQueueDataParamsNV_data");
  refused(read(config(ORT_GRAPHICS_API_VULKAN), {{"VkExternalComputeQueueDataParamsNV_data", "queue"}}), "queue");
  refused(read(config(ORT_GRAPHICS_API_VULKAN), {{"blob", "1"}}), "\"blob\"");
  refused(read(config(ORT_GRAPHICS_API_D3D12, &queue_), {{"VkExternalComputeQueueDataParamsNV_data", address(blob_)}}),
          "D3D12");
}

// S1.9: a device that says no gives the reason, and goes on without.
TEST_F(GraphicsInterop, ADeviceWithoutItSaysSoAndWorksWithoutIt) {
  fake::configure({});
  EXPECT_THAT(
      read(config(ORT_GRAPHICS_API_D3D12, &queue_)),
      has_status(StatusCode::kUnsupported, HasSubstr("CUDA device 0 (fake) has no CUDA contexts inside a D3D12")));
  EXPECT_THAT(read(config(ORT_GRAPHICS_API_VULKAN), {{"VkExternalComputeQueueDataParamsNV_data", address(blob_)}}),
              has_status(StatusCode::kUnsupported, HasSubstr("Vulkan")));
  const auto memory = CudaMemory::of(fake::driver(), 0).value();
  EXPECT_FALSE(memory->device()->in_graphics());
}

// S1.9: everything on the device is inside the graphics context until its last user is gone.
TEST_F(GraphicsInterop, TheContextLivesAsLongAsItsUsers) {
  const CUctxCigParam shared = read(config(ORT_GRAPHICS_API_D3D12, &queue_)).value();
  auto graphics = CudaMemory::in_graphics(fake::driver(), 0, shared).value();
  ASSERT_EQ(fake::graphics_contexts().size(), 1U);
  EXPECT_EQ(fake::graphics_contexts()[0].sharedData, &queue_);
  CUcontext current = nullptr;
  EXPECT_EQ(fake::driver().CtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, nullptr);
  auto user = CudaMemory::of(fake::driver(), 0).value();
  EXPECT_EQ(user, graphics);
  EXPECT_TRUE(user->device()->in_graphics());
  graphics = nullptr;
  // The user goes on, and works.
  void* const block = user->allocate(1024, nullptr).value();
  user->free(block);
  EXPECT_THAT(user->service_stream()->synchronize(), is_ok());
  EXPECT_EQ(fake::graphics_contexts().size(), 1U);
  user = nullptr;
  EXPECT_THAT(fake::graphics_contexts(), IsEmpty());
  EXPECT_FALSE(CudaMemory::of(fake::driver(), 0).value()->device()->in_graphics());
}

// S1.9: a wrong order is an error instead of undefined.
TEST_F(GraphicsInterop, ADeviceThatIsInUseIsRefused) {
  const CUctxCigParam shared = read(config(ORT_GRAPHICS_API_D3D12, &queue_)).value();
  auto user = CudaMemory::of(fake::driver(), 0).value();
  EXPECT_THAT(CudaMemory::in_graphics(fake::driver(), 0, shared),
              has_status(StatusCode::kInvalidArgument, HasSubstr("in use already")));
  user = nullptr;
  const auto graphics = CudaMemory::in_graphics(fake::driver(), 0, shared);
  ASSERT_THAT(graphics, is_ok());
  EXPECT_THAT(CudaMemory::in_graphics(fake::driver(), 0, shared), has_status(StatusCode::kInvalidArgument));
}

TEST_F(GraphicsInterop, AnAllocatorNeitherStartsNorKeepsAContext) {
  LazyMemory lazy(fake::driver(), 0);
  EXPECT_EQ(lazy.opened(), nullptr);
  const CUctxCigParam shared = read(config(ORT_GRAPHICS_API_D3D12, &queue_)).value();
  auto graphics = CudaMemory::in_graphics(fake::driver(), 0, shared).value();
  void* const block = lazy.allocate([](CudaMemory& memory) { return memory.allocate(1024, nullptr); });
  ASSERT_NE(block, nullptr);
  graphics = nullptr;
  EXPECT_EQ(fake::graphics_contexts().size(), 1U);
  lazy.free([&](CudaMemory& memory) { memory.free(block); });
  EXPECT_THAT(fake::graphics_contexts(), IsEmpty());
  // Outside of graphics the device stays open, with its pool.
  void* const other = lazy.allocate([](CudaMemory& memory) { return memory.allocate(1024, nullptr); });
  ASSERT_NE(other, nullptr);
  lazy.free([&](CudaMemory& memory) { memory.free(other); });
  EXPECT_NE(lazy.opened(), nullptr);
}

// Each step may fail; then there is no context, and the device can still be used.
TEST_F(GraphicsInterop, AFailureAtAnyStepLeavesNoContext) {
  const CUctxCigParam shared = read(config(ORT_GRAPHICS_API_D3D12, &queue_)).value();
  for (int nth = 1;; ++nth) {
    ASSERT_LT(nth, 100);
    FaultInjection fault(nth);
    const auto graphics = CudaMemory::in_graphics(fake::driver(), 0, shared);
    if (!fault.fired()) {
      EXPECT_THAT(graphics, is_ok());
      EXPECT_GT(nth, 2);
      break;
    }
    EXPECT_FALSE(graphics.ok()) << fault.fired_at();
    EXPECT_THAT(fake::graphics_contexts(), IsEmpty()) << fault.fired_at();
  }
  EXPECT_FALSE(CudaMemory::of(fake::driver(), 0).value()->device()->in_graphics());
}

}  // namespace
}  // namespace tenon::cuda
