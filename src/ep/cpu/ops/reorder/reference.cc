// Reorder of domain tenon (docs/reference/internal-operators.md).
#include <cstring>

#include "ep/cpu/ops/reference_kernel.h"
#include "ops/reorder.h"

namespace tenon::cpu::ref {

namespace {

Result<RefImpl> make_reorder(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const TensorSpec& x = node.inputs[0];
  const TensorSpec& out = output_spec(node, 0);
  TENON_TRY_ASSIGN(const ReorderDesc desc, read_reorder(*node.node));
  TENON_INVALID_IF(x.shape.rank() < 3 || out.layout != desc.to || out.dynamic,
                   "Reorder has an input of {} and an output in another layout.", x.shape.to_string());
  const bool same = x.layout == out.layout, blocks = desc.to == Layout::kBlocked8;
  const Shape& shape = desc.channels_last && blocks ? out.shape : x.shape;
  const Shape& last = blocks ? x.shape : out.shape;
  TENON_INVALID_IF(
      desc.channels_last && (same || shape.rank() < 3 || last.rank() < 2 || last[0] != shape[0] ||
                             last[last.rank() - 1] != shape[1] || last.element_count() != shape.element_count()),
      "{} with its channels last is not {}.", last.to_string(), shape.to_string());
  if (!desc.channels_last) TENON_TRY(require_output(node, 0, x.shape));
  int64_t spatial = 1;
  for (int d = 2; d < shape.rank(); ++d) spatial *= shape[d];
  RefImpl impl;
  impl.run = [same, blocks, channels_last = desc.channels_last, all = x.size_bytes(), out_bytes = out.size_bytes(),
              batch = shape[0], channels = shape[1], spatial,
              bytes = static_cast<int64_t>(data_type_size(x.type))](KernelContext& context) -> Status {
    const auto* from = context.input<std::byte>(0);
    auto* to = context.output<std::byte>(0);
    if (same) {
      std::memcpy(to, from, all);
      return {};
    }
    // Channels that pad the last block are zero.
    if (blocks) std::memset(to, 0, out_bytes);
    const int64_t padded = (channels + 7) / 8;
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t s = 0; s < spatial; ++s) {
          const int64_t at = channels_last ? (n * spatial + s) * channels + c : (n * channels + c) * spatial + s;
          const int64_t plain = at * bytes;
          const int64_t blocked = (((n * padded + c / 8) * spatial + s) * 8 + c % 8) * bytes;
          std::memcpy(to + (blocks ? blocked : plain), from + (blocks ? plain : blocked), bytes);
        }
      }
    }
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<~TypeSet{0}, &make_reorder>("Reorder", 1, kAnyVersion, "tenon"),
};

}  // namespace

std::span<const KernelEntry> ref_reorder_rows() { return kRows; }

}  // namespace tenon::cpu::ref
