/* Session options for EPs: the source model's bytes, and functions that read EPContext data. */
#include "effects.h"

static OrtStatus* read_buffer(void* state, const char* name, OrtAllocator* allocator, void** buffer, size_t* size) {
  (void)state;
  (void)name;
  (void)allocator;
  *buffer = NULL;
  *size = 0;
  return NULL;
}

static void show_buffer(const OrtSessionOptions* options, const void* expected) {
  const OrtEpApi* ep_api = api->GetEpApi();
  const void* data = (const void*)1;
  size_t size = 99;
  show("SessionOptionsGetWeightlessSourceModelBuffer",
       ep_api->SessionOptionsGetWeightlessSourceModelBuffer(options, &data, &size));
  printf("  null %d, as set %d, %zu bytes\n", data == NULL, data == expected, size);
}

static void show_config(const OrtSessionOptions* options) {
  const OrtEpApi* ep_api = api->GetEpApi();
  OrtEpContextConfig* config = NULL;
  OrtReadNamedBufferFunc read = (OrtReadNamedBufferFunc)1;
  OrtWriteNamedBufferFunc write = (OrtWriteNamedBufferFunc)1;
  void* state = (void*)1;
  show("SessionOptionsGetEpContextConfig", ep_api->SessionOptionsGetEpContextConfig(options, &config));
  printf("  config %d\n", config != NULL);
  if (config == NULL) return;
  show("EpContextConfigGetEpContextDataReadFunc",
       ep_api->EpContextConfigGetEpContextDataReadFunc(config, &read, &state));
  printf("  null %d, as set %d, state null %d\n", read == NULL, read == read_buffer, state == NULL);
  state = (void*)1;
  show("EpContextConfigGetEpContextDataWriteFunc",
       ep_api->EpContextConfigGetEpContextDataWriteFunc(config, &write, &state));
  printf("  null %d, state null %d\n", write == NULL, state == NULL);
  ep_api->ReleaseEpContextConfig(config);
}

static void run(void) {
  static const char model[] = "bytes of a model";
  OrtEnv* env = NULL;
  OrtSessionOptions* options = NULL;
  OrtSessionOptions* copy = NULL;
  int state = 0;
  MUST(CreateEnv(ORT_LOGGING_LEVEL_FATAL, "ep context", &env));
  MUST(CreateSessionOptions(&options));
  show_buffer(options, NULL);
  show_config(options);
  CALL(SessionOptionsSetWeightlessSourceModelBuffer(options, model, sizeof(model)));
  show_buffer(options, model);
  CALL(SessionOptionsSetEpContextDataReadFunc(options, read_buffer, &state));
  show_config(options);
  MUST(CloneSessionOptions(options, &copy));
  show_buffer(copy, model);
  show_config(copy);
  CALL(SessionOptionsSetWeightlessSourceModelBuffer(options, model, 0));
  show_buffer(options, model);
  CALL(SessionOptionsSetWeightlessSourceModelBuffer(options, NULL, 5));
  show_buffer(options, model);
  CALL(SessionOptionsSetWeightlessSourceModelBuffer(options, NULL, 0));
  show_buffer(options, model);
  CALL(SessionOptionsSetEpContextDataReadFunc(options, NULL, NULL));
  show_config(options);
  api->GetEpApi()->ReleaseEpContextConfig(NULL);
  api->ReleaseSessionOptions(copy);
  api->ReleaseSessionOptions(options);
  api->ReleaseEnv(env);
  printf("released\n");
}
