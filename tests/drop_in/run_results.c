/* Results of runs: values of every element type, outputs in any order, outputs given and made, sizes that depend on
 * data. */
#include "drop_in.h"

static void add(void) {
  OrtSession* session = must_open("add.onnx");
  float a[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, b[12] = {10, 20, 30, 40, 50, 60, 70, 80}, mine[8] = {0};
  const int64_t dims[2] = {2, 4}, three[2] = {3, 4}, none[2] = {0, 4};
  OrtValue *x = floats(a, 8, dims, 2), *y = floats(b, 8, dims, 2), *result = NULL, *first = NULL;
  const char *names[] = {"x", "y"}, *swapped[] = {"y", "x"}, *out[] = {"sum"};
  const OrtValue* values[] = {x, y};
  const OrtMemoryInfo* info = NULL;
  const char* text = NULL;
  int is_tensor = 0;
  int run;
  check("add", ort->Run(session, NULL, names, values, 2, out, 1, &result));
  print_value("sum", result);
  MUST(ort->IsTensor(result, &is_tensor));
  MUST(ort->GetTensorMemoryInfo(result, &info));
  MUST(ort->MemoryInfoGetName(info, &text));
  printf("is a tensor: %d, in %s\n", is_tensor, text);
  first = result;
  result = NULL;
  a[0] = 100; /* feeds are read where they lie */
  check("add with swapped names", ort->Run(session, NULL, swapped, values, 2, out, 1, &result));
  print_value("sum", result);
  print_value("the first run's sum stays", first);
  ort->ReleaseValue(first);
  ort->ReleaseValue(result);
  result = floats(mine, 8, dims, 2);
  first = result;
  check("add into memory that is given", ort->Run(session, NULL, names, values, 2, out, 1, &result));
  printf("the value stays the caller's: %d, its memory is written: %g %g\n", result == first, (double)mine[0],
         (double)mine[7]);
  for (run = 0; run < 3; ++run) {
    a[1] = (float)run;
    MUST(ort->Run(session, NULL, names, values, 2, out, 1, &result));
    printf("run %d: %g\n", run, (double)mine[1]);
  }
  ort->ReleaseValue(result);
  ort->ReleaseValue(x);
  ort->ReleaseValue(y);
  x = floats(a, 12, three, 2);
  values[0] = values[1] = x;
  result = NULL;
  check("another shape, one value as both inputs", ort->Run(session, NULL, names, values, 2, out, 1, &result));
  print_value("sum", result);
  ort->ReleaseValue(result);
  ort->ReleaseValue(x);
  x = floats(a, 0, none, 2);
  values[0] = values[1] = x;
  result = NULL;
  check("no rows", ort->Run(session, NULL, names, values, 2, out, 1, &result));
  print_value("sum", result);
  ort->ReleaseValue(result);
  ort->ReleaseValue(x);
  ort->ReleaseSession(session);
}

static void two_outputs(void) {
  OrtSession* session = must_open("two_outputs.onnx");
  float a[3] = {-1, 0, 2}, mine[3] = {0};
  const int64_t dims[2] = {1, 3};
  OrtValue* x = floats(a, 3, dims, 2);
  const OrtValue* values[] = {x};
  const char *in[] = {"x"}, *both[] = {"negative", "positive"}, *one[] = {"negative"};
  OrtValue* results[2] = {NULL, NULL};
  check("both, the other way round", ort->Run(session, NULL, in, values, 1, both, 2, results));
  print_value("negative", results[0]);
  print_value("positive", results[1]);
  ort->ReleaseValue(results[0]);
  ort->ReleaseValue(results[1]);
  results[0] = results[1] = NULL;
  check("one of two", ort->Run(session, NULL, in, values, 1, one, 1, results));
  print_value("negative", results[0]);
  ort->ReleaseValue(results[0]);
  /* What one run was given, the next leaves alone. */
  results[0] = floats(mine, 3, dims, 2);
  check("one, given", ort->Run(session, NULL, in, values, 1, &both[1], 1, results));
  printf("written: %g %g %g\n", (double)mine[0], (double)mine[1], (double)mine[2]);
  ort->ReleaseValue(results[0]);
  mine[0] = mine[1] = mine[2] = 77;
  results[0] = NULL;
  check("the other", ort->Run(session, NULL, in, values, 1, one, 1, results));
  ort->ReleaseValue(results[0]);
  results[0] = NULL;
  check("the first, not given", ort->Run(session, NULL, in, values, 1, &both[1], 1, results));
  print_value("positive", results[0]);
  ort->ReleaseValue(results[0]);
  printf("untouched: %g %g %g\n", (double)mine[0], (double)mine[1], (double)mine[2]);
  ort->ReleaseValue(x);
  ort->ReleaseSession(session);
}

static void sizes_from_data(void) {
  OrtSession* session = must_open("nonzero.onnx");
  float a[6] = {0, 1, 0, 2, 3, 0}, zeros[6] = {0};
  const int64_t dims[1] = {6};
  OrtValue *x = floats(a, 6, dims, 1), *z = floats(zeros, 6, dims, 1), *result = NULL;
  const OrtValue* values[] = {x};
  const char *in[] = {"x"}, *out[] = {"where"};
  check("nonzero", ort->Run(session, NULL, in, values, 1, out, 1, &result));
  print_value("where", result);
  ort->ReleaseValue(result);
  values[0] = z;
  result = NULL;
  check("nothing but zeros", ort->Run(session, NULL, in, values, 1, out, 1, &result));
  print_value("where", result);
  ort->ReleaseValue(result);
  ort->ReleaseValue(x);
  ort->ReleaseValue(z);
  ort->ReleaseSession(session);
}

static void types(void) {
  static const int kinds[] = {1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13};
  static const int sizes[] = {4, 1, 1, 2, 2, 4, 8, 1, 2, 8, 4, 8};
  enum { kCount = 12 };
  OrtSession* session = must_open("types.onnx");
  unsigned char memory[kCount][16];
  char names[kCount][8], outs[kCount][8];
  const char *in[kCount], *out[kCount];
  const OrtValue* values[kCount];
  OrtValue* results[kCount] = {NULL};
  const int64_t dims[1] = {2};
  int i, k;
  for (i = 0; i < kCount; ++i) {
    for (k = 0; k < 16; ++k) memory[i][k] = kinds[i] == 9 ? (unsigned char)(k & 1) : (unsigned char)(i * 16 + k);
    snprintf(names[i], 8, "in%d", kinds[i]);
    snprintf(outs[i], 8, "out%d", kinds[i]);
    in[i] = names[i];
    out[i] = outs[i];
    values[i] = tensor((ONNXTensorElementDataType)kinds[i], memory[i], 2 * (size_t)sizes[i], dims, 1);
  }
  check("twelve types", ort->Run(session, NULL, in, values, kCount, out, kCount, results));
  for (i = 0; i < kCount; ++i) {
    void* data = NULL;
    MUST(ort->GetTensorMutableData(results[i], &data));
    printf("type %d: equal %d, another place %d\n", kinds[i], memcmp(data, memory[i], 2 * (size_t)sizes[i]) == 0,
           data != (void*)memory[i]);
    ort->ReleaseValue(results[i]);
    ort->ReleaseValue((OrtValue*)values[i]);
  }
  ort->ReleaseSession(session);
}

static void scalar(void) {
  OrtSession* session = must_open("scalar.onnx");
  float a = 21;
  OrtValue *x = floats(&a, 1, NULL, 0), *result = NULL;
  const OrtValue* values[] = {x};
  const char *in[] = {"x"}, *out[] = {"twice"};
  check("scalar", ort->Run(session, NULL, in, values, 1, out, 1, &result));
  print_value("twice", result);
  ort->ReleaseSession(session);
  print_value("after the session", result); /* a result outlives its session */
  ort->ReleaseValue(result);
  ort->ReleaseValue(x);
}

static void overridden(void) {
  OrtSession* session = must_open("overridable.onnx");
  float a[4] = {1, 1, 1, 1}, w[4] = {5, 6, 7, 8};
  const int64_t dims[2] = {1, 4}, flat[1] = {4};
  OrtValue *x = floats(a, 4, dims, 2), *weight = floats(w, 4, flat, 1), *result = NULL;
  const OrtValue* values[] = {x, weight};
  const char *in[] = {"x", "w"}, *out[] = {"y"};
  check("the model's own weight", ort->Run(session, NULL, in, values, 1, out, 1, &result));
  print_value("y", result);
  ort->ReleaseValue(result);
  result = NULL;
  check("another weight", ort->Run(session, NULL, in, values, 2, out, 1, &result));
  print_value("y", result);
  ort->ReleaseValue(result);
  result = NULL;
  check("the model's own again", ort->Run(session, NULL, in, values, 1, out, 1, &result));
  print_value("y", result);
  ort->ReleaseValue(result);
  ort->ReleaseValue(x);
  ort->ReleaseValue(weight);
  ort->ReleaseSession(session);
}

static void from_bytes(void) {
  FILE* file = fopen(model("matmul.onnx"), "rb");
  char* bytes = malloc(65536);
  size_t size = fread(bytes, 1, 65536, file);
  OrtSessionOptions* options = NULL;
  OrtSession* session = NULL;
  float a[8] = {1, -2, 3, -4, 5, -6, 7, -8};
  const int64_t dims[2] = {1, 8};
  OrtValue *x = floats(a, 8, dims, 2), *result = NULL;
  const OrtValue* values[] = {x};
  const char *in[] = {"x"}, *out[] = {"y"};
  fclose(file);
  MUST(ort->CreateSessionOptions(&options));
  check("from bytes", ort->CreateSessionFromArray(env, bytes, size, options, &session));
  memset(bytes, 0, size); /* the session keeps what it needs */
  free(bytes);
  check("run", ort->Run(session, NULL, in, values, 1, out, 1, &result));
  print_value("y", result);
  ort->ReleaseValue(result);
  ort->ReleaseValue(x);
  ort->ReleaseSession(session);
  ort->ReleaseSessionOptions(options);
}

static void strings(void) {
  OrtSessionOptions* options = NULL;
  OrtSession* session;
  MUST(ort->CreateSessionOptions(&options));
  session = open_session("session of strings", "strings.onnx", options);
  if (session != NULL) ort->ReleaseSession(session);
  ort->ReleaseSessionOptions(options);
}

int main(int argc, char** argv) {
  start(argc, argv);
  add();
  two_outputs();
  sizes_from_data();
  types();
  scalar();
  overridden();
  from_bytes();
  strings();
  return finish();
}
