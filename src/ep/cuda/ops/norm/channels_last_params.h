// The parameters of the norms of images with channels last, as host and device read them.
#pragma once

#include <cstdint>

#include "ep/cuda/templates/index_params.h"

namespace tenon::cuda {

// A block has a chunk of an image's pixels, and of these a slice of the channels: whole groups, and whole vectors. Its
// threads are `rows` pixels times the slice's vectors; those that are left over do nothing.
struct ChannelsLastNormParams {
  Divisor chunks, slices;                   // of an image: blocks are numbered by image, slice, chunk
  Divisor vectors;                          // of a slice
  Divisor group_channels;                   // of a group
  int32_t channels = 0, pixels = 0;         // of an image
  int32_t groups = 0, slice_groups = 0;     // of an image, of a slice
  int32_t rows = 0;                         // pixels that a block reads at once
  int32_t chunk_pixels = 0;                 // a multiple of `rows`; the last chunk may have fewer
  int32_t part_pixels = 0, part_count = 0;  // of the chunks whose moments are put together
  int32_t addend_image = 0;                 // from one image's addends to the next one's; 0: they share them
  int32_t scale_each_group = 0;             // scale and bias have a number for each group, not for each channel
  float epsilon = 0;
  float inverse_count = 1;  // 1 / elements of a group
};

}  // namespace tenon::cuda
