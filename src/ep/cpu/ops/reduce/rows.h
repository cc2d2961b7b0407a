// Reductions over neighbouring axes.
#pragma once

#include "ep/api/kernel.h"

namespace tenon::cpu::nn {

Status match_reduce(const KernelNode& node);  // axes known, [kept, reduced] or [kept, reduced, kept]
Result<std::unique_ptr<Kernel>> create_reduce(const KernelNode& node);

// ReduceLogSumExp along one group of axes.
Status match_log_sum_exp(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_log_sum_exp(const KernelNode& node);

// Sums, means, products and extremes of integers.
Status match_reduce_integers(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_reduce_integers(const KernelNode& node);

// Reductions of float64, and ReduceProd of float32.
Status match_reduce_doubles(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_reduce_doubles(const KernelNode& node);

}  // namespace tenon::cpu::nn
