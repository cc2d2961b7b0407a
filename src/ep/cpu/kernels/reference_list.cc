// The plain kernels: every operator that Tenon runs has its last row here.
#include "ep/cpu/cpu_provider.h"
#include "ep/cpu/kernels/ref_kernel.h"

namespace tenon::cpu {

std::span<const KernelEntry> reference_kernels() {
  static const std::vector<KernelEntry> kAll = [] {
    std::vector<KernelEntry> all;
    for (std::span<const KernelEntry> rows :
         {ref_unary_rows(), ref_binary_rows(), ref_cast_rows(), ref_reduce_rows(), ref_softmax_rows(), ref_conv_rows(),
          ref_pool_rows(), ref_norm_rows(), ref_matmul_rows(), ref_attention_rows(), ref_reshape_rows(),
          ref_move_rows(), ref_pad_rows(), ref_gather_rows(), ref_scatter_rows(), ref_order_rows(), ref_resize_rows(),
          ref_generate_rows(), ref_internal_rows()}) {
      all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
  }();
  return kAll;
}

}  // namespace tenon::cpu
