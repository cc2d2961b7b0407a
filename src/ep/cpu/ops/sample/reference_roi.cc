// Regions of an image, each made the same size: RoiAlign and MaxRoiPool.
#include <algorithm>
#include <atomic>
#include <vector>

#include "ep/cpu/ops/gather/indices.h"
#include "ep/cpu/ops/reference_access.h"
#include "ops/sample.h"

namespace tenon::cpu::ref {

namespace {

template <typename T>
using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;

// A point between four elements of an image.
template <typename R>
struct Point {
  int64_t offset[4] = {};
  R weight[4] = {};
};

template <typename R>
Point<R> point_at(R y, R x, int64_t height, int64_t width) {
  Point<R> point;
  if (!(y >= -1 && y <= static_cast<R>(height) && x >= -1 && x <= static_cast<R>(width))) return point;
  const auto split = [](R at, int64_t length, int64_t& low, int64_t& high, R& part) {
    at = std::max(at, R(0));
    low = static_cast<int64_t>(at);
    if (low >= length - 1) {
      low = high = length - 1;
      part = 0;
    } else {
      high = low + 1;
      part = at - static_cast<R>(low);
    }
  };
  int64_t top, bottom, left, right;
  R down, across;
  split(y, height, top, bottom, down);
  split(x, width, left, right, across);
  const int64_t rows[2] = {top, bottom}, columns[2] = {left, right};
  for (int k = 0; k < 4; ++k) {
    point.offset[k] = rows[k / 2] * width + columns[k % 2];
    point.weight[k] = (k / 2 == 1 ? down : 1 - down) * (k % 2 == 1 ? across : 1 - across);
  }
  return point;
}

// The samples of a bin along an axis of a region, and where they lie.
template <typename R>
struct Bins {
  R start = 0, size = 0;
  int64_t samples = 0;

  Bins(const RoiDesc& desc, R begin, R end, int64_t count) : start(begin) {
    R length = end - begin;
    if (!desc.half_pixel) length = std::max(length, R(1));
    size = length / static_cast<R>(count);
    samples = desc.sampling_ratio;
    if (samples > 0) return;
    const R wanted = std::ceil(size);
    samples = wanted > 0 ? (wanted < R(1 << 30) ? static_cast<int64_t>(wanted) : int64_t{1} << 30) : 0;
  }
  R at(int64_t bin, int64_t sample) const {
    return start + static_cast<R>(bin) * size + (static_cast<R>(sample) + R(0.5)) * size / static_cast<R>(samples);
  }
};

// Samples of a bin beyond this many times the image's size are a mistake in the region, and would take for ever.
constexpr int64_t kMostSamples = 64;

using AlignRegion = Status (*)(const RoiDesc& desc, const void* x, const void* rois, int64_t region, int64_t image,
                               void* y);

// Points that are kept for all channels: those of a bin at least fit, or are made for each channel again.
constexpr int64_t kMostPoints = 4096;

// The value of a bin of one channel.
template <typename R, typename T>
R bin_value(const Point<R>* points, int64_t count, const T* image, bool max) {
  if (max) {
    // As the standard has it: the largest weighted element, not the largest interpolated one.
    R most = -std::numeric_limits<R>::infinity();
    for (int64_t i = 0; i < count; ++i)
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k)
        most = std::max(most, points[i].weight[k] * static_cast<R>(image[points[i].offset[k]]));
    return most;
  }
  R sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    R parts[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) parts[k] = points[i].weight[k] * static_cast<R>(image[points[i].offset[k]]);
    sum += parts[0] + parts[1] + parts[2] + parts[3];
  }
  return sum;
}

template <typename T>
Status align_region(const RoiDesc& desc, const void* x, const void* rois, int64_t region, int64_t image, void* y) {
  using R = Real<T>;
  const T* const roi = static_cast<const T*>(rois) + region * 4;
  const R offset = desc.half_pixel ? R(0.5) : R(0), scale = static_cast<R>(desc.scale);
  R edges[4];
  for (int k = 0; k < 4; ++k) edges[k] = static_cast<R>(roi[k]) * scale - offset;
  const Bins<R> across(desc, edges[0], edges[2], desc.out_width), down(desc, edges[1], edges[3], desc.out_height);
  TENON_INVALID_IF(desc.sampling_ratio == 0 && (across.samples > kMostSamples * (desc.width + 64) ||
                                                down.samples > kMostSamples * (desc.height + 64)),
                   "RoiAlign has a region of {} x {} elements in an image of {} x {}.", edges[3] - edges[1],
                   edges[2] - edges[0], desc.height, desc.width);
  const int64_t plane = desc.height * desc.width, bins = desc.out_height * desc.out_width;
  const T* const from = static_cast<const T*>(x) + image * desc.channels * plane;
  T* const to = static_cast<T*>(y) + region * desc.channels * bins;
  const int64_t samples = across.samples * down.samples;
  const auto count = static_cast<R>(std::max<int64_t>(1, samples));
  const auto point_of = [&](int64_t bin, int64_t sample) {
    const int64_t i = sample / across.samples, j = sample % across.samples;
    return point_at(down.at(bin / desc.out_width, i), across.at(bin % desc.out_width, j), desc.height, desc.width);
  };
  // A block of bins at a time, whose points are computed once for all channels; the points of large bins in blocks.
  const int64_t bins_a_block = std::max<int64_t>(1, kMostPoints / std::max<int64_t>(1, samples));
  std::vector<Point<R>> points(std::min(kMostPoints, bins * std::max<int64_t>(1, samples)));
  std::vector<R> sums(samples > kMostPoints ? desc.channels : 0);
  for (int64_t first = 0; first < bins; first += bins_a_block) {
    const int64_t block = std::min(bins_a_block, bins - first);
    std::fill(sums.begin(), sums.end(), desc.max ? -std::numeric_limits<R>::infinity() : R(0));
    for (int64_t s = 0; s < std::max<int64_t>(1, samples); s += kMostPoints) {
      const int64_t part = std::min(kMostPoints, samples - s);
      for (int64_t b = 0; b < block; ++b)
        for (int64_t i = 0; i < part; ++i) points[b * part + i] = point_of(first + b, s + i);
      for (int64_t c = 0; c < desc.channels; ++c) {
        for (int64_t b = 0; b < block; ++b) {
          R value = bin_value(points.data() + b * part, part, from + c * plane, desc.max);
          if (!sums.empty()) value = sums[c] = desc.max ? std::max(sums[c], value) : sums[c] + value;
          to[c * bins + first + b] = T(samples == 0 ? R(0) : desc.max ? value : value / count);
        }
      }
    }
  }
  return {};
}

// The first failure of chunks that run at once.
class FirstFailure {
 public:
  void add(Status status) {
    if (status.ok() || failed_.exchange(true)) return;
    status_ = std::move(status);
  }
  Status take() { return std::move(status_); }

 private:
  std::atomic<bool> failed_ = false;
  Status status_;
};

Result<RefImpl> make_roi_align(RefNode& node) {
  TENON_TRY(require_inputs(node, 3));
  TENON_TRY_ASSIGN(const RoiDesc desc,
                   read_roi_align(*node.node, node.inputs[0].shape, node.inputs[1].shape, node.inputs[2].shape));
  TENON_INVALID_IF(node.inputs[1].type != node.inputs[0].type, "RoiAlign mixes {} and {}.",
                   data_type_name(node.inputs[0].type), data_type_name(node.inputs[1].type));
  TENON_TRY_ASSIGN(const IndexReader image_of, index_reader(node, 2));
  TENON_TRY(require_output(node, 0, desc.output()));
  TENON_INVALID_IF(desc.height * desc.width == 0 && desc.regions * desc.channels > 0,
                   "RoiAlign has regions of an image without elements ({}).", node.inputs[0].shape.to_string());
  const auto align =
      select(FloatTypes(), node.inputs[0].type, []<typename T>() -> AlignRegion { return &align_region<T>; });
  RefImpl impl;
  impl.run = [desc, align, image_of](KernelContext& context) -> Status {
    FirstFailure failure;
    context.pool->parallel_for(desc.regions, 1, [&](int64_t begin, int64_t end) {
      for (int64_t region = begin; region < end; ++region) {
        const int64_t image = image_of(context.inputs[2], region);
        if (image < 0 || image >= desc.batch) {
          failure.add(out_of_range("RoiAlign has a region of image {} of {}.", image, desc.batch));
          return;
        }
        failure.add(align(desc, context.inputs[0], context.inputs[1], region, image, context.outputs[0]));
      }
    });
    return failure.take();
  };
  return impl;
}

using PoolRegion = void (*)(const RoiDesc& desc, const void* x, const double* roi, int64_t region, void* y);

// Elements of a bin along an axis: [begin, end) in the image.
struct Span {
  int64_t begin = 0, end = 0;
};
template <typename F>
Span bin_of(double first, double last, int64_t bins, int64_t bin, int64_t length) {
  // Elements are whole, and a region has one at least.
  const F begin = static_cast<F>(std::round(first)),
          size = std::max(static_cast<F>(std::round(last)) - begin + F(1), F(1)) / static_cast<F>(bins);
  const auto clamp = [&](F at) {
    return std::isnan(at) ? 0 : static_cast<int64_t>(std::clamp(at + begin, F(0), static_cast<F>(length)));
  };
  return {clamp(std::floor(static_cast<F>(bin) * size)), clamp(std::ceil(static_cast<F>(bin + 1) * size))};
}

// A number of a region times the scale. In float32, as ONNX Runtime computes it: which element an edge is rounded to
// hangs on the last digit.
double scaled(double number, float scale, DataType type) {
  if (type == DataType::kDouble) return number * static_cast<double>(scale);
  return static_cast<double>(static_cast<float>(number) * scale);
}

template <typename T>
void pool_region(const RoiDesc& desc, const void* x, const double* roi, int64_t region, void* y) {
  using F = std::conditional_t<std::is_same_v<T, double>, double, float>;
  using C = Compute<T>;
  const int64_t plane = desc.height * desc.width, bins = desc.out_height * desc.out_width;
  const T* const from = static_cast<const T*>(x) + static_cast<int64_t>(roi[0]) * desc.channels * plane;
  T* const to = static_cast<T*>(y) + region * desc.channels * bins;
  std::vector<Span> columns(desc.out_width);
  Span all{desc.width, 0};
  for (int64_t j = 0; j < desc.out_width; ++j) {
    columns[j] = bin_of<F>(roi[1], roi[3], desc.out_width, j, desc.width);
    all = {std::min(all.begin, columns[j].begin), std::max(all.end, columns[j].end)};
  }
  const int64_t width = std::max<int64_t>(0, all.end - all.begin);
  std::vector<C> line(width);  // the largest element of each column
  for (int64_t i = 0; i < desc.out_height; ++i) {
    const Span rows = bin_of<F>(roi[2], roi[4], desc.out_height, i, desc.height);
    for (int64_t c = 0; c < desc.channels; ++c) {
      const T* const image = from + c * plane + all.begin;
      if (rows.begin < rows.end) std::copy_n(image + rows.begin * desc.width, width, line.begin());
      for (int64_t k = rows.begin + 1; k < rows.end; ++k) {
        const T* const row = image + k * desc.width;
        for (int64_t j = 0; j < width; ++j)
          line[j] = static_cast<C>(row[j]) > line[j] ? static_cast<C>(row[j]) : line[j];
      }
      for (int64_t j = 0; j < desc.out_width; ++j) {
        const Span bin{columns[j].begin - all.begin, columns[j].end - all.begin};
        C largest(0);
        if (rows.begin < rows.end && bin.begin < bin.end) {
          largest = line[bin.begin];
          for (int64_t k = bin.begin + 1; k < bin.end; ++k) largest = line[k] > largest ? line[k] : largest;
        }
        to[c * bins + i * desc.out_width + j] = T(largest);
      }
    }
  }
}

Result<RefImpl> make_max_roi_pool(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  TENON_TRY_ASSIGN(const RoiDesc desc, read_max_roi_pool(*node.node, node.inputs[0].shape, node.inputs[1].shape));
  TENON_INVALID_IF(node.inputs[1].type != node.inputs[0].type, "MaxRoiPool mixes {} and {}.",
                   data_type_name(node.inputs[0].type), data_type_name(node.inputs[1].type));
  TENON_TRY(require_output(node, 0, desc.output()));
  TENON_TRY_ASSIGN(const ReadNumber read, input_reader(node, 1));
  const auto pool =
      select(FloatTypes(), node.inputs[0].type, []<typename T>() -> PoolRegion { return &pool_region<T>; });
  RefImpl impl;
  impl.run = [desc, pool, read, type = node.inputs[1].type](KernelContext& context) -> Status {
    FirstFailure failure;
    context.pool->parallel_for(desc.regions, 1, [&](int64_t begin, int64_t end) {
      for (int64_t region = begin; region < end; ++region) {
        double roi[5];
        for (int k = 0; k < 5; ++k) {
          const double number = read(context.inputs[1], region * 5 + k);
          roi[k] = k == 0 ? number : scaled(number, desc.scale, type);
        }
        if (!(roi[0] >= 0 && roi[0] < static_cast<double>(desc.batch))) {
          failure.add(out_of_range("MaxRoiPool has a region of image {} of {}.", roi[0], desc.batch));
          return;
        }
        pool(desc, context.inputs[0], roi, region, context.outputs[0]);
      }
    });
    return failure.take();
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<kFloatSet, &make_roi_align>("RoiAlign", 10),
    ref_row<kFloatSet, &make_max_roi_pool>("MaxRoiPool", 1),
};

}  // namespace

std::span<const KernelEntry> ref_roi_rows() { return kRows; }

}  // namespace tenon::cpu::ref
