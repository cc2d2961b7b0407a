#include "graph/constant_data.h"

#include <cstring>
#include <new>

#include "graph/huge_chunk.h"
#include "graph/mapped_file.h"

namespace tenon {

namespace {

constexpr std::align_val_t kAlignment{64};
// A copy that stays must fill its pages. One that goes again may leave half of a huge page empty: the page's one fault
// costs less than those of 256 small pages.
constexpr size_t kHugeFrom = 2 * kHugePage;
constexpr size_t kHugeForReadingFrom = kHugePage / 2;

size_t round_up(size_t size, size_t granule) { return (size + granule - 1) / granule * granule; }

}  // namespace

std::shared_ptr<std::byte> UnalignedBytes::make_copy(bool stays) const {
  std::shared_ptr<std::byte> copy;
  if (bytes_.size() >= (stays ? kHugeFrom : kHugeForReadingFrom)) {
    copy = huge_chunk(round_up(bytes_.size(), stays ? kSmallPage : kHugePage));
    if (copy == nullptr) throw std::bad_alloc();
  } else {
    copy = {static_cast<std::byte*>(::operator new(bytes_.size(), kAlignment)),
            [](std::byte* p) { ::operator delete(p, kAlignment); }};
  }
  std::memcpy(copy.get(), bytes_.data(), bytes_.size());
  return copy;
}

const std::byte* UnalignedBytes::kept_copy() const {
  auto kept = kept_.lock();
  if (*kept == nullptr) {
    *kept = make_copy(true);
    if (in_file_) drop_file_pages(bytes_);
  }
  return kept->get();
}

std::shared_ptr<const std::byte> UnalignedBytes::copy() const {
  if (auto kept = kept_.lock(); *kept != nullptr) return *kept;
  return make_copy(false);
}

}  // namespace tenon
