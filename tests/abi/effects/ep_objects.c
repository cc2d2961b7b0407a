/* Objects of the EP API that need no EP: profiling events, memory devices, operator schemas. */
#include "effects.h"

static const OrtEpApi* ep_api;
#define EP_CALL(call) show(#call, ep_api->call)

static void events(void) {
  const char* keys[2] = {"shape", "stream"};
  const char* values[2] = {"[1,2]", "3"};
  const char* no_key[1] = {NULL};
  OrtProfilingEvent* event = NULL;
  OrtProfilingEventCategory category = (OrtProfilingEventCategory)9;
  const char* text = NULL;
  int64_t number = -9;
  EP_CALL(CreateProfilingEvent(OrtProfilingEventCategory_KERNEL, 11, 22, "matmul", 1000, 250, keys, values, 2, &event));
  EP_CALL(ProfilingEvent_GetCategory(event, &category));
  printf("  %d\n", (int)category);
  EP_CALL(ProfilingEvent_GetName(event, &text));
  printf("  %s\n", text_or_null(text));
  EP_CALL(ProfilingEvent_GetTimestampUs(event, &number));
  printf("  %d\n", (int)number);
  EP_CALL(ProfilingEvent_GetDurationUs(event, &number));
  printf("  %d\n", (int)number);
  EP_CALL(ProfilingEvent_GetArgValue(event, "stream", &text));
  printf("  %s\n", text_or_null(text));
  EP_CALL(ProfilingEvent_GetArgValue(event, "missing", &text));
  printf("  %s\n", text_or_null(text));
  EP_CALL(ProfilingEvent_GetArgValue(event, NULL, &text));
  EP_CALL(ProfilingEvent_GetArgValue(event, "stream", NULL));
  EP_CALL(ProfilingEvent_GetName(event, NULL));
  EP_CALL(ProfilingEvent_GetName(NULL, &text));
  EP_CALL(ProfilingEvent_GetCategory(NULL, &category));
  EP_CALL(ProfilingEvent_GetTimestampUs(event, NULL));
  ep_api->ReleaseProfilingEvent(event);
  event = NULL;
  EP_CALL(CreateProfilingEvent((OrtProfilingEventCategory)17, 1, 2, "odd", 0, 0, NULL, NULL, 0, &event));
  printf("  %d\n", event != NULL);
  ep_api->ReleaseProfilingEvent(event);
  event = NULL;
  EP_CALL(CreateProfilingEvent(OrtProfilingEventCategory_NODE, 1, 2, "negative", -5, -6, NULL, NULL, 0, &event));
  printf("  %d\n", event != NULL);
  ep_api->ReleaseProfilingEvent(event);
  event = NULL;
  EP_CALL(CreateProfilingEvent(OrtProfilingEventCategory_NODE, 1, 2, NULL, 0, 0, NULL, NULL, 0, &event));
  EP_CALL(CreateProfilingEvent(OrtProfilingEventCategory_NODE, 1, 2, "x", 0, 0, NULL, values, 2, &event));
  EP_CALL(CreateProfilingEvent(OrtProfilingEventCategory_NODE, 1, 2, "x", 0, 0, keys, NULL, 2, &event));
  EP_CALL(CreateProfilingEvent(OrtProfilingEventCategory_NODE, 1, 2, "x", 0, 0, no_key, values, 1, &event));
  EP_CALL(CreateProfilingEvent(OrtProfilingEventCategory_NODE, 1, 2, "x", 0, 0, NULL, NULL, 0, NULL));
  EP_CALL(ProfilingEventsContainer_AddEvents(NULL, NULL, 0));
  ep_api->ReleaseProfilingEvent(NULL);
}

static void memory(void) {
  OrtMemoryInfo *gpu = NULL, *host = NULL, *same = NULL;
  OrtValue* value = NULL;
  const OrtMemoryDevice *a, *b, *c;
  OrtAllocator* allocator = NULL;
  int64_t dims[1] = {2};
  MUST(CreateMemoryInfo_V2("Some", OrtMemoryInfoDeviceType_GPU, 0x10de, 3, OrtDeviceMemoryType_DEFAULT, 0,
                           OrtDeviceAllocator, &gpu));
  MUST(CreateMemoryInfo_V2("Other", OrtMemoryInfoDeviceType_GPU, 0x10de, 3, OrtDeviceMemoryType_DEFAULT, 0,
                           OrtDeviceAllocator, &same));
  MUST(CreateMemoryInfo_V2("Some", OrtMemoryInfoDeviceType_GPU, 0x10de, 3, OrtDeviceMemoryType_HOST_ACCESSIBLE, 0,
                           OrtDeviceAllocator, &host));
  a = ep_api->MemoryInfo_GetMemoryDevice(gpu);
  b = ep_api->MemoryInfo_GetMemoryDevice(same);
  c = ep_api->MemoryInfo_GetMemoryDevice(host);
  printf("type %d kind %d vendor 0x%x id %u\n", (int)ep_api->MemoryDevice_GetDeviceType(a),
         (int)ep_api->MemoryDevice_GetMemoryType(a), ep_api->MemoryDevice_GetVendorId(a),
         ep_api->MemoryDevice_GetDeviceId(a));
  printf("kind %d\n", (int)ep_api->MemoryDevice_GetMemoryType(c));
  printf("equal %d %d %d\n", ep_api->MemoryDevice_AreEqual(a, a), ep_api->MemoryDevice_AreEqual(a, b),
         ep_api->MemoryDevice_AreEqual(a, c));
  MUST(GetAllocatorWithDefaultOptions(&allocator));
  MUST(CreateTensorAsOrtValue(allocator, dims, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
  a = ep_api->Value_GetMemoryDevice(value);
  printf("a tensor's: %d", a != NULL);
  if (a != NULL)
    printf(" type %d kind %d", (int)ep_api->MemoryDevice_GetDeviceType(a), (int)ep_api->MemoryDevice_GetMemoryType(a));
  printf("\n");
  api->ReleaseValue(value);
  api->ReleaseMemoryInfo(gpu);
  api->ReleaseMemoryInfo(same);
  api->ReleaseMemoryInfo(host);
}

static void schema_of(const char* name, int version, const char* domain) {
  OrtOpSchema* schema = NULL;
  size_t count = 0, i, j;
  int since = -9;
  printf("schema \"%s\" %d \"%s\"\n", text_or_null(name), version, text_or_null(domain));
  EP_CALL(GetOpSchema(name, version, domain, &schema));
  if (schema == NULL) {
    printf("  none\n");
    return;
  }
  EP_CALL(OpSchema_GetSinceVersion(schema, &since));
  printf("  since %d\n", since);
  EP_CALL(OpSchema_GetNumInputs(schema, &count));
  for (i = 0; i <= count; ++i) {
    const char* text = NULL;
    const OrtOpSchemaTypeConstraint* constraint = NULL;
    EP_CALL(OpSchema_GetInputName(schema, i, &text));
    printf("  input %zu %s\n", i, text_or_null(text));
    if (EP_CALL(OpSchema_GetInputTypeConstraint(schema, i, &constraint)) && constraint != NULL) {
      EP_CALL(OpSchemaTypeConstraint_GetTypeParamName(constraint, &text));
      printf("  of %s\n", text_or_null(text));
    }
  }
  EP_CALL(OpSchema_GetNumOutputs(schema, &count));
  for (i = 0; i <= count; ++i) {
    const char* text = NULL;
    const OrtOpSchemaTypeConstraint* constraint = NULL;
    EP_CALL(OpSchema_GetOutputName(schema, i, &text));
    EP_CALL(OpSchema_GetOutputTypeConstraint(schema, i, &constraint));
    printf("  output %zu %s constraint %d\n", i, text_or_null(text), constraint != NULL);
  }
  EP_CALL(OpSchema_GetTypeConstraintCount(schema, &count));
  printf("  %zu constraints\n", count);
  for (i = 0; i <= count; ++i) {
    const OrtOpSchemaTypeConstraint* constraint = NULL;
    const char* const* types = NULL;
    const char* text = NULL;
    const size_t* indices = NULL;
    size_t size = 0, length = 0;
    if (!EP_CALL(OpSchema_GetTypeConstraint(schema, i, &constraint)) || constraint == NULL) continue;
    EP_CALL(OpSchemaTypeConstraint_GetTypeParamName(constraint, &text));
    EP_CALL(OpSchemaTypeConstraint_GetAllowedTypes(constraint, &types, &size));
    for (j = 0; j < size; ++j) length += strlen(types[j]);
    printf("  %s has %zu types of %zu letters:", text_or_null(text), size, length);
    EP_CALL(OpSchemaTypeConstraint_GetInputIndices(constraint, &indices, &size));
    for (j = 0; j < size; ++j) printf(" in %zu", indices[j]);
    printf("\n");
    EP_CALL(OpSchemaTypeConstraint_GetOutputIndices(constraint, &indices, &size));
    for (j = 0; j < size; ++j) printf(" out %zu", indices[j]);
    printf("\n");
  }
  ep_api->ReleaseOpSchema(schema);
}

static void run(void) {
  OrtEnv* env = NULL;
  OrtOpSchema* schema = NULL;
  OrtKeyValuePairs* entries = NULL;
  MUST(CreateEnv(ORT_LOGGING_LEVEL_FATAL, "effects", &env));
  ep_api = api->GetEpApi();
  events();
  memory();
  schema_of("Add", 13, "");
  schema_of("Add", 12, "");
  schema_of("Conv", 20, "");
  schema_of("Clip", 13, "");
  schema_of("Concat", 13, "");
  schema_of("Split", 18, "");
  schema_of("Reshape", 14, "");
  schema_of("If", 16, "");
  schema_of("NoSuchOperator", 13, "");
  schema_of("Add", 0, "");
  schema_of("Add", 13, "no.such.domain");
  EP_CALL(GetOpSchema(NULL, 13, "", &schema));
  EP_CALL(GetOpSchema("Add", 13, NULL, &schema));
  printf("  %d\n", schema != NULL);
  ep_api->ReleaseOpSchema(schema);
  EP_CALL(GetOpSchema("Add", 13, "", NULL));
  ep_api->ReleaseOpSchema(NULL);
  EP_CALL(GetEnvConfigEntries(&entries));
  printf("entries %d\n", entries != NULL);
  api->ReleaseKeyValuePairs(entries);
  api->ReleaseEnv(env);
}
