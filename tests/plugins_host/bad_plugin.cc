// An EP library that makes one mistake, which TENON_BAD_PLUGIN names. Without a mistake it is a correct EP ("BadEp")
// that compiles each Relu node as a region of its own.
//
// TENON_BAD_PLUGIN_CALLS: a file that each call of the host appends its name to.
// tenon_bad_plugin_hook: a function of the test that each call of the host runs first.
// TENON_BAD_PLUGIN_KERNELS: its Relu is a kernel of a registry, not compiled.
// TENON_BAD_PLUGIN_DEVICE: it offers a device too, with streams and an importer (bad_device.cc).
#include <tenon/onnxruntime_c_api.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "bad_plugin.h"

extern "C" {
ORT_EXPORT void (*tenon_bad_plugin_hook)(const char* what) = nullptr;
}

namespace bad {

const OrtApi* g_api = nullptr;
const OrtEpApi* g_ep_api = nullptr;
uint32_t g_version = 0;

void call_back(const char* what) {
  if (tenon_bad_plugin_hook != nullptr) tenon_bad_plugin_hook(what);
}

void called(const char* what) {
  call_back(what);
  if (const char* path = std::getenv("TENON_BAD_PLUGIN_CALLS")) {
    if (FILE* file = std::fopen(path, "a")) {
      std::fprintf(file, "%s\n", what);
      std::fclose(file);
    }
  }
  if (lie((std::string("throw ") + what).c_str())) throw std::runtime_error("a plugin's own exception");
  if (lie((std::string("throw int ") + what).c_str())) throw 42;
}

uint32_t version_of(const char* kind) {
  for (const uint32_t version : {0U, 22U, 23U, 99U})
    if (lie((std::string(kind) + " of version " + std::to_string(version)).c_str())) return version;
  return g_version;
}

}  // namespace bad

namespace {

using namespace bad;

struct Info : OrtNodeComputeInfo {};
struct Ep : OrtEp {
  OrtKernelRegistry* registry = nullptr;
};
struct Factory : OrtEpFactory {
  OrtCustomOpDomain* domain = nullptr;
};

int g_state = 0;

OrtStatus* ORT_API_CALL create_state(OrtNodeComputeInfo*, OrtNodeComputeContext* context, void** state) {
  called("CreateState");
  if (g_ep_api->NodeComputeContext_NodeName(context) == nullptr) std::abort();
  *state = &g_state;
  return outcome("CreateState");
}

template <typename F>
OrtStatus* elementwise(OrtKernelContext* context, F function) {
  const OrtValue* input = nullptr;
  if (OrtStatus* bad = g_api->KernelContext_GetInput(context, 0, &input)) return bad;
  OrtTensorTypeAndShapeInfo* info = nullptr;
  if (OrtStatus* bad = g_api->GetTensorTypeAndShape(input, &info)) return bad;
  size_t rank = 0, count = 0;
  OrtStatus* bad = g_api->GetDimensionsCount(info, &rank);
  std::vector<int64_t> dims(rank);
  if (bad == nullptr) bad = g_api->GetDimensions(info, dims.data(), rank);
  if (bad == nullptr) bad = g_api->GetTensorShapeElementCount(info, &count);
  if (!lie("leaks shapes")) g_api->ReleaseTensorTypeAndShapeInfo(info);
  if (lie("another shape")) {
    dims.push_back(1);
    ++rank;
  }
  OrtValue* output = nullptr;
  if (bad == nullptr) bad = g_api->KernelContext_GetOutput(context, 0, dims.data(), rank, &output);
  void *x = nullptr, *y = nullptr;
  if (bad == nullptr) bad = g_api->GetTensorMutableData(const_cast<OrtValue*>(input), &x);
  if (bad == nullptr) bad = g_api->GetTensorMutableData(output, &y);
  for (size_t i = 0; bad == nullptr && i < count; ++i) static_cast<float*>(y)[i] = function(static_cast<float*>(x)[i]);
  if (bad == nullptr && lie("writes past the end")) static_cast<float*>(y)[count] = 1;
  return bad;
}

OrtStatus* relu(OrtKernelContext* context) {
  if (lie("wrong values")) return elementwise(context, [](float x) { return x; });
  return elementwise(context, [](float x) { return x > 0 ? x : 0; });
}

OrtStatus* ORT_API_CALL compute(OrtNodeComputeInfo*, void* state, OrtKernelContext* context) {
  called("Compute");
  if (state != &g_state) std::abort();
  if (OrtStatus* bad = outcome("Compute")) return bad;
  if (lie("wrong values")) return elementwise(context, [](float x) { return x > 0 ? x + 1 : 0; });
  return relu(context);
}

void ORT_API_CALL release_state(OrtNodeComputeInfo*, void* state) {
  called("ReleaseState");
  if (state != &g_state) std::abort();
}

const char* ORT_API_CALL ep_name(const OrtEp*) {
  called("Ep.GetName");
  return lie("null name of ep") ? nullptr : "BadEp";
}

OrtStatus* claim(OrtEpGraphSupportInfo* support, const OrtNode* const* nodes, size_t count) {
  OrtNodeFusionOptions options = {};
  options.ort_version_supported = ORT_API_VERSION;
  return g_ep_api->EpGraphSupportInfo_AddNodesToFuse(support, nodes, count, &options);
}

OrtStatus* ORT_API_CALL get_capability(OrtEp* self, const OrtGraph* graph, OrtEpGraphSupportInfo* support) {
  called("GetCapability");
  if (OrtStatus* bad = outcome("GetCapability")) return bad;
  size_t count = 0;
  if (OrtStatus* bad = g_api->Graph_GetNumNodes(graph, &count)) return bad;
  std::vector<const OrtNode*> nodes(count);
  if (OrtStatus* bad = g_api->Graph_GetNodes(graph, nodes.data(), count)) return bad;
  std::vector<const OrtNode*> all = nodes;
  for (const OrtNode* node : nodes) {
    const char* type = nullptr;
    if (OrtStatus* bad = g_api->Node_GetOperatorType(node, &type)) return bad;
    if (std::strcmp(type, "Relu") != 0) continue;
    OrtStatus* bad = nullptr;
    if (static_cast<Ep*>(self)->registry != nullptr || lie("single node without a registry")) {
      bad = g_ep_api->EpGraphSupportInfo_AddSingleNode(support, node);
    } else if (lie("claims a node twice in a region")) {
      const OrtNode* twice[] = {node, node};
      bad = claim(support, twice, 2);
    } else {
      bad = claim(support, &node, 1);
      if (bad == nullptr && lie("claims a node in two regions")) bad = claim(support, &node, 1);
    }
    if (bad != nullptr) return bad;
  }
  // Everything but what lies between: the region would depend on itself.
  if (lie("claims a cycle") && all.size() >= 3) {
    const OrtNode* ends[] = {all.front(), all.back()};
    if (OrtStatus* bad = claim(support, ends, 2)) return bad;
  }
  if (lie("claims nothing")) return claim(support, nullptr, 0);
  return nullptr;
}

OrtStatus* ORT_API_CALL compile(OrtEp*, const OrtGraph**, const OrtNode**, size_t count, OrtNodeComputeInfo** infos,
                                OrtNode** context_nodes) {
  called("Compile");
  if (OrtStatus* bad = outcome("Compile")) return bad;
  if (context_nodes == nullptr) std::abort();
  for (size_t i = 0; i < count; ++i) {
    if (lie("null compute info")) continue;
    if (lie("bad compute info")) {
      infos[i] = reinterpret_cast<OrtNodeComputeInfo*>(uintptr_t{16});
      continue;
    }
    auto* info = new Info();
    info->ort_version_supported = lie("compute info of version 0") ? 0 : ORT_API_VERSION;
    info->CreateState = member("CreateState", &create_state);
    info->Compute = member("Compute", &compute);
    info->ReleaseState = member("ReleaseState", &release_state);
    infos[i] = info;
  }
  return nullptr;
}

void ORT_API_CALL release_infos(OrtEp*, OrtNodeComputeInfo** infos, size_t count) {
  called("ReleaseNodeComputeInfos");
  if (lie("bad compute info")) return;
  for (size_t i = 0; i < count; ++i) delete static_cast<Info*>(infos[i]);
}

OrtStatus* ORT_API_CALL run_start(OrtEp*, const OrtRunOptions* options) {
  called("OnRunStart");
  if (options == nullptr) std::abort();
  return outcome("OnRunStart");
}

OrtStatus* ORT_API_CALL run_end(OrtEp*, const OrtRunOptions*, bool) {
  called("OnRunEnd");
  return outcome("OnRunEnd");
}

OrtStatus* ORT_API_CALL concurrent(OrtEp*, bool* supported) {
  called("IsConcurrentRunSupported");
  *supported = true;
  return outcome("IsConcurrentRunSupported");
}

struct Profiler : OrtEpProfilerImpl {};

OrtStatus* ORT_API_CALL create_profiler(OrtEp*, OrtEpProfilerImpl** out) {
  called("CreateProfiler");
  if (lie("null profiler")) return nullptr;
  if (lie("bad profiler")) {
    *out = reinterpret_cast<OrtEpProfilerImpl*>(uintptr_t{16});
    return nullptr;
  }
  if (OrtStatus* bad = outcome("CreateProfiler")) return bad;
  auto* profiler = new Profiler();
  profiler->ort_version_supported = lie("profiler of version 0") ? 0 : ORT_API_VERSION;
  profiler->OrtEpProfilerImpl::Release = member(
      "Profiler.Release", +[](OrtEpProfilerImpl* self) {
        called("Profiler.Release");
        delete static_cast<Profiler*>(self);
      });
  profiler->OrtEpProfilerImpl::StartProfiling = member(
      "StartProfiling", +[](OrtEpProfilerImpl*, int64_t) {
        called("StartProfiling");
        return outcome("StartProfiling");
      });
  profiler->OrtEpProfilerImpl::StartEvent = member(
      "StartEvent", +[](OrtEpProfilerImpl*, uint64_t) {
        called("StartEvent");
        return outcome("StartEvent");
      });
  profiler->OrtEpProfilerImpl::StopEvent = member(
      "StopEvent", +[](OrtEpProfilerImpl*, uint64_t, const OrtProfilingEvent*) {
        called("StopEvent");
        return outcome("StopEvent");
      });
  profiler->OrtEpProfilerImpl::EndProfiling = member(
      "EndProfiling", +[](OrtEpProfilerImpl*, OrtProfilingEventsContainer*) {
        called("EndProfiling");
        return outcome("EndProfiling");
      });
  *out = profiler;
  return nullptr;
}

bool with_graphs() {
  const char* chosen = std::getenv("TENON_BAD_PLUGIN");
  return chosen != nullptr && (std::strstr(chosen, "Graph") != nullptr || std::strstr(chosen, "graphs") != nullptr);
}

void add_graphs(OrtEp& ep) {
  ep.IsGraphCaptureEnabled = member(
      "IsGraphCaptureEnabled", +[](const OrtEp*) {
        called("IsGraphCaptureEnabled");
        return true;
      });
  ep.IsGraphCaptured = member(
      "IsGraphCaptured", +[](const OrtEp*, int) {
        called("IsGraphCaptured");
        return lie("claims graphs that it never captured");
      });
  ep.ReplayGraph = member(
      "ReplayGraph", +[](OrtEp*, int) {
        called("ReplayGraph");
        return outcome("ReplayGraph");
      });
}

OrtStatus* ORT_API_CALL set_dynamic_options(OrtEp*, const char* const*, const char* const*, size_t) {
  called("SetDynamicOptions");
  return outcome("SetDynamicOptions");
}

OrtStatus* ORT_API_CALL context_support(const OrtEp*, uint32_t* flags) {
  called("GetEpContextDataCallbackSupport");
  *flags = lie("unknown context flags") ? 4 : 3;
  return outcome("GetEpContextDataCallbackSupport");
}

OrtStatus* ORT_API_CALL initialized(OrtEp*) {
  called("OnSessionInitializationEnd");
  return outcome("OnSessionInitializationEnd");
}

// A kernel of the registry.
struct Kernel : OrtKernelImpl {};

OrtStatus* ORT_API_CALL create_kernel(void*, const OrtKernelInfo*, OrtKernelImpl** out) {
  called("CreateKernel");
  if (OrtStatus* bad = outcome("CreateKernel")) return bad;
  if (lie("null kernel")) return nullptr;
  auto* kernel = new Kernel();
  kernel->ort_version_supported = ORT_API_VERSION;
  kernel->OrtKernelImpl::Compute = member(
      "Kernel.Compute", +[](OrtKernelImpl*, OrtKernelContext* context) -> OrtStatus* {
        called("Kernel.Compute");
        return relu(context);
      });
  kernel->OrtKernelImpl::Release = +[](OrtKernelImpl* self) {
    called("Kernel.Release");
    delete static_cast<Kernel*>(self);
  };
  *out = kernel;
  return nullptr;
}

bool with_kernels() {
  const char* chosen = std::getenv("TENON_BAD_PLUGIN");
  return lie("kernels") || std::getenv("TENON_BAD_PLUGIN_KERNELS") != nullptr || lie("null kernel") ||
         lie("null Kernel.Compute") || lie("fail CreateKernel") || lie("null create function") ||
         (chosen != nullptr && std::strstr(chosen, "Kernel.Compute") != nullptr);
}

OrtStatus* make_registry(OrtKernelRegistry** registry) {
  if (OrtStatus* bad = g_ep_api->CreateKernelRegistry(registry)) return bad;
  OrtKernelDefBuilder* builder = nullptr;
  if (OrtStatus* bad = g_ep_api->CreateKernelDefBuilder(&builder)) return bad;
  OrtKernelDef* def = nullptr;
  const OrtDataType* type = nullptr;
  OrtStatus* bad = g_ep_api->KernelDefBuilder_SetOperatorType(builder, "Relu");
  if (bad == nullptr) bad = g_ep_api->KernelDefBuilder_SetDomain(builder, "");
  if (bad == nullptr) bad = g_ep_api->KernelDefBuilder_SetSinceVersion(builder, 6, 100);
  if (bad == nullptr) bad = g_ep_api->KernelDefBuilder_SetExecutionProvider(builder, "BadEp");
  if (bad == nullptr) bad = g_ep_api->GetTensorDataType(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &type);
  if (bad == nullptr) bad = g_ep_api->KernelDefBuilder_AddTypeConstraint(builder, "T", &type, 1);
  if (bad == nullptr) bad = g_ep_api->KernelDefBuilder_Build(builder, &def);
  if (bad == nullptr)
    bad = g_ep_api->KernelRegistry_AddKernel(*registry, def, lie("null create function") ? nullptr : &create_kernel,
                                             nullptr);
  g_ep_api->ReleaseKernelDef(def);
  g_ep_api->ReleaseKernelDefBuilder(builder);
  return bad;
}

OrtStatus* ORT_API_CALL get_registry(OrtEp* self, const OrtKernelRegistry** registry) {
  called("GetKernelRegistry");
  *registry = static_cast<Ep*>(self)->registry;
  return nullptr;
}

// An operator that no model of the tests has.
OrtCustomOp make_op() {
  OrtCustomOp op{};
  op.version = ORT_API_VERSION;
  op.GetName = [](const OrtCustomOp*) -> const char* {
    if (lie("throw GetName of an operator")) throw std::runtime_error("a plugin's own exception");
    return lie("null name of an operator") ? nullptr : "Nothing";
  };
  op.GetInputTypeCount = op.GetOutputTypeCount = [](const OrtCustomOp*) -> size_t { return 1; };
  op.GetInputType = op.GetOutputType = [](const OrtCustomOp*, size_t) { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; };
  op.CreateKernel = [](const OrtCustomOp*, const OrtApi*, const OrtKernelInfo*) -> void* { return nullptr; };
  op.KernelCompute = [](void*, OrtKernelContext*) {};
  op.KernelDestroy = [](void*) {};
  if (lie("operator without KernelDestroy")) op.KernelDestroy = nullptr;
  return op;
}

OrtStatus* make_domain(Factory& factory) {
  static OrtCustomOp op;
  op = make_op();
  if (OrtStatus* bad = g_api->CreateCustomOpDomain("bad.test", &factory.domain)) return bad;
  if (lie("null operator")) return g_api->CustomOpDomain_Add(factory.domain, nullptr);
  if (OrtStatus* bad = g_api->CustomOpDomain_Add(factory.domain, &op)) return bad;
  return lie("an operator twice") ? g_api->CustomOpDomain_Add(factory.domain, &op) : nullptr;
}

OrtStatus* ORT_API_CALL count_domains(OrtEpFactory*, size_t* count) {
  called("GetNumCustomOpDomains");
  *count = lie("too many domains") ? size_t{1} << 40 : 1;
  return outcome("GetNumCustomOpDomains");
}

OrtStatus* ORT_API_CALL get_domains(OrtEpFactory* self, OrtCustomOpDomain** domains, size_t) {
  called("GetCustomOpDomains");
  auto* factory = static_cast<Factory*>(self);
  domains[0] = factory->domain;
  if (lie("null domain")) domains[0] = nullptr;
  if (lie("domain of nobody")) domains[0] = reinterpret_cast<OrtCustomOpDomain*>(&g_state);
  if (lie("released domain")) {
    g_api->ReleaseCustomOpDomain(factory->domain);
    factory->domain = nullptr;
  }
  return outcome("GetCustomOpDomains");
}

// Factory.
const char* ORT_API_CALL factory_name(const OrtEpFactory*) {
  called("GetName");
  return lie("null name") ? nullptr : lie("empty name") ? "" : "BadEp";
}
const char* ORT_API_CALL factory_vendor(const OrtEpFactory*) {
  called("GetVendor");
  return lie("bad vendor") ? reinterpret_cast<const char*>(uintptr_t{1}) : "Tenon's tests";
}
const char* ORT_API_CALL factory_version(const OrtEpFactory*) {
  called("GetVersion");
  return "1.2.3";
}

OrtStatus* ORT_API_CALL supported_devices(OrtEpFactory* self, const OrtHardwareDevice* const* devices, size_t count,
                                          OrtEpDevice** made, size_t most, size_t* made_count) {
  called("GetSupportedDevices");
  if (OrtStatus* bad = outcome("GetSupportedDevices")) return bad;
  *made_count = 0;
  for (size_t i = 0; i < count && *made_count < most; ++i) {
    if (g_api->HardwareDevice_Type(devices[i]) != OrtHardwareDeviceType_CPU) continue;
    OrtKeyValuePairs *metadata = nullptr, *options = nullptr;
    g_api->CreateKeyValuePairs(&metadata);
    g_api->CreateKeyValuePairs(&options);
    g_api->AddKeyValuePair(metadata, "color", "grey");
    g_api->AddKeyValuePair(options, "speed", "slow");
    OrtStatus* bad = g_ep_api->CreateEpDevice(self, devices[i], metadata, options, &made[*made_count]);
    g_api->ReleaseKeyValuePairs(metadata);
    g_api->ReleaseKeyValuePairs(options);
    if (bad != nullptr) return bad;
    ++*made_count;
    break;
  }
  if (has_device() && *made_count < most) {
    if (OrtStatus* bad = make_device(self, &made[*made_count])) return bad;
    ++*made_count;
  }
  if (lie("null device")) {
    g_ep_api->ReleaseEpDevice(made[0]);
    made[0] = nullptr;
  }
  if (lie("a device twice")) made[(*made_count)++] = made[0];
  if (lie("a device of nobody")) made[(*made_count)++] = reinterpret_cast<OrtEpDevice*>(&g_state);
  if (lie("too many devices")) *made_count = most + 5;
  return nullptr;
}

OrtStatus* ORT_API_CALL create_ep(OrtEpFactory*, const OrtHardwareDevice* const*, const OrtKeyValuePairs* const*,
                                  size_t count, const OrtSessionOptions* options, const OrtLogger* logger,
                                  OrtEp** out) {
  called("CreateEp");
  if (OrtStatus* bad = outcome("CreateEp")) return bad;
  if (count == 0 || options == nullptr || logger == nullptr) std::abort();
  if (lie("null ep")) return nullptr;
  if (lie("bad ep")) {
    *out = reinterpret_cast<OrtEp*>(uintptr_t{0x10});
    return nullptr;
  }
  auto* ep = new Ep();
  // A struct of version 22 ends after GetName; what lies behind it is not the host's business.
  ep->ort_version_supported = lie("ep of version 22") ? 22 : lie("ep of version 0") ? 0 : ORT_API_VERSION;
  if (lie("ep of version 99")) ep->ort_version_supported = 99;
  ep->OrtEp::GetName = member("Ep.GetName", &ep_name);
  ep->OrtEp::GetCapability = member("GetCapability", &get_capability);
  ep->OrtEp::Compile = member("Compile", &compile);
  ep->OrtEp::ReleaseNodeComputeInfos = member("ReleaseNodeComputeInfos", &release_infos);
  ep->OrtEp::OnRunStart = member("OnRunStart", &run_start);
  ep->OrtEp::OnRunEnd = member("OnRunEnd", &run_end);
  ep->OrtEp::IsConcurrentRunSupported = member("IsConcurrentRunSupported", &concurrent);
  if (with_graphs()) add_graphs(*ep);
  ep->OrtEp::CreateProfiler = member("CreateProfiler", &create_profiler);
  ep->OrtEp::SetDynamicOptions = member("SetDynamicOptions", &set_dynamic_options);
  ep->OrtEp::GetEpContextDataCallbackSupport = member("GetEpContextDataCallbackSupport", &context_support);
  ep->OrtEp::OnSessionInitializationEnd = member("OnSessionInitializationEnd", &initialized);
  if (with_kernels()) {
    if (OrtStatus* bad = make_registry(&ep->registry)) return bad;
    ep->OrtEp::GetKernelRegistry = &get_registry;
  }
  if (lie("garbage behind version 24")) {
    // Only a host that reads past what the version has meets these.
    ep->ort_version_supported = 24;
    std::memset(&ep->Sync, 0x5A, sizeof(OrtEp) - offsetof(OrtEp, Sync));
  }
  *out = ep;
  return nullptr;
}

void ORT_API_CALL release_ep(OrtEpFactory*, OrtEp* ep) {
  called("ReleaseEp");
  auto* own = static_cast<Ep*>(ep);
  if (own->registry != nullptr) g_ep_api->ReleaseKernelRegistry(own->registry);
  delete own;
}

struct Transfer : OrtDataTransferImpl {};
Transfer g_transfer;

OrtStatus* ORT_API_CALL create_transfer(OrtEpFactory*, OrtDataTransferImpl** out) {
  called("CreateDataTransfer");
  *out = nullptr;
  if (lie("transfer without CopyTensors")) {
    g_transfer.ort_version_supported = ORT_API_VERSION;
    g_transfer.OrtDataTransferImpl::CanCopy =
        +[](const OrtDataTransferImpl*, const OrtMemoryDevice*, const OrtMemoryDevice*) { return true; };
    *out = &g_transfer;
  }
  return outcome("CreateDataTransfer");
}

}  // namespace

extern "C" {

ORT_EXPORT OrtStatus* CreateEpFactories(const char* name, const OrtApiBase* base, const OrtLogger* logger,
                                        OrtEpFactory** factories, size_t most, size_t* count) {
  // The rival of other tests is loaded by older hosts too.
  g_version = ORT_API_VERSION;
  while ((g_api = base->GetApi(g_version)) == nullptr) --g_version;
  g_ep_api = g_api->GetEpApi();
  called("CreateEpFactories");
  if (OrtStatus* bad = outcome("CreateEpFactories")) return bad;
  if (name == nullptr || logger == nullptr || most == 0) std::abort();
  *count = 1;
  if (lie("null factory")) return nullptr;
  if (lie("no factory")) {
    *count = 0;
    return nullptr;
  }
  if (lie("too many factories")) {
    *count = 9;
    return nullptr;
  }
  auto* factory = new Factory();
  factory->ort_version_supported = version_of("factory");
  factory->OrtEpFactory::GetName = member("GetName", &factory_name);
  factory->OrtEpFactory::GetVendor = member("GetVendor", &factory_vendor);
  factory->OrtEpFactory::GetVersion = member("GetVersion", &factory_version);
  factory->OrtEpFactory::GetSupportedDevices = member("GetSupportedDevices", &supported_devices);
  factory->OrtEpFactory::CreateEp = member("CreateEp", &create_ep);
  factory->OrtEpFactory::ReleaseEp = member("ReleaseEp", &release_ep);
  // ONNX Runtime calls this one without a look.
  factory->OrtEpFactory::IsStreamAware = +[](const OrtEpFactory*) { return false; };
  factory->OrtEpFactory::CreateDataTransfer = member("CreateDataTransfer", &create_transfer);
  factory->OrtEpFactory::GetNumCustomOpDomains = member("GetNumCustomOpDomains", &count_domains);
  factory->OrtEpFactory::GetCustomOpDomains = member("GetCustomOpDomains", &get_domains);
  if (has_device()) set_device_members(*factory);
  if (OrtStatus* bad = make_domain(*factory)) {
    g_api->ReleaseCustomOpDomain(factory->domain);
    delete factory;
    return bad;
  }
  factories[0] = factory;
  return nullptr;
}

ORT_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  called("ReleaseEpFactory");
  auto* own = static_cast<Factory*>(factory);
  g_api->ReleaseCustomOpDomain(own->domain);
  delete own;
  release_device();
  return nullptr;
}
}
