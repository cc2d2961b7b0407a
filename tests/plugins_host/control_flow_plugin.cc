// An EP that claims If, Loop and Scan with kernels that the host makes (OrtEpApi::CreateIfKernel, CreateLoopKernel,
// CreateScanKernel), in any host of the ABI. Its helpers work on host memory.
//
// TENON_FLOW_OUT: a file that each call of a helper is written to. TENON_FLOW_LIE names one mistake to make.
// TENON_FLOW_DEVICE: the EP has memory of its own, in which every byte is another one than outside (kScramble), and its
// helpers take no other memory.
#include <tenon/onnxruntime_c_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

const OrtApi* g_api = nullptr;
const OrtEpApi* g_ep_api = nullptr;

bool lie(const char* name) {
  const char* chosen = std::getenv("TENON_FLOW_LIE");
  return chosen != nullptr && std::strcmp(chosen, name) == 0;
}

void write_line(const std::string& line) {
  const char* path = std::getenv("TENON_FLOW_OUT");
  if (path == nullptr) return;
  if (FILE* file = std::fopen(path, "a")) {
    std::fprintf(file, "%s\n", line.c_str());
    std::fclose(file);
  }
}

constexpr uint32_t kVendor = 0x544E;
constexpr char kScramble = 0x5A;
bool has_memory() { return std::getenv("TENON_FLOW_DEVICE") != nullptr; }
bool is_own(const OrtMemoryDevice* device) { return g_ep_api->MemoryDevice_GetVendorId(device) == kVendor; }

struct Tensor {
  const char* data = nullptr;
  std::vector<int64_t> dims;
};

OrtStatus* describe(const OrtValue* value, Tensor& tensor) {
  if (has_memory() && !is_own(g_ep_api->Value_GetMemoryDevice(value)))
    return g_api->CreateStatus(ORT_EP_FAIL, "the helper got memory that is not its EP's");
  OrtTensorTypeAndShapeInfo* info = nullptr;
  if (OrtStatus* bad = g_api->GetTensorTypeAndShape(value, &info)) return bad;
  size_t rank = 0;
  OrtStatus* bad = g_api->GetDimensionsCount(info, &rank);
  tensor.dims.resize(rank);
  if (bad == nullptr) bad = g_api->GetDimensions(info, tensor.dims.data(), rank);
  g_api->ReleaseTensorTypeAndShapeInfo(info);
  const void* data = nullptr;
  if (bad == nullptr) bad = g_api->GetTensorData(value, &data);
  tensor.data = static_cast<const char*>(data);
  return bad;
}

std::string text(const Tensor& tensor) {
  std::string result = "[";
  for (const int64_t dim : tensor.dims) {
    if (result.size() > 1) result += ',';
    result += std::to_string(dim);
  }
  result += ']';
  return result;
}

struct LoopHelper : OrtLoopKernelHelper {};
struct ScanHelper : OrtScanKernelHelper {};

// Every element is a float: the registry takes no other.
size_t bytes_of(const Tensor& tensor) {
  size_t bytes = sizeof(float);
  for (const int64_t dim : tensor.dims) bytes *= static_cast<size_t>(dim);
  return bytes;
}

OrtStatus* ORT_API_CALL concat(OrtLoopKernelHelper*, void*, const OrtValue* const* parts, size_t count, void* output,
                               size_t output_bytes) {
  if (lie("throw ConcatOutput")) throw std::runtime_error("the helper's own exception");
  if (lie("fail ConcatOutput")) return g_api->CreateStatus(ORT_EP_FAIL, "the helper cannot");
  auto* to = static_cast<char*>(output);
  std::string line = "concat " + std::to_string(count) + " into " + std::to_string(output_bytes) + " bytes:";
  for (size_t i = 0; i < count; ++i) {
    Tensor part;
    if (OrtStatus* bad = describe(parts[i], part)) return bad;
    if (bytes_of(part) > 0) std::memcpy(to, part.data, bytes_of(part));
    to += bytes_of(part);
    line += ' ';
    line += text(part);
  }
  write_line(line);
  return nullptr;
}

OrtStatus* ORT_API_CALL transpose(OrtScanKernelHelper*, const size_t* permutation, size_t count, const OrtValue* input,
                                  OrtSyncStream*, OrtValue* output) {
  if (lie("throw Transpose")) throw std::runtime_error("the helper's own exception");
  if (lie("fail Transpose")) return g_api->CreateStatus(ORT_EP_FAIL, "the helper cannot");
  Tensor from, to;
  if (OrtStatus* bad = describe(input, from)) return bad;
  if (OrtStatus* bad = describe(output, to)) return bad;
  std::string line = "transpose " + text(from) + " to " + text(to) + " by";
  for (size_t i = 0; i < count; ++i) line.append(" ").append(std::to_string(permutation[i]));
  write_line(line);
  if (from.dims.size() != count || to.dims.size() != count)
    return g_api->CreateStatus(ORT_FAIL, "the permutation has another length");
  std::vector<size_t> strides(count, 1);
  for (size_t i = count; i-- > 1;) strides[i - 1] = strides[i] * static_cast<size_t>(from.dims[i]);
  void* data = nullptr;
  if (OrtStatus* bad = g_api->GetTensorMutableData(output, &data)) return bad;
  auto* out = static_cast<float*>(data);
  const auto* in = reinterpret_cast<const float*>(from.data);
  const size_t elements = bytes_of(to) / sizeof(float);
  for (size_t at = 0; at < elements; ++at) {
    size_t rest = at, source = 0;
    for (size_t i = count; i-- > 0;) {
      const auto dim = static_cast<size_t>(to.dims[i]);
      source += rest % dim * strides[permutation[i]];
      rest /= dim;
    }
    out[at] = in[source];
  }
  return nullptr;
}

OrtStatus* ORT_API_CALL create_if(void*, const OrtKernelInfo* info, OrtKernelImpl** out) {
  return g_ep_api->CreateIfKernel(lie("null info") ? nullptr : info, out);
}

OrtStatus* ORT_API_CALL create_loop(void*, const OrtKernelInfo* info, OrtKernelImpl** out) {
  if (lie("an If for a Loop")) return g_ep_api->CreateIfKernel(info, out);
  if (lie("null helper")) return g_ep_api->CreateLoopKernel(info, nullptr, out);
  if (lie("null out")) return g_ep_api->CreateLoopKernel(info, nullptr, nullptr);
  auto* helper = new LoopHelper();
  helper->ort_version_supported = lie("helper of version 0") ? 0 : ORT_API_VERSION;
  helper->OrtLoopKernelHelper::Release = [](OrtLoopKernelHelper* self) {
    write_line("release a helper of Loop");
    delete static_cast<LoopHelper*>(self);
  };
  helper->OrtLoopKernelHelper::ConcatOutput = lie("null ConcatOutput") ? nullptr : &concat;
  if (lie("null Release")) helper->OrtLoopKernelHelper::Release = nullptr;
  OrtStatus* bad = g_ep_api->CreateLoopKernel(info, helper, out);
  if (bad != nullptr) delete helper;
  return bad;
}

OrtStatus* ORT_API_CALL create_scan(void*, const OrtKernelInfo* info, OrtKernelImpl** out) {
  auto* helper = new ScanHelper();
  helper->ort_version_supported = ORT_API_VERSION;
  helper->OrtScanKernelHelper::Release = [](OrtScanKernelHelper* self) {
    write_line("release a helper of Scan");
    delete static_cast<ScanHelper*>(self);
  };
  helper->OrtScanKernelHelper::Transpose = lie("null Transpose") ? nullptr : &transpose;
  OrtStatus* bad = g_ep_api->CreateScanKernel(info, helper, out);
  if (bad != nullptr) delete helper;
  return bad;
}

// Memory of the EP's own, and the way there and back.
struct Allocator : OrtAllocator {
  OrtMemoryInfo* info = nullptr;
};

OrtMemoryInfo* memory_info() {
  OrtMemoryInfo* info = nullptr;
  OrtStatus* bad = g_api->CreateMemoryInfo_V2("FlowMemory", OrtMemoryInfoDeviceType_NPU, kVendor, 0,
                                              OrtDeviceMemoryType_DEFAULT, 64, OrtDeviceAllocator, &info);
  g_api->ReleaseStatus(bad);
  return info;
}

OrtStatus* ORT_API_CALL create_allocator(OrtEpFactory*, const OrtMemoryInfo*, const OrtKeyValuePairs*,
                                         OrtAllocator** out) {
  auto* allocator = new Allocator();
  allocator->version = ORT_API_VERSION;
  allocator->info = memory_info();
  allocator->Alloc = [](OrtAllocator*, size_t size) { return std::aligned_alloc(64, (size + 127) / 64 * 64); };
  allocator->Free = [](OrtAllocator*, void* memory) { std::free(memory); };
  allocator->Info = [](const OrtAllocator* self) -> const OrtMemoryInfo* {
    return static_cast<const Allocator*>(self)->info;
  };
  *out = allocator;
  return nullptr;
}

void ORT_API_CALL release_allocator(OrtEpFactory*, OrtAllocator* allocator) {
  auto* own = static_cast<Allocator*>(allocator);
  g_api->ReleaseMemoryInfo(own->info);
  delete own;
}

struct Transfer : OrtDataTransferImpl {};

OrtStatus* ORT_API_CALL copy_tensors(OrtDataTransferImpl*, const OrtValue** from, OrtValue** to, OrtSyncStream**,
                                     size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const bool changes =
        is_own(g_ep_api->Value_GetMemoryDevice(from[i])) != is_own(g_ep_api->Value_GetMemoryDevice(to[i]));
    const void* src = nullptr;
    void* dst = nullptr;
    size_t bytes = 0;
    OrtStatus* bad = g_api->GetTensorData(from[i], &src);
    if (bad == nullptr) bad = g_api->GetTensorMutableData(to[i], &dst);
    if (bad == nullptr) bad = g_api->GetTensorSizeInBytes(from[i], &bytes);
    if (bad != nullptr) return bad;
    for (size_t at = 0; at < bytes; ++at) {
      const char byte = static_cast<const char*>(src)[at];
      static_cast<char*>(dst)[at] = changes ? static_cast<char>(byte ^ kScramble) : byte;
    }
  }
  return nullptr;
}

OrtStatus* ORT_API_CALL create_transfer(OrtEpFactory*, OrtDataTransferImpl** out) {
  *out = nullptr;
  if (!has_memory()) return nullptr;
  auto* transfer = new Transfer();
  transfer->ort_version_supported = ORT_API_VERSION;
  transfer->OrtDataTransferImpl::Release = [](OrtDataTransferImpl* self) { delete static_cast<Transfer*>(self); };
  transfer->OrtDataTransferImpl::CanCopy = [](const OrtDataTransferImpl*, const OrtMemoryDevice* from,
                                              const OrtMemoryDevice* to) { return is_own(from) || is_own(to); };
  transfer->OrtDataTransferImpl::CopyTensors = &copy_tensors;
  *out = transfer;
  return nullptr;
}

struct Ep : OrtEp {
  OrtKernelRegistry* registry = nullptr;
};

OrtStatus* add_kernel(OrtKernelRegistry* registry, const char* op_type, OrtKernelCreateFunc create,
                      const std::vector<const char*>& types, const std::vector<size_t>& cpu_inputs) {
  OrtKernelDefBuilder* builder = nullptr;
  if (OrtStatus* bad = g_ep_api->CreateKernelDefBuilder(&builder)) return bad;
  OrtKernelDef* def = nullptr;
  OrtStatus* bad = g_ep_api->KernelDefBuilder_SetOperatorType(builder, op_type);
  if (bad == nullptr) bad = g_ep_api->KernelDefBuilder_SetDomain(builder, "");
  if (bad == nullptr) bad = g_ep_api->KernelDefBuilder_SetSinceVersion(builder, 9, 30);
  if (bad == nullptr) bad = g_ep_api->KernelDefBuilder_SetExecutionProvider(builder, "FlowEp");
  for (const size_t input : cpu_inputs) {
    if (bad == nullptr) bad = g_ep_api->KernelDefBuilder_SetInputMemType(builder, input, OrtMemTypeCPUInput);
  }
  for (const char* type : types) {
    const OrtDataType* element = nullptr;
    const ONNXTensorElementDataType wanted = std::strcmp(type, "B") == 0   ? ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL
                                             : std::strcmp(type, "I") == 0 ? ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64
                                                                           : ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
    if (bad == nullptr) bad = g_ep_api->GetTensorDataType(wanted, &element);
    if (bad == nullptr) bad = g_ep_api->KernelDefBuilder_AddTypeConstraint(builder, type, &element, 1);
  }
  if (bad == nullptr) bad = g_ep_api->KernelDefBuilder_Build(builder, &def);
  if (bad == nullptr) bad = g_ep_api->KernelRegistry_AddKernel(registry, def, create, nullptr);
  g_ep_api->ReleaseKernelDef(def);
  g_ep_api->ReleaseKernelDefBuilder(builder);
  return bad;
}

OrtStatus* make_registry(OrtKernelRegistry** registry) {
  if (OrtStatus* bad = g_ep_api->CreateKernelRegistry(registry)) return bad;
  if (OrtStatus* bad = add_kernel(*registry, "If", &create_if, {"B", "V"}, {0})) return bad;
  if (OrtStatus* bad = add_kernel(*registry, "Loop", &create_loop, {"I", "B", "V"}, {0, 1})) return bad;
  return add_kernel(*registry, "Scan", &create_scan, {"V"}, {});
}

OrtStatus* ORT_API_CALL get_registry(OrtEp* self, const OrtKernelRegistry** registry) {
  *registry = static_cast<Ep*>(self)->registry;
  return nullptr;
}

OrtStatus* ORT_API_CALL get_capability(OrtEp*, const OrtGraph* graph, OrtEpGraphSupportInfo* support) {
  size_t count = 0;
  if (OrtStatus* bad = g_api->Graph_GetNumNodes(graph, &count)) return bad;
  std::vector<const OrtNode*> nodes(count);
  if (OrtStatus* bad = g_api->Graph_GetNodes(graph, nodes.data(), count)) return bad;
  for (const OrtNode* node : nodes) {
    const OrtKernelDef* def = nullptr;
    if (OrtStatus* bad = g_ep_api->EpGraphSupportInfo_LookUpKernel(support, node, &def)) return bad;
    if (def == nullptr) continue;
    if (OrtStatus* bad = g_ep_api->EpGraphSupportInfo_AddSingleNode(support, node)) return bad;
  }
  return nullptr;
}

const char* ORT_API_CALL ep_name(const OrtEp*) { return "FlowEp"; }

// Factory.
const char* ORT_API_CALL factory_name(const OrtEpFactory*) { return "FlowEp"; }
const char* ORT_API_CALL factory_vendor(const OrtEpFactory*) { return "Tenon's tests"; }
const char* ORT_API_CALL factory_version(const OrtEpFactory*) { return "1.0.0"; }
uint32_t ORT_API_CALL factory_vendor_id(const OrtEpFactory*) { return kVendor; }

OrtStatus* ORT_API_CALL supported_devices(OrtEpFactory* self, const OrtHardwareDevice* const* devices, size_t count,
                                          OrtEpDevice** made, size_t most, size_t* made_count) {
  *made_count = 0;
  for (size_t i = 0; i < count && *made_count < most; ++i) {
    if (g_api->HardwareDevice_Type(devices[i]) != OrtHardwareDeviceType_CPU) continue;
    OrtKeyValuePairs* metadata = nullptr;
    g_api->CreateKeyValuePairs(&metadata);
    if (const char* alignment = std::getenv("TENON_FLOW_ALIGNMENT"))
      g_api->AddKeyValuePair(metadata, "tenon.binding_alignment", alignment);
    OrtStatus* const failed = g_ep_api->CreateEpDevice(self, devices[i], metadata, nullptr, &made[0]);
    g_api->ReleaseKeyValuePairs(metadata);
    if (failed != nullptr) return failed;
    if (has_memory()) {
      static OrtMemoryInfo* const info = memory_info();  // the host keeps the pointer
      if (OrtStatus* bad = g_ep_api->EpDevice_AddAllocatorInfo(made[0], info)) return bad;
    }
    *made_count = 1;
    break;
  }
  return nullptr;
}

OrtStatus* ORT_API_CALL create_ep(OrtEpFactory*, const OrtHardwareDevice* const*, const OrtKeyValuePairs* const*,
                                  size_t, const OrtSessionOptions*, const OrtLogger*, OrtEp** out) {
  auto* ep = new Ep();
  ep->ort_version_supported = ORT_API_VERSION;
  ep->OrtEp::GetName = &ep_name;
  ep->OrtEp::GetCapability = &get_capability;
  ep->OrtEp::GetKernelRegistry = &get_registry;
  *out = ep;
  return make_registry(&ep->registry);
}

void ORT_API_CALL release_ep(OrtEpFactory*, OrtEp* ep) {
  auto* own = static_cast<Ep*>(ep);
  g_ep_api->ReleaseKernelRegistry(own->registry);
  delete own;
}

bool ORT_API_CALL not_stream_aware(const OrtEpFactory*) { return false; }

}  // namespace

extern "C" {

__attribute__((visibility("default"))) OrtStatus* CreateEpFactories(const char*, const OrtApiBase* base,
                                                                    const OrtLogger*, OrtEpFactory** factories,
                                                                    size_t most, size_t* count) {
  *count = 0;
  g_api = base->GetApi(ORT_API_VERSION);
  if (g_api == nullptr || most == 0) return nullptr;
  g_ep_api = g_api->GetEpApi();
  auto* factory = new OrtEpFactory{};
  factory->ort_version_supported = ORT_API_VERSION;
  factory->GetName = &factory_name;
  factory->GetVendor = &factory_vendor;
  factory->GetVersion = &factory_version;
  factory->GetVendorId = &factory_vendor_id;
  factory->GetSupportedDevices = &supported_devices;
  factory->CreateEp = &create_ep;
  factory->ReleaseEp = &release_ep;
  factory->CreateAllocator = &create_allocator;
  factory->ReleaseAllocator = &release_allocator;
  factory->CreateDataTransfer = &create_transfer;
  factory->IsStreamAware = &not_stream_aware;
  factories[0] = factory;
  *count = 1;
  return nullptr;
}

__attribute__((visibility("default"))) OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  delete factory;
  return nullptr;
}

}  // extern "C"
