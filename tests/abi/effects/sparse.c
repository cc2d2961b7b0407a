/* Sparse tensors: the three formats, strings, views of the program's memory, and refusals. */
#include "effects.h"

#define FLOATS ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT
#define INT64S ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64
#define STRINGS ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING

/* Identity on float[n]. */
static const unsigned char model[] = {
    0x08, 0x08, 0x3a, 0x37, 0x0a, 0x10, 0x0a, 0x01, 0x78, 0x12, 0x01, 0x79, 0x22, 0x08, 0x49, 0x64, 0x65, 0x6e, 0x74,
    0x69, 0x74, 0x79, 0x12, 0x01, 0x67, 0x5a, 0x0f, 0x0a, 0x01, 0x78, 0x12, 0x0a, 0x0a, 0x08, 0x08, 0x01, 0x12, 0x04,
    0x0a, 0x02, 0x08, 0x04, 0x62, 0x0f, 0x0a, 0x01, 0x79, 0x12, 0x0a, 0x0a, 0x08, 0x08, 0x01, 0x12, 0x04, 0x0a, 0x02,
    0x08, 0x04, 0x42, 0x04, 0x0a, 0x00, 0x10, 0x11,
};

static OrtAllocator* allocator;
static OrtMemoryInfo* cpu;
static const int64_t dense[] = {3, 4};
static float numbers[] = {1.5F, -2, 3};

static void print_shape(const char* what, OrtTensorTypeAndShapeInfo* info) {
  ONNXTensorElementDataType element = (ONNXTensorElementDataType)99;
  size_t rank = 99, count = 99, i;
  int64_t dims[8];
  MUST(GetTensorElementType(info, &element));
  MUST(GetDimensionsCount(info, &rank));
  MUST(GetDimensions(info, dims, rank));
  MUST(GetTensorShapeElementCount(info, &count));
  printf("  %s: element %d count %zu [", what, (int)element, count);
  for (i = 0; i < rank; ++i) printf(" %" PRId64, dims[i]);
  printf(" ]\n");
  api->ReleaseTensorTypeAndShapeInfo(info);
}

static void print_indices(const OrtValue* value, const char* what, enum OrtSparseIndicesFormat format, bool is_int32) {
  OrtTensorTypeAndShapeInfo* info = NULL;
  const void* data = NULL;
  size_t count = 99, i;
  char text[64];
  snprintf(text, sizeof(text), "  GetSparseTensorIndicesTypeShape %s", what);
  if (show(text, api->GetSparseTensorIndicesTypeShape(value, format, &info))) print_shape(what, info);
  snprintf(text, sizeof(text), "  GetSparseTensorIndices %s", what);
  if (!show(text, api->GetSparseTensorIndices(value, format, &count, &data))) return;
  printf("  %zu:", count);
  for (i = 0; i < count; ++i) {
    if (is_int32)
      printf(" %" PRId32, ((const int32_t*)data)[i]);
    else
      printf(" %" PRId64, ((const int64_t*)data)[i]);
  }
  printf("\n");
}

static void describe(const char* what, const OrtValue* value) {
  int is_tensor = 99, has_value = 99, is_sparse = 99;
  enum ONNXType kind = (enum ONNXType)99;
  enum OrtSparseFormat format = (enum OrtSparseFormat)99;
  OrtTensorTypeAndShapeInfo* info = NULL;
  OrtTypeInfo* type = NULL;
  const OrtTensorTypeAndShapeInfo* cast = NULL;
  const void* data = NULL;
  size_t i;
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
    MUST(GetOnnxTypeFromTypeInfo(type, &kind));
    MUST(CastTypeInfoToTensorInfo(type, &cast));
    printf("  type kind %d, tensor info %d\n", (int)kind, cast != NULL);
    api->ReleaseTypeInfo(type);
  }
  if (show("  GetTensorTypeAndShape", api->GetTensorTypeAndShape(value, &info))) print_shape("dense", info);
  if (show("  GetSparseTensorFormat", api->GetSparseTensorFormat(value, &format))) printf("  %d\n", (int)format);
  info = NULL;
  if (show("  GetSparseTensorValuesTypeAndShape", api->GetSparseTensorValuesTypeAndShape(value, &info))) {
    size_t count = 0;
    MUST(GetTensorShapeElementCount(info, &count));
    print_shape("values", info);
    if (show("  GetSparseTensorValues", api->GetSparseTensorValues(value, &data))) {
      for (i = 0; i < count; ++i) printf("  %g", (double)((const float*)data)[i]);
      printf("\n");
    }
  }
  if (format == ORT_SPARSE_COO) print_indices(value, "coo", ORT_SPARSE_COO_INDICES, false);
  if (format == ORT_SPARSE_CSRC) print_indices(value, "inner", ORT_SPARSE_CSR_INNER_INDICES, false);
  if (format == ORT_SPARSE_CSRC) print_indices(value, "outer", ORT_SPARSE_CSR_OUTER_INDICES, false);
  if (format == ORT_SPARSE_BLOCK_SPARSE) print_indices(value, "blocks", ORT_SPARSE_BLOCK_SPARSE_INDICES, true);
}

/* The indices of every format, but of one they are refused. */
static void all_indices(const OrtValue* value) {
  print_indices(value, "coo", ORT_SPARSE_COO_INDICES, false);
  print_indices(value, "inner", ORT_SPARSE_CSR_INNER_INDICES, false);
  print_indices(value, "outer", ORT_SPARSE_CSR_OUTER_INDICES, false);
  print_indices(value, "blocks", ORT_SPARSE_BLOCK_SPARSE_INDICES, true);
  print_indices(value, "unknown", (enum OrtSparseIndicesFormat)77, true);
}

static OrtValue* make(const int64_t* dims, size_t rank, ONNXTensorElementDataType type) {
  OrtValue* value = NULL;
  show("CreateSparseTensorAsOrtValue", api->CreateSparseTensorAsOrtValue(allocator, dims, rank, type, &value));
  return value;
}

static void coo(void) {
  const int64_t three[] = {3}, none[] = {0}, negative[] = {-3}, two_dims[] = {3, 1};
  const int64_t linear[] = {2, 5, 11}, pairs[] = {0, 2, 1, 1, 2, 3}, outside[] = {2, 5, 12}, below[] = {-1, 5, 11};
  const int64_t pairs_outside[] = {0, 2, 1, 4, 2, 3}, unsorted[] = {11, 5, 2}, twice[] = {5, 5, 5};
  OrtValue* value = make(dense, 2, FLOATS);
  describe("not filled", value);
  all_indices(value);
  CALL(FillSparseTensorCoo(value, cpu, three, 1, numbers, linear, 2));
  CALL(FillSparseTensorCoo(value, cpu, three, 1, numbers, linear, 0));
  CALL(FillSparseTensorCoo(value, cpu, negative, 1, numbers, linear, 3));
  CALL(FillSparseTensorCoo(value, cpu, three, 1, numbers, outside, 3));
  CALL(FillSparseTensorCoo(value, cpu, three, 1, numbers, below, 3));
  CALL(FillSparseTensorCoo(value, cpu, three, 1, numbers, pairs_outside, 6));
  CALL(FillSparseTensorCoo(value, cpu, three, 1, numbers, linear, 3));
  describe("coo", value);
  all_indices(value);
  CALL(FillSparseTensorCoo(value, cpu, three, 1, numbers, linear, 3));
  api->ReleaseValue(value);
  value = make(dense, 2, FLOATS);
  CALL(FillSparseTensorCoo(value, cpu, two_dims, 2, numbers, pairs, 6));
  describe("coo of pairs", value);
  api->ReleaseValue(value);
  value = make(dense, 2, FLOATS);
  CALL(FillSparseTensorCoo(value, cpu, none, 1, NULL, NULL, 0));
  describe("coo without values", value);
  api->ReleaseValue(value);
  value = make(dense, 2, FLOATS);
  CALL(FillSparseTensorCoo(value, cpu, three, 1, numbers, unsorted, 3));
  api->ReleaseValue(value);
  value = make(dense, 2, FLOATS);
  CALL(FillSparseTensorCoo(value, cpu, three, 1, numbers, twice, 3));
  api->ReleaseValue(value);
  value = make(dense, 1, FLOATS);
  CALL(FillSparseTensorCoo(value, cpu, two_dims, 1, numbers, linear, 3));
  api->ReleaseValue(value);
}

static void csr(void) {
  const int64_t three[] = {3}, none[] = {0}, one_dim[] = {12};
  const int64_t inner[] = {2, 1, 3}, outer[] = {0, 1, 2, 3}, far_inner[] = {2, 4, 3}, low_inner[] = {2, -1, 3};
  const int64_t late_outer[] = {1, 1, 2, 3}, short_outer[] = {0, 1, 2, 2}, back_outer[] = {0, 2, 1, 3};
  OrtValue* value = make(dense, 2, FLOATS);
  CALL(FillSparseTensorCsr(value, cpu, three, 1, numbers, inner, 2, outer, 4));
  CALL(FillSparseTensorCsr(value, cpu, three, 1, numbers, inner, 3, outer, 3));
  CALL(FillSparseTensorCsr(value, cpu, three, 1, numbers, inner, 0, outer, 4));
  CALL(FillSparseTensorCsr(value, cpu, three, 1, numbers, far_inner, 3, outer, 4));
  CALL(FillSparseTensorCsr(value, cpu, three, 1, numbers, low_inner, 3, outer, 4));
  CALL(FillSparseTensorCsr(value, cpu, three, 1, numbers, inner, 3, late_outer, 4));
  CALL(FillSparseTensorCsr(value, cpu, three, 1, numbers, inner, 3, short_outer, 4));
  CALL(FillSparseTensorCsr(value, cpu, three, 1, numbers, inner, 3, back_outer, 4));
  CALL(FillSparseTensorCsr(value, cpu, three, 1, numbers, inner, 3, outer, 4));
  describe("csr", value);
  all_indices(value);
  CALL(FillSparseTensorCsr(value, cpu, three, 1, numbers, inner, 3, outer, 4));
  api->ReleaseValue(value);
  value = make(dense, 2, FLOATS);
  CALL(FillSparseTensorCsr(value, cpu, none, 1, NULL, NULL, 0, NULL, 0));
  describe("csr without values", value);
  api->ReleaseValue(value);
  value = make(one_dim, 1, FLOATS);
  CALL(FillSparseTensorCsr(value, cpu, three, 1, numbers, inner, 3, outer, 4));
  api->ReleaseValue(value);
}

static void blocks(void) {
  static float content[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  const int64_t square[] = {4, 4}, values[] = {2, 2, 2}, indices[] = {2, 2}, none[] = {0}, flat[] = {8};
  const int64_t three_blocks[] = {2, 3}, rows[] = {4, 1}, line[] = {4}, negative[] = {2, -2};
  const int32_t at[] = {0, 1, 1, 0}, outside[] = {0, 9, 1, 0};
  OrtValue* value = make(square, 2, FLOATS);
  CALL(FillSparseTensorBlockSparse(value, cpu, flat, 1, content, indices, 2, at));
  CALL(FillSparseTensorBlockSparse(value, cpu, values, 3, content, three_blocks, 2, at));
  CALL(FillSparseTensorBlockSparse(value, cpu, values, 3, content, rows, 2, at));
  CALL(FillSparseTensorBlockSparse(value, cpu, values, 3, content, line, 1, at));
  CALL(FillSparseTensorBlockSparse(value, cpu, values, 3, content, negative, 2, at));
  CALL(FillSparseTensorBlockSparse(value, cpu, values, 3, content, indices, 2, at));
  describe("blocks", value);
  CALL(FillSparseTensorBlockSparse(value, cpu, values, 3, content, indices, 2, at));
  api->ReleaseValue(value);
  value = make(square, 2, FLOATS);
  CALL(FillSparseTensorBlockSparse(value, cpu, values, 3, content, indices, 2, outside));
  api->ReleaseValue(value);
  value = make(square, 2, FLOATS);
  CALL(FillSparseTensorBlockSparse(value, cpu, none, 1, NULL, none, 1, NULL));
  describe("no blocks", value);
  api->ReleaseValue(value);
}

static void print_strings(const OrtValue* value) {
  size_t length = 99, offsets[3] = {9, 9, 9}, one = 99;
  char content[64] = "";
  if (CALL(GetStringTensorDataLength(value, &length))) printf("  %zu\n", length);
  if (CALL(GetStringTensorContent(value, content, length, offsets, 3)))
    printf("  %.*s %zu %zu %zu\n", (int)length, content, offsets[0], offsets[1], offsets[2]);
  if (CALL(GetStringTensorElementLength(value, 1, &one))) printf("  %zu\n", one);
  if (CALL(GetStringTensorElement(value, one, 1, content))) printf("  %.*s\n", (int)one, content);
  CALL(GetStringTensorElementLength(value, 3, &one));
}

static void strings(void) {
  const char* const text[] = {"one", "a longer text that fits in no small buffer", ""};
  const int64_t three[] = {3}, none[] = {0}, linear[] = {2, 5, 11}, inner[] = {2, 1, 3}, outer[] = {0, 1, 2, 3};
  const int64_t values[] = {1, 1, 3}, indices[] = {2, 3};
  const int32_t at[] = {0, 0, 1, 1, 2, 2};
  OrtValue* value = make(dense, 2, STRINGS);
  CALL(FillSparseTensorCoo(value, cpu, three, 1, text, linear, 3));
  describe("coo of strings", value);
  print_strings(value);
  CALL(FillStringTensor(value, text, 3));
  CALL(FillStringTensorElement(value, "x", 0));
  api->ReleaseValue(value);
  value = make(dense, 2, STRINGS);
  CALL(FillSparseTensorCsr(value, cpu, three, 1, text, inner, 3, outer, 4));
  describe("csr of strings", value);
  print_strings(value);
  api->ReleaseValue(value);
  value = make(dense, 2, STRINGS);
  CALL(FillSparseTensorBlockSparse(value, cpu, values, 3, text, indices, 2, at));
  describe("blocks of strings", value);
  print_strings(value);
  api->ReleaseValue(value);
  value = make(dense, 2, STRINGS);
  CALL(FillSparseTensorCoo(value, cpu, none, 1, NULL, NULL, 0));
  describe("no strings", value);
  api->ReleaseValue(value);
}

static OrtValue* view(const char* what, void* data, const int64_t* dims, size_t rank, const int64_t* values,
                      size_t values_rank, ONNXTensorElementDataType type) {
  OrtValue* value = NULL;
  show(what, api->CreateSparseTensorWithValuesAsOrtValue(cpu, data, dims, rank, values, values_rank, type, &value));
  return value;
}

static void views(void) {
  static int64_t linear[] = {2, 5, 11}, inner[] = {2, 1, 3}, outer[] = {0, 1, 2, 3}, far[] = {2, 5, 12};
  static int32_t at[] = {0, 0, 1, 1, 2, 2};
  const int64_t three[] = {3}, none[] = {0}, negative[] = {-3}, values[] = {1, 1, 3}, indices[] = {2, 3},
                minus_dense[] = {3, -4};
  const void* data = NULL;
  size_t count = 0;
  OrtValue* value = view("view of values", numbers, dense, 2, three, 1, FLOATS);
  describe("view without indices", value);
  CALL(UseCooIndices(value, linear, 2));
  CALL(UseCooIndices(value, far, 3));
  CALL(UseCooIndices(value, linear, 3));
  describe("view", value);
  CALL(GetSparseTensorValues(value, &data));
  printf("  same address %d\n", data == (const void*)numbers);
  CALL(GetSparseTensorIndices(value, ORT_SPARSE_COO_INDICES, &count, &data));
  printf("  same address %d\n", data == (const void*)linear);
  CALL(UseCooIndices(value, linear, 3));
  CALL(UseCsrIndices(value, inner, 3, outer, 4));
  api->ReleaseValue(value);
  value = view("view for csr", numbers, dense, 2, three, 1, FLOATS);
  CALL(UseCsrIndices(value, inner, 2, outer, 4));
  CALL(UseCsrIndices(value, inner, 3, outer, 3));
  CALL(UseCsrIndices(value, far, 3, outer, 4));
  CALL(UseCsrIndices(value, inner, 3, outer, 4));
  describe("csr view", value);
  api->ReleaseValue(value);
  value = view("view for blocks", numbers, dense, 2, values, 3, FLOATS);
  CALL(UseBlockSparseIndices(value, three, 1, at));
  CALL(UseBlockSparseIndices(value, indices, 2, at));
  describe("blocks view", value);
  CALL(UseBlockSparseIndices(value, indices, 2, at));
  api->ReleaseValue(value);
  value = view("view of nothing", NULL, dense, 2, none, 1, FLOATS);
  CALL(UseCooIndices(value, NULL, 0));
  describe("view of nothing", value);
  api->ReleaseValue(value);
  value = view("view to fill", numbers, dense, 2, three, 1, FLOATS);
  CALL(FillSparseTensorCoo(value, cpu, three, 1, numbers, linear, 3));
  api->ReleaseValue(value);
  value = make(dense, 2, FLOATS);
  CALL(UseCooIndices(value, linear, 1));
  CALL(UseCsrIndices(value, inner, 0, outer, 0));
  api->ReleaseValue(value);
  api->ReleaseValue(view("view of strings", numbers, dense, 2, three, 1, STRINGS));
  api->ReleaseValue(view("view of a negative size", numbers, dense, 2, negative, 1, FLOATS));
  api->ReleaseValue(view("negative dense shape", numbers, minus_dense, 2, three, 1, FLOATS));
}

static void refusals(void) {
  const int64_t negative[] = {3, -4}, huge[] = {INT64_C(1) << 40, INT64_C(1) << 40}, three[] = {3};
  float data[3] = {0};
  OrtValue* tensor = NULL;
  OrtValue* value = make(negative, 2, FLOATS);
  const OrtMemoryInfo* memory = NULL;
  size_t size = 77;
  void* mutable_data = NULL;
  const void* const_data = NULL;
  enum OrtSparseFormat format = (enum OrtSparseFormat)99;
  describe("negative dense shape", value);
  api->ReleaseValue(value);
  value = make(huge, 2, FLOATS);
  printf("huge %d\n", value != NULL);
  api->ReleaseValue(value);
  value = make(NULL, 0, FLOATS);
  printf("scalar %d\n", value != NULL);
  api->ReleaseValue(value);
  value = make(dense, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED);
  api->ReleaseValue(value);
  value = make(dense, 2, (ONNXTensorElementDataType)99);
  api->ReleaseValue(value);
  value = make(dense, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX64);
  api->ReleaseValue(value);
  MUST(CreateTensorWithDataAsOrtValue(cpu, data, sizeof(data), three, 1, FLOATS, &tensor));
  CALL(GetSparseTensorFormat(tensor, &format));
  value = make(dense, 2, FLOATS);
  CALL(GetTensorMemoryInfo(value, &memory));
  CALL(GetTensorSizeInBytes(value, &size));
  CALL(GetTensorMutableData(value, &mutable_data));
  CALL(GetTensorData(value, &const_data));
  CALL(GetValueCount(value, &size));
  CALL(GetStringTensorDataLength(value, &size));
  api->ReleaseValue(value);
  api->ReleaseValue(tensor);
}

static void every_type(void) {
  int type;
  for (type = 1; type <= 26; ++type) {
    OrtValue* value = NULL;
    char what[48];
    snprintf(what, sizeof(what), "sparse tensor of type %d", type);
    show(what, api->CreateSparseTensorAsOrtValue(allocator, dense, 2, (ONNXTensorElementDataType)type, &value));
    api->ReleaseValue(value);
  }
}

/* A sparse tensor where a model wants a dense one. */
static void run_on(OrtEnv* env) {
  static const char* const inputs[] = {"x"};
  static const char* const outputs[] = {"y"};
  static int64_t linear[] = {0, 1, 3};
  const int64_t three[] = {3}, four[] = {4};
  OrtSessionOptions* options = NULL;
  OrtSession* session = NULL;
  OrtValue* value = view("for the model", numbers, four, 1, three, 1, FLOATS);
  OrtValue* result = NULL;
  MUST(UseCooIndices(value, linear, 3));
  MUST(CreateSessionOptions(&options));
  MUST(CreateSessionFromArray(env, model, sizeof(model), options, &session));
  CALL(Run(session, NULL, inputs, (const OrtValue* const*)&value, 1, outputs, 1, &result));
  describe("result", result);
  api->ReleaseValue(value);
  api->ReleaseSession(session);
  api->ReleaseSessionOptions(options);
}

static void run(void) {
  OrtEnv* env = NULL;
  MUST(CreateEnv(ORT_LOGGING_LEVEL_FATAL, "sparse", &env));
  MUST(GetAllocatorWithDefaultOptions(&allocator));
  MUST(CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &cpu));
  coo();
  csr();
  blocks();
  strings();
  views();
  refusals();
  every_type();
  run_on(env);
  api->ReleaseMemoryInfo(cpu);
  api->ReleaseEnv(env);
}
