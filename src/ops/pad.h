// Pad of ONNX (opsets 2 to 25).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include <tenon/types.h>

#include "base/status.h"
#include "graph/graph.h"
#include "ops/integer_inputs.h"

namespace tenon {

enum class PadMode : uint8_t { kConstant, kReflect, kEdge, kWrap };
// Errors: an unknown mode.
Result<PadMode> read_pad_mode(const Node& node);
// True for versions before 11, where pads and value are attributes; inputs 1 to 3 hold pads, value and axes since.
bool has_pad_attributes(const Node& node);
// Of a version before 11. Borrows the node.
std::span<const int64_t> pad_attribute(const Node& node);
float pad_value_attribute(const Node& node);

// One axis. A negative pad crops first; modes other than kConstant repeat the rest. Cropping more than there is takes
// the remainder from the padding of the other side.
struct PadAxis {
  int64_t crop = 0;  // elements of the input that go at its begin
  int64_t kept = 0;  // elements of the input after cropping
  int64_t begin =
      0;  // where the first one of these is in the output; below 0 where the output begins after it; 0 for none
};
struct PadDesc {
  PadMode mode = PadMode::kConstant;
  std::array<PadAxis, Shape::kMaxRank> axes;
  Shape output;
};
// `pads` has all begins, then all ends, of `axes`, or of every axis without them. Errors: lists that do not fit; axes
// out of range or repeated; a size below 0; nothing to repeat.
Result<PadDesc> resolve_pad(PadMode mode, const Shape& x, std::span<const int64_t> pads,
                            std::optional<std::span<const int64_t>> axes);
// The same with the attributes, or with the inputs that `integers` reads.
Result<PadDesc> read_pad(const Node& node, const Shape& x, const ReadIntegers& integers);

}  // namespace tenon
