/* Kernel definitions and registries of plugin EPs, and the data types that constrain them. */
#include "effects.h"

static const OrtEpApi* ep_api;
#define EP_CALL(call) show(#call, ep_api->call)

static OrtStatus* ORT_API_CALL make_nothing(void* state, const OrtKernelInfo* info, OrtKernelImpl** out) {
  (void)state, (void)info;
  *out = NULL;
  return NULL;
}

static void describe(const OrtKernelDef* def) {
  int start = -9, end = -9;
  size_t i;
  if (def == NULL) return;
  printf("  operator \"%s\" domain \"%s\" ep \"%s\"\n", text_or_null(ep_api->KernelDef_GetOperatorType(def)),
         text_or_null(ep_api->KernelDef_GetDomain(def)), text_or_null(ep_api->KernelDef_GetExecutionProvider(def)));
  EP_CALL(KernelDef_GetSinceVersion(def, &start, &end));
  printf("  versions %d to %d\n", start, end);
  for (i = 0; i < 4; ++i) {
    OrtMemType type = (OrtMemType)77;
    EP_CALL(KernelDef_GetInputMemType(def, i, &type));
    printf("  input %zu in %d\n", i, (int)type);
    type = (OrtMemType)77;
    EP_CALL(KernelDef_GetOutputMemType(def, i, &type));
    printf("  output %zu in %d\n", i, (int)type);
  }
}

static void data_types(void) {
  const OrtDataType* first = NULL;
  const OrtDataType* again = NULL;
  int type;
  for (type = -1; type <= 27; ++type) {
    char what[48];
    first = NULL;
    snprintf(what, sizeof(what), "GetTensorDataType %d", type);
    show(what, ep_api->GetTensorDataType((ONNXTensorElementDataType)type, &first));
    printf("  found %d\n", first != NULL);
  }
  EP_CALL(GetTensorDataType(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &first));
  EP_CALL(GetTensorDataType(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &again));
  printf("one object %d\n", first == again);
}

static void incomplete(void) {
  OrtKernelDefBuilder* builder = NULL;
  OrtKernelDef* def = NULL;
  EP_CALL(CreateKernelDefBuilder(&builder));
  EP_CALL(KernelDefBuilder_Build(builder, &def));
  printf("  def %d\n", def != NULL);
  describe(def);
  ep_api->ReleaseKernelDef(def);
  ep_api->ReleaseKernelDefBuilder(builder);
}

static void misuse(OrtKernelDefBuilder* builder, const OrtDataType* type) {
  int index = 0;
  EP_CALL(KernelDefBuilder_SetOperatorType(builder, NULL));
  EP_CALL(KernelDefBuilder_SetDomain(builder, NULL));
  EP_CALL(KernelDefBuilder_SetExecutionProvider(builder, NULL));
  EP_CALL(KernelDefBuilder_SetSinceVersion(builder, 5, 3));
  EP_CALL(KernelDefBuilder_SetSinceVersion(builder, 0, 3));
  EP_CALL(KernelDefBuilder_SetSinceVersion(builder, -1, 3));
  EP_CALL(KernelDefBuilder_SetInputMemType(builder, 0, (OrtMemType)9));
  EP_CALL(KernelDefBuilder_SetOutputMemType(builder, 0, (OrtMemType)9));
  EP_CALL(KernelDefBuilder_AddTypeConstraint(builder, NULL, &type, 1));
  EP_CALL(KernelDefBuilder_AddTypeConstraint(builder, "X", &type, 0));
  EP_CALL(KernelDefBuilder_AddTypeConstraint(builder, "X", NULL, 1));
  EP_CALL(KernelDefBuilder_AddInputOutputAliases(builder, NULL, NULL, 1));
  EP_CALL(KernelDefBuilder_AddInputOutputAliases(builder, &index, &index, 0));
  EP_CALL(KernelDefBuilder_AddInputOutputMutableAliases(builder, NULL, &index, 1));
}

static void complete(void) {
  OrtKernelDefBuilder* builder = NULL;
  OrtKernelDef* def = NULL;
  OrtKernelRegistry* registry = NULL;
  const OrtDataType* type = NULL;
  int from[2] = {0, 1}, to[2] = {1, 0};
  EP_CALL(GetTensorDataType(ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, &type));
  EP_CALL(CreateKernelDefBuilder(&builder));
  EP_CALL(KernelDefBuilder_SetOperatorType(builder, "Add"));
  EP_CALL(KernelDefBuilder_SetDomain(builder, "ai.onnx"));
  EP_CALL(KernelDefBuilder_SetSinceVersion(builder, 7, 13));
  EP_CALL(KernelDefBuilder_SetExecutionProvider(builder, "SomeEp"));
  EP_CALL(KernelDefBuilder_SetInputMemType(builder, 1, OrtMemTypeCPUInput));
  EP_CALL(KernelDefBuilder_SetInputMemType(builder, 2, OrtMemTypeDefault));
  EP_CALL(KernelDefBuilder_SetOutputMemType(builder, 0, OrtMemTypeCPUOutput));
  EP_CALL(KernelDefBuilder_SetOutputMemType(builder, 2, OrtMemTypeCPU));
  EP_CALL(KernelDefBuilder_AddTypeConstraint(builder, "T", &type, 1));
  EP_CALL(KernelDefBuilder_AddInputOutputAliases(builder, from, to, 2));
  EP_CALL(KernelDefBuilder_AddInputOutputMutableAliases(builder, from, to, 1));
  misuse(builder, type);
  EP_CALL(KernelDefBuilder_Build(builder, &def));
  describe(def);
  EP_CALL(CreateKernelRegistry(&registry));
  EP_CALL(KernelRegistry_AddKernel(registry, def, make_nothing, NULL));
  EP_CALL(KernelRegistry_AddKernel(registry, def, make_nothing, NULL));
  EP_CALL(KernelRegistry_AddKernel(registry, def, NULL, NULL));
  EP_CALL(KernelRegistry_AddKernel(registry, NULL, make_nothing, NULL));
  EP_CALL(KernelRegistry_AddKernel(NULL, def, make_nothing, NULL));
  ep_api->ReleaseKernelDef(def);
  ep_api->ReleaseKernelRegistry(registry);
  ep_api->ReleaseKernelDefBuilder(builder);
}

static void run(void) {
  OrtEnv* env = NULL;
  MUST(CreateEnv(ORT_LOGGING_LEVEL_FATAL, "effects", &env));
  ep_api = api->GetEpApi();
  data_types();
  incomplete();
  complete();
  ep_api->ReleaseKernelDef(NULL);
  ep_api->ReleaseKernelRegistry(NULL);
  ep_api->ReleaseKernelDefBuilder(NULL);
  ep_api->ReleaseKernelImpl(NULL);
  api->ReleaseEnv(env);
  printf("released\n");
}
