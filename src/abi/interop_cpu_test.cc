// The CPU device behind OrtInteropApi, where tests reach inside: every step that can fail, and streams.
#include "abi/interop_cpu.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <tenon/external_handles.h>
#include <tenon/external_memory.h>
#include <unistd.h>

#include <cstring>
#include <tuple>

#include "abi/objects/key_value_pairs.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "base/fault.h"
#include "base/testing.h"

namespace tenon::abi {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kSize = 4096;

template <typename Enum>
Enum as_enum(uint32_t value) {
  Enum result;
  std::memcpy(&result, &value, sizeof(result));
  return result;
}

// Everything a frame needs of the importer, and its release. The first failure.
Status one_frame(DeviceImporter& importer, int fd) {
  TenonExternalMemoryInfo info = {};
  info.version = TENON_EXTERNAL_MEMORY_INFO_VERSION;
  info.kind = TENON_EXTERNAL_MEMORY_MAPPABLE_FD;
  info.handle.fd = fd;
  OrtExternalMemoryDescriptor memory_descriptor = {};
  memory_descriptor.version = ORT_API_VERSION;
  memory_descriptor.handle_type = as_enum<OrtExternalMemoryHandleType>(info.kind);
  memory_descriptor.native_handle = &info;
  memory_descriptor.size_bytes = kSize;
  TENON_TRY_ASSIGN(auto memory, importer.import_memory(memory_descriptor));
  TENON_TRY_ASSIGN(auto value,
                   memory->create_tensor({}, {.type = DataType::kFloat, .shape = {4}, .size_bytes = 16}, memory));
  TENON_TRY_ASSIGN(auto shared, SharedTimeline::create("test"));
  OwnedHandle timeline_fd = OwnedHandle::take_fd(::fcntl(shared->fd(), F_DUPFD_CLOEXEC, 3));
  OrtExternalSemaphoreDescriptor semaphore_descriptor = {};
  semaphore_descriptor.version = ORT_API_VERSION;
  semaphore_descriptor.type = as_enum<OrtExternalSemaphoreType>(TENON_EXTERNAL_SEMAPHORE_SHARED_TIMELINE_FD);
  semaphore_descriptor.native_handle = reinterpret_cast<void*>(static_cast<intptr_t>(timeline_fd.fd()));
  TENON_TRY_ASSIGN(auto semaphore, importer.import_semaphore(semaphore_descriptor));
  (void)timeline_fd.release_fd();
  TENON_TRY_ASSIGN(auto stream, create_cpu_sync_stream(nullptr));
  TENON_TRY(shared->signal(1));
  TENON_TRY(semaphore->wait(*stream, 1));
  TENON_TRY(semaphore->signal(*stream, 2));
  TENON_TRY(wait_for_stream(*stream, nullptr));
  return shared->wait(2, 0);
}

// S1.3: fail the nth step until none is left. No fd is left over, and the caller's stays the caller's until the import
// has it.
TEST(CpuInterop, EveryStepMayFail) {
  const auto importer = make_cpu_importer();
  FdCount fds;
  int n = 1;
  for (; n < 100; ++n) {
    const int fd = ::memfd_create("tenon-test", MFD_CLOEXEC);
    ASSERT_EQ(::ftruncate(fd, kSize), 0);
    bool fired = false;
    Status status;
    {
      FaultInjection fault(n);
      status = one_frame(*importer, fd);
      fired = fault.fired();
    }
    // Consumed by an import that succeeded, whatever failed after it.
    if (::fcntl(fd, F_GETFD) >= 0) ::close(fd);
    EXPECT_EQ(fds.opened_since(), 0) << "step " << n;
    if (!fired) {
      EXPECT_THAT(status, is_ok());
      break;
    }
    EXPECT_THAT(status, has_status(StatusCode::kResourceExhausted)) << "step " << n;
  }
  EXPECT_GE(n, 8);
  EXPECT_LT(n, 100);
}

// A program that has no stream learns how the run itself waits and signals.
TEST(CpuStream, ANullOneIsToldTheRunsOwnEntries) {
  int object = 0;
  auto* importer = reinterpret_cast<OrtExternalResourceImporter*>(&object);
  auto* semaphore = reinterpret_cast<OrtExternalSemaphoreHandle*>(&object);
  for (const auto& [function, name, entry] :
       {std::tuple(&interop_api::WaitSemaphore, "WaitSemaphore",
                   "\"tenon.run_waits\" and \"HANDLE:VALUE\" (TENON_RUN_WAITS"),
        std::tuple(&interop_api::SignalSemaphore, "SignalSemaphore",
                   "\"tenon.run_signals\" and \"HANDLE:VALUE\" (TENON_RUN_SIGNALS")}) {
    OrtStatus* status = function(importer, semaphore, nullptr, 1);
    EXPECT_EQ(ort_api::GetErrorCode(status), ORT_INVALID_ARGUMENT);
    EXPECT_THAT(from_ort(status).message(),
                AllOf(HasSubstr(name), HasSubstr(entry), HasSubstr("CreateSyncStreamForEpDevice")));
  }
}

TEST(CpuStream, HasNoOptions) {
  OrtKeyValuePairs options;
  options.set("priority", "high");
  EXPECT_THAT(create_cpu_sync_stream(&options), has_status(StatusCode::kInvalidArgument, HasSubstr("priority")));
  EXPECT_THAT(create_cpu_sync_stream(nullptr), is_ok());
}

// S1.5: a run that waits for its stream ends when it is told to.
TEST(CpuStream, AWaitIsCancelled) {
  const auto stream = create_cpu_sync_stream(nullptr).value();
  const auto never = make_host_timeline("never").value();
  ASSERT_THAT(CpuStream::from(*stream)->queue().wait({never, 1}), is_ok());
  const std::atomic<bool> cancel = true;
  EXPECT_THAT(wait_for_stream(*stream, &cancel), has_status(StatusCode::kCancelled));
}

// A failure on a stream is told to whoever waits for it, also through the C ABI's notification.
TEST(CpuStream, AFailureReachesNotifications) {
  const auto stream = create_cpu_sync_stream(nullptr).value();
  ASSERT_THAT(CpuStream::from(*stream)->queue().enqueue([] { return device_lost("The peer is gone."); }), is_ok());
  OrtSyncNotificationImpl* notification = nullptr;
  ASSERT_EQ(stream->impl->CreateNotification(stream->impl, &notification), nullptr);
  EXPECT_THAT(from_ort(notification->WaitOnHost(notification)),
              has_status(StatusCode::kInvalidArgument, HasSubstr("before it is activated")));
  ASSERT_EQ(notification->Activate(notification), nullptr);
  EXPECT_THAT(from_ort(notification->WaitOnHost(notification)),
              has_status(StatusCode::kDeviceLost, HasSubstr("peer is gone")));
  notification->Release(notification);
  EXPECT_THAT(wait_for_stream(*stream, nullptr), has_status(StatusCode::kDeviceLost));
}

// One stream waits for a point of another on the device, without the host.
TEST(CpuStream, WaitsForAnotherStreamsNotification) {
  const auto producer = create_cpu_sync_stream(nullptr).value();
  const auto consumer = create_cpu_sync_stream(nullptr).value();
  const auto gate = make_host_timeline("gate").value();
  const auto done = make_host_timeline("done").value();
  ASSERT_THAT(CpuStream::from(*producer)->queue().wait({gate, 1}), is_ok());
  const auto notification = producer->stream->create_notification().value();
  ASSERT_THAT(notification->activate(), is_ok());
  ASSERT_THAT(notification->wait_on_device(*consumer->stream), is_ok());
  ASSERT_THAT(CpuStream::from(*consumer)->queue().signal({done, 1}), is_ok());
  EXPECT_FALSE(done->wait(1, 20'000'000).ok());
  ASSERT_THAT(gate->signal(1), is_ok());
  EXPECT_THAT(done->wait(1, 10'000'000'000), is_ok());
}

// S1.1: a device that nobody lists is not looked at.
TEST(InteropApi, RefusesAnUnknownDevice) {
  const auto* nowhere = reinterpret_cast<const OrtEpDevice*>(uintptr_t{0x1000});
  OrtExternalResourceImporter* importer = nullptr;
  EXPECT_THAT(from_ort(interop_api::CreateExternalResourceImporterForDevice(nowhere, &importer)),
              has_status(StatusCode::kInvalidArgument, HasSubstr("GetEpDevices")));
  EXPECT_EQ(importer, nullptr);
}

}  // namespace
}  // namespace tenon::abi
