#include "ep/cuda/compute/generated_op.h"

#include <filesystem>
#include <fstream>
#include <functional>

#include "base/format.h"
#include "ep/cuda/compute/context.h"
#include "ep/cuda/compute/kernel_library.h"

namespace tenon::cuda {

GeneratedOp::GeneratedOp(std::string label, std::string what, GeneratedKernel kernel, std::vector<TensorId> reads,
                         std::vector<TensorId> writes)
    : DeviceOp(std::move(label), std::move(reads), std::move(writes)),
      what_(std::move(what)),
      kernel_(std::move(kernel)) {}

std::string GeneratedOp::description(const Program&) const { return what_; }

Status GeneratedOp::prepare(const PrepareContext& context) {
  if (kernel_.blocks == 0) return Status();
  if (context.generated == nullptr) return internal_error("{} has no compiled kernels.", label());
  TENON_TRY_ASSIGN(function_, context.generated->function(kernel_.name));
  return Status();
}

Status GeneratedOp::queue(const QueueContext& context) const {
  if (kernel_.blocks == 0) return Status();
  std::vector<CUdeviceptr> addresses;
  for (TensorId id : reads()) addresses.push_back(context.addresses.of(id));
  for (TensorId id : writes()) addresses.push_back(context.addresses.of(id));
  std::vector<void*> pointers;
  pointers.reserve(addresses.size());
  for (CUdeviceptr& address : addresses) pointers.push_back(&address);
  return queue_kernel(*context.device, function_, {.grid_x = kernel_.blocks, .block_x = kernel_.threads}, 1,
                      context.stream, pointers.data());
}

std::string CopyOp::description(const Program&) const { return format("copy {} bytes", size_bytes_); }

Status CopyOp::queue(const QueueContext& context) const {
  if (size_bytes_ == 0) return Status();
  TENON_CUDA_TRY(context.device->driver(), MemcpyDtoDAsync, context.addresses.of(writes()[0]),
                 context.addresses.of(reads()[0]), size_bytes_, context.stream);
  return Status();
}

namespace {

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
  return {begin, begin + bytes.size()};
}

void write_file(const std::string& path, std::span<const std::byte> bytes) {
  std::error_code failed;
  bool written = false;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  const std::string temporary = format("{}.{}", path, static_cast<const void*>(bytes.data()));
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    file.close();
    written = file.good();
  }
  failed.clear();
  if (written) std::filesystem::rename(temporary, path, failed);
  if (!written || failed) std::filesystem::remove(temporary, failed);
}

}  // namespace

Result<std::unique_ptr<GeneratedModule>> GeneratedModule::compile(const ComputeContext& context,
                                                                  const std::string& source) {
  const std::shared_ptr<CudaDevice>& device = context.device();
  const std::string cache_folder = context.cache_folder();
  const std::string whole = generated_prelude() + source;
  std::string path;
  if (!cache_folder.empty()) {
    path = format("{}/kernels_{:016x}_{}.cubin", cache_folder, std::hash<std::string>()(whole),
                  device->compute_capability());
    const std::vector<std::byte> kept = read_file(path);
    // What cannot be loaded is compiled anew.
    if (!kept.empty())
      if (Result<std::shared_ptr<CudaModule>> module = CudaModule::load(device, kept); module.ok())
        return std::unique_ptr<GeneratedModule>(new GeneratedModule(*std::move(module)));
  }
  TENON_TRY_ASSIGN(const Nvrtc* compiler, context.compiler());
  TENON_TRY_ASSIGN(const std::vector<std::byte> image,
                   compiler->compile(whole, "tenon_generated.cu", device->compute_capability()));
  if (!path.empty()) write_file(path, image);
  TENON_TRY_ASSIGN(std::shared_ptr<CudaModule> module, CudaModule::load(device, image));
  return std::unique_ptr<GeneratedModule>(new GeneratedModule(std::move(module)));
}

}  // namespace tenon::cuda
