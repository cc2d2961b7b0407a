/* A plugin EP that writes down what its host tells it, for the test that compares hosts.
 *
 * PROBE_OUT is the file to write; PROBE_MODE says what the EP takes:
 *   look       nothing
 *   fuse       all Add, Mul, Relu and LeakyRelu nodes as one; constants come as inputs
 *   fuse-drop  the same, and the EP keeps the constants
 *   pairs      each of those nodes, fused alone
 *   kernels    the same operators one by one, by a kernel registry; also Conv and ConstantOfShape, whose kernels fail
 *   misuse     nothing, after calling the support info wrongly
 *   refusals   nothing, after calls that end the reference's process
 * The kernels work on float tensors; the smaller one of two is repeated. */
#include "probe.h"

enum { kMost = 64 };

const OrtApi* api;
const OrtEpApi* ep_api;
FILE* out;

bool quiet(const char* what, OrtStatus* status) {
  if (status == NULL) return true;
  fprintf(out, "%s: code %d: %s\n", what, (int)api->GetErrorCode(status), api->GetErrorMessage(status));
  fflush(out);
  api->ReleaseStatus(status);
  return false;
}

bool show(const char* what, OrtStatus* status) {
  if (status == NULL) fprintf(out, "%s: ok\n", what);
  fflush(out);
  return quiet(what, status);
}

static const char* mode(void) {
  const char* text = getenv("PROBE_MODE");
  return text != NULL ? text : "look";
}
static bool mode_is(const char* text) { return strcmp(mode(), text) == 0; }

static bool supported(const OrtNode* node) {
  const char* op = "";
  QUIET(Node_GetOperatorType(node, &op));
  if (mode_is("kernels") && (strcmp(op, "Conv") == 0 || strcmp(op, "ConstantOfShape") == 0)) return true;
  return strcmp(op, "Add") == 0 || strcmp(op, "Mul") == 0 || strcmp(op, "Relu") == 0 || strcmp(op, "LeakyRelu") == 0;
}

/* --- what the kernels compute with --- */

typedef struct {
  char name[64];
  const float* data;
  int64_t dims[8];
  size_t rank, count;
  float* owned;
} Value;

typedef struct {
  char op[16];
  char inputs[2][64];
  char output[64];
  float alpha;
} Step;

typedef struct {
  OrtNodeComputeInfo info;
  char inputs[kMost][64];
  char outputs[kMost][64];
  size_t num_inputs, num_outputs, num_steps, num_constants;
  Step steps[kMost];
  Value constants[kMost];
  int runs;
} Program;

static bool read_tensor(const OrtValue* tensor, const char* name, Value* value) {
  OrtTensorTypeAndShapeInfo* shape = NULL;
  const void* data = NULL;
  memset(value, 0, sizeof(*value));
  snprintf(value->name, sizeof(value->name), "%s", name);
  if (!QUIET(GetTensorTypeAndShape(tensor, &shape))) return false;
  QUIET(GetDimensionsCount(shape, &value->rank));
  QUIET(GetDimensions(shape, value->dims, value->rank));
  QUIET(GetTensorShapeElementCount(shape, &value->count));
  api->ReleaseTensorTypeAndShapeInfo(shape);
  QUIET(GetTensorData(tensor, &data));
  value->data = (const float*)data;
  return true;
}

static const Value* find(const Value* values, size_t count, const char* name) {
  size_t i;
  for (i = count; i-- > 0;)
    if (strcmp(values[i].name, name) == 0) return &values[i];
  return NULL;
}

static void compute_step(const Step* step, const Value* a, const Value* b, float* result, size_t count) {
  size_t i;
  for (i = 0; i < count; ++i) {
    const float x = a->data[i % a->count];
    const float y = b != NULL ? b->data[i % b->count] : 0;
    if (step->op[0] == 'A') {
      result[i] = x + y;
    } else if (step->op[0] == 'M') {
      result[i] = x * y;
    } else {
      result[i] = x > 0 ? x : step->alpha * x;
    }
  }
}

static OrtStatus* run_steps(const Program* program, OrtKernelContext* context) {
  Value* values = (Value*)calloc(4 * kMost, sizeof(Value));
  size_t count = 0, i, j;
  OrtStatus* status = NULL;
  for (i = 0; i < program->num_constants; ++i) values[count++] = program->constants[i];
  for (i = 0; i < program->num_inputs; ++i) {
    const OrtValue* input = NULL;
    if (QUIET(KernelContext_GetInput(context, i, &input)) && input != NULL)
      read_tensor(input, program->inputs[i], &values[count++]);
  }
  for (i = 0; i < program->num_steps && status == NULL; ++i) {
    const Step* step = &program->steps[i];
    const Value* a = find(values, count, step->inputs[0]);
    const Value* b = step->inputs[1][0] != '\0' ? find(values, count, step->inputs[1]) : NULL;
    const Value* larger = b != NULL && b->count > a->count ? b : a;
    Value result;
    float* data = NULL;
    if (step->op[0] == 'C') status = api->CreateStatus(ORT_NOT_IMPLEMENTED, "The probe computes no such thing.");
    if (status != NULL) break;
    if (a == NULL || (b == NULL && step->inputs[1][0] != '\0')) {
      status = api->CreateStatus(ORT_FAIL, "The probe misses an input.");
      break;
    }
    result = *larger;
    result.owned = NULL;
    snprintf(result.name, sizeof(result.name), "%s", step->output);
    for (j = 0; j < program->num_outputs; ++j) {
      OrtValue* output = NULL;
      void* memory = NULL;
      if (strcmp(program->outputs[j], step->output) != 0) continue;
      status = api->KernelContext_GetOutput(context, j, result.dims, result.rank, &output);
      if (status == NULL) status = api->GetTensorMutableData(output, &memory);
      data = (float*)memory;
    }
    if (data == NULL && status == NULL) data = result.owned = (float*)malloc(result.count * sizeof(float) + 1);
    if (status == NULL) compute_step(step, a, b, data, result.count);
    result.data = data;
    values[count++] = result;
  }
  for (i = program->num_constants; i < count; ++i) free(values[i].owned);
  free(values);
  return status;
}

static void read_step(const OrtNode* node, Step* step) {
  const OrtValueInfo* values[8] = {NULL};
  const OrtOpAttr* attribute = NULL;
  const char* text = "";
  size_t count = 0, i;
  memset(step, 0, sizeof(*step));
  QUIET(Node_GetOperatorType(node, &text));
  snprintf(step->op, sizeof(step->op), "%s", text);
  QUIET(Node_GetNumInputs(node, &count));
  QUIET(Node_GetInputs(node, values, count));
  for (i = 0; i < count && i < 2; ++i) {
    QUIET(GetValueInfoName(values[i], &text));
    snprintf(step->inputs[i], 64, "%s", text);
  }
  QUIET(Node_GetOutputs(node, values, 1));
  QUIET(GetValueInfoName(values[0], &text));
  snprintf(step->output, 64, "%s", text);
  step->alpha = strcmp(step->op, "LeakyRelu") == 0 ? 0.01f : 0;
  if (step->op[0] == 'L' && QUIET(Node_GetAttributeByName(node, "alpha", &attribute)) && attribute != NULL)
    QUIET(ReadOpAttr(attribute, ORT_OP_ATTR_FLOAT, &step->alpha, sizeof(float), &count));
}

/* --- fused nodes --- */

static OrtStatus* ORT_API_CALL create_state(OrtNodeComputeInfo* self, OrtNodeComputeContext* context, void** state) {
  fprintf(out, "CreateState \"%s\"\n", ep_api->NodeComputeContext_NodeName(context));
  fflush(out);
  *state = self;
  return NULL;
}

static OrtStatus* ORT_API_CALL compute(OrtNodeComputeInfo* self, void* state, OrtKernelContext* context) {
  Program* program = (Program*)state;
  OrtStatus* status;
  (void)self;
  if (program->runs == 0) dump_kernel_context(context);
  status = run_steps(program, context);
  if (program->runs++ == 0) fprintf(out, "Compute: %s\n", status == NULL ? "ok" : api->GetErrorMessage(status));
  fflush(out);
  return status;
}

static void ORT_API_CALL release_state(OrtNodeComputeInfo* self, void* state) {
  fprintf(out, "ReleaseState %d\n", state == self);
  fflush(out);
}

static Program* make_program(const OrtGraph* graph, const OrtNode* fused) {
  Program* program = (Program*)calloc(1, sizeof(Program));
  const OrtValueInfo* values[kMost];
  const OrtNode* nodes[kMost];
  const char* name = "";
  size_t count = 0, i;
  program->info.ort_version_supported = ORT_API_VERSION;
  program->info.CreateState = create_state;
  program->info.Compute = compute;
  program->info.ReleaseState = release_state;
  QUIET(Node_GetNumInputs(fused, &program->num_inputs));
  QUIET(Node_GetInputs(fused, values, program->num_inputs));
  for (i = 0; i < program->num_inputs; ++i) {
    QUIET(GetValueInfoName(values[i], &name));
    snprintf(program->inputs[i], 64, "%s", name);
  }
  QUIET(Node_GetNumOutputs(fused, &program->num_outputs));
  QUIET(Node_GetOutputs(fused, values, program->num_outputs));
  for (i = 0; i < program->num_outputs; ++i) {
    QUIET(GetValueInfoName(values[i], &name));
    snprintf(program->outputs[i], 64, "%s", name);
  }
  QUIET(Graph_GetNumInitializers(graph, &count));
  QUIET(Graph_GetInitializers(graph, values, count));
  for (i = 0; mode_is("fuse-drop") && i < count; ++i) {
    const OrtValue* tensor = NULL;
    Value* constant = &program->constants[program->num_constants];
    QUIET(GetValueInfoName(values[i], &name));
    if (!QUIET(ValueInfo_GetInitializerValue(values[i], &tensor)) || !read_tensor(tensor, name, constant)) continue;
    constant->owned = (float*)malloc(constant->count * sizeof(float) + 1);
    memcpy(constant->owned, constant->data, constant->count * sizeof(float));
    constant->data = constant->owned;
    program->num_constants++;
  }
  QUIET(Graph_GetNumNodes(graph, &program->num_steps));
  QUIET(Graph_GetNodes(graph, nodes, program->num_steps));
  for (i = 0; i < program->num_steps; ++i) read_step(nodes[i], &program->steps[i]);
  return program;
}

/* --- kernels --- */

typedef struct {
  OrtKernelImpl impl;
  Program program;
} Kernel;

static OrtStatus* ORT_API_CALL kernel_compute(OrtKernelImpl* self, OrtKernelContext* context) {
  Kernel* kernel = (Kernel*)self;
  OrtStatus* status;
  if (kernel->program.runs == 0) dump_kernel_context(context);
  status = run_steps(&kernel->program, context);
  if (kernel->program.runs++ == 0) fprintf(out, "Compute: %s\n", status == NULL ? "ok" : api->GetErrorMessage(status));
  fflush(out);
  return status;
}

static void ORT_API_CALL kernel_release(OrtKernelImpl* self) { free(self); }

static OrtStatus* ORT_API_CALL create_kernel(void* state, const OrtKernelInfo* info, OrtKernelImpl** result) {
  Kernel* kernel = (Kernel*)calloc(1, sizeof(Kernel));
  Step* step = &kernel->program.steps[0];
  size_t size = sizeof(step->op);
  size_t i;
  fprintf(out, "create_kernel %s\n", (const char*)state);
  dump_kernel_info(info);
  kernel->impl.ort_version_supported = ORT_API_VERSION;
  kernel->impl.Compute = kernel_compute;
  kernel->impl.Release = kernel_release;
  QUIET(KernelInfo_GetOperatorType(info, step->op, &size));
  QUIET(KernelInfo_GetInputCount(info, &kernel->program.num_inputs));
  for (i = 0; i < kernel->program.num_inputs && i < 2; ++i) {
    snprintf(kernel->program.inputs[i], 64, "in%zu", i);
    snprintf(step->inputs[i], 64, "in%zu", i);
  }
  kernel->program.num_outputs = kernel->program.num_steps = 1;
  strcpy(kernel->program.outputs[0], "out");
  strcpy(step->output, "out");
  if (step->op[0] == 'L' && !QUIET(KernelInfoGetAttribute_float(info, "alpha", &step->alpha))) step->alpha = 0.01f;
  *result = &kernel->impl;
  fflush(out);
  return NULL;
}

static void add_kernel(OrtKernelRegistry* registry, const char* op, int start, int end, const char* constraint) {
  OrtKernelDefBuilder* builder = NULL;
  OrtKernelDef* def = NULL;
  const OrtDataType* type = NULL;
  quiet("CreateKernelDefBuilder", ep_api->CreateKernelDefBuilder(&builder));
  quiet("SetOperatorType", ep_api->KernelDefBuilder_SetOperatorType(builder, op));
  quiet("SetDomain", ep_api->KernelDefBuilder_SetDomain(builder, ""));
  quiet("SetSinceVersion", ep_api->KernelDefBuilder_SetSinceVersion(builder, start, end));
  quiet("SetExecutionProvider", ep_api->KernelDefBuilder_SetExecutionProvider(builder, "ProbeEp"));
  quiet("GetTensorDataType", ep_api->GetTensorDataType(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &type));
  quiet("AddTypeConstraint", ep_api->KernelDefBuilder_AddTypeConstraint(builder, constraint, &type, 1));
  quiet("Build", ep_api->KernelDefBuilder_Build(builder, &def));
  quiet("AddKernel", ep_api->KernelRegistry_AddKernel(registry, def, create_kernel, (void*)(size_t)op));
  ep_api->ReleaseKernelDef(def);
  ep_api->ReleaseKernelDefBuilder(builder);
}

/* --- the EP --- */

typedef struct {
  OrtEp ep;
  OrtKernelRegistry* registry;
} Ep;

static void misuse_support_info(OrtEpGraphSupportInfo* info, const OrtNode* const* nodes, size_t count) {
  const OrtNode* wrong[2];
  const OrtKernelDef* def = NULL;
  OrtNodeFusionOptions options = {ORT_API_VERSION, false};
  wrong[0] = count > 0 ? nodes[0] : NULL;
  wrong[1] = NULL;
  show("AddNodesToFuse null info", ep_api->EpGraphSupportInfo_AddNodesToFuse(NULL, nodes, count, &options));
  show("AddNodesToFuse null nodes", ep_api->EpGraphSupportInfo_AddNodesToFuse(info, NULL, 1, &options));
  show("AddNodesToFuse no nodes", ep_api->EpGraphSupportInfo_AddNodesToFuse(info, nodes, 0, &options));
  show("AddSingleNode null node", ep_api->EpGraphSupportInfo_AddSingleNode(info, NULL));
  show("AddSingleNode null info", ep_api->EpGraphSupportInfo_AddSingleNode(NULL, wrong[0]));
  show("LookUpKernel null node", ep_api->EpGraphSupportInfo_LookUpKernel(info, NULL, &def));
  show("LookUpKernel", ep_api->EpGraphSupportInfo_LookUpKernel(info, wrong[0], &def));
  fprintf(out, "  def %d\n", def != NULL);
}

static OrtStatus* ORT_API_CALL get_capability(OrtEp* self, const OrtGraph* graph, OrtEpGraphSupportInfo* info) {
  const OrtNode* nodes[512];
  const OrtNode* taken[512];
  size_t count = 0, num_taken = 0, i;
  OrtNodeFusionOptions options = {ORT_API_VERSION, false};
  (void)self;
  dump_graph(graph, "GetCapability");
  dump_misuse(graph);
  if (mode_is("refusals")) dump_refusals(graph);
  QUIET(Graph_GetNumNodes(graph, &count));
  if (count > 512) count = 512;
  if (count > 0) QUIET(Graph_GetNodes(graph, nodes, count));
  for (i = 0; i < count; ++i)
    if (supported(nodes[i])) taken[num_taken++] = nodes[i];
  if (num_taken > 0) {
    OrtGraph* view = NULL;
    if (CALL(Graph_GetGraphView(graph, taken, num_taken, &view))) {
      const OrtNode* inner[512];
      dump_graph(view, "a view of what the EP can take");
      QUIET(Graph_GetNodes(view, inner, num_taken));
      fprintf(out, "nodes are the same objects %d\n", inner[0] == taken[0]);
      api->ReleaseGraph(view);
    }
  }
  if (mode_is("misuse")) misuse_support_info(info, nodes, count);
  options.drop_constant_initializers = mode_is("fuse-drop");
  if ((mode_is("fuse") || mode_is("fuse-drop")) && num_taken > 0)
    show("AddNodesToFuse", ep_api->EpGraphSupportInfo_AddNodesToFuse(info, taken, num_taken, &options));
  for (i = 0; i < num_taken; ++i) {
    const OrtKernelDef* def = NULL;
    int start = 0, end = 0;
    if (mode_is("pairs")) show("AddNodesToFuse", ep_api->EpGraphSupportInfo_AddNodesToFuse(info, &taken[i], 1, NULL));
    if (!mode_is("kernels")) continue;
    show("LookUpKernel", ep_api->EpGraphSupportInfo_LookUpKernel(info, taken[i], &def));
    if (def == NULL) continue;
    quiet("GetSinceVersion", ep_api->KernelDef_GetSinceVersion(def, &start, &end));
    fprintf(out, "  %s %d to %d of %s in \"%s\"\n", ep_api->KernelDef_GetOperatorType(def), start, end,
            ep_api->KernelDef_GetExecutionProvider(def), ep_api->KernelDef_GetDomain(def));
    show("AddSingleNode", ep_api->EpGraphSupportInfo_AddSingleNode(info, taken[i]));
  }
  fflush(out);
  return NULL;
}

static OrtStatus* ORT_API_CALL compile(OrtEp* self, const OrtGraph** graphs, const OrtNode** fused_nodes, size_t count,
                                       OrtNodeComputeInfo** infos, OrtNode** ep_context_nodes) {
  size_t i;
  (void)self;
  fprintf(out, "Compile %zu, ep_context_nodes %d\n", count, ep_context_nodes != NULL);
  for (i = 0; i < count; ++i) {
    dump_graph(graphs[i], "Compile");
    dump_misuse(graphs[i]);
    fprintf(out, "fused node:\n");
    dump_node(fused_nodes[i], 1);
    infos[i] = &make_program(graphs[i], fused_nodes[i])->info;
  }
  fflush(out);
  return NULL;
}

static void ORT_API_CALL release_infos(OrtEp* self, OrtNodeComputeInfo** infos, size_t count) {
  size_t i, j;
  (void)self;
  for (i = 0; i < count; ++i) {
    Program* program = (Program*)infos[i];
    for (j = 0; j < program->num_constants; ++j) free(program->constants[j].owned);
    free(program);
  }
}

static const char* ORT_API_CALL ep_name(const OrtEp* self) {
  (void)self;
  return "ProbeEp";
}

static OrtStatus* ORT_API_CALL kernel_registry(OrtEp* self, const OrtKernelRegistry** registry) {
  *registry = ((Ep*)self)->registry;
  return NULL;
}

/* --- the factory --- */

static const char* ORT_API_CALL factory_name(const OrtEpFactory* self) {
  (void)self;
  return "ProbeEp";
}
static const char* ORT_API_CALL vendor(const OrtEpFactory* self) {
  (void)self;
  return "Tenon's tests";
}
static const char* ORT_API_CALL version(const OrtEpFactory* self) {
  (void)self;
  return "1.0.0";
}
static uint32_t ORT_API_CALL vendor_id(const OrtEpFactory* self) {
  (void)self;
  return 0x544E;
}

static OrtStatus* ORT_API_CALL supported_devices(OrtEpFactory* self, const OrtHardwareDevice* const* devices,
                                                 size_t count, OrtEpDevice** result, size_t most, size_t* found) {
  size_t i;
  *found = 0;
  for (i = 0; i < count && *found < most && *found == 0; ++i) {
    OrtStatus* status;
    if (api->HardwareDevice_Type(devices[i]) != OrtHardwareDeviceType_CPU) continue;
    status = ep_api->CreateEpDevice(self, devices[i], NULL, NULL, &result[0]);
    if (status != NULL) return status;
    *found = 1;
  }
  return NULL;
}

static OrtStatus* ORT_API_CALL create_ep(OrtEpFactory* self, const OrtHardwareDevice* const* devices,
                                         const OrtKeyValuePairs* const* metadata, size_t count,
                                         const OrtSessionOptions* options, const OrtLogger* logger, OrtEp** result) {
  Ep* ep = (Ep*)calloc(1, sizeof(Ep));
  (void)self, (void)devices, (void)metadata, (void)count, (void)options, (void)logger;
  ep->ep.ort_version_supported = ORT_API_VERSION;
  ep->ep.GetName = ep_name;
  ep->ep.GetCapability = get_capability;
  ep->ep.Compile = compile;
  ep->ep.ReleaseNodeComputeInfos = release_infos;
  if (mode_is("kernels")) {
    quiet("CreateKernelRegistry", ep_api->CreateKernelRegistry(&ep->registry));
    add_kernel(ep->registry, "Add", 7, 12, "T");
    add_kernel(ep->registry, "Add", 13, 13, "T");
    add_kernel(ep->registry, "Mul", 13, 14, "T");
    add_kernel(ep->registry, "Relu", 6, 30, "T");
    add_kernel(ep->registry, "LeakyRelu", 16, 16, "T");
    add_kernel(ep->registry, "Conv", 11, 21, "T");
    add_kernel(ep->registry, "ConstantOfShape", 9, 19, "T2");
    ep->ep.GetKernelRegistry = kernel_registry;
  }
  *result = &ep->ep;
  return NULL;
}

static void ORT_API_CALL release_ep(OrtEpFactory* self, OrtEp* ep) {
  (void)self;
  if (ep != NULL) ep_api->ReleaseKernelRegistry(((Ep*)ep)->registry);
  free(ep);
}

static OrtStatus* ORT_API_CALL no_data_transfer(OrtEpFactory* self, OrtDataTransferImpl** transfer) {
  (void)self;
  *transfer = NULL;
  return NULL;
}
static bool ORT_API_CALL not_stream_aware(const OrtEpFactory* self) {
  (void)self;
  return false;
}

ORT_EXPORT OrtStatus* CreateEpFactories(const char* name, const OrtApiBase* base, const OrtLogger* logger,
                                        OrtEpFactory** factories, size_t most, size_t* count) {
  OrtEpFactory* factory;
  const char* path = getenv("PROBE_OUT");
  (void)name, (void)logger;
  *count = 0;
  api = base->GetApi(ORT_API_VERSION);
  if (api == NULL) api = base->GetApi(24);
  if (api == NULL || most < 1) return NULL;
  ep_api = api->GetEpApi();
  if (out == NULL) out = path != NULL ? fopen(path, "w") : stderr;
  if (out == NULL) return api->CreateStatus(ORT_FAIL, "The probe cannot write the file of PROBE_OUT.");
  setvbuf(out, NULL, _IOLBF, 1 << 12);
  factory = (OrtEpFactory*)calloc(1, sizeof(OrtEpFactory));
  factory->ort_version_supported = ORT_API_VERSION;
  factory->GetName = factory_name;
  factory->GetVendor = vendor;
  factory->GetVersion = version;
  factory->GetVendorId = vendor_id;
  factory->GetSupportedDevices = supported_devices;
  factory->CreateEp = create_ep;
  factory->ReleaseEp = release_ep;
  factory->CreateDataTransfer = no_data_transfer;
  factory->IsStreamAware = not_stream_aware;
  factories[0] = factory;
  *count = 1;
  return NULL;
}

ORT_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  free(factory);
  if (out != NULL) fflush(out);
  return NULL;
}
