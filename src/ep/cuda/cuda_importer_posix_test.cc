#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/format.h"
#include "ep/cuda/importer_testing.h"

namespace tenon::cuda {
namespace {

using ::testing::HasSubstr;

constexpr size_t kSize = kImportBytes;

OwnedHandle make_memfd(size_t size_bytes) {
  OwnedHandle fd = OwnedHandle::take_fd(::memfd_create("tenon-test", MFD_CLOEXEC));
  EXPECT_EQ(::ftruncate(fd.fd(), static_cast<off_t>(size_bytes)), 0);
  return fd;
}

ExternalHandle fd_handle(ExternalMemoryKind kind, int fd) { return {.kind = kind, .type = HandleType::kFd, .fd = fd}; }

constexpr ExternalMemoryKind kFdKinds[] = {ExternalMemoryKind::kVulkanOpaqueFd, ExternalMemoryKind::kCudaVmmFd,
                                           ExternalMemoryKind::kMappableFd};

TEST_F(CudaImporterTest, ASuccessfulImportConsumesTheFdOnce) {
  for (const ExternalMemoryKind kind : kFdKinds) {
    const FdCount before;
    const int64_t objects = fake::live_objects();
    OwnedHandle fd = make_memfd(kSize);
    auto imported = import(fd_handle(kind, fd.fd()));
    ASSERT_THAT(imported, is_ok());
    (void)fd.release_fd();
    *static_cast<float*>((*imported)->address()) = 3;
    imported = invalid_argument("released");
    EXPECT_EQ(before.opened_since(), 0) << external_memory_kind_name(kind);
    EXPECT_EQ(fake::live_objects(), objects) << external_memory_kind_name(kind);
  }
}

TEST_F(CudaImporterTest, AFailureAtAnyStepLeavesTheCallersFdOpen) {
  for (const ExternalMemoryKind kind : kFdKinds) {
    for (int nth = 1;; ++nth) {
      ASSERT_LT(nth, 100);
      const FdCount before;
      const int64_t objects = fake::live_objects();
      OwnedHandle fd = make_memfd(kSize);
      FaultInjection fault(nth);
      auto imported = import(fd_handle(kind, fd.fd()));
      if (!fault.fired()) {
        ASSERT_THAT(imported, is_ok());
        (void)fd.release_fd();
        break;
      }
      const std::string where = external_memory_kind_name(kind) + " at " + fault.fired_at();
      EXPECT_FALSE(imported.ok()) << where;
      EXPECT_GE(::fcntl(fd.fd(), F_GETFD), 0) << where;
      EXPECT_EQ(before.opened_since(), 1) << where;
      EXPECT_EQ(fake::live_objects(), objects) << where;
    }
  }
}

// Every driver call of an import fails once, for every kind that is a file descriptor.
TEST_F(CudaImporterTest, AFailedDriverCallLeavesTheCallersFdOpen) {
  const auto walk = [&](const std::string& kind, const auto& make, const auto& import_fd) {
    int failures = 0;
    for (int nth = 1;; ++nth) {
      ASSERT_LT(nth, 100) << kind;
      const FdCount before;
      OwnedHandle fd = make();
      memory_->collect();
      const int64_t objects = fake::live_objects();
      fake::fail_at(nth, CUDA_ERROR_OPERATING_SYSTEM);
      auto imported = import_fd(fd.fd());
      const std::string failed = fake::failed_call();
      fake::fail_at(0, CUDA_SUCCESS);
      const std::string where = format("{} at {}", kind, failed);
      if (imported.ok()) {
        EXPECT_LT(::fcntl(fd.fd(), F_GETFD), 0) << where;
        (void)fd.release_fd();
        if (failed.empty()) break;
        continue;  // the call is one that an import can do without
      }
      ++failures;
      EXPECT_GE(::fcntl(fd.fd(), F_GETFD), 0) << where;
      memory_->collect();
      EXPECT_EQ(before.opened_since(), 1) << where;
      EXPECT_EQ(fake::live_objects(), objects) << where;
    }
    EXPECT_GE(failures, 1) << kind;
  };
  fake::configure({.integrated = true});
  for (const HandleKindRow& row : kHandleKinds) {
    if (row.type != HandleType::kFd) continue;
    ASSERT_TRUE(can_import(*memory_->device(), row.kind)) << row.name;
    walk(row.name, [] { return make_memfd(kSize); }, [&](int fd) { return import(fd_handle(row.kind, fd)); });
  }
  const auto timeline = SharedTimeline::create("test").value();
  walk(
      "vulkan_timeline_fd", [&] { return OwnedHandle::duplicate_fd(timeline->fd()).value(); },
      [&](int fd) {
        return import(TimelineKind::kVulkanTimelineFd, reinterpret_cast<void*>(static_cast<intptr_t>(fd)));
      });
}

// S1.3 for timelines, at every step of the importer.
TEST_F(CudaImporterTest, AFailureAtAnyStepLeavesTheTimelinesFdOpen) {
  const auto timeline = SharedTimeline::create("test").value();
  for (int nth = 1;; ++nth) {
    ASSERT_LT(nth, 100);
    const FdCount before;
    OwnedHandle fd = OwnedHandle::duplicate_fd(timeline->fd()).value();
    FaultInjection fault(nth);
    const auto imported =
        import(TimelineKind::kVulkanTimelineFd, reinterpret_cast<void*>(static_cast<intptr_t>(fd.fd())));
    if (!fault.fired()) {
      ASSERT_THAT(imported, is_ok());
      EXPECT_LT(::fcntl(fd.fd(), F_GETFD), 0);
      (void)fd.release_fd();
      EXPECT_GT(nth, 2);
      break;
    }
    EXPECT_FALSE(imported.ok()) << fault.fired_at();
    EXPECT_GE(::fcntl(fd.fd(), F_GETFD), 0) << fault.fired_at();
    EXPECT_EQ(before.opened_since(), 1) << fault.fired_at();
  }
}

TEST_F(CudaImporterTest, HandlesThatAreNoneAreInvalidArguments) {
  for (const ExternalMemoryKind kind : kFdKinds)
    EXPECT_THAT(import(fd_handle(kind, 1 << 20)),
                has_status(StatusCode::kInvalidArgument, HasSubstr(std::to_string(1 << 20))));
  OwnedHandle fd = make_memfd(kSize);
  EXPECT_THAT(import(fd_handle(ExternalMemoryKind::kVulkanOpaqueFd, fd.fd()), 2 * kSize),
              has_status(StatusCode::kInvalidArgument, HasSubstr("65536")));
  EXPECT_THAT(import(fd_handle(ExternalMemoryKind::kVulkanOpaqueFd, fd.fd()), SIZE_MAX, 4096),
              has_status(StatusCode::kInvalidArgument, HasSubstr("overflow")));
  ExternalHandle ipc{.kind = ExternalMemoryKind::kCudaIpc, .type = HandleType::kIpc};
  EXPECT_THAT(import(ipc), has_status(StatusCode::kInvalidArgument, HasSubstr("cuIpcOpenMemHandle")));
}

// S2: memory that may only be read is mapped so.
TEST_F(CudaImporterTest, ReadOnlyMemoryOfCudaIsMappedReadOnly) {
  const OwnedHandle zeros = OwnedHandle::take_fd(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  for (const bool read_only : {false, true}) {
    OwnedHandle fd = make_memfd(kSize);
    ExternalHandle handle = fd_handle(ExternalMemoryKind::kCudaVmmFd, fd.fd());
    handle.read_only = read_only;
    const auto imported = import(handle);
    ASSERT_THAT(imported, is_ok());
    (void)fd.release_fd();
    // The kernel writes there only where this process may.
    EXPECT_EQ(::read(zeros.fd(), (*imported)->address(), 1), read_only ? -1 : 1);
  }
}

// S1.3: the fds of a real driver tell no size, and its refusal of a range is not one of the kind.
TEST_F(CudaImporterTest, ARangeThatTheDriverDoesNotMapIsAnInvalidArgument) {
  for (const CUresult answer : {CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_INVALID_VALUE}) {
    const OwnedHandle fd = make_memfd(kSize);
    fake::fail("cuMemMap", 1, answer);
    EXPECT_THAT(import(fd_handle(ExternalMemoryKind::kCudaVmmFd, fd.fd())),
                has_status(StatusCode::kInvalidArgument, HasSubstr("65536")));
    EXPECT_GE(::fcntl(fd.fd(), F_GETFD), 0);
  }
}

TEST_F(CudaImporterTest, IpcHandlesAreOpenedAtAnOffset) {
  ExternalHandle handle{.kind = ExternalMemoryKind::kCudaIpc, .type = HandleType::kIpc};
  const CUipcMemHandle ipc = fake::make_ipc_memory(kSize);
  std::memcpy(handle.ipc.data(), &ipc, sizeof(ipc));
  EXPECT_THAT(import(handle, 4096, 8192), is_ok());
  EXPECT_THAT(import(handle, kSize, 4096), has_status(StatusCode::kInvalidArgument, HasSubstr("65536")));
}

TEST_F(CudaImporterTest, DmaBufsNeedADriverThatTakesThem) {
  EXPECT_FALSE(can_import(*memory_->device(), ExternalMemoryKind::kDmaBufFd));
  fake::configure({.integrated = true});
  EXPECT_TRUE(can_import(*memory_->device(), ExternalMemoryKind::kDmaBufFd));
}

TEST_F(CudaImporterTest, ReleasedImportsOutliveTheQueuedWork) {
  const auto stream = make_stream();
  OwnedHandle fd = make_memfd(kSize);
  auto timeline = SharedTimeline::create("test").value();
  const int timeline_fd = ::fcntl(timeline->fd(), F_DUPFD_CLOEXEC, 0);
  const int64_t before = fake::live_objects();
  auto imported = import(fd_handle(ExternalMemoryKind::kVulkanOpaqueFd, fd.fd()));
  ASSERT_THAT(imported, is_ok());
  (void)fd.release_fd();
  auto semaphore =
      import(TimelineKind::kVulkanTimelineFd, reinterpret_cast<void*>(static_cast<intptr_t>(timeline_fd))).value();
  ASSERT_THAT(semaphore->wait(*stream, 1), is_ok());
  fill(**imported, 9, *stream);
  imported = invalid_argument("released");
  semaphore = nullptr;
  EXPECT_GT(fake::live_objects(), before);
  ASSERT_THAT(timeline->signal(1), is_ok());
  ASSERT_THAT(stream->synchronize(), is_ok());
  for (int i = 0; i < 1000 && fake::calls("cuDestroyExternalMemory") == 0; ++i) memory_->collect();
  memory_->collect();
  EXPECT_GT(fake::calls("cuDestroyExternalSemaphore"), 0);
}

TEST_F(CudaImporterTest, WaitsReturnBeforeTheValueIsReached) {
  const auto stream = make_stream();
  auto timeline = SharedTimeline::create("test").value();
  const int fd = ::fcntl(timeline->fd(), F_DUPFD_CLOEXEC, 0);
  const auto semaphore =
      import(TimelineKind::kVulkanTimelineFd, reinterpret_cast<void*>(static_cast<intptr_t>(fd))).value();
  ASSERT_THAT(semaphore->wait(*stream, uint64_t{1} << 40), is_ok());
  ASSERT_THAT(semaphore->signal(*stream, (uint64_t{1} << 40) + 1), is_ok());
  EXPECT_FALSE(stream->idle());
  EXPECT_EQ(timeline->value().value(), 0U);
  ASSERT_THAT(timeline->signal(uint64_t{1} << 40), is_ok());
  EXPECT_THAT(timeline->wait((uint64_t{1} << 40) + 1, 5'000'000'000), is_ok());
  EXPECT_THAT(stream->synchronize(), is_ok());
}

}  // namespace
}  // namespace tenon::cuda
