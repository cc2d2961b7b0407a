/* Run options: levels, tag, termination, config entries. */
#include "effects.h"

static void run(void) {
  OrtRunOptions* options = NULL;
  int number = 99;
  const char* tag = "unset";
  char long_text[5000];
  OrtEnv* env = NULL;
  MUST(CreateEnv(ORT_LOGGING_LEVEL_FATAL, "run options", &env));
  CALL(CreateRunOptions(&options));
  CALL(RunOptionsGetRunLogSeverityLevel(options, &number));
  printf("  %d\n", number);
  CALL(RunOptionsGetRunLogVerbosityLevel(options, &number));
  printf("  %d\n", number);
  CALL(RunOptionsGetRunTag(options, &tag));
  printf("  \"%s\"\n", text_or_null(tag));
  CALL(RunOptionsSetRunLogSeverityLevel(options, 3));
  CALL(RunOptionsGetRunLogSeverityLevel(options, &number));
  printf("  %d\n", number);
  CALL(RunOptionsSetRunLogSeverityLevel(options, 77));
  CALL(RunOptionsSetRunLogSeverityLevel(options, -3));
  CALL(RunOptionsGetRunLogSeverityLevel(options, &number));
  printf("  %d\n", number);
  CALL(RunOptionsSetRunLogVerbosityLevel(options, 5));
  CALL(RunOptionsSetRunLogVerbosityLevel(options, -5));
  CALL(RunOptionsGetRunLogVerbosityLevel(options, &number));
  printf("  %d\n", number);
  CALL(RunOptionsSetRunTag(options, "a tag"));
  CALL(RunOptionsGetRunTag(options, &tag));
  printf("  \"%s\"\n", tag);
  CALL(RunOptionsSetRunTag(options, NULL));
  CALL(RunOptionsGetRunTag(options, &tag));
  printf("  \"%s\"\n", tag);
  CALL(RunOptionsSetTerminate(options));
  CALL(RunOptionsUnsetTerminate(options));
  CALL(AddRunConfigEntry(options, "key", "value"));
  CALL(AddRunConfigEntry(options, "key", "another"));
  CALL(AddRunConfigEntry(options, "empty", ""));
  CALL(AddRunConfigEntry(options, "", "no key"));
  printf("key=%s empty=%s missing=%s\n", text_or_null(api->GetRunConfigEntry(options, "key")),
         text_or_null(api->GetRunConfigEntry(options, "empty")),
         text_or_null(api->GetRunConfigEntry(options, "missing")));
  memset(long_text, 'k', sizeof(long_text));
  long_text[1200] = '\0';
  show("a key of 1200 bytes", api->AddRunConfigEntry(options, long_text, "value"));
  long_text[1200] = 'k';
  long_text[1024] = '\0';
  show("a key of 1024 bytes", api->AddRunConfigEntry(options, long_text, "value"));
  long_text[1024] = 'k';
  long_text[4999] = '\0';
  show("a value of 4999 bytes", api->AddRunConfigEntry(options, "long", long_text));
  long_text[2048] = '\0';
  show("a value of 2048 bytes", api->AddRunConfigEntry(options, "long", long_text));
  CALL(RunOptionsEnableProfiling(options, "prefix"));
  CALL(RunOptionsDisableProfiling(options));
  api->RunOptionsSetSyncStream(options, NULL);
  api->ReleaseRunOptions(options);
  api->ReleaseRunOptions(NULL);
  api->ReleaseEnv(env);
  printf("released\n");
}
