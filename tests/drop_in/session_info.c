/* Model information of a session: counts, names, types with symbolic dimensions, overridable initializers, metadata. */
#include "drop_in.h"

typedef OrtStatus* (*NameFn)(const OrtSession*, size_t, OrtAllocator*, char**);
typedef OrtStatus* (*TypeFn)(const OrtSession*, size_t, OrtTypeInfo**);

static void print_all(const char* what, const OrtSession* session, size_t count, NameFn name_of, TypeFn type_of) {
  size_t i;
  char label[64];
  printf("%s: %d\n", what, (int)count);
  for (i = 0; i <= count; ++i) { /* one past the end as well */
    char* name = NULL;
    OrtTypeInfo* type = NULL;
    snprintf(label, sizeof(label), "%s %d", what, (int)i);
    if (check(label, name_of(session, i, allocator, &name))) {
      printf("  name %s\n", name);
      MUST(ort->AllocatorFree(allocator, name));
    }
    if (check(label, type_of(session, i, &type))) {
      enum ONNXType kind;
      const OrtTensorTypeAndShapeInfo* info = NULL;
      const char* denotation = NULL;
      size_t length = 0;
      MUST(ort->GetOnnxTypeFromTypeInfo(type, &kind));
      MUST(ort->CastTypeInfoToTensorInfo(type, &info));
      MUST(ort->GetDenotationFromTypeInfo(type, &denotation, &length));
      printf("  kind %d, denotation of %d\n", (int)kind, (int)length);
      print_info("  info", info);
      ort->ReleaseTypeInfo(type);
    }
  }
}

static void describe(const char* name) {
  OrtSession* session = must_open(name);
  size_t count = 0;
  printf("== %s\n", name);
  MUST(ort->SessionGetInputCount(session, &count));
  print_all("input", session, count, ort->SessionGetInputName, ort->SessionGetInputTypeInfo);
  MUST(ort->SessionGetOutputCount(session, &count));
  print_all("output", session, count, ort->SessionGetOutputName, ort->SessionGetOutputTypeInfo);
  MUST(ort->SessionGetOverridableInitializerCount(session, &count));
  print_all("overridable", session, count, ort->SessionGetOverridableInitializerName,
            ort->SessionGetOverridableInitializerTypeInfo);
  ort->ReleaseSession(session);
}

static void metadata(const char* name) {
  typedef OrtStatus*(ORT_API_CALL * TextFn)(const OrtModelMetadata*, OrtAllocator*, char**);
  const TextFn texts[] = {ort->ModelMetadataGetProducerName, ort->ModelMetadataGetGraphName,
                          ort->ModelMetadataGetDomain, ort->ModelMetadataGetDescription,
                          ort->ModelMetadataGetGraphDescription};
  const char* labels[] = {"producer", "graph", "domain", "description", "graph description"};
  const char* keys[] = {"author", "empty", "labels", "absent"};
  OrtSession* session = must_open(name);
  OrtModelMetadata* data = NULL;
  size_t i;
  int64_t version = -1, count = -1;
  char** all = NULL;
  printf("== metadata of %s\n", name);
  MUST(ort->SessionGetModelMetadata(session, &data));
  ort->ReleaseSession(session); /* it is a copy */
  for (i = 0; i < 5; ++i) {
    char* text = NULL;
    MUST(texts[i](data, allocator, &text));
    printf("%s: \"%s\"\n", labels[i], text);
    MUST(ort->AllocatorFree(allocator, text));
  }
  MUST(ort->ModelMetadataGetVersion(data, &version));
  printf("version: %d\n", (int)version);
  for (i = 0; i < 4; ++i) {
    char* text = NULL;
    MUST(ort->ModelMetadataLookupCustomMetadataMap(data, allocator, keys[i], &text));
    printf("%s: %s%s\n", keys[i], text == NULL ? "null" : "=", text == NULL ? "" : text);
    if (text != NULL) MUST(ort->AllocatorFree(allocator, text));
  }
  MUST(ort->ModelMetadataGetCustomMetadataMapKeys(data, allocator, &all, &count));
  printf("keys: %d\n", (int)count);
  /* Their order is nobody's promise. */
  for (i = 0; i < 4; ++i) {
    int64_t k;
    int found = 0;
    for (k = 0; k < count; ++k) found += strcmp(all[k], keys[i]) == 0;
    printf("  %s listed %d times\n", keys[i], found);
  }
  for (i = 0; (int64_t)i < count; ++i) MUST(ort->AllocatorFree(allocator, all[i]));
  if (all != NULL) MUST(ort->AllocatorFree(allocator, all));
  ort->ReleaseModelMetadata(data);
}

static void devices(const char* name) {
  OrtSession* session = must_open(name);
  const OrtMemoryInfo* infos[5] = {NULL};
  const char* text = NULL;
  OrtMemoryInfoDeviceType device;
  printf("== devices of %s\n", name);
  if (check("memory of inputs", ort->SessionGetMemoryInfoForInputs(session, infos, 2))) {
    MUST(ort->MemoryInfoGetName(infos[0], &text));
    ort->MemoryInfoGetDeviceType(infos[1], &device);
    printf("  %s, device type %d\n", text, (int)device);
  }
  if (check("memory of outputs", ort->SessionGetMemoryInfoForOutputs(session, infos, 1))) {
    MUST(ort->MemoryInfoGetName(infos[0], &text));
    printf("  %s\n", text);
  }
  check("memory of 5 inputs", ort->SessionGetMemoryInfoForInputs(session, infos, 5));
  ort->ReleaseSession(session);
}

int main(int argc, char** argv) {
  start(argc, argv);
  describe("add.onnx");
  describe("types.onnx");
  describe("nonzero.onnx");
  describe("scalar.onnx");
  describe("overridable.onnx");
  describe("denoted.onnx");
  metadata("add.onnx");
  metadata("scalar.onnx");
  devices("add.onnx");
  return finish();
}
