/* Custom operators: domains, libraries, and sessions of models that use them or not. */
#include "drop_in.h"

static void* create_kernel(const OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info) {
  (void)op, (void)api, (void)info;
  return (void*)&ort;
}
static const char* name_of(const OrtCustomOp* op) { return (void)op, "Custom"; }
static const char* ep_of(const OrtCustomOp* op) { return (void)op, (const char*)NULL; }
static ONNXTensorElementDataType type_of(const OrtCustomOp* op, size_t index) {
  return (void)op, (void)index, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
}
static size_t one(const OrtCustomOp* op) { return (void)op, (size_t)1; }
static OrtCustomOpInputOutputCharacteristic required(const OrtCustomOp* op, size_t index) {
  return (void)op, (void)index, INPUT_OUTPUT_REQUIRED;
}
static void destroy_kernel(void* kernel) { (void)kernel; }
static void compute(void* kernel, OrtKernelContext* context) {
  const OrtValue* x = NULL;
  OrtValue* y = NULL;
  float *from = NULL, *to = NULL;
  const int64_t dims[1] = {1};
  (void)kernel;
  MUST(ort->KernelContext_GetInput(context, 0, &x));
  MUST(ort->KernelContext_GetOutput(context, 0, dims, 1, &y));
  MUST(ort->GetTensorMutableData((OrtValue*)x, (void**)&from));
  MUST(ort->GetTensorMutableData(y, (void**)&to));
  to[0] = 3 * from[0];
}

/* Runs a model with the operator in a body on two inputs. */
static void run_body(const char* name, const char* second, OrtSessionOptions* options) {
  OrtSession* session = open_session(name, name, options);
  const float numbers[2] = {1, -2};
  const int64_t dims[1] = {1};
  int i;
  if (session == NULL) return;
  for (i = 0; i < 4; ++i) {
    float input = numbers[i % 2];
    OrtValue *x = floats(&input, 1, dims, 1), *results[2] = {NULL, NULL};
    const OrtValue* values[] = {x};
    const char* in[] = {"x"};
    const char* out[2];
    out[0] = "y";
    out[1] = second;
    if (check("  run", ort->Run(session, NULL, in, values, 1, out, second != NULL ? 2 : 1, results))) {
      print_value("  y", results[0]);
      if (second != NULL) print_value("  all", results[1]);
    }
    if (results[0] != NULL) ort->ReleaseValue(results[0]);
    if (results[1] != NULL) ort->ReleaseValue(results[1]);
    ort->ReleaseValue(x);
  }
  ort->ReleaseSession(session);
}

int main(int argc, char** argv) {
  OrtCustomOpDomain* domain = NULL;
  OrtSessionOptions* options = NULL;
  OrtSession* session;
  OrtCustomOp op;
  memset(&op, 0, sizeof(op));
  op.version = 8;
  op.CreateKernel = create_kernel;
  op.GetName = name_of;
  op.GetExecutionProviderType = ep_of;
  op.GetInputType = op.GetOutputType = type_of;
  op.GetInputTypeCount = op.GetOutputTypeCount = one;
  op.GetInputCharacteristic = op.GetOutputCharacteristic = required;
  op.KernelCompute = compute;
  op.KernelDestroy = destroy_kernel;
  start(argc, argv);
  check("domain", ort->CreateCustomOpDomain("example.custom", &domain));
  check("operator", ort->CustomOpDomain_Add(domain, &op));
  MUST(ort->CreateSessionOptions(&options));
  check("no such library", ort->RegisterCustomOpsLibrary_V2(options, "no-such-library.so"));
  check("a library of something else", ort->RegisterCustomOpsLibrary_V2(options, "libm.so.6"));
  check("no such function", ort->RegisterCustomOpsUsingFunction(options, "no_such_function"));
  check("empty function name", ort->RegisterCustomOpsUsingFunction(options, ""));
  check("built-in operators", ort->EnableOrtCustomOps(options));
  check("added", ort->AddCustomOpDomain(options, domain));
  session = open_session("a model without it", "matmul.onnx", options);
  if (session != NULL) ort->ReleaseSession(session);
  session = open_session("a model with it", "custom_domain.onnx", options);
  if (session != NULL) ort->ReleaseSession(session);
  run_body("custom_if.onnx", NULL, options);
  run_body("custom_constant_if.onnx", NULL, options);
  run_body("custom_loop.onnx", "all", options);
  run_body("custom_scan.onnx", "all", options);
  run_body("custom_nested.onnx", NULL, options);
  /* A program's own operators run on the CPU EP. */
  MUST(ort->AddSessionConfigEntry(options, "session.disable_cpu_ep_fallback", "1"));
  session = open_session("no fallback", "custom_domain.onnx", options);
  if (session != NULL) ort->ReleaseSession(session);
  ort->ReleaseSessionOptions(options);
  ort->ReleaseCustomOpDomain(domain);
  return finish();
}
