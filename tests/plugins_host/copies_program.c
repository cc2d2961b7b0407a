// Prints the copies that runs of a model make, as a program of the C ABI gets them (tenon/copy_ledger_api.h).
// Usage: copies_program LIBRARY MODEL [strict] [strict_env] [plugin PATH EP [KEY=VALUE...]]
//
// Inputs are floats of the shapes that the model fixes, in host memory, and count up from -1 in halves. Lines are
// "explained|first|second|copied NAME BYTES FROM > TO REASON ONCE", and "open COUNT". A failure prints its message and
// ends the program with 3.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/copy_ledger_api.h>
#include <tenon/onnxruntime_c_api.h>

enum { kMostValues = 8, kMostElements = 4096, kMostRank = 8 };

static const OrtApi* api;
static const TenonCopyLedgerApi* copies;

static void need(const char* what, OrtStatus* status) {
  if (status == NULL) return;
  printf("%s: %s\n", what, api->GetErrorMessage(status));
  api->ReleaseStatus(status);
  exit(3);
}

static void print_and_clear(const char* when, TenonCopyLedger* ledger) {
  const TenonCopyRecord* records = NULL;
  size_t count = 0;
  need("GetRecords", copies->GetRecords(ledger, &records, &count));
  for (size_t i = 0; i < count; ++i) {
    printf("%s %s %llu %s > %s %s %u\n", when, records[i].name, (unsigned long long)records[i].bytes, records[i].from,
           records[i].to, records[i].reason, records[i].once);
  }
  need("ClearLedger", copies->ClearLedger(ledger));
  need("GetRecords", copies->GetRecords(ledger, &records, &count));
  if (count != 0) exit(4);
}

static void check_nulls(void) {
  OrtStatus* (*const create)(TenonCopyLedger**) = copies->CreateLedger;
  OrtStatus* statuses[] = {create(NULL),
                           copies->SetRunLedger(NULL, NULL),
                           copies->SetCallerLedger(NULL, NULL),
                           copies->GetRecords(NULL, NULL, NULL),
                           copies->ClearLedger(NULL),
                           copies->ExplainCopies(NULL, NULL, 0, NULL, NULL)};
  for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); ++i) {
    if (statuses[i] == NULL || api->GetErrorCode(statuses[i]) != ORT_INVALID_ARGUMENT) exit(5);
    api->ReleaseStatus(statuses[i]);
  }
  copies->ReleaseLedger(NULL);
}

static void append_ep(OrtEnv* env, OrtSessionOptions* options, char** arguments, int count) {
  const char *keys[kMostValues], *values[kMostValues];
  size_t pairs = 0;
  need("RegisterExecutionProviderLibrary", api->RegisterExecutionProviderLibrary(env, "plugin", arguments[0]));
  for (int i = 2; i < count; ++i) {
    char* at = strchr(arguments[i], '=');
    if (at == NULL || pairs == kMostValues) exit(2);
    *at = '\0';
    keys[pairs] = arguments[i];
    values[pairs++] = at + 1;
  }
  const OrtEpDevice* const* devices = NULL;
  size_t found = 0;
  need("GetEpDevices", api->GetEpDevices(env, &devices, &found));
  for (size_t i = 0; i < found; ++i) {
    if (strcmp(api->EpDevice_EpName(devices[i]), arguments[1]) != 0) continue;
    need("append", api->SessionOptionsAppendExecutionProvider_V2(options, env, &devices[i], 1, keys, values, pairs));
    return;
  }
  exit(2);
}

static void copy_tensors(OrtEnv* env, TenonCopyLedger* ledger, const OrtMemoryInfo* host) {
  float from[4] = {1, 2, 3, 4}, to[4] = {0, 0, 0, 0};
  const int64_t shape[] = {4};
  OrtValue *src = NULL, *dst = NULL;
  need("src", api->CreateTensorWithDataAsOrtValue(host, from, sizeof(from), shape, 1,
                                                  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &src));
  need("dst",
       api->CreateTensorWithDataAsOrtValue(host, to, sizeof(to), shape, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &dst));
  const OrtValue* sources[] = {src, src};
  OrtValue* targets[] = {src, dst};
  need("SetCallerLedger", copies->SetCallerLedger(env, ledger));
  need("CopyTensors", api->CopyTensors(env, sources, targets, NULL, 2));
  if (memcmp(from, to, sizeof(from)) != 0) exit(6);
  print_and_clear("copied", ledger);
  need("SetCallerLedger", copies->SetCallerLedger(env, NULL));
  need("CopyTensors", api->CopyTensors(env, sources, targets, NULL, 2));
  print_and_clear("unheard", ledger);
  api->ReleaseValue(src);
  api->ReleaseValue(dst);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  const OrtApiBase* (*get_base)(void) = NULL;
  *(void**)&get_base = dlsym(library, "OrtGetApiBase");
  api = get_base()->GetApi(28);
  OrtExperimentalFnPtr function = api->GetExperimentalFunction(TENON_GET_COPY_LEDGER_API);
  if (function == NULL) {
    printf("no copy ledger here\n");
    return 0;
  }
  copies = ((TenonGetCopyLedgerApiFn)function)(TENON_COPY_LEDGER_API_VERSION);
  if (((TenonGetCopyLedgerApiFn)function)(0) != NULL || copies->version != 1) return 7;
  check_nulls();

  OrtKeyValuePairs* entries = NULL;
  api->CreateKeyValuePairs(&entries);
  OrtSessionOptions* options = NULL;
  need("CreateSessionOptions", api->CreateSessionOptions(&options));
  int at = 3;
  for (; at < argc && strcmp(argv[at], "plugin") != 0; ++at) {
    if (strcmp(argv[at], "strict") == 0)
      need("AddSessionConfigEntry", api->AddSessionConfigEntry(options, "tenon.disallow_copies", "1"));
    if (strcmp(argv[at], "strict_env") == 0) api->AddKeyValuePair(entries, "tenon.disallow_copies", "1");
  }
  OrtEnvCreationOptions creation = {0};
  creation.version = 28;
  creation.logging_severity_level = ORT_LOGGING_LEVEL_WARNING;
  creation.log_id = "copies";
  creation.config_entries = entries;
  OrtEnv* env = NULL;
  need("CreateEnvWithOptions", api->CreateEnvWithOptions(&creation, &env));
  if (at < argc) append_ep(env, options, argv + at + 1, argc - at - 1);
  OrtSession* session = NULL;
  need("CreateSession", api->CreateSession(env, argv[2], options, &session));

  OrtAllocator* allocator = NULL;
  need("GetAllocatorWithDefaultOptions", api->GetAllocatorWithDefaultOptions(&allocator));
  OrtMemoryInfo* host = NULL;
  need("CreateCpuMemoryInfo", api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &host));
  size_t inputs = 0, outputs = 0;
  need("inputs", api->SessionGetInputCount(session, &inputs));
  need("outputs", api->SessionGetOutputCount(session, &outputs));
  if (inputs > kMostValues || outputs > kMostValues) return 2;
  static float data[kMostValues][kMostElements];
  char *input_names[kMostValues], *output_names[kMostValues];
  OrtValue *given[kMostValues] = {NULL}, *got[kMostValues] = {NULL};
  TenonPlacement placements[kMostValues];
  static int64_t dims[kMostValues][kMostRank];
  for (size_t i = 0; i < inputs; ++i) {
    OrtTypeInfo* type = NULL;
    const OrtTensorTypeAndShapeInfo* info = NULL;
    size_t rank = 0, count = 1;
    need("type", api->SessionGetInputTypeInfo(session, i, &type));
    need("info", api->CastTypeInfoToTensorInfo(type, &info));
    need("rank", api->GetDimensionsCount(info, &rank));
    if (rank > kMostRank) return 2;
    need("dims", api->GetDimensions(info, dims[i], rank));
    for (size_t d = 0; d < rank; ++d) count *= (size_t)dims[i][d];
    if (count > kMostElements) return 2;
    for (size_t e = 0; e < count; ++e) data[i][e] = -1.0f + 0.5f * (float)e;
    api->ReleaseTypeInfo(type);
    need("name", api->SessionGetInputName(session, i, allocator, &input_names[i]));
    need("tensor", api->CreateTensorWithDataAsOrtValue(host, data[i], count * sizeof(float), dims[i], rank,
                                                       ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &given[i]));
    const TenonPlacement placed = {input_names[i], dims[i], rank, host, 0};
    placements[i] = placed;
  }
  for (size_t i = 0; i < outputs; ++i) need("name", api->SessionGetOutputName(session, i, allocator, &output_names[i]));

  TenonCopyLedger* ledger = NULL;
  need("CreateLedger", copies->CreateLedger(&ledger));
  size_t open = 99;
  need("ExplainCopies", copies->ExplainCopies(session, placements, inputs, ledger, &open));
  print_and_clear("explained", ledger);
  printf("open %zu\n", open);
  OrtRunOptions* run = NULL;
  need("CreateRunOptions", api->CreateRunOptions(&run));
  need("SetRunLedger", copies->SetRunLedger(run, ledger));
  for (int turn = 0; turn < 2; ++turn) {
    need("Run", api->Run(session, run, (const char* const*)input_names, (const OrtValue* const*)given, inputs,
                         (const char* const*)output_names, outputs, got));
    print_and_clear(turn == 0 ? "first" : "second", ledger);
    for (size_t i = 0; i < outputs; ++i) {
      api->ReleaseValue(got[i]);
      got[i] = NULL;
    }
  }
  need("SetRunLedger", copies->SetRunLedger(run, NULL));
  need("Run", api->Run(session, run, (const char* const*)input_names, (const OrtValue* const*)given, inputs,
                       (const char* const*)output_names, outputs, got));
  print_and_clear("unheard", ledger);
  // Options keep what they need of a ledger that is gone.
  need("SetRunLedger", copies->SetRunLedger(run, ledger));
  copy_tensors(env, ledger, host);
  copies->ReleaseLedger(ledger);
  for (size_t i = 0; i < outputs; ++i) api->ReleaseValue(got[i]);
  for (size_t i = 0; i < outputs; ++i) got[i] = NULL;
  need("Run", api->Run(session, run, (const char* const*)input_names, (const OrtValue* const*)given, inputs,
                       (const char* const*)output_names, outputs, got));
  for (size_t i = 0; i < outputs; ++i) {
    api->ReleaseValue(got[i]);
    allocator->Free(allocator, output_names[i]);
  }
  for (size_t i = 0; i < inputs; ++i) {
    api->ReleaseValue(given[i]);
    allocator->Free(allocator, input_names[i]);
  }
  api->ReleaseRunOptions(run);
  api->ReleaseSession(session);
  api->ReleaseSessionOptions(options);
  api->ReleaseMemoryInfo(host);
  api->ReleaseKeyValuePairs(entries);
  api->ReleaseEnv(env);
  return 0;
}
