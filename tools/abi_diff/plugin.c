/* An EP that takes no node: it hands the graph that it is shown to `abi_diff_hook`, which the player sets. */
#include <stdbool.h>
#include <stddef.h>
#include <tenon/onnxruntime_c_api.h>

#define API 24

ORT_EXPORT void (*abi_diff_hook)(const OrtGraph*, OrtEpGraphSupportInfo*);

static const OrtApi* api;
static OrtEpFactory factory;
static OrtEp ep;

static OrtStatus* ORT_API_CALL get_capability(OrtEp* self, const OrtGraph* graph, OrtEpGraphSupportInfo* support) {
  (void)self;
  if (abi_diff_hook != NULL) abi_diff_hook(graph, support);
  return NULL;
}
static OrtStatus* ORT_API_CALL compile(OrtEp* self, const OrtGraph** graphs, const OrtNode** nodes, size_t count,
                                       OrtNodeComputeInfo** compiled, OrtNode** context_nodes) {
  return (void)self, (void)graphs, (void)nodes, (void)count, (void)compiled, (void)context_nodes, NULL;
}
static void ORT_API_CALL release_compiled(OrtEp* self, OrtNodeComputeInfo** compiled, size_t count) {
  (void)self, (void)compiled, (void)count;
}
static const char* ORT_API_CALL ep_name(const OrtEp* self) { return (void)self, "AbiDiffExecutionProvider"; }

static OrtStatus* ORT_API_CALL get_devices(OrtEpFactory* self, const OrtHardwareDevice* const* devices, size_t count,
                                           OrtEpDevice** offered, size_t room, size_t* offered_count) {
  *offered_count = 0;
  for (size_t i = 0; i < count && *offered_count < 1 && room > 0; ++i) {
    if (api->HardwareDevice_Type(devices[i]) != OrtHardwareDeviceType_CPU) continue;
    OrtStatus* status = api->GetEpApi()->CreateEpDevice(self, devices[i], NULL, NULL, &offered[0]);
    if (status != NULL) return status;
    *offered_count = 1;
  }
  return NULL;
}
static OrtStatus* ORT_API_CALL create_ep(OrtEpFactory* self, const OrtHardwareDevice* const* devices,
                                         const OrtKeyValuePairs* const* metadata, size_t device_count,
                                         const OrtSessionOptions* options, const OrtLogger* logger, OrtEp** out) {
  (void)self, (void)devices, (void)metadata, (void)device_count, (void)options, (void)logger;
  return *out = &ep, NULL;
}
static void ORT_API_CALL release_ep(OrtEpFactory* self, OrtEp* one) { (void)self, (void)one; }
static const char* ORT_API_CALL name(const OrtEpFactory* self) { return (void)self, "AbiDiffExecutionProvider"; }
static const char* ORT_API_CALL vendor(const OrtEpFactory* self) { return (void)self, "Example"; }
static const char* ORT_API_CALL version(const OrtEpFactory* self) { return (void)self, "1.0.0"; }
static bool ORT_API_CALL has_streams(const OrtEpFactory* self) { return (void)self, false; }
static OrtStatus* ORT_API_CALL get_transfer(OrtEpFactory* self, OrtDataTransferImpl** out) {
  return (void)self, *out = NULL, NULL;
}

ORT_EXPORT OrtStatus* CreateEpFactories(const char* registered_name, const OrtApiBase* base, const OrtLogger* logger,
                                        OrtEpFactory** factories, size_t room, size_t* count) {
  (void)registered_name, (void)logger, (void)room;
  api = base->GetApi(API);
  factory = (OrtEpFactory){.ort_version_supported = API,
                           .GetName = name,
                           .GetVendor = vendor,
                           .GetVersion = version,
                           .GetSupportedDevices = get_devices,
                           .CreateEp = create_ep,
                           .ReleaseEp = release_ep,
                           .CreateDataTransfer = get_transfer,
                           .IsStreamAware = has_streams};
  ep = (OrtEp){.ort_version_supported = API,
               .GetName = ep_name,
               .GetCapability = get_capability,
               .Compile = compile,
               .ReleaseNodeComputeInfos = release_compiled};
  factories[0] = &factory;
  return *count = 1, NULL;
}

ORT_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* one) { return (void)one, NULL; }
