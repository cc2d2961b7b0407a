#include "ep/cuda/compute/cudnn_conv.h"

namespace tenon::cuda {

Result<std::unique_ptr<CudnnHandle>> CudnnHandle::create() {
  TENON_TRY_ASSIGN(const Cudnn* library, cudnn());
  return std::unique_ptr<CudnnHandle>(new CudnnHandle(*library));
}

CudnnHandle::~CudnnHandle() {
  if (handle_ != nullptr) (void)library_.Destroy(handle_);
}

Result<cudnnHandle_t> CudnnHandle::native() const {
  const std::lock_guard lock(making_);
  if (handle_ == nullptr) TENON_CUDNN_TRY(library_, Create, &handle_);
  return handle_;
}

Result<std::unique_ptr<CudnnConv>> CudnnConv::create(const CudnnHandle& handle, DataType type, const ConvParams& params,
                                                     bool relu, bool tf32, size_t workspace_bytes, int only) {
  std::unique_ptr<CudnnConv> conv(new CudnnConv(handle, workspace_bytes));
  TENON_TRY(conv->describe(type, params, relu, tf32, only));
  return conv;
}

Status CudnnConv::describe(DataType type, const ConvParams& p, bool relu, bool tf32, int only) {
  const Cudnn& dnn = handle_.library();
  TENON_TRY_ASSIGN(native_, handle_.native());
  const cudnnDataType_t data = type == DataType::kFloat16    ? CUDNN_DATA_HALF
                               : type == DataType::kBfloat16 ? CUDNN_DATA_BFLOAT16
                                                             : CUDNN_DATA_FLOAT;
  const int images = p.pixels / (p.out_h * p.out_w);
  TENON_CUDNN_TRY(dnn, CreateTensorDescriptor, &x_);
  TENON_CUDNN_TRY(dnn, CreateTensorDescriptor, &y_);
  TENON_CUDNN_TRY(dnn, CreateTensorDescriptor, &bias_);
  TENON_CUDNN_TRY(dnn, CreateFilterDescriptor, &w_);
  TENON_CUDNN_TRY(dnn, CreateConvolutionDescriptor, &conv_);
  TENON_CUDNN_TRY(dnn, CreateActivationDescriptor, &activation_);
  TENON_CUDNN_TRY(dnn, SetTensor4dDescriptor, x_, CUDNN_TENSOR_NHWC, data, images, p.in_c, p.in_h, p.in_w);
  TENON_CUDNN_TRY(dnn, SetTensor4dDescriptor, y_, CUDNN_TENSOR_NHWC, data, images, p.channels, p.out_h, p.out_w);
  TENON_CUDNN_TRY(dnn, SetTensor4dDescriptor, bias_, CUDNN_TENSOR_NHWC, data, 1, p.channels, 1, 1);
  TENON_CUDNN_TRY(dnn, SetFilter4dDescriptor, w_, data, CUDNN_TENSOR_NHWC, p.channels, p.in_c / p.group, p.kernel_h,
                  p.kernel_w);
  TENON_CUDNN_TRY(dnn, SetConvolution2dDescriptor, conv_, p.pad_h, p.pad_w, p.stride_h, p.stride_w, p.dilation_h,
                  p.dilation_w, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
  TENON_CUDNN_TRY(dnn, SetConvolutionGroupCount, conv_, p.group);
  const bool exact = type == DataType::kFloat && !tf32;
  TENON_CUDNN_TRY(dnn, SetConvolutionMathType, conv_, exact ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH);
  TENON_CUDNN_TRY(dnn, SetActivationDescriptor, activation_, relu ? CUDNN_ACTIVATION_RELU : CUDNN_ACTIVATION_IDENTITY,
                  CUDNN_PROPAGATE_NAN, 0.0);
  const std::lock_guard lock(handle_.use());  // a thread may still do the library's set-up
  for (int algorithm = 0; algorithm < CUDNN_CONVOLUTION_FWD_ALGO_COUNT; ++algorithm) {
    if (only >= 0 && algorithm != only) continue;
    const auto kind = static_cast<cudnnConvolutionFwdAlgo_t>(algorithm);
    // Without an activation this function knows one algorithm only; FFT needs more memory than it is worth.
    if (!relu && kind != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM) continue;
    if (kind == CUDNN_CONVOLUTION_FWD_ALGO_FFT || kind == CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING) continue;
    size_t bytes = 0;
    if (dnn.GetConvolutionForwardWorkspaceSize(native_, x_, w_, conv_, y_, kind, &bytes) == CUDNN_STATUS_SUCCESS &&
        bytes <= workspace_bytes_)
      algorithms_.push_back(algorithm);
  }
  TENON_UNSUPPORTED_IF(algorithms_.empty(), "cuDNN has no algorithm for the convolution.");
  return Status();
}

bool measures_cudnn(const CudaDevice& device, DataType type) {
  return type == DataType::kFloat || device.compute_capability() != 90;
}

void warm_up(const CudnnHandle& handle, DataType type, bool tf32) {
  constexpr int32_t kChannels = 64, kSide = 8, kKernel = 3;
  ConvParams params;
  params.in_h = params.in_w = params.out_h = params.out_w = kSide;
  params.pixels = kSide * kSide;
  params.in_c = params.channels = kChannels;
  params.kernel_h = params.kernel_w = kKernel;
  params.pad_h = params.pad_w = 1;
  params.depth = kKernel * kKernel * kChannels;
  (void)CudnnConv::create(handle, type, params, true, tf32, 0).status();
}

CudnnConv::~CudnnConv() {
  const Cudnn& dnn = handle_.library();
  for (cudnnTensorDescriptor_t tensor : {x_, y_, bias_})
    if (tensor != nullptr) (void)dnn.DestroyTensorDescriptor(tensor);
  if (w_ != nullptr) (void)dnn.DestroyFilterDescriptor(w_);
  if (conv_ != nullptr) (void)dnn.DestroyConvolutionDescriptor(conv_);
  if (activation_ != nullptr) (void)dnn.DestroyActivationDescriptor(activation_);
}

Status CudnnConv::queue(int algorithm, const Pointers& pointers, CUstream stream) const {
  const Cudnn& dnn = handle_.library();
  const std::lock_guard lock(handle_.use());
  TENON_CUDNN_TRY(dnn, SetStream, native_, reinterpret_cast<cudaStream_t>(stream));
  const float one = 1, zero = 0;
  TENON_CUDNN_TRY(dnn, ConvolutionBiasActivationForward, native_, &one, x_, pointers.x, w_, pointers.w, conv_,
                  static_cast<cudnnConvolutionFwdAlgo_t>(algorithm), pointers.workspace, workspace_bytes_,
                  pointers.residual != nullptr ? &one : &zero, y_,
                  pointers.residual != nullptr ? pointers.residual : pointers.y, bias_, pointers.bias, activation_, y_,
                  pointers.y);
  return Status();
}

}  // namespace tenon::cuda
