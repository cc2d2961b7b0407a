#include "ep/api/kernel.h"

namespace tenon {

size_t TensorSpec::size_bytes() const {
  const auto bits = static_cast<size_t>(data_type_bits(type));
  if (layout == Layout::kPlain || shape.rank() < 3) {
    return (static_cast<size_t>(shape.element_count()) * bits + 7) / 8;
  }
  Shape padded = shape;
  padded[1] = (padded[1] + 7) / 8 * 8;
  return (static_cast<size_t>(padded.element_count()) * bits + 7) / 8;
}

}  // namespace tenon
