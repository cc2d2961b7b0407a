/* Shapes that the model does not declare: scalars given as vectors, one name for two sizes, outputs of other shapes.
 * And sessions that may not fall back to the CPU EP. */
#include "drop_in.h"

static float data[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

static void run(const char* label, OrtSession* session, const OrtValue* const* values, const char* const* names,
                size_t count, const char* output, OrtValue* given) {
  OrtValue* result = given;
  if (session != NULL && check(label, ort->Run(session, NULL, names, values, count, &output, 1, &result)))
    print_value("  result", result);
  if (given == NULL && result != NULL) ort->ReleaseValue(result);
}

static void scalars(const char* name, const char* output) {
  OrtSession* session = must_open(name);
  static const int64_t shapes[5][2] = {{1, 1}, {1, 1}, {1, 1}, {2, 1}, {0, 1}};
  static const size_t ranks[5] = {0, 1, 2, 1, 1};
  static const char* const labels[5] = {"a scalar", "[1]", "[1,1]", "[2]", "[0]"};
  const int64_t dims[2] = {2, 4};
  const char* names[] = {"x", "s"};
  float three[2] = {3, 4};
  size_t i;
  printf("== %s of %s\n", output, name);
  for (i = 0; i < 5; ++i) {
    OrtValue* x = floats(data, 8, dims, 2);
    OrtValue* s = floats(three, i == 3 ? 2 : i == 4 ? 0 : 1, shapes[i], ranks[i]);
    const OrtValue* values[] = {x, s};
    run(labels[i], session, values, names, 2, output, NULL);
    ort->ReleaseValue(x);
    ort->ReleaseValue(s);
  }
  ort->ReleaseSession(session);
}

/* silero_vad's way: a sample rate that only branches. */
static void sample_rate(void) {
  OrtSession* session = must_open("sample_rate.onnx");
  const int64_t one[1] = {1}, dims[1] = {4};
  int64_t rates[2] = {16000, 8000};
  const char* names[] = {"x", "sr"};
  size_t i;
  for (i = 0; i < 4; ++i) {
    OrtValue* x = floats(data, 4, dims, 1);
    OrtValue* rate = tensor(ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, &rates[i % 2], 8, one, i < 2 ? 1 : 0);
    const OrtValue* values[] = {x, rate};
    run("sample rate", session, values, names, 2, "y", NULL);
    ort->ReleaseValue(x);
    ort->ReleaseValue(rate);
  }
  ort->ReleaseSession(session);
}

static void bound_scalar(void) {
  OrtSession* session = must_open("scalar_times.onnx");
  OrtIoBinding* binding = NULL;
  const int64_t one[1] = {1}, dims[2] = {2, 4};
  float three = 3, memory[8] = {0};
  OrtValue *x = floats(data, 8, dims, 2), *s = floats(&three, 1, one, 1), *y = floats(memory, 8, dims, 2);
  MUST(ort->CreateIoBinding(session, &binding));
  check("bind x", ort->BindInput(binding, "x", x));
  check("bind [1] for the scalar", ort->BindInput(binding, "s", s));
  check("bind y", ort->BindOutput(binding, "y", y));
  check("run", ort->RunWithBinding(session, NULL, binding));
  print_value("  y", y);
  ort->ReleaseIoBinding(binding);
  ort->ReleaseValue(x);
  ort->ReleaseValue(s);
  ort->ReleaseValue(y);
  ort->ReleaseSession(session);
}

static void two_sizes(const char* name, const int64_t* first, const int64_t* second) {
  OrtSession* session = must_open(name);
  const char* names[] = {"x", "y"};
  OrtValue *x = floats(data, (size_t)(first[0] * first[1]), first, 2),
           *y = floats(data, (size_t)(second[0] * second[1]), second, 2);
  const OrtValue* values[] = {x, y};
  char label[64];
  snprintf(label, sizeof(label), "%s [%d,%d] [%d,%d]", name, (int)first[0], (int)first[1], (int)second[0],
           (int)second[1]);
  run(label, session, values, names, 2, "z", NULL);
  ort->ReleaseValue(x);
  ort->ReleaseValue(y);
  ort->ReleaseSession(session);
}

static void names_for_two_sizes(void) {
  static const int64_t a[2] = {1, 4}, b[2] = {3, 4}, c[2] = {2, 4}, d[2] = {4, 3}, e[2] = {4, 1};
  two_sizes("names_add.onnx", a, b);
  two_sizes("names_add.onnx", b, a);
  two_sizes("names_add.onnx", c, b);
  two_sizes("names_add.onnx", b, b);
  two_sizes("names_concat.onnx", a, b);
  two_sizes("names_matmul.onnx", b, d);
  two_sizes("names_matmul.onnx", c, e);
  two_sizes("names_reshape.onnx", b, d);
  two_sizes("names_expand.onnx", a, b);
  two_sizes("names_if.onnx", a, b);
  two_sizes("names_where.onnx", a, b);
  two_sizes("names_residual.onnx", a, b);
}

static void declared(const char* name) {
  OrtSession* session = open_session(name, name, NULL);
  const int64_t dims[1] = {4}, column[2] = {4, 1};
  float memory[4] = {0};
  const char* names[] = {"x"};
  OrtValue *x = floats(data, 4, dims, 1), *given = floats(memory, 4, dims, 1), *wrong = floats(memory, 4, column, 2);
  const OrtValue* values[] = {x};
  OrtTypeInfo* info = NULL;
  const OrtTensorTypeAndShapeInfo* shape = NULL;
  if (session == NULL) return;
  MUST(ort->SessionGetOutputTypeInfo(session, 0, &info));
  MUST(ort->CastTypeInfoToTensorInfo(info, &shape));
  print_info("  declared", shape);
  ort->ReleaseTypeInfo(info);
  run("  made", session, values, names, 1, "y", NULL);
  run("  given", session, values, names, 1, "y", given);
  run("  given a column", session, values, names, 1, "y", wrong);
  ort->ReleaseValue(x);
  ort->ReleaseValue(given);
  ort->ReleaseValue(wrong);
  ort->ReleaseSession(session);
}

static void fallback(const char* label, const char* value, int name_the_cpu, int prefer_the_cpu) {
  OrtSessionOptions* options = fresh();
  const OrtEpDevice* const* all = NULL;
  size_t count = 0, i;
  if (value != NULL) MUST(ort->AddSessionConfigEntry(options, "session.disable_cpu_ep_fallback", value));
  MUST(ort->GetEpDevices(env, &all, &count));
  for (i = 0; i < count && name_the_cpu; ++i) {
    if (strcmp(ort->EpDevice_EpName(all[i]), "CPUExecutionProvider") != 0) continue;
    MUST(ort->SessionOptionsAppendExecutionProvider_V2(options, env, &all[i], 1, NULL, NULL, 0));
  }
  if (prefer_the_cpu)
    MUST(ort->SessionOptionsSetEpSelectionPolicy(options, OrtExecutionProviderDevicePolicy_PREFER_CPU));
  run_on_ones(label, "matmul.onnx", options);
  ort->ReleaseSessionOptions(options);
}

/* The CPU EP by its name, as older programs ask for it. */
static void fallback_by_name(const char* label, const char* name) {
  OrtSessionOptions* options = fresh();
  MUST(ort->AddSessionConfigEntry(options, "session.disable_cpu_ep_fallback", "1"));
  check(label, ort->SessionOptionsAppendExecutionProvider(options, name, NULL, NULL, 0));
  run_on_ones(label, "matmul.onnx", options);
  ort->ReleaseSessionOptions(options);
}

int main(int argc, char** argv) {
  start(argc, argv);
  scalars("scalar_times.onnx", "y");
  scalars("scalar_times.onnx", "shape");
  scalars("scalar_vector.onnx", "y");
  sample_rate();
  bound_scalar();
  names_for_two_sizes();
  declared("output_other_size.onnx");
  declared("output_other_rank.onnx");
  declared("output_scalar.onnx");
  declared("output_fixed.onnx");
  declared("output_renamed.onnx");
  declared("output_no_shape.onnx");
  fallback("no fallback", "1", 0, 0);
  fallback("no fallback, the CPU EP named", "1", 1, 0);
  fallback("no fallback, the CPU preferred", "1", 0, 1);
  fallback("fallback", "0", 0, 0);
  fallback("fallback by another word", "true", 0, 0);
  fallback("fallback, the CPU EP named", NULL, 1, 0);
  fallback_by_name("no fallback, CPU", "CPU");
  fallback_by_name("no fallback, CPUExecutionProvider", "CPUExecutionProvider");
  return finish();
}
