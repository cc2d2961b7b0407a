#include "interop/importer.h"

#include <tenon/external_handles.h>

#include <vector>

#include "base/testing.h"
#include "interop/handle_table.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

// S1.2: kinds that are file descriptors are none of this system's; pointers and DLPack tensors are everybody's.
TEST(CanImport, TakesNoFileDescriptors) {
  for (const HandleKindRow& row : kHandleKinds) {
    const bool wanted = row.kind == ExternalMemoryKind::kHostAllocation || row.kind == ExternalMemoryKind::kDlpack;
    EXPECT_EQ(Importer::host().can_import(row.kind), wanted) << row.name;
  }
  EXPECT_FALSE(can_import_semaphore(TENON_EXTERNAL_SEMAPHORE_SHARED_TIMELINE_FD));
  EXPECT_TRUE(can_import_semaphore(TENON_EXTERNAL_SEMAPHORE_HOST_CALLBACKS));
}

TEST(ImportMemory, RefusesFileDescriptorsAndLeavesThem) {
  OwnedHandle handle = OwnedHandle::take_fd(0);
  EXPECT_THAT(Importer::host().import_memory(handle, {.size_bytes = 4096, .name = "x"}),
              has_status(StatusCode::kUnsupported, HasSubstr("NT handles")));
  EXPECT_EQ(handle.release_fd(), 0);
  EXPECT_THAT(import_memory(TENON_EXTERNAL_MEMORY_MAPPABLE_FD, nullptr, 4096, 0), has_status(StatusCode::kUnsupported));
  EXPECT_THAT(SharedTimeline::create("x"), has_status(StatusCode::kUnsupported, HasSubstr("futex")));
  EXPECT_THAT(SharedTimeline::open("x", 0), has_status(StatusCode::kUnsupported, HasSubstr("futex")));
}

TEST(ImportMemory, AHostAllocationStaysTheCallers) {
  std::vector<float> memory(1024, 1.0f);
  TenonExternalMemoryInfo info = {};
  info.version = TENON_EXTERNAL_MEMORY_INFO_VERSION;
  info.kind = TENON_EXTERNAL_MEMORY_HOST_ALLOCATION;
  info.handle.pointer = memory.data();
  const auto import = import_memory(info.kind, &info, 2048, 1024);
  ASSERT_THAT(import, is_ok());
  const Tensor tensor = ExternalMemory::create_tensor(*import, DataType::kFloat, {512}).value();
  static_cast<float*>(tensor.data())[0] = 7;
  EXPECT_EQ(memory[256], 7);
}

}  // namespace
}  // namespace tenon
