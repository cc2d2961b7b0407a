// Reorder between layouts; Concat and Split along channels on the blocked layout, where whole blocks move.
#include "ep/cpu/simd/blocked.h"
#include "ep/cpu/ops/blocked_rows.h"
#include "ep/cpu/ops/kernel_support.h"
#include "ep/cpu/simd/interleave.h"
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

// The loops of BlockedTable that move elements, and those for bytes.
template <typename T>
struct BlockMoves {
  void (*to_blocked)(const T* x, int64_t plane, int channels, T* y, int64_t pixels);
  void (*to_plain)(const T* x, T* y, int64_t plane, int channels, int64_t pixels);
  void (*from_channels_last)(const T* x, int64_t stride, int channels, T* y, int64_t pixels);
  void (*to_channels_last)(const T* x, T* y, int64_t stride, int channels, int64_t pixels);
};

BlockMoves<float> moves_of(const float*) {
  const BlockedTable& table = blocked_table();
  return {table.to_blocked, table.to_plain, table.from_channels_last, table.to_channels_last};
}

void bytes_from_channels_last(const uint8_t* x, int64_t stride, int channels, uint8_t* y, int64_t pixels) {
  if (channels == 8) {
    for (int64_t i = 0; i < pixels; ++i) std::memcpy(y + i * 8, x + i * stride, 8);
  } else {
    std::memset(y, 0, pixels * 8);
    for (int64_t i = 0; i < pixels; ++i) std::memcpy(y + i * 8, x + i * stride, channels);
  }
}

void bytes_to_channels_last(const uint8_t* x, uint8_t* y, int64_t stride, int channels, int64_t pixels) {
  if (channels == 8) {
    for (int64_t i = 0; i < pixels; ++i) std::memcpy(y + i * stride, x + i * 8, 8);
  } else {
    for (int64_t i = 0; i < pixels; ++i) std::memcpy(y + i * stride, x + i * 8, channels);
  }
}

BlockMoves<uint8_t> moves_of(const uint8_t*) {
  const InterleaveTable& table = interleave_table();
  return {table.to_blocks8, table.from_blocks8, &bytes_from_channels_last, &bytes_to_channels_last};
}

class Reorder final : public Kernel {
 public:
  Reorder(const TensorSpec& blocked, const ReorderDesc& desc)
      : batch_(blocked.shape[0]),
        channels_(blocked.shape[1]),
        pixels_(spatial_size(blocked.shape)),
        bytes_(is_byte_type(blocked.type)),
        desc_(desc) {}

  Status run(KernelContext& context) const override {
    // With the channels last all blocks of a chunk are taken one after another, from what the first brought to the
    // cache.
    constexpr int64_t kPixels = 1024, kElements = 4096;
    const int64_t blocks = (channels_ + 7) / 8;
    const int64_t together = desc_.channels_last ? blocks : 1, groups = blocks / together;
    const int64_t most = desc_.channels_last ? std::max<int64_t>(16, kElements / (blocks * 8)) : kPixels;
    const int64_t chunks = (pixels_ + most - 1) / most;
    context.pool->parallel_for(
        batch_ * groups * chunks, grain_of(std::min(most, pixels_) * together * 2), [&](int64_t begin, int64_t end) {
          for (int64_t item = begin; item < end; ++item) {
            const int64_t group = item / chunks, image = group / groups, first = item % chunks * most;
            const int64_t size = std::min(most, pixels_ - first), block = group % groups * together;
            for (int64_t i = block; i < block + together; ++i) {
              const int64_t blocked = ((image * blocks + i) * pixels_ + first) * 8;
              if (bytes_) {
                move_block<uint8_t>(context, image, i, blocked, first, size);
              } else {
                move_block<float>(context, image, i, blocked, first, size);
              }
            }
          }
        });
    return {};
  }
  std::string_view name() const override {
    if (desc_.channels_last) return desc_.to == Layout::kPlain ? "reorder_to_channels_last" : "reorder_channels_last";
    return desc_.to == Layout::kPlain ? "reorder_to_plain" : "reorder_to_blocked";
  }

 private:
  template <typename T>
  void move_block(const KernelContext& context, int64_t image, int64_t block, int64_t blocked, int64_t first,
                  int64_t size) const {
    const T* const x = context.input<T>(0);
    T* const y = context.output<T>(0);
    const BlockMoves<T> moves = moves_of(x);
    const int64_t channel = block * 8;
    const int count = static_cast<int>(std::min<int64_t>(8, channels_ - channel));
    if (desc_.channels_last) {
      const int64_t plain = (image * pixels_ + first) * channels_ + channel;
      if (desc_.to == Layout::kPlain)
        moves.to_channels_last(x + blocked, y + plain, channels_, count, size);
      else
        moves.from_channels_last(x + plain, channels_, count, y + blocked, size);
      return;
    }
    const int64_t plain = (image * channels_ + channel) * pixels_ + first;
    if (desc_.to == Layout::kPlain)
      moves.to_plain(x + blocked, y + plain, pixels_, count, size);
    else
      moves.to_blocked(x + plain, pixels_, count, y + blocked, size);
  }

  int64_t batch_, channels_, pixels_;
  bool bytes_;
  ReorderDesc desc_;
};

// Bytes of one image of each part, and of the whole.
struct Parts {
  int64_t batch = 1, whole = 0;
  std::vector<int64_t> sizes;
};

Parts parts_of(std::span<const TensorSpec> parts, const TensorSpec& whole) {
  Parts result;
  const int64_t block = spatial_size(whole.shape) * 8 * static_cast<int64_t>(data_type_size(whole.type));
  result.batch = whole.shape[0];
  result.whole = (whole.shape[1] + 7) / 8 * block;
  for (const TensorSpec& part : parts) result.sizes.push_back((part.shape[1] + 7) / 8 * block);
  return result;
}

// Copies each part of each image in pieces, so that threads share large ones. `body(part, image, offset in the part,
// offset in the whole, bytes)`.
template <typename Body>
void for_pieces(ThreadPool& pool, const Parts& parts, const Body& body) {
  constexpr int64_t kPiece = 256 * 1024;
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
    auto* const y = context.output<std::byte>(0);
    for_pieces(*context.pool, parts_, [&](size_t part, int64_t in_part, int64_t in_whole, int64_t bytes) {
      std::memcpy(y + in_whole, context.input<std::byte>(part) + in_part, bytes);
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
    const auto* const x = context.input<std::byte>(0);
    for_pieces(*context.pool, parts_, [&](size_t part, int64_t in_part, int64_t in_whole, int64_t bytes) {
      std::memcpy(context.output<std::byte>(part) + in_part, x + in_whole, bytes);
    });
    return {};
  }
  std::string_view name() const override { return "blocked_split"; }

 private:
  Parts parts_;
};

}  // namespace

Status match_parts(Result<int> axis, std::span<const TensorSpec> parts, const TensorSpec& whole) {
  const int64_t rank = whole.shape.rank();
  TENON_UNSUPPORTED_IF(rank < 3, "Rank {} is below 3.", rank);
  TENON_TRY(axis.status());
  TENON_UNSUPPORTED_IF(*axis != 1, "Axis {} is not the channels.", *axis);
  TENON_TRY(expect_blocked_type(whole));
  TENON_TRY(expect_layout(whole, Layout::kBlocked8, "The whole"));
  for (size_t i = 0; i < parts.size(); ++i) {
    TENON_UNSUPPORTED_IF(!parts[i].present() || parts[i].shape.rank() != rank, "Part {} is absent.", i);
    TENON_TRY(expect_layout(parts[i], Layout::kBlocked8, "A part"));
    TENON_UNSUPPORTED_IF(i + 1 < parts.size() && parts[i].shape[1] % 8 != 0,
                         "Part {} has {} channels, which is no multiple of 8.", i, parts[i].shape[1]);
  }
  return {};
}

Status match_reorder(const KernelNode& node) {
  const TensorSpec &x = node.inputs[0], &y = node.outputs[0];
  TENON_TRY(expect_blocked_type(x));
  TENON_UNSUPPORTED_IF(x.shape.rank() < 3, "Rank {} is below 3.", x.shape.rank());
  TENON_UNSUPPORTED_IF(x.layout == y.layout, "Both layouts are the same.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_reorder(const KernelNode& node) {
  TENON_TRY_ASSIGN(const ReorderDesc desc, read_reorder(*node.node));
  const TensorSpec& blocked = desc.to == Layout::kPlain ? node.inputs[0] : node.outputs[0];
  return std::unique_ptr<Kernel>(std::make_unique<Reorder>(blocked, desc));
}

Status match_blocked_concat(const KernelNode& node) {
  const TensorSpec& whole = node.outputs[0];
  return match_parts(read_concat_axis(*node.node, whole.shape.rank()), node.inputs, whole);
}

Result<std::unique_ptr<Kernel>> create_blocked_concat(const KernelNode& node) {
  return std::unique_ptr<Kernel>(std::make_unique<BlockedConcat>(parts_of(node.inputs, node.outputs[0])));
}

Status match_blocked_split(const KernelNode& node) {
  const TensorSpec& whole = node.inputs[0];
  return match_parts(read_split_axis(*node.node, whole.shape.rank()), node.outputs, whole);
}

Result<std::unique_ptr<Kernel>> create_blocked_split(const KernelNode& node) {
  return std::unique_ptr<Kernel>(std::make_unique<BlockedSplit>(parts_of(node.outputs, node.inputs[0])));
}

}  // namespace tenon::cpu
