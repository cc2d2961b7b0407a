/* Environments: one a process, its options, threads, providers, and calls that change nothing here. */
#include "effects.h"

static int lines;
static void count_lines(void* param, OrtLoggingLevel severity, const char* category, const char* logid,
                        const char* location, const char* message) {
  (void)severity;
  (void)category;
  (void)logid;
  (void)location;
  (void)message;
  ++*(int*)param;
}

static void providers(void) {
  char** names = NULL;
  int count = -1, i, cpu = 0;
  CALL(GetAvailableProviders(&names, &count));
  for (i = 0; i < count; ++i) cpu += strcmp(names[i], "CPUExecutionProvider") == 0;
  printf("CPU %d, last %s\n", cpu, count > 0 ? names[count - 1] : "none");
  CALL(ReleaseAvailableProviders(names, count));
}

static void options_struct(void) {
  OrtEnvCreationOptions options;
  OrtEnv* env = NULL;
  OrtKeyValuePairs* config = NULL;
  OrtKeyValuePairs* back = NULL;
  uint32_t version;
  memset(&options, 0, sizeof(options));
  api->CreateKeyValuePairs(&config);
  api->AddKeyValuePair(config, "some_key", "some value");
  options.version = ORT_API_VERSION;
  options.logging_severity_level = ORT_LOGGING_LEVEL_ERROR;
  options.log_id = "options";
  options.custom_logging_function = count_lines;
  options.custom_logging_param = &lines;
  options.config_entries = config;
  if (CALL(CreateEnvWithOptions(&options, &env))) {
    const OrtEpApi* ep_api = api->GetEpApi();
    show("GetEnvConfigEntries", ep_api->GetEnvConfigEntries(&back));
    if (back != NULL) printf("  some_key=%s\n", text_or_null(api->GetKeyValue(back, "some_key")));
    api->ReleaseKeyValuePairs(back);
    api->ReleaseEnv(env);
  }
  env = NULL;
  options.log_id = NULL;
  if (CALL(CreateEnvWithOptions(&options, &env))) api->ReleaseEnv(env);
  options.log_id = "options";
  env = NULL;
  options.logging_severity_level = 17;
  if (CALL(CreateEnvWithOptions(&options, &env))) api->ReleaseEnv(env);
  options.logging_severity_level = -1;
  if (CALL(CreateEnvWithOptions(&options, &env))) api->ReleaseEnv(env);
  options.logging_severity_level = ORT_LOGGING_LEVEL_ERROR;
  for (version = 22; version <= 33; version += 11) {
    env = NULL;
    options.version = version;
    if (CALL(CreateEnvWithOptions(&options, &env))) api->ReleaseEnv(env);
  }
  options.version = 0;
  env = NULL;
  if (CALL(CreateEnvWithOptions(&options, &env))) api->ReleaseEnv(env);
  env = NULL;
  show("CreateEnvWithOptions without options", api->CreateEnvWithOptions(NULL, &env));
  printf("env %d\n", env != NULL);
  api->ReleaseKeyValuePairs(config);
}

static void threading(void) {
  OrtThreadingOptions* options = NULL;
  OrtEnv* env = NULL;
  CALL(CreateThreadingOptions(&options));
  CALL(SetGlobalIntraOpNumThreads(options, 2));
  CALL(SetGlobalIntraOpNumThreads(options, -1));
  CALL(SetGlobalInterOpNumThreads(options, 1));
  CALL(SetGlobalInterOpNumThreads(options, -1));
  CALL(SetGlobalSpinControl(options, 0));
  CALL(SetGlobalSpinControl(options, 2));
  CALL(SetGlobalSpinControl(options, -1));
  CALL(SetGlobalDenormalAsZero(options));
  CALL(SetGlobalIntraOpThreadAffinity(options, ""));
  // One affinity for each thread but the caller's; the default number of threads is the machine's.
  CALL(SetGlobalIntraOpNumThreads(options, 2));
  CALL(SetGlobalIntraOpThreadAffinity(options, "1"));
  CALL(CreateEnvWithGlobalThreadPools(ORT_LOGGING_LEVEL_FATAL, "global", options, &env));
  api->ReleaseEnv(env);
  env = NULL;
  CALL(CreateEnvWithCustomLoggerAndGlobalThreadPools(count_lines, &lines, ORT_LOGGING_LEVEL_FATAL, "global", options,
                                                     &env));
  api->ReleaseEnv(env);
  env = NULL;
  api->ReleaseThreadingOptions(options);
  api->ReleaseThreadingOptions(NULL);
}

static void run(void) {
  OrtEnv* first = NULL;
  OrtEnv* second = NULL;
  const OrtEpApi* ep_api = api->GetEpApi();
  OrtKeyValuePairs* config = NULL;
  show("GetEnvConfigEntries without an env", ep_api->GetEnvConfigEntries(&config));
  printf("config %d\n", config != NULL);
  api->ReleaseKeyValuePairs(config);
  CALL(CreateEnv(ORT_LOGGING_LEVEL_WARNING, "first", &first));
  CALL(CreateEnv(ORT_LOGGING_LEVEL_VERBOSE, "second", &second));
  printf("one env %d\n", first == second);
  api->ReleaseEnv(second);
  CALL(DisableTelemetryEvents(first));
  CALL(EnableTelemetryEvents(first));
  CALL(SetLanguageProjection(first, ORT_PROJECTION_CPLUSPLUS));
  CALL(SetLanguageProjection(first, ORT_PROJECTION_NODEJS));
  CALL(SetLanguageProjection(first, (OrtLanguageProjection)77));
  CALL(UpdateEnvWithCustomLogLevel(first, ORT_LOGGING_LEVEL_ERROR));
  CALL(UpdateEnvWithCustomLogLevel(first, (OrtLoggingLevel)9));
  api->ReleaseEnv(first);
  CALL(CreateEnvWithCustomLogger(count_lines, &lines, ORT_LOGGING_LEVEL_FATAL, "custom", &first));
  api->ReleaseEnv(first);
  CALL(CreateEnv((OrtLoggingLevel)9, "bad level", &first));
  api->ReleaseEnv(first);
  CALL(CreateEnv(ORT_LOGGING_LEVEL_FATAL, "", &first));
  api->ReleaseEnv(first);
  api->ReleaseEnv(NULL);
  providers();
  options_struct();
  threading();
  printf("released, %d lines\n", lines);
}
