/* A program for ONNX Runtime's C API, linked with a libonnxruntime: x [2,1,8,8] of 0.5 -> the sum of y, and errors as
 * it tells them. */
#include <onnxruntime_c_api.h>
#include <stdio.h>

static const OrtApi* ort;

static int failed(OrtStatus* status) {
  if (status == NULL) return 0;
  fprintf(stderr, "program: %d %s\n", (int)ort->GetErrorCode(status), ort->GetErrorMessage(status));
  ort->ReleaseStatus(status);
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  ort = OrtGetApiBase()->GetApi(16);
  if (ort == NULL) return 2;
  static float x[128];
  for (int i = 0; i < 128; ++i) x[i] = 0.5f;
  const int64_t dims[] = {2, 1, 8, 8};
  const char *input = "x", *output = "y";
  OrtEnv* env = NULL;
  OrtSessionOptions* options = NULL;
  OrtSession* session = NULL;
  OrtMemoryInfo* cpu = NULL;
  OrtValue *in = NULL, *out = NULL;
  float* y = NULL;
  int failure = failed(ort->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "program", &env)) ||
                failed(ort->CreateSessionOptions(&options)) ||
                failed(OrtSessionOptionsAppendExecutionProvider_CPU(options, 1)) ||
                failed(ort->CreateSession(env, argv[1], options, &session)) ||
                failed(ort->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &cpu)) ||
                failed(ort->CreateTensorWithDataAsOrtValue(cpu, x, sizeof x, dims, 4,
                                                           ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &in)) ||
                failed(ort->Run(session, NULL, &input, (const OrtValue* const*)&in, 1, &output, 1, &out)) ||
                failed(ort->GetTensorMutableData(out, (void**)&y));
  if (!failure) {
    double sum = 0;
    for (int i = 0; i < 256; ++i) sum += y[i];
    printf("sum %.4f\n", sum);
  }
  ort->ReleaseValue(out);
  ort->ReleaseValue(in);
  ort->ReleaseMemoryInfo(cpu);
  ort->ReleaseSession(session);
  ort->ReleaseSessionOptions(options);
  ort->ReleaseEnv(env);
  return failure;
}
