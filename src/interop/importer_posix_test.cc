#include "interop/importer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <tenon/external_handles.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "base/fault.h"
#include "base/testing.h"
#include "interop/dlpack_types.h"
#include "interop/external_handle.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kSize = 8192;

OwnedHandle memfd(size_t size = kSize) {
  OwnedHandle handle = OwnedHandle::take_fd(::memfd_create("tenon-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(handle.fd(), static_cast<off_t>(size)), 0);
  return handle;
}

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }
void* as_handle(int fd) { return reinterpret_cast<void*>(static_cast<intptr_t>(fd)); }

TenonExternalMemoryInfo info_of(uint32_t kind) {
  TenonExternalMemoryInfo info = {};
  info.version = TENON_EXTERNAL_MEMORY_INFO_VERSION;
  info.kind = kind;
  return info;
}

TenonExternalMemoryInfo fd_info(int fd) {
  TenonExternalMemoryInfo info = info_of(TENON_EXTERNAL_MEMORY_MAPPABLE_FD);
  info.handle.fd = fd;
  return info;
}

// S1.3: each field that is wrong is named with its value, and the caller's handle stays open.
TEST(ReadExternalHandle, RefusesEachWrongField) {
  OwnedHandle handle = memfd();
  struct {
    std::function<void(TenonExternalMemoryInfo&)> spoil;
    const char* text;
  } const cases[] = {
      {[](auto& info) { info.version = 0; }, "version (0)"},
      {[](auto& info) { info.version = 2; }, "version (2)"},
      {[](auto& info) { info.kind = TENON_EXTERNAL_MEMORY_DLPACK; }, "kind (0x544e0002)"},
      {[](auto& info) { info.flags = 8; }, "flags (0x8)"},
      {[](auto& info) { info.flags = TENON_EXTERNAL_MEMORY_DLPACK_VERSIONED; }, "flags"},
      {[](auto& info) { info.dedicated = 2; }, "dedicated (2)"},
      {[](auto& info) { info.handle.fd = -1; }, "handle.fd (-1)"},
  };
  for (const auto& test : cases) {
    TenonExternalMemoryInfo info = fd_info(handle.fd());
    test.spoil(info);
    EXPECT_THAT(import_memory(TENON_EXTERNAL_MEMORY_MAPPABLE_FD, &info, kSize, 0),
                has_status(StatusCode::kInvalidArgument, HasSubstr(test.text)));
    EXPECT_TRUE(is_open(handle.fd()));
  }
  EXPECT_THAT(import_memory(TENON_EXTERNAL_MEMORY_MAPPABLE_FD, nullptr, kSize, 0),
              has_status(StatusCode::kInvalidArgument, HasSubstr("native_handle is null")));
  TenonExternalMemoryInfo empty = info_of(TENON_EXTERNAL_MEMORY_HOST_ALLOCATION);
  EXPECT_THAT(import_memory(TENON_EXTERNAL_MEMORY_HOST_ALLOCATION, &empty, kSize, 0),
              has_status(StatusCode::kInvalidArgument, HasSubstr("handle is null")));
}

// S1.2: kinds that the CPU cannot import, and values outside the enums.
TEST(CanImport, SaysNoBeforeAnImportDoes) {
  for (uint32_t kind :
       {0u, 1u, 2u, 4u, TENON_EXTERNAL_MEMORY_CUDA_IPC, TENON_EXTERNAL_MEMORY_CUDA_VMM_FD, 0x544E0077u, 0xffffffffu}) {
    EXPECT_FALSE(can_import_memory(kind));
    int local = 0;
    EXPECT_THAT(import_memory(kind, &local, kSize, 0), has_status(StatusCode::kUnsupported));
  }
  for (uint32_t type : {0u, 1u, 2u, 3u, 0x544E0002u, 0xffffffffu}) {
    EXPECT_FALSE(can_import_semaphore(type));
    EXPECT_THAT(import_semaphore(type, nullptr), has_status(StatusCode::kUnsupported));
  }
  // A described kind is asked for inside.
  EXPECT_TRUE(can_import_memory(TENON_EXTERNAL_MEMORY_DESCRIBED));
  TenonExternalMemoryInfo inner = info_of(0);
  inner.handle.nt_handle = &inner;
  EXPECT_THAT(import_memory(TENON_EXTERNAL_MEMORY_DESCRIBED, &inner, kSize, 0),
              has_status(StatusCode::kUnsupported, HasSubstr("d3d12_resource")));
}

// S1.3: for fd kinds native_handle is the integer.
TEST(ImportMemory, TakesAnFdAndGivesItBackOnlyWithTheImport) {
  FdCount fds;
  OwnedHandle handle = memfd();
  const int fd = handle.fd();
  {
    auto memory =
        import_memory(static_cast<uint32_t>(ExternalMemoryKind::kVulkanOpaqueFd), as_handle(fd), 4096, 4096).value();
    EXPECT_FALSE(is_open(fd));
    EXPECT_EQ(handle.release_fd(), fd);
    EXPECT_EQ(memory->size_bytes(), 4096u);
    static_cast<char*>(memory->data())[0] = 1;
  }
  EXPECT_EQ(fds.opened_since(), 0);
}

// S1.3: 0 is a valid fd, and its native_handle is a null pointer.
TEST(ImportMemory, TakesFdZero) {
  OwnedHandle handle = memfd();
  const int saved = ::fcntl(0, F_DUPFD_CLOEXEC, 3);
  ASSERT_EQ(::dup2(handle.fd(), 0), 0);
  auto memory = import_memory(static_cast<uint32_t>(ExternalMemoryKind::kVulkanOpaqueFd), nullptr, kSize, 0);
  EXPECT_THAT(memory, is_ok());
  EXPECT_FALSE(is_open(0));
  if (saved >= 0) {
    ::dup2(saved, 0);
    ::close(saved);
  }
}

// S2: a described plain kind means the same as the plain one.
TEST(ImportMemory, ReadsADescribedKindAndReadOnly) {
  OwnedHandle handle = memfd();
  TenonExternalMemoryInfo info = fd_info(handle.fd());
  info.flags = TENON_EXTERNAL_MEMORY_READ_ONLY;
  info.dedicated = 1;
  info.device_uuid[0] = 0xab;
  auto memory = import_memory(TENON_EXTERNAL_MEMORY_DESCRIBED, &info, kSize, 0).value();
  (void)handle.release_fd();
  EXPECT_FALSE(memory->writable());
  const ExternalHandle native = read_external_handle(TENON_EXTERNAL_MEMORY_DESCRIBED, &info).value();
  EXPECT_TRUE(native.dedicated);
  EXPECT_EQ(uuid_text(*native.device_uuid), "ab000000-0000-0000-0000-000000000000");
}

struct DlpackProducer {
  DlpackProducer() {
    managed.dl_tensor = {.data = data,
                         .device = {.device_type = kDLCPU, .device_id = 0},
                         .ndim = 1,
                         .dtype = {.code = kDlpackFloat, .bits = 32, .lanes = 1},
                         .shape = &count,
                         .strides = nullptr,
                         .byte_offset = 0};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* self) { ++static_cast<DlpackProducer*>(self->manager_ctx)->deleted; };
  }
  alignas(16) float data[4] = {0, 1, 2, 3};
  int64_t count = 4;
  DLManagedTensor managed{};
  int deleted = 0;
};

// S2: a DLPack tensor is the import's after success, and its deleter runs once, after the last tensor.
TEST(ImportMemory, TakesADlpackTensorOnce) {
  DlpackProducer producer;
  TenonExternalMemoryInfo info = info_of(TENON_EXTERNAL_MEMORY_DLPACK);
  info.handle.dlpack = &producer.managed;
  EXPECT_THAT(import_memory(TENON_EXTERNAL_MEMORY_DLPACK, &info, 17, 0),
              has_status(StatusCode::kInvalidArgument, AllOf(HasSubstr("(17)"), HasSubstr("16 bytes"))));
  EXPECT_EQ(producer.deleted, 0);
  auto memory = import_memory(TENON_EXTERNAL_MEMORY_DLPACK, &info, 8, 8).value();
  Tensor tensor = ExternalMemory::create_tensor(memory, DataType::kFloat, {2}).value();
  memory.reset();
  EXPECT_EQ(tensor.data_as<float>()[1], 3.0f);
  EXPECT_EQ(producer.deleted, 0);
  tensor = Tensor();
  EXPECT_EQ(producer.deleted, 1);
}

// Every step that can fail, for each kind: a clean status, the handle is the caller's, nothing is left over.
TEST(ImportMemory, EveryStepMayFail) {
  FdCount fds;
  OwnedHandle handle = memfd();
  DlpackProducer producer;
  TenonExternalMemoryInfo dlpack = info_of(TENON_EXTERNAL_MEMORY_DLPACK);
  dlpack.handle.dlpack = &producer.managed;
  int steps = 0;
  for (const uint32_t kind : {TENON_EXTERNAL_MEMORY_MAPPABLE_FD, TENON_EXTERNAL_MEMORY_DLPACK}) {
    const bool is_fd = kind == TENON_EXTERNAL_MEMORY_MAPPABLE_FD;
    TenonExternalMemoryInfo info = is_fd ? fd_info(handle.fd()) : dlpack;
    for (int n = 1;; ++n) {
      FaultInjection fault(n);
      auto memory = import_memory(kind, &info, 16, 0);
      if (!fault.fired()) {
        EXPECT_THAT(memory, is_ok());
        break;
      }
      ++steps;
      EXPECT_THAT(memory, has_status(StatusCode::kResourceExhausted, HasSubstr(fault.fired_at())));
      EXPECT_EQ(producer.deleted, 0);
      EXPECT_EQ(is_open(handle.fd()), is_fd);
      EXPECT_EQ(fds.opened_since(), is_fd ? 1 : 0);
    }
  }
  EXPECT_GE(steps, 4);
  (void)handle.release_fd();
  EXPECT_EQ(producer.deleted, 1);
  EXPECT_EQ(fds.opened_since(), 0);
}

// A program's own timeline behind callbacks.
struct Program {
  std::shared_ptr<Timeline> timeline = make_host_timeline("program").value();
  int released = 0;

  TenonTimelineCallbacks callbacks() {
    TenonTimelineCallbacks callbacks = {};
    callbacks.version = TENON_TIMELINE_CALLBACKS_VERSION;
    callbacks.user_data = this;
    callbacks.value = [](void* self, uint64_t* out) -> int32_t {
      *out = static_cast<Program*>(self)->timeline->value().value();
      return TENON_TIMELINE_OK;
    };
    callbacks.wait = [](void* self, uint64_t value, int64_t timeout_ns) -> int32_t {
      const Status status = static_cast<Program*>(self)->timeline->wait(value, timeout_ns);
      return status.ok() ? TENON_TIMELINE_OK : TENON_TIMELINE_TIMEOUT;
    };
    callbacks.signal = [](void* self, uint64_t value) -> int32_t {
      return static_cast<Program*>(self)->timeline->signal(value).ok() ? TENON_TIMELINE_OK : 7;
    };
    callbacks.release = [](void* self) { ++static_cast<Program*>(self)->released; };
    return callbacks;
  }
};

TEST(ImportSemaphore, ReachesAProgramThroughItsCallbacks) {
  Program program;
  {
    TenonTimelineCallbacks callbacks = program.callbacks();
    auto timeline = import_semaphore(TENON_EXTERNAL_SEMAPHORE_HOST_CALLBACKS, &callbacks).value();
    callbacks = {};  // the import has a copy
    EXPECT_THAT(timeline->signal(3), is_ok());
    EXPECT_EQ(program.timeline->value().value(), 3u);
    EXPECT_THAT(timeline->wait(3, 0), is_ok());
    EXPECT_THAT(timeline->wait(4, 0), has_status(StatusCode::kTimeout));
    EXPECT_THAT(timeline->signal(3), has_status(StatusCode::kDeviceError, HasSubstr("7")));
    EXPECT_EQ(program.released, 0);
  }
  EXPECT_EQ(program.released, 1);
}

TEST(ImportSemaphore, RefusesIncompleteCallbacksAndReleasesNothing) {
  Program program;
  TenonTimelineCallbacks callbacks = program.callbacks();
  callbacks.wait = nullptr;
  EXPECT_THAT(import_semaphore(TENON_EXTERNAL_SEMAPHORE_HOST_CALLBACKS, &callbacks),
              has_status(StatusCode::kInvalidArgument, HasSubstr("wait is null")));
  callbacks = program.callbacks();
  callbacks.version = 9;
  EXPECT_THAT(import_semaphore(TENON_EXTERNAL_SEMAPHORE_HOST_CALLBACKS, &callbacks),
              has_status(StatusCode::kInvalidArgument, HasSubstr("version (9)")));
  EXPECT_THAT(import_semaphore(TENON_EXTERNAL_SEMAPHORE_HOST_CALLBACKS, nullptr),
              has_status(StatusCode::kInvalidArgument, HasSubstr("null")));
  EXPECT_EQ(program.released, 0);
}

// S1.5, S1.3: a shared timeline's fd is the import's after success and the caller's after a failure.
TEST(ImportSemaphore, TakesASharedTimelinesFd) {
  FdCount fds;
  {
    auto timeline = SharedTimeline::create("frames").value();
    OwnedHandle handle = OwnedHandle::take_fd(::dup(timeline->fd()));
    auto imported = import_semaphore(TENON_EXTERNAL_SEMAPHORE_SHARED_TIMELINE_FD, as_handle(handle.fd())).value();
    EXPECT_FALSE(is_open(handle.fd()));
    (void)handle.release_fd();
    EXPECT_THAT(imported->signal(2), is_ok());
    EXPECT_THAT(timeline->wait(2, 0), is_ok());
  }
  EXPECT_EQ(fds.opened_since(), 0);
  OwnedHandle wrong = memfd();
  EXPECT_THAT(import_semaphore(TENON_EXTERNAL_SEMAPHORE_SHARED_TIMELINE_FD, as_handle(wrong.fd())),
              has_status(StatusCode::kInvalidArgument, HasSubstr("8192 bytes")));
  EXPECT_TRUE(is_open(wrong.fd()));
  EXPECT_THAT(import_semaphore(TENON_EXTERNAL_SEMAPHORE_SHARED_TIMELINE_FD, as_handle(-1)),
              has_status(StatusCode::kInvalidArgument, HasSubstr("(-1)")));
}

}  // namespace
}  // namespace tenon
