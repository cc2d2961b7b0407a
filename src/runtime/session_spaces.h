// The memory spaces of a session: their table, the alignments that plans tell apart, and tensors made in them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <tenon/tensor.h>

#include "plan/space_table.h"

namespace tenon {

// Threads: const access from any.
class SessionSpaces {
 public:
  // Plain host memory alone, as for sessions without other EPs and for the bodies of If, Loop and Scan.
  SessionSpaces() = default;
  // `table` is complete.
  explicit SessionSpaces(SpaceTable table);

  const SpaceTable& table() const { return table_; }
  // Whether there are EPs besides the CPU EP, with or without memory of their own.
  bool has_devices() const { return !table_.of_ep.empty(); }

  // The strictest alignment that a space asks for and that `address` has; 0 when it has none of them.
  uint32_t alignment_of(const void* address) const;
  // The space of a tensor with the alignment of its address, and the same as a word of a signature.
  MemorySpace space_of(const Tensor& tensor, int64_t& word) const;
  static int64_t word(SpaceId space, uint32_t alignment) { return int64_t{space.value()} << 32 | alignment; }

  // Memory in a space of the table; zeroed in plain host memory.
  Result<Tensor> allocate(SpaceId space, DataType type, const Shape& shape) const;
  Result<std::shared_ptr<std::byte>> allocate_bytes(SpaceId space, size_t size_bytes) const;
  // The transfer that copies from `source` to `target`; null when the host copies itself.
  DataTransfer* transfer(const MemorySpace& source, const MemorySpace& target) const {
    return table_.transfer(table_.mover(source, target));
  }

 private:
  SpaceTable table_;
  std::vector<uint32_t> alignments_;  // that spaces ask for, the strictest first
};

}  // namespace tenon
