#include "ep/api/kernel.h"

namespace tenon {

size_t TensorSpec::size_bytes() const {
  const size_t bits = data_type_bits(type);
  if (layout == Layout::kPlain || shape.rank() < 3) {
    return (shape.element_count() * bits + 7) / 8;
  }
  Shape padded = shape;
  padded[1] = (padded[1] + 7) / 8 * 8;
  return (padded.element_count() * bits + 7) / 8;
}

}  // namespace tenon
