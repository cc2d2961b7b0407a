#include "ops/quantized_bytes.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "ops/attributes.h"
#include "ops/concat.h"
#include "ops/reduce.h"
#include "ops/shape_inference_context.h"

namespace tenon {

namespace {

// The description of a pool whose sizes may be kUnknownSize, in the order [batch, channels, in...].
Result<PoolDesc> read_plain_pool(const Node& node, std::span<const int64_t> x, bool channels_last) {
  std::vector<int64_t> plain(x.begin(), x.end());
  if (channels_last && plain.size() >= 3) std::rotate(plain.begin() + 1, plain.end() - 1, plain.end());
  return read_pool(node, plain);
}

}  // namespace

constexpr std::string_view kExact = "exact";

void write_exact(Node& node) { node.set_int(kExact, 1); }

Result<QuantizedForm> read_quantized_form(const Node& node) {
  QuantizedForm form;
  const std::string_view name = node.op_type;
  if (name == "QLinearConcat") {
    const size_t count = node.inputs.size();
    TENON_INVALID_IF(count < 5 || (count - 2) % 3 != 0,
                     "QLinearConcat has {} inputs; it needs a scale, a zero point and three for each part.", count);
    for (size_t i = 2; i < count; i += 3) form.x.push_back({i, i + 1, i + 2});
    form.y = {kNoInput, 0, 1};
  } else if (name == "QLinearAdd" || name == "QLinearMul") {
    form.x = {{0, 1, 2}, {3, 4, 5}};
    form.y = {kNoInput, 6, 7};
    form.exact = node.find(kExact) != nullptr;
  } else if (name == "QLinearWhere") {
    form.x = {{1, 2, 3}, {4, 5, 6}};
    form.y = {kNoInput, 7, 8};
  } else if (name == "MulInteger") {
    form.x = {{0, kNoInput, 1}, {2, kNoInput, 3}};
  } else if (name == "ReduceSumInteger") {
    form.x = {{0, kNoInput, kNoInput}};
  } else {
    form.x = {{0, 1, 2}};
    form.y = {kNoInput, 3, 4};
  }
  return form;
}

Result<SoftmaxDesc> read_quantized_softmax(const Node& node, const Shape& x) {
  SoftmaxDesc desc;
  const int rank = x.rank();
  desc.flat = Attributes(node).find_integer("opset").value_or(13) < 13;
  if (rank > 0) {
    TENON_TRY_ASSIGN(desc.axis, normalized_axis(Attributes(node).integer("axis"), rank));
  }
  desc.outer = span_product(x, 0, desc.axis);
  desc.length = desc.flat || rank == 0 ? span_product(x, desc.axis, rank) : x[desc.axis];
  desc.inner = desc.flat || rank == 0 ? 1 : span_product(x, desc.axis + 1, rank);
  return desc;
}

Result<QuantizedPoolDesc> read_quantized_pool(const Node& node, const Shape& x) {
  QuantizedPoolDesc desc;
  desc.channels_last = Attributes(node).flag("channels_last");
  TENON_TRY_ASSIGN(desc.pool, read_plain_pool(node, x.dims(), desc.channels_last));
  const Shape plain = desc.pool.output();
  for (int i = 0; i < plain.rank(); ++i) {
    const int last = plain.rank() - 1;
    desc.output.push_back(plain[!desc.channels_last || i == 0 ? i : i == last ? 1 : i + 1]);
  }
  return desc;
}

namespace infer {
namespace {

Status infer_same(Context& c) { return c.copy(0); }

// Output 0 is the broadcast of the operands; its type is that of the first, or `type`.
Status infer_operands(Context& c, std::span<const size_t> operands, DataType type) {
  c.set_type(0, type);
  Dims dims;
  for (size_t operand : operands) {
    if (!c.ranked(operand)) return {};
    TENON_TRY_ASSIGN(dims, broadcast(dims, c.dims(operand)));
  }
  return c.set_dims(0, std::move(dims));
}

Status infer_binary(Context& c) {
  constexpr size_t kOperands[] = {0, 3};
  return infer_operands(c, kOperands, c.type(0));
}
Status infer_mul_integer(Context& c) {
  constexpr size_t kOperands[] = {0, 2};
  return infer_operands(c, kOperands, DataType::kInt32);
}
Status infer_where(Context& c) {
  constexpr size_t kOperands[] = {0, 1, 4};
  return infer_operands(c, kOperands, c.type(1));
}

Status infer_concat(Context& c) {
  c.set_type(0, c.type(1));
  TENON_TRY_ASSIGN(const QuantizedForm form, read_quantized_form(c.node()));
  for (const ByteInputs& part : form.x)
    if (!c.ranked(part.data)) return {};
  Dims out = c.dims(form.x[0].data);
  TENON_TRY_ASSIGN(const int axis, read_concat_axis(c.node(), static_cast<int>(out.size())));
  for (size_t i = 1; i < form.x.size(); ++i) {
    const Dims& part = c.dims(form.x[i].data);
    TENON_INVALID_IF(part.size() != out.size(), "Parts 0 and {} have shapes {} and {} of different rank.", i,
                     text(c.dims(form.x[0].data)), text(part));
    for (size_t d = 0; d < out.size(); ++d) {
      if (static_cast<int>(d) != axis) {
        TENON_INVALID_IF(certainly_differ(out[d], part[d]), "Parts of shapes {} and {} differ beside axis {}.",
                         text(c.dims(form.x[0].data)), text(part), axis);
        if (!out[d].known()) out[d] = part[d];
        continue;
      }
      const bool known = out[d].known() && part[d].known();
      TENON_INVALID_IF(known && __builtin_add_overflow(out[d].value, part[d].value, &out[d].value),
                       "The concatenated dimension overflows.");
      if (!known) out[d] = Dim{};
    }
  }
  return c.set_dims(0, std::move(out));
}

Status infer_reduce(Context& c) {
  c.set_type(0, c.node().op_type == "ReduceSumInteger" ? DataType::kInt32 : c.type(0));
  if (!c.ranked(0)) return {};
  const Attributes attributes(c.node());
  TENON_TRY_ASSIGN(const AxisSet reduced, reduced_axes(attributes.integers("axes"), false, c.rank(0)));
  const bool keep = attributes.find_integer("keepdims").value_or(1) != 0;
  Dims out;
  for (int d = 0; d < c.rank(0); ++d) {
    const bool gone = reduced.test(d);
    if (!gone || keep) out.push_back(gone ? number(1) : c.dims(0)[d]);
  }
  return c.set_dims(0, std::move(out));
}

Status infer_pool(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  const bool channels_last = Attributes(c.node()).flag("channels_last");
  Dims out = c.dims(0);
  std::vector<int64_t> x;
  for (const Dim& dim : out) x.push_back(dim.value);
  TENON_TRY_ASSIGN(const PoolDesc pool, read_plain_pool(c.node(), x, channels_last));
  for (size_t i = 0; i < pool.window.axes.size(); ++i) {
    Dim& dim = out[i + (channels_last ? 1 : 2)];
    if (pool.window.axes[i].out != kUnknownSize) {
      dim = number(pool.window.axes[i].out);
    } else if (!pool.window.keeps_size(i)) {
      dim = Dim{};
    }
  }
  return c.set_dims(0, std::move(out));
}

constexpr Row kRows[] = {
    {"MulInteger", &infer_mul_integer},
    {"QLinearAdd", &infer_binary},
    {"QLinearAveragePool", &infer_pool},
    {"QLinearConcat", &infer_concat},
    {"QLinearGlobalAveragePool", &infer_pool},
    {"QLinearLeakyRelu", &infer_same},
    {"QLinearMul", &infer_binary},
    {"QLinearReduceMean", &infer_reduce},
    {"QLinearSigmoid", &infer_same},
    {"QLinearSoftmax", &infer_same},
    {"QLinearWhere", &infer_where},
    {"ReduceSumInteger", &infer_reduce},
};

}  // namespace

std::span<const Row> contrib_bytes_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
