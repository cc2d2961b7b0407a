#include "ep/cuda/compute/blas.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>

#include "base/format.h"

namespace tenon::cuda {

namespace {

cudaDataType_t cuda_type(DataType type) {
  return type == DataType::kFloat16 ? CUDA_R_16F : type == DataType::kBfloat16 ? CUDA_R_16BF : CUDA_R_32F;
}

template <typename T>
Status set(const CublasLt& lt, cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
           const T& value) {
  TENON_CUBLASLT_TRY(lt, MatmulDescSetAttribute, operation, attribute, &value, sizeof(value));
  return Status();
}

Result<cublasLtEpilogue_t> epilogue_of(const BlasProblem& problem) {
  switch (problem.activation) {
    case Activation::kNone:
      return problem.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case Activation::kRelu:
      return problem.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Activation::kGelu:
    case Activation::kGeluTanh:
      return problem.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    default:
      return unsupported("cuBLASLt has no epilogue for activation {}.", static_cast<int>(problem.activation));
  }
}

// Of a number of `type`, in the first bytes of `bits`.
bool is_nan(DataType type, uint32_t bits) {
  switch (type) {
    case DataType::kFloat16:
      return (bits & 0x7fff) > 0x7c00;
    case DataType::kBfloat16:
      return (bits & 0x7fff) > 0x7f80;
    default:
      return (bits & 0x7fffffff) > 0x7f800000;
  }
}

}  // namespace

Result<std::unique_ptr<BlasHandle>> BlasHandle::create() {
  TENON_TRY_ASSIGN(const CublasLt* library, cublaslt());
  cublasLtHandle_t handle = nullptr;
  TENON_CUBLASLT_TRY(*library, Create, &handle);
  return std::unique_ptr<BlasHandle>(new BlasHandle(*library, handle));
}

BlasHandle::~BlasHandle() { (void)library_.Destroy(handle_); }

Result<std::unique_ptr<BlasProduct>> BlasProduct::create(const BlasHandle& handle, const BlasProblem& problem) {
  std::unique_ptr<BlasProduct> product(new BlasProduct(handle, problem));
  TENON_TRY(product->describe());
  return product;
}

// cuBLASLt counts columns first: there y^T = w^T x^T, so w is its first operand.
Status BlasProduct::describe() {
  const CublasLt& lt = handle_.library();
  const cudaDataType_t type = cuda_type(problem_.type);
  const cudaDataType_t result = problem_.result != DataType::kUndefined ? cuda_type(problem_.result) : type;
  const cublasComputeType_t compute =
      problem_.type == DataType::kFloat && problem_.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  TENON_CUBLASLT_TRY(lt, MatmulDescCreate, &operation_, compute, CUDA_R_32F);
  const cublasOperation_t w_op = problem_.transposed_w ? CUBLAS_OP_T : CUBLAS_OP_N, x_op = CUBLAS_OP_N;
  TENON_TRY(set(lt, operation_, CUBLASLT_MATMUL_DESC_TRANSA, w_op));
  TENON_TRY(set(lt, operation_, CUBLASLT_MATMUL_DESC_TRANSB, x_op));
  TENON_TRY_ASSIGN(const cublasLtEpilogue_t epilogue, epilogue_of(problem_));
  TENON_TRY(set(lt, operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue));
  const auto columns = static_cast<uint64_t>(problem_.columns), rows = static_cast<uint64_t>(problem_.rows),
             depth = static_cast<uint64_t>(problem_.depth);
  if (problem_.transposed_w) {
    TENON_CUBLASLT_TRY(lt, MatrixLayoutCreate, &w_, type, depth, columns,
                       problem_.w_row != 0 ? problem_.w_row : problem_.depth);
  } else {
    TENON_CUBLASLT_TRY(lt, MatrixLayoutCreate, &w_, type, columns, depth, problem_.columns);
  }
  TENON_CUBLASLT_TRY(lt, MatrixLayoutCreate, &x_, type, depth, rows,
                     problem_.x_row != 0 ? problem_.x_row : problem_.depth);
  TENON_CUBLASLT_TRY(lt, MatrixLayoutCreate, &y_, result, columns, rows, problem_.columns);
  if (problem_.batch > 1) {
    const auto count = static_cast<int32_t>(problem_.batch);
    const std::pair<cublasLtMatrixLayout_t, int64_t> strides[] = {
        {w_, problem_.w_stride}, {x_, problem_.x_stride}, {y_, problem_.y_stride}};
    for (const auto& [layout, stride] : strides) {
      TENON_CUBLASLT_TRY(lt, MatrixLayoutSetAttribute, layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                         sizeof(count));
      TENON_CUBLASLT_TRY(lt, MatrixLayoutSetAttribute, layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                         sizeof(stride));
    }
  }
  // Some algorithms need the address of a bias to be set when they are asked for.
  if (problem_.bias) {
    const void* const some = reinterpret_cast<const void*>(uintptr_t{256});
    TENON_TRY(set(lt, operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, some));
  }
  return Status();
}

Status BlasProduct::find_algorithms() {
  if (!algorithms_.empty()) return Status();
  const CublasLt& lt = handle_.library();
  cublasLtMatmulPreference_t preference = nullptr;
  TENON_CUBLASLT_TRY(lt, MatmulPreferenceCreate, &preference);
  const size_t workspace = problem_.workspace_bytes;
  (void)lt.MatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                        sizeof(workspace));
  // By default the library counts on 256 bytes, which parts of tensors and what a program binds do not have.
  constexpr uint32_t kOperandAlignment = 16;
  for (const cublasLtMatmulPreferenceAttributes_t operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    (void)lt.MatmulPreferenceSetAttribute(preference, operand, &kOperandAlignment, sizeof(kOperandAlignment));
  // They come in the order of what the library expects of them, which is often wrong by a third.
  cublasLtMatmulHeuristicResult_t results[48] = {};
  int found = 0;
  const cublasStatus_t status = lt.MatmulAlgoGetHeuristic(handle_.native(), operation_, w_, x_, y_, y_, preference,
                                                          static_cast<int>(std::size(results)), results, &found);
  (void)lt.MatmulPreferenceDestroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS) return cublas_error(status, "cublasLtMatmulAlgoGetHeuristic");
  for (int i = 0; i < found; ++i)
    if (results[i].state == CUBLAS_STATUS_SUCCESS) algorithms_.push_back(results[i].algo);
  TENON_UNSUPPORTED_IF(algorithms_.empty(), "cuBLASLt has no algorithm for a product of {}x{}x{}.", problem_.rows,
                       problem_.columns, problem_.depth);
  return Status();
}

void warm_up(const BlasHandle& handle, DataType type, DataType result, bool tf32) {
  constexpr int64_t kSize = 128;
  const Result<std::unique_ptr<BlasProduct>> product = BlasProduct::create(handle, {.type = type,
                                                                                    .result = result,
                                                                                    .tf32 = tf32,
                                                                                    .rows = kSize,
                                                                                    .columns = kSize,
                                                                                    .depth = kSize,
                                                                                    .transposed_w = true});
  if (product.ok() && (*product)->find_algorithms().ok())
    (void)(*product)->remembered((*product)->algorithm_text(0)).status();
}

BlasProduct::~BlasProduct() {
  const CublasLt& lt = handle_.library();
  for (cublasLtMatrixLayout_t layout : {w_, x_, y_})
    if (layout != nullptr) (void)lt.MatrixLayoutDestroy(layout);
  if (operation_ != nullptr) (void)lt.MatmulDescDestroy(operation_);
}

std::string BlasProduct::algorithm_text(size_t index) const {
  const auto* bytes = reinterpret_cast<const unsigned char*>(&algorithms_[index]);
  std::string text;
  for (size_t i = 0; i < sizeof(cublasLtMatmulAlgo_t); ++i) text += format("{:02x}", bytes[i]);
  return text;
}

Result<cublasLtMatmulAlgo_t> BlasProduct::remembered(const std::string& text) const {
  cublasLtMatmulAlgo_t algorithm = {};
  TENON_INVALID_IF(text.size() != 2 * sizeof(algorithm), "An algorithm of {} digits is none.", text.size());
  auto* bytes = reinterpret_cast<unsigned char*>(&algorithm);
  for (size_t i = 0; i < sizeof(algorithm); ++i) {
    const auto [end, error] = std::from_chars(text.data() + 2 * i, text.data() + 2 * i + 2, bytes[i], 16);
    TENON_INVALID_IF(error != std::errc() || end != text.data() + 2 * i + 2, "\"{}\" is no algorithm.", text);
  }
  cublasLtMatmulHeuristicResult_t result = {};
  TENON_CUBLASLT_TRY(handle_.library(), MatmulAlgoCheck, handle_.native(), operation_, w_, x_, y_, y_, &algorithm,
                     &result);
  TENON_INVALID_IF(result.workspaceSize > problem_.workspace_bytes, "The algorithm takes {} bytes of scratch memory.",
                   result.workspaceSize);
  return algorithm;
}

Status BlasProduct::queue(const cublasLtMatmulAlgo_t& algorithm, const Pointers& pointers, CUstream stream) const {
  return queue_scaled(algorithm, problem_.scale, pointers, stream);
}

// With a scale of NaN each element is a NaN before the epilogue, whatever the operands hold.
Result<bool> BlasProduct::keeps_nan(const CudaDriver& driver, const cublasLtMatmulAlgo_t& algorithm,
                                    const Pointers& pointers, CUstream stream) const {
  TENON_TRY(queue_scaled(algorithm, std::numeric_limits<float>::quiet_NaN(), pointers, stream));
  const DataType type = problem_.result != DataType::kUndefined ? problem_.result : problem_.type;
  const size_t element_bytes = data_type_size(type);
  std::array<std::byte, 4096> first;
  const size_t size_bytes =
      std::min(first.size(), static_cast<size_t>(problem_.rows * problem_.columns) * element_bytes);
  TENON_CUDA_TRY(driver, MemcpyDtoHAsync, first.data(), reinterpret_cast<CUdeviceptr>(pointers.y), size_bytes, stream);
  TENON_CUDA_TRY(driver, StreamSynchronize, stream);
  for (size_t at = 0; at < size_bytes; at += element_bytes) {
    uint32_t bits = 0;
    std::memcpy(&bits, &first[at], element_bytes);
    if (!is_nan(type, bits)) return false;
  }
  return true;
}

Status BlasProduct::queue_scaled(const cublasLtMatmulAlgo_t& algorithm, float scale, const Pointers& pointers,
                                 CUstream stream) const {
  const CublasLt& lt = handle_.library();
  // The description is shared by threads, and the bias is part of it: each call has its own copy.
  cublasLtMatmulDescOpaque_t operation = *operation_;
  if (problem_.bias) TENON_TRY(set(lt, &operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, pointers.bias));
  const float beta = problem_.residual ? 1.0f : 0.0f;
  TENON_CUBLASLT_TRY(lt, Matmul, handle_.native(), &operation, &scale, pointers.w, w_, pointers.x, x_, &beta,
                     problem_.residual ? pointers.residual : pointers.y, y_, pointers.y, y_, &algorithm,
                     pointers.workspace, problem_.workspace_bytes, reinterpret_cast<cudaStream_t>(stream));
  return Status();
}

}  // namespace tenon::cuda
