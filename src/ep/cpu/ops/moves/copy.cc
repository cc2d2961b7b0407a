#include "ep/cpu/ops/moves/copy.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ep/cpu/ops/moves/fill.h"
#include "ep/cpu/simd/convert.h"
#include "ep/cpu/simd/elementwise.h"
#include "ep/cpu/simd/interleave.h"
#include "ep/cpu/simd/transpose_blocks.h"

namespace tenon::cpu::nn {

namespace {

// Bytes of a chunk that is worth claiming.
constexpr int64_t kGrainBytes = 64 << 10;

// Elements that are filled before a call has begun, and bytes of a row that are copied so.
constexpr int64_t kShortFill = 128, kShortCopy = 256;
// Bytes of a row that is repeated by vectors.
constexpr int64_t kLongestRepeated = 4096;

struct Wide {
  uint64_t low, high;
};

// Calls body with a value of a type of `bytes` bytes.
template <typename Body>
void with_element(size_t bytes, const Body& body) {
  switch (bytes) {
    case 1:
      return body(uint8_t{});
    case 2:
      return body(uint16_t{});
    case 4:
      return body(uint32_t{});
    case 8:
      return body(uint64_t{});
    default:
      return body(Wide{});
  }
}

template <typename T>
const Pixels<T>& pixels_of(int64_t count) {
  const InterleaveTable& table = interleave_table();
  if constexpr (sizeof(T) == 1) {
    return table.bytes[count - kLeastPixel];
  } else if constexpr (sizeof(T) == 2) {
    return table.halves[count - kLeastPixel];
  } else {
    return table.words[count - kLeastPixel];
  }
}

bool is_pixel(int64_t count) { return count >= kLeastPixel && count <= kLargestPixel; }

template <typename T>
void transpose_of(const T* src, int64_t src_stride, T* dst, int64_t dst_stride, int64_t rows, int64_t columns) {
  // Less than a step of the loops below.
  constexpr int64_t kFewPixels = 24, kLeastSide = 4;
  if constexpr (sizeof(T) == 2) {
    if (std::min(rows, columns) >= kLeastSide && std::max(rows, columns) <= kFewPixels)
      return convert_table().transpose16(src, src_stride, dst, dst_stride, rows, columns);
  }
  if constexpr (sizeof(T) <= 4) {
    // Images of few channels, and blocks of few pixels.
    if (is_pixel(columns) && src_stride == columns) return pixels_of<T>(columns).apart(src, dst, dst_stride, rows);
    if (is_pixel(rows) && dst_stride == rows) return pixels_of<T>(rows).together(src, src_stride, dst, columns);
  }
  if constexpr (sizeof(T) == 8) {
    eltwise_table().transpose64(src, src_stride, dst, dst_stride, rows, columns);
  } else if constexpr (sizeof(T) == 4) {
    eltwise_table().transpose32(src, src_stride, dst, dst_stride, rows, columns);
  } else if constexpr (sizeof(T) == 2) {
    convert_table().transpose16(src, src_stride, dst, dst_stride, rows, columns);
  } else if constexpr (sizeof(T) == 1) {
    interleave_table().transpose8(src, src_stride, dst, dst_stride, rows, columns);
  } else {
    constexpr int64_t kSide = 8;
    transpose_blocks(src, src_stride, dst, dst_stride, rows, columns, kSide, kSide, [&](const T* from, T* to) {
      for (int64_t j = 0; j < kSide; ++j)
        for (int64_t i = 0; i < kSide; ++i) to[j * dst_stride + i] = from[i * src_stride + j];
    });
  }
}

// `bytes` bytes, `count` times side by side: by vectors, or if these would be part of one and many, what is there
// already is copied, up to a part that stays in the first cache.
void repeat(const std::byte* src, std::byte* dst, int64_t bytes, int64_t count) {
  constexpr int64_t kVector = 16, kWholeVector = 64, kFew = 64;
  if (bytes >= kWholeVector || (bytes >= kVector && count <= kFew)) {
    return interleave_table().repeat(reinterpret_cast<const uint8_t*>(src), bytes, reinterpret_cast<uint8_t*>(dst),
                                     count);
  }
  constexpr int64_t kPattern = 4096;
  const int64_t most = std::max<int64_t>(1, kPattern / bytes) * bytes, all = bytes * count;
  std::memcpy(dst, src, bytes);
  for (int64_t done = bytes, n = 0; done < all; done += n) {
    n = std::min({done, most, all - done});
    std::memcpy(dst + done, dst, n);
  }
}

}  // namespace

void transpose(size_t element_bytes, const void* src, int64_t src_stride, void* dst, int64_t dst_stride, int64_t rows,
               int64_t columns) {
  with_element(element_bytes, [&]<typename T>(T) {
    transpose_of(static_cast<const T*>(src), src_stride, static_cast<T*>(dst), dst_stride, rows, columns);
  });
}

StridedCopy::StridedCopy(size_t element_bytes, std::span<const int64_t> dims, std::span<const int64_t> src_strides,
                         std::span<const int64_t> dst_strides, int64_t src_offset, int64_t dst_offset)
    : element_bytes_(element_bytes), src_offset_(src_offset), dst_offset_(dst_offset) {
  // Neighbours that continue each other on both sides become one dimension.
  int rank = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0) {
      outer_count_ = 0;
      return;
    }
    if (dims[i] == 1) continue;
    const int last = rank - 1;
    if (rank > 0 && src_[last] == src_strides[i] * dims[i] && dst_[last] == dst_strides[i] * dims[i]) {
      dims_[last] *= dims[i];
      src_[last] = src_strides[i];
      dst_[last] = dst_strides[i];
      continue;
    }
    const int at = rank++;
    dims_[at] = dims[i];
    src_[at] = src_strides[i];
    dst_[at] = dst_strides[i];
  }
  const auto remove = [&](int axis) {
    for (int i = axis; i + 1 < rank; ++i) {
      dims_[i] = dims_[i + 1];
      src_[i] = src_[i + 1];
      dst_[i] = dst_[i + 1];
    }
    --rank;
  };
  if (rank > 0) {
    const int last = rank - 1;
    inner_dim_ = dims_[last];
    inner_src_ = src_[last];
    inner_dst_ = dst_[last];
    remove(rank - 1);
    if (inner_dst_ != 1) {
      inner_ = Inner::kStrided;
    } else if (inner_src_ == 1) {
      inner_ = Inner::kBytes;
    } else if (inner_src_ == 0) {
      inner_ = Inner::kRepeat;
    } else {
      inner_ = Inner::kStrided;
      for (int i = 0; i < rank; ++i) {
        if (src_[i] != 1 || inner_src_ < 0 || dst_[i] < 0) continue;
        inner_ = Inner::kTranspose;
        columns_ = dims_[i];
        inner_dst_ = dst_[i];
        remove(i);
        break;
      }
    }
  }
  outer_rank_ = rank;
  for (int i = 0; i < rank; ++i) {
    outer_count_ *= dims_[i];
    src_[i] *= static_cast<int64_t>(element_bytes);
    dst_[i] *= static_cast<int64_t>(element_bytes);
  }
}

void StridedCopy::run_inner(const std::byte* src, std::byte* dst) const {
  if (inner_ == Inner::kBytes) {
    std::memcpy(dst, src, inner_dim_ * element_bytes_);
    return;
  }
  if (inner_ == Inner::kRepeat) return fill_elements(dst, src, element_bytes_, inner_dim_);
  with_element(element_bytes_, [&](auto element) {
    using T = decltype(element);
    const auto* const from = reinterpret_cast<const T*>(src);
    auto* const to = reinterpret_cast<T*>(dst);
    if (inner_ == Inner::kTranspose) {
      transpose_of(from, inner_src_, to, inner_dst_, inner_dim_, columns_);
    } else {
      for (int64_t i = 0; i < inner_dim_; ++i) to[i * inner_dst_] = from[i * inner_src_];
    }
  });
}

void StridedCopy::run_outer(const std::byte* src, std::byte* dst, int64_t begin, int64_t end) const {
  std::array<int64_t, Shape::kMaxRank> index{};
  int64_t rest = begin;
  for (int d = outer_rank_ - 1; d >= 0; --d) {
    index[d] = rest % dims_[d];
    rest /= dims_[d];
    src += index[d] * src_[d];
    dst += index[d] * dst_[d];
  }
  // Along the last outer dimension in a loop of its own.
  const int last = outer_rank_ - 1;
  const int64_t src_step = last < 0 ? 0 : src_[last], dst_step = last < 0 ? 0 : dst_[last];
  const auto runs = [&](const auto& run) {
    for (int64_t i = begin; i < end;) {
      const int64_t n = last < 0 ? 1 : std::min(end - i, dims_[last] - index[last]);
      run(n);
      i += n;
      if (i == end) return;
      src -= dims_[last] * src_step;
      dst -= dims_[last] * dst_step;
      index[last] = 0;
      for (int d = last - 1; d >= 0; --d) {
        src += src_[d];
        dst += dst_[d];
        if (++index[d] < dims_[d]) break;
        src -= dims_[d] * src_[d];
        dst -= dims_[d] * dst_[d];
        index[d] = 0;
      }
    }
  };
  const auto each = [&](const auto& copy) {
    runs([&](int64_t n) {
      for (int64_t k = 0; k < n; ++k, src += src_step, dst += dst_step) copy();
    });
  };
  const int64_t row_bytes = inner_ == Inner::kBytes ? inner_dim_ * static_cast<int64_t>(element_bytes_) : 0;
  if (last >= 0 && src_step == 0 && dst_step == row_bytes && row_bytes > 0 && row_bytes <= kLongestRepeated) {
    return runs([&](int64_t n) {
      repeat(src, dst, row_bytes, n);
      dst += n * dst_step;
    });
  }
  // Small matrices one behind the other.
  const int64_t matrix_bytes = inner_dim_ * columns_ * static_cast<int64_t>(element_bytes_);
  if (inner_ == Inner::kTranspose && inner_src_ == columns_ && inner_dst_ == inner_dim_ && last >= 0 &&
      src_step == matrix_bytes && dst_step == matrix_bytes) {
    return runs([&](int64_t n) {
      const auto* const from = reinterpret_cast<const uint8_t*>(src);
      auto* const to = reinterpret_cast<uint8_t*>(dst);
      if (!interleave_table().transpose_many(static_cast<int64_t>(element_bytes_), from, to, inner_dim_, columns_, n))
        for (int64_t k = 0; k < n; ++k) run_inner(src + k * src_step, dst + k * dst_step);
      src += n * src_step;
      dst += n * dst_step;
    });
  }
  if (inner_ == Inner::kRepeat && inner_dim_ <= kShortFill) {
    return with_element(element_bytes_, [&]<typename T>(T value) {
      each([&] {
        std::memcpy(&value, src, sizeof(value));
        std::fill_n(reinterpret_cast<T*>(dst), inner_dim_, value);
      });
    });
  }
  // Short rows of usual sizes need no call.
  switch (row_bytes) {
    case 4:
      return each([&] { std::memcpy(dst, src, 4); });
    case 8:
      return each([&] { std::memcpy(dst, src, 8); });
    case 16:
      return each([&] { std::memcpy(dst, src, 16); });
    case 32:
      return each([&] { std::memcpy(dst, src, 32); });
    case 64:
      return each([&] { std::memcpy(dst, src, 64); });
    case 128:
      return each([&] { std::memcpy(dst, src, 128); });
    default:
      break;
  }
  constexpr int64_t kPart = 16;
  if (row_bytes >= kPart && row_bytes <= kShortCopy) {
    return each([&] {
      for (int64_t i = 0; i + kPart <= row_bytes; i += kPart) std::memcpy(dst + i, src + i, kPart);
      std::memcpy(dst + row_bytes - kPart, src + row_bytes - kPart, kPart);  // overlaps the part before it
    });
  }
  each([&] { run_inner(src, dst); });
}

void StridedCopy::run(const std::byte* src, std::byte* dst, ThreadPool& pool) const {
  if (outer_count_ == 0) return;
  const auto bytes = static_cast<int64_t>(element_bytes_);
  src += src_offset_ * bytes;
  dst += dst_offset_ * bytes;
  const int64_t inner_bytes = inner_dim_ * columns_ * bytes;
  if (outer_count_ > 1 || inner_bytes < 2 * kGrainBytes || inner_ == Inner::kRepeat || inner_ == Inner::kStrided) {
    pool.parallel_for(outer_count_, std::max<int64_t>(1, kGrainBytes / inner_bytes),
                      [&](int64_t begin, int64_t end) { run_outer(src, dst, begin, end); });
    return;
  }
  // One long copy or one large matrix: cut it itself.
  if (inner_ == Inner::kBytes) {
    pool.parallel_for(inner_bytes, kGrainBytes,
                      [&](int64_t begin, int64_t end) { std::memcpy(dst + begin, src + begin, end - begin); });
    return;
  }
  pool.parallel_for(inner_dim_, std::max<int64_t>(16, kGrainBytes / (columns_ * bytes)),
                    [&](int64_t begin, int64_t end) {
                      StridedCopy part = *this;
                      part.inner_dim_ = end - begin;
                      part.run_inner(src + begin * inner_src_ * bytes, dst + begin * bytes);
                    });
}

std::array<int64_t, Shape::kMaxRank> dense_strides(const Shape& shape) {
  std::array<int64_t, Shape::kMaxRank> strides{};
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

Status check_copyable(DataType type) {
  const size_t bytes = data_type_size(type);
  TENON_UNSUPPORTED_IF(bytes == 0, "Elements of type {} have no whole bytes.", data_type_name(type));
  return {};
}

}  // namespace tenon::cpu::nn
