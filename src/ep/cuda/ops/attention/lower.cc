#include <cmath>

#include "ep/cuda/ops/attention/op.h"
#include "ep/cuda/ops/narrow_sizes.h"
#include "ops/attention.h"

namespace tenon::cuda {

Status lower_attention(Lowering& to, const Node& node) {
  const DataType type = to.type_of(node.inputs[0]);
  TENON_UNSUPPORTED_IF(!is_kernel_float(type), "{} is computed in {}.", to.label(node), data_type_name(type));
  TENON_TRY_ASSIGN(const AttentionDesc desc, read_attention(node, input_shapes(to.graph(), node)));
  TENON_UNSUPPORTED_IF(desc.kv_heads != desc.heads || desc.softcap > 0,
                       "{} has {} heads of queries, {} of keys and a cap of {}.", to.label(node), desc.heads,
                       desc.kv_heads, desc.softcap);
  const Shape& y = desc.y;
  AttentionParams params;
  params.heads = narrow(desc.heads);
  params.scale = static_cast<float>(desc.scale);
  params.guarded = desc.empty == EmptyQuery::kZerosForNaN ? 1 : 0;
  params.batch = narrow(desc.batch);
  params.queries = narrow(desc.queries);
  params.keys = narrow(desc.keys);
  params.head_size = narrow(desc.depth);
  params.value_size = narrow(desc.value_depth);
  params.q_head = desc.q_at.head, params.k_head = desc.k_at.head, params.v_head = desc.v_at.head;
  params.y_head = desc.y_at.head;
  params.q_row = desc.q_at.row, params.k_row = desc.k_at.row, params.v_row = desc.v_at.row,
  params.y_row = desc.y_at.row;
  AttentionOp::Tensors tensors;
  TENON_TRY_ASSIGN(tensors.q, to.plain(node.inputs[desc.q]));
  // K or V, which may lie in the rows of Q.
  const auto operand = [&](size_t input, int64_t offset, int64_t& row, int64_t& batch) -> Result<TensorId> {
    if (input == desc.q)
      return to.program().add_view(tensors.q, type, y, DeviceLayout::kPlain, offset * data_type_size(type));
    const ValueId id = node.inputs[input];
    // Columns of a product that was computed with others.
    const Lowering::Part* const part = to.part(id);
    if (part == nullptr || part->strides.size() != 3 || part->strides[2] != 1) return to.plain(id);
    batch = part->strides[0], row = part->strides[1];
    return to.program().add_view(part->from, type, to.value(id).shape(), DeviceLayout::kPlain,
                                 part->offset * data_type_size(type));
  };
  params.k_batch = desc.k_at.batch, params.v_batch = desc.v_at.batch;
  TENON_TRY_ASSIGN(tensors.k, operand(desc.k, desc.k_offset, params.k_row, params.k_batch));
  TENON_TRY_ASSIGN(tensors.v, operand(desc.v, desc.v_offset, params.v_row, params.v_batch));
  params.q_batch = desc.q_at.batch;
  params.y_batch = desc.y_at.batch;
  if (desc.mask != kNoInput) {
    TENON_TRY_ASSIGN(tensors.mask, to.plain(node.inputs[desc.mask]));
    params.mask_batch = desc.mask_strides[0];
    params.mask_head = desc.mask_strides[1];
    params.mask_query = desc.mask_strides[2];
    params.mask_key = desc.mask_strides[3];
  }
  // A weighted mean of V's rows is not larger than they are.
  Lowering::SplitTensor split;
  if (const Lowering::Bound* v = to.bound(node.inputs[desc.v]);
      v != nullptr && type == DataType::kFloat && y.rank() == 3 && y[2] % 8 == 0) {
    TENON_TRY_ASSIGN(
        split, to.make_split_tensor(node.outputs[0], {v->largest, v->largest * std::sqrt(static_cast<double>(y[2]))}));
    tensors.y_parts = split.tensor;
    params.parts_factor = std::ldexp(1.0F, split.shift);
    params.terms = split.terms;
  }
  if (split.terms == 0 || !to.only_split(node.outputs[0])) {
    TENON_TRY_ASSIGN(tensors.y, to.make(node.outputs[0]));
  }
  if (y.element_count() == 0) return Status();
  TENON_TRY(check_sizes(to, node, {y[0], y[1], desc.queries, desc.keys, y[2], desc.q_at.row, desc.y_at.row}));
  to.program().add_op(std::make_unique<AttentionOp>(node.name, type, params, tensors));
  return Status();
}

}  // namespace tenon::cuda
