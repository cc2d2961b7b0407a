#include "ep/cuda/ops/matmul/split_product_op.h"

#include <cmath>

#include "base/format.h"
#include "ep/cuda/compute/algorithm_cache.h"
#include "ep/cuda/compute/kernel_library.h"
#include "ep/cuda/ops/matmul/op.h"

namespace tenon::cuda {

namespace {

size_t product_bytes(const SplitProblem& problem) { return int64_t{problem.rows} * problem.columns * sizeof(float); }

}  // namespace

SplitProductOp::SplitProductOp(std::string label, const SplitProblem& problem, float scale, const Epilogue& epilogue,
                               const Tensors& tensors, int32_t y_terms, int32_t y_shift)
    : DeviceOp(std::move(label), present({tensors.x, tensors.w, tensors.bias, tensors.residual}),
               present({tensors.y, tensors.y_parts})),
      problem_(problem),
      scale_(scale),
      epilogue_(epilogue),
      tensors_(tensors),
      y_terms_(y_terms),
      y_shift_(y_shift) {}

bool SplitProductOp::direct() const {
  return tensors_.y_parts == kNoTensor && epilogue_.activation == Activation::kNone;
}

std::string SplitProductOp::description(const Program&) const { return text_of(problem_.rows); }

ProblemFamily SplitProductOp::family() const { return {.text = text_of(0), .size = problem_.rows}; }

std::string SplitProductOp::text_of(int64_t rows) const {
  return format("split_product {}x{}x{} terms {} act {}{}{}{}{}", rows, problem_.columns, problem_.depth,
                problem_.terms, static_cast<int>(epilogue_.activation), tensors_.bias != kNoTensor ? " bias" : "",
                tensors_.residual == kNoTensor ? ""
                : epilogue_.residual_after     ? " residual after"
                                               : " residual",
                tensors_.y != kNoTensor ? "" : " no result", y_terms_ != 0 ? format(" to terms {}", y_terms_) : "");
}

size_t SplitProductOp::scratch_bytes(const Program& program) const {
  return program.workspace_bytes + (tensors_.y == kNoTensor ? product_bytes(problem_) : 0);
}

Result<std::unique_ptr<BlasProduct>> SplitProductOp::describe(const PrepareContext& context, bool whole) const {
  return BlasProduct::create(*context.blas, {.type = DataType::kFloat16,
                                             .result = DataType::kFloat,
                                             .rows = problem_.rows,
                                             .columns = problem_.columns,
                                             .depth = int64_t{problem_.depth} * problem_.terms,
                                             .transposed_w = true,
                                             .bias = whole && tensors_.bias != kNoTensor,
                                             .residual = whole && tensors_.residual != kNoTensor,
                                             .scale = scale_,
                                             .workspace_bytes = context.addresses.program->workspace_bytes});
}

Status SplitProductOp::prepare(const PrepareContext& context) {
  if (context.blas == nullptr) return resource_exhausted("cuBLASLt, which was found, could not be opened.");
  const auto queue_one = [&](const cublasLtMatmulAlgo_t& algorithm, CUstream stream) {
    return queue_product(algorithm, stream, context.addresses);
  };
  if (direct()) {
    TENON_TRY_ASSIGN(product_, describe(context, true));
    const Result<ChosenAlgorithm> chosen = choose_algorithm(context, *this, *product_, queue_one);
    if (chosen.ok()) {
      algorithm_ = chosen->algorithm;
      choice_ = "split_f16 " + chosen->text;
      return Status();
    }
    if (chosen.status().code() != StatusCode::kUnsupported) return chosen.status();
  }
  TENON_TRY_ASSIGN(join_, context.kernels->find("split", "join_rows"));
  TENON_TRY_ASSIGN(product_, describe(context, false));
  TENON_TRY_ASSIGN(const ChosenAlgorithm chosen, choose_algorithm(context, *this, *product_, queue_one));
  algorithm_ = chosen.algorithm;
  choice_ = "split_f16 " + chosen.text + " joined";
  return Status();
}

CUdeviceptr SplitProductOp::product_address(const Addresses& addresses) const {
  return addresses.of(tensors_.y != kNoTensor ? tensors_.y : scratch());
}

Status SplitProductOp::queue_product(const cublasLtMatmulAlgo_t& algorithm, CUstream stream,
                                     const Addresses& addresses) const {
  const size_t before_workspace = tensors_.y == kNoTensor ? product_bytes(problem_) : 0;
  return product_->queue(algorithm,
                         {.x = addresses.pointer(tensors_.x),
                          .w = addresses.pointer(tensors_.w),
                          .bias = addresses.pointer(tensors_.bias),
                          .residual = addresses.pointer(tensors_.residual),
                          .y = reinterpret_cast<void*>(product_address(addresses)),
                          .workspace = addresses.pointer<std::byte>(scratch()) + before_workspace},
                         stream);
}

Status SplitProductOp::queue(const QueueContext& context) const {
  const Addresses& addresses = context.addresses;
  TENON_TRY(queue_product(algorithm_, context.stream, addresses));
  if (join_ == nullptr) return Status();
  constexpr unsigned kThreads = 128, kVector = 8;
  JoinParams join{.product = reinterpret_cast<const float*>(product_address(addresses)),
                  .y = addresses.pointer(tensors_.y),
                  .bias = addresses.pointer<const float>(tensors_.bias),
                  .residual = addresses.pointer(tensors_.residual),
                  .parts = addresses.pointer(tensors_.y_parts),
                  .parts_factor = std::ldexp(1.0f, y_shift_),
                  .terms = y_terms_,
                  .rows = problem_.rows,
                  .columns = problem_.columns,
                  .activation = epilogue_.activation,
                  .alpha = epilogue_.alpha,
                  .beta = epilogue_.beta,
                  .residual_after = epilogue_.residual_after ? 1 : 0};
  void* pointers[] = {&join};
  const unsigned vectors = static_cast<unsigned>(problem_.rows) * (static_cast<unsigned>(problem_.columns) / kVector);
  return queue_kernel(*context.device, join_, {.grid_x = (vectors + kThreads - 1) / kThreads, .block_x = kThreads}, 1,
                      context.stream, pointers);
}

}  // namespace tenon::cuda
