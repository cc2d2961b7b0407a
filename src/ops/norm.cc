#include "ops/norm.h"

#include <charconv>
#include <string_view>

#include "ops/attributes.h"
#include "ops/axes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

BatchNormDesc read_batch_norm(const Node& node) {
  const Attributes attributes(node);
  return {.training = attributes.flag("training_mode"),
          .epsilon = attributes.number("epsilon"),
          .momentum = attributes.number("momentum")};
}

Result<GroupNormDesc> read_group_norm(const Node& node, const Shape& x) {
  TENON_INVALID_IF(x.rank() < 2, "{} needs an input of rank 2 or more, not {}.", node.op_type, x.to_string());
  const Attributes attributes(node);
  const bool instance = node.op_type == "InstanceNormalization";
  GroupNormDesc desc{.batch = x[0],
                     .channels = x[1],
                     .groups = instance ? x[1] : attributes.find_integer("num_groups").value_or(0),
                     .inner = span_product(x, 2, x.rank()),
                     .scale_each_group = !instance && node.since_version < 21,
                     .epsilon = attributes.number("epsilon")};
  TENON_INVALID_IF(desc.channels > 0 && (desc.groups < 1 || desc.channels % desc.groups != 0),
                   "{} has {} groups for {} channels.", node.op_type, desc.groups, desc.channels);
  if (desc.channels == 0) desc.groups = 1;
  return desc;
}

LayerNormForm read_layer_norm_form(const Node& node) {
  const Attributes attributes(node);
  const bool internal = node.domain == "tenon";
  return {.axis = attributes.integer("axis"),
          .epsilon = attributes.number("epsilon"),
          .stashes_float = attributes.integer("stash_type") == 1,
          .subtract_mean = internal ? attributes.flag("subtract_mean") : node.op_type != "RMSNormalization"};
}

void write_layer_norm(Node& node, int axis, float epsilon, bool subtract_mean) {
  node.set_int("axis", axis);
  node.set_float("epsilon", epsilon);
  if (!subtract_mean) node.set_int("subtract_mean", 0);
}

Result<LayerNormDesc> read_layer_norm(const Node& node, const Shape& x) {
  const LayerNormForm form = read_layer_norm_form(node);
  LayerNormDesc desc{.subtract_mean = form.subtract_mean, .epsilon = form.epsilon};
  TENON_TRY_ASSIGN(desc.axis, normalized_axis(form.axis, x.rank()));
  desc.rows = span_product(x, 0, desc.axis);
  desc.columns = span_product(x, desc.axis, x.rank());
  constexpr size_t kNone = LayerNormDesc::kNone;
  if (node.domain == "tenon") {
    desc.skip = 1, desc.scale = 2, desc.bias = 3;
    desc.sum = 1, desc.mean = kNone, desc.inverse_deviation = kNone;
  } else if (node.op_type == "RMSNormalization") {
    desc.bias = desc.mean = desc.inverse_deviation = kNone;
  }
  return desc;
}

Result<LpNormDesc> read_lp_norm(const Node& node, const Shape& x) {
  const Attributes attributes(node);
  LpNormDesc desc{.p = attributes.integer("p")};
  TENON_INVALID_IF(desc.p != 1 && desc.p != 2, "LpNormalization has p {}.", desc.p);
  TENON_TRY_ASSIGN(desc.axis, normalized_axis(attributes.integer("axis"), x.rank()));
  desc.outer = span_product(x, 0, desc.axis);
  desc.length = x[desc.axis];
  desc.inner = span_product(x, desc.axis + 1, x.rank());
  return desc;
}

Result<LrnDesc> read_lrn(const Node& node, int rank) {
  TENON_INVALID_IF(rank < 2, "LRN needs an input of rank 2 or more, not {}.", rank);
  const Attributes attributes(node);
  const LrnDesc desc{.size = attributes.find_integer("size").value_or(0),
                     .alpha = attributes.number("alpha"),
                     .beta = attributes.number("beta"),
                     .bias = attributes.number("bias")};
  TENON_INVALID_IF(desc.size < 1 || desc.size > (int64_t{1} << 31), "LRN has size {}.", desc.size);
  return desc;
}

Result<std::vector<int>> read_mean_variance_axes(const Node& node, int rank) {
  std::vector<int> axes;
  for (int64_t axis : Attributes(node).integers("axes")) {
    TENON_TRY_ASSIGN(const int at, normalized_axis(axis, rank));
    axes.push_back(at);
  }
  if (!axes.empty()) return axes;
  // The schema's default has its numbers with '|' between them.
  std::string_view text = find_schema_attribute(node, "axes")->default_value;
  while (!text.empty()) {
    int64_t axis = 0;
    const char* const end = std::from_chars(text.data(), text.data() + text.size(), axis).ptr;
    TENON_TRY_ASSIGN(const int at, normalized_axis(axis, rank));
    axes.push_back(at);
    text.remove_prefix(std::min(text.size(), static_cast<size_t>(end - text.data()) + 1));
  }
  return axes;
}

namespace infer {
namespace {

Status infer_same(Context& c) { return c.copy(0); }

Status infer_lrn(Context& c) {
  const int64_t size = Attributes(c.node()).find_integer("size").value_or(0);
  TENON_INVALID_IF(size < 1, "LRN has size {}.", size);
  return c.copy(0);
}

// The output has the scale's type.
Status infer_rms_normalization(Context& c) {
  TENON_TRY(c.copy(0));
  c.set_type(0, c.type(1));
  return {};
}

// X, then `first`.. are per-channel vectors of length C.
Status check_channels(const Context& c, size_t first) {
  if (!c.ranked(0)) return {};
  TENON_INVALID_IF(c.rank(0) < 1, "Input 0 has shape []; it needs a channel dimension.");
  const Dim channels = c.rank(0) >= 2 ? c.dims(0)[1] : number(1);
  for (size_t i = first; i < c.node().inputs.size(); ++i) {
    if (!c.ranked(i)) continue;
    TENON_TRY(c.require_rank(i, 1, "one value a channel"));
    const Dim& length = c.dims(i)[0];
    TENON_INVALID_IF(channels.known() && length.known() && channels.value != length.value,
                     "Input {} has {} elements, but X {} has {} channels.", i, length.value, text(c.dims(0)),
                     channels.value);
  }
  return {};
}

Status infer_batch_normalization(Context& c) {
  TENON_TRY(check_channels(c, 1));
  TENON_TRY(c.copy(0));
  for (size_t i = 1; i < c.node().outputs.size() && i < 5; ++i) TENON_TRY(c.copy(c.version() >= 14 ? i + 2 : i, i));
  return {};
}

Status infer_instance_normalization(Context& c) {
  TENON_TRY(check_channels(c, 1));
  return c.copy(0);
}

Status infer_layer_normalization(Context& c) {
  TENON_TRY(c.copy(0));
  if (!c.ranked(0)) return {};
  TENON_TRY_ASSIGN(const int axis, normalized_axis(read_layer_norm_form(c.node()).axis, c.rank(0)));
  for (size_t i = 1; i < c.node().inputs.size() && i < 3; ++i) {
    if (!c.ranked(i)) continue;
    TENON_INVALID_IF(!may_broadcast_to(c.dims(i), c.dims(0)), "Input {} of shape {} does not broadcast to X {}.", i,
                     text(c.dims(i)), text(c.dims(0)));
  }
  Dims reduced = c.dims(0);
  for (size_t i = axis; i < reduced.size(); ++i) reduced[i] = number(1);
  for (size_t i = 1; i < 3; ++i) {
    c.set_type(i, DataType::kFloat);
    TENON_TRY(c.set_dims(i, reduced));
  }
  return {};
}

// tenon.LayerNorm: X, skip (shape of X), scale and bias (as many elements as a row).
Status infer_layer_norm(Context& c) {
  TENON_TRY(c.copy(0, 0));
  TENON_TRY(c.copy(0, 1));
  if (!c.ranked(0)) return {};
  TENON_TRY_ASSIGN(const int axis, normalized_axis(read_layer_norm_form(c.node()).axis, c.rank(0)));
  if (c.ranked(1)) TENON_TRY(check_residual(c.dims(1), c.dims(0)));
  TENON_TRY_ASSIGN(Dim wanted, product(std::span<const Dim>(c.dims(0)).subspan(axis)));
  for (size_t i = 2; i < 4; ++i) {
    if (!c.ranked(i)) continue;
    TENON_TRY_ASSIGN(Dim length, product(c.dims(i)));
    TENON_INVALID_IF(length.known() && wanted.known() && length.value != wanted.value,
                     "Input {} has {} elements for {} normalised ones.", i, length.value, wanted.value);
  }
  return {};
}

Status infer_lp_normalization(Context& c) {
  if (c.ranked(0)) TENON_TRY(normalized_axis(Attributes(c.node()).integer("axis"), c.rank(0)).status());
  return c.copy(0);
}

constexpr Row kRows[] = {
    {"BatchNormalization", &infer_batch_normalization},
    {"GroupNormalization", &infer_same},
    {"InstanceNormalization", &infer_instance_normalization},
    {"LRN", &infer_lrn},
    {"LayerNormalization", &infer_layer_normalization},
    {"LpNormalization", &infer_lp_normalization},
    {"MeanVarianceNormalization", &infer_same},
    {"RMSNormalization", &infer_rms_normalization},
    {"SimplifiedLayerNormalization", &infer_rms_normalization},
};

}  // namespace

std::span<const Row> norm_rows() { return kRows; }

std::span<const Row> internal_norm_rows() {
  static constexpr Row kInternal[] = {{"LayerNorm", &infer_layer_norm}};
  return kInternal;
}

}  // namespace infer
}  // namespace tenon
