// A device of the fake driver for tests of the importer; a violation of the driver's rules fails the test.
#pragma once

#include <gtest/gtest.h>

#include <cstring>

#include "base/testing.h"
#include "ep/cuda/cuda_importer.h"
#include "ep/cuda/fake/fake_cuda.h"

namespace tenon::cuda {

inline constexpr size_t kImportBytes = 64 * 1024;

// As ep/sdk imports it.
inline Result<std::shared_ptr<SemaphoreImport>> import_semaphore(const std::shared_ptr<CudaMemory>& memory,
                                                                 TimelineKind kind, void* native_handle) {
  TENON_TRY_ASSIGN(const ExternalSemaphore handle, read_external_semaphore(static_cast<uint32_t>(kind), native_handle));
  auto imported = SemaphoreImport::import(memory, handle);
  if (imported.ok()) consume(handle);
  return imported;
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
  void TearDown() override { EXPECT_THAT(fake::take_violations(), ::testing::IsEmpty()); }

  // As ep/sdk imports it: the caller's handle is consumed last.
  Result<std::shared_ptr<MemoryImport>> import(const ExternalHandle& handle, size_t size_bytes = kImportBytes,
                                               size_t offset_bytes = 0) {
    auto imported = MemoryImport::import(memory_, uuid_, handle, size_bytes, offset_bytes);
    if (imported.ok()) consume(handle);
    return imported;
  }
  Result<std::shared_ptr<SemaphoreImport>> import(TimelineKind kind, void* native_handle) {
    return import_semaphore(memory_, kind, native_handle);
  }

  std::shared_ptr<CudaStream> make_stream() {
    auto stream = CudaStream::create(memory_->device()).value();
    memory_->streams().add(stream);
    return stream;
  }
  // Queues a write to all of the import.
  void fill(const MemoryImport& import, unsigned char value, const CudaStream& stream) {
    const auto scope = ContextScope::enter(*memory_->device());
    ASSERT_EQ(fake::driver().MemsetD8Async(reinterpret_cast<CUdeviceptr>(import.address()), value, import.size_bytes(),
                                           stream.native()),
              CUDA_SUCCESS);
  }

  std::shared_ptr<CudaMemory> memory_;
  DeviceUuid uuid_{};
};

}  // namespace tenon::cuda
