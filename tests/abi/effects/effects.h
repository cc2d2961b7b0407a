/* Shared by the programs of this folder: each calls one group of slots on the library whose path it is given, and
 * prints the results as text. The test runs it on ONNX Runtime's library and on Tenon's and compares. */
#ifndef TENON_TESTS_ABI_EFFECTS_H_
#define TENON_TESTS_ABI_EFFECTS_H_

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/onnxruntime_c_api.h>

static const OrtApiBase* base;
static const OrtApi* api;

/* Prints the outcome of a call and releases its status. True when it succeeded. */
static inline bool show(const char* what, OrtStatus* status) {
  bool ok = status == NULL;
  if (ok) {
    printf("%s: ok\n", what);
  } else {
    const char* message = api->GetErrorMessage(status);
    printf("%s: code %d: %.*s\n", what, (int)api->GetErrorCode(status), (int)strcspn(message, "\n"), message);
    api->ReleaseStatus(status);
  }
  fflush(stdout);
  return ok;
}

/* The call's own text is its name in the output. */
#define CALL(call) show(#call, api->call)

static inline void must(OrtStatus* status, const char* what) {
  if (status == NULL) return;
  printf("FATAL %s: %s\n", what, api->GetErrorMessage(status));
  exit(3);
}
#define MUST(call) must(api->call, #call)

static inline const char* text_or_null(const char* text) { return text != NULL ? text : "(null)"; }

static void run(void);

int main(int argc, char** argv) {
  void* library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  const OrtApiBase* (*get)(void);
  if (library == NULL) {
    fprintf(stderr, "usage: %s LIBRARY (%s)\n", argv[0], argc == 2 ? dlerror() : "no library given");
    return 2;
  }
  *(void**)&get = dlsym(library, "OrtGetApiBase");
  if (get == NULL) return 2;
  base = get();
  api = base->GetApi(ORT_API_VERSION);
  if (api == NULL) return 2;
  run();
  return 0;
}

#endif
