/* Appending execution providers that are no part of the library to session options. */
#include "effects.h"

static void appended(void) {
  static const char* const keys[] = {"device_id"};
  static const char* const values[] = {"0"};
  static const char* const names[] = {
      "CPU",           "XNNPACK",       "QNN", "OpenVINO", "CoreML", "CUDA",    "WEBGPU", "DML",      "NoSuchThing", "",
      "NvTensorRtRtx", "nvtensorrtrtx", "JS",  "SNPE",   "VitisAI", "WEBNN",  "MIGraphX",
      "NvTensorRTRTXExecutionProvider", "DmlExecutionProvider"};
  OrtSessionOptions* options = NULL;
  OrtCUDAProviderOptions cuda;
  OrtROCMProviderOptions rocm;
  OrtTensorRTProviderOptions tensorrt;
  OrtOpenVINOProviderOptions openvino;
  OrtMIGraphXProviderOptions migraphx;
  size_t i;
  memset(&cuda, 0, sizeof(cuda));
  memset(&rocm, 0, sizeof(rocm));
  memset(&tensorrt, 0, sizeof(tensorrt));
  memset(&openvino, 0, sizeof(openvino));
  memset(&migraphx, 0, sizeof(migraphx));
  MUST(CreateSessionOptions(&options));
  for (i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
    char what[80];
    snprintf(what, sizeof(what), "SessionOptionsAppendExecutionProvider \"%s\"", names[i]);
    show(what, api->SessionOptionsAppendExecutionProvider(options, names[i], keys, values, 0));
  }
  CALL(SessionOptionsAppendExecutionProvider_CUDA(options, &cuda));
  CALL(SessionOptionsAppendExecutionProvider_ROCM(options, &rocm));
  CALL(SessionOptionsAppendExecutionProvider_TensorRT(options, &tensorrt));
  CALL(SessionOptionsAppendExecutionProvider_OpenVINO(options, &openvino));
  CALL(SessionOptionsAppendExecutionProvider_MIGraphX(options, &migraphx));
  CALL(SessionOptionsAppendExecutionProvider_OpenVINO_V2(options, keys, values, 1));
  CALL(SessionOptionsAppendExecutionProvider_VitisAI(options, keys, values, 1));
  api->ReleaseSessionOptions(options);
}

static void run(void) {
  OrtEnv* env = NULL;
  MUST(CreateEnv(ORT_LOGGING_LEVEL_FATAL, "providers", &env));
  appended();
  api->ReleaseEnv(env);
  printf("released\n");
}
