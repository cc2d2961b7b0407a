// The fixture of tests that need a software Vulkan device; without one they skip with a reason.
#pragma once

#include <cstring>
#include <memory>
#include <random>
#include <string>

#include "base/testing.h"
#include "vulkan_program.h"

namespace tenon::test {

class Vulkan : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why_not;
    program_ = VulkanProgram::create(&why_not);
    if (program_ == nullptr) GTEST_SKIP() << why_not;
  }

  // Where the driver puts an allocation inside its fd: asked with a nonce, never assumed.
  size_t opaque_offset() {
    std::random_device random;
    uint32_t nonce[16];
    for (uint32_t& word : nonce) word = random();
    VulkanBuffer probe = program_->make_buffer(sizeof(nonce));
    std::memcpy(probe.mapped, nonce, sizeof(nonce));
    OwnedHandle fd = program_->export_fd(probe);
    const size_t offset = find_opaque_fd_offset(fd.fd(), nonce, sizeof(nonce)).value();
    program_->destroy(probe);
    return offset;
  }

  Result<std::shared_ptr<ExternalMemory>> import(OwnedHandle& fd, size_t size_bytes) {
    return Importer::host().import_memory(fd, {.kind = ExternalMemoryKind::kVulkanOpaqueFd,
                                               .size_bytes = size_bytes,
                                               .offset_bytes = opaque_offset(),
                                               .name = "frame"});
  }

  std::unique_ptr<VulkanProgram> program_;
};

}  // namespace tenon::test
