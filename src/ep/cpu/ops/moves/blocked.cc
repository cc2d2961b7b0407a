// Reorder between layouts; Concat and Split along channels on the blocked layout, where whole blocks move.
#include "ep/cpu/simd/blocked.h"
#include "ep/cpu/ops/blocked_rows.h"
#include "ep/cpu/ops/kernel_support.h"
#include "ops/concat.h"
#include "ops/reorder.h"
#include "ops/split.h"

namespace tenon::cpu {

namespace {

int64_t spatial_size(const Shape& shape) {
  int64_t pixels = 1;
  for (int i = 2; i < shape.rank(); ++i) pixels *= shape[i];
  return pixels;
}

class Reorder final : public Kernel {
 public:
  Reorder(const Shape& blocked, const ReorderDesc& desc)
      : batch_(blocked[0]), channels_(blocked[1]), pixels_(spatial_size(blocked)), desc_(desc) {}

  Status run(KernelContext& context) const override {
    const float* x = context.input<float>(0);
    float* y = context.output<float>(0);
    // With the channels last all blocks of a chunk are taken one after another, from what the first brought to the
    // cache.
    constexpr int64_t kPixels = 1024, kFloats = 4096;
    const int64_t blocks = (channels_ + 7) / 8;
    const int64_t together = desc_.channels_last ? blocks : 1, groups = blocks / together;
    const int64_t most = desc_.channels_last ? std::max<int64_t>(16, kFloats / (blocks * 8)) : kPixels;
    const int64_t chunks = (pixels_ + most - 1) / most;
    context.pool->parallel_for(
        batch_ * groups * chunks, grain_of(std::min(most, pixels_) * together * 2), [&](int64_t begin, int64_t end) {
          for (int64_t item = begin; item < end; ++item) {
            const int64_t group = item / chunks, image = group / groups, first = item % chunks * most;
            const int64_t size = std::min(most, pixels_ - first), block = group % groups * together;
            for (int64_t i = block; i < block + together; ++i)
              move_block(x, y, image, i, ((image * blocks + i) * pixels_ + first) * 8, first, size);
          }
        });
    return {};
  }
  std::string_view name() const override {
    if (desc_.channels_last) return desc_.to == Layout::kPlain ? "reorder_to_channels_last" : "reorder_channels_last";
    return desc_.to == Layout::kPlain ? "reorder_to_plain" : "reorder_to_blocked";
  }

 private:
  void move_block(const float* x, float* y, int64_t image, int64_t block, int64_t blocked, int64_t first,
                  int64_t size) const {
    const int64_t channel = block * 8;
    const int count = static_cast<int>(std::min<int64_t>(8, channels_ - channel));
    if (desc_.channels_last) {
      const int64_t plain = (image * pixels_ + first) * channels_ + channel;
      if (desc_.to == Layout::kPlain)
        blocked_table().to_channels_last(x + blocked, y + plain, channels_, count, size);
      else
        blocked_table().from_channels_last(x + plain, channels_, count, y + blocked, size);
      return;
    }
    const int64_t plain = (image * channels_ + channel) * pixels_ + first;
    if (desc_.to == Layout::kPlain)
      blocked_table().to_plain(x + blocked, y + plain, pixels_, count, size);
    else
      blocked_table().to_blocked(x + plain, pixels_, count, y + blocked, size);
  }

  int64_t batch_, channels_, pixels_;
  ReorderDesc desc_;
};

// Floats of one image of each part, and of the whole.
struct Parts {
  int64_t batch = 1, whole = 0;
  std::vector<int64_t> sizes;
};

Parts parts_of(std::span<const TensorSpec> parts, const Shape& whole) {
  Parts result;
  const int64_t pixels = spatial_size(whole);
  result.batch = whole[0];
  result.whole = (whole[1] + 7) / 8 * 8 * pixels;
  for (const TensorSpec& part : parts) result.sizes.push_back((part.shape[1] + 7) / 8 * 8 * pixels);
  return result;
}

// Copies each part of each image in pieces, so that threads share large ones. `body(part, image, offset in the part,
// offset in the whole, floats)`.
template <typename Body>
void for_pieces(ThreadPool& pool, const Parts& parts, const Body& body) {
  constexpr int64_t kPiece = 64 * 1024;
  int64_t base = 0;
  for (size_t p = 0; p < parts.sizes.size(); ++p) {
    const int64_t size = parts.sizes[p], pieces = (size + kPiece - 1) / kPiece;
    pool.parallel_for(parts.batch * pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t image = item / pieces, first = item % pieces * kPiece;
        body(p, image * size + first, image * parts.whole + base + first, std::min(kPiece, size - first));
      }
    });
    base += size;
  }
}

class BlockedConcat final : public Kernel {
 public:
  explicit BlockedConcat(Parts parts) : parts_(std::move(parts)) {}
  Status run(KernelContext& context) const override {
    float* y = context.output<float>(0);
    for_pieces(*context.pool, parts_, [&](size_t part, int64_t in_part, int64_t in_whole, int64_t floats) {
      std::memcpy(y + in_whole, context.input<float>(part) + in_part, floats * sizeof(float));
    });
    return {};
  }
  std::string_view name() const override { return "blocked_concat"; }

 private:
  Parts parts_;
};

class BlockedSplit final : public Kernel {
 public:
  explicit BlockedSplit(Parts parts) : parts_(std::move(parts)) {}
  Status run(KernelContext& context) const override {
    const float* x = context.input<float>(0);
    for_pieces(*context.pool, parts_, [&](size_t part, int64_t in_part, int64_t in_whole, int64_t floats) {
      std::memcpy(context.output<float>(part) + in_part, x + in_whole, floats * sizeof(float));
    });
    return {};
  }
  std::string_view name() const override { return "blocked_split"; }

 private:
  Parts parts_;
};

// The parts and the whole are blocked, and only the last part has a block that is not full.
Status match_parts(Result<int> axis, std::span<const TensorSpec> parts, const TensorSpec& whole) {
  const int64_t rank = whole.shape.rank();
  TENON_UNSUPPORTED_IF(rank < 3, "Rank {} is below 3.", rank);
  TENON_TRY(axis.status());
  TENON_UNSUPPORTED_IF(*axis != 1, "Axis {} is not the channels.", *axis);
  TENON_UNSUPPORTED_IF(whole.type != DataType::kFloat, "Only float32 is served, not {}.", data_type_name(whole.type));
  TENON_TRY(expect_layout(whole, Layout::kBlocked8, "The whole"));
  for (size_t i = 0; i < parts.size(); ++i) {
    TENON_UNSUPPORTED_IF(!parts[i].present() || parts[i].shape.rank() != rank, "Part {} is absent.", i);
    TENON_TRY(expect_layout(parts[i], Layout::kBlocked8, "A part"));
    TENON_UNSUPPORTED_IF(i + 1 < parts.size() && parts[i].shape[1] % 8 != 0,
                         "Part {} has {} channels, which is no multiple of 8.", i, parts[i].shape[1]);
  }
  return {};
}

}  // namespace

Status match_reorder(const KernelNode& node) {
  const TensorSpec &x = node.inputs[0], &y = node.outputs[0];
  TENON_UNSUPPORTED_IF(x.type != DataType::kFloat, "Only float32 is served, not {}.", data_type_name(x.type));
  TENON_UNSUPPORTED_IF(x.shape.rank() < 3, "Rank {} is below 3.", x.shape.rank());
  TENON_UNSUPPORTED_IF(x.layout == y.layout, "Both layouts are the same.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_reorder(const KernelNode& node) {
  TENON_TRY_ASSIGN(const ReorderDesc desc, read_reorder(*node.node));
  const TensorSpec& blocked = desc.to == Layout::kPlain ? node.inputs[0] : node.outputs[0];
  return std::unique_ptr<Kernel>(std::make_unique<Reorder>(blocked.shape, desc));
}

Status match_blocked_concat(const KernelNode& node) {
  const TensorSpec& whole = node.outputs[0];
  return match_parts(read_concat_axis(*node.node, whole.shape.rank()), node.inputs, whole);
}

Result<std::unique_ptr<Kernel>> create_blocked_concat(const KernelNode& node) {
  return std::unique_ptr<Kernel>(std::make_unique<BlockedConcat>(parts_of(node.inputs, node.outputs[0].shape)));
}

Status match_blocked_split(const KernelNode& node) {
  const TensorSpec& whole = node.inputs[0];
  return match_parts(read_split_axis(*node.node, whole.shape.rank()), node.outputs, whole);
}

Result<std::unique_ptr<Kernel>> create_blocked_split(const KernelNode& node) {
  return std::unique_ptr<Kernel>(std::make_unique<BlockedSplit>(parts_of(node.outputs, node.inputs[0].shape)));
}

}  // namespace tenon::cpu
