/* Eight threads on one session, each with its own input, some with shapes of their own; and sessions made and released
 * beside them. */
#include <pthread.h>

#include "drop_in.h"

enum { kThreads = 8, kRuns = 200 };

static OrtSession* session;
static int wrong_results[kThreads], failures[kThreads];

static void* work(void* data) {
  const int id = (int)(intptr_t)data;
  const int rows = 1 + id % 3;
  const int64_t dims[2] = {rows, 8};
  float a[24];
  const char *in[] = {"x"}, *out[] = {"y"};
  int run, i;
  for (run = 0; run < kRuns; ++run) {
    OrtValue *x, *result = NULL;
    const OrtValue* values[1];
    OrtStatus* status;
    float* y = NULL;
    for (i = 0; i < rows * 8; ++i) a[i] = (float)(id * 100 + run + i);
    x = floats(a, (size_t)rows * 8, dims, 2);
    values[0] = x;
    status = ort->Run(session, NULL, in, values, 1, out, 1, &result);
    if (status != NULL) {
      ++failures[id];
      ort->ReleaseStatus(status);
    } else {
      MUST(ort->GetTensorMutableData(result, (void**)&y));
      for (i = 0; i < rows * 8; ++i) wrong_results[id] += y[i] != 2 * a[i];
    }
    ort->ReleaseValue(result);
    ort->ReleaseValue(x);
  }
  return NULL;
}

static void* make_sessions(void* data) {
  int i;
  (void)data;
  for (i = 0; i < 10; ++i) ort->ReleaseSession(must_open("matmul.onnx"));
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[kThreads], maker;
  int i;
  start(argc, argv);
  session = must_open("matmul.onnx");
  for (i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, work, (void*)(intptr_t)i);
  pthread_create(&maker, NULL, make_sessions, NULL);
  for (i = 0; i < kThreads; ++i) {
    pthread_join(threads[i], NULL);
    printf("thread %d: %d failures, %d wrong results\n", i, failures[i], wrong_results[i]);
  }
  pthread_join(maker, NULL);
  ort->ReleaseSession(session);
  return finish();
}
