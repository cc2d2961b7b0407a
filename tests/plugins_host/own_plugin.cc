// "OwnEp": an EP on the host's memory that uses features which few EPs use yet: operators of its own, a profiler,
// dynamic options, run options, EPContext data that the program hands over. It computes float tensors, one region a
// node. With ep.context_enable = 1 its regions become EPContext nodes, whose data is the operator's name.
//
// Options (ep.ownep.KEY): "claim", the operators that it takes, with ',' between them (all of them without it);
// "profiler" = 0, no profiler; "capture" = 1, a run that follows another of its graph number is captured, and what it
// computed is computed again at the same addresses in its replays, which ReleaseEp counts on the standard output.
// Dynamic option "own.factor": what it computes is multiplied. Run option "own.shift": is added. Runs in ONNX
// Runtime 1.32.0 as it does in Tenon: eps_test.py compares.
//
// Environment: OWN_FAIL, the code with which CreateEp fails; OWN_METADATA, "KEY=VALUE" of its device; OWN_WEIGHTLESS,
// what GetWeightlessSupport gives ("fail": a failure with code 3; without the variable the member is null);
// OWN_CONTEXT, any text: CreateEp prints the entries of an EPContext model, and Compile writes the data of its nodes
// through the program's function, where there is one and "ep.context_embed_mode" is not 1;
// OWN_CAPACITY, the version that the factory declares, whose GetDeviceMemoryCapacity then gives 1000 and 2000 more than
// the memory type, and fails with code 8 for type 7.
#include <tenon/onnxruntime_c_api.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

const OrtApi* g_api = nullptr;
const OrtEpApi* g_ep_api = nullptr;
constexpr char kEp[] = "OwnEp";
constexpr char kDomain[] = "tenon.test";

#define TRY(expr)                              \
  do {                                         \
    if (OrtStatus* bad_ = (expr)) return bad_; \
  } while (false)

OrtStatus* fail(const char* message) { return g_api->CreateStatus(ORT_EP_FAIL, message); }

template <typename T>
struct FloatTensor {
  T* data = nullptr;
  size_t count = 0;
  std::vector<int64_t> dims;
};

OrtStatus* read_input(OrtKernelContext* context, size_t index, FloatTensor<const float>& out) {
  const OrtValue* value = nullptr;
  TRY(g_api->KernelContext_GetInput(context, index, &value));
  OrtTensorTypeAndShapeInfo* info = nullptr;
  TRY(g_api->GetTensorTypeAndShape(value, &info));
  size_t rank = 0;
  OrtStatus* bad = g_api->GetDimensionsCount(info, &rank);
  out.dims.resize(rank);
  if (bad == nullptr) bad = g_api->GetDimensions(info, out.dims.data(), rank);
  if (bad == nullptr) bad = g_api->GetTensorShapeElementCount(info, &out.count);
  g_api->ReleaseTensorTypeAndShapeInfo(info);
  if (bad != nullptr) return bad;
  void* data = nullptr;
  TRY(g_api->GetTensorMutableData(const_cast<OrtValue*>(value), &data));
  out.data = static_cast<const float*>(data);
  return nullptr;
}

template <typename T>
OrtStatus* make_output(OrtKernelContext* context, const std::vector<int64_t>& dims, T*& out) {
  OrtValue* value = nullptr;
  TRY(g_api->KernelContext_GetOutput(context, 0, dims.data(), dims.size(), &value));
  void* data = nullptr;
  TRY(g_api->GetTensorMutableData(value, &data));
  out = static_cast<T*>(data);
  return nullptr;
}

// The operators of the domain. Twice: 2 x + plus. Total: the sum, as one element, of floats or of int64.
struct TwiceKernel {
  float plus = 0;
};

OrtStatus* run_twice(void* kernel, OrtKernelContext* context) {
  FloatTensor<const float> x;
  TRY(read_input(context, 0, x));
  float* y = nullptr;
  TRY(make_output(context, x.dims, y));
  for (size_t i = 0; i < x.count; ++i) y[i] = 2 * x.data[i] + static_cast<TwiceKernel*>(kernel)->plus;
  return nullptr;
}

OrtCustomOp make_op(const char* (*name)(const OrtCustomOp*),
                    ONNXTensorElementDataType (*type)(const OrtCustomOp*, size_t)) {
  OrtCustomOp op{};
  op.version = ORT_API_VERSION;
  op.GetName = name;
  op.GetExecutionProviderType = [](const OrtCustomOp*) -> const char* { return nullptr; };
  op.GetInputType = op.GetOutputType = type;
  op.GetInputTypeCount = op.GetOutputTypeCount = [](const OrtCustomOp*) -> size_t { return 1; };
  op.GetInputCharacteristic =
      op.GetOutputCharacteristic = [](const OrtCustomOp*, size_t) { return INPUT_OUTPUT_REQUIRED; };
  op.GetInputMemoryType = [](const OrtCustomOp*, size_t) { return OrtMemTypeDefault; };
  op.GetVariadicInputMinArity = op.GetVariadicOutputMinArity = [](const OrtCustomOp*) { return 0; };
  op.GetVariadicInputHomogeneity = op.GetVariadicOutputHomogeneity = [](const OrtCustomOp*) { return 0; };
  op.GetStartVersion = [](const OrtCustomOp*) { return 1; };
  op.GetEndVersion = [](const OrtCustomOp*) { return 1000; };
  return op;
}

ONNXTensorElementDataType float_type(const OrtCustomOp*, size_t) { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
ONNXTensorElementDataType int64_type(const OrtCustomOp*, size_t) { return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64; }

OrtCustomOp twice_op() {
  OrtCustomOp op = make_op([](const OrtCustomOp*) { return "Twice"; }, float_type);
  op.CreateKernelV2 = [](const OrtCustomOp*, const OrtApi* api, const OrtKernelInfo* info,
                         void** kernel) -> OrtStatusPtr {
    auto made = std::make_unique<TwiceKernel>();
    TRY(api->KernelInfoGetAttribute_float(info, "plus", &made->plus));
    *kernel = made.release();
    return nullptr;
  };
  op.KernelComputeV2 = run_twice;
  op.KernelDestroy = [](void* kernel) { delete static_cast<TwiceKernel*>(kernel); };
  op.InferOutputShapeFn = [](const OrtCustomOp*, OrtShapeInferContext* context) -> OrtStatusPtr {
    OrtTensorTypeAndShapeInfo* info = nullptr;
    TRY(g_api->ShapeInferContext_GetInputTypeShape(context, 0, &info));
    return g_api->ShapeInferContext_SetOutputTypeShape(context, 0, info);
  };
  return op;
}

template <typename T>
OrtStatus* run_total(void*, OrtKernelContext* context) {
  FloatTensor<const float> x;
  TRY(read_input(context, 0, x));
  T* y = nullptr;
  TRY(make_output(context, {1}, y));
  *y = 0;
  for (size_t i = 0; i < x.count; ++i) *y += reinterpret_cast<const T*>(x.data)[i];
  return nullptr;
}

OrtCustomOp total_op(ONNXTensorElementDataType (*type)(const OrtCustomOp*, size_t),
                     OrtStatus* (*run)(void*, OrtKernelContext*)) {
  OrtCustomOp op = make_op([](const OrtCustomOp*) { return "Total"; }, type);
  op.CreateKernelV2 = [](const OrtCustomOp*, const OrtApi*, const OrtKernelInfo*, void** kernel) -> OrtStatusPtr {
    *kernel = new int(0);
    return nullptr;
  };
  op.KernelComputeV2 = run;
  op.KernelDestroy = [](void* kernel) { delete static_cast<int*>(kernel); };
  return op;
}

const OrtCustomOp g_ops[] = {twice_op(), total_op(float_type, &run_total<float>),
                             total_op(int64_type, &run_total<int64_t>)};

struct Event {
  std::string name;
  std::chrono::steady_clock::time_point begin, end;
  uint64_t correlation_id = 0;
};

struct Profiler : OrtEpProfilerImpl {
  std::mutex mutex;
  std::chrono::steady_clock::time_point started;
  int64_t offset_ns = 0;
  std::vector<Event> events;
  std::map<uint64_t, std::chrono::steady_clock::time_point> open;
};

struct Ep : OrtEp {
  std::vector<std::string> claim;
  bool claims_all = true;
  bool profiles = true;
  bool writes_context = false;
  std::atomic<float> factor = 1, shift = 0;
  bool captures = false;
  std::map<int, int> runs;                                   // by graph number
  std::map<int, std::vector<std::function<void()>>> graphs;  // captured
  std::vector<std::function<void()>> recording;
  int recorded = -1;  // the graph that the run under way makes
  int replays = 0;
  OrtReadNamedBufferFunc read = nullptr;
  void* read_state = nullptr;
  OrtWriteNamedBufferFunc write = nullptr;
  void* write_state = nullptr;
  bool embeds = true;
};

struct Info : OrtNodeComputeInfo {
  Ep* ep = nullptr;
  std::string op_type;
  float plus = 0;
};

struct Factory : OrtEpFactory {
  OrtCustomOpDomain* domain = nullptr;
};

float apply(const Info& info, float x) {
  if (info.op_type == "Relu") return x > 0 ? x : 0;
  if (info.op_type == "Neg") return -x;
  return 2 * x + info.plus;
}

OrtStatus* ORT_API_CALL compute(OrtNodeComputeInfo* self, void*, OrtKernelContext* context) {
  const auto& info = *static_cast<Info*>(self);
  FloatTensor<const float> x;
  TRY(read_input(context, 0, x));
  float* y = nullptr;
  TRY(make_output(context, x.dims, y));
  const auto work = [&info, y, from = x.data, count = x.count] {
    for (size_t i = 0; i < count; ++i) y[i] = apply(info, from[i]) * info.ep->factor + info.ep->shift;
  };
  work();
  if (info.ep->recorded >= 0) info.ep->recording.push_back(work);
  return nullptr;
}

OrtStatus* text_attribute(const OrtNode* node, const char* name, std::string& out) {
  const OrtOpAttr* attribute = nullptr;
  TRY(g_api->Node_GetAttributeByName(node, name, &attribute));
  out.assign(4096, '\0');
  size_t size = 0;
  TRY(g_api->ReadOpAttr(attribute, ORT_OP_ATTR_STRING, out.data(), out.size(), &size));
  out.resize(size);
  return nullptr;
}

OrtStatus* is_own_context(const OrtNode* node, bool& own) {
  own = false;
  const char *type = nullptr, *domain = nullptr;
  TRY(g_api->Node_GetOperatorType(node, &type));
  TRY(g_api->Node_GetDomain(node, &domain));
  if (std::strcmp(type, "EPContext") != 0 || std::strcmp(domain, "com.microsoft") != 0) return nullptr;
  std::string source;
  TRY(text_attribute(node, "source", source));
  own = source == kEp;
  return nullptr;
}

OrtStatus* wants(const Ep& ep, const OrtNode* node, bool& wanted) {
  TRY(is_own_context(node, wanted));
  if (wanted) return nullptr;
  const char *type = nullptr, *domain = nullptr;
  TRY(g_api->Node_GetOperatorType(node, &type));
  TRY(g_api->Node_GetDomain(node, &domain));
  const bool own = std::strcmp(domain, kDomain) == 0 && std::strcmp(type, "Twice") == 0;
  const bool plain = *domain == '\0' && (std::strcmp(type, "Relu") == 0 || std::strcmp(type, "Neg") == 0);
  wanted = own || plain;
  if (ep.claims_all || !wanted) return nullptr;
  wanted = false;
  for (const std::string& one : ep.claim) wanted = wanted || one == type;
  return nullptr;
}

OrtStatus* ORT_API_CALL get_capability(OrtEp* self, const OrtGraph* graph, OrtEpGraphSupportInfo* support) {
  size_t count = 0;
  TRY(g_api->Graph_GetNumNodes(graph, &count));
  std::vector<const OrtNode*> nodes(count);
  TRY(g_api->Graph_GetNodes(graph, nodes.data(), count));
  for (const OrtNode* node : nodes) {
    bool wanted = false;
    TRY(wants(*static_cast<Ep*>(self), node, wanted));
    OrtNodeFusionOptions options = {};
    options.ort_version_supported = ORT_API_VERSION;
    if (wanted) TRY(g_ep_api->EpGraphSupportInfo_AddNodesToFuse(support, &node, 1, &options));
  }
  return nullptr;
}

// The compiled program is the operator's name, read through the program's own function.
OrtStatus* read_context(const Ep& ep, const OrtNode* node, Info& info) {
  std::string file;
  TRY(text_attribute(node, "ep_cache_context", file));
  int64_t embedded = 0;
  const OrtOpAttr* mode = nullptr;
  size_t mode_size = 0;
  TRY(g_api->Node_GetAttributeByName(node, "embed_mode", &mode));
  TRY(g_api->ReadOpAttr(mode, ORT_OP_ATTR_INT, &embedded, sizeof embedded, &mode_size));
  if (embedded == 1) {
    info.op_type = file;
    return nullptr;
  }
  if (ep.read == nullptr) return fail("OwnEp reads EPContext data through the program's function alone");
  OrtAllocator* allocator = nullptr;
  TRY(g_api->GetAllocatorWithDefaultOptions(&allocator));
  void* data = nullptr;
  size_t size = 0;
  TRY(ep.read(ep.read_state, file.c_str(), allocator, &data, &size));
  info.op_type.assign(static_cast<char*>(data), size);
  allocator->Free(allocator, data);
  return info.op_type == "Relu" || info.op_type == "Neg" ? nullptr : fail("the EPContext data is no program of OwnEp");
}

OrtStatus* compile_one(Ep& ep, const OrtGraph* graph, std::unique_ptr<Info>& out) {
  const OrtNode* node = nullptr;
  TRY(g_api->Graph_GetNodes(graph, &node, 1));
  auto info = std::make_unique<Info>();
  info->ort_version_supported = ORT_API_VERSION;
  info->ep = &ep;
  const char* type = nullptr;
  TRY(g_api->Node_GetOperatorType(node, &type));
  info->op_type = type;
  bool context = false;
  TRY(is_own_context(node, context));
  if (context) TRY(read_context(ep, node, *info));
  if (info->op_type == "Twice") {
    const OrtOpAttr* plus = nullptr;
    TRY(g_api->Node_GetAttributeByName(node, "plus", &plus));
    size_t size = 0;
    TRY(g_api->ReadOpAttr(plus, ORT_OP_ATTR_FLOAT, &info->plus, sizeof info->plus, &size));
  }
  info->CreateState = [](OrtNodeComputeInfo*, OrtNodeComputeContext*, void** state) -> OrtStatus* {
    *state = nullptr;
    return nullptr;
  };
  info->Compute = compute;
  info->ReleaseState = [](OrtNodeComputeInfo*, void*) {};
  out = std::move(info);
  return nullptr;
}

OrtStatus* value_name(const OrtNode* node, bool input, const char*& name) {
  const OrtValueInfo* value = nullptr;
  if (input) {
    TRY(g_api->Node_GetInputs(node, &value, 1));
  } else {
    TRY(g_api->Node_GetOutputs(node, &value, 1));
  }
  return g_api->GetValueInfoName(value, &name);
}

// The data is the operator's name, or under its name in lower case what the program's function has kept.
OrtStatus* make_context(const Ep& ep, const OrtNode* fused, const std::string& op_type, OrtNode** out) {
  const int64_t one = 1, embedded = ep.embeds ? 1 : 0;
  std::string data = op_type;
  if (!ep.embeds) {
    data = op_type + ".bin";
    TRY(ep.write(ep.write_state, data.c_str(), op_type.data(), op_type.size()));
  }
  OrtOpAttr* attributes[4] = {};
  TRY(g_api->CreateOpAttr("main_context", &one, 1, ORT_OP_ATTR_INT, &attributes[0]));
  TRY(g_api->CreateOpAttr("embed_mode", &embedded, 1, ORT_OP_ATTR_INT, &attributes[1]));
  TRY(g_api->CreateOpAttr("ep_cache_context", data.data(), static_cast<int>(data.size()), ORT_OP_ATTR_STRING,
                          &attributes[2]));
  TRY(g_api->CreateOpAttr("source", kEp, static_cast<int>(std::strlen(kEp)), ORT_OP_ATTR_STRING, &attributes[3]));
  const char *name = nullptr, *input = nullptr, *output = nullptr;
  TRY(g_api->Node_GetName(fused, &name));
  TRY(value_name(fused, true, input));
  TRY(value_name(fused, false, output));
  return g_api->GetModelEditorApi()->CreateNode("EPContext", "com.microsoft", name, &input, 1, &output, 1, attributes,
                                                4, out);
}

OrtStatus* ORT_API_CALL compile(OrtEp* self, const OrtGraph** graphs, const OrtNode** fused, size_t count,
                                OrtNodeComputeInfo** infos, OrtNode** context_nodes) {
  for (size_t i = 0; i < count; ++i) {
    std::unique_ptr<Info> info;
    TRY(compile_one(*static_cast<Ep*>(self), graphs[i], info));
    if (static_cast<Ep*>(self)->writes_context)
      TRY(make_context(static_cast<Ep&>(*self), fused[i], info->op_type, &context_nodes[i]));
    infos[i] = info.release();
  }
  return nullptr;
}

void ORT_API_CALL release_infos(OrtEp*, OrtNodeComputeInfo** infos, size_t count) {
  for (size_t i = 0; i < count; ++i) delete static_cast<Info*>(infos[i]);
}

OrtStatus* ORT_API_CALL set_dynamic_options(OrtEp* self, const char* const* keys, const char* const* values,
                                            size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (std::strcmp(keys[i], "own.factor") != 0) return fail("OwnEp has no such dynamic option");
    static_cast<Ep*>(self)->factor = std::strtof(values[i], nullptr);
  }
  return nullptr;
}

OrtStatus* ORT_API_CALL run_start(OrtEp* self, const OrtRunOptions* options) {
  const char* shift = g_api->GetRunConfigEntry(options, "own.shift");
  auto& ep = *static_cast<Ep*>(self);
  ep.shift = shift != nullptr ? std::strtof(shift, nullptr) : 0;
  const char* text = g_api->GetRunConfigEntry(options, "gpu_graph_id");
  const int graph = text != nullptr ? std::atoi(text) : 0;
  const bool captures = ep.captures && graph >= 0 && !ep.graphs.contains(graph) && ep.runs[graph]++ > 0;
  ep.recorded = captures ? graph : -1;
  return nullptr;
}

OrtStatus* ORT_API_CALL run_end(OrtEp* self, const OrtRunOptions*, bool) {
  auto& ep = *static_cast<Ep*>(self);
  ep.shift = 0;
  if (ep.recorded >= 0) ep.graphs[ep.recorded] = std::move(ep.recording);
  ep.recorded = -1;
  ep.recording.clear();
  return nullptr;
}

OrtStatus* ORT_API_CALL no_concurrent_runs(OrtEp*, bool* supported) {
  *supported = false;  // the shift is the run's
  return nullptr;
}

int64_t microseconds(std::chrono::nanoseconds time) { return time.count() / 1000; }

OrtStatus* ORT_API_CALL end_profiling(OrtEpProfilerImpl* self, OrtProfilingEventsContainer* container) {
  auto& profiler = *static_cast<Profiler*>(self);
  const std::lock_guard lock(profiler.mutex);
  for (const Event& event : profiler.events) {
    const char* keys[] = {"owner", "text"};
    const char* values[] = {kEp, "a \"quoted\" \\ text"};
    OrtProfilingEvent* made = nullptr;
    TRY(g_ep_api->CreateProfilingEvent(
        OrtProfilingEventCategory_KERNEL, 1, 1, event.name.c_str(),
        microseconds(event.begin - profiler.started + std::chrono::nanoseconds(profiler.offset_ns)),
        microseconds(event.end - event.begin), keys, values, 2, &made));
    OrtStatus* bad = g_ep_api->ProfilingEventsContainer_AddEvents(container, &made, 1);
    g_ep_api->ReleaseProfilingEvent(made);
    if (bad != nullptr) return bad;
  }
  return nullptr;
}

OrtStatus* ORT_API_CALL create_profiler(OrtEp* self, OrtEpProfilerImpl** out) {
  *out = nullptr;
  if (!static_cast<Ep*>(self)->profiles) return nullptr;
  auto profiler = std::make_unique<Profiler>();
  profiler->ort_version_supported = ORT_API_VERSION;
  profiler->Release = [](OrtEpProfilerImpl* table) { delete static_cast<Profiler*>(table); };
  profiler->StartProfiling = [](OrtEpProfilerImpl* table, int64_t offset_ns) -> OrtStatus* {
    auto& own = *static_cast<Profiler*>(table);
    own.started = std::chrono::steady_clock::now();
    own.offset_ns = offset_ns;
    return nullptr;
  };
  profiler->StartEvent = [](OrtEpProfilerImpl* table, uint64_t id) -> OrtStatus* {
    auto& own = *static_cast<Profiler*>(table);
    const std::lock_guard lock(own.mutex);
    own.open[id] = std::chrono::steady_clock::now();
    return nullptr;
  };
  profiler->StopEvent = [](OrtEpProfilerImpl* table, uint64_t id, const OrtProfilingEvent* event) -> OrtStatus* {
    auto& own = *static_cast<Profiler*>(table);
    OrtProfilingEventCategory category = OrtProfilingEventCategory_SESSION;
    TRY(g_ep_api->ProfilingEvent_GetCategory(event, &category));
    const char* provider = nullptr;
    TRY(g_ep_api->ProfilingEvent_GetArgValue(event, "provider", &provider));
    const std::lock_guard lock(own.mutex);
    const auto begin = own.open.find(id);
    if (begin == own.open.end()) return fail("an event ends that never began");
    // Hosts tell of other EPs' nodes too.
    if (category == OrtProfilingEventCategory_NODE && provider != nullptr && std::strcmp(provider, kEp) == 0)
      own.events.push_back({"OwnEp.compute", begin->second, std::chrono::steady_clock::now(), id});
    own.open.erase(begin);
    return nullptr;
  };
  profiler->EndProfiling = end_profiling;
  *out = profiler.release();
  return nullptr;
}

// The factory.
std::string config(const OrtSessionOptions* options, const std::string& full) {
  int there = 0;
  size_t size = 0;
  if (OrtStatus* bad = g_api->HasSessionConfigEntry(options, full.c_str(), &there)) g_api->ReleaseStatus(bad);
  if (there == 0) return "";
  if (OrtStatus* bad = g_api->GetSessionConfigEntry(options, full.c_str(), nullptr, &size)) g_api->ReleaseStatus(bad);
  std::string text(size, '\0');
  if (OrtStatus* bad = g_api->GetSessionConfigEntry(options, full.c_str(), text.data(), &size))
    g_api->ReleaseStatus(bad);
  return text.c_str();
}

std::string option(const OrtSessionOptions* options, const char* key) {
  return config(options, std::string("ep.ownep.") + key);
}

OrtStatus* data_functions(const OrtSessionOptions* options, Ep& ep) {
  OrtEpContextConfig* config = nullptr;
  TRY(g_ep_api->SessionOptionsGetEpContextConfig(options, &config));
  OrtStatus* bad = g_ep_api->EpContextConfigGetEpContextDataReadFunc(config, &ep.read, &ep.read_state);
  if (bad == nullptr) bad = g_ep_api->EpContextConfigGetEpContextDataWriteFunc(config, &ep.write, &ep.write_state);
  g_ep_api->ReleaseEpContextConfig(config);
  return bad;
}

OrtStatus* ORT_API_CALL weightless_support(const OrtEp*, OrtWeightlessSupport* support) {
  const char* text = std::getenv("OWN_WEIGHTLESS");
  std::printf("OwnEp is asked for its weightless support\n");
  if (std::strcmp(text, "fail") == 0) return g_api->CreateStatus(ORT_NO_SUCHFILE, "OwnEp does not know");
  *support = static_cast<OrtWeightlessSupport>(std::atoi(text));
  return nullptr;
}

OrtStatus* ORT_API_CALL memory_capacity(OrtEpFactory*, const OrtEpDevice*, OrtDeviceMemoryType type, uint64_t* out_1,
                                        uint64_t* out_2) {
  if (out_1 != nullptr) *out_1 += 1000 + static_cast<uint64_t>(type);
  if (out_2 != nullptr) *out_2 += 2000 + static_cast<uint64_t>(type);
  return static_cast<int>(type) == 7 ? g_api->CreateStatus(ORT_MODEL_LOADED, "OwnEp has no such memory") : nullptr;
}

OrtStatus* ORT_API_CALL create_ep(OrtEpFactory*, const OrtHardwareDevice* const*, const OrtKeyValuePairs* const*,
                                  size_t, const OrtSessionOptions* options, const OrtLogger*, OrtEp** out) {
  auto ep = std::make_unique<Ep>();
  ep->ort_version_supported = ORT_API_VERSION;
  ep->GetName = [](const OrtEp*) { return kEp; };
  ep->GetCapability = get_capability;
  ep->Compile = compile;
  ep->ReleaseNodeComputeInfos = release_infos;
  ep->SetDynamicOptions = set_dynamic_options;
  ep->OnRunStart = run_start;
  ep->OnRunEnd = run_end;
  ep->IsConcurrentRunSupported = no_concurrent_runs;
  ep->CreateProfiler = create_profiler;
  ep->IsGraphCaptureEnabled = [](const OrtEp* self) { return static_cast<const Ep*>(self)->captures; };
  ep->IsGraphCaptured = [](const OrtEp* self, int graph) {
    return static_cast<const Ep*>(self)->graphs.contains(graph);
  };
  ep->ReplayGraph = [](OrtEp* self, int graph) -> OrtStatus* {
    auto& own = *static_cast<Ep*>(self);
    ++own.replays;
    for (const auto& work : own.graphs[graph]) work();
    return nullptr;
  };
  ep->ReleaseCapturedGraph = [](OrtEp* self, int graph) -> OrtStatus* {
    static_cast<Ep*>(self)->graphs.erase(graph);
    return nullptr;
  };
  ep->GetCompiledModelCompatibilityInfo = [](OrtEp*, const OrtGraph*) -> const char* { return "OwnEp 1.0"; };
  ep->GetEpContextDataCallbackSupport = [](const OrtEp*, uint32_t* flags) -> OrtStatus* {
    *flags = std::getenv("OWN_CONTEXT") != nullptr ? 3 : 1;  // reads, and writes
    return nullptr;
  };
  if (const char* code = std::getenv("OWN_FAIL"); code != nullptr)
    return g_api->CreateStatus(static_cast<OrtErrorCode>(std::atoi(code)), "OwnEp fails on demand");
  if (std::getenv("OWN_METADATA") != nullptr)
    std::printf("OwnEp sees mode \"%s\", switch \"%s\"\n", config(options, "ep.enable_weightless_mode").c_str(),
                config(options, "ep.enable_weightless").c_str());
  if (std::getenv("OWN_WEIGHTLESS") != nullptr) ep->GetWeightlessSupport = weightless_support;
  TRY(data_functions(options, *ep));
  ep->writes_context = config(options, "ep.context_enable") == "1";
  if (std::getenv("OWN_CONTEXT") != nullptr) {
    for (const char* key :
         {"ep.context_enable", "ep.context_file_path", "ep.context_embed_mode", "ep.enable_weightless"})
      std::printf("OwnEp sees %s=\"%s\"\n", key, config(options, key).c_str());
    ep->embeds = ep->write == nullptr || config(options, "ep.context_embed_mode") == "1";
  }
  ep->captures = option(options, "capture") == "1";
  ep->profiles = option(options, "profiler") != "0";
  std::string claim = option(options, "claim");
  ep->claims_all = claim.empty();
  for (size_t at; !claim.empty(); claim.erase(0, at == std::string::npos ? at : at + 1)) {
    at = claim.find(',');
    ep->claim.push_back(claim.substr(0, at));
  }
  *out = ep.release();
  return nullptr;
}

OrtStatus* ORT_API_CALL supported_devices(OrtEpFactory* self, const OrtHardwareDevice* const* devices, size_t count,
                                          OrtEpDevice** made, size_t most, size_t* made_count) {
  *made_count = 0;
  for (size_t i = 0; i < count && *made_count == 0 && most > 0; ++i) {
    if (g_api->HardwareDevice_Type(devices[i]) != OrtHardwareDeviceType_CPU) continue;
    OrtKeyValuePairs* metadata = nullptr;
    g_api->CreateKeyValuePairs(&metadata);
    if (const char* pair = std::getenv("OWN_METADATA"); pair != nullptr && *pair != '\0') {
      const std::string key(pair, std::strchr(pair, '='));
      g_api->AddKeyValuePair(metadata, key.c_str(), pair + key.size() + 1);
    }
    OrtStatus* bad = g_ep_api->CreateEpDevice(self, devices[i], metadata, nullptr, &made[0]);
    g_api->ReleaseKeyValuePairs(metadata);
    if (bad != nullptr) return bad;
    *made_count = 1;
  }
  return nullptr;
}

}  // namespace

extern "C" {

ORT_EXPORT OrtStatus* CreateEpFactories(const char*, const OrtApiBase* base, const OrtLogger*, OrtEpFactory** factories,
                                        size_t, size_t* count) {
  g_api = base->GetApi(ORT_API_VERSION);
  g_ep_api = g_api->GetEpApi();
  auto factory = std::make_unique<Factory>();
  TRY(g_api->CreateCustomOpDomain(kDomain, &factory->domain));
  for (const OrtCustomOp& op : g_ops) TRY(g_api->CustomOpDomain_Add(factory->domain, &op));
  factory->ort_version_supported = ORT_API_VERSION;
  factory->GetName = [](const OrtEpFactory*) { return kEp; };
  factory->GetVendor = [](const OrtEpFactory*) { return "Tenon's tests"; };
  factory->GetVersion = [](const OrtEpFactory*) { return "1.0.0"; };
  factory->GetSupportedDevices = supported_devices;
  factory->CreateEp = create_ep;
  factory->ReleaseEp = [](OrtEpFactory*, OrtEp* ep) {
    auto* own = static_cast<Ep*>(ep);
    if (own->captures) std::printf("OwnEp replayed %d\n", own->replays);
    delete own;
  };
  factory->CreateDataTransfer = [](OrtEpFactory*, OrtDataTransferImpl** out) -> OrtStatus* {
    *out = nullptr;
    return nullptr;
  };
  factory->GetNumCustomOpDomains = [](OrtEpFactory*, size_t* domains) -> OrtStatus* {
    *domains = 1;
    return nullptr;
  };
  factory->GetCustomOpDomains = [](OrtEpFactory* self, OrtCustomOpDomain** domains, size_t room) -> OrtStatus* {
    if (room > 0) domains[0] = static_cast<Factory*>(self)->domain;
    return nullptr;
  };
  if (const char* version = std::getenv("OWN_CAPACITY"); version != nullptr) {
    factory->ort_version_supported = static_cast<uint32_t>(std::atoi(version));
    factory->GetDeviceMemoryCapacity = memory_capacity;
  }
  factories[0] = factory.release();
  *count = 1;
  return nullptr;
}

ORT_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  auto* own = static_cast<Factory*>(factory);
  g_api->ReleaseCustomOpDomain(own->domain);
  delete own;
  return nullptr;
}
}
