/* Threads of the env: made by the program's functions, used by sessions that have none of their own. */
#include <pthread.h>

#include "drop_in.h"

static int made, joined;

struct Worker {
  OrtThreadWorkerFn function;
  void* parameter;
};

static void* thread_main(void* data) {
  struct Worker worker = *(struct Worker*)data;
  free(data);
  worker.function(worker.parameter);
  return NULL;
}

static OrtCustomThreadHandle make_thread(void* options, OrtThreadWorkerFn function, void* parameter) {
  pthread_t* thread = malloc(sizeof(*thread));
  struct Worker* worker = malloc(sizeof(*worker));
  worker->function = function;
  worker->parameter = parameter;
  if (options != (void*)&made) abort();
  ++made;
  if (pthread_create(thread, NULL, thread_main, worker) != 0) abort();
  return (OrtCustomThreadHandle)thread;
}

static void join_thread(OrtCustomThreadHandle handle) {
  pthread_join(*(pthread_t*)handle, NULL);
  free((void*)handle);
  ++joined;
}

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
  check("creation options", ort->SetGlobalCustomThreadCreationOptions(threads, &made));
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
  printf("made %d, joined %d\n", made, joined);
  ort->ReleaseMemoryInfo(cpu);
  ort->ReleaseEnv(env);
  printf("made %d, joined %d\nend\n", made, joined);
  return 0;
}
