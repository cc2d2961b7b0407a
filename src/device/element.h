// Checks of element types and alignment for views and imports.
#pragma once

#include <tenon/types.h>

namespace tenon {

// The alignment that an address of elements of `type` needs: that of a C object of the type (a complex number's is its
// component's, a packed 4-bit type's is a byte's); 1 for types without a size.
size_t data_type_alignment(DataType type);

}  // namespace tenon
