// The loops around a fused chain of elementwise steps. The chain is text (compute/elementwise_kernel.cc): a struct with
// a function of() of one number for each operand. All around it is here: which elements a thread makes, and how
// operands are read.
//
// The template arguments hold what changes the code: the rank, the vector width, how each operand is read. Sizes,
// strides, offsets and limits are parameters, so that a chain at other sizes is the same instance.
#pragma once

#include "ep/cuda/templates/kernel.cuh"

namespace tenon::cuda::device {

// How an operand's numbers come to a thread.
enum class Read {
  kElement,  // one for all elements of a vector
  kVector,   // a vector of neighbours at once
  kTile,     // from a tile that the block has transposed in shared memory
  kWindow,   // one, where the coordinates are within a window; a constant elsewhere
  kIndex,    // not by the chain: the indices of a gathered operand
};

// An operand as the kernel's template argument. Bit d of kMask: dimension d has a stride. kNumber: the window's, of
// kWindow.
template <typename T, Read kReadAs, unsigned kMask, int kNumber = 0>
struct Operand {
  using Type = T;
  static constexpr Read kRead = kReadAs;
  static constexpr unsigned kStrides = kMask;
  static constexpr int kWindow = kNumber;
  static constexpr bool kGathered = false;
};
// An operand whose elements are chosen by another one, of number kOperand.
template <typename T, Read kReadAs, unsigned kMask, typename I, unsigned kIndexMask, int kOperand>
struct Gathered : Operand<T, kReadAs, kMask> {
  using Index = I;
  static constexpr unsigned kIndexStrides = kIndexMask;
  static constexpr int kIndices = kOperand;
  static constexpr bool kGathered = true;
};

// The host lays these out by hand (compute/elementwise_kernel.cc): dimensions outermost first, Offset int or long long.
template <typename Offset, int kRank>
struct OperandLayout {
  Offset offset;
  Offset step;  // gathered: the elements between two indices; of indices: how many elements they choose from
  Offset strides[kRank];
};
template <typename Offset, int kRank>
struct Window {
  uint64_t fill;  // the bits of a number_t of the operand
  Offset begin[kRank], end[kRank];
};
template <bool kWide, int kRank, int kOperands, int kWindows>
struct ElementwiseParams {
  using Offset = offset_t<kWide>;
  Divisor sizes[kRank];  // the last one counted in vectors, those of tiles in tiles
  Window<Offset, kRank> windows[kWindows > 0 ? kWindows : 1];
  OperandLayout<Offset, kRank> layouts[kOperands];  // in the order of the kernel's pointers, the result last
  Offset extents[2];  // the threads' elements; of tiles: elements of the transposed and of the last dimension
};

template <unsigned kMask, bool kDense, int kRank, typename Index, typename Offset>
__device__ __forceinline__ Index offset_of(const OperandLayout<Offset, kRank>& at, const Index* i) {
  Index offset = static_cast<Index>(at.offset);
#pragma unroll
  for (int d = 0; d < kRank; ++d)
    if ((kMask >> d & 1) != 0) offset += kDense && d == kRank - 1 ? i[d] : i[d] * static_cast<Index>(at.strides[d]);
  return offset;
}

constexpr unsigned kTileSide = 32, kTileRows = kMapThreads / kTileSide;

template <typename T, int kOperand>
__device__ __forceinline__ auto tile_of() -> T (&)[kTileSide][kTileSide + 1] {
  __shared__ T tile[kTileSide][kTileSide + 1];
  return tile;
}

// The elements that a thread has read of the operands from number kAt on.
template <int kAt, int kVector, typename... Operands>
struct Reads {
  template <typename Params, typename Index>
  __device__ __forceinline__ void read(const Params&, const void* const*, const Index*, unsigned, unsigned) {}
  template <typename Params, typename Index>
  static __device__ __forceinline__ void fill_tiles(const Params&, const void* const*, const Index*, unsigned,
                                                    unsigned) {}
  template <typename Chain, typename... Numbers>
  __device__ __forceinline__ auto make(int, Numbers... numbers) const {
    return Chain::of(numbers...);
  }
};

template <int kAt, int kVector, typename O, typename... Rest>
struct Reads<kAt, kVector, O, Rest...> {
  using T = typename O::Type;
  static constexpr int kHeld = O::kRead == Read::kVector ? kVector : 1;
  Pack<T, kHeld> held;
  number_t<T> number;
  Reads<kAt + 1, kVector, Rest...> rest;

  template <typename Params, typename Index>
  __device__ __forceinline__ void read(const Params& p, const void* const* operands, const Index* i, unsigned down,
                                       unsigned across) {
    const T* const a = static_cast<const T*>(operands[kAt]);
    if constexpr (O::kRead == Read::kTile) {
      number = load(tile_of<T, kAt>()[across][down]);
    } else if constexpr (O::kRead == Read::kWindow) {
      const auto& window = p.windows[O::kWindow];
      number = *reinterpret_cast<const number_t<T>*>(&window.fill);
      bool inside = true;
#pragma unroll
      for (int d = 0; d < static_cast<int>(sizeof(window.begin) / sizeof(window.begin[0])); ++d) {
        const auto at = static_cast<typename Params::Offset>(i[d]);
        inside = inside && at >= window.begin[d] && at < window.end[d];
      }
      if (inside) number = load(a[offset_of<O::kStrides, false>(p.layouts[kAt], i)]);
    } else if constexpr (O::kRead != Read::kIndex) {
      const Index offset = offset_of < O::kStrides, O::kRead == Read::kVector > (p.layouts[kAt], i);
      const T* element = a + offset;
      if constexpr (O::kGathered) {
        const auto& by = p.layouts[O::kIndices];
        const long long size = by.step;
        long long index =
            static_cast<const typename O::Index*>(operands[O::kIndices])[offset_of<O::kIndexStrides, false>(by, i)];
        // A bad index must not leave the memory of the tensor; the host's operators check it, here nobody can be told.
        if (index < 0) index += size;
        index = index < 0 ? 0 : index >= size ? (size > 0 ? size - 1 : 0) : index;
        element += index * p.layouts[kAt].step;
      }
      held = *reinterpret_cast<const Pack<T, kHeld>*>(element);
    }
    rest.read(p, operands, i, down, across);
  }

  template <typename Params, typename Index>
  static __device__ __forceinline__ void fill_tiles(const Params& p, const void* const* operands, const Index* i,
                                                    unsigned down, unsigned across) {
    if constexpr (O::kRead == Read::kTile)
      tile_of<T, kAt>()[down][across] =
          static_cast<const T*>(operands[kAt])[offset_of<O::kStrides, false>(p.layouts[kAt], i)];
    Reads<kAt + 1, kVector, Rest...>::fill_tiles(p, operands, i, down, across);
  }

  // Element j of the vector.
  template <typename Chain, typename... Numbers>
  __device__ __forceinline__ auto make(int j, Numbers... numbers) const {
    if constexpr (O::kRead == Read::kIndex) {
      return rest.template make<Chain>(j, numbers...);
    } else if constexpr (O::kRead == Read::kTile || O::kRead == Read::kWindow) {
      return rest.template make<Chain>(j, numbers..., number);
    } else {
      return rest.template make<Chain>(j, numbers..., load(held.v[kHeld == 1 ? 0 : j]));
    }
  }
};

// The coordinates of a vector's first element.
template <int kRank, int kVector, typename Index>
__device__ __forceinline__ void coordinates(Index flat, const Divisor* sizes, Index* i) {
  split_index<kRank>(flat, sizes, i);
  i[kRank - 1] *= kVector;
}

// Each thread makes kItems vectors of the result, all of whose operands are read before the first is written, so that
// the reads overlap. kDense: the result's neighbours lie beside each other, kMask: its strides, as those of an operand.
template <typename Chain, bool kWide, int kRank, int kVector, int kItems, unsigned kMask, bool kDense, int kWindows,
          typename Out, typename... Operands>
__global__ void __launch_bounds__(kMapThreads)
    elementwise(const ElementwiseParams<kWide, kRank, sizeof...(Operands) + 1, kWindows> p,
                const typename Operands::Type*... operands, Out* y) {
  using Index = index_t<kWide>;
  const void* const all[] = {operands..., nullptr};
  const Index first = static_cast<Index>(blockIdx.x) * (kMapThreads * kItems) + threadIdx.x;
  const Index count = static_cast<Index>(p.extents[0]);
  begin_kernel();
  Pack<Out, kVector> results[kItems];
#pragma unroll
  for (int n = 0; n < kItems; ++n) {
    const Index wanted = first + n * kMapThreads;
    if (kItems == 1 && wanted >= count) return;
    Index i[kRank];
    coordinates<kRank, kVector>(wanted < count ? wanted : count - 1, p.sizes, i);
    Reads<0, kVector, Operands...> reads;
    reads.read(p, all, i, 0, 0);
#pragma unroll
    for (int j = 0; j < kVector; ++j) results[n].v[j] = store<Out>(reads.template make<Chain>(j));
  }
#pragma unroll
  for (int n = 0; n < kItems; ++n) {
    const Index flat = first + n * kMapThreads;
    if (flat >= count) return;
    Index i[kRank];
    coordinates<kRank, kVector>(flat, p.sizes, i);
    *reinterpret_cast<Pack<Out, kVector>*>(y + offset_of<kMask, kDense>(p.layouts[sizeof...(Operands)], i)) =
        results[n];
  }
}

}  // namespace tenon::cuda::device
