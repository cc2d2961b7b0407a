/* Threads that a program makes for the library: real ones, because a pool waits for them; they are counted. */
#ifndef TENON_TESTS_DROP_IN_CUSTOM_THREADS_H_
#define TENON_TESTS_DROP_IN_CUSTOM_THREADS_H_

#include <pthread.h>
#include <stdlib.h>

#include <tenon/onnxruntime_c_api.h>

struct Worker {
  OrtThreadWorkerFn function;
  void* parameter;
};

/* make_thread expects the address of the first as its creation options. */
static int threads_made, threads_joined;

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
  if (options != (void*)&threads_made) abort();
  ++threads_made;
  if (pthread_create(thread, NULL, thread_main, worker) != 0) abort();
  return (OrtCustomThreadHandle)thread;
}

static void join_thread(OrtCustomThreadHandle handle) {
  pthread_t* thread = (pthread_t*)handle;
  pthread_join(*thread, NULL);
  free(thread);
  ++threads_joined;
}

#endif
