// Shared by the passes over quantised numbers.
#pragma once

#include <optional>
#include <string_view>

#include "plan/pass_rewriter.h"

namespace tenon {

// QuantizeLinear or DequantizeLinear between float32 and bytes, with one scale for the tensor.
struct QuantizedEdge {
  const Node* node = nullptr;
  ValueId bytes = kNoValue;
  ValueId scale = kNoValue, zero = kNoValue;  // zero: kNoValue stands for 0
};
// The DequantizeLinear that makes `id`; its node is null where there is none.
QuantizedEdge dequantized(const Rewriter& rewriter, ValueId id);
// `node` if it is such a QuantizeLinear.
QuantizedEdge quantized(const Rewriter& rewriter, const Node& node);

bool is_byte(DataType type);
// A value that has one element for certain.
bool is_single(const Rewriter& rewriter, ValueId id);
// The same value, or constants with the same bytes.
bool same_constant(const Rewriter& rewriter, ValueId a, ValueId b);
// pass_quantized_norm.cc: whether a BatchNormalization of what DequantizeLinear makes is a tenon.QuantizedConv, and
// that.
bool is_norm_of_bytes(const Rewriter& rewriter, const Node& node);
std::optional<Node> norm_of_bytes(Rewriter& rewriter, const Node& node);
// An operator of ai.onnx that only changes the shape of its first input, or the order of its elements.
bool is_move(const Node& node);

}  // namespace tenon
