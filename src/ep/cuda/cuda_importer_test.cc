#include <new>

#include "ep/cuda/importer_testing.h"

namespace tenon::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kSize = kImportBytes;
constexpr ExternalMemoryKind kNtKinds[] = {ExternalMemoryKind::kD3d12Resource, ExternalMemoryKind::kD3d12Heap,
                                           ExternalMemoryKind::kVulkanOpaqueWin32};
constexpr TimelineKind kNtFences[] = {TimelineKind::kD3d12Fence, TimelineKind::kVulkanTimelineWin32};

// An NT handle of `kImportBytes` bytes, closed by its owner at the end, which finds it open.
class NtMemory {
 public:
  explicit NtMemory(ExternalMemoryKind kind) : handle_{.kind = kind, .type = HandleType::kNtHandle} {
    handle_.pointer = fake::make_nt_memory(kSize);
  }
  ~NtMemory() {
    EXPECT_TRUE(fake::nt_is_open(handle_.pointer)) << external_memory_kind_name(handle_.kind);
    fake::close_nt(handle_.pointer);
  }
  const ExternalHandle& handle() const { return handle_; }
  std::byte* view() const { return fake::nt_view(handle_.pointer); }

 private:
  ExternalHandle handle_;
};

// S2: which system's driver takes which kinds.
TEST_F(CudaImporterTest, NtKindsAreWindowsAndFileDescriptorsAreNot) {
  const CudaDevice& device = *memory_->device();
  for (const ExternalMemoryKind kind : kNtKinds) {
    EXPECT_TRUE(can_import(device, kind, HandleSystem::kWindows));
    EXPECT_FALSE(can_import(device, kind, HandleSystem::kPosix));
  }
  for (const ExternalMemoryKind kind : {ExternalMemoryKind::kVulkanOpaqueFd, ExternalMemoryKind::kMappableFd,
                                        ExternalMemoryKind::kCudaVmmFd, ExternalMemoryKind::kCudaIpc}) {
    EXPECT_FALSE(can_import(device, kind, HandleSystem::kWindows));
    EXPECT_TRUE(can_import(device, kind, HandleSystem::kPosix));
  }
  EXPECT_TRUE(can_import(device, ExternalMemoryKind::kHostAllocation, HandleSystem::kWindows));
  for (const TimelineKind type : kNtFences) {
    EXPECT_TRUE(can_import(type, HandleSystem::kWindows));
    EXPECT_FALSE(can_import(type, HandleSystem::kPosix));
  }
  EXPECT_FALSE(can_import(TimelineKind::kVulkanTimelineFd, HandleSystem::kWindows));
}

// S2: NT handles stay the caller's; a resource is a dedicated allocation, a heap is not (the fake driver checks that).
TEST_F(CudaImporterTest, NtMemoryIsSharedAtItsOffset) {
  for (const ExternalMemoryKind kind : kNtKinds) {
    const NtMemory memory(kind);
    const int64_t objects = fake::live_objects();
    for (int round = 0; round < 2; ++round) {
      auto imported = import(memory.handle(), 4096, 4096);
      ASSERT_THAT(imported, is_ok());
      *static_cast<char*>((*imported)->address()) = static_cast<char>(5 + round);
      EXPECT_EQ(static_cast<char>(memory.view()[4096]), 5 + round);
      imported = invalid_argument("released");
      EXPECT_EQ(fake::live_objects(), objects);
    }
    EXPECT_THAT(import(memory.handle(), 2 * kSize), has_status(StatusCode::kInvalidArgument));
    EXPECT_THAT(import(memory.handle(), kSize, 1), has_status(StatusCode::kInvalidArgument));
  }
}

// S2: of Vulkan's memory only the program knows whether it is dedicated.
TEST_F(CudaImporterTest, DedicatedMemoryIsImportedAsSuch) {
  const NtMemory memory(ExternalMemoryKind::kVulkanOpaqueWin32);
  for (const bool dedicated : {false, true}) {
    ExternalHandle handle = memory.handle();
    handle.dedicated = dedicated;
    ASSERT_THAT(import(handle), is_ok());
    EXPECT_EQ(fake::imported_flags(), dedicated ? CUDA_EXTERNAL_MEMORY_DEDICATED : 0U);
  }
}

// S1.3: the driver has a reference of its own, so the caller may close its handle at once.
TEST_F(CudaImporterTest, AnImportOutlivesTheCallersNtHandle) {
  for (const ExternalMemoryKind kind : kNtKinds) {
    ExternalHandle handle{.kind = kind, .type = HandleType::kNtHandle};
    handle.pointer = fake::make_nt_memory(kSize);
    const auto imported = import(handle);
    ASSERT_THAT(imported, is_ok());
    fake::close_nt(handle.pointer);
    *static_cast<char*>((*imported)->address()) = 9;
    EXPECT_EQ(static_cast<char>(*fake::nt_view(handle.pointer)), 9);
    // The system may give the number to another object at any time, the import's own among them. Then a later step
    // fails.
    if (!fake::nt_is_open(handle.pointer)) {
      EXPECT_THAT(import(handle),
                  has_status(StatusCode::kInvalidArgument, HasSubstr("nothing that the driver can import")));
    }
  }
}

// S1.3
TEST_F(CudaImporterTest, AFailureAtAnyStepLeavesTheNtHandleOpenAndNothingElse) {
  for (const ExternalMemoryKind kind : kNtKinds) {
    int failures = 0;
    for (int nth = 1;; ++nth) {
      ASSERT_LT(nth, 100);
      const NtMemory memory(kind);
      const int64_t objects = fake::live_objects();
      FaultInjection fault(nth);
      const auto imported = import(memory.handle());
      if (!fault.fired()) {
        EXPECT_THAT(imported, is_ok());
        break;
      }
      ++failures;
      EXPECT_FALSE(imported.ok()) << fault.fired_at();
      EXPECT_EQ(fake::live_objects(), objects) << fault.fired_at();
    }
    EXPECT_GE(failures, 2) << external_memory_kind_name(kind);
  }
}

// S1.5: waits and signals are queued; the fence's handle stays the caller's.
TEST_F(CudaImporterTest, NtFencesAreWaitedForAndSignalledInOrder) {
  for (const TimelineKind type : kNtFences) {
    const auto stream = make_stream();
    const auto timeline = make_host_timeline("fence").value();
    void* const fence = fake::make_nt_fence(timeline);
    const auto semaphore = import(type, fence).value();
    ASSERT_THAT(semaphore->wait(*stream, 3), is_ok());
    ASSERT_THAT(semaphore->signal(*stream, 4), is_ok());
    EXPECT_FALSE(stream->idle());
    EXPECT_EQ(timeline->value().value(), 0U);
    ASSERT_THAT(timeline->signal(3), is_ok());
    EXPECT_THAT(timeline->wait(4, 5'000'000'000), is_ok());
    EXPECT_THAT(stream->synchronize(), is_ok());
    EXPECT_TRUE(fake::nt_is_open(fence));
    fake::close_nt(fence);
    if (!fake::nt_is_open(fence)) {
      EXPECT_THAT(import(type, fence),
                  has_status(StatusCode::kInvalidArgument, HasSubstr("cuImportExternalSemaphore")));
    }
    EXPECT_THAT(import(type, nullptr), has_status(StatusCode::kInvalidArgument, HasSubstr("null")));
  }
}

// Imports that a stream may still use are released when it has passed that use, and the release does not wait.
TEST_F(CudaImporterTest, ReleasedNtImportsOutliveTheQueuedWork) {
  const auto stream = make_stream();
  const NtMemory memory(ExternalMemoryKind::kD3d12Resource);
  const auto timeline = make_host_timeline("fence").value();
  auto semaphore = import(TimelineKind::kD3d12Fence, fake::make_nt_fence(timeline)).value();
  const int64_t before = fake::live_objects();
  auto imported = import(memory.handle());
  ASSERT_THAT(imported, is_ok());
  ASSERT_THAT(semaphore->wait(*stream, 1), is_ok());
  fill(**imported, 9, *stream);
  imported = invalid_argument("released");
  semaphore = nullptr;
  EXPECT_GT(fake::live_objects(), before);
  ASSERT_THAT(timeline->signal(1), is_ok());
  ASSERT_THAT(stream->synchronize(), is_ok());
  EXPECT_EQ(static_cast<char>(memory.view()[kSize - 1]), 9);
  const int64_t destroyed = fake::calls("cuDestroyExternalMemory");
  for (int i = 0; i < 1000 && fake::calls("cuDestroyExternalMemory") == destroyed; ++i) memory_->collect();
  EXPECT_EQ(fake::calls("cuDestroyExternalMemory"), destroyed + 1);
}

// S2: where a UUID is known, another device's memory is refused, naming both.
TEST_F(CudaImporterTest, AnotherDevicesMemoryIsRefusedNamingBoth) {
  const NtMemory memory(ExternalMemoryKind::kVulkanOpaqueWin32);
  ExternalHandle handle = memory.handle();
  handle.device_uuid = DeviceUuid{1, 2, 3};
  EXPECT_THAT(import(handle), has_status(StatusCode::kInvalidArgument,
                                         AllOf(HasSubstr(uuid_text({1, 2, 3})), HasSubstr(uuid_text(uuid_)))));
  handle.device_uuid = uuid_;
  EXPECT_THAT(import(handle), is_ok());
}

// The driver's LUID of a device, which Windows' drivers have.
TEST_F(CudaImporterTest, TheDriverTellsTheAdaptersLuid) {
  const auto info = describe_device(fake::driver(), 0);
  ASSERT_THAT(info, is_ok());
  ASSERT_TRUE(info->luid.has_value());
  EXPECT_EQ(luid_text(*info->luid), "a0a1a2a3a4a5a600");
  EXPECT_FALSE(info->integrated);
}

// The EP declares the memory of such a device unified (cuda_factory.cc).
TEST_F(CudaImporterTest, TheDriverTellsWhetherTheDeviceWorksInTheHostsMemory) {
  fake::configure({.integrated = true});
  const auto info = describe_device(fake::driver(), 0);
  ASSERT_THAT(info, is_ok());
  EXPECT_TRUE(info->integrated);
}

TEST_F(CudaImporterTest, HostMemoryIsRegisteredOnce) {
  void* const pages = ::operator new(kSize, std::align_val_t{4096});
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
  ::operator delete(pages, std::align_val_t{4096});
}

// A page is registered once. What lies in part on pages of another import would be taken for registered as a whole,
// and the device would fault where it ends.
TEST_F(CudaImporterTest, PagesThatAnotherImportHasInPartAreRefused) {
  auto* const pages = static_cast<char*>(::operator new(kSize, std::align_val_t{4096}));
  ExternalHandle handle{.kind = ExternalMemoryKind::kHostAllocation, .type = HandleType::kPointer};
  handle.pointer = pages;
  const int64_t before = fake::live_objects();
  {
    const auto first = import(handle, 6000).value();  // two pages
    EXPECT_THAT(import(handle, 6000, 6000), has_status(StatusCode::kUnsupported, HasSubstr("registered once only")));
    EXPECT_THAT(import(handle, kSize), has_status(StatusCode::kUnsupported, HasSubstr("registered once only")));
    EXPECT_THAT(import(handle, 4096, 8192), is_ok());
  }
  EXPECT_THAT(import(handle, 6000, 6000), is_ok());
  handle.read_only = true;
  {
    const auto reader = import(handle).value();
    handle.read_only = false;
    EXPECT_THAT(import(handle), has_status(StatusCode::kUnsupported, HasSubstr("for reading")));
  }
  EXPECT_EQ(fake::live_objects(), before);
  ::operator delete(pages, std::align_val_t{4096});
}

// The program's own page-locked memory is used as it is, as far as it goes.
TEST_F(CudaImporterTest, PinnedMemoryOfTheProgramEndsWhereTheProgramSaysSo) {
  auto* const pages = static_cast<char*>(::operator new(kSize, std::align_val_t{4096}));
  const auto scope = ContextScope::enter(*memory_->device());
  ASSERT_EQ(fake::driver().MemHostRegister(pages, 8192, 0), CUDA_SUCCESS);
  ExternalHandle handle{.kind = ExternalMemoryKind::kHostAllocation, .type = HandleType::kPointer};
  handle.pointer = pages;
  EXPECT_THAT(import(handle, 8192), is_ok());
  EXPECT_THAT(import(handle, 8193), has_status(StatusCode::kInvalidArgument, HasSubstr("only a part is page-locked")));
  ASSERT_EQ(fake::driver().MemHostUnregister(pages), CUDA_SUCCESS);
  ::operator delete(pages, std::align_val_t{4096});
}

TEST_F(CudaImporterTest, AddressesThatAreNoneAreInvalidArguments) {
  ExternalHandle nothing{.kind = ExternalMemoryKind::kHostAllocation, .type = HandleType::kPointer};
  nothing.pointer = reinterpret_cast<void*>(4096);
  EXPECT_THAT(import(nothing), has_status(StatusCode::kInvalidArgument, HasSubstr("0x1000")));
  EXPECT_THAT(import(nothing, SIZE_MAX - 4096), has_status(StatusCode::kInvalidArgument, HasSubstr("address space")));
}

}  // namespace
}  // namespace tenon::cuda
