#include "ep/cpu/ops/text/split.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "ep/cpu/ops/sequence/objects.h"
#include "ops/text.h"

namespace tenon::cpu::ref {

Result<RefImpl> make_string_split(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& x = node.inputs[0].shape;
  TENON_UNSUPPORTED_IF(x.rank() >= Shape::kMaxRank, "StringSplit adds a dimension to {}, which has {} already.",
                       x.to_string(), x.rank());
  RefImpl impl;
  impl.run = [x, desc = read_string_split(*node.node), parts_spec = output_spec(node, 0),
              counts_spec = output_spec(node, 1)](KernelContext& context) -> Status {
    TENON_TRY_ASSIGN(RunObjects * objects, run_objects(context));
    const auto* texts = context.input<TextAddress>(0);
    const int64_t count = x.element_count();
    std::vector<std::string_view> parts;  // of all texts
    parts.reserve(2 * count);
    std::vector<size_t> ends(count);
    size_t most = 0;
    for (int64_t i = 0; i < count; ++i) {
      const size_t begin = parts.size();
      split_text(text_of(texts[i]), desc, parts);
      ends[i] = parts.size();
      most = std::max(most, ends[i] - begin);
    }
    Shape shape = x;
    shape.push_back(static_cast<int64_t>(most));
    TENON_TRY_ASSIGN(void* const y, open_output(context, parts_spec, 0, shape));
    TENON_TRY_ASSIGN(void* const counts, open_output(context, counts_spec, 1, x));
    const std::span<std::string> made = objects->add_texts(y == nullptr ? 0 : parts.size());
    for (size_t p = 0; p < made.size(); ++p) made[p].assign(parts[p]);
    auto* row = static_cast<TextAddress*>(y);
    for (size_t i = 0, p = 0; i < ends.size(); ++i) {
      const size_t number = ends[i] - p;
      if (counts != nullptr) static_cast<int64_t*>(counts)[i] = static_cast<int64_t>(number);
      if (row != nullptr) {
        for (size_t k = 0; k < most; ++k) *row++ = k < number ? &made[p + k] : nullptr;
      }
      p = ends[i];
    }
    return {};
  };
  return impl;
}

}  // namespace tenon::cpu::ref
