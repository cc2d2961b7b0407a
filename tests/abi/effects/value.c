/* Values: tensor views, owned tensors, strings, sequences and maps, and refusals. */
#include "effects.h"

static OrtAllocator* allocator;
static OrtMemoryInfo* cpu;

static void describe(const char* what, const OrtValue* value) {
  int is_tensor = 99, has_value = 99, is_sparse = 99;
  enum ONNXType kind = (enum ONNXType)99;
  OrtTensorTypeAndShapeInfo* shape = NULL;
  OrtTypeInfo* type = NULL;
  size_t size = 9999;
  if (value == NULL) {
    printf("%s: null\n", what);
    return;
  }
  MUST(IsTensor(value, &is_tensor));
  MUST(HasValue(value, &has_value));
  MUST(IsSparseTensor(value, &is_sparse));
  MUST(GetValueType(value, &kind));
  printf("%s: tensor %d has_value %d sparse %d kind %d\n", what, is_tensor, has_value, is_sparse, (int)kind);
  if (show("  GetTypeInfo", api->GetTypeInfo(value, &type))) {
    enum ONNXType type_kind = (enum ONNXType)99;
    MUST(GetOnnxTypeFromTypeInfo(type, &type_kind));
    printf("  type kind %d\n", (int)type_kind);
  }
  api->ReleaseTypeInfo(type);
  if (show("  GetTensorTypeAndShape", api->GetTensorTypeAndShape(value, &shape))) {
    ONNXTensorElementDataType element = (ONNXTensorElementDataType)99;
    size_t rank = 99, count = 99, i;
    int64_t dims[8];
    MUST(GetTensorElementType(shape, &element));
    MUST(GetDimensionsCount(shape, &rank));
    MUST(GetDimensions(shape, dims, rank));
    MUST(GetTensorShapeElementCount(shape, &count));
    printf("  element %d rank %zu count %zu [", (int)element, rank, count);
    for (i = 0; i < rank; ++i) printf(" %" PRId64, dims[i]);
    printf(" ]\n");
  }
  api->ReleaseTensorTypeAndShapeInfo(shape);
  show("  GetTensorSizeInBytes", api->GetTensorSizeInBytes(value, &size));
  printf("  size %zu\n", size);
  if (is_tensor) {
    const OrtMemoryInfo* memory = NULL;
    const char* name = NULL;
    ONNXTensorElementDataType element = (ONNXTensorElementDataType)99;
    const int64_t* dims = NULL;
    size_t rank = 99;
    MUST(GetTensorMemoryInfo(value, &memory));
    MUST(MemoryInfoGetName(memory, &name));
    MUST(GetTensorElementTypeAndShapeDataReference(value, &element, &dims, &rank));
    printf("  memory %s, element %d, rank %zu, first %" PRId64 "\n", name, (int)element, rank,
           rank > 0 ? dims[0] : -99);
  }
}

static OrtValue* view(const char* what, void* data, size_t bytes, const int64_t* dims, size_t rank,
                      ONNXTensorElementDataType type) {
  OrtValue* value = NULL;
  show(what, api->CreateTensorWithDataAsOrtValue(cpu, data, bytes, dims, rank, type, &value));
  return value;
}

static void views(void) {
  static float data[24];
  const int64_t dims[] = {2, 3, 4};
  const int64_t zero[] = {2, 0, 4};
  const int64_t negative[] = {2, -3, 4};
  const int64_t huge[] = {INT64_C(1) << 40, INT64_C(1) << 40};
  const int64_t bytes_overflow[] = {INT64_C(1) << 62, 1};
  OrtValue* value = view("view 2x3x4", data, sizeof(data), dims, 3, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
  void* out = NULL;
  const void* const_out = NULL;
  const int64_t at[] = {1, 2, 3};
  const int64_t outside[] = {1, 3, 3};
  const int64_t below[] = {1, -1, 3};
  describe("view", value);
  CALL(GetTensorMutableData(value, &out));
  printf("  same address %d\n", out == (void*)data);
  CALL(GetTensorData(value, &const_out));
  printf("  same address %d\n", const_out == (void*)data);
  CALL(TensorAt(value, at, 3, &out));
  printf("  at %d\n", out == (void*)&data[23]);
  CALL(TensorAt(value, outside, 3, &out));
  CALL(TensorAt(value, below, 3, &out));
  CALL(TensorAt(value, at, 2, &out));
  api->ReleaseValue(value);
  value = view("larger buffer", data, sizeof(data), dims, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
  describe("view of a part", value);
  api->ReleaseValue(value);
  value = view("scalar", data, sizeof(data), NULL, 0, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
  describe("scalar", value);
  CALL(TensorAt(value, at, 0, &out));
  printf("  at %d\n", out == (void*)data);
  api->ReleaseValue(value);
  value = view("empty", data, 0, zero, 3, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
  describe("empty", value);
  api->ReleaseValue(value);
  value = view("empty without data", NULL, 0, zero, 3, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
  describe("empty without data", value);
  api->ReleaseValue(value);
  api->ReleaseValue(view("too small", data, sizeof(data) - 1, dims, 3, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT));
  api->ReleaseValue(view("negative", data, sizeof(data), negative, 3, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT));
  api->ReleaseValue(view("overflow", data, sizeof(data), huge, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT));
  api->ReleaseValue(
      view("overflow in bytes", data, sizeof(data), bytes_overflow, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT));
  api->ReleaseValue(view("strings", data, sizeof(data), dims, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING));
  api->ReleaseValue(view("undefined", data, sizeof(data), dims, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED));
  api->ReleaseValue(view("type 99", data, sizeof(data), dims, 1, (ONNXTensorElementDataType)99));
}

static void every_type(void) {
  static uint64_t data[64];
  const int64_t dims[] = {3};
  int type;
  for (type = 1; type <= 26; ++type) {
    OrtValue* value = NULL;
    char what[48];
    size_t size = 99;
    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) continue;
    snprintf(what, sizeof(what), "view of type %d", type);
    if (show(what, api->CreateTensorWithDataAsOrtValue(cpu, data, sizeof(data), dims, 1,
                                                       (ONNXTensorElementDataType)type, &value))) {
      MUST(GetTensorSizeInBytes(value, &size));
      printf("  %zu bytes\n", size);
    }
    api->ReleaseValue(value);
    value = NULL;
    snprintf(what, sizeof(what), "tensor of type %d", type);
    if (show(what, api->CreateTensorAsOrtValue(allocator, dims, 1, (ONNXTensorElementDataType)type, &value))) {
      MUST(GetTensorSizeInBytes(value, &size));
      printf("  %zu bytes\n", size);
    }
    api->ReleaseValue(value);
  }
}

static void owned(void) {
  const int64_t dims[] = {2, 3};
  const int64_t zero[] = {0};
  const int64_t negative[] = {-1};
  const int64_t huge[] = {INT64_C(1) << 40, INT64_C(1) << 40};
  OrtValue* value = NULL;
  void* data = NULL;
  CALL(CreateTensorAsOrtValue(allocator, dims, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, &value));
  describe("owned", value);
  CALL(GetTensorMutableData(value, &data));
  printf("  data %d\n", data != NULL);
  memset(data, 1, 24);
  api->ReleaseValue(value);
  value = NULL;
  CALL(CreateTensorAsOrtValue(allocator, zero, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, &value));
  describe("owned empty", value);
  api->ReleaseValue(value);
  value = NULL;
  CALL(CreateTensorAsOrtValue(allocator, negative, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, &value));
  CALL(CreateTensorAsOrtValue(allocator, huge, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, &value));
  CALL(CreateTensorAsOrtValue(allocator, dims, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED, &value));
  CALL(CreateTensorAsOrtValue(allocator, dims, 2, (ONNXTensorElementDataType)99, &value));
  describe("after refusals", value);
}

static void handed_over(void) {
  const int64_t dims[] = {4};
  OrtValue* value = NULL;
  void* data = NULL;
  MUST(AllocatorAlloc(allocator, 16, &data));
  CALL(CreateTensorWithDataAndDeleterAsOrtValue(allocator, data, 16, dims, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
                                                &value));
  describe("handed over", value);
  api->ReleaseValue(value);
  value = NULL;
  MUST(AllocatorAlloc(allocator, 16, &data));
  if (!CALL(CreateTensorWithDataAndDeleterAsOrtValue(allocator, data, 15, dims, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
                                                     &value)))
    MUST(AllocatorFree(allocator, data));
  api->ReleaseValue(value);
}

static void strings(void) {
  const int64_t dims[] = {2, 2};
  const char* text[] = {"one", "", "three", "a longer text that fits in no small buffer"};
  OrtValue* value = NULL;
  size_t length = 99, offsets[4] = {9, 9, 9, 9}, i;
  char content[128];
  char* buffer = NULL;
  void* data = NULL;
  MUST(CreateTensorAsOrtValue(allocator, dims, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, &value));
  describe("strings", value);
  CALL(GetStringTensorDataLength(value, &length));
  printf("  %zu\n", length);
  CALL(FillStringTensor(value, text, 3));
  CALL(FillStringTensor(value, text, 5));
  CALL(FillStringTensor(value, text, 4));
  CALL(GetStringTensorDataLength(value, &length));
  printf("  %zu\n", length);
  memset(content, '.', sizeof(content));
  CALL(GetStringTensorContent(value, content, length, offsets, 4));
  printf("  %.*s offsets %zu %zu %zu %zu, untouched after %d\n", (int)length, content, offsets[0], offsets[1],
         offsets[2], offsets[3], content[length] == '.');
  CALL(GetStringTensorContent(value, content, length - 1, offsets, 4));
  CALL(GetStringTensorContent(value, content, length, offsets, 3));
  CALL(GetStringTensorContent(value, content, sizeof(content), offsets, 4));
  for (i = 0; i < 5; ++i) {
    char what[64];
    snprintf(what, sizeof(what), "GetStringTensorElementLength %zu", i);
    length = 77;
    if (!show(what, api->GetStringTensorElementLength(value, i, &length))) continue;
    printf("  %zu\n", length);
    memset(content, '.', sizeof(content));
    snprintf(what, sizeof(what), "GetStringTensorElement %zu", i);
    show(what, api->GetStringTensorElement(value, length, i, content));
    printf("  \"%.*s\" untouched after %d\n", (int)length, content, content[length] == '.');
  }
  CALL(GetStringTensorElement(value, 2, 0, content));
  CALL(GetStringTensorElement(value, sizeof(content), 4, content));
  CALL(FillStringTensorElement(value, "new", 1));
  CALL(FillStringTensorElement(value, "new", 4));
  CALL(GetStringTensorElementLength(value, 1, &length));
  printf("  %zu\n", length);
  CALL(GetResizedStringTensorElementBuffer(value, 2, 6, &buffer));
  if (buffer != NULL) memcpy(buffer, "resize", 6);
  CALL(GetResizedStringTensorElementBuffer(value, 4, 6, &buffer));
  CALL(GetStringTensorElement(value, 6, 2, content));
  printf("  %.6s\n", content);
  CALL(GetTensorMutableData(value, &data));
  api->ReleaseValue(value);
}

static void wrong_types(void) {
  static float data[4];
  const int64_t dims[] = {4};
  const char* text[] = {"a", "b", "c", "d"};
  size_t number = 99, offsets[4];
  char content[8];
  char* buffer = NULL;
  OrtValue* value = view("numbers", data, sizeof(data), dims, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
  OrtValue* element = NULL;
  CALL(FillStringTensor(value, text, 4));
  CALL(FillStringTensorElement(value, "a", 0));
  CALL(GetStringTensorDataLength(value, &number));
  CALL(GetStringTensorElementLength(value, 0, &number));
  CALL(GetStringTensorContent(value, content, 4, offsets, 4));
  CALL(GetStringTensorElement(value, 4, 0, content));
  CALL(GetResizedStringTensorElementBuffer(value, 0, 4, &buffer));
  CALL(GetValueCount(value, &number));
  CALL(GetValue(value, 0, allocator, &element));
  api->ReleaseValue(value);
}

static void sequences(void) {
  static float data[6] = {1, 2, 3, 4, 5, 6};
  static int64_t keys_data[3] = {7, 8, 9};
  const int64_t two[] = {2};
  const int64_t three[] = {3};
  OrtValue* a = view("a", data, 8, two, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
  OrtValue* b = view("b", data + 2, 12, three, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
  OrtValue* keys = view("keys", keys_data, 24, three, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64);
  OrtValue* sequence = NULL;
  OrtValue* map = NULL;
  OrtValue* other = NULL;
  OrtValue* element = NULL;
  const OrtValue* both[] = {a, b};
  const OrtValue* mixed[] = {a, keys};
  const OrtValue* pair[] = {keys, b};
  const OrtValue* uneven[] = {keys, a};
  size_t count = 99;
  void* out = NULL;
  int index;
  CALL(CreateValue(both, 2, ONNX_TYPE_SEQUENCE, &sequence));
  describe("sequence", sequence);
  CALL(GetValueCount(sequence, &count));
  printf("  %zu\n", count);
  for (index = -1; index <= 2; ++index) {
    char what[32];
    element = NULL;
    snprintf(what, sizeof(what), "GetValue %d", index);
    if (index >= 0 && index < 2) {
      show(what, api->GetValue(sequence, index, allocator, &element));
      describe(what, element);
      MUST(GetTensorMutableData(element, &out));
      printf("  first %g\n", (double)*(float*)out);
    }
    api->ReleaseValue(element);
  }
  CALL(GetTensorMutableData(sequence, &out));
  CALL(CreateValue(mixed, 2, ONNX_TYPE_SEQUENCE, &other));
  CALL(CreateValue(both, 0, ONNX_TYPE_SEQUENCE, &other));
  CALL(CreateValue(both, 1, ONNX_TYPE_MAP, &other));
  CALL(CreateValue(both, 1, ONNX_TYPE_TENSOR, &other));
  CALL(CreateValue(uneven, 2, ONNX_TYPE_MAP, &other));
  describe("refused", other);
  CALL(CreateValue(pair, 2, ONNX_TYPE_MAP, &map));
  describe("map", map);
  if (map != NULL) {
    CALL(GetValueCount(map, &count));
    printf("  %zu\n", count);
    element = NULL;
    CALL(GetValue(map, 0, allocator, &element));
    describe("map keys", element);
    api->ReleaseValue(element);
    element = NULL;
    CALL(GetValue(map, 1, allocator, &element));
    describe("map values", element);
    api->ReleaseValue(element);
    element = NULL;
    CALL(GetValue(map, 2, allocator, &element));
    api->ReleaseValue(element);
  }
  api->ReleaseValue(map);
  api->ReleaseValue(sequence);
  api->ReleaseValue(a);
  api->ReleaseValue(b);
  api->ReleaseValue(keys);
  api->ReleaseValue(NULL);
}

static void run(void) {
  OrtEnv* env = NULL;
  /* Without one, the reference aborts where it wants to log. */
  MUST(CreateEnv(ORT_LOGGING_LEVEL_FATAL, "values", &env));
  MUST(GetAllocatorWithDefaultOptions(&allocator));
  MUST(CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &cpu));
  views();
  every_type();
  owned();
  handed_over();
  strings();
  wrong_types();
  sequences();
  api->ReleaseMemoryInfo(cpu);
  api->ReleaseEnv(env);
  printf("released\n");
}
