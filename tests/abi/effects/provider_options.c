/* Option objects of execution providers that are no part of the library, GPU device ids, experimental functions. */
#include "effects.h"

static void option_objects(void) {
  static const char* const keys[] = {"device_id"};
  static const char* const values[] = {"0"};
  OrtCUDAProviderOptionsV2* cuda = NULL;
  OrtTensorRTProviderOptionsV2* tensorrt = NULL;
  OrtCANNProviderOptions* cann = NULL;
  OrtDnnlProviderOptions* dnnl = NULL;
  OrtROCMProviderOptions* rocm = NULL;
  if (CALL(CreateCUDAProviderOptions(&cuda))) {
    CALL(UpdateCUDAProviderOptions(cuda, keys, values, 1));
    api->ReleaseCUDAProviderOptions(cuda);
  }
  if (CALL(CreateTensorRTProviderOptions(&tensorrt))) {
    CALL(UpdateTensorRTProviderOptions(tensorrt, keys, values, 1));
    api->ReleaseTensorRTProviderOptions(tensorrt);
  }
  CALL(CreateCANNProviderOptions(&cann));
  if (CALL(CreateDnnlProviderOptions(&dnnl))) {
    CALL(UpdateDnnlProviderOptions(dnnl, keys, values, 1));
    api->ReleaseDnnlProviderOptions(dnnl);
  }
  CALL(CreateROCMProviderOptions(&rocm));
  printf("cuda %d tensorrt %d cann %d rocm %d\n", cuda != NULL, tensorrt != NULL, cann != NULL, rocm != NULL);
  api->ReleaseCUDAProviderOptions(NULL);
  api->ReleaseTensorRTProviderOptions(NULL);
  api->ReleaseCANNProviderOptions(NULL);
  api->ReleaseDnnlProviderOptions(NULL);
  api->ReleaseROCMProviderOptions(NULL);
}

static void others(void) {
  int id = 77;
  const void* provider_api = (const void*)1;
  CALL(GetCurrentGpuDeviceId(&id));
  printf("  %d\n", id);
  CALL(SetCurrentGpuDeviceId(0));
  CALL(GetExecutionProviderApi("DML", 1, &provider_api));
  printf("  %d\n", provider_api == (const void*)1 ? 1 : provider_api != NULL);
  CALL(GetExecutionProviderApi("Nothing", 1, &provider_api));
  printf("experimental test function %d\n",
         api->GetExperimentalFunction("OrtApi_ExperimentalApiTest_SinceV28") != NULL);
  printf("experimental other %d, empty %d\n", api->GetExperimentalFunction("OrtApi_Nothing_SinceV28") != NULL,
         api->GetExperimentalFunction("") != NULL);
  printf("training %d\n", api->GetTrainingApi(ORT_API_VERSION) != NULL);
}

static void run(void) {
  OrtEnv* env = NULL;
  MUST(CreateEnv(ORT_LOGGING_LEVEL_FATAL, "providers", &env));
  option_objects();
  others();
  api->ReleaseEnv(env);
  printf("released\n");
}
