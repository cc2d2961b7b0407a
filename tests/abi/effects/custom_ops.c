/* Custom operators: domains, refusals, and a model that runs one. */
#include "effects.h"

/* Shift (domain test.ops, attribute "by" -2) followed by Relu, on float[n]. */
static const unsigned char model[] = {
    0x08, 0x08, 0x3a, 0x69, 0x0a, 0x2c, 0x0a, 0x01, 0x78, 0x12, 0x01, 0x79, 0x1a, 0x05, 0x73, 0x68, 0x69, 0x66, 0x74,
    0x22, 0x05, 0x53, 0x68, 0x69, 0x66, 0x74, 0x2a, 0x0c, 0x0a, 0x02, 0x62, 0x79, 0x15, 0x00, 0x00, 0x00, 0xc0, 0xa0,
    0x01, 0x01, 0x3a, 0x08, 0x74, 0x65, 0x73, 0x74, 0x2e, 0x6f, 0x70, 0x73, 0x0a, 0x12, 0x0a, 0x01, 0x79, 0x12, 0x01,
    0x7a, 0x1a, 0x04, 0x72, 0x65, 0x6c, 0x75, 0x22, 0x04, 0x52, 0x65, 0x6c, 0x75, 0x12, 0x01, 0x67, 0x5a, 0x10, 0x0a,
    0x01, 0x78, 0x12, 0x0b, 0x0a, 0x09, 0x08, 0x01, 0x12, 0x05, 0x0a, 0x03, 0x12, 0x01, 0x6e, 0x62, 0x10, 0x0a, 0x01,
    0x7a, 0x12, 0x0b, 0x0a, 0x09, 0x08, 0x01, 0x12, 0x05, 0x0a, 0x03, 0x12, 0x01, 0x6e, 0x42, 0x04, 0x0a, 0x00, 0x10,
    0x11, 0x42, 0x0c, 0x0a, 0x08, 0x74, 0x65, 0x73, 0x74, 0x2e, 0x6f, 0x70, 0x73, 0x10, 0x01,
};

static int created, destroyed;

struct kernel {
  float by;
};

/* Prints what kernels log, and nothing that the library itself has to say. */
static void print_line(void* param, OrtLoggingLevel severity, const char* category, const char* logid,
                       const char* location, const char* message) {
  (void)param;
  if (strncmp(message, "from the kernel", 15) != 0) return;
  printf("logged %d %s \"%s\" [%s] %s\n", (int)severity, category, logid, location, message);
}

static void log_lines(const OrtApi* host, const OrtKernelInfo* info) {
  const OrtLogger* logger = NULL;
  OrtLoggingLevel level = (OrtLoggingLevel)99;
  if (!show("KernelInfo_GetLogger", host->KernelInfo_GetLogger(info, &logger))) return;
  show("Logger_GetLoggingSeverityLevel", host->Logger_GetLoggingSeverityLevel(logger, &level));
  printf("severity %d\n", (int)level);
  show("Logger_LogMessage", host->Logger_LogMessage(logger, ORT_LOGGING_LEVEL_ERROR, "from the kernel: an error",
                                                    "folder/file.c", 12, "function"));
  show("Logger_LogMessage", host->Logger_LogMessage(logger, ORT_LOGGING_LEVEL_INFO, "from the kernel: information",
                                                    "file.c", 13, "function"));
}

static void* create(const OrtCustomOp* op, const OrtApi* host, const OrtKernelInfo* info) {
  struct kernel* kernel = malloc(sizeof(*kernel));
  char name[32];
  size_t size = sizeof(name), inputs = 99, outputs = 99;
  (void)op;
  kernel->by = 0;
  show("KernelInfoGetAttribute_float by", host->KernelInfoGetAttribute_float(info, "by", &kernel->by));
  show("KernelInfoGetAttribute_float nothing", host->KernelInfoGetAttribute_float(info, "nothing", &kernel->by));
  show("KernelInfo_GetNodeName", host->KernelInfo_GetNodeName(info, name, &size));
  show("KernelInfo_GetInputCount", host->KernelInfo_GetInputCount(info, &inputs));
  show("KernelInfo_GetOutputCount", host->KernelInfo_GetOutputCount(info, &outputs));
  printf("kernel of \"%s\", by %g, %zu inputs, %zu outputs\n", name, (double)kernel->by, inputs, outputs);
  log_lines(host, info);
  ++created;
  return kernel;
}
static void destroy(void* kernel) {
  ++destroyed;
  free(kernel);
}
static void compute(void* opaque, OrtKernelContext* context) {
  const struct kernel* kernel = opaque;
  const OrtValue* input = NULL;
  OrtValue* output = NULL;
  OrtTensorTypeAndShapeInfo* shape = NULL;
  int64_t dims[4];
  size_t rank = 0, count = 0, i, inputs = 99, outputs = 99;
  const void* from = NULL;
  void* to = NULL;
  MUST(KernelContext_GetInputCount(context, &inputs));
  MUST(KernelContext_GetOutputCount(context, &outputs));
  MUST(KernelContext_GetInput(context, 0, &input));
  MUST(GetTensorTypeAndShape(input, &shape));
  MUST(GetDimensionsCount(shape, &rank));
  MUST(GetDimensions(shape, dims, rank));
  MUST(GetTensorShapeElementCount(shape, &count));
  api->ReleaseTensorTypeAndShapeInfo(shape);
  MUST(KernelContext_GetOutput(context, 0, dims, rank, &output));
  MUST(GetTensorData(input, &from));
  MUST(GetTensorMutableData(output, &to));
  for (i = 0; i < count; ++i) ((float*)to)[i] = ((const float*)from)[i] + kernel->by;
  printf("computed %zu elements, %zu inputs, %zu outputs\n", count, inputs, outputs);
}
static const char* op_name(const OrtCustomOp* op) {
  (void)op;
  return "Shift";
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
static ONNXTensorElementDataType double_type(const OrtCustomOp* op, size_t index) {
  (void)op;
  (void)index;
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE;
}
static size_t one(const OrtCustomOp* op) {
  (void)op;
  return 1;
}
static OrtCustomOpInputOutputCharacteristic required(const OrtCustomOp* op, size_t index) {
  (void)op;
  (void)index;
  return INPUT_OUTPUT_REQUIRED;
}
static OrtMemType memory(const OrtCustomOp* op, size_t index) {
  (void)op;
  (void)index;
  return OrtMemTypeDefault;
}
static int zero(const OrtCustomOp* op) {
  (void)op;
  return 0;
}

static void fill(OrtCustomOp* op) {
  memset(op, 0, sizeof(*op));
  op->version = 14;
  op->CreateKernel = create;
  op->GetName = op_name;
  op->GetExecutionProviderType = no_provider;
  op->GetInputType = float_type;
  op->GetInputTypeCount = one;
  op->GetOutputType = float_type;
  op->GetOutputTypeCount = one;
  op->KernelCompute = compute;
  op->KernelDestroy = destroy;
  op->GetInputCharacteristic = required;
  op->GetOutputCharacteristic = required;
  op->GetInputMemoryType = memory;
  op->GetVariadicInputMinArity = zero;
  op->GetVariadicInputHomogeneity = zero;
  op->GetVariadicOutputMinArity = zero;
  op->GetVariadicOutputHomogeneity = zero;
}

/* Whether a session can be made; the texts of the two libraries have nothing in common. */
static bool can_make(OrtEnv* env, OrtSessionOptions* options) {
  OrtSession* session = NULL;
  OrtStatus* status = api->CreateSessionFromArray(env, model, sizeof(model), options, &session);
  bool made = status == NULL && session != NULL;
  api->ReleaseStatus(status);
  api->ReleaseSession(session);
  return made;
}

static void run_model(OrtSession* session, float* data, int64_t count) {
  static const char* const inputs[] = {"x"};
  static const char* const outputs[] = {"z"};
  OrtMemoryInfo* cpu = NULL;
  OrtValue* x = NULL;
  OrtValue* z = NULL;
  void* result = NULL;
  int64_t i;
  MUST(CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &cpu));
  MUST(CreateTensorWithDataAsOrtValue(cpu, data, (size_t)count * sizeof(float), &count, 1,
                                      ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &x));
  if (show("Run", api->Run(session, NULL, inputs, (const OrtValue* const*)&x, 1, outputs, 1, &z))) {
    MUST(GetTensorMutableData(z, &result));
    for (i = 0; i < count; ++i) printf(" %g", (double)((float*)result)[i]);
    printf("\n");
  }
  api->ReleaseValue(x);
  api->ReleaseValue(z);
  api->ReleaseMemoryInfo(cpu);
}

static void run(void) {
  OrtEnv* env = NULL;
  OrtSessionOptions* options = NULL;
  OrtSession* session = NULL;
  OrtCustomOpDomain* domain = NULL;
  OrtCustomOpDomain* empty = NULL;
  OrtCustomOpDomain* wrong = NULL;
  OrtCustomOp op, other;
  float data[] = {1, 2, 3, 4.5F};
  MUST(CreateEnvWithCustomLogger(print_line, NULL, ORT_LOGGING_LEVEL_WARNING, "custom ops", &env));
  MUST(CreateSessionOptions(&options));
  MUST(SetIntraOpNumThreads(options, 1));
  fill(&op);
  fill(&other);
  other.GetInputType = double_type;
  CALL(EnableOrtCustomOps(options));
  CALL(RegisterCustomOpsUsingFunction(options, "no_such_function"));
  CALL(RegisterCustomOpsUsingFunction(options, ""));
  printf("without the operator %d\n", can_make(env, options));
  CALL(CreateCustomOpDomain("test.ops", &wrong));
  CALL(CustomOpDomain_Add(wrong, &other));
  CALL(CreateCustomOpDomain("test.ops", &domain));
  CALL(CustomOpDomain_Add(domain, &op));
  CALL(CreateCustomOpDomain("", &empty));
  CALL(AddCustomOpDomain(options, domain));
  if (CALL(CreateSessionFromArray(env, model, sizeof(model), options, &session))) {
    run_model(session, data, 4);
    run_model(session, data, 2);
    api->ReleaseSession(session);
  }
  printf("created %d destroyed %d\n", created, destroyed);
  api->ReleaseSessionOptions(options);
  MUST(CreateSessionOptions(&options));
  MUST(AddCustomOpDomain(options, wrong));
  printf("for another type %d\n", can_make(env, options));
  api->ReleaseSessionOptions(options);
  api->ReleaseCustomOpDomain(domain);
  api->ReleaseCustomOpDomain(wrong);
  api->ReleaseCustomOpDomain(empty);
  api->ReleaseCustomOpDomain(NULL);
  api->ReleaseEnv(env);
  printf("released\n");
}
