// MoE and QMoE: the routing and the order of the products; how a product is computed is the caller's.
#pragma once

#include <memory>

#include "ep/api/kernel.h"
#include "ops/experts.h"

namespace tenon::cpu {

// The products of one projection of all experts. Immutable.
class ExpertProduct {
 public:
  virtual ~ExpertProduct() = default;
  // Elements of a row of A: at least k, those behind it are zero.
  virtual int64_t depth() const = 0;
  // Bytes of scratch for at most `rows` of A.
  virtual size_t scratch_bytes(int64_t rows) const = 0;
  // C[m,n] = A * B of `expert` transposed + bias, on every thread of the pool.
  virtual void run(const KernelContext& context, int64_t expert, const float* a, int64_t m, float* c,
                   std::byte* scratch) const = 0;
};

struct ExpertProducts {
  std::unique_ptr<ExpertProduct> first, second, third;  // third: null without a gate
};

// Inputs and output are float32.
Result<std::unique_ptr<Kernel>> make_experts(const KernelNode& node, const ExpertsDesc& desc, ExpertProducts products,
                                             std::string_view name);

// OK if the floats are float32 and codes uint8, in the plain layout.
Status match_experts(const KernelNode& node);

}  // namespace tenon::cpu
