#include "ep/cuda/cuda_importer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "base/testing.h"
#include "ep/cuda/fake/fake_cuda.h"
#include "ep/cuda/fake/gate.h"

namespace tenon::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kSize = 64 * 1024;

OwnedHandle make_memfd(size_t size_bytes) {
  OwnedHandle fd = OwnedHandle::take_fd(::memfd_create("tenon-test", MFD_CLOEXEC));
  EXPECT_EQ(::ftruncate(fd.fd(), static_cast<off_t>(size_bytes)), 0);
  return fd;
}

class CudaImporterTest : public ::testing::Test {
 protected:
  CudaImporterTest() {
    fake::configure({});
    (void)fake::take_violations();
    memory_ = CudaMemory::of(fake::driver(), 0).value();
    CUuuid uuid;
    (void)fake::driver().DeviceGetUuid(&uuid, 0);
    std::memcpy(uuid_.data(), uuid.bytes, uuid_.size());
  }
  void TearDown() override { EXPECT_THAT(fake::take_violations(), IsEmpty()); }

  Result<std::shared_ptr<MemoryImport>> import(const ExternalHandle& handle, size_t size_bytes = kSize,
                                               size_t offset_bytes = 0) {
    return MemoryImport::import(memory_, uuid_, handle, size_bytes, offset_bytes);
  }
  static ExternalHandle fd_handle(ExternalMemoryKind kind, int fd) {
    return {.kind = kind, .type = HandleType::kFd, .fd = fd};
  }

  std::shared_ptr<CudaMemory> memory_;
  DeviceUuid uuid_{};
};

constexpr ExternalMemoryKind kFdKinds[] = {ExternalMemoryKind::kVulkanOpaqueFd, ExternalMemoryKind::kCudaVmmFd,
                                           ExternalMemoryKind::kMappableFd};

// S1.3: on success the fd is the import's, and everything is given back with it.
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

// S1.3: every step may fail; then the fd is the caller's, and nothing is left behind.
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

// S1.3
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
  ExternalHandle nothing{.kind = ExternalMemoryKind::kHostAllocation, .type = HandleType::kPointer};
  nothing.pointer = reinterpret_cast<void*>(4096);
  EXPECT_THAT(import(nothing), has_status(StatusCode::kInvalidArgument, HasSubstr("0x1000")));
}

// S2: where a UUID is known, another device's memory is refused, naming both.
TEST_F(CudaImporterTest, AnotherDevicesMemoryIsRefusedNamingBoth) {
  OwnedHandle fd = make_memfd(kSize);
  ExternalHandle handle = fd_handle(ExternalMemoryKind::kVulkanOpaqueFd, fd.fd());
  handle.device_uuid = DeviceUuid{1, 2, 3};
  EXPECT_THAT(import(handle), has_status(StatusCode::kInvalidArgument,
                                         AllOf(HasSubstr(uuid_text({1, 2, 3})), HasSubstr(uuid_text(uuid_)))));
  handle.device_uuid = uuid_;
  auto imported = import(handle);
  ASSERT_THAT(imported, is_ok());
  (void)fd.release_fd();
}

// S2: NT handles stay the caller's; a resource is a dedicated allocation, a heap is not (the fake driver checks that).
TEST_F(CudaImporterTest, NtHandlesStayTheCallers) {
  for (const ExternalMemoryKind kind :
       {ExternalMemoryKind::kD3d12Resource, ExternalMemoryKind::kD3d12Heap, ExternalMemoryKind::kVulkanOpaqueWin32}) {
    EXPECT_TRUE(can_import(*memory_->device(), kind, HandleSystem::kWindows));
    EXPECT_FALSE(can_import(*memory_->device(), kind, HandleSystem::kPosix));
    ExternalHandle handle{.kind = kind, .type = HandleType::kNtHandle};
    handle.pointer = fake::make_nt_memory(kSize);
    for (int round = 0; round < 2; ++round) {
      auto imported = import(handle, 4096, 4096);
      ASSERT_THAT(imported, is_ok());
      *static_cast<char*>((*imported)->address()) = 5;
      EXPECT_EQ(static_cast<char>(fake::nt_view(handle.pointer)[4096]), 5);
    }
    EXPECT_THAT(import(handle, 2 * kSize), has_status(StatusCode::kInvalidArgument));
  }
  const auto timeline = make_host_timeline("fence").value();
  void* const fence = fake::make_nt_fence(timeline);
  EXPECT_TRUE(can_import(ORT_EXTERNAL_SEMAPHORE_D3D12_FENCE, HandleSystem::kWindows));
  EXPECT_FALSE(can_import(ORT_EXTERNAL_SEMAPHORE_D3D12_FENCE, HandleSystem::kPosix));
  const auto semaphore = SemaphoreImport::import(memory_, ORT_EXTERNAL_SEMAPHORE_D3D12_FENCE, fence).value();
  EXPECT_THAT(semaphore->signal(*memory_->service_stream(), 4), is_ok());
  EXPECT_THAT(timeline->wait(4, 5'000'000'000), is_ok());
  EXPECT_THAT(SemaphoreImport::import(memory_, ORT_EXTERNAL_SEMAPHORE_D3D12_FENCE, nullptr),
              has_status(StatusCode::kInvalidArgument, HasSubstr("null")));
}

TEST_F(CudaImporterTest, IpcHandlesAreOpenedAtAnOffset) {
  ExternalHandle handle{.kind = ExternalMemoryKind::kCudaIpc, .type = HandleType::kIpc};
  const CUipcMemHandle ipc = fake::make_ipc_memory(kSize);
  std::memcpy(handle.ipc.data(), &ipc, sizeof(ipc));
  EXPECT_THAT(import(handle, 4096, 8192), is_ok());
  EXPECT_THAT(import(handle, kSize, 4096), has_status(StatusCode::kInvalidArgument, HasSubstr("65536")));
}

// A dma-buf is taken where the driver takes one.
TEST_F(CudaImporterTest, DmaBufsNeedADriverThatTakesThem) {
  EXPECT_FALSE(can_import(*memory_->device(), ExternalMemoryKind::kDmaBufFd));
  fake::configure({.integrated = true});
  EXPECT_TRUE(can_import(*memory_->device(), ExternalMemoryKind::kDmaBufFd));
}

// Two imports of pages that overlap share the driver's registration, which takes a page once only.
TEST_F(CudaImporterTest, HostMemoryIsRegisteredOnce) {
  void* const pages = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ExternalHandle handle{.kind = ExternalMemoryKind::kHostAllocation, .type = HandleType::kPointer};
  handle.pointer = pages;
  const int64_t before = fake::live_objects();
  {
    const auto whole = import(handle).value();
    const auto part = import(handle, 100, 5000).value();
    EXPECT_TRUE(whole->host_accessible());
    EXPECT_EQ(part->address(), static_cast<char*>(pages) + 5000);
    EXPECT_EQ(fake::live_objects(), before + 1);
  }
  EXPECT_EQ(fake::live_objects(), before);
  (void)::munmap(pages, kSize);
}

// What a stream may still use is released when it has passed, and the release does not wait (the fake driver faults on
// a use after the unmapping, and on a semaphore that goes while a wait is queued).
TEST_F(CudaImporterTest, ReleasedImportsOutliveTheQueuedWork) {
  const auto stream = CudaStream::create(memory_->device()).value();
  memory_->streams().add(stream);
  OwnedHandle fd = make_memfd(kSize);
  auto timeline = SharedTimeline::create("test").value();
  const int timeline_fd = ::fcntl(timeline->fd(), F_DUPFD_CLOEXEC, 0);
  const int64_t before = fake::live_objects();
  auto imported = import(fd_handle(ExternalMemoryKind::kVulkanOpaqueFd, fd.fd()));
  ASSERT_THAT(imported, is_ok());
  (void)fd.release_fd();
  auto semaphore = SemaphoreImport::import(memory_, ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_OPAQUE_FD,
                                           reinterpret_cast<void*>(static_cast<intptr_t>(timeline_fd)))
                       .value();
  ASSERT_THAT(semaphore->wait(*stream, 1), is_ok());
  {
    const auto scope = ContextScope::enter(*memory_->device());
    ASSERT_EQ(
        fake::driver().MemsetD8Async(reinterpret_cast<CUdeviceptr>((*imported)->address()), 9, kSize, stream->native()),
        CUDA_SUCCESS);
  }
  imported = invalid_argument("released");
  semaphore = nullptr;
  EXPECT_GT(fake::live_objects(), before);
  ASSERT_THAT(timeline->signal(1), is_ok());
  ASSERT_THAT(stream->synchronize(), is_ok());
  for (int i = 0; i < 1000 && fake::calls("cuDestroyExternalMemory") == 0; ++i) memory_->collect();
  memory_->collect();
  EXPECT_GT(fake::calls("cuDestroyExternalSemaphore"), 0);
}

// S1.5: the wait is queued before, and without, the signal.
TEST_F(CudaImporterTest, WaitsReturnBeforeTheValueIsReached) {
  const auto stream = CudaStream::create(memory_->device()).value();
  memory_->streams().add(stream);
  auto timeline = SharedTimeline::create("test").value();
  const int fd = ::fcntl(timeline->fd(), F_DUPFD_CLOEXEC, 0);
  const auto semaphore = SemaphoreImport::import(memory_, ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_OPAQUE_FD,
                                                 reinterpret_cast<void*>(static_cast<intptr_t>(fd)))
                             .value();
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
