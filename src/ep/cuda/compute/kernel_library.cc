#include "ep/cuda/compute/kernel_library.h"

#include <array>
#include <span>

#include "base/log.h"
#include "ep/cuda/lap.h"

extern "C" {
#define TENON_FATBIN(name) extern const std::byte tenon_fatbin_##name[], tenon_fatbin_##name##_end[];
TENON_FATBIN(conv_f16)
TENON_FATBIN(conv_bf16)
TENON_FATBIN(conv_tf32)
TENON_FATBIN(conv_f32)
TENON_FATBIN(conv_hopper)
TENON_FATBIN(direct)
TENON_FATBIN(norm)
TENON_FATBIN(softmax)
TENON_FATBIN(attention)
TENON_FATBIN(attention_tiles)
TENON_FATBIN(recurrent)
TENON_FATBIN(topk)
TENON_FATBIN(integer)
TENON_FATBIN(split)
#undef TENON_FATBIN
}

namespace tenon::cuda {

namespace {

std::span<const std::byte> find_image(std::string_view module) {
  struct Image {
    std::string_view name;
    const std::byte* begin;
    const std::byte* end;
  };
#define TENON_FATBIN(name) \
  Image { #name, tenon_fatbin_##name, tenon_fatbin_##name##_end }
  static const std::array kImages = {TENON_FATBIN(conv_f16),    TENON_FATBIN(conv_bf16),
                                     TENON_FATBIN(conv_tf32),   TENON_FATBIN(conv_f32),
                                     TENON_FATBIN(conv_hopper), TENON_FATBIN(direct),
                                     TENON_FATBIN(norm),        TENON_FATBIN(softmax),
                                     TENON_FATBIN(attention),   TENON_FATBIN(attention_tiles),
                                     TENON_FATBIN(recurrent),   TENON_FATBIN(topk),
                                     TENON_FATBIN(integer),     TENON_FATBIN(split)};
#undef TENON_FATBIN
  for (const Image& image : kImages)
    if (image.name == module) return {image.begin, image.end};
  return {};
}

}  // namespace

Result<std::shared_ptr<CudaModule>> KernelLibrary::module(State& state, std::string_view name) const {
  auto& loaded = state.modules[std::string(name)];
  if (loaded == nullptr) {
    const std::span<const std::byte> image = find_image(name);
    if (image.empty()) return not_found("This build has no kernels \"{}\".", name);
    Lap lap;
    Result<std::shared_ptr<CudaModule>> made = CudaModule::load(device_, image);
    TENON_TRACE(kPlan, "CUDA: kernels \"{}\" loaded in {:.1f} ms.", name, lap.ms());
    if (!made.ok()) return std::move(made).status().with_context(format("while loading the kernels \"{}\"", name));
    loaded = *std::move(made);
  }
  return loaded;
}

Status KernelLibrary::load(std::string_view name) {
  auto state = state_.lock();
  return module(*state, name).status();
}

Result<CUfunction> KernelLibrary::find(std::string_view module_name, const std::string& name, unsigned shared_bytes) {
  auto state = state_.lock();
  if (const auto known = state->functions.find(name); known != state->functions.end()) return known->second;
  TENON_TRY_ASSIGN(const std::shared_ptr<CudaModule> loaded, module(*state, module_name));
  TENON_TRY_ASSIGN(const CUfunction function, loaded->function(name.c_str()));
  constexpr unsigned kWithoutAsking = 48 * 1024;
  if (shared_bytes > kWithoutAsking)
    TENON_CUDA_TRY(device_->driver(), FuncSetAttribute, function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                   static_cast<int>(shared_bytes));
  // Blocks that fit side by side should: the driver would leave a part of the memory to the cache.
  if (shared_bytes > 0)
    TENON_CUDA_TRY(device_->driver(), FuncSetAttribute, function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                   100);
  state->functions.emplace(name, function);
  return function;
}

std::string_view kernel_type(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return "f32";
    case DataType::kFloat16:
      return "f16";
    case DataType::kBfloat16:
      return "bf16";
    default:
      return "";
  }
}

Status check_launch(const LaunchShape& shape) {
  constexpr unsigned kMostX = 2147483647, kMostYZ = 65535, kMostThreads = 1024;
  TENON_UNSUPPORTED_IF(shape.grid_x > kMostX || shape.grid_y > kMostYZ || shape.grid_z > kMostYZ,
                       "A grid of {}x{}x{} blocks is beyond the limit of {}x{}x{}.", shape.grid_x, shape.grid_y,
                       shape.grid_z, kMostX, kMostYZ, kMostYZ);
  const uint64_t threads = uint64_t{shape.block_x} * shape.block_y * shape.block_z;
  TENON_UNSUPPORTED_IF(threads > kMostThreads, "A block of {} threads is beyond the limit of {}.", threads,
                       kMostThreads);
  return Status();
}

Status queue_kernel(const CudaDevice& device, CUfunction function, const LaunchShape& shape, unsigned cluster_z,
                    CUstream stream, void** pointers) {
  TENON_TRY(check_launch(shape));
  CUlaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (device.compute_capability() >= 90) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes[count++].value.programmaticStreamSerializationAllowed = 1;
    if (cluster_z > 1) {
      attributes[count].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
      attributes[count].value.clusterDim.x = 1;
      attributes[count].value.clusterDim.y = 1;
      attributes[count++].value.clusterDim.z = cluster_z;
    }
  }
  CUlaunchConfig config = {};
  config.gridDimX = shape.grid_x, config.gridDimY = shape.grid_y, config.gridDimZ = shape.grid_z;
  config.blockDimX = shape.block_x, config.blockDimY = shape.block_y, config.blockDimZ = shape.block_z;
  config.sharedMemBytes = shape.shared_bytes;
  config.hStream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  TENON_CUDA_TRY(device.driver(), LaunchKernelEx, &config, function, pointers, nullptr);
  return Status();
}

}  // namespace tenon::cuda
