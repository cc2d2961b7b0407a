#include "demo/readback.h"

namespace tenon::demo {

Result<std::unique_ptr<Readback>> Readback::create(const std::shared_ptr<VulkanDevice>& device,
                                                   const std::vector<const SharedBuffer*>& sources) {
  auto made = std::unique_ptr<Readback>(new Readback);
  TENON_TRY_ASSIGN(made->done_, VulkanTimeline::create(device, false));
  TENON_TRY_ASSIGN(made->submitter_, Submitter::create(device));
  for (const SharedBuffer* source : sources) {
    TENON_TRY_ASSIGN(auto staging, LocalBuffer::create(device, source->size_bytes()));
    TENON_TRY(made->submitter_->record_copy(source->buffer(), staging->buffer(), source->size_bytes()).status());
    made->staging_.push_back(std::move(staging));
  }
  return made;
}

Result<const void*> Readback::read(size_t index, const VulkanTimeline& after, uint64_t value) {
  constexpr int64_t kPatienceNs = 10'000'000'000;
  TENON_TRY(submitter_->submit(index, &after, value, *done_, last_ + 1));
  ++last_;
  TENON_TRY_WITH_CONTEXT(done_->wait(last_, kPatienceNs, {}),
                         "while copying a buffer of the Vulkan device to the host");
  return static_cast<const void*>(staging_[index]->mapped());
}

}  // namespace tenon::demo
