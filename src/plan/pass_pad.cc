// Lets the padding of a convolution or a pool stand for a Pad in front of it, which copies the whole tensor. Converters
// from TensorFlow write such a Pad where a window of stride 2 has more padding behind than before it, PyTorch models
// where they count their padding themselves.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/integer_inputs.h"
#include "ops/pad.h"
#include "ops/pool.h"
#include "ops/unary.h"
#include "plan/pass_quantized.h"
#include "plan/pass_rewriter.h"
#include "plan/passes.h"

namespace tenon {
namespace {

// A Pad with one value around the spatial dimensions.
struct SpatialPads {
  ValueId x = kNoValue;
  ValueId value = kNoValue;  // kNoValue: a zero, or `attribute` in old versions
  float attribute = 0;
  std::vector<int64_t> before, behind;  // of each spatial dimension, 0 or more
};

std::optional<std::vector<int64_t>> constant_pads(const Rewriter& rewriter, const Node& node, int64_t rank) {
  if (has_pad_attributes(node)) {
    const std::span<const int64_t> pads = pad_attribute(node);
    return std::vector<int64_t>(pads.begin(), pads.end());
  }
  std::optional<std::vector<int64_t>> pads = integers_of(rewriter.constant(node.input(1)).get());
  if (!pads || node.input(3) == kNoValue) return pads;
  const std::optional<std::vector<int64_t>> axes = integers_of(rewriter.constant(node.input(3)).get());
  if (!axes || pads->size() != 2 * axes->size()) return std::nullopt;
  std::vector<int64_t> all(2 * rank);
  for (size_t i = 0; i < axes->size(); ++i) {
    const int64_t axis = (*axes)[i] < 0 ? (*axes)[i] + rank : (*axes)[i];
    if (axis < 0 || axis >= rank) return std::nullopt;
    all[axis] = (*pads)[i];
    all[axis + rank] = (*pads)[i + axes->size()];
  }
  return all;
}

std::optional<SpatialPads> spatial_pads(const Rewriter& rewriter, ValueId id) {
  const Node* const node = id == kNoValue ? nullptr : rewriter.made_by(id, "Pad");
  if (node == nullptr || node->outputs.size() != 1 || !rewriter.value(node->inputs[0]).has_rank) return std::nullopt;
  const Result<PadMode> mode = read_pad_mode(*node);
  const auto rank = static_cast<int64_t>(rewriter.value(node->inputs[0]).dims.size());
  const std::optional<std::vector<int64_t>> pads = constant_pads(rewriter, *node, rank);
  if (!mode.ok() || *mode != PadMode::kConstant || !pads || rank < 3 || std::ssize(*pads) != 2 * rank)
    return std::nullopt;
  SpatialPads found{.x = node->inputs[0]};
  if (has_pad_attributes(*node)) {
    found.attribute = pad_value_attribute(*node);
  } else {
    found.value = node->input(2);
  }
  for (int64_t axis = 0; axis < rank; ++axis) {
    const int64_t before = (*pads)[axis], behind = (*pads)[axis + rank];
    if (before < 0 || behind < 0 || (axis < 2 && before + behind != 0)) return std::nullopt;
    if (axis < 2) continue;
    found.before.push_back(before);
    found.behind.push_back(behind);
  }
  return found;
}

// Of tensors of float32; nullopt for others and where it is no constant.
std::optional<float> pad_number(const Rewriter& rewriter, const SpatialPads& pads) {
  if (!rewriter.is_float(pads.x)) return std::nullopt;
  return pads.value == kNoValue ? std::optional(pads.attribute) : rewriter.scalar(pads.value);
}

// Whether the padding is what `zero`, a zero point or kNoValue, stands for.
bool is_zero_point(const Rewriter& rewriter, const SpatialPads& pads, ValueId zero) {
  const auto byte = [&](ValueId id) -> std::optional<int> {
    if (id == kNoValue) return 0;
    const ConstantRef& constant = rewriter.constant(id);
    if (!constant || !is_byte(constant->type) || constant->size_bytes != 1) return std::nullopt;
    return static_cast<int>(constant->data[0]);
  };
  if (!is_byte(rewriter.value(pads.x).type) || pads.attribute != 0) return false;
  const std::optional<int> padding = byte(pads.value), wanted = byte(zero);
  return padding && wanted && *padding == *wanted;
}

bool never_below_zero(const Rewriter& rewriter, ValueId id) {
  const Node* const node = rewriter.producer(id);
  if (node == nullptr || node->domain != "tenon") return false;
  const Result<Epilogue> epilogue = read_epilogue(*node);
  if (!epilogue.ok() || epilogue->residual_after) return false;
  const Activation activation = epilogue->activation;
  return activation == Activation::kRelu || activation == Activation::kSigmoid ||
         (activation == Activation::kClip && epilogue->alpha >= 0);
}

// Window and pads as one padding; nullopt where they do not fit together.
std::optional<std::vector<int64_t>> joined(const Window& window, const SpatialPads& pads) {
  const size_t rank = window.axes.size();
  if (window.same() || window.ceil_mode || pads.before.size() != rank) return std::nullopt;
  std::vector<int64_t> all(2 * rank);
  for (size_t i = 0; i < rank; ++i) {
    const WindowAxis& axis = window.axes[i];
    all[i] = axis.pad_begin + pads.before[i];
    all[i + rank] = axis.pad_end + pads.behind[i];
    // Windows that see nothing but padding are work that a Pad does once.
    if (all[i] >= axis.reach() || all[i + rank] >= axis.reach()) return std::nullopt;
  }
  return all;
}

std::vector<int64_t> spatial_dims(const Rewriter& rewriter, ValueId id) {
  std::vector<int64_t> dims;
  for (const Dim& dim : rewriter.value(id).dims) dims.push_back(dim.known() ? dim.value : kUnknownSize);
  dims.erase(dims.begin(), dims.begin() + std::min<ptrdiff_t>(2, std::ssize(dims)));
  return dims;
}

// An operator whose windows are multiplied by weights; `zero`: its input that says what stands for zero.
struct Convolution {
  std::string_view domain, op_type;
  size_t weights = 1, zero = 0;
};
constexpr std::array kConvolutions = {
    Convolution{"", "Conv"},
    Convolution{"tenon", "Conv"},
    Convolution{"", "ConvInteger", 1, 2},
    Convolution{"", "QLinearConv", 3, 2},
    Convolution{"tenon", "QuantizedConv", 3, 2},
};

std::optional<std::vector<int64_t>> joined_convolution(const Rewriter& rewriter, const Node& node,
                                                       const SpatialPads& pads) {
  const auto row = std::find_if(kConvolutions.begin(), kConvolutions.end(), [&](const Convolution& convolution) {
    return convolution.domain == node.domain && convolution.op_type == node.op_type;
  });
  if (row == kConvolutions.end()) return std::nullopt;
  const ValueId weights = node.input(row->weights);
  if (weights == kNoValue || rewriter.value(weights).dims.size() != pads.before.size() + 2) return std::nullopt;
  const bool zeros =
      row->zero == 0 ? pad_number(rewriter, pads) == 0.0f : is_zero_point(rewriter, pads, node.input(row->zero));
  const std::vector<int64_t> kernel = spatial_dims(rewriter, weights), unknown(kernel.size(), kUnknownSize);
  if (!zeros || std::count(kernel.begin(), kernel.end(), kUnknownSize) != 0) return std::nullopt;
  const Result<Window> window = read_window(node, unknown, kernel);
  return window.ok() ? joined(*window, pads) : std::nullopt;
}

std::optional<std::vector<int64_t>> joined_pool(const Rewriter& rewriter, const Node& node, const SpatialPads& pads) {
  constexpr int kCountsPadding = 7;  // the version from which AveragePool may count it
  if (!node.domain.empty() || node.outputs.size() != 1) return std::nullopt;
  const bool average = node.op_type == "AveragePool" && node.since_version >= kCountsPadding;
  if (!average && node.op_type != "MaxPool") return std::nullopt;
  // A window that is larger than what it slides over is cut, which these sizes rule out.
  std::vector<int64_t> x = {kUnknownSize, kUnknownSize};
  const std::vector<int64_t> in = spatial_dims(rewriter, node.inputs[0]);
  x.insert(x.end(), in.begin(), in.end());
  const Result<PoolDesc> pool = read_pool(node, x);
  if (!pool.ok() || in.size() != pads.before.size()) return std::nullopt;
  bool padded = false;
  for (const WindowAxis& axis : pool->window.axes) {
    if (axis.in == kUnknownSize || axis.reach() > axis.in || axis.dilation != 1) return std::nullopt;
    padded = padded || axis.pad_begin + axis.pad_end != 0;
  }
  const std::optional<float> number = pad_number(rewriter, pads);
  if (!number) return std::nullopt;
  const bool neutral = average ? *number == 0 && (pool->count_include_pad || !padded)
                               : *number == -std::numeric_limits<float>::infinity() ||
                                     (*number == 0 && never_below_zero(rewriter, pads.x));
  return neutral ? joined(pool->window, pads) : std::nullopt;
}

}  // namespace

Status pass_window_pads(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    const Node& node = rewriter.node(i);
    const std::optional<SpatialPads> pads = spatial_pads(rewriter, node.input(0));
    if (!pads) continue;
    std::optional<std::vector<int64_t>> all = joined_convolution(rewriter, node, *pads);
    if (!all) all = joined_pool(rewriter, node, *pads);
    if (!all) continue;
    Node padded = node;
    padded.inputs[0] = pads->x;
    padded.set_ints("pads", *std::move(all));
    if (padded.has("auto_pad")) padded.set_string("auto_pad", "NOTSET");
    if (node.op_type == "AveragePool") padded.set_int("count_include_pad", 1);
    rewriter.replace(i, std::move(padded));
  }
  rewriter.finish();
  return {};
}

}  // namespace tenon
