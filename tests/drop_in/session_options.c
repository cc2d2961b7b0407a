/* Session options: each setter, and its effect on a session. */
#include "custom_threads.h"
#include "drop_in.h"

static void setters(void) {
  OrtSessionOptions *options = fresh(), *copy = NULL;
  check("sequential", ort->SetSessionExecutionMode(options, ORT_SEQUENTIAL));
  check("parallel", ort->SetSessionExecutionMode(options, ORT_PARALLEL));
  check("mode 7", ort->SetSessionExecutionMode(options, (ExecutionMode)7));
  check("no optimisation", ort->SetSessionGraphOptimizationLevel(options, ORT_DISABLE_ALL));
  check("all optimisations", ort->SetSessionGraphOptimizationLevel(options, ORT_ENABLE_ALL));
  check("optimisation 55", ort->SetSessionGraphOptimizationLevel(options, (GraphOptimizationLevel)55));
  check("optimisation -1", ort->SetSessionGraphOptimizationLevel(options, (GraphOptimizationLevel)-1));
  check("memory pattern off", ort->DisableMemPattern(options));
  check("memory pattern on", ort->EnableMemPattern(options));
  check("arena off", ort->DisableCpuMemArena(options));
  check("arena on", ort->EnableCpuMemArena(options));
  check("log id", ort->SetSessionLogId(options, "drop-in"));
  check("log verbosity", ort->SetSessionLogVerbosityLevel(options, 3));
  check("log severity", ort->SetSessionLogSeverityLevel(options, 4));
  check("log severity 9", ort->SetSessionLogSeverityLevel(options, 9));
  check("log severity back", ort->SetSessionLogSeverityLevel(options, 4));
  check("1 thread", ort->SetIntraOpNumThreads(options, 1));
  check("-1 threads", ort->SetIntraOpNumThreads(options, -1));
  check("0 threads between operators", ort->SetInterOpNumThreads(options, 0));
  check("deterministic", ort->SetDeterministicCompute(options, true));
  check("CPU provider", ort->SessionOptionsAppendExecutionProvider(options, "CPU", NULL, NULL, 0));
  check("profiling off", ort->DisableProfiling(options));
  MUST(ort->SetSessionExecutionMode(options, ORT_SEQUENTIAL));
  MUST(ort->SetIntraOpNumThreads(options, 1));
  MUST(ort->AddSessionConfigEntry(options, "a.key", "one"));
  check("clone", ort->CloneSessionOptions(options, &copy));
  MUST(ort->AddSessionConfigEntry(options, "a.key", "two"));
  ort->ReleaseSessionOptions(options);
  run_on_ones("session from the clone", "matmul.onnx", copy);
  ort->ReleaseSessionOptions(copy);
}

static void print_entry(OrtSessionOptions* options, const char* key) {
  int has = -1;
  char text[64] = "untouched";
  size_t size = 0;
  check("has", ort->HasSessionConfigEntry(options, key, &has));
  printf("  \"%s\": %d\n", key, has);
  check("size", ort->GetSessionConfigEntry(options, key, NULL, &size));
  printf("  size %d\n", (int)size);
  size = 2;
  check("value in 2 bytes", ort->GetSessionConfigEntry(options, key, text, &size));
  printf("  size %d, \"%s\"\n", (int)size, text);
  size = sizeof(text);
  check("value", ort->GetSessionConfigEntry(options, key, text, &size));
  printf("  size %d, \"%s\"\n", (int)size, text);
}

static void config_entries(void) {
  OrtSessionOptions* options = fresh();
  OrtKeyValuePairs* entries = NULL;
  char key[1100], value[5000];
  print_entry(options, "absent");
  check("add", ort->AddSessionConfigEntry(options, "some.key", "some value"));
  print_entry(options, "some.key");
  check("add again", ort->AddSessionConfigEntry(options, "some.key", "other"));
  print_entry(options, "some.key");
  check("empty value", ort->AddSessionConfigEntry(options, "empty.value", ""));
  print_entry(options, "empty.value");
  check("empty key", ort->AddSessionConfigEntry(options, "", "x"));
  memset(key, 'k', sizeof(key));
  key[sizeof(key) - 1] = '\0';
  memset(value, 'v', sizeof(value));
  value[sizeof(value) - 1] = '\0';
  check("long key", ort->AddSessionConfigEntry(options, key, "x"));
  check("long value", ort->AddSessionConfigEntry(options, "x", value));
  if (check("all entries", ort->GetSessionOptionsConfigEntries(options, &entries))) {
    const char *const *keys = NULL, *const *values = NULL;
    size_t count = 0;
    ort->GetKeyValuePairs(entries, &keys, &values, &count);
    printf("  some.key=%s\n", ort->GetKeyValue(entries, "some.key"));
    ort->ReleaseKeyValuePairs(entries);
  }
  ort->ReleaseSessionOptions(options);
}

static void print_input(const char* label, const char* name, OrtSessionOptions* options) {
  OrtSession* session = open_session(label, name, options);
  OrtTypeInfo* type = NULL;
  const OrtTensorTypeAndShapeInfo* info = NULL;
  if (session == NULL) return;
  MUST(ort->SessionGetInputTypeInfo(session, 0, &type));
  MUST(ort->CastTypeInfoToTensorInfo(type, &info));
  print_info("  input", info);
  ort->ReleaseTypeInfo(type);
  MUST(ort->SessionGetOutputTypeInfo(session, 0, &type));
  MUST(ort->CastTypeInfoToTensorInfo(type, &info));
  print_info("  output", info);
  ort->ReleaseTypeInfo(type);
  ort->ReleaseSession(session);
}

static void free_dimensions(void) {
  OrtSessionOptions* options = fresh();
  check("by name", ort->AddFreeDimensionOverrideByName(options, "N", 2));
  check("of a name that is not there", ort->AddFreeDimensionOverrideByName(options, "Q", 3));
  print_input("N = 2", "add.onnx", options);
  ort->ReleaseSessionOptions(options);
  options = fresh();
  check("by denotation", ort->AddFreeDimensionOverride(options, "DATA_BATCH", 5));
  check("by name too", ort->AddFreeDimensionOverrideByName(options, "H", 7));
  print_input("DATA_BATCH = 5, H = 7", "denoted.onnx", options);
  ort->ReleaseSessionOptions(options);
}

static void initializers(void) {
  OrtSessionOptions* options = fresh();
  float w[4] = {10, 20, 30, 40};
  const int64_t dims[1] = {4}, wrong[1] = {2};
  OrtValue *weight = floats(w, 4, dims, 1), *bad_shape = floats(w, 2, wrong, 1);
  OrtValue* bad_type = tensor(ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, w, 16, dims, 1);
  const char* names[] = {"w"};
  const OrtValue* values[] = {weight};
  OrtSession* session;
  run_on_ones("the model's weight", "weights.onnx", options);
  check("add", ort->AddInitializer(options, "w", weight));
  check("add again", ort->AddInitializer(options, "w", weight));
  check("empty name", ort->AddInitializer(options, "", weight));
  run_on_ones("another weight", "weights.onnx", options);
  run_on_ones("another weight, overridable", "overridable.onnx", options);
  ort->ReleaseSessionOptions(options);
  options = fresh();
  MUST(ort->AddInitializer(options, "w", bad_shape));
  session = open_session("a weight of another shape", "weights.onnx", options);
  if (session != NULL) ort->ReleaseSession(session);
  ort->ReleaseSessionOptions(options);
  options = fresh();
  MUST(ort->AddInitializer(options, "w", bad_type));
  session = open_session("a weight of another type", "weights.onnx", options);
  if (session != NULL) ort->ReleaseSession(session);
  ort->ReleaseSessionOptions(options);
  options = fresh();
  MUST(ort->AddInitializer(options, "nobody", weight));
  run_on_ones("an initializer that is not there", "weights.onnx", options);
  ort->ReleaseSessionOptions(options);
  options = fresh();
  run_on_ones("external data", "external.onnx", options);
  check("external initializers", ort->AddExternalInitializers(options, names, values, 1));
  run_on_ones("external data that is given", "external.onnx", options);
  run_on_ones("external data that is given, file missing", "missing.onnx", options);
  ort->ReleaseSessionOptions(options);
  ort->ReleaseValue(weight);
  ort->ReleaseValue(bad_shape);
  ort->ReleaseValue(bad_type);
}

static void files_in_memory(void) {
  OrtSessionOptions* options = fresh();
  float w[4] = {3, 4, 5, 6};
  const char* names[] = {"missing.bin"};
  char* buffers[] = {(char*)w};
  const size_t sizes[] = {sizeof(w)};
  check("external file in memory", ort->AddExternalInitializersFromFilesInMemory(options, names, buffers, sizes, 1));
  run_on_ones("file in memory", "missing.onnx", options);
  ort->ReleaseSessionOptions(options);
}

static void providers(void) {
  OrtSessionOptions* options = fresh();
  const char *keys[] = {"key"}, *values[] = {"value"}, *no_text[] = {NULL}, *empty_text[] = {""};
  char long_one[1000];
  const char* long_text[] = {long_one};
  char** available = NULL;
  int count = 0, i, has_cpu = 0;
  memset(long_one, 'l', sizeof(long_one));
  long_one[sizeof(long_one) - 1] = '\0';
  check("a provider that is unknown", ort->SessionOptionsAppendExecutionProvider(options, "NoSuch", keys, values, 1));
  check("an empty name", ort->SessionOptionsAppendExecutionProvider(options, "", keys, values, 1));
  check("a provider that is not built in", ort->SessionOptionsAppendExecutionProvider(options, "QNN", keys, values, 1));
  check("the CPU by its full name",
        ort->SessionOptionsAppendExecutionProvider(options, "CPUExecutionProvider", keys, values, 1));
  check("no name of a key", ort->SessionOptionsAppendExecutionProvider(options, "CPU", no_text, values, 1));
  check("no value", ort->SessionOptionsAppendExecutionProvider(options, "CPU", keys, no_text, 1));
  check("an empty key", ort->SessionOptionsAppendExecutionProvider(options, "CPU", empty_text, values, 1));
  check("an empty value", ort->SessionOptionsAppendExecutionProvider(options, "CPU", keys, empty_text, 1));
  check("a long key", ort->SessionOptionsAppendExecutionProvider(options, "CPU", long_text, values, 1));
  check("a long value", ort->SessionOptionsAppendExecutionProvider(options, "CPU", keys, long_text, 1));
  check("an unknown provider without a key",
        ort->SessionOptionsAppendExecutionProvider(options, "NoSuch", no_text, values, 1));
  check("keys missing", ort->SessionOptionsAppendExecutionProvider(options, "CPU", NULL, NULL, 0));
  /* The CPU package has this one, which runs no operator of ONNX. */
  check("Azure", ort->SessionOptionsAppendExecutionProvider(options, "AZURE", keys, values, 1));
  run_on_ones("session with Azure", "matmul.onnx", options);
  MUST(ort->AddSessionConfigEntry(options, "session.disable_cpu_ep_fallback", "1"));
  run_on_ones("session of Azure alone", "matmul.onnx", options);
  MUST(ort->AddSessionConfigEntry(options, "session.disable_cpu_ep_fallback", "0"));
  check("Azure by its full name",
        ort->SessionOptionsAppendExecutionProvider(options, "AzureExecutionProvider", keys, values, 1));
  run_on_ones("session with Azure twice", "matmul.onnx", options);
  check("azure", ort->SessionOptionsAppendExecutionProvider(options, "azure", keys, values, 1));
  MUST(ort->GetAvailableProviders(&available, &count));
  for (i = 0; i < count; ++i) has_cpu += strcmp(available[i], "CPUExecutionProvider") == 0;
  printf("CPU is available: %d\n", has_cpu);
  MUST(ort->ReleaseAvailableProviders(available, count));
  ort->ReleaseSessionOptions(options);
}

static void custom_threads(void) {
  OrtSessionOptions* options = fresh();
  MUST(ort->SetIntraOpNumThreads(options, 3));
  check("create function", ort->SessionOptionsSetCustomCreateThreadFn(options, make_thread));
  check("creation options", ort->SessionOptionsSetCustomThreadCreationOptions(options, &threads_made));
  check("join function", ort->SessionOptionsSetCustomJoinThreadFn(options, join_thread));
  run_on_ones("session with two threads of ours", "matmul.onnx", options);
  printf("made %d, joined %d\n", threads_made, threads_joined);
  ort->ReleaseSessionOptions(options);
}

static void global_pool(void) {
  OrtSessionOptions* options = fresh();
  check("no threads of its own", ort->DisablePerSessionThreads(options));
  run_on_ones("without global threads", "matmul.onnx", options);
  ort->ReleaseSessionOptions(options);
}

static int file_exists(const char* path) {
  FILE* file = fopen(path, "rb");
  if (file != NULL) fclose(file);
  return file != NULL;
}

static void profiling(void) {
  OrtSessionOptions* options = fresh();
  OrtSession* session;
  uint64_t started = 0;
  char *name = NULL, text[64] = {0};
  FILE* file;
  check("profiling on", ort->EnableProfiling(options, "drop_in_profile"));
  session = open_session("session", "matmul.onnx", options);
  if (session == NULL) return;
  check("start", ort->SessionGetProfilingStartTimeNs(session, &started));
  printf("  there is a time: %d\n", started > 0);
  if (check("end", ort->SessionEndProfiling(session, allocator, &name))) {
    printf("  prefix kept: %d, file: %d\n", strncmp(name, "drop_in_profile_", 16) == 0, file_exists(name));
    file = fopen(name, "rb");
    if (file != NULL) {
      if (fread(text, 1, 1, file) != 1) text[0] = '?';
      fclose(file);
    }
    printf("  begins with %c\n", text[0]);
    remove(name);
    MUST(ort->AllocatorFree(allocator, name));
  }
  ort->ReleaseSession(session);
  session = must_open("matmul.onnx");
  name = NULL;
  check("end without a start", ort->SessionEndProfiling(session, allocator, &name));
  printf("  name: \"%s\"\n", name == NULL ? "null" : name);
  if (name != NULL) MUST(ort->AllocatorFree(allocator, name));
  ort->ReleaseSession(session);
  ort->ReleaseSessionOptions(options);
}

static void optimized_model(void) {
  OrtSessionOptions* options = fresh();
  check("path of the optimised model", ort->SetOptimizedModelFilePath(options, "drop_in_optimized.onnx"));
  run_on_ones("session that writes it", "matmul.onnx", options);
  printf("written: %d\n", file_exists("drop_in_optimized.onnx"));
  remove("drop_in_optimized.onnx");
  ort->ReleaseSessionOptions(options);
}

static void prepacked(void) {
  OrtSessionOptions* options = fresh();
  OrtPrepackedWeightsContainer* container = NULL;
  OrtSession *a = NULL, *b = NULL;
  check("container", ort->CreatePrepackedWeightsContainer(&container));
  check("first", ort->CreateSessionWithPrepackedWeightsContainer(env, model("matmul.onnx"), options, container, &a));
  check("second", ort->CreateSessionWithPrepackedWeightsContainer(env, model("matmul.onnx"), options, container, &b));
  ort->ReleaseSession(a);
  ort->ReleaseSession(b);
  ort->ReleasePrepackedWeightsContainer(container);
  ort->ReleaseSessionOptions(options);
}

static void dynamic_options(void) {
  OrtSession* session = must_open("matmul.onnx");
  const char *keys[] = {"ep.dynamic.workload_type"}, *efficient[] = {"Efficient"};
  const char* unknown[] = {"no.such.key"};
  check("workload type", ort->SetEpDynamicOptions(session, keys, efficient, 1));
  check("unknown key", ort->SetEpDynamicOptions(session, unknown, efficient, 1));
  check("no keys", ort->SetEpDynamicOptions(session, NULL, NULL, 0));
  ort->ReleaseSession(session);
}

int main(int argc, char** argv) {
  start(argc, argv);
  setters();
  config_entries();
  free_dimensions();
  initializers();
  files_in_memory();
  providers();
  custom_threads();
  global_pool();
  profiling();
  optimized_model();
  prepacked();
  dynamic_options();
  return finish();
}
