#include <fcntl.h>
#include <sys/mman.h>
#include <tenon/importer.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

#include "base/fault.h"
#include "base/testing.h"
#include "interop/handle_table.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kSize = 65536;

int make_memfd(size_t size = kSize, unsigned seals = 0) {
  const int fd = ::memfd_create("tenon-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  EXPECT_EQ(::ftruncate(fd, static_cast<off_t>(size)), 0);
  EXPECT_EQ(::fcntl(fd, F_ADD_SEALS, seals), 0);
  return fd;
}

OwnedHandle memfd(size_t size = kSize, unsigned seals = 0) { return OwnedHandle::take_fd(make_memfd(size, seals)); }

ExternalMemoryDescriptor layout(size_t size, size_t offset = 0) {
  return {.kind = ExternalMemoryKind::kMappableFd, .size_bytes = size, .offset_bytes = offset, .name = "x"};
}

std::shared_ptr<ExternalMemory> imported(size_t size = kSize, size_t offset = 0) {
  OwnedHandle handle = memfd(size + offset);
  return Importer::host().import_memory(handle, layout(size, offset)).value();
}

TEST(HandleTable, NamesEveryKindOnce) {
  for (const HandleKindRow& row : kHandleKinds) {
    EXPECT_EQ(find_handle_kind(row.kind), &row);
    EXPECT_EQ(external_memory_kind_name(row.kind), row.name);
  }
  EXPECT_EQ(external_memory_kind_name(static_cast<ExternalMemoryKind>(77)), "kind 0x4d");
  for (const TimelineKindRow& row : kTimelineKinds) {
    EXPECT_EQ(find_handle_kind(row.kind), &row);
    EXPECT_EQ(timeline_kind_name(row.kind), row.name);
  }
  EXPECT_EQ(timeline_kind_name(static_cast<TimelineKind>(77)), "kind 0x4d");
}

// S1.2: what cannot be imported says so before and after, also outside the enum, and the handle stays the caller's.
TEST(CanImport, AnswersForEveryKindAndForValuesOutsideTheEnum) {
  using Kind = ExternalMemoryKind;
  EXPECT_TRUE(Importer::host().can_import(Kind::kHostAllocation));
  EXPECT_TRUE(Importer::host().can_import(Kind::kMappableFd));
  EXPECT_TRUE(Importer::host().can_import(Kind::kVulkanOpaqueFd));
  // NOLINTBEGIN(clang-analyzer-optin.core.EnumCastOutOfRange): values that a caller in C may give.
  const Kind kinds[] = {Kind::kD3d12Resource,         Kind::kD3d12Heap, Kind::kVulkanOpaqueWin32,
                        static_cast<Kind>(4),         Kind::kCudaIpc,   static_cast<Kind>(0x544E0077),
                        static_cast<Kind>(0xffffffff)};
  // NOLINTEND(clang-analyzer-optin.core.EnumCastOutOfRange)
  for (Kind kind : kinds) {
    EXPECT_FALSE(Importer::host().can_import(kind));
    OwnedHandle handle = memfd();
    ExternalMemoryDescriptor descriptor = layout(kSize);
    descriptor.kind = kind;
    EXPECT_THAT(Importer::host().import_memory(handle, descriptor),
                has_status(StatusCode::kUnsupported, HasSubstr(external_memory_kind_name(kind))));
    EXPECT_GE(::fcntl(handle.fd(), F_GETFD), 0);
  }
}

// S1.3: on OK the import has the only reference: the caller's handle is empty, and all goes with the import.
TEST(ImportMemory, ConsumesTheFdAndGivesEverythingBack) {
  FdCount fds;
  {
    OwnedHandle handle = memfd();
    const int fd = handle.fd();
    auto memory = Importer::host().import_memory(handle, layout(kSize)).value();
    EXPECT_FALSE(handle.valid());
    EXPECT_LT(::fcntl(fd, F_GETFD), 0);
    EXPECT_EQ(fds.opened_since(), 1);
    EXPECT_EQ(count_mappings("memfd:tenon-test"), 1);
    EXPECT_EQ(memory->size_bytes(), kSize);
    EXPECT_EQ(memory->name(), "x");
    EXPECT_EQ(memory->kind(), ExternalMemoryKind::kMappableFd);
  }
  EXPECT_EQ(fds.opened_since(), 0);
  EXPECT_EQ(count_mappings("memfd:tenon-test"), 0);
}

TEST(ImportMemory, FdZeroIsAValidFd) {
  const int saved = ::fcntl(0, F_DUPFD_CLOEXEC, 3);
  const int fd = make_memfd();
  ASSERT_EQ(::dup2(fd, 0), 0);
  ::close(fd);
  OwnedHandle handle = OwnedHandle::take_fd(0);
  EXPECT_TRUE(handle.valid());
  EXPECT_THAT(Importer::host().import_memory(handle, layout(kSize)), is_ok());
  if (saved >= 0) {
    ::dup2(saved, 0);
    ::close(saved);
  }
}

// S1.3: each misuse is kInvalidArgument (or kUnsupported) with the values, the fd stays open and nothing is left
// behind.
TEST(ImportMemory, RefusesEveryMisuseAndLeavesTheCallersFdOpen) {
  struct Case {
    size_t size, offset;
    const char* text;
  };
  for (const Case& c : {Case{0, 0, "size of \"x\" (mappable_fd) is 0"}, Case{kSize + 1, 0, "65537"},
                        Case{kSize, 1, "Offset (1) plus size (65536)"}, Case{1, kSize, "Offset (65536) plus size (1)"},
                        Case{SIZE_MAX, 1, "overflow"}, Case{8, SIZE_MAX - 3, "overflow"},
                        Case{size_t{1} << 63, 0, "overflow"}, Case{static_cast<size_t>(-8), 0, "overflow"}}) {
    FdCount fds;
    OwnedHandle handle = memfd();
    EXPECT_THAT(Importer::host().import_memory(handle, layout(c.size, c.offset)),
                has_status(StatusCode::kInvalidArgument, HasSubstr(c.text)));
    EXPECT_GE(::fcntl(handle.fd(), F_GETFD), 0);
    EXPECT_EQ(fds.opened_since(), 1);
    EXPECT_EQ(count_mappings("memfd:tenon-test"), 0);
  }
}

TEST(ImportMemory, RefusesEmptyClosedAndMistakenHandles) {
  OwnedHandle empty;
  EXPECT_THAT(Importer::host().import_memory(empty, layout(8)),
              has_status(StatusCode::kInvalidArgument, HasSubstr("empty")));

  const int fd = make_memfd();
  OwnedHandle closed = OwnedHandle::take_fd(fd);
  ::close(fd);
  EXPECT_THAT(Importer::host().import_memory(closed, layout(8)),
              has_status(StatusCode::kInvalidArgument, AllOf(HasSubstr(std::to_string(fd)), HasSubstr("not open"))));
  (void)closed.release_fd();

  int value = 0;
  OwnedHandle pointer = OwnedHandle::borrow_pointer(&value);
  EXPECT_THAT(Importer::host().import_memory(pointer, layout(4)),
              has_status(StatusCode::kInvalidArgument, HasSubstr("pointer")));
  OwnedHandle handle = memfd();
  ExternalMemoryDescriptor host = layout(4);
  host.kind = ExternalMemoryKind::kHostAllocation;
  EXPECT_THAT(Importer::host().import_memory(handle, host),
              has_status(StatusCode::kInvalidArgument, HasSubstr("file descriptor")));
}

TEST(ImportMemory, RefusesDescriptorsThatDoNotMap) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  OwnedHandle reader = OwnedHandle::take_fd(ends[0]), writer = OwnedHandle::take_fd(ends[1]);
  EXPECT_THAT(Importer::host().import_memory(reader, layout(8)),
              has_status(StatusCode::kUnsupported, HasSubstr("mapped")));
  OwnedHandle directory = OwnedHandle::take_fd(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_THAT(Importer::host().import_memory(directory, layout(8)), has_status(StatusCode::kUnsupported));
  OwnedHandle device = OwnedHandle::take_fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_THAT(Importer::host().import_memory(device, layout(8)), has_status(StatusCode::kUnsupported));
  EXPECT_TRUE(reader.valid() && directory.valid() && device.valid());
}

TEST(ImportMemory, ReadOnlyFdsGiveReadOnlyMemoryAndNothingElse) {
  OwnedHandle writable = memfd();
  const std::string path = "/proc/self/fd/" + std::to_string(writable.fd());
  OwnedHandle handle = OwnedHandle::take_fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ExternalMemoryDescriptor descriptor = layout(kSize);
  EXPECT_THAT(Importer::host().import_memory(handle, descriptor),
              has_status(StatusCode::kInvalidArgument, HasSubstr("reading only")));
  descriptor.writable = false;
  auto memory = Importer::host().import_memory(handle, descriptor).value();
  EXPECT_FALSE(memory->writable());
  EXPECT_TRUE(ExternalMemory::create_tensor(memory, DataType::kFloat, {4})->read_only());

  OwnedHandle write_only = OwnedHandle::take_fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  EXPECT_THAT(Importer::host().import_memory(write_only, layout(8)), has_status(StatusCode::kInvalidArgument));
  OwnedHandle sealed = memfd(kSize, F_SEAL_WRITE);
  EXPECT_THAT(Importer::host().import_memory(sealed, layout(8)),
              has_status(StatusCode::kInvalidArgument, HasSubstr("sealed")));
}

TEST(ImportMemory, AnyOffsetReachesItsOwnBytes) {
  for (size_t offset : {0, 1, 64, 4095, 4096, 4097, 12345}) {
    OwnedHandle handle = memfd();
    const int fd = handle.fd();
    const char text[] = "tenon";
    ASSERT_EQ(::pwrite(fd, text, sizeof(text), static_cast<off_t>(offset)), static_cast<ssize_t>(sizeof(text)));
    auto memory = Importer::host().import_memory(handle, layout(kSize - offset, offset)).value();
    EXPECT_STREQ(static_cast<const char*>(memory->data()), text) << offset;
    static_cast<char*>(memory->data())[kSize - offset - 1] = 7;  // the last byte is ours too
  }
}

// S6.2: no copy: what one side writes through its own mapping is there on the other.
TEST(ImportMemory, SharesThePagesWithTheCallersOwnMapping) {
  OwnedHandle handle = memfd();
  auto* mine = static_cast<float*>(::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, handle.fd(), 0));
  auto memory = Importer::host().import_memory(handle, layout(kSize - 256, 256)).value();
  Tensor tensor = ExternalMemory::create_tensor(memory, DataType::kFloat, {16}, 64).value();
  mine[80] = 1.5f;
  EXPECT_EQ(tensor.data_as<float>()[0], 1.5f);
  tensor.data_as<float>()[1] = 2.5f;
  EXPECT_EQ(mine[81], 2.5f);
  ::munmap(mine, kSize);
}

TEST(ImportMemory, TakesPosixSharedMemoryAndFiles) {
  const std::string name = "/tenon-test-" + std::to_string(::getpid());
  OwnedHandle shared = OwnedHandle::take_fd(::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600));
  ::shm_unlink(name.c_str());
  ASSERT_EQ(::ftruncate(shared.fd(), 4096), 0);
  EXPECT_THAT(Importer::host().import_memory(shared, layout(4096)), is_ok());

  std::string path = ::testing::TempDir() + "tenon-file-XXXXXX";
  OwnedHandle file = OwnedHandle::take_fd(::mkstemp(path.data()));
  ::unlink(path.c_str());
  ASSERT_EQ(::ftruncate(file.fd(), 5000), 0);
  auto memory = Importer::host().import_memory(file, layout(904, 4096)).value();
  static_cast<char*>(memory->data())[903] = 1;
}

TEST(ImportMemory, AHostAllocationStaysTheCallers) {
  std::vector<float> floats(16, 3.0f);
  ExternalMemoryDescriptor descriptor{
      .kind = ExternalMemoryKind::kHostAllocation, .size_bytes = 32, .offset_bytes = 16, .name = "frame"};
  OwnedHandle handle = OwnedHandle::borrow_pointer(floats.data());
  auto memory = Importer::host().import_memory(handle, descriptor).value();
  EXPECT_FALSE(handle.valid());
  EXPECT_EQ(memory->data(), floats.data() + 4);
  memory.reset();
  EXPECT_EQ(floats[15], 3.0f);

  handle = OwnedHandle::borrow_pointer(floats.data());
  descriptor.size_bytes = SIZE_MAX - 8;
  EXPECT_THAT(Importer::host().import_memory(handle, descriptor),
              has_status(StatusCode::kInvalidArgument, HasSubstr("wrap")));
  descriptor.size_bytes = 0;
  EXPECT_THAT(Importer::host().import_memory(handle, descriptor),
              has_status(StatusCode::kInvalidArgument, HasSubstr("is 0")));
  EXPECT_EQ(handle.pointer(), floats.data());
}

// S1.3: fail the 1st, 2nd, ... step: nothing is left over, the fd stays the caller's, and the next import is right.
TEST(ImportMemory, AFailedStepCostsTheCallerNothing) {
  int failed = 0;
  for (int n = 1;; ++n) {
    FdCount fds;
    OwnedHandle handle = memfd();
    {
      FaultInjection fault(n);
      auto memory = Importer::host().import_memory(handle, layout(1000, 100));
      if (!fault.fired()) {
        EXPECT_THAT(memory, is_ok());
        break;
      }
      EXPECT_THAT(memory, has_status(StatusCode::kResourceExhausted, HasSubstr(fault.fired_at())));
    }
    ++failed;
    EXPECT_GE(::fcntl(handle.fd(), F_GETFD), 0);
    EXPECT_EQ(fds.opened_since(), 1);
    EXPECT_EQ(count_mappings("memfd:tenon-test"), 0);
    EXPECT_THAT(Importer::host().import_memory(handle, layout(1000, 100)), is_ok());
    EXPECT_EQ(fds.opened_since(), 0);
  }
  EXPECT_EQ(failed, 3);  // dup, mmap, allocate
}

TEST(ImportMemory, OneFdMayBeImportedFromManyThreads) {
  OwnedHandle shared = memfd();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) {
        OwnedHandle copy = shared.dup().value();
        EXPECT_THAT(Importer::host().import_memory(copy, layout(4096)), is_ok());
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count_mappings("memfd:tenon-test"), 0);
}

// S1.4
TEST(CreateTensor, RefusesEveryMisuseWithItsValues) {
  auto memory = imported(1024);
  const auto create = [&](DataType type, const Shape& shape, size_t offset = 0) {
    return ExternalMemory::create_tensor(memory, type, shape, offset);
  };
  const auto invalid = [](const char* text) { return has_status(StatusCode::kInvalidArgument, HasSubstr(text)); };
  EXPECT_THAT(create(DataType::kFloat, {257}), invalid("1028 bytes"));
  EXPECT_THAT(create(DataType::kFloat, {256}, 4), invalid("Offset (4)"));
  EXPECT_THAT(create(DataType::kFloat, {1}, 1024), invalid("Offset (1024)"));
  EXPECT_THAT(create(DataType::kFloat, {1}, 2), invalid("aligned to 4"));
  EXPECT_THAT(create(DataType::kDouble, {1}, 4), invalid("aligned to 8"));
  EXPECT_THAT(create(DataType::kFloat, {1}, SIZE_MAX - 3), invalid("exceed"));
  EXPECT_THAT(create(DataType::kFloat, {-1}), invalid("negative"));
  EXPECT_THAT(create(DataType::kFloat, {INT64_MAX, 2}), invalid("overflow"));
  EXPECT_THAT(create(DataType::kFloat, {INT64_MAX / 16}), invalid("overflow"));
  EXPECT_THAT(create(DataType::kString, {1}), invalid("string"));
  EXPECT_THAT(create(DataType::kUndefined, {1}), invalid("undefined"));
  EXPECT_THAT(ExternalMemory::create_tensor(nullptr, DataType::kFloat, {1}), invalid("null"));
  EXPECT_THAT(create(DataType::kFloat, {256}), is_ok());
  EXPECT_THAT(create(DataType::kUint8, {1}, 1023), is_ok());
}

TEST(CreateTensor, AnImportAtAnOddOffsetRefusesElementsThatNeedAlignment) {
  auto memory = imported(1024, 1);
  EXPECT_THAT(ExternalMemory::create_tensor(memory, DataType::kFloat, {1}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("aligned to 4")));
  EXPECT_THAT(ExternalMemory::create_tensor(memory, DataType::kUint8, {1}), is_ok());
}

TEST(CreateTensor, IsAViewWithTheRestOfTheImportAsRoom) {
  auto memory = imported(1024);
  Tensor tensor = ExternalMemory::create_tensor(memory, DataType::kFloat, {2, 8}, 128).value();
  EXPECT_EQ(tensor.data(), static_cast<std::byte*>(memory->data()) + 128);
  EXPECT_EQ(tensor.size_bytes(), 64u);
  EXPECT_EQ(tensor.capacity_bytes(), 896u);
}

// S1.4: Tenon goes further than ONNX Runtime: import and tensor may be dropped in any order.
TEST(CreateTensor, KeepsTheImportAlive) {
  FdCount fds;
  auto memory = imported(1024);
  std::weak_ptr<ExternalMemory> alive = memory;
  Tensor tensor = ExternalMemory::create_tensor(memory, DataType::kFloat, {256}).value();
  memory.reset();
  EXPECT_FALSE(alive.expired());
  tensor.data_as<float>()[255] = 1.0f;
  tensor = Tensor();
  EXPECT_TRUE(alive.expired());
  EXPECT_EQ(fds.opened_since(), 0);
  EXPECT_EQ(count_mappings("memfd:tenon-test"), 0);
}

TEST(CreateTensor, AnObjectThatWasCutMeanwhileIsDeviceLost) {
  OwnedHandle handle = memfd(8192);
  OwnedHandle owner = handle.dup().value();
  auto memory = Importer::host().import_memory(handle, layout(4096, 4096)).value();
  EXPECT_THAT(memory->check(), is_ok());
  ASSERT_EQ(::ftruncate(owner.fd(), 6000), 0);
  EXPECT_THAT(memory->check(), has_status(StatusCode::kDeviceLost, HasSubstr("6000")));
  EXPECT_THAT(ExternalMemory::create_tensor(memory, DataType::kFloat, {4}), has_status(StatusCode::kDeviceLost));
}

class OpaqueFd : public ::testing::Test {
 protected:
  OpaqueFd() {
    for (size_t i = 0; i < sizeof(nonce_); ++i) nonce_[i] = static_cast<unsigned char>(37 * i + 11);
  }
  void put(int fd, off_t offset) {
    ASSERT_EQ(::pwrite(fd, nonce_, sizeof(nonce_), offset), static_cast<ssize_t>(sizeof(nonce_)));
  }
  unsigned char nonce_[32];
};

TEST_F(OpaqueFd, TheOffsetIsWhereTheNonceLies) {
  for (off_t offset : {0, 4096, 8192, 4096 * 300}) {
    OwnedHandle handle = memfd(4096 * 301 + 100);
    put(handle.fd(), offset);
    EXPECT_EQ(find_opaque_fd_offset(handle.fd(), nonce_, sizeof(nonce_)).value(), size_t(offset));
  }
}

TEST_F(OpaqueFd, AnUnknownLayoutIsRefused) {
  OwnedHandle handle = memfd();
  const auto find = [&] { return find_opaque_fd_offset(handle.fd(), nonce_, sizeof(nonce_)); };
  EXPECT_THAT(find(), has_status(StatusCode::kUnsupported, HasSubstr("unknown")));
  put(handle.fd(), 100);
  EXPECT_THAT(find(), has_status(StatusCode::kUnsupported, HasSubstr("unknown")));
  put(handle.fd(), 4096);
  put(handle.fd(), 16384);
  EXPECT_THAT(find(), has_status(StatusCode::kUnsupported, AllOf(HasSubstr("4096"), HasSubstr("16384"))));
}

TEST_F(OpaqueFd, ANonceCutOffByTheEndIsNoMatch) {
  OwnedHandle handle = memfd(4096 + 31);
  ASSERT_EQ(::pwrite(handle.fd(), nonce_, 31, 4096), 31);
  EXPECT_THAT(find_opaque_fd_offset(handle.fd(), nonce_, sizeof(nonce_)), has_status(StatusCode::kUnsupported));
}

TEST_F(OpaqueFd, RefusesBadArgumentsAndADriversFd) {
  OwnedHandle handle = memfd();
  EXPECT_THAT(find_opaque_fd_offset(handle.fd(), nullptr, 32), has_status(StatusCode::kInvalidArgument));
  EXPECT_THAT(find_opaque_fd_offset(handle.fd(), nonce_, 8),
              has_status(StatusCode::kInvalidArgument, HasSubstr("8 bytes")));
  EXPECT_THAT(find_opaque_fd_offset(-1, nonce_, 32), has_status(StatusCode::kInvalidArgument, HasSubstr("-1")));
  OwnedHandle huge = memfd(size_t{1} << 31);
  EXPECT_THAT(find_opaque_fd_offset(huge.fd(), nonce_, 32),
              has_status(StatusCode::kInvalidArgument, HasSubstr("searched")));
  OwnedHandle device = OwnedHandle::take_fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_THAT(find_opaque_fd_offset(device.fd(), nonce_, 32), has_status(StatusCode::kUnsupported));
}

TEST_F(OpaqueFd, IsImportedAtTheOffsetThatWasFound) {
  OwnedHandle handle = memfd();
  put(handle.fd(), 4096);
  ExternalMemoryDescriptor descriptor = layout(sizeof(nonce_));
  descriptor.kind = ExternalMemoryKind::kVulkanOpaqueFd;
  descriptor.offset_bytes = find_opaque_fd_offset(handle.fd(), nonce_, sizeof(nonce_)).value();
  auto memory = Importer::host().import_memory(handle, descriptor).value();
  EXPECT_EQ(std::memcmp(memory->data(), nonce_, sizeof(nonce_)), 0);
  EXPECT_FALSE(handle.valid());
}

}  // namespace
}  // namespace tenon
