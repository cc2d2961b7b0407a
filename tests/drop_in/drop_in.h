/* Shared by the drop-in programs: they load a libonnxruntime by path, call it, and print effects, codes and messages.
 * The output of one program against two libraries is compared line by line (drop_in_test.py). C99, no other library. */
#ifndef TENON_TESTS_DROP_IN_H_
#define TENON_TESTS_DROP_IN_H_

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/onnxruntime_c_api.h>

static const OrtApi* ort;
static OrtEnv* env;
static OrtMemoryInfo* cpu;
static OrtAllocator* allocator;
static const char* folder; /* of the models */

/* Ends the program when a call that prepares a case fails: nothing after it would mean anything. */
#define MUST(call)                                                                       \
  do {                                                                                   \
    OrtStatus* must_ = (call);                                                           \
    if (must_ != NULL) {                                                                 \
      printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, ort->GetErrorMessage(must_)); \
      exit(1);                                                                           \
    }                                                                                    \
  } while (0)

/* Prints "LABEL: ok" or "LABEL: CODE MESSAGE" (its first line), and releases the status. Returns 1 for ok. */
static int check(const char* label, OrtStatus* status) {
  if (status == NULL) {
    printf("%s: ok\n", label);
    return 1;
  }
  printf("%s: %d ", label, (int)ort->GetErrorCode(status));
  const char* text = ort->GetErrorMessage(status);
  for (; *text != '\0'; ++text) putchar(*text == '\n' ? '|' : *text);
  putchar('\n');
  ort->ReleaseStatus(status);
  return 0;
}

static const char* model(const char* name) {
  static char paths[8][1024];
  static int next;
  char* path = paths[next++ % 8];
  snprintf(path, 1024, "%s/%s", folder, name);
  return path;
}

/* NULL when the session cannot be made; the reason is printed. */
static OrtSession* open_session(const char* label, const char* name, OrtSessionOptions* options) {
  OrtSession* session = NULL;
  check(label, ort->CreateSession(env, model(name), options, &session));
  return session;
}

static OrtSession* must_open(const char* name) {
  OrtSessionOptions* options = NULL;
  OrtSession* session = NULL;
  MUST(ort->CreateSessionOptions(&options));
  MUST(ort->CreateSession(env, model(name), options, &session));
  ort->ReleaseSessionOptions(options);
  return session;
}

static OrtValue* tensor(ONNXTensorElementDataType type, void* data, size_t bytes, const int64_t* dims, size_t rank) {
  OrtValue* value = NULL;
  MUST(ort->CreateTensorWithDataAsOrtValue(cpu, data, bytes, dims, rank, type, &value));
  return value;
}

static OrtValue* floats(float* data, size_t count, const int64_t* dims, size_t rank) {
  return tensor(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, data, count * sizeof(float), dims, rank);
}

static void print_info(const char* label, const OrtTensorTypeAndShapeInfo* info) {
  enum ONNXTensorElementDataType type;
  size_t rank, i;
  int64_t dims[16];
  const char* names[16];
  MUST(ort->GetTensorElementType(info, &type));
  MUST(ort->GetDimensionsCount(info, &rank));
  MUST(ort->GetDimensions(info, dims, rank));
  MUST(ort->GetSymbolicDimensions(info, names, rank));
  printf("%s: type %d [", label, (int)type);
  for (i = 0; i < rank; ++i) printf("%s%" PRId64 "%s", i > 0 ? "," : "", dims[i], names[i]);
  printf("]\n");
}

/* Type, shape and elements of a tensor of floats, doubles, int32, int64 or bool. */
static void print_value(const char* label, const OrtValue* value) {
  OrtTensorTypeAndShapeInfo* info = NULL;
  enum ONNXTensorElementDataType type;
  size_t count, i;
  const void* data = NULL;
  if (value == NULL) {
    printf("%s: null\n", label);
    return;
  }
  MUST(ort->GetTensorTypeAndShape(value, &info));
  print_info(label, info);
  MUST(ort->GetTensorElementType(info, &type));
  MUST(ort->GetTensorShapeElementCount(info, &count));
  ort->ReleaseTensorTypeAndShapeInfo(info);
  MUST(ort->GetTensorMutableData((OrtValue*)value, (void**)&data));
  for (i = 0; i < count; ++i) {
    printf("%s", i > 0 ? " " : "  ");
    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) printf("%g", (double)((const float*)data)[i]);
    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE) printf("%g", ((const double*)data)[i]);
    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32) printf("%d", (int)((const int32_t*)data)[i]);
    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64) printf("%" PRId64, ((const int64_t*)data)[i]);
    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL) printf("%d", (int)((const uint8_t*)data)[i]);
  }
  printf("\n");
}

static OrtSessionOptions* fresh(void) {
  OrtSessionOptions* options = NULL;
  MUST(ort->CreateSessionOptions(&options));
  return options;
}

/* A session of `name` runs on 2x4 (or 8) ones. */
static void run_on_ones(const char* label, const char* name, OrtSessionOptions* options) {
  OrtSession* session = open_session(label, name, options);
  float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  const int64_t dims[2] = {2, 4}, row[2] = {1, 8};
  const int is_matmul = strncmp(name, "matmul.", 7) == 0;
  OrtValue *x = floats(ones, 8, is_matmul ? row : dims, 2), *result = NULL;
  const OrtValue* values[] = {x};
  const char *in[] = {"x"}, *out[] = {"y"};
  if (session != NULL && check("  run", ort->Run(session, NULL, in, values, 1, out, 1, &result))) {
    print_value("  y", result);
    ort->ReleaseValue(result);
  }
  ort->ReleaseValue(x);
  if (session != NULL) ort->ReleaseSession(session);
}

static void start(int argc, char** argv) {
  void* library;
  const OrtApiBase* (*entry)(void);
  if (argc < 3) {
    fprintf(stderr, "usage: %s LIBRARY MODELS\n", argv[0]);
    exit(2);
  }
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  *(void**)&entry = dlsym(library, "OrtGetApiBase");
  if (entry == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  ort = entry()->GetApi(ORT_API_VERSION);
  if (ort == NULL) exit(2);
  folder = argv[2];
  setvbuf(stdout, NULL, _IOLBF, 0);
  /* Only fatal lines: what is compared is printed here. */
  MUST(ort->CreateEnv(ORT_LOGGING_LEVEL_FATAL, "drop_in", &env));
  MUST(ort->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &cpu));
  MUST(ort->GetAllocatorWithDefaultOptions(&allocator));
}

static int finish(void) {
  ort->ReleaseMemoryInfo(cpu);
  ort->ReleaseEnv(env);
  printf("end\n");
  return 0;
}

/* Not every program calls every helper. */
#if defined(__GNUC__)
__attribute__((unused))
#endif
static void
drop_in_unused(void) {
  (void)open_session, (void)must_open, (void)floats, (void)print_value, (void)fresh, (void)run_on_ones, (void)finish;
}

#endif
