/* Strings, sequences and maps: a session takes and gives them, and so does a custom operator. */
#include "effects.h"

/* StringConcat(words, words), ZipMap(scores), SequenceInsert(list, scores) and Shout(words) of domain test.ops. */
static const unsigned char model[] = {
    0x08, 0x08, 0x12, 0x00, 0x3a, 0xd3, 0x02, 0x0a, 0x23, 0x0a, 0x05, 0x77, 0x6f, 0x72, 0x64, 0x73, 0x0a, 0x05, 0x77,
    0x6f, 0x72, 0x64, 0x73, 0x12, 0x05, 0x74, 0x77, 0x69, 0x63, 0x65, 0x22, 0x0c, 0x53, 0x74, 0x72, 0x69, 0x6e, 0x67,
    0x43, 0x6f, 0x6e, 0x63, 0x61, 0x74, 0x0a, 0x45, 0x0a, 0x06, 0x73, 0x63, 0x6f, 0x72, 0x65, 0x73, 0x12, 0x04, 0x6d,
    0x61, 0x70, 0x73, 0x22, 0x06, 0x5a, 0x69, 0x70, 0x4d, 0x61, 0x70, 0x2a, 0x21, 0x0a, 0x13, 0x63, 0x6c, 0x61, 0x73,
    0x73, 0x6c, 0x61, 0x62, 0x65, 0x6c, 0x73, 0x5f, 0x73, 0x74, 0x72, 0x69, 0x6e, 0x67, 0x73, 0x4a, 0x02, 0x6e, 0x6f,
    0x4a, 0x03, 0x79, 0x65, 0x73, 0xa0, 0x01, 0x08, 0x3a, 0x0a, 0x61, 0x69, 0x2e, 0x6f, 0x6e, 0x6e, 0x78, 0x2e, 0x6d,
    0x6c, 0x0a, 0x26, 0x0a, 0x04, 0x6c, 0x69, 0x73, 0x74, 0x0a, 0x06, 0x73, 0x63, 0x6f, 0x72, 0x65, 0x73, 0x12, 0x06,
    0x6c, 0x6f, 0x6e, 0x67, 0x65, 0x72, 0x22, 0x0e, 0x53, 0x65, 0x71, 0x75, 0x65, 0x6e, 0x63, 0x65, 0x49, 0x6e, 0x73,
    0x65, 0x72, 0x74, 0x0a, 0x1e, 0x0a, 0x05, 0x77, 0x6f, 0x72, 0x64, 0x73, 0x12, 0x04, 0x6c, 0x6f, 0x75, 0x64, 0x22,
    0x05, 0x53, 0x68, 0x6f, 0x75, 0x74, 0x3a, 0x08, 0x74, 0x65, 0x73, 0x74, 0x2e, 0x6f, 0x70, 0x73, 0x12, 0x01, 0x67,
    0x5a, 0x14, 0x0a, 0x05, 0x77, 0x6f, 0x72, 0x64, 0x73, 0x12, 0x0b, 0x0a, 0x09, 0x08, 0x08, 0x12, 0x05, 0x0a, 0x03,
    0x12, 0x01, 0x6e, 0x5a, 0x19, 0x0a, 0x06, 0x73, 0x63, 0x6f, 0x72, 0x65, 0x73, 0x12, 0x0f, 0x0a, 0x0d, 0x08, 0x01,
    0x12, 0x09, 0x0a, 0x03, 0x12, 0x01, 0x72, 0x0a, 0x02, 0x08, 0x02, 0x5a, 0x10, 0x0a, 0x04, 0x6c, 0x69, 0x73, 0x74,
    0x12, 0x08, 0x22, 0x06, 0x0a, 0x04, 0x0a, 0x02, 0x08, 0x01, 0x62, 0x14, 0x0a, 0x05, 0x74, 0x77, 0x69, 0x63, 0x65,
    0x12, 0x0b, 0x0a, 0x09, 0x08, 0x08, 0x12, 0x05, 0x0a, 0x03, 0x12, 0x01, 0x6e, 0x62, 0x18, 0x0a, 0x04, 0x6d, 0x61,
    0x70, 0x73, 0x12, 0x10, 0x22, 0x0e, 0x0a, 0x0c, 0x2a, 0x0a, 0x08, 0x08, 0x12, 0x06, 0x0a, 0x04, 0x08, 0x01, 0x12,
    0x00, 0x62, 0x12, 0x0a, 0x06, 0x6c, 0x6f, 0x6e, 0x67, 0x65, 0x72, 0x12, 0x08, 0x22, 0x06, 0x0a, 0x04, 0x0a, 0x02,
    0x08, 0x01, 0x62, 0x13, 0x0a, 0x04, 0x6c, 0x6f, 0x75, 0x64, 0x12, 0x0b, 0x0a, 0x09, 0x08, 0x08, 0x12, 0x05, 0x0a,
    0x03, 0x12, 0x01, 0x6e, 0x42, 0x04, 0x0a, 0x00, 0x10, 0x14, 0x42, 0x0e, 0x0a, 0x0a, 0x61, 0x69, 0x2e, 0x6f, 0x6e,
    0x6e, 0x78, 0x2e, 0x6d, 0x6c, 0x10, 0x01, 0x42, 0x0c, 0x0a, 0x08, 0x74, 0x65, 0x73, 0x74, 0x2e, 0x6f, 0x70, 0x73,
    0x10, 0x01,
};

/* A kernel that reads strings and writes them with a mark behind. */
static void* create(const OrtCustomOp* op, const OrtApi* host, const OrtKernelInfo* info) {
  (void)op, (void)host, (void)info;
  return malloc(1);
}
static void destroy(void* kernel) { free(kernel); }
static void compute(void* kernel, OrtKernelContext* context) {
  const OrtValue* input = NULL;
  OrtValue* output = NULL;
  OrtTensorTypeAndShapeInfo* info = NULL;
  int64_t length = 0;
  int64_t i;
  (void)kernel;
  MUST(KernelContext_GetInput(context, 0, &input));
  MUST(GetTensorTypeAndShape(input, &info));
  MUST(GetDimensions(info, &length, 1));
  api->ReleaseTensorTypeAndShapeInfo(info);
  MUST(KernelContext_GetOutput(context, 0, &length, 1, &output));
  for (i = 0; i < length; ++i) {
    size_t bytes = 0;
    char text[64] = {0};
    MUST(GetStringTensorElementLength(input, (size_t)i, &bytes));
    if (bytes > sizeof(text) - 2) bytes = sizeof(text) - 2;
    MUST(GetStringTensorElement(input, sizeof(text), (size_t)i, text));
    text[bytes] = '!';
    MUST(FillStringTensorElement(output, text, (size_t)i));
  }
}
static const char* name_of(const OrtCustomOp* op) {
  (void)op;
  return "Shout";
}
static const char* provider_of(const OrtCustomOp* op) {
  (void)op;
  return NULL;
}
static ONNXTensorElementDataType type_of(const OrtCustomOp* op, size_t index) {
  (void)op, (void)index;
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
}
static OrtMemType in_default_memory(const OrtCustomOp* op, size_t index) {
  (void)op, (void)index;
  return OrtMemTypeDefault;
}
static size_t one(const OrtCustomOp* op) {
  (void)op;
  return 1;
}
static OrtCustomOpInputOutputCharacteristic required(const OrtCustomOp* op, size_t index) {
  (void)op, (void)index;
  return INPUT_OUTPUT_REQUIRED;
}

static void print_strings(const char* what, const OrtValue* value) {
  OrtTensorTypeAndShapeInfo* info = NULL;
  size_t count = 0, i;
  MUST(GetTensorTypeAndShape(value, &info));
  MUST(GetTensorShapeElementCount(info, &count));
  api->ReleaseTensorTypeAndShapeInfo(info);
  printf("%s:", what);
  for (i = 0; i < count; ++i) {
    size_t bytes = 0;
    char text[64] = {0};
    MUST(GetStringTensorElementLength(value, i, &bytes));
    MUST(GetStringTensorElement(value, sizeof(text), i, text));
    printf(" \"%.*s\"", (int)bytes, text);
  }
  printf("\n");
}

static void print_floats(const char* what, OrtValue* value) {
  OrtTensorTypeAndShapeInfo* info = NULL;
  size_t count = 0, i;
  float* numbers = NULL;
  MUST(GetTensorTypeAndShape(value, &info));
  MUST(GetTensorShapeElementCount(info, &count));
  api->ReleaseTensorTypeAndShapeInfo(info);
  MUST(GetTensorMutableData(value, (void**)&numbers));
  printf("%s:", what);
  for (i = 0; i < count; ++i) printf(" %g", (double)numbers[i]);
  printf("\n");
}

static void print_types(OrtSession* session) {
  size_t i;
  for (i = 0; i < 7; ++i) {
    OrtTypeInfo* type = NULL;
    const OrtSequenceTypeInfo* sequence = NULL;
    enum ONNXType kind = (enum ONNXType)99;
    if (i < 3) {
      MUST(SessionGetInputTypeInfo(session, i, &type));
    } else {
      MUST(SessionGetOutputTypeInfo(session, i - 3, &type));
    }
    MUST(GetOnnxTypeFromTypeInfo(type, &kind));
    printf("%s %d is of kind %d", i < 3 ? "input" : "output", (int)(i < 3 ? i : i - 3), (int)kind);
    MUST(CastTypeInfoToSequenceTypeInfo(type, &sequence));
    if (sequence != NULL) {
      OrtTypeInfo* element = NULL;
      MUST(GetSequenceElementType(sequence, &element));
      MUST(GetOnnxTypeFromTypeInfo(element, &kind));
      printf(", of elements of kind %d", (int)kind);
      api->ReleaseTypeInfo(element);
    }
    printf("\n");
    api->ReleaseTypeInfo(type);
  }
}

static void run(void) {
  static OrtCustomOp shout;
  const char* const input_names[] = {"words", "scores", "list"};
  const char* const output_names[] = {"twice", "maps", "longer", "loud"};
  const char* const words[] = {"red", "", "a longer text than fits inline"};
  float numbers[] = {0.25f, 0.75f, 1.0f, 0.0f};
  const int64_t three = 3, four[] = {2, 2};
  OrtEnv* env = NULL;
  OrtSessionOptions* options = NULL;
  OrtCustomOpDomain* domain = NULL;
  OrtSession* session = NULL;
  OrtAllocator* allocator = NULL;
  OrtMemoryInfo* memory = NULL;
  OrtValue *inputs[3] = {NULL, NULL, NULL}, *outputs[4] = {NULL, NULL, NULL, NULL};
  size_t count = 0, i;
  shout.version = 13; /* without what newer versions add */
  shout.CreateKernel = create;
  shout.KernelDestroy = destroy;
  shout.KernelCompute = compute;
  shout.GetName = name_of;
  shout.GetExecutionProviderType = provider_of;
  shout.GetInputType = type_of;
  shout.GetInputMemoryType = in_default_memory;
  shout.GetInputTypeCount = one;
  shout.GetOutputType = type_of;
  shout.GetOutputTypeCount = one;
  shout.GetInputCharacteristic = required;
  shout.GetOutputCharacteristic = required;
  MUST(CreateEnv(ORT_LOGGING_LEVEL_FATAL, "containers", &env));
  MUST(CreateSessionOptions(&options));
  MUST(CreateCustomOpDomain("test.ops", &domain));
  MUST(CustomOpDomain_Add(domain, &shout));
  MUST(AddCustomOpDomain(options, domain));
  MUST(CreateSessionFromArray(env, model, sizeof(model), options, &session));
  print_types(session);
  MUST(GetAllocatorWithDefaultOptions(&allocator));
  MUST(CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory));
  MUST(CreateTensorAsOrtValue(allocator, &three, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, &inputs[0]));
  MUST(FillStringTensor(inputs[0], words, 3));
  MUST(CreateTensorWithDataAsOrtValue(memory, numbers, sizeof(numbers), four, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
                                      &inputs[1]));
  MUST(CreateValue((const OrtValue* const*)&inputs[1], 1, ONNX_TYPE_SEQUENCE, &inputs[2]));
  CALL(Run(session, NULL, input_names, (const OrtValue* const*)inputs, 3, output_names, 4, outputs));
  print_strings("twice", outputs[0]);
  print_strings("loud", outputs[3]);
  MUST(GetValueCount(outputs[1], &count));
  printf("%zu maps\n", count);
  for (i = 0; i < count; ++i) {
    OrtValue *map = NULL, *keys = NULL, *values = NULL;
    MUST(GetValue(outputs[1], (int)i, allocator, &map));
    MUST(GetValue(map, 0, allocator, &keys));
    MUST(GetValue(map, 1, allocator, &values));
    print_strings("keys", keys);
    print_floats("values", values);
    api->ReleaseValue(values);
    api->ReleaseValue(keys);
    api->ReleaseValue(map);
  }
  MUST(GetValueCount(outputs[2], &count));
  printf("%zu tensors\n", count);
  for (i = 0; i < count; ++i) {
    OrtValue* tensor = NULL;
    MUST(GetValue(outputs[2], (int)i, allocator, &tensor));
    print_floats("tensor", tensor);
    api->ReleaseValue(tensor);
  }
  /* Outputs that the program gives: strings are put into its tensor. */
  MUST(FillStringTensorElement(inputs[0], "other", 1));
  api->ReleaseValue(outputs[0]);
  MUST(CreateTensorAsOrtValue(allocator, &three, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, &outputs[0]));
  CALL(Run(session, NULL, input_names, (const OrtValue* const*)inputs, 3, output_names, 1, outputs));
  print_strings("twice again", outputs[0]);
  for (i = 0; i < 4; ++i) api->ReleaseValue(outputs[i]);
  for (i = 0; i < 3; ++i) api->ReleaseValue(inputs[i]);
  api->ReleaseMemoryInfo(memory);
  api->ReleaseSession(session);
  api->ReleaseCustomOpDomain(domain);
  api->ReleaseSessionOptions(options);
  api->ReleaseEnv(env);
}
