// S1.3, for every kind of handle: the caller's handle is touched by a successful import alone, and then exactly once.
#include <set>

#include "base/fault.h"
#include "base/testing.h"
#include "interop/handle_testing.h"
#include "interop/importer.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

constexpr size_t kBytes = kHandleBytes;

// Fails step after step of `import` (of a shared_ptr), until it succeeds; `how` names the way in messages.
template <typename Row, typename Import>
void walk(const Row& row, const char* how, std::set<std::string>& failed, const Import& import) {
  constexpr bool kIsTimeline = std::is_same_v<Row, TimelineKindRow>;
  for (int n = 1;; ++n) {
    ASSERT_LT(n, 50);
    const FdCount fds;
    {
      HandleCaller caller(row.type, kIsTimeline);
      const int callers_fds = fds.opened_since();
      FaultInjection fault(n);
      auto imported = import(caller);
      const std::string where = format("{} by {}, fault {} at \"{}\"", row.name, how, n, fault.fired_at());
      if (imported.ok()) {
        EXPECT_FALSE(fault.fired()) << where;
        caller.expect_owned_as(row.ownership, true, where);
        imported->reset();
        caller.expect_owned_as(row.ownership, false, where);
        EXPECT_GT(n, 1) << where << ": no step was made to fail";
        return;
      }
      EXPECT_TRUE(fault.fired()) << where << ": " << imported.status().message();
      failed.insert(fault.fired_at());
      caller.expect_untouched(where);
      EXPECT_EQ(fds.opened_since(), callers_fds) << where;
    }
    EXPECT_EQ(fds.opened_since(), 0) << row.name;
  }
}

// Programs that look for what a device imports ask for each of these.
TEST(HandleKinds, EachRowOfTheTableIsListedWithItsName) {
  ASSERT_EQ(external_memory_kinds().size(), std::size(kHandleKinds));
  for (size_t i = 0; i < std::size(kHandleKinds); ++i)
    EXPECT_EQ(external_memory_kind_name(external_memory_kinds()[i]), kHandleKinds[i].name);
  ASSERT_EQ(timeline_kinds().size(), std::size(kTimelineKinds));
  for (size_t i = 0; i < std::size(kTimelineKinds); ++i)
    EXPECT_EQ(timeline_kind_name(timeline_kinds()[i]), kTimelineKinds[i].name);
}

TEST(HandleOwnership, AnImportOfMemoryTakesAHandleOnceOrNotAtAll) {
  std::set<std::string> failed;
  int kinds = 0;
  for (const HandleKindRow& row : kHandleKinds) {
    if (!Importer::host().can_import(row.kind)) continue;
    ++kinds;
    walk(row, "Importer", failed, [&](HandleCaller& caller) {
      return caller.with_owned([&](OwnedHandle& handle) {
        return Importer::host().import_memory(handle, {.kind = row.kind, .size_bytes = kBytes, .name = "x"});
      });
    });
    walk(row, "the C ABI, described", failed, [&](HandleCaller& caller) {
      TenonExternalMemoryInfo info = caller.info(row.kind);
      return import_memory(TENON_EXTERNAL_MEMORY_DESCRIBED, &info, kBytes, 0);
    });
    if (static_cast<uint32_t>(row.kind) >= TENON_EXTERNAL_HANDLE_FIRST) continue;
    walk(row, "the C ABI, plain", failed, [&](HandleCaller& caller) {
      return import_memory(static_cast<uint32_t>(row.kind), caller.native(), kBytes, 0);
    });
  }
  EXPECT_GE(kinds, 4);
  for (const char* step : {"dup", "mmap", "allocate"}) EXPECT_TRUE(failed.contains(step)) << step;
}

TEST(HandleOwnership, AnImportOfATimelineTakesAHandleOnceOrNotAtAll) {
  std::set<std::string> failed;
  int kinds = 0;
  for (const TimelineKindRow& row : kTimelineKinds) {
    if (!Importer::host().can_import(row.kind)) continue;
    ++kinds;
    walk(row, "Importer", failed, [&](HandleCaller& caller) {
      return caller.with_owned(
          [&](OwnedHandle& handle) { return Importer::host().import_timeline(handle, row.kind, "frames"); });
    });
    walk(row, "the C ABI", failed,
         [&](HandleCaller& caller) { return import_semaphore(static_cast<uint32_t>(row.kind), caller.native()); });
  }
  EXPECT_GE(kinds, 2);
  for (const char* step : {"dup", "mmap", "allocate"}) EXPECT_TRUE(failed.contains(step)) << step;
}

// The row alone decides: nothing here knows a kind.
template <typename Handle, typename Row>
void expect_consumed_by_row(const Row& row) {
  const bool consumed = row.ownership == HandleOwnership::kConsumed;
  Handle handle;
  handle.kind = row.kind;
  handle.type = row.type;
  handle.taken = std::make_shared<bool>(false);
  handle.fd = make_memfd();
  const bool closes = consumed && row.type == HandleType::kFd;
  consume(handle);
  EXPECT_EQ(is_open(handle.fd), !closes) << row.name;
  EXPECT_EQ(*handle.taken, consumed) << row.name;
  if (!closes) ::close(handle.fd);
}

TEST(HandleOwnership, ConsumeDoesWhatTheRowSays) {
  const FdCount fds;
  for (const HandleKindRow& row : kHandleKinds) expect_consumed_by_row<ExternalHandle>(row);
  for (const TimelineKindRow& row : kTimelineKinds) expect_consumed_by_row<ExternalSemaphore>(row);
  EXPECT_EQ(fds.opened_since(), 0);
}

// A DLPack tensor whose import fails at a later step of the importer's is not given back by what was made before.
TEST(HandleOwnership, AnImportThatIsDroppedBeforeItIsConsumedGivesNothingBack) {
  HandleCaller tensor(HandleType::kDlpack, false), timeline(HandleType::kCallbacks, true);
  TenonExternalMemoryInfo info = tensor.info(ExternalMemoryKind::kDlpack);
  const ExternalHandle handle = read_external_handle(TENON_EXTERNAL_MEMORY_DLPACK, &info).value();
  auto memory = map_memory(handle, {.kind = handle.kind, .size_bytes = kBytes, .name = "x"});
  ASSERT_THAT(memory, is_ok());
  memory->reset();
  tensor.expect_untouched("map_memory");
  const ExternalSemaphore semaphore =
      read_external_semaphore(TENON_EXTERNAL_SEMAPHORE_HOST_CALLBACKS, timeline.native()).value();
  auto opened = open_semaphore(semaphore, "x");
  ASSERT_THAT(opened, is_ok());
  opened->reset();
  timeline.expect_untouched("open_semaphore");
}

// The C++ API's handle says the same to an EP's plugin as TenonExternalMemoryInfo.
TEST(ReadExternalHandle, AHandleOfTheCppApiIsDescribedAsItIs) {
  for (const HandleKindRow& row : kHandleKinds) {
    HandleCaller caller(row.type, false);
    ExternalMemoryDescriptor descriptor{.kind = row.kind, .size_bytes = kBytes, .writable = false, .name = "x"};
    descriptor.dedicated = true;
    descriptor.device_uuid[3] = 7;
    OwnedHandle owned = caller.owned();
    const ExternalHandle handle = read_external_handle(owned, descriptor).value();
    (void)owned.release_fd();
    TenonExternalMemoryInfo info = external_memory_info(handle);
    const ExternalHandle again = read_external_handle(TENON_EXTERNAL_MEMORY_DESCRIBED, &info).value();
    EXPECT_EQ(again.kind, row.kind);
    EXPECT_EQ(again.type, row.type) << row.name;
    EXPECT_EQ(again.fd, handle.fd) << row.name;
    if (row.type != HandleType::kIpc) {
      EXPECT_EQ(again.pointer, handle.pointer) << row.name;
    }
    EXPECT_EQ(again.ipc, handle.ipc) << row.name;
    EXPECT_EQ(again.dlpack_versioned, row.type == HandleType::kDlpack) << row.name;
    EXPECT_TRUE(again.read_only && again.dedicated) << row.name;
    EXPECT_EQ(again.device_uuid, handle.device_uuid) << row.name;
  }
}

TEST(ImportTimeline, TheHostReadsItsTimelinesItself) {
  HandleCaller caller(HandleType::kFd, true);
  OwnedHandle handle = caller.owned();
  EXPECT_THAT(Importer::host().import_timeline(handle, TimelineKind::kSharedTimelineFd, "frames",
                                               {.value = [] { return Result<uint64_t>(0); }, .wait = {}, .signal = {}}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("\"frames\" (shared_timeline_fd)")));
  EXPECT_THAT(Importer::host().import_timeline(handle, TimelineKind::kD3d12Fence, "frames"),
              has_status(StatusCode::kUnsupported, HasSubstr("d3d12_fence")));
  EXPECT_THAT(Importer::host().import_timeline(handle, TimelineKind::kHostCallbacks, "frames"),
              has_status(StatusCode::kInvalidArgument, HasSubstr("file descriptor")));
  (void)handle.release_fd();
  caller.expect_untouched("refused");
}

}  // namespace
}  // namespace tenon
