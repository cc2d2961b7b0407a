#include "ep/cuda/graphics_interop.h"

#include "ep/sdk/plugin_options.h"

namespace tenon::cuda {

namespace {

constexpr std::string_view kPrefix = "graphics.";
constexpr std::string_view kVulkanData = "vkexternalcomputequeuedataparamsnv_data";
constexpr plugin::OptionRow kRows[] = {{kVulkanData, plugin::OptionKind::kAddress, "0"}};

}  // namespace

Result<CUctxCigParam> read_graphics_config(const CudaDriver& driver, int ordinal, const std::string& who,
                                           const OrtGraphicsInteropConfig& config, const plugin::TextPairs& options) {
  const bool vulkan = config.graphics_api == ORT_GRAPHICS_API_VULKAN;
  CUdevice device = 0;
  TENON_CUDA_TRY(driver, DeviceGet, &device, ordinal);
  const CUdevice_attribute attribute =
      vulkan ? CU_DEVICE_ATTRIBUTE_VULKAN_CIG_SUPPORTED : CU_DEVICE_ATTRIBUTE_D3D12_CIG_SUPPORTED;
  int supported = 0;
  // A driver that does not know the attribute has no such contexts.
  if (driver.DeviceGetAttribute(&supported, attribute, device) != CUDA_SUCCESS) supported = 0;
  TENON_UNSUPPORTED_IF(supported == 0 || driver.CtxCreate == nullptr || driver.CtxDestroy == nullptr,
                       "{} has no CUDA contexts inside a {} one (CIG): its driver says so.", who,
                       vulkan ? "Vulkan" : "D3D12");
  plugin::TextPairs entries;
  for (const auto& [key, value] : options) entries.emplace_back(std::string(kPrefix) + key, value);
  const std::string_view prefixes[] = {kPrefix};
  Result<plugin::OptionValues> values = plugin::OptionValues::parse(kRows, prefixes, entries);
  if (!values.ok())
    return std::move(values).status().with_context("while reading OrtGraphicsInteropConfig.additional_options");
  const uint64_t address = values->address(kVulkanData);
  TENON_INVALID_IF(
      !vulkan && address != 0,
      "OrtGraphicsInteropConfig.additional_options has \"{}\", which is Vulkan's, but graphics_api is D3D12.",
      kVulkanData);
  TENON_INVALID_IF(!vulkan && config.command_queue == nullptr,
                   "OrtGraphicsInteropConfig.command_queue is null; D3D12 takes an ID3D12CommandQueue.");
  TENON_INVALID_IF(
      vulkan && address == 0,
      "OrtGraphicsInteropConfig.additional_options has no \"VkExternalComputeQueueDataParamsNV_data\"; for "
      "Vulkan it is the address of what vkGetExternalComputeQueueDataNV wrote.");
  return CUctxCigParam{
      .sharedDataType = vulkan ? CIG_DATA_TYPE_NV_BLOB : CIG_DATA_TYPE_D3D12_COMMAND_QUEUE,
      .sharedData = vulkan ? reinterpret_cast<void*>(static_cast<uintptr_t>(address)) : config.command_queue};
}

}  // namespace tenon::cuda
