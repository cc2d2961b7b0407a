#include "graph/constant_data.h"

#include <cstring>
#include <new>

#include "graph/huge_chunk.h"
#include "graph/mapped_file.h"

namespace tenon {

namespace {

constexpr std::align_val_t kAlignment{64};
constexpr size_t kHugeFrom = 2 * kHugePage;

}  // namespace

std::shared_ptr<std::byte> UnalignedBytes::make_copy() const {
  std::shared_ptr<std::byte> copy;
  if (bytes_.size() >= kHugeFrom) {
    copy = huge_chunk((bytes_.size() + kSmallPage - 1) / kSmallPage * kSmallPage);
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
    *kept = make_copy();
    if (in_file_) drop_file_pages(bytes_);
  }
  return kept->get();
}

std::shared_ptr<const std::byte> UnalignedBytes::copy() const {
  if (auto kept = kept_.lock(); *kept != nullptr) return *kept;
  return make_copy();
}

}  // namespace tenon
