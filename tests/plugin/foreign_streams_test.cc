// Two EP libraries that serve one device: a stream of the one is refused by the other's importer and data transfer,
// naming both. In libtenon the host says so; in stock onnxruntime, which passes it on, the plugin does.
#include <cstdlib>

#include "hosts.h"

namespace tenon::hosts {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

class ForeignStreams : public HostTest {
 protected:
  // The simulated EP, and a rival on its device 0 whose objects abort when they are given somebody else's.
  void use_both() {
    use();
    setenv("TENON_BAD_PLUGIN_DEVICE", "1", 1);
    ASSERT_THAT(ok(api().RegisterExecutionProviderLibrary(host().env(), "rival", RIVAL_PLUGIN), "Register"), is_ok());
    const OrtEpDevice* const* devices = nullptr;
    size_t count = 0;
    ASSERT_THAT(ok(api().GetEpDevices(host().env(), &devices, &count), "GetEpDevices"), is_ok());
    for (size_t i = 0; i < count; ++i) {
      const bool gpu = api().EpDevice_MemoryInfo(devices[i], OrtDeviceMemoryType_DEFAULT) != nullptr;
      if (gpu && std::string(api().EpDevice_EpName(devices[i])) == "BadEp") rival_ = devices[i];
    }
    ASSERT_NE(rival_, nullptr);
    OrtSyncStream* stream = nullptr;
    ASSERT_THAT(ok(api().CreateSyncStreamForEpDevice(rival_, nullptr, &stream), "CreateSyncStream"), is_ok());
    rivals_stream_ = host().own(stream, api().ReleaseSyncStream);
  }
  void TearDown() override {
    rivals_stream_ = nullptr;
    if (rival_ != nullptr) {
      EXPECT_THAT(ok(api().UnregisterExecutionProviderLibrary(host().env(), "rival"), "Unregister"), is_ok());
    }
    unsetenv("TENON_BAD_PLUGIN_DEVICE");
    HostTest::TearDown();
  }
  // Both libraries, as the host or, in stock hosts, the plugin knows them.
  auto names_both() {
    return host().is_tenon() ? AllOf(HasSubstr("EP library \"sim\""), HasSubstr("EP library \"rival\""))
                             : AllOf(HasSubstr("tenon_ep_sim"), HasSubstr("tenon_bad_plugin"));
  }
  Owned<OrtExternalSemaphoreHandle> import_timeline(OrtExternalResourceImporter* importer) {
    timeline_ = *conformance::shared_timeline_exporter("timeline", TENON_EXTERNAL_SEMAPHORE_SHARED_TIMELINE_FD)->make();
    const OrtExternalSemaphoreDescriptor descriptor = timeline_->descriptor(host().version());
    OrtExternalSemaphoreHandle* handle = nullptr;
    EXPECT_THAT(ok(host().interop().ImportSemaphore(importer, &descriptor, &handle), "ImportSemaphore"), is_ok());
    timeline_->take_on_success();
    return host().own(handle, host().interop().ReleaseExternalSemaphoreHandle);
  }
  Owned<OrtValue> allocate_of(const OrtEpDevice* device) {
    OrtAllocator* allocator = nullptr;
    EXPECT_THAT(ok(api().GetSharedAllocator(host().env(),
                                            api().EpDevice_MemoryInfo(device, OrtDeviceMemoryType_DEFAULT), &allocator),
                   "GetSharedAllocator"),
                is_ok());
    const int64_t dims[] = {1, kCount};
    OrtValue* value = nullptr;
    EXPECT_THAT(ok(api().CreateTensorAsOrtValue(allocator, dims, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value),
                   "CreateTensorAsOrtValue"),
                is_ok());
    return host().own(value, api().ReleaseValue);
  }

  const OrtEpDevice* rival_ = nullptr;
  Owned<OrtSyncStream> rivals_stream_;
  std::unique_ptr<conformance::SharedSemaphore> timeline_;
};

TEST_F(ForeignStreams, SemaphoresRefuseAStreamOfAnotherLibrary) {
  use_both();
  const auto importer = host().create_importer();
  ASSERT_THAT(importer, is_ok());
  const auto semaphore = import_timeline(importer->get());
  const auto& interop = host().interop();
  const Status wait = ok(interop.WaitSemaphore(importer->get(), semaphore.get(), rivals_stream_.get(), 1), "Wait");
  const Status signal =
      ok(interop.SignalSemaphore(importer->get(), semaphore.get(), rivals_stream_.get(), 1), "Signal");
  EXPECT_THAT(wait, has_status(StatusCode::kInvalidArgument, names_both()));
  EXPECT_THAT(signal, has_status(StatusCode::kInvalidArgument, names_both()));
  EXPECT_EQ(*timeline_->other().value(), 0u);
  // The other way round only the host can say it: the rival is not written with the SDK.
  if (!host().is_tenon()) return;
  OrtExternalResourceImporter* raw = nullptr;
  ASSERT_THAT(ok(interop.CreateExternalResourceImporterForDevice(rival_, &raw), "Create"), is_ok());
  const auto rivals_importer = host().own(raw, interop.ReleaseExternalResourceImporter);
  const auto rivals_semaphore = import_timeline(rivals_importer.get());
  const auto stream = host().create_stream();
  ASSERT_THAT(stream, is_ok());
  EXPECT_THAT(ok(interop.WaitSemaphore(rivals_importer.get(), rivals_semaphore.get(), stream->get(), 1), "Wait"),
              has_status(StatusCode::kInvalidArgument, names_both()));
  EXPECT_THAT(ok(interop.SignalSemaphore(rivals_importer.get(), rivals_semaphore.get(), stream->get(), 1), "Signal"),
              has_status(StatusCode::kInvalidArgument, names_both()));
}

// The rival cannot copy to the simulated device 1, and the simulated EP's copy takes no stream of the rival's.
TEST_F(ForeignStreams, CopyTensorsRefusesAStreamOfAnotherLibrary) {
  use_both();
  const OrtEpDevice* const* devices = nullptr;
  size_t count = 0;
  ASSERT_THAT(ok(api().GetEpDevices(host().env(), &devices, &count), "GetEpDevices"), is_ok());
  const OrtEpDevice* second = nullptr;
  for (size_t i = 0; i < count; ++i) {
    const OrtMemoryInfo* info = api().EpDevice_MemoryInfo(devices[i], OrtDeviceMemoryType_DEFAULT);
    int id = 0;
    if (info != nullptr && ok(api().MemoryInfoGetId(info, &id), "MemoryInfoGetId").ok() && id == 1) second = devices[i];
  }
  ASSERT_NE(second, nullptr);
  const auto target = allocate_of(second);
  std::vector<float> values = numbers();
  const auto from = wrap(values);
  const OrtValue* src = from.get();
  OrtValue* dst = target.get();
  EXPECT_THAT(ok(api().CopyTensors(host().env(), &src, &dst, rivals_stream_.get(), 1), "CopyTensors"),
              has_status(StatusCode::kInvalidArgument, names_both()));
}

// Both libraries can copy there: the stream's own does, although the other one is registered first.
TEST_F(ForeignStreams, CopyTensorsOnAStreamAsksTheStreamsLibraryFirst) {
  use_both();
  if (!host().is_tenon()) GTEST_SKIP() << "stock hosts ask the libraries in the order of registration";
  const auto target = allocate_of(rival_);
  std::vector<float> values = numbers(), result(kCount);
  const auto from = wrap(values), to = wrap(result);
  const OrtValue* src = from.get();
  OrtValue* dst = target.get();
  ASSERT_THAT(ok(api().CopyTensors(host().env(), &src, &dst, rivals_stream_.get(), 1), "CopyTensors"), is_ok());
  src = target.get(), dst = to.get();
  ASSERT_THAT(ok(api().CopyTensors(host().env(), &src, &dst, rivals_stream_.get(), 1), "CopyTensors"), is_ok());
  EXPECT_THAT(result, ElementsAreArray(values));
}

// A run waits for a stream that its EP cannot use, on the host, and uses its own.
TEST_F(ForeignStreams, ARunOnAStreamOfAnotherLibraryWaitsForIt) {
  use_both();
  if (!host().is_tenon()) GTEST_SKIP() << "stock hosts match streams by device";
  const auto chain = session({"Neg", "Abs", "Neg"});
  ASSERT_NE(chain, nullptr);
  OrtRunOptions* raw = nullptr;
  ASSERT_THAT(ok(api().CreateRunOptions(&raw), "CreateRunOptions"), is_ok());
  const auto options = host().own(raw, api().ReleaseRunOptions);
  api().RunOptionsSetSyncStream(raw, rivals_stream_.get());
  std::vector<float> values = numbers(), result(kCount);
  const auto x = wrap(values), y = wrap(result);
  OrtValue* out = y.get();
  EXPECT_THAT(run(chain.get(), x.get(), &out, raw), is_ok());
  EXPECT_THAT(result, ElementsAreArray(chain_of(values, {"Neg", "Abs", "Neg"})));
}

// A notification makes another library's stream wait on the host.
TEST_F(ForeignStreams, ANotificationWaitsOnTheHostForAStreamOfAnotherLibrary) {
  use_both();
  const auto stream = host().create_stream();
  ASSERT_THAT(stream, is_ok());
  OrtSyncStreamImpl* impl = const_cast<OrtSyncStreamImpl*>(host().ep().SyncStream_GetImpl(stream->get()));
  OrtSyncNotificationImpl* notification = nullptr;
  ASSERT_THAT(ok(impl->CreateNotification(impl, &notification), "CreateNotification"), is_ok());
  ASSERT_THAT(ok(notification->Activate(notification), "Activate"), is_ok());
  const int64_t waits = counter("total_host_waits");
  EXPECT_THAT(ok(notification->WaitOnDevice(notification, rivals_stream_.get()), "WaitOnDevice"), is_ok());
  EXPECT_EQ(counter("total_host_waits"), waits + 1);
  notification->Release(notification);
}

// Memory for another library's stream is memory for everyone.
TEST_F(ForeignStreams, AnAllocatorTakesAStreamOfAnotherLibraryForNone) {
  use_both();
  OrtAllocator* allocator = nullptr;
  const OrtMemoryInfo* info = api().EpDevice_MemoryInfo(host().device(), OrtDeviceMemoryType_DEFAULT);
  ASSERT_THAT(ok(api().GetSharedAllocator(host().env(), info, &allocator), "GetSharedAllocator"), is_ok());
  if (allocator->AllocOnStream == nullptr) GTEST_SKIP() << "this host shows no AllocOnStream";
  void* block = allocator->AllocOnStream(allocator, 256, rivals_stream_.get());
  EXPECT_NE(block, nullptr);
  allocator->Free(allocator, block);
}

// On a stream of the CPU device a copy is queued behind what the stream waits for.
TEST_F(ForeignStreams, ACopyOnAStreamOfTheCpuDeviceIsQueued) {
  use();
  if (!host().is_tenon()) GTEST_SKIP() << "stock hosts have no streams of the CPU device";
  if (!kSeesSharedPages) GTEST_SKIP() << "the result is read behind a timeline's signal";
  auto cpu = Host::load({.library = std::getenv("TENON_TEST_HOST"), .ep_name = "CPUExecutionProvider"});
  ASSERT_THAT(cpu, is_ok());
  const auto stream = (*cpu)->create_stream();
  const auto importer = (*cpu)->create_importer();
  ASSERT_THAT(stream, is_ok());
  ASSERT_THAT(importer, is_ok());
  const auto semaphore = import_timeline(importer->get());
  const auto& interop = host().interop();
  const auto target = allocate(OrtDeviceMemoryType_DEFAULT);
  std::vector<float> values = numbers(), result(kCount);
  const auto from = wrap(values), to = wrap(result);
  ASSERT_THAT(ok(interop.WaitSemaphore(importer->get(), semaphore.get(), stream->get(), 1), "Wait"), is_ok());
  const OrtValue* sources[] = {from.get(), target.get()};
  OrtValue* targets[] = {target.get(), to.get()};
  ASSERT_THAT(ok(api().CopyTensors(host().env(), sources, targets, stream->get(), 2), "CopyTensors"), is_ok());
  EXPECT_EQ(result, std::vector<float>(kCount)) << "the semaphore is not reached";
  ASSERT_THAT(ok(interop.SignalSemaphore(importer->get(), semaphore.get(), stream->get(), 2), "Signal"), is_ok());
  ASSERT_THAT(timeline_->other().signal(1), is_ok());
  ASSERT_THAT(timeline_->other().wait(2, 20'000'000'000), is_ok());
  EXPECT_THAT(result, ElementsAreArray(values));
}

}  // namespace
}  // namespace tenon::hosts
