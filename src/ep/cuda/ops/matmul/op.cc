#include "ep/cuda/ops/matmul/op.h"

#include <algorithm>

#include "base/format.h"
#include "ep/cuda/compute/algorithm_cache.h"
#include "ep/cuda/compute/kernel_library.h"
#include "ep/cuda/compute/kernel_params.h"
#include "ep/cuda/compute/tuning.h"

namespace tenon::cuda {

Result<ChosenAlgorithm> choose_algorithm(
    const PrepareContext& context, const DeviceOp& op, BlasProduct& product,
    const std::function<Status(const cublasLtMatmulAlgo_t& algorithm, CUstream stream)>& queue) {
  const PrepareContext::Known known = context.known(op);
  if (known.choice)
    if (const Result<cublasLtMatmulAlgo_t> algorithm = product.remembered(*known.choice); algorithm.ok())
      return ChosenAlgorithm{*algorithm, *known.choice};
  if (context.measure && !known.near.empty()) {
    std::vector<ChosenAlgorithm> few;
    const auto add = [&](const std::string& text) {
      const Result<cublasLtMatmulAlgo_t> algorithm = product.remembered(text);
      if (algorithm.ok()) few.push_back({*algorithm, text});
    };
    for (const std::string& text : known.near) add(text);
    // Far from what was measured the library's first guess competes.
    const bool compared = known.far && !context.no_time() && product.find_algorithms().ok();
    if (compared) add(product.algorithm_text(0));
    double best = 0;
    ChosenAlgorithm fastest;
    for (const ChosenAlgorithm& one : few) {
      if (best != 0 && context.no_time()) break;
      const Result<double> time =
          estimate_ns(*context.device, context.stream, [&](CUstream stream) { return queue(one.algorithm, stream); });
      if (!time.ok() || (best != 0 && *time >= best * kClearlyFaster)) continue;
      best = *time;
      fastest = one;
    }
    if (best != 0) {
      context.borrow(op, fastest.text, compared);
      return fastest;
    }
  }
  TENON_TRY(product.find_algorithms());
  const auto at = [&](size_t i) { return ChosenAlgorithm{product.algorithm(i), product.algorithm_text(i)}; };
  if (!context.measure || product.algorithms() == 1) return at(0);
  const Result<Fastest> found =
      find_fastest(*context.device, context.stream, product.algorithms(), context.budget,
                   [&](size_t i, CUstream stream) { return queue(product.algorithm(i), stream); });
  if (!found.ok()) return at(0);
  ChosenAlgorithm fastest = at(found->index);
  context.keep(op, fastest.text, found->hasty);
  return fastest;
}

std::string ProductOp::description(const Program&) const {
  return format("batched_product {} {}x{}x{}{} batch {} strides {} {}", data_type_name(problem_.type), problem_.rows,
                problem_.columns, problem_.depth, problem_.transposed_w ? " transposed" : "", problem_.batch,
                problem_.x_stride, problem_.w_stride);
}

Status ProductOp::prepare(const PrepareContext& context) {
  if (context.blas != nullptr) {
    Status prepared = prepare_library(context);
    if (prepared.code() != StatusCode::kUnsupported) return prepared;
  }
  TENON_TRY_ASSIGN(plain_, context.kernels->find("direct", format("product_plain_{}", kernel_type(problem_.type))));
  choice_ = "plain";
  return Status();
}

Status ProductOp::prepare_library(const PrepareContext& context) {
  problem_.tf32 = context.tf32;
  problem_.workspace_bytes = context.addresses.program->workspace_bytes;
  TENON_TRY_ASSIGN(product_, BlasProduct::create(*context.blas, problem_));
  TENON_TRY_ASSIGN(const ChosenAlgorithm chosen,
                   choose_algorithm(context, *this, *product_, [&](const auto& algorithm, CUstream stream) {
                     return queue_algorithm(algorithm, stream, context.addresses);
                   }));
  algorithm_ = chosen.algorithm;
  choice_ = "blas " + chosen.text;
  return Status();
}

Status ProductOp::queue_algorithm(const cublasLtMatmulAlgo_t& algorithm, CUstream stream,
                                  const Addresses& addresses) const {
  return product_->queue(algorithm,
                         {.x = addresses.pointer(reads()[0]),
                          .w = addresses.pointer(reads()[1]),
                          .y = addresses.pointer(writes()[0]),
                          .workspace = addresses.pointer(scratch())},
                         stream);
}

Status ProductOp::queue_plain(const QueueContext& context) const {
  constexpr int64_t kThreads = 128, kMaxBlocks = INT32_MAX;
  ProductParams params{.x = context.addresses.pointer(reads()[0]),
                       .w = context.addresses.pointer(reads()[1]),
                       .y = context.addresses.pointer(writes()[0]),
                       .rows = problem_.rows,
                       .columns = problem_.columns,
                       .depth = problem_.depth,
                       .batch = problem_.batch,
                       .x_stride = problem_.x_stride,
                       .w_stride = problem_.w_stride,
                       .scale = problem_.scale,
                       .transposed_w = problem_.transposed_w ? 1 : 0};
  const int64_t count = params.batch * params.rows * params.columns;
  void* pointers[] = {&params};
  return queue_kernel(*context.device, plain_,
                      {.grid_x = static_cast<unsigned>(std::min((count + kThreads - 1) / kThreads, kMaxBlocks)),
                       .block_x = static_cast<unsigned>(kThreads)},
                      1, context.stream, pointers);
}

Status ProductOp::queue(const QueueContext& context) const {
  if (plain_ != nullptr) return queue_plain(context);
  return queue_algorithm(algorithm_, context.stream, context.addresses);
}

}  // namespace tenon::cuda
