/* RunAsync: the callback gets the outputs or the status, once; terminate from another thread; many at once. */
#include <pthread.h>
#include <time.h>

#include "drop_in.h"

struct Call {
  pthread_mutex_t mutex;
  pthread_cond_t done_changed;
  int done;
  size_t outputs;
  OrtValue* values[2];
  OrtStatus* status;
  pthread_t thread;
};

static void init_call(struct Call* call) {
  memset(call, 0, sizeof(*call));
  pthread_mutex_init(&call->mutex, NULL);
  pthread_cond_init(&call->done_changed, NULL);
}

static void finished(void* data, OrtValue** outputs, size_t count, OrtStatusPtr status) {
  struct Call* call = data;
  size_t i;
  pthread_mutex_lock(&call->mutex);
  ++call->done;
  call->outputs = count;
  for (i = 0; i < count && i < 2; ++i) call->values[i] = outputs[i];
  call->status = status;
  call->thread = pthread_self();
  pthread_cond_signal(&call->done_changed);
  pthread_mutex_unlock(&call->mutex);
}

static void wait_for(struct Call* call) {
  pthread_mutex_lock(&call->mutex);
  while (call->done == 0) pthread_cond_wait(&call->done_changed, &call->mutex);
  pthread_mutex_unlock(&call->mutex);
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A run that has begun ends early when another thread asks for it. */
static void ended_in_the_middle(void) {
  static float memory[512 * 512];
  const int64_t dims[2] = {512, 512};
  const char *in[] = {"x"}, *out[] = {"t127"};
  OrtSession* session = must_open("long.onnx");
  OrtValue *x = floats(memory, 512 * 512, dims, 2), *result = NULL;
  const OrtValue* values[] = {x};
  OrtRunOptions* options = NULL;
  double whole, begin, part = 0;
  int attempt, early = 0, ended = 0;
  MUST(ort->CreateRunOptions(&options));
  MUST(ort->Run(session, NULL, in, values, 1, out, 1, &result)); /* the first run prepares */
  ort->ReleaseValue(result);
  result = NULL;
  begin = seconds();
  MUST(ort->Run(session, options, in, values, 1, out, 1, &result));
  whole = seconds() - begin;
  ort->ReleaseValue(result);
  result = NULL;
  /* Several attempts: on a loaded machine the request may come too late, or the end be seen late. */
  for (attempt = 0; attempt < 100 && !early; ++attempt) {
    struct Call call;
    struct timespec quarter;
    init_call(&call);
    quarter.tv_sec = (time_t)(whole / 4);
    quarter.tv_nsec = (long)(1e9 * (whole / 4 - (double)quarter.tv_sec));
    MUST(ort->RunOptionsUnsetTerminate(options));
    begin = seconds();
    MUST(ort->RunAsync(session, options, in, values, 1, out, 1, &result, finished, &call));
    nanosleep(&quarter, NULL);
    MUST(ort->RunOptionsSetTerminate(options));
    wait_for(&call);
    part = seconds() - begin;
    if (call.status == NULL) { /* too late: it was done */
      ort->ReleaseValue(result);
      result = NULL;
      continue;
    }
    if (ended) ort->ReleaseStatus(call.status);
    else check("ended in the middle", call.status);
    ended = 1;
    early = part < whole;
  }
  printf("before it was done: %d\n", early);
  ort->ReleaseRunOptions(options);
  ort->ReleaseValue(x);
  ort->ReleaseSession(session);
}

int main(int argc, char** argv) {
  static struct Call calls[8];
  OrtSessionOptions* options = NULL;
  OrtRunOptions* run_options = NULL;
  OrtSession* session;
  float a[8] = {1, -2, 3, -4, 5, -6, 7, -8};
  const int64_t dims[2] = {1, 8}, wrong[2] = {1, 4};
  const char *in[] = {"x"}, *out[] = {"y"}, *bad[] = {"q"};
  OrtValue *x, *short_x, *results[8] = {NULL};
  const OrtValue* values[1];
  int i;
  start(argc, argv);
  MUST(ort->CreateSessionOptions(&options));
  MUST(ort->SetIntraOpNumThreads(options, 2));
  ended_in_the_middle();
  session = open_session("session", "matmul.onnx", options);
  x = floats(a, 8, dims, 2);
  short_x = floats(a, 4, wrong, 2);
  values[0] = x;
  for (i = 0; i < 8; ++i) init_call(&calls[i]);
  if (check("async", ort->RunAsync(session, NULL, in, values, 1, out, 1, &results[0], finished, &calls[0]))) {
    wait_for(&calls[0]);
    check("status", calls[0].status);
    printf("called %d times with %d outputs, on another thread: %d\n", calls[0].done, (int)calls[0].outputs,
           !pthread_equal(calls[0].thread, pthread_self()));
    print_value("y", calls[0].values[0]);
    printf("the same as in the array: %d\n", results[0] == calls[0].values[0]);
    ort->ReleaseValue(results[0]);
    results[0] = NULL;
  }
  if (check("unknown input", ort->RunAsync(session, NULL, bad, values, 1, out, 1, &results[1], finished, &calls[1]))) {
    wait_for(&calls[1]);
    check("status", calls[1].status);
    printf("outputs: %d\n", (int)calls[1].outputs);
  }
  values[0] = short_x;
  if (check("wrong shape", ort->RunAsync(session, NULL, in, values, 1, out, 1, &results[2], finished, &calls[2]))) {
    wait_for(&calls[2]);
    check("status", calls[2].status);
  }
  values[0] = x;
  MUST(ort->CreateRunOptions(&run_options));
  MUST(ort->RunOptionsSetTerminate(run_options));
  if (check("terminated",
            ort->RunAsync(session, run_options, in, values, 1, out, 1, &results[3], finished, &calls[3]))) {
    wait_for(&calls[3]);
    check("status", calls[3].status);
  }
  for (i = 4; i < 8; ++i) {
    MUST(ort->RunAsync(session, NULL, in, values, 1, out, 1, &results[i], finished, &calls[i]));
  }
  for (i = 4; i < 8; ++i) {
    wait_for(&calls[i]);
    check("one of four", calls[i].status);
    print_value("y", results[i]);
    ort->ReleaseValue(results[i]);
  }
  ort->ReleaseSession(session);
  ort->ReleaseSessionOptions(options);
  MUST(ort->CreateSessionOptions(&options));
  MUST(ort->SetIntraOpNumThreads(options, 1));
  session = open_session("session of one thread", "matmul.onnx", options);
  init_call(&calls[0]);
  results[0] = NULL;
  if (check("async", ort->RunAsync(session, NULL, in, values, 1, out, 1, &results[0], finished, &calls[0]))) {
    wait_for(&calls[0]);
    check("status", calls[0].status);
    ort->ReleaseValue(results[0]);
  }
  ort->ReleaseRunOptions(run_options);
  ort->ReleaseValue(x);
  ort->ReleaseValue(short_x);
  ort->ReleaseSession(session);
  ort->ReleaseSessionOptions(options);
  return finish();
}
