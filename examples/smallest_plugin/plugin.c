/* An execution provider in C: the CPU's memory, and one operator (Relu of float tensors). README.md explains it. */
#include "plugin.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define EP_NAME "SmallestExecutionProvider"
#define MAX_RANK 32

OrtStatus* fail(const Host* host, OrtErrorCode code, const char* format, ...) {
  char message[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof(message), format, arguments);
  va_end(arguments);
  return host->api->CreateStatus(code, message);
}

/* ---- The kernel: what runs one node. The host creates it when a session is made, and calls Compute in each run. ----
 */

typedef struct Relu {
  OrtKernelImpl table; /* first: the host's pointer to the table is the pointer to this object */
  Host host;
} Relu;

static OrtStatus* read_shape(const Host* host, const OrtValue* value, int64_t dims[MAX_RANK], size_t* rank,
                             size_t* count) {
  OrtTensorTypeAndShapeInfo* info = NULL;
  TRY(host->api->GetTensorTypeAndShape(value, &info));
  OrtStatus* status = host->api->GetDimensionsCount(info, rank);
  if (status == NULL && *rank > MAX_RANK)
    status = fail(host, ORT_NOT_IMPLEMENTED, "The input of Relu has rank %zu; %d is the limit.", *rank, MAX_RANK);
  if (status == NULL) status = host->api->GetDimensions(info, dims, *rank);
  if (status == NULL) status = host->api->GetTensorShapeElementCount(info, count);
  host->api->ReleaseTensorTypeAndShapeInfo(info);
  return status;
}

/* Threads: several runs may call it at once, so the kernel keeps nothing of a run. */
static OrtStatus* ORT_API_CALL relu_compute(OrtKernelImpl* self, OrtKernelContext* context) {
  const Host* host = &((Relu*)self)->host;
  const OrtValue* input = NULL;
  TRY(host->api->KernelContext_GetInput(context, 0, &input));
  int64_t dims[MAX_RANK];
  size_t rank = 0, count = 0;
  TRY(read_shape(host, input, dims, &rank, &count));
  OrtValue* output = NULL;
  TRY(host->api->KernelContext_GetOutput(context, 0, dims, rank, &output));
  void* src = NULL;
  void* dst = NULL;
  TRY(host->api->GetTensorMutableData((OrtValue*)input, &src));
  TRY(host->api->GetTensorMutableData(output, &dst));
  const float* x = src;
  float* y = dst;
  for (size_t i = 0; i < count; ++i) y[i] = x[i] < 0 ? 0 : x[i]; /* NaN stays NaN */
  return NULL;
}

static void ORT_API_CALL relu_release(OrtKernelImpl* self) { free(self); }

static OrtStatus* ORT_API_CALL create_relu(void* state, const OrtKernelInfo* info, OrtKernelImpl** out) {
  (void)info; /* attributes and constant inputs of the node; Relu has none */
  const Host* host = state;
  *out = NULL;
  Relu* relu = calloc(1, sizeof(*relu));
  if (relu == NULL) return fail(host, ORT_FAIL, "There is no memory for a kernel.");
  relu->host = *host;
  relu->table.ort_version_supported = PLUGIN_API_VERSION;
  relu->table.Compute = relu_compute;
  relu->table.Release = relu_release;
  *out = &relu->table;
  return NULL;
}

/* ---- The EP: one for each session. It says which nodes it takes, and has the registry of its kernels. ---- */

typedef struct Ep {
  OrtEp table;
  Host host;
  OrtKernelRegistry* registry;
} Ep;

static OrtStatus* describe_relu(const Host* host, OrtKernelDefBuilder* builder, OrtKernelDef** out) {
  const OrtDataType* float_type = NULL;
  TRY(host->ep_api->KernelDefBuilder_SetOperatorType(builder, "Relu"));
  TRY(host->ep_api->KernelDefBuilder_SetDomain(builder, ""));
  TRY(host->ep_api->KernelDefBuilder_SetSinceVersion(builder, 6, 14)); /* Relu's versions 6, 13 and 14 */
  TRY(host->ep_api->KernelDefBuilder_SetExecutionProvider(builder, EP_NAME));
  TRY(host->ep_api->GetTensorDataType(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &float_type));
  TRY(host->ep_api->KernelDefBuilder_AddTypeConstraint(builder, "T", &float_type, 1));
  return host->ep_api->KernelDefBuilder_Build(builder, out);
}

static OrtStatus* fill_registry(Ep* ep) {
  const OrtEpApi* ep_api = ep->host.ep_api;
  OrtKernelDefBuilder* builder = NULL;
  TRY(ep_api->CreateKernelDefBuilder(&builder));
  OrtKernelDef* definition = NULL;
  OrtStatus* status = describe_relu(&ep->host, builder, &definition);
  ep_api->ReleaseKernelDefBuilder(builder);
  if (status != NULL) return status;
  /* The registry copies the definition, and hands &ep->host to create_relu as its state. */
  status = ep_api->KernelRegistry_AddKernel(ep->registry, definition, create_relu, &ep->host);
  ep_api->ReleaseKernelDef(definition);
  return status;
}

static const char* ORT_API_CALL ep_name(const OrtEp* self) {
  (void)self;
  return EP_NAME;
}

static OrtStatus* claim_nodes(Ep* ep, const OrtNode* const* nodes, size_t count, OrtEpGraphSupportInfo* support) {
  for (size_t i = 0; i < count; ++i) {
    const OrtKernelDef* definition = NULL; /* null: the registry has no kernel for this operator, version and type */
    TRY(ep->host.ep_api->EpGraphSupportInfo_LookUpKernel(support, nodes[i], &definition));
    if (definition != NULL) TRY(ep->host.ep_api->EpGraphSupportInfo_AddSingleNode(support, nodes[i]));
  }
  return NULL;
}

static OrtStatus* ORT_API_CALL ep_capability(OrtEp* self, const OrtGraph* graph, OrtEpGraphSupportInfo* support) {
  Ep* ep = (Ep*)self;
  size_t count = 0;
  TRY(ep->host.api->Graph_GetNumNodes(graph, &count));
  if (count == 0) return NULL;
  const OrtNode** nodes = calloc(count, sizeof(*nodes));
  if (nodes == NULL) return fail(&ep->host, ORT_FAIL, "There is no memory for %zu nodes.", count);
  OrtStatus* status = ep->host.api->Graph_GetNodes(graph, nodes, count);
  if (status == NULL) status = claim_nodes(ep, nodes, count, support);
  free(nodes);
  return status;
}

static OrtStatus* ORT_API_CALL ep_registry(OrtEp* self, const OrtKernelRegistry** out) {
  *out = ((Ep*)self)->registry;
  return NULL;
}

static void release_ep(Ep* ep) {
  if (ep->registry != NULL) ep->host.ep_api->ReleaseKernelRegistry(ep->registry);
  free(ep);
}

/* ---- The factory: one for the library. It offers devices, and makes all that belongs to them. ---- */

typedef struct Factory {
  OrtEpFactory table;
  Host host;
} Factory;

static const char* ORT_API_CALL factory_name(const OrtEpFactory* self) {
  (void)self;
  return EP_NAME;
}

static const char* ORT_API_CALL factory_vendor(const OrtEpFactory* self) {
  (void)self;
  return "Example";
}

static uint32_t ORT_API_CALL factory_vendor_id(const OrtEpFactory* self) {
  (void)self;
  return 0;
}

static const char* ORT_API_CALL factory_version(const OrtEpFactory* self) {
  (void)self;
  return "1.0.0"; /* of the plugin */
}

/* Offers the first CPU. A device with memory of its own also names its allocators here (EpDevice_AddAllocatorInfo). */
static OrtStatus* ORT_API_CALL factory_devices(OrtEpFactory* self, const OrtHardwareDevice* const* devices,
                                               size_t device_count, OrtEpDevice** offered, size_t room,
                                               size_t* offered_count) {
  const Host* host = &((Factory*)self)->host;
  *offered_count = 0;
  for (size_t i = 0; i < device_count && *offered_count < 1 && room > 0; ++i) {
    if (host->api->HardwareDevice_Type(devices[i]) != OrtHardwareDeviceType_CPU) continue;
    TRY(host->ep_api->CreateEpDevice(self, devices[i], NULL, NULL, &offered[0]));
    *offered_count = 1;
  }
  return NULL;
}

static OrtStatus* ORT_API_CALL factory_create_ep(OrtEpFactory* self, const OrtHardwareDevice* const* devices,
                                                 const OrtKeyValuePairs* const* metadata, size_t device_count,
                                                 const OrtSessionOptions* options, const OrtLogger* logger,
                                                 OrtEp** out) {
  (void)devices, (void)metadata, (void)device_count, (void)options, (void)logger;
  const Host* host = &((Factory*)self)->host;
  *out = NULL;
  Ep* ep = calloc(1, sizeof(*ep));
  if (ep == NULL) return fail(host, ORT_FAIL, "There is no memory for an EP.");
  ep->host = *host;
  ep->table.ort_version_supported = PLUGIN_API_VERSION;
  ep->table.GetName = ep_name;
  ep->table.GetCapability = ep_capability;
  ep->table.GetKernelRegistry = ep_registry;
  OrtStatus* status = host->ep_api->CreateKernelRegistry(&ep->registry);
  if (status == NULL) status = fill_registry(ep);
  if (status != NULL) {
    release_ep(ep);
    return status;
  }
  *out = &ep->table;
  return NULL;
}

static void ORT_API_CALL factory_release_ep(OrtEpFactory* self, OrtEp* ep) {
  (void)self;
  release_ep((Ep*)ep);
}

static bool ORT_API_CALL factory_stream_aware(const OrtEpFactory* self) {
  (void)self;
  return false; /* all work is done when Compute returns */
}

static OrtStatus* ORT_API_CALL factory_data_transfer(OrtEpFactory* self, OrtDataTransferImpl** out) {
  (void)self;
  *out = NULL; /* the device has no memory of its own to copy from or to */
  return NULL;
}

static OrtStatus* ORT_API_CALL factory_importer(OrtEpFactory* self, const OrtEpDevice* device,
                                                OrtExternalResourceImporterImpl** out) {
  return create_importer(&((Factory*)self)->host, device, out);
}

/* ---- The two functions that the host looks up in the library. ---- */

ORT_EXPORT OrtStatus* CreateEpFactories(const char* registered_name, const OrtApiBase* base, const OrtLogger* logger,
                                        OrtEpFactory** factories, size_t room, size_t* count) {
  (void)registered_name, (void)logger;
  *count = 0;
  const OrtApi* api = base->GetApi(PLUGIN_API_VERSION);
  if (api == NULL)
    return base->GetApi(1)->CreateStatus(ORT_NOT_IMPLEMENTED, "The plugin needs ONNX Runtime 1.24 or newer.");
  const Host host = {.api = api, .ep_api = api->GetEpApi()};
  if (room < 1) return fail(&host, ORT_INVALID_ARGUMENT, "The host has no room for a factory.");
  Factory* factory = calloc(1, sizeof(*factory));
  if (factory == NULL) return fail(&host, ORT_FAIL, "There is no memory for a factory.");
  factory->host = host;
  factory->table.ort_version_supported = PLUGIN_API_VERSION;
  factory->table.GetName = factory_name;
  factory->table.GetVendor = factory_vendor;
  factory->table.GetVendorId = factory_vendor_id;
  factory->table.GetVersion = factory_version;
  factory->table.GetSupportedDevices = factory_devices;
  factory->table.CreateEp = factory_create_ep;
  factory->table.ReleaseEp = factory_release_ep;
  factory->table.IsStreamAware = factory_stream_aware;
  factory->table.CreateDataTransfer = factory_data_transfer;
  factory->table.CreateExternalResourceImporterForDevice = factory_importer;
  factories[0] = &factory->table;
  *count = 1;
  return NULL;
}

ORT_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  free(factory);
  return NULL;
}
