#include "ops/depth_to_space.h"

#include <utility>

#include "base/checked.h"
#include "base/status.h"
#include "ops/attributes.h"
#include "ops/shape_inference_context.h"
#include "ops/window.h"

namespace tenon {

namespace {

Result<int64_t> divided(int64_t size, int64_t divisor, const char* what) {
  if (size == kUnknownSize) return size;
  TENON_INVALID_IF(size % divisor != 0, "{} ({}) is no multiple of {}.", what, size, divisor);
  return size / divisor;
}

}  // namespace

Shape DepthToSpaceDesc::output() const {
  return to_space ? Shape{batch, channels, height * block, width * block}
                  : Shape{batch, channels * block * block, height, width};
}

Result<DepthToSpaceDesc> read_depth_to_space(const Node& node, std::span<const int64_t> x) {
  const Attributes attributes(node);
  TENON_INVALID_IF(x.size() != 4, "X has rank {}; {} needs rank 4.", x.size(), node.op_type);
  DepthToSpaceDesc desc{.to_space = node.op_type == "DepthToSpace",
                        .block = attributes.find_integer("blocksize").value_or(0),
                        .batch = x[0],
                        .channels = x[1],
                        .height = x[2],
                        .width = x[3]};
  const int64_t block = desc.block;
  TENON_INVALID_IF(block < 1 || block > (1 << 15), "Attribute \"blocksize\" ({}) has to be in 1 to 32768.", block);
  const std::string_view mode = attributes.text("mode");
  TENON_INVALID_IF(mode != "DCR" && mode != "CRD", "Attribute \"mode\" (\"{}\") is unknown.", mode);
  desc.depth_first = mode == "DCR";
  if (desc.to_space) {
    TENON_TRY_ASSIGN(desc.channels, divided(x[1], block * block, "The number of channels"));
  } else {
    TENON_TRY_ASSIGN(desc.height, divided(x[2], block, "The height"));
    TENON_TRY_ASSIGN(desc.width, divided(x[3], block, "The width"));
  }
  const int64_t factor = desc.to_space ? block : block * block;
  for (int64_t size : {desc.to_space ? desc.height : desc.channels, desc.to_space ? desc.width : desc.channels})
    TENON_INVALID_IF(size != kUnknownSize && !checked_mul(size, factor), "{} times {} overflows.", size, factor);
  return desc;
}

namespace infer {

namespace {

Status infer_depth_to_space(Context& c) {
  c.set_type(0, c.type(0));
  TENON_TRY(c.require_rank(0, 4, "X"));
  if (!c.ranked(0)) return {};
  std::vector<int64_t> x;
  for (const Dim& dim : c.dims(0)) x.push_back(dim.value);
  TENON_TRY_ASSIGN(const DepthToSpaceDesc desc, read_depth_to_space(c.node(), x));
  Dims out = c.dims(0);
  const Shape shape = desc.output();
  for (int d = 1; d < 4; ++d) {
    Dim& dim = out[d];
    if (dim.known()) {
      dim = number(shape[d]);
    } else if (desc.block != 1) {
      dim = Dim{};
    }
  }
  return c.set_dims(0, std::move(out));
}

constexpr Row kRows[] = {{"DepthToSpace", &infer_depth_to_space}, {"SpaceToDepth", &infer_depth_to_space}};

}  // namespace

std::span<const Row> depth_to_space_rows() { return kRows; }

}  // namespace infer

}  // namespace tenon
