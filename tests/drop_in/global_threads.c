/* Threads of the env: made by the program's functions, used by sessions that have none of their own. */
#include "custom_threads.h"
#include "drop_in.h"

int main(int argc, char** argv) {
  OrtThreadingOptions* threads = NULL;
  OrtSessionOptions* options = NULL;
  OrtSession *a, *b;
  float x_data[8] = {1, -2, 3, -4, 5, -6, 7, -8};
  const int64_t dims[2] = {1, 8};
  const char *in[] = {"x"}, *out[] = {"y"};
  const OrtValue* values[1];
  OrtValue* result = NULL;
  start(argc, argv);
  ort->ReleaseEnv(env);
  env = NULL;
  MUST(ort->CreateThreadingOptions(&threads));
  check("3 threads", ort->SetGlobalIntraOpNumThreads(threads, 3));
  check("1 between operators", ort->SetGlobalInterOpNumThreads(threads, 1));
  check("create function", ort->SetGlobalCustomCreateThreadFn(threads, make_thread));
  check("creation options", ort->SetGlobalCustomThreadCreationOptions(threads, &threads_made));
  check("join function", ort->SetGlobalCustomJoinThreadFn(threads, join_thread));
  check("env", ort->CreateEnvWithGlobalThreadPools(ORT_LOGGING_LEVEL_FATAL, "drop_in", threads, &env));
  ort->ReleaseThreadingOptions(threads);
  MUST(ort->CreateSessionOptions(&options));
  check("no threads of its own", ort->DisablePerSessionThreads(options));
  a = open_session("one session", "matmul.onnx", options);
  b = open_session("another", "matmul.onnx", options);
  values[0] = floats(x_data, 8, dims, 2);
  check("run", ort->Run(a, NULL, in, values, 1, out, 1, &result));
  print_value("y", result);
  ort->ReleaseValue(result);
  ort->ReleaseValue((OrtValue*)values[0]);
  ort->ReleaseSession(a);
  ort->ReleaseSession(b);
  ort->ReleaseSessionOptions(options);
  printf("made %d, joined %d\n", threads_made, threads_joined);
  ort->ReleaseMemoryInfo(cpu);
  ort->ReleaseEnv(env);
  printf("made %d, joined %d\nend\n", threads_made, threads_joined);
  return 0;
}
