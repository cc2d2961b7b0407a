/* Registers a plugin with a library of ONNX Runtime's ABI, runs a model on its first device, and prints the outputs.
 *
 *   run_plugin LIBRARY PLUGIN EP_NAME MODEL
 *
 * Inputs are float tensors; unknown dimensions are 2. Elements count up in halves from -1. Each run is done twice. */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/onnxruntime_c_api.h>

static const OrtApi* api;

static void must(OrtStatus* status, const char* what) {
  if (status == NULL) return;
  printf("%s: code %d: %s\n", what, (int)api->GetErrorCode(status), api->GetErrorMessage(status));
  exit(3);
}
#define MUST(call) must(api->call, #call)

static OrtValue* make_input(const OrtSession* session, size_t index, OrtAllocator* allocator) {
  OrtTypeInfo* info = NULL;
  const OrtTensorTypeAndShapeInfo* tensor = NULL;
  OrtValue* value = NULL;
  int64_t dims[16];
  size_t rank = 0, count = 1, i;
  float* data = NULL;
  MUST(SessionGetInputTypeInfo(session, index, &info));
  MUST(CastTypeInfoToTensorInfo(info, &tensor));
  MUST(GetDimensionsCount(tensor, &rank));
  MUST(GetDimensions(tensor, dims, rank));
  for (i = 0; i < rank; ++i) {
    if (dims[i] < 0) dims[i] = 2;
    count *= (size_t)dims[i];
  }
  MUST(CreateTensorAsOrtValue(allocator, dims, rank, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
  MUST(GetTensorMutableData(value, (void**)&data));
  for (i = 0; i < count; ++i) data[i] = -1.0f + 0.5f * (float)i;
  api->ReleaseTypeInfo(info);
  return value;
}

static void print_output(const char* name, const OrtValue* value) {
  OrtTensorTypeAndShapeInfo* shape = NULL;
  size_t count = 0, i;
  const void* data = NULL;
  MUST(GetTensorTypeAndShape(value, &shape));
  MUST(GetTensorShapeElementCount(shape, &count));
  api->ReleaseTensorTypeAndShapeInfo(shape);
  MUST(GetTensorData(value, &data));
  printf("%s:", name);
  for (i = 0; i < count && i < 32; ++i) printf(" %g", (double)((const float*)data)[i]);
  printf("\n");
}

int main(int argc, char** argv) {
  const OrtApiBase* (*get)(void);
  void* library = argc == 5 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  OrtEnv* env = NULL;
  OrtSessionOptions* options = NULL;
  OrtSession* session = NULL;
  OrtAllocator* allocator = NULL;
  const OrtEpDevice* const* devices = NULL;
  const OrtEpDevice* device = NULL;
  size_t count = 0, num_inputs = 0, num_outputs = 0, i;
  char *input_names[16], *output_names[16];
  OrtValue* inputs[16] = {NULL};
  OrtValue* outputs[16] = {NULL};
  int run;
  if (library == NULL) {
    fprintf(stderr, "usage: %s LIBRARY PLUGIN EP_NAME MODEL (%s)\n", argv[0],
            argc == 5 ? dlerror() : "arguments missing");
    return 2;
  }
  *(void**)&get = dlsym(library, "OrtGetApiBase");
  if (get == NULL) return 2;
  api = get()->GetApi(ORT_API_VERSION);
  if (api == NULL) return 2;
  MUST(CreateEnv(ORT_LOGGING_LEVEL_WARNING, "run_plugin", &env));
  MUST(RegisterExecutionProviderLibrary(env, "plugin", argv[2]));
  MUST(GetEpDevices(env, &devices, &count));
  for (i = 0; i < count && device == NULL; ++i)
    if (strcmp(api->EpDevice_EpName(devices[i]), argv[3]) == 0) device = devices[i];
  if (device == NULL) {
    printf("no device of %s\n", argv[3]);
    return 3;
  }
  MUST(CreateSessionOptions(&options));
  MUST(SetSessionGraphOptimizationLevel(options, ORT_DISABLE_ALL));
  MUST(SetIntraOpNumThreads(options, 1));
  MUST(SessionOptionsAppendExecutionProvider_V2(options, env, &device, 1, NULL, NULL, 0));
  MUST(CreateSession(env, argv[4], options, &session));
  MUST(GetAllocatorWithDefaultOptions(&allocator));
  MUST(SessionGetInputCount(session, &num_inputs));
  MUST(SessionGetOutputCount(session, &num_outputs));
  if (num_inputs > 16 || num_outputs > 16) return 3;
  for (i = 0; i < num_inputs; ++i) {
    MUST(SessionGetInputName(session, i, allocator, &input_names[i]));
    inputs[i] = make_input(session, i, allocator);
  }
  for (i = 0; i < num_outputs; ++i) MUST(SessionGetOutputName(session, i, allocator, &output_names[i]));
  for (run = 0; run < 2; ++run) {
    MUST(Run(session, NULL, (const char* const*)input_names, (const OrtValue* const*)inputs, num_inputs,
             (const char* const*)output_names, num_outputs, outputs));
    for (i = 0; i < num_outputs; ++i) {
      print_output(output_names[i], outputs[i]);
      api->ReleaseValue(outputs[i]);
      outputs[i] = NULL;
    }
  }
  for (i = 0; i < num_inputs; ++i) {
    api->ReleaseValue(inputs[i]);
    allocator->Free(allocator, input_names[i]);
  }
  for (i = 0; i < num_outputs; ++i) allocator->Free(allocator, output_names[i]);
  api->ReleaseSession(session);
  api->ReleaseSessionOptions(options);
  MUST(UnregisterExecutionProviderLibrary(env, "plugin"));
  api->ReleaseEnv(env);
  return 0;
}
