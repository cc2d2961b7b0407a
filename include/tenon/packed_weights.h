// Packed weights that sessions share. Kernels of the CPU EP reorder constant weights when a plan is made; sessions over
// the same weights then read one reordered copy.
//
//   tenon::SessionOptions options{.packed_weights = tenon::PackedWeights::create()};
//   auto first = *tenon::Session::load("one.onnx", options);
//   auto second = *tenon::Session::load("two.onnx", options);
//
// Two weights are the same if their types, shapes and bytes are, whatever model they come from. Sessions of several
// processes share through a folder: docs/reference/options.md, tenon.packed_weights_folder.
// Lifetime: a packed weight stays as long as a session uses it. Threads: every function from any thread.
#pragma once

#include <cstddef>
#include <memory>

#include "tenon/status.h"

namespace tenon {

class TENON_API PackedWeights {
 public:
  static std::shared_ptr<PackedWeights> create();
  virtual ~PackedWeights() = default;
  // Bytes of all packed weights that sessions use now.
  virtual size_t size_bytes() const = 0;

 private:
  friend class SharedPackings;
  PackedWeights() = default;
};

}  // namespace tenon
