// A kernel template (*.cuh) as an operator asks for it: which instance, its parameters by value, and its launch.
//
// The kernel is a __global__ function template of namespace tenon::cuda::device whose first parameter is a trivially
// copyable struct, followed by the addresses of its reads and then of its writes (docs/explanation/cuda-compute.md).
#pragma once

#include <tenon/types.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/format.h"
#include "base/status.h"
#include "ep/cuda/compute/loops.h"
#include "ep/cuda/compute/program.h"
#include "ep/cuda/driver/cuda_device.h"
#include "ep/cuda/templates/index_params.h"

namespace tenon::cuda {

// A kernel's parameters have at most this many bytes, without the addresses that follow them.
inline constexpr size_t kMostParamsBytes = 4000;

struct TemplateKernel {
  std::string header;             // "ep/cuda/ops/pool/pool.cuh"
  std::string instance;           // template_instance("pool", type, rank, wide)
  std::vector<std::byte> params;  // kernel_params(struct)
  LaunchShape shape;
  std::vector<bool> in_place;     // by read: it may be the memory of the first write; empty: none may
  bool nothing_in_place = false;  // where the first read is the memory of the first write, there is nothing to do
  // CUDA C++ that stands between the header and the instance, which names a type of it: the functor of a chain. No
  // other instance comes with the same text.
  std::string text;
  unsigned cluster_z = 1;  // blocks of the grid's z that are a cluster
  // Caches that the kernel alone writes. Where each lies in the memory of its input and the run is a graph of its own,
  // the kernel may read them before it waits for others: its last parameter is the first one's address then. `writes`
  // end with kNoTensor, which stands for that parameter.
  struct EarlyRead {
    TensorId input = kNoTensor, cache = kNoTensor;
  };
  std::vector<EarlyRead> early;
};

template <typename P>
std::vector<std::byte> kernel_params(const P& params) {
  static_assert(std::is_trivially_copyable_v<P> && sizeof(P) <= kMostParamsBytes);
  const auto* const begin = reinterpret_cast<const std::byte*>(&params);
  return {begin, begin + sizeof(P)};
}

// A constant of an enumeration as a template argument.
struct TemplateEnum {
  std::string_view type;  // "tenon::Activation"
  int value = 0;
};

// "float", "long long", ...: how kernels compute with values of a type. Empty for a type that they do not have.
std::string compute_type(DataType type);
// How a type lies in memory.
std::string storage_type(DataType type);
// The template argument for elements of a type: "float", "tenon::cuda::device::half_bits", ... Empty for a type that
// kernels do not have.
std::string template_type(DataType type);

inline std::string template_argument(DataType type) { return template_type(type); }
inline std::string template_argument(bool value) { return value ? "true" : "false"; }
template <typename T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
std::string template_argument(T value) {
  return format("{}", value);
}
// Arguments as they are written: a list of integers whose number is known at run time.
inline std::string template_argument(std::string written) { return written; }
inline std::string template_argument(TemplateEnum value) { return format("{}({})", value.type, value.value); }

// "tenon::cuda::device::pool<float, 2, false>".
template <typename... Arguments>
std::string template_instance(std::string_view kernel, const Arguments&... arguments) {
  std::string list;
  ((list += (list.empty() ? "" : ", ") + template_argument(arguments)), ...);
  return format("tenon::cuda::device::{}<{}>", kernel, list);
}

// For a kernel with a thread an element, of kMapThreads a block. Errors: kUnsupported for more blocks than a grid has.
Result<LaunchShape> map_launch(int64_t count);

// Errors: kUnsupported for more than kMostRank loops.
Status check_loops(const Loops& loops);
template <int kOperands>
Result<LoopParams<kOperands>> loop_params(const Loops& loops) {
  TENON_TRY(check_loops(loops));
  LoopParams<kOperands> params{.rank = static_cast<int32_t>(loops.dims.size())};
  for (size_t d = 0; d < loops.dims.size(); ++d) params.dims[d] = make_divisor(std::max<int64_t>(loops.dims[d], 1));
  for (size_t s = 0; s < kOperands; ++s) std::copy(loops.strides[s].begin(), loops.strides[s].end(), params.strides[s]);
  return params;
}

}  // namespace tenon::cuda
