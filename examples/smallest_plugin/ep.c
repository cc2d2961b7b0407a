/* An execution provider in C: Relu of float tensors in the host's memory. docs/tutorial/first-plugin.md explains it. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

#define EP_NAME "SmallestExecutionProvider"
#define API PLUGIN_API_VERSION

/* This EP keeps nothing of a session, so one object holds the tables of the factory, the EP and its compiled nodes. */
typedef struct Plugin {
  OrtEpFactory factory;
  OrtEp ep;
  OrtNodeComputeInfo relu;
  Host host;
} Plugin;

/* The object, from the host's pointer to one of its tables. */
#define PLUGIN(member, table) ((Plugin*)((char*)(table) - offsetof(Plugin, member)))

/* ---- A compiled node. Several runs may call Compute at once, so it keeps nothing of a run. ---- */

static OrtStatus* ORT_API_CALL compute(OrtNodeComputeInfo* self, void* state, OrtKernelContext* context) {
  const OrtApi* api = PLUGIN(relu, self)->host.api;
  const OrtValue* input = NULL;
  OrtValue* output = NULL;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  const int64_t* dims = NULL;
  size_t rank = 0, count = 1;
  void *x = NULL, *y = NULL;
  (void)state;
  TRY(api->KernelContext_GetInput(context, 0, &input));
  TRY(api->GetTensorElementTypeAndShapeDataReference(input, &type, &dims, &rank));
  TRY(api->KernelContext_GetOutput(context, 0, dims, rank, &output));
  TRY(api->GetTensorMutableData((OrtValue*)input, &x));
  TRY(api->GetTensorMutableData(output, &y));
  for (size_t i = 0; i < rank; ++i) count *= (size_t)dims[i];
  for (size_t i = 0; i < count; ++i) ((float*)y)[i] = ((float*)x)[i] < 0 ? 0 : ((float*)x)[i]; /* NaN stays NaN */
  return NULL;
}

static OrtStatus* ORT_API_CALL create_state(OrtNodeComputeInfo* self, OrtNodeComputeContext* context, void** state) {
  return (void)self, (void)context, *state = NULL, NULL;
}
static void ORT_API_CALL release_state(OrtNodeComputeInfo* self, void* state) { (void)self, (void)state; }

/* ---- The EP: it claims nodes, and compiles each. ---- */

static OrtStatus* claim_float_relu(const Host* host, const OrtNode* node, OrtEpGraphSupportInfo* support) {
  const char *operator_type = NULL, *domain = NULL;
  const OrtValueInfo* input = NULL;
  const OrtTypeInfo* info = NULL;
  const OrtTensorTypeAndShapeInfo* tensor = NULL;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  TRY(host->api->Node_GetOperatorType(node, &operator_type));
  TRY(host->api->Node_GetDomain(node, &domain));
  if (strcmp(operator_type, "Relu") != 0 || strcmp(domain, "") != 0) return NULL;
  TRY(host->api->Node_GetInputs(node, &input, 1));
  TRY(host->api->GetValueInfoTypeInfo(input, &info));
  TRY(host->api->CastTypeInfoToTensorInfo(info, &tensor));
  TRY(host->api->GetTensorElementType(tensor, &type));
  if (type != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) return NULL;
  return host->ep_api->EpGraphSupportInfo_AddNodesToFuse(support, &node, 1, NULL);
}

static OrtStatus* ORT_API_CALL get_capability(OrtEp* self, const OrtGraph* graph, OrtEpGraphSupportInfo* support) {
  const Host* host = &PLUGIN(ep, self)->host;
  size_t count = 0;
  TRY(host->api->Graph_GetNumNodes(graph, &count));
  const OrtNode** nodes = calloc(count + 1, sizeof(*nodes));
  if (nodes == NULL) return host->api->CreateStatus(ORT_FAIL, "There is no memory for the graph's nodes.");
  OrtStatus* status = host->api->Graph_GetNodes(graph, nodes, count);
  for (size_t i = 0; status == NULL && i < count; ++i) status = claim_float_relu(host, nodes[i], support);
  free(nodes);
  return status;
}

static OrtStatus* ORT_API_CALL compile(OrtEp* self, const OrtGraph** graphs, const OrtNode** nodes, size_t count,
                                       OrtNodeComputeInfo** compiled, OrtNode** context_nodes) {
  (void)graphs, (void)nodes, (void)context_nodes;
  for (size_t i = 0; i < count; ++i) compiled[i] = &PLUGIN(ep, self)->relu;
  return NULL;
}

static void ORT_API_CALL release_compiled(OrtEp* self, OrtNodeComputeInfo** compiled, size_t count) {
  (void)self, (void)compiled, (void)count; /* parts of the object */
}
static const char* ORT_API_CALL ep_name(const OrtEp* self) { return (void)self, EP_NAME; }

/* ---- The factory: it offers devices, and makes what belongs to them. ---- */

static OrtStatus* ORT_API_CALL get_devices(OrtEpFactory* self, const OrtHardwareDevice* const* devices, size_t count,
                                           OrtEpDevice** offered, size_t room, size_t* offered_count) {
  const Host* host = &PLUGIN(factory, self)->host;
  *offered_count = 0;
  for (size_t i = 0; i < count && *offered_count < 1 && room > 0; ++i) {
    if (host->api->HardwareDevice_Type(devices[i]) != OrtHardwareDeviceType_CPU) continue;
    TRY(host->ep_api->CreateEpDevice(self, devices[i], NULL, NULL, &offered[0]));
    *offered_count = 1;
  }
  return NULL;
}

static OrtStatus* ORT_API_CALL create_ep(OrtEpFactory* self, const OrtHardwareDevice* const* devices,
                                         const OrtKeyValuePairs* const* metadata, size_t device_count,
                                         const OrtSessionOptions* options, const OrtLogger* logger, OrtEp** out) {
  (void)devices, (void)metadata, (void)device_count, (void)options, (void)logger;
  return *out = &PLUGIN(factory, self)->ep, NULL;
}
static void ORT_API_CALL release_ep(OrtEpFactory* self, OrtEp* ep) { (void)self, (void)ep; }

static OrtStatus* ORT_API_CALL get_importer(OrtEpFactory* self, const OrtEpDevice* device,
                                            OrtExternalResourceImporterImpl** out) {
  return create_importer(&PLUGIN(factory, self)->host, device, out);
}

static const char* ORT_API_CALL name(const OrtEpFactory* self) { return (void)self, EP_NAME; }
static const char* ORT_API_CALL vendor(const OrtEpFactory* self) { return (void)self, "Example"; }
static const char* ORT_API_CALL version(const OrtEpFactory* self) { return (void)self, "1.0.0"; }
static bool ORT_API_CALL has_streams(const OrtEpFactory* self) { return (void)self, false; }
static OrtStatus* ORT_API_CALL get_transfer(OrtEpFactory* self, OrtDataTransferImpl** out) {
  return (void)self, *out = NULL, NULL; /* no memory of its own to copy from or to */
}

/* ---- The two functions that the host looks up in the library. ---- */

ORT_EXPORT OrtStatus* CreateEpFactories(const char* registered_name, const OrtApiBase* base, const OrtLogger* logger,
                                        OrtEpFactory** factories, size_t room, size_t* count) {
  (void)registered_name, (void)logger, (void)room; /* there is room for one */
  const OrtApi* api = base->GetApi(API);
  if (api == NULL) return base->GetApi(1)->CreateStatus(ORT_FAIL, "The plugin needs ONNX Runtime 1.24 or newer.");
  Plugin* plugin = calloc(1, sizeof(*plugin));
  if (plugin == NULL) return api->CreateStatus(ORT_FAIL, "There is no memory for the plugin.");
  plugin->host = (Host){api, api->GetEpApi()};
  plugin->factory = (OrtEpFactory){.ort_version_supported = API,
                                   .GetName = name,
                                   .GetVendor = vendor,
                                   .GetVersion = version,
                                   .GetSupportedDevices = get_devices,
                                   .CreateEp = create_ep,
                                   .ReleaseEp = release_ep,
                                   .CreateDataTransfer = get_transfer,
                                   .IsStreamAware = has_streams,
                                   .CreateExternalResourceImporterForDevice = get_importer};
  plugin->ep = (OrtEp){.ort_version_supported = API,
                       .GetName = ep_name,
                       .GetCapability = get_capability,
                       .Compile = compile,
                       .ReleaseNodeComputeInfos = release_compiled};
  plugin->relu = (OrtNodeComputeInfo){API, create_state, compute, release_state};
  factories[0] = &plugin->factory;
  return *count = 1, NULL;
}

ORT_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) { return free(PLUGIN(factory, factory)), NULL; }
