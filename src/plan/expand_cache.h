// What GroupQueryAttention does to keys and values besides attention: norms of heads, caches of int8 and 4 bits.
#pragma once

#include "plan/expand.h"

namespace tenon::expand {

// Rows [batch, positions, heads * depth], each head divided by the root of its mean square, times `weight` [depth].
ValueId normed_heads(Expansion& to, ValueId rows, int64_t heads, ValueId weight, float epsilon);

// New rows and a cache of codes, whose numbers are codes times `scale`; it broadcasts to [batch, heads, positions,
// depth]. Codes of 4 bits have 8 added, and lie in bytes, the first in the lower half.
struct CodedCache {
  ValueId rows = kNoValue;   // [batch, heads, positions, depth], rounded to the nearest codes
  ValueId past = kNoValue;   // of the type of the rows; kNoValue without a past
  ValueId codes = kNoValue;  // of the rows, as the cache holds them
};
CodedCache coded_cache(Expansion& to, ValueId rows, int64_t heads, ValueId past, ValueId scale, int64_t bits);

}  // namespace tenon::expand
