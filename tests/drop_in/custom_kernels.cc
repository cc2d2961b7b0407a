// Custom operators whose kernels are missing, fail or throw: the code and the message that the program sees.
#include <stdexcept>

extern "C" {
#include "drop_in.h"
}

namespace {

// The behaviour of a kernel when it is made and when it computes.
enum class Way { kRight, kNull, kStatus, kThrow, kThrowInt };
Way g_create, g_compute;
int g_destroyed = 0;
OrtErrorCode g_code;

[[noreturn]] void throw_something(Way way) {
  if (way == Way::kThrowInt) throw 7;
  throw std::runtime_error("thrown by the kernel");
}

void triple(OrtKernelContext* context) {
  const OrtValue* x = nullptr;
  OrtValue* y = nullptr;
  float *from = nullptr, *to = nullptr;
  const int64_t dims[1] = {1};
  MUST(ort->KernelContext_GetInput(context, 0, &x));
  MUST(ort->KernelContext_GetOutput(context, 0, dims, 1, &y));
  MUST(ort->GetTensorMutableData(const_cast<OrtValue*>(x), reinterpret_cast<void**>(&from)));
  MUST(ort->GetTensorMutableData(y, reinterpret_cast<void**>(&to)));
  to[0] = 3 * from[0];
}

void* ORT_API_CALL create(const OrtCustomOp*, const OrtApi*, const OrtKernelInfo*) {
  if (g_create == Way::kThrow || g_create == Way::kThrowInt) throw_something(g_create);
  return g_create == Way::kNull ? nullptr : static_cast<void*>(&g_code);
}

OrtStatusPtr ORT_API_CALL create_v2(const OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info,
                                    void** kernel) {
  if (g_create == Way::kStatus) return api->CreateStatus(g_code, "the kernel cannot be made");
  *kernel = create(op, api, info);
  return nullptr;
}

void ORT_API_CALL compute(void*, OrtKernelContext* context) {
  if (g_compute == Way::kThrow || g_compute == Way::kThrowInt) throw_something(g_compute);
  triple(context);
}

OrtStatusPtr ORT_API_CALL compute_v2(void* kernel, OrtKernelContext* context) {
  if (g_compute == Way::kStatus) return ort->CreateStatus(g_code, "the kernel cannot compute");
  compute(kernel, context);
  return nullptr;
}

OrtCustomOp make_op(bool second) {
  OrtCustomOp op{};
  op.version = second ? 16 : 8;
  op.GetName = [](const OrtCustomOp*) { return "Custom"; };
  op.GetExecutionProviderType = [](const OrtCustomOp*) -> const char* { return nullptr; };
  op.GetInputType = op.GetOutputType = [](const OrtCustomOp*, size_t) { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; };
  op.GetInputTypeCount = op.GetOutputTypeCount = [](const OrtCustomOp*) -> size_t { return 1; };
  op.GetInputCharacteristic =
      op.GetOutputCharacteristic = [](const OrtCustomOp*, size_t) { return INPUT_OUTPUT_REQUIRED; };
  op.GetInputMemoryType = [](const OrtCustomOp*, size_t) { return OrtMemTypeDefault; };
  op.GetVariadicInputMinArity = op.GetVariadicOutputMinArity = [](const OrtCustomOp*) { return 1; };
  op.GetVariadicInputHomogeneity = op.GetVariadicOutputHomogeneity = [](const OrtCustomOp*) { return 1; };
  op.CreateKernel = create;
  op.KernelCompute = compute;
  op.KernelDestroy = [](void*) { ++g_destroyed; };
  if (second) {
    op.CreateKernelV2 = create_v2;
    op.KernelComputeV2 = compute_v2;
  }
  return op;
}

// A session whose kernel is made and run the given ways; then a run that is right, where there is a session.
void try_kernel(const char* label, OrtSessionOptions* options, Way create_way, Way compute_way,
                OrtErrorCode code = ORT_OK, const char* name = "custom_domain.onnx") {
  g_create = create_way;
  g_compute = compute_way;
  g_code = code;
  OrtSession* session = open_session(label, name, options);
  printf("  destroyed %d\n", g_destroyed);
  g_destroyed = 0;
  if (session == nullptr) return;
  float one[1] = {1};
  const int64_t dims[1] = {1};
  OrtValue* x = floats(one, 1, dims, 1);
  const OrtValue* values[] = {x};
  const char *in[] = {"x"}, *out[] = {"y"};
  for (int turn = 0; turn < 2; ++turn) {
    OrtValue* result = nullptr;
    if (check(turn == 0 ? "  run" : "  right run", ort->Run(session, nullptr, in, values, 1, out, 1, &result))) {
      print_value("  y", result);
      ort->ReleaseValue(result);
    }
    g_compute = Way::kRight;
  }
  ort->ReleaseValue(x);
  ort->ReleaseSession(session);
  printf("  destroyed %d\n", g_destroyed);
  g_destroyed = 0;
}

void try_version(bool second) {
  OrtCustomOp op = make_op(second);
  OrtCustomOpDomain* domain = nullptr;
  OrtSessionOptions* options = fresh();
  MUST(ort->CreateCustomOpDomain("example.custom", &domain));
  MUST(ort->CustomOpDomain_Add(domain, &op));
  MUST(ort->AddCustomOpDomain(options, domain));
  printf("version %u\n", op.version);
  try_kernel("right", options, Way::kRight, Way::kRight);
  try_kernel("null kernel", options, Way::kNull, Way::kRight);
  try_kernel("making throws", options, Way::kThrow, Way::kRight);
  try_kernel("making throws an int", options, Way::kThrowInt, Way::kRight);
  try_kernel("computing throws", options, Way::kRight, Way::kThrow);
  try_kernel("computing throws an int", options, Way::kRight, Way::kThrowInt);
  for (const char* body : {"custom_if.onnx", "custom_scan.onnx"}) {
    printf("%s\n", body);
    try_kernel("right", options, Way::kRight, Way::kRight, ORT_OK, body);
    try_kernel("null kernel", options, Way::kNull, Way::kRight, ORT_OK, body);
    try_kernel("making throws", options, Way::kThrow, Way::kRight, ORT_OK, body);
    try_kernel("computing throws", options, Way::kRight, Way::kThrow, ORT_OK, body);
    if (!second) continue;
    try_kernel("making fails", options, Way::kStatus, Way::kRight, ORT_NO_SUCHFILE, body);
    try_kernel("computing fails", options, Way::kRight, Way::kStatus, ORT_NO_SUCHFILE, body);
  }
  for (int code = ORT_FAIL; second && code <= ORT_DEVICE_RESET; ++code) {
    printf("code %d\n", code);
    try_kernel("making fails", options, Way::kStatus, Way::kRight, static_cast<OrtErrorCode>(code));
    try_kernel("computing fails", options, Way::kRight, Way::kStatus, static_cast<OrtErrorCode>(code));
  }
  ort->ReleaseSessionOptions(options);
  ort->ReleaseCustomOpDomain(domain);
}

}  // namespace

int main(int argc, char** argv) {
  start(argc, argv);
  try_version(false);
  try_version(true);
  return finish();
}
