/* Kernels of a custom operator that call ONNX operators: CreateOp when the kernel is made, InvokeOp when it runs. */
#include "effects.h"

/* Call (domain test.ops) on float[n]. */
static const unsigned char model[] = {
    0x08, 0x08, 0x12, 0x00, 0x3a, 0x45, 0x0a, 0x1c, 0x0a, 0x01, 0x78, 0x12, 0x01, 0x7a, 0x1a, 0x04,
    0x63, 0x61, 0x6c, 0x6c, 0x22, 0x04, 0x43, 0x61, 0x6c, 0x6c, 0x3a, 0x08, 0x74, 0x65, 0x73, 0x74,
    0x2e, 0x6f, 0x70, 0x73, 0x12, 0x01, 0x67, 0x5a, 0x10, 0x0a, 0x01, 0x78, 0x12, 0x0b, 0x0a, 0x09,
    0x08, 0x01, 0x12, 0x05, 0x0a, 0x03, 0x12, 0x01, 0x6e, 0x62, 0x10, 0x0a, 0x01, 0x7a, 0x12, 0x0b,
    0x0a, 0x09, 0x08, 0x01, 0x12, 0x05, 0x0a, 0x03, 0x12, 0x01, 0x6e, 0x42, 0x04, 0x0a, 0x00, 0x10,
    0x11, 0x42, 0x0c, 0x0a, 0x08, 0x74, 0x65, 0x73, 0x74, 0x2e, 0x6f, 0x70, 0x73, 0x10, 0x01,
};

#define FLOATS ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT
#define INT32S ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32
#define INT64S ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64
#define STRINGS ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING

enum { ADD, TOP_K, CAST, CLIP, RESHAPE, SOFTMAX, MATMUL, CONV, GELU, COUNT };

static OrtMemoryInfo* cpu;
static OrtOp* ops[COUNT];

/* Names and types of constraints, as CreateOp wants them. */
struct types {
  const char* names[3];
  ONNXTensorElementDataType values[3];
  int count;
};

static OrtOp* make(const OrtKernelInfo* info, const char* what, const char* op_type, const char* domain, int version,
                   struct types types, const OrtOpAttr* const* attributes, int attribute_count, int inputs,
                   int outputs) {
  OrtOp* op = NULL;
  char text[96];
  OrtStatus* status = api->CreateOp(info, op_type, domain, version, types.names, types.values, types.count, attributes,
                                    attribute_count, inputs, outputs, &op);
  snprintf(text, sizeof(text), "CreateOp %s", what);
  show(text, status);
  printf("  %s\n", op != NULL ? "an operator" : "null");
  return op;
}

static OrtOpAttr* attribute(const char* name, const void* data, int length, OrtOpAttrType type) {
  OrtOpAttr* made = NULL;
  MUST(CreateOpAttr(name, data, length, type, &made));
  return made;
}

static void create_operators(const OrtKernelInfo* info) {
  const int64_t axis0 = 0, axis1 = 1, to = INT32S, group = 1, strides[] = {2, 2}, pads[] = {1, 1, 1, 1};
  const struct types floats = {{"T"}, {FLOATS}, 1};
  OrtOpAttr* attributes[4];
  int i;
  ops[ADD] = make(info, "Add 14", "Add", "", 14, floats, NULL, 0, 2, 1);
  attributes[0] = attribute("axis", &axis0, 1, ORT_OP_ATTR_INT);
  attributes[1] = attribute("largest", &axis1, 1, ORT_OP_ATTR_INT);
  attributes[2] = attribute("sorted", &axis1, 1, ORT_OP_ATTR_INT);
  ops[TOP_K] = make(info, "TopK 11", "TopK", "", 11, (struct types){{"T", "I"}, {FLOATS, INT64S}, 2},
                    (const OrtOpAttr* const*)attributes, 3, 2, 2);
  ops[SOFTMAX] = make(info, "Softmax 13", "Softmax", "", 13, floats, (const OrtOpAttr* const*)attributes, 1, 1, 1);
  for (i = 0; i < 3; ++i) api->ReleaseOpAttr(attributes[i]);
  attributes[0] = attribute("to", &to, 1, ORT_OP_ATTR_INT);
  ops[CAST] = make(info, "Cast 13", "Cast", "", 13, (struct types){{"T1", "T2"}, {FLOATS, INT32S}, 2},
                   (const OrtOpAttr* const*)attributes, 1, 1, 1);
  api->ReleaseOpAttr(attributes[0]);
  ops[CLIP] = make(info, "Clip 13", "Clip", "", 13, floats, NULL, 0, 3, 1);
  ops[RESHAPE] = make(info, "Reshape 14", "Reshape", "", 14, (struct types){{"T", "shape"}, {FLOATS, INT64S}, 2}, NULL,
                      0, 2, 1);
  ops[MATMUL] = make(info, "MatMul 13", "MatMul", "", 13, floats, NULL, 0, 2, 1);
  attributes[0] = attribute("group", &group, 1, ORT_OP_ATTR_INT);
  attributes[1] = attribute("strides", strides, 2, ORT_OP_ATTR_INTS);
  attributes[2] = attribute("pads", pads, 4, ORT_OP_ATTR_INTS);
  attributes[3] = attribute("auto_pad", "NOTSET", 6, ORT_OP_ATTR_STRING);
  ops[CONV] = make(info, "Conv 11", "Conv", "", 11, floats, (const OrtOpAttr* const*)attributes, 4, 3, 1);
  for (i = 0; i < 4; ++i) api->ReleaseOpAttr(attributes[i]);
  ops[GELU] = make(info, "com.microsoft Gelu", "Gelu", "com.microsoft", 1, floats, NULL, 0, 1, 1);
}

static void refusals(const OrtKernelInfo* info) {
  const struct types floats = {{"T"}, {FLOATS}, 1};
  const struct types none = {{NULL}, {FLOATS}, 0};
  const float wrong = 1;
  OrtOpAttr* to = attribute("to", &wrong, 1, ORT_OP_ATTR_FLOAT);
  api->ReleaseOp(make(info, "of an unknown type", "NoSuchOperator", "", 14, floats, NULL, 0, 2, 1));
  api->ReleaseOp(make(info, "of an unknown domain", "Add", "no.such.domain", 1, floats, NULL, 0, 2, 1));
  api->ReleaseOp(make(info, "before its first version", "Gelu", "", 7, floats, NULL, 0, 1, 1));
  api->ReleaseOp(make(info, "of version 0", "Add", "", 0, floats, NULL, 0, 2, 1));
  api->ReleaseOp(make(info, "of version -1", "Add", "", -1, floats, NULL, 0, 2, 1));
  api->ReleaseOp(make(info, "of version 999", "Add", "", 999, floats, NULL, 0, 2, 1));
  api->ReleaseOp(make(info, "of a later version", "Add", "", 15, floats, NULL, 0, 2, 1));
  api->ReleaseOp(make(info, "for strings", "Add", "", 14, (struct types){{"T"}, {STRINGS}, 1}, NULL, 0, 2, 1));
  api->ReleaseOp(make(info, "without constraints", "Add", "", 14, none, NULL, 0, 2, 1));
  api->ReleaseOp(make(info, "without its attribute", "Cast", "", 13, (struct types){{"T1", "T2"}, {FLOATS, INT32S}, 2},
                      NULL, 0, 1, 1));
  api->ReleaseOp(make(info, "with an attribute of the wrong type", "Cast", "", 13,
                      (struct types){{"T1", "T2"}, {FLOATS, INT32S}, 2}, (const OrtOpAttr* const*)&to, 1, 1, 1));
  api->ReleaseOp(make(info, "with an input too many", "Add", "", 14, floats, NULL, 0, 3, 1));
  api->ReleaseOp(make(info, "without inputs", "Add", "", 14, floats, NULL, 0, 0, 1));
  api->ReleaseOp(make(info, "with an output too many", "Add", "", 14, floats, NULL, 0, 2, 2));
  api->ReleaseOp(make(info, "with an unknown constraint", "Add", "", 14, (struct types){{"T", "U"}, {FLOATS, INT64S}, 2},
                      NULL, 0, 2, 1));
  api->ReleaseOp(NULL);
  api->ReleaseOpAttr(to);
}

static OrtValue* tensor(ONNXTensorElementDataType type, void* data, size_t bytes, const int64_t* dims, size_t rank) {
  OrtValue* value = NULL;
  MUST(CreateTensorWithDataAsOrtValue(cpu, data, bytes, dims, rank, type, &value));
  return value;
}

static void print_floats(const float* data, size_t count) {
  size_t i;
  printf(" ");
  for (i = 0; i < count; ++i) printf(" %.5g", (double)data[i]);
  printf("\n");
}

/* Invokes `op` and releases the values. */
static void invoke(const char* what, const OrtKernelContext* context, const OrtOp* op, OrtValue** inputs,
                   int input_count, OrtValue** outputs, int output_count) {
  char text[96];
  int i;
  snprintf(text, sizeof(text), "InvokeOp %s", what);
  show(text, api->InvokeOp(context, op, (const OrtValue* const*)inputs, input_count, outputs, output_count));
  for (i = 0; i < input_count; ++i) api->ReleaseValue(inputs[i]);
  for (i = 0; i < output_count; ++i) api->ReleaseValue(outputs[i]);
}

static void invoke_all(const OrtKernelContext* context) {
  static float a[] = {3, -1, 2, 5}, b[] = {1, 2, 3, 4}, least[] = {0}, most[] = {2.5F}, image[25], filter[9], bias[] = {1};
  const int64_t four[] = {4}, two[] = {2}, one[] = {1}, square[] = {2, 2}, images[] = {1, 1, 5, 5},
                filters[] = {1, 1, 3, 3}, result[] = {1, 1, 3, 3};
  int64_t k[] = {2}, indices[] = {9, 9}, shape[] = {2, -1};
  int32_t integers[4] = {0};
  float out[9] = {0};
  OrtValue* in[3];
  OrtValue* to[2];
  int i;
  for (i = 0; i < 25; ++i) image[i] = (float)(i % 7) - 3;
  for (i = 0; i < 9; ++i) filter[i] = (float)(i % 4) - 1;

  in[0] = tensor(FLOATS, a, sizeof(a), four, 1), in[1] = tensor(FLOATS, b, sizeof(b), four, 1);
  to[0] = tensor(FLOATS, out, 16, four, 1);
  invoke("Add", context, ops[ADD], in, 2, to, 1);
  print_floats(out, 4);

  in[0] = tensor(FLOATS, a, 8, two, 1), in[1] = tensor(FLOATS, b, 4, one, 1);
  to[0] = tensor(FLOATS, out, 8, two, 1);
  invoke("Add of other shapes", context, ops[ADD], in, 2, to, 1);
  print_floats(out, 2);

  in[0] = tensor(FLOATS, a, sizeof(a), four, 1), in[1] = tensor(INT64S, k, sizeof(k), one, 1);
  to[0] = tensor(FLOATS, out, 8, two, 1), to[1] = tensor(INT64S, indices, sizeof(indices), two, 1);
  invoke("TopK", context, ops[TOP_K], in, 2, to, 2);
  print_floats(out, 2);
  printf("  %" PRId64 " %" PRId64 "\n", indices[0], indices[1]);

  in[0] = tensor(FLOATS, a, sizeof(a), four, 1);
  to[0] = tensor(INT32S, integers, sizeof(integers), four, 1);
  invoke("Cast", context, ops[CAST], in, 1, to, 1);
  printf("  %d %d %d %d\n", (int)integers[0], (int)integers[1], (int)integers[2], (int)integers[3]);

  in[0] = tensor(FLOATS, a, sizeof(a), four, 1), in[1] = tensor(FLOATS, least, 4, NULL, 0);
  in[2] = tensor(FLOATS, most, 4, NULL, 0);
  to[0] = tensor(FLOATS, out, 16, four, 1);
  invoke("Clip", context, ops[CLIP], in, 3, to, 1);
  print_floats(out, 4);

  in[0] = tensor(FLOATS, a, sizeof(a), four, 1), in[1] = tensor(INT64S, shape, sizeof(shape), two, 1);
  to[0] = tensor(FLOATS, out, 16, square, 2);
  invoke("Reshape", context, ops[RESHAPE], in, 2, to, 1);
  print_floats(out, 4);

  in[0] = tensor(FLOATS, a, sizeof(a), four, 1);
  to[0] = tensor(FLOATS, out, 16, four, 1);
  invoke("Softmax", context, ops[SOFTMAX], in, 1, to, 1);
  print_floats(out, 4);

  in[0] = tensor(FLOATS, a, sizeof(a), square, 2), in[1] = tensor(FLOATS, b, sizeof(b), square, 2);
  to[0] = tensor(FLOATS, out, 16, square, 2);
  invoke("MatMul", context, ops[MATMUL], in, 2, to, 1);
  print_floats(out, 4);

  in[0] = tensor(FLOATS, image, sizeof(image), images, 4), in[1] = tensor(FLOATS, filter, sizeof(filter), filters, 4);
  in[2] = tensor(FLOATS, bias, sizeof(bias), one, 1);
  to[0] = tensor(FLOATS, out, 36, result, 4);
  invoke("Conv", context, ops[CONV], in, 3, to, 1);
  print_floats(out, 9);

  in[0] = tensor(FLOATS, a, sizeof(a), four, 1);
  to[0] = tensor(FLOATS, out, 16, four, 1);
  invoke("Gelu", context, ops[GELU], in, 1, to, 1);
  print_floats(out, 4);
}

static void wrong_counts(const OrtKernelContext* context) {
  static float a[] = {1}, out[1];
  const int64_t one[] = {1};
  OrtValue* in[3];
  OrtValue* to[2];
  int i;
  for (i = 0; i < 3; ++i) in[i] = tensor(FLOATS, a, sizeof(a), one, 1);
  for (i = 0; i < 2; ++i) to[i] = tensor(FLOATS, out, sizeof(out), one, 1);
  show("InvokeOp with an input too few", api->InvokeOp(context, ops[ADD], (const OrtValue* const*)in, 1, to, 1));
  show("InvokeOp with an input too many", api->InvokeOp(context, ops[ADD], (const OrtValue* const*)in, 3, to, 1));
  show("InvokeOp without an output", api->InvokeOp(context, ops[ADD], (const OrtValue* const*)in, 2, to, 0));
  show("InvokeOp with an output too many", api->InvokeOp(context, ops[ADD], (const OrtValue* const*)in, 2, to, 2));
  for (i = 0; i < 3; ++i) api->ReleaseValue(in[i]);
  for (i = 0; i < 2; ++i) api->ReleaseValue(to[i]);
}

static int runs;

static void* create(const OrtCustomOp* op, const OrtApi* host, const OrtKernelInfo* info) {
  (void)op;
  (void)host;
  create_operators(info);
  refusals(info);
  return &runs;
}
static void destroy(void* kernel) {
  int i;
  (void)kernel;
  for (i = 0; i < COUNT; ++i) api->ReleaseOp(ops[i]);
  printf("destroyed\n");
}

/* The node's own output is the sum of its input with itself, by the operator. */
static void compute(void* kernel, OrtKernelContext* context) {
  const OrtValue* input = NULL;
  const OrtValue* both[2];
  OrtValue* output = NULL;
  OrtTensorTypeAndShapeInfo* shape = NULL;
  int64_t dims[1] = {0};
  (void)kernel;
  if (runs++ == 0) {
    invoke_all(context);
    wrong_counts(context);
  }
  MUST(KernelContext_GetInput(context, 0, &input));
  MUST(GetTensorTypeAndShape(input, &shape));
  MUST(GetDimensions(shape, dims, 1));
  api->ReleaseTensorTypeAndShapeInfo(shape);
  MUST(KernelContext_GetOutput(context, 0, dims, 1, &output));
  both[0] = both[1] = input;
  show("InvokeOp on the kernel's own values", api->InvokeOp(context, ops[ADD], both, 2, &output, 1));
}

static const char* op_name(const OrtCustomOp* op) {
  (void)op;
  return "Call";
}
static const char* no_provider(const OrtCustomOp* op) {
  (void)op;
  return NULL;
}
static ONNXTensorElementDataType float_type(const OrtCustomOp* op, size_t index) {
  (void)op;
  (void)index;
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
}
static size_t one_parameter(const OrtCustomOp* op) {
  (void)op;
  return 1;
}
static OrtCustomOpInputOutputCharacteristic required(const OrtCustomOp* op, size_t index) {
  (void)op;
  (void)index;
  return INPUT_OUTPUT_REQUIRED;
}

static void run_model(OrtSession* session, float* data, int64_t count) {
  static const char* const inputs[] = {"x"};
  static const char* const outputs[] = {"z"};
  OrtValue* x = tensor(FLOATS, data, (size_t)count * sizeof(float), &count, 1);
  OrtValue* z = NULL;
  void* result = NULL;
  if (show("Run", api->Run(session, NULL, inputs, (const OrtValue* const*)&x, 1, outputs, 1, &z))) {
    MUST(GetTensorMutableData(z, &result));
    print_floats(result, (size_t)count);
  }
  api->ReleaseValue(x);
  api->ReleaseValue(z);
}

static void run(void) {
  OrtEnv* env = NULL;
  OrtSessionOptions* options = NULL;
  OrtSession* session = NULL;
  OrtCustomOpDomain* domain = NULL;
  OrtCustomOp op;
  float data[] = {1, 2, 3, 4.5F};
  memset(&op, 0, sizeof(op));
  op.version = 12;
  op.CreateKernel = create;
  op.GetName = op_name;
  op.GetExecutionProviderType = no_provider;
  op.GetInputType = float_type;
  op.GetInputTypeCount = one_parameter;
  op.GetOutputType = float_type;
  op.GetOutputTypeCount = one_parameter;
  op.KernelCompute = compute;
  op.KernelDestroy = destroy;
  op.GetInputCharacteristic = required;
  op.GetOutputCharacteristic = required;
  MUST(CreateEnv(ORT_LOGGING_LEVEL_FATAL, "invoke op", &env));
  MUST(CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &cpu));
  MUST(CreateSessionOptions(&options));
  MUST(SetIntraOpNumThreads(options, 2));
  MUST(CreateCustomOpDomain("test.ops", &domain));
  MUST(CustomOpDomain_Add(domain, &op));
  MUST(AddCustomOpDomain(options, domain));
  if (CALL(CreateSessionFromArray(env, model, sizeof(model), options, &session))) {
    run_model(session, data, 4);
    run_model(session, data, 2);
    api->ReleaseSession(session);
  }
  api->ReleaseSessionOptions(options);
  api->ReleaseCustomOpDomain(domain);
  api->ReleaseMemoryInfo(cpu);
  api->ReleaseEnv(env);
}
