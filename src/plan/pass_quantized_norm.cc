// BatchNormalization between bytes and bytes: a depthwise convolution of one tap, whose weights are 1 and whose scales
// are the normalisation's.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "plan/pass_quantized.h"
#include "plan/passes.h"

namespace tenon {

namespace {

// Channels of a normalisation of dequantised maps of one or two spatial dimensions; 0 where it is none.
int64_t channels_of(const Rewriter& rewriter, const Node& norm) {
  if (!norm.domain.empty() || norm.op_type != "BatchNormalization" || norm.inputs.size() != 5) return 0;
  const QuantizedEdge x = dequantized(rewriter, norm.inputs[0]);
  if (x.node == nullptr || !rewriter.value(x.bytes).has_rank) return 0;
  const std::vector<Dim>& dims = rewriter.value(x.bytes).dims;
  if (dims.size() < 3 || dims.size() > 4 || !dims[1].known()) return 0;
  return dims[1].value;
}

// The factors and shifts of channels, where float32 holds all of them.
std::optional<ChannelLines> finite_lines(const Rewriter& rewriter, const Node& norm) {
  const int64_t channels = channels_of(rewriter, norm);
  if (channels < 1) return std::nullopt;
  std::optional<ChannelLines> lines = batch_norm_lines(rewriter, norm, static_cast<size_t>(channels));
  const auto is_finite = [](double number) { return std::isfinite(static_cast<float>(number)); };
  if (!lines || !std::ranges::all_of(lines->factor, is_finite) || !std::ranges::all_of(lines->shift, is_finite))
    return std::nullopt;
  return lines;
}

ValueId floats(Rewriter& rewriter, const std::string& name, const std::vector<double>& numbers) {
  std::byte* data = nullptr;
  Result<ConstantRef> constant = make_constant(DataType::kFloat, Shape{static_cast<int64_t>(numbers.size())}, &data);
  if (!constant.ok()) return kNoValue;
  std::ranges::copy(numbers, reinterpret_cast<float*>(data));
  return rewriter.add_constant(name, *std::move(constant));
}

}  // namespace

bool is_norm_of_bytes(const Rewriter& rewriter, const Node& node) { return finite_lines(rewriter, node).has_value(); }

std::optional<Node> norm_of_bytes(Rewriter& rewriter, const Node& node) {
  const std::optional<ChannelLines> lines = finite_lines(rewriter, node);
  if (!lines || !rewriter.may_make(lines->factor.size() * (2 * sizeof(float) + 1))) return std::nullopt;
  const QuantizedEdge x = dequantized(rewriter, node.inputs[0]);
  const auto channels = static_cast<int64_t>(lines->factor.size());
  Shape shape{channels, 1, 1};
  if (rewriter.value(x.bytes).dims.size() == 4) shape.push_back(1);
  std::byte* data = nullptr;
  Result<ConstantRef> ones = make_constant(DataType::kInt8, shape, &data);
  if (!ones.ok()) return std::nullopt;
  std::memset(data, 1, lines->factor.size());
  const ValueId weights = rewriter.add_constant(node.name + ":ones", *std::move(ones));
  const ValueId scales = floats(rewriter, node.name + ":scales", lines->factor);
  const ValueId bias = floats(rewriter, node.name + ":bias", lines->shift);
  if (scales == kNoValue || bias == kNoValue) return std::nullopt;
  Node made =
      make_internal("QuantizedConv", node.name,
                    {x.bytes, x.scale, x.zero, weights, scales, kNoValue, kNoValue, kNoValue, bias}, node.outputs);
  made.set_int("group", channels);
  return made;
}

}  // namespace tenon
