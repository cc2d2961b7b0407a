/* Refusals: models that cannot be loaded, and runs that cannot be made. */
#include "drop_in.h"

static float data[16];

static void run(const char* label, OrtSession* session, const char* const* names, const OrtValue* const* values,
                size_t count, const char* const* outputs, size_t output_count) {
  OrtValue* results[4] = {NULL, NULL, NULL, NULL};
  size_t i;
  check(label, ort->Run(session, NULL, names, values, count, outputs, output_count, results));
  for (i = 0; i < output_count && i < 4; ++i) ort->ReleaseValue(results[i]);
}

static void loading(void) {
  OrtSessionOptions* options = NULL;
  OrtSession* session = NULL;
  MUST(ort->CreateSessionOptions(&options));
  check("no such file", ort->CreateSession(env, "no-such-file.onnx", options, &session));
  printf("  session is null: %d\n", session == NULL);
  check("no such folder", ort->CreateSession(env, "no-such-folder/model.onnx", options, &session));
  check("empty name", ort->CreateSession(env, "", options, &session));
  open_session("garbage", "garbage.onnx", options);
  open_session("empty file", "empty.onnx", options);
  open_session("truncated", "truncated.onnx", options);
  open_session("unknown operator", "unknown_op.onnx", options);
  open_session("unknown domain", "custom_op.onnx", options);
  open_session("missing external data", "missing.onnx", options);
  check("no bytes", ort->CreateSessionFromArray(env, "", 0, options, &session));
  check("garbage bytes", ort->CreateSessionFromArray(env, "garbage!", 8, options, &session));
  ort->ReleaseSessionOptions(options);
}

static void running(void) {
  OrtSession* session = must_open("add.onnx");
  const int64_t dims[2] = {2, 4}, wrong[2] = {2, 3}, flat[1] = {4}, batch3[2] = {3, 4};
  OrtValue* x = floats(data, 8, dims, 2);
  OrtValue* bad_shape = floats(data, 6, wrong, 2);
  OrtValue* bad_rank = floats(data, 4, flat, 1);
  OrtValue* bad_batch = floats(data, 12, batch3, 2);
  OrtValue* ints = tensor(ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, data, 32, dims, 2);
  OrtValue* doubles = tensor(ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE, data, 64, dims, 2);
  const char* sum[] = {"sum", "sum"};
  const char* names[] = {"x", "y", "z"};
  const char* twice[] = {"x", "x"};
  const char* missing[] = {"x", "q"};
  const char* upper[] = {"X", "y"};
  const char* not_there[] = {"product"};
  const char* input_as_output[] = {"x"};
  const char* empty[] = {""};
  const OrtValue* good[] = {x, x, x};
  const OrtValue* null_value[] = {x, NULL};
  const OrtValue* values[2];
  run("good", session, names, good, 2, sum, 1);
  run("one input", session, names, good, 1, sum, 1);
  run("no input", session, names, good, 0, sum, 1);
  run("three inputs", session, names, good, 3, sum, 1);
  run("input not there", session, missing, good, 2, sum, 1);
  run("input of another case", session, upper, good, 2, sum, 1);
  run("input twice", session, twice, good, 2, sum, 1);
  run("output not there", session, names, good, 2, not_there, 1);
  run("input as output", session, names, good, 2, input_as_output, 1);
  run("empty output name", session, names, good, 2, empty, 1);
  run("no output", session, names, good, 2, sum, 0);
  run("output twice", session, names, good, 2, sum, 2);
  run("null value", session, names, null_value, 2, sum, 1);
  values[0] = x, values[1] = bad_shape;
  run("wrong dimension", session, names, values, 2, sum, 1);
  values[1] = bad_rank;
  run("wrong rank", session, names, values, 2, sum, 1);
  values[1] = ints;
  run("int32 for float", session, names, values, 2, sum, 1);
  values[1] = doubles;
  run("double for float", session, names, values, 2, sum, 1);
  values[1] = bad_batch;
  run("two batches", session, names, values, 2, sum, 1);
  run("good again", session, names, good, 2, sum, 1);
  ort->ReleaseValue(x);
  ort->ReleaseValue(bad_shape);
  ort->ReleaseValue(bad_rank);
  ort->ReleaseValue(bad_batch);
  ort->ReleaseValue(ints);
  ort->ReleaseValue(doubles);
  ort->ReleaseSession(session);
}

static void outputs(void) {
  OrtSession* session = must_open("two_outputs.onnx");
  const int64_t dims[2] = {1, 3}, larger[2] = {2, 3}, smaller[2] = {1, 2};
  float memory[6] = {0};
  OrtValue* x = floats(data, 3, dims, 2);
  OrtValue* given[1];
  const char* in[] = {"x"};
  const char* out[] = {"positive"};
  const OrtValue* values[] = {x};
  given[0] = floats(memory, 6, larger, 2);
  check("output given too large", ort->Run(session, NULL, in, values, 1, out, 1, given));
  ort->ReleaseValue(given[0]);
  given[0] = floats(memory, 2, smaller, 2);
  check("output given too small", ort->Run(session, NULL, in, values, 1, out, 1, given));
  ort->ReleaseValue(given[0]);
  given[0] = tensor(ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, memory, 12, dims, 2);
  check("output given as int32", ort->Run(session, NULL, in, values, 1, out, 1, given));
  ort->ReleaseValue(given[0]);
  ort->ReleaseValue(x);
  ort->ReleaseSession(session);
}

static void terminated(void) {
  OrtSession* session = must_open("chain.onnx");
  OrtRunOptions* options = NULL;
  const int64_t dims[1] = {8};
  const char* in[] = {"x"};
  const char* out[] = {"t63"};
  OrtValue* x = floats(data, 8, dims, 1);
  OrtValue* result = NULL;
  const OrtValue* values[] = {x};
  MUST(ort->CreateRunOptions(&options));
  MUST(ort->RunOptionsSetTerminate(options));
  check("terminated", ort->Run(session, options, in, values, 1, out, 1, &result));
  printf("  result is null: %d\n", result == NULL);
  check("terminated again", ort->Run(session, options, in, values, 1, out, 1, &result));
  MUST(ort->RunOptionsUnsetTerminate(options));
  check("no longer terminated", ort->Run(session, options, in, values, 1, out, 1, &result));
  ort->ReleaseValue(result);
  ort->ReleaseValue(x);
  ort->ReleaseRunOptions(options);
  ort->ReleaseSession(session);
}

int main(int argc, char** argv) {
  start(argc, argv);
  loading();
  running();
  outputs();
  terminated();
  return finish();
}
