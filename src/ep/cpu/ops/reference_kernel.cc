#include "ep/cpu/ops/reference_kernel.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ep/cpu/ops/small_types.h"
#include "ep/cpu/ops/unpacking_kernel.h"

namespace tenon::cpu::ref {

namespace {

class RefKernel final : public Kernel {
 public:
  RefKernel(RefImpl impl, RefNode& node)
      : impl_(std::move(impl)), inputs_(node.inputs.size(), false), settled_(std::move(node.settled)) {
    if (!impl_.elementwise || node.outputs.empty() || node.outputs[0].dynamic) return;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      inputs_[i] = node.inputs[i].present() && node.inputs[i].shape == node.outputs[0].shape &&
                   data_type_bits(node.inputs[i].type) == data_type_bits(node.outputs[0].type);
    }
  }
  Status run(KernelContext& context) const override {
    if (settled_.empty()) return impl_.run(context);
    std::vector<void*> outputs(context.outputs.begin(), context.outputs.end());
    for (const auto& [index, shape] : settled_) {
      TENON_TRY_ASSIGN(outputs[index], context.allocate_output(index, shape));
    }
    const std::span<void* const> before = std::exchange(context.outputs, outputs);
    Status status = impl_.run(context);
    context.outputs = before;
    return status;
  }
  size_t scratch_bytes() const override { return impl_.scratch_bytes; }
  bool may_run_in_place(size_t input, size_t output) const override {
    return output == 0 && input < inputs_.size() && inputs_[input];
  }
  std::string_view name() const override { return impl_.name; }

 private:
  RefImpl impl_;
  std::vector<bool> inputs_;
  std::vector<std::pair<size_t, Shape>> settled_;
};

const TensorSpec kAbsent;

}  // namespace

Status check_types(const KernelNode& node, TypeSet types, size_t input) {
  for (std::span<const TensorSpec> specs : {node.inputs, node.outputs}) {
    for (const TensorSpec& spec : specs) {
      if (!spec.present()) continue;
      const bool packed = has_type(kPackedSet, spec.type);
      TENON_UNSUPPORTED_IF(packed ? !has_type(types, spec.type) : data_type_size(spec.type) == 0,
                           "{} is not computed with tensors of {}.", node.node->op_type, data_type_name(spec.type));
      TENON_UNSUPPORTED_IF(spec.layout != Layout::kPlain && node.node->op_type != "Reorder",
                           "The reference kernel takes plain tensors only.");
    }
  }
  const TensorSpec& spec = node.inputs.empty() ? output_spec(node, 0) : input_spec(node, input);
  if (!spec.present()) return {};
  TENON_UNSUPPORTED_IF(((types >> static_cast<int>(spec.type)) & 1) == 0, "{} is not computed on {}.",
                       node.node->op_type, data_type_name(spec.type));
  return {};
}

Result<std::unique_ptr<Kernel>> wrap_packed(const KernelNode& node, RefMaker maker) {
  RefNode ref{node, {}, output_spec(node, 0).type};
  TENON_TRY_ASSIGN(RefImpl impl, maker(ref));
  return std::unique_ptr<Kernel>(std::make_unique<RefKernel>(std::move(impl), ref));
}

Result<std::unique_ptr<Kernel>> wrap(const KernelNode& node, RefMaker maker) {
  const auto packed = [](const TensorSpec& spec) { return has_type(kPackedSet, spec.type); };
  if (std::ranges::none_of(node.inputs, packed) && std::ranges::none_of(node.outputs, packed)) {
    return wrap_packed(node, maker);
  }
  return make_unpacking_kernel(node, maker);
}

const TensorSpec& input_spec(const KernelNode& node, size_t index) {
  return index < node.inputs.size() ? node.inputs[index] : kAbsent;
}

const TensorSpec& output_spec(const KernelNode& node, size_t index) {
  return index < node.outputs.size() ? node.outputs[index] : kAbsent;
}

Status require_inputs(const KernelNode& node, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    TENON_INVALID_IF(!input_spec(node, i).present(), "{} needs input {}, which is absent.", node.node->op_type, i);
  }
  return {};
}

Status require_output(RefNode& node, size_t index, const Shape& shape) {
  const TensorSpec& spec = output_spec(node, index);
  if (spec.present() && spec.dynamic) {
    std::erase_if(node.settled, [&](const auto& entry) { return entry.first == index; });
    node.settled.emplace_back(index, shape);
  }
  if (!spec.present() || spec.dynamic || spec.shape == shape) return {};
  return invalid_argument("Output {} of {} has shape {} by its inputs, but was planned as {}.", index,
                          node.node->op_type, shape.to_string(), spec.shape.to_string());
}

Result<int> resolve_axis(int64_t axis, int rank) {
  TENON_INVALID_IF(axis < -rank || axis >= rank, "Axis {} is outside [{}, {}).", axis, -rank, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Result<int> resolve_axis(const KernelNode& node, int64_t axis, int rank) {
  TENON_INVALID_IF(axis < -rank || axis >= rank, "Axis {} of {} is outside [{}, {}).", axis, node.node->op_type, -rank,
                   rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Result<void*> open_output(KernelContext& context, const TensorSpec& spec, size_t index, const Shape& shape) {
  if (!spec.present()) return static_cast<void*>(nullptr);
  if (spec.dynamic) return context.allocate_output(index, shape);
  TENON_INVALID_IF(!(spec.shape == shape), "Output {} has shape {} by the values of its inputs, but was planned as {}.",
                   index, shape.to_string(), spec.shape.to_string());
  return context.outputs[index];
}

Result<ShortVector> read_ints(const KernelContext& context, size_t index, const TensorSpec& spec) {
  ShortVector result;
  const int64_t count = spec.shape.element_count();
  TENON_INVALID_IF(count > static_cast<int64_t>(result.values.size()),
                   "Input {} has {} elements, more than a rank has.", index, count);
  result.count = static_cast<int>(count);
  for (int64_t i = 0; i < count; ++i) {
    result.values[i] =
        spec.type == DataType::kInt32 ? context.input<int32_t>(index)[i] : context.input<int64_t>(index)[i];
  }
  return result;
}

Result<ShortVector> short_vector(std::span<const int64_t> values) {
  ShortVector result;
  TENON_INVALID_IF(values.size() > result.values.size(), "An attribute has {} elements, more than a rank has.",
                   values.size());
  for (int64_t value : values) result.values[result.count++] = value;
  return result;
}

Strides dense_strides(const Shape& shape) {
  Strides strides{};
  int64_t stride = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

Walk make_walk(const Shape& dims, std::initializer_list<Strides> strides) {
  Walk walk;
  walk.operands = static_cast<int>(strides.size());
  // Innermost first: [0] becomes the inner loop.
  int rank = 0;
  std::array<int64_t, Shape::kMaxRank> sizes{};
  std::array<std::array<int64_t, Walk::kOperands>, Shape::kMaxRank> steps{};
  for (int d = dims.rank() - 1; d >= 0; --d) {
    if (dims[d] == 1) continue;
    std::array<int64_t, Walk::kOperands> step{};
    size_t k = 0;
    for (const Strides& s : strides) step[k++] = s[d];
    bool merges = rank > 0;
    if (rank > 0) {
      for (k = 0; k < strides.size(); ++k) {
        merges &= step[k] == steps[rank - 1][k] * sizes[rank - 1];
      }
    }
    if (merges) {
      sizes[rank - 1] *= dims[d];
    } else {
      sizes[rank] = dims[d];
      steps[rank++] = step;
    }
  }
  if (rank == 0) return walk;
  walk.inner = sizes[0];
  walk.inner_strides = steps[0];
  walk.rank = rank - 1;
  for (int d = 1; d < rank; ++d) {
    walk.dims[rank - 1 - d] = sizes[d];
    walk.strides[rank - 1 - d] = steps[d];
  }
  return walk;
}

Result<Strides> broadcast_strides(const Shape& shape, const Shape& out) {
  TENON_INVALID_IF(shape.rank() > out.rank(), "Shape {} does not broadcast to {}.", shape.to_string(), out.to_string());
  const Strides dense = dense_strides(shape);
  Strides strides{};
  const int offset = out.rank() - shape.rank();
  for (int d = 0; d < shape.rank(); ++d) {
    TENON_INVALID_IF(shape[d] != 1 && shape[d] != out[d + offset], "Shape {} does not broadcast to {}.",
                     shape.to_string(), out.to_string());
    strides[d + offset] = shape[d] == 1 ? 0 : dense[d];
  }
  return strides;
}

Result<Shape> broadcast_shape(const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Shape out = longer;
  const int offset = longer.rank() - shorter.rank();
  for (int d = 0; d < shorter.rank(); ++d) {
    int64_t& dim = out[d + offset];
    TENON_INVALID_IF(dim != shorter[d] && dim != 1 && shorter[d] != 1, "Shapes {} and {} do not broadcast.",
                     a.to_string(), b.to_string());
    if (dim == 1) dim = shorter[d];
  }
  return out;
}

namespace {

template <typename T>
void copy_strided(const void* src, int64_t src_stride, void* dst, int64_t dst_stride, int64_t count) {
  const T* from = static_cast<const T*>(src);
  T* to = static_cast<T*>(dst);
  for (int64_t i = 0; i < count; ++i) to[i * dst_stride] = from[i * src_stride];
}

struct Wide {
  uint64_t halves[2];
};

}  // namespace

void copy_box(size_t element_bytes, const Shape& dims, const void* src, const Strides& src_strides, void* dst,
              const Strides& dst_strides) {
  const Walk walk = make_walk(dims, {src_strides, dst_strides});
  const auto* from = static_cast<const std::byte*>(src);
  auto* to = static_cast<std::byte*>(dst);
  const auto bytes = static_cast<int64_t>(element_bytes);
  const bool dense = walk.inner_strides[0] == 1 && walk.inner_strides[1] == 1;
  auto* copy = &copy_strided<uint8_t>;
  switch (element_bytes) {
    case 2:
      copy = &copy_strided<uint16_t>;
      break;
    case 4:
      copy = &copy_strided<uint32_t>;
      break;
    case 8:
      copy = &copy_strided<uint64_t>;
      break;
    case 16:
      copy = &copy_strided<Wide>;
      break;
    default:
      break;
  }
  walk.run([&](const auto& at) {
    if (dense) {
      std::memcpy(to + at[1] * bytes, from + at[0] * bytes, walk.inner * bytes);
    } else {
      copy(from + at[0] * bytes, walk.inner_strides[0], to + at[1] * bytes, walk.inner_strides[1], walk.inner);
    }
    return true;
  });
}

}  // namespace tenon::cpu::ref
