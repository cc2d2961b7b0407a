// The plain kernels: every operator that Tenon runs has its last row here.
#include "ep/cpu/cpu_provider.h"
#include "ep/cpu/ops/recurrent/reference.h"
#include "ep/cpu/ops/reference_kernel.h"

namespace tenon::cpu {

std::span<const KernelEntry> reference_kernels() {
  static const std::vector<KernelEntry> kAll = [] {
    std::vector<KernelEntry> all;
    for (std::span<const KernelEntry> rows :
         {ref::ref_unary_rows(),   ref::ref_binary_rows(),    ref::ref_cast_rows(),    ref::ref_reduce_rows(),
          ref::ref_softmax_rows(), ref::ref_conv_rows(),      ref::ref_pool_rows(),    ref::ref_norm_rows(),
          ref::ref_matmul_rows(),  ref::ref_attention_rows(), ref::ref_reshape_rows(), ref::ref_move_rows(),
          ref::ref_pad_rows(),     ref::ref_gather_rows(),    ref::ref_scatter_rows(), ref::ref_order_rows(),
          ref::ref_resize_rows(),  ref::ref_generate_rows(),  ref::ref_reorder_rows(), ref::ref_recurrent_rows()}) {
      all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
  }();
  return kAll;
}

}  // namespace tenon::cpu
