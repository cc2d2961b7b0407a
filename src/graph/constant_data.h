// The address of a constant's bytes. A weight that lies in its model unaligned to its element is copied when its
// address is first asked for, not when the model is read: most weights are only packed, and keep no copy beside the
// packing.
//
// Ownership: keeps what it points into alive only where it makes copies; else Constant::owner does. Threads: any.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "base/guarded.h"

namespace tenon {

// Bytes as they lie in a model, whose address no program may read elements from.
class UnalignedBytes {
 public:
  // `owner` holds the bytes; `in_file`: they are a mapped file's.
  UnalignedBytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, bool in_file)
      : bytes_(bytes), owner_(std::move(owner)), in_file_(in_file) {}

  std::span<const std::byte> bytes() const { return bytes_; }
  // A copy that stays, aligned to 64 bytes. Throws std::bad_alloc.
  const std::byte* kept_copy() const;
  // The copy that stays if there is one, else one for this reading. Throws std::bad_alloc.
  std::shared_ptr<const std::byte> copy() const;

 private:
  std::shared_ptr<std::byte> make_copy(bool stays) const;

  const std::span<const std::byte> bytes_;
  const std::shared_ptr<const void> owner_;
  const bool in_file_;
  Guarded<std::shared_ptr<const std::byte>> kept_;
};

// An address, and as good as one: whoever converts it to one gets the copy that stays.
class ConstantData {
 public:
  ConstantData() = default;
  ConstantData(const std::byte* aligned) : aligned_(aligned) {}
  ConstantData(std::shared_ptr<const UnalignedBytes> unaligned) : unaligned_(std::move(unaligned)) {}

  const std::byte* bytes() const { return unaligned_ == nullptr ? aligned_ : unaligned_->kept_copy(); }
  operator const std::byte*() const { return bytes(); }
  // The address as the bytes lie in the model, aligned or not.
  const std::byte* stored() const { return unaligned_ == nullptr ? aligned_ : unaligned_->bytes().data(); }
  // For one reading: the address, or a copy that ends with the result.
  std::shared_ptr<const std::byte> read() const {
    return unaligned_ == nullptr ? std::shared_ptr<const std::byte>(std::shared_ptr<void>(), aligned_)
                                 : unaligned_->copy();
  }

 private:
  const std::byte* aligned_ = nullptr;
  std::shared_ptr<const UnalignedBytes> unaligned_;
};

}  // namespace tenon
