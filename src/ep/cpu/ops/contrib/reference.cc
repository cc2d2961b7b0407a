// Operators of com.microsoft that no operators of ai.onnx stand for.
#include <algorithm>
#include <cstring>

#include "ep/cpu/ops/contrib/rows.h"
#include "ep/cpu/ops/reference_kernel.h"
#include "ops/contrib.h"

namespace tenon::cpu::ref {

namespace {

constexpr std::string_view kDomain = "com.microsoft";

// Gauss and Jordan's elimination of [A | I], with the largest element of a column as its pivot.
void invert(double* a, double* inverse, int64_t n) {
  std::fill_n(inverse, n * n, 0.0);
  for (int64_t i = 0; i < n; ++i) inverse[i * n + i] = 1;
  for (int64_t column = 0; column < n; ++column) {
    int64_t pivot = column;
    for (int64_t row = column + 1; row < n; ++row)
      if (std::abs(a[row * n + column]) > std::abs(a[pivot * n + column])) pivot = row;
    for (double* matrix : {a, inverse}) {
      if (pivot != column) std::swap_ranges(matrix + pivot * n, matrix + pivot * n + n, matrix + column * n);
    }
    const double factor = 1 / a[column * n + column];
    for (int64_t i = 0; i < n; ++i) a[column * n + i] *= factor, inverse[column * n + i] *= factor;
    for (int64_t row = 0; row < n; ++row) {
      const double share = a[row * n + column];
      if (row == column || share == 0) continue;
      for (int64_t i = 0; i < n; ++i) {
        a[row * n + i] -= share * a[column * n + i];
        inverse[row * n + i] -= share * inverse[column * n + i];
      }
    }
  }
}

template <typename T>
void invert_all(const InverseDesc& desc, const void* x, void* y, double* scratch) {
  const int64_t count = desc.size * desc.size;
  for (int64_t m = 0; m < desc.matrices; ++m) {
    const T* const from = static_cast<const T*>(x) + m * count;
    T* const to = static_cast<T*>(y) + m * count;
    for (int64_t i = 0; i < count; ++i) scratch[i] = static_cast<double>(from[i]);
    invert(scratch, scratch + count, desc.size);
    for (int64_t i = 0; i < count; ++i) to[i] = T(scratch[count + i]);
  }
}

Result<RefImpl> make_inverse(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY_ASSIGN(const InverseDesc desc, read_inverse(node.inputs[0].shape));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  const auto loop = select(FloatTypes(), node.inputs[0].type, []<typename T>() { return &invert_all<T>; });
  RefImpl impl;
  impl.scratch_bytes = 2 * desc.size * desc.size * sizeof(double);
  impl.run = [desc, loop](KernelContext& context) -> Status {
    loop(desc, context.inputs[0], context.outputs[0], reinterpret_cast<double*>(context.scratch));
    return {};
  };
  return impl;
}

Result<RefImpl> make_ngram(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  TENON_TRY_ASSIGN(const NGramDesc desc, read_ngram(*node.node, node.inputs[0].shape, node.inputs[1].shape));
  TENON_UNSUPPORTED_IF(node.inputs[0].type != DataType::kInt64 || node.inputs[1].type != DataType::kFloat,
                       "NGramRepeatBlock is computed on int64 ids and float32 scores, not {} and {}.",
                       data_type_name(node.inputs[0].type), data_type_name(node.inputs[1].type));
  TENON_TRY(require_output(node, 0, node.inputs[1].shape));
  RefImpl impl;
  impl.run = [desc](KernelContext& context) -> Status {
    const auto* const all = context.input<int64_t>(0);
    auto* const y = context.output<float>(0);
    std::memcpy(y, context.inputs[1], desc.batch * desc.scores * sizeof(float));
    const int64_t before = desc.length - 1;
    for (int64_t b = 0; b < desc.batch; ++b) {
      const int64_t* const ids = all + b * desc.ids;
      // The last ids of the sequence, wherever they stood before, were followed by what is ruled out.
      for (int64_t i = 0; i + desc.length <= desc.ids; ++i) {
        if (!std::equal(ids + i, ids + i + before, ids + desc.ids - before)) continue;
        const int64_t next = ids[i + before];
        TENON_INVALID_IF(next < 0 || next >= desc.scores, "Id {} of batch {} is not in [0, {}).", next, b, desc.scores);
        y[b * desc.scores + next] = -std::numeric_limits<float>::infinity();
      }
    }
    return {};
  };
  return impl;
}

// Sample `i` of `count` from a box's `begin` to its `end`, in elements of `size`.
float sample(float begin, float end, int64_t i, int64_t count, int64_t size) {
  const auto last = static_cast<float>(size - 1);
  const float from = begin * last, to = end * last;
  if (count == 1) return 0.5F * (from + to);
  return from + static_cast<float>(i) * ((to - from) / static_cast<float>(count - 1));
}

// One channel at (y, x).
float pixel(const CropDesc& desc, const float* image, float y, float x) {
  if (!(y >= 0 && y <= static_cast<float>(desc.height - 1) && x >= 0 && x <= static_cast<float>(desc.width - 1))) {
    return desc.outside;
  }
  if (desc.nearest) {
    return image[static_cast<int64_t>(std::round(y)) * desc.width + static_cast<int64_t>(std::round(x))];
  }
  const auto top = static_cast<int64_t>(std::floor(y)), left = static_cast<int64_t>(std::floor(x));
  const auto bottom = static_cast<int64_t>(std::ceil(y)), right = static_cast<int64_t>(std::ceil(x));
  const float down = y - static_cast<float>(top), along = x - static_cast<float>(left);
  const float upper = image[top * desc.width + left] * (1 - along) + image[top * desc.width + right] * along;
  const float lower = image[bottom * desc.width + left] * (1 - along) + image[bottom * desc.width + right] * along;
  return upper * (1 - down) + lower * down;
}

Result<RefImpl> make_crop(RefNode& node) {
  TENON_TRY(require_inputs(node, 4));
  TENON_TRY_ASSIGN(const CropDesc desc,
                   read_crop(*node.node, node.inputs[0].shape, node.inputs[1].shape, node.inputs[2].shape));
  TENON_UNSUPPORTED_IF(node.inputs[1].type != DataType::kFloat || node.inputs[2].type != DataType::kInt32,
                       "CropAndResize has boxes of {} and numbers of {}.", data_type_name(node.inputs[1].type),
                       data_type_name(node.inputs[2].type));
  RefImpl impl;
  impl.run = [desc, size_spec = node.inputs[3], spec = output_spec(node, 0)](KernelContext& context) -> Status {
    TENON_TRY_ASSIGN(const ShortVector size, read_ints(context, 3, size_spec));
    TENON_INVALID_IF(size.count != 2 || size.values[0] < 1 || size.values[1] < 1,
                     "CropAndResize has a size of {} numbers, which have to be two and positive.", size.count);
    const int64_t height = size.values[0], width = size.values[1];
    TENON_TRY_ASSIGN(void* const memory,
                     open_output(context, spec, 0, Shape{desc.boxes, desc.channels, height, width}));
    const auto* const numbers = context.input<int32_t>(2);
    for (int64_t i = 0; i < desc.boxes; ++i)
      TENON_INVALID_IF(numbers[i] < 0 || numbers[i] >= desc.images, "Box {} is of image {}, which is not in [0, {}).",
                       i, numbers[i], desc.images);
    context.pool->parallel_for(desc.boxes * desc.channels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const int64_t i = plane / desc.channels, channel = plane % desc.channels;
        const float* const box = context.input<float>(1) + 4 * i;
        const float* const image =
            context.input<float>(0) + (numbers[i] * desc.channels + channel) * desc.height * desc.width;
        float* const y = static_cast<float*>(memory) + plane * height * width;
        for (int64_t row = 0; row < height; ++row) {
          const float at = sample(box[0], box[2], row, height, desc.height);
          for (int64_t column = 0; column < width; ++column)
            y[row * width + column] = pixel(desc, image, at, sample(box[1], box[3], column, width, desc.width));
        }
      }
    });
    return {};
  };
  return impl;
}

Result<RefImpl> make_unfold(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY_ASSIGN(const UnfoldDesc desc, read_unfold(*node.node, node.inputs[0].shape));
  TENON_TRY(require_output(node, 0, desc.output));
  RefImpl impl;
  impl.run = [desc, bytes = data_type_size(node.inputs[0].type)](KernelContext& context) -> Status {
    const Shape dims{desc.outer, desc.slices, desc.inner, desc.size};
    const Strides from{desc.length * desc.inner, desc.step * desc.inner, 1, desc.inner};
    copy_box(bytes, dims, context.inputs[0], from, context.outputs[0], dense_strides(dims));
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<kFloat32Set, &make_crop>("CropAndResize", 1, kAnyVersion, kDomain),
    ref_row<kFloatSet, &make_inverse>("Inverse", 1, kAnyVersion, kDomain),
    ref_row<~TypeSet{0}, &make_ngram>("NGramRepeatBlock", 1, kAnyVersion, kDomain),
    ref_row<~TypeSet{0}, &make_unfold>("UnfoldTensor", 1, kAnyVersion, kDomain),
};

}  // namespace

std::span<const KernelEntry> ref_contrib_rows() {
  static const std::vector<KernelEntry> kAll = [] {
    std::vector<KernelEntry> all(std::begin(kRows), std::end(kRows));
    for (const auto& rows :
         {expert_rows(), hash_rows(), decoding_rows(), search_rows(), token_rows(), tokenizer_rows()})
      all.insert(all.end(), rows.begin(), rows.end());
    return all;
  }();
  return kAll;
}

}  // namespace tenon::cpu::ref
