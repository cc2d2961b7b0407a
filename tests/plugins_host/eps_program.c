// Drives EP plugins through the C ABI of any library that has it, and prints the results; eps_test.py compares
// ONNX Runtime's answers with ours. Usage: eps_program LIBRARY COMMAND...
//
//   plugin NAME=PATH       registers an EP library
//   config KEY=VALUE       a session config entry
//   profile PREFIX         the session writes a profile
//   read NAME=TEXT         the data that EPContext nodes name
//   device N               the next EP runs on its N-th device, counted from 0
//   ep NAME[,KEY=VALUE...] the next EP in order of preference
//   session MODEL          makes a session; later options are for the next one, as after compile
//   package FOLDER,NAME    selects a variant of a model package's component for the options' EP, and makes its session
//   own_package FOLDER,NAME  the same, and the session with options of the program
//   nodes                  the EP of each node
//   run [,KEY=VALUE...]    runs it on fixed inputs, with run config entries, and prints the outputs
//   again [new],[...]      runs it four times with one input of [3, 4], in the same or in new memory
//   release GRAPH          SessionReleaseCapturedGraph
//   dynamic KEY=VALUE      SetEpDynamicOptions
//   end                    ends profiling, and prints the file's name
//   capacity EP            EpDevice_GetMemoryCapacity of its device, with nulls, and with types that there are and are
//   not weightless MODE        ModelCompilationOptions_SetWeightlessMode on a copy of the options
//   compatible EP=MODEL    what the model's metadata says of the EP, and what the EP says of that text and of others
//   compile IN=OUT[,KEY=VALUE...]  CompileModel of a file with these options: embed and flags are numbers, data=FAIL a
//   function for EPContext data that fails when FAIL is not 0, binary=FOLDER and name=NAME, external=FILE, weightless
//
// A call that fails prints its code; the message goes to stderr.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/onnxruntime_c_api.h>

enum { kMostValues = 8, kMostElements = 4096, kMostPairs = 8 };

static const OrtApi* api;
static OrtEnv* env;
static OrtSessionOptions* options;
static OrtSession* session;
static OrtAllocator* allocator;
static const char* named_data;
static int chosen_device;

// Prints and releases a status; 1 for a failure.
static int failed(const char* what, OrtStatus* status) {
  if (status == NULL) return 0;
  printf("%s: code %d\n", what, (int)api->GetErrorCode(status));
  fprintf(stderr, "%s: %s\n", what, api->GetErrorMessage(status));
  api->ReleaseStatus(status);
  return 1;
}

static void need(const char* what, OrtStatus* status) {
  if (failed(what, status)) exit(2);
}

// Splits "KEY=VALUE,KEY=VALUE" in place.
static size_t split(char* text, const char** keys, const char** values) {
  size_t count = 0;
  for (char* pair = strtok(text, ","); pair != NULL && count < kMostPairs; pair = strtok(NULL, ",")) {
    char* at = strchr(pair, '=');
    if (at == NULL) exit(3);
    *at = '\0';
    keys[count] = pair;
    values[count++] = at + 1;
  }
  return count;
}

static OrtStatus* read_named(void* state, const char* name, OrtAllocator* with, void** buffer, size_t* size) {
  const char* text = strchr((const char*)state, '=');
  const size_t length = (size_t)(text - (const char*)state);
  if (strlen(name) != length || strncmp(name, (const char*)state, length) != 0)
    return api->CreateStatus(ORT_NO_SUCHFILE, "there is no data of that name");
  *size = strlen(text + 1);
  *buffer = with->Alloc(with, *size);
  memcpy(*buffer, text + 1, *size);
  return NULL;
}

static void append_ep(char* text) {
  char* rest = strchr(text, ',');
  if (rest != NULL) *rest++ = '\0';
  const char *keys[kMostPairs], *values[kMostPairs];
  const size_t pairs = rest != NULL ? split(rest, keys, values) : 0;
  const OrtEpDevice* const* devices = NULL;
  size_t count = 0;
  need("GetEpDevices", api->GetEpDevices(env, &devices, &count));
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(api->EpDevice_EpName(devices[i]), text) != 0 || chosen_device-- > 0) continue;
    chosen_device = 0;
    failed("append", api->SessionOptionsAppendExecutionProvider_V2(options, env, &devices[i], 1, keys, values, pairs));
    return;
  }
  printf("no device of %s\n", text);
}

static void new_options(void) {
  if (options != NULL) api->ReleaseSessionOptions(options);
  need("CreateSessionOptions", api->CreateSessionOptions(&options));
  need("record", api->AddSessionConfigEntry(options, "session.record_ep_graph_assignment_info", "1"));
}

static void make_session(const char* model) {
  if (session != NULL) api->ReleaseSession(session);
  session = NULL;
  if (!failed("session", api->CreateSession(env, model, options, &session))) printf("session made\n");
  new_options();
}

// With the options of the package, and those of the program when `own` is set.
static void make_from_package(char* folder, bool own) {
  const OrtModelPackageApi* packages = api->GetModelPackageApi();
  OrtModelPackageOptions* wanted = NULL;
  OrtModelPackageContext* package = NULL;
  OrtModelPackageComponentContext* selected = NULL;
  OrtSessionOptions* fresh = NULL;
  const char* variant = NULL;
  char* component = strchr(folder, ',');
  if (component == NULL) exit(2);
  *component++ = '\0';
  if (session != NULL) api->ReleaseSession(session);
  session = NULL;
  need("package", packages->CreateModelPackageContext(folder, &package));
  need("CreateSessionOptions", api->CreateSessionOptions(&fresh));
  need("record", api->AddSessionConfigEntry(fresh, "session.record_ep_graph_assignment_info", "1"));
  if (!failed("options", packages->CreateModelPackageOptionsFromSessionOptions(env, options, &wanted)) &&
      !failed("select", packages->SelectComponent(package, component, wanted, &selected))) {
    // What was selected needs neither of them.
    packages->ReleaseModelPackageContext(package);
    packages->ReleaseModelPackageOptions(wanted);
    package = NULL;
    wanted = NULL;
    need("name", packages->ModelPackageComponent_GetSelectedVariantName(selected, &variant));
    printf("variant %s\n", variant);
    if (!failed("session", packages->CreateSession(env, selected, own ? fresh : NULL, &session)))
      printf("session made\n");
  }
  api->ReleaseSessionOptions(fresh);
  packages->ReleaseModelPackageComponentContext(selected);
  packages->ReleaseModelPackageContext(package);
  packages->ReleaseModelPackageOptions(wanted);
}

static int by_text(const void* a, const void* b) { return strcmp((const char*)a, (const char*)b); }

static void print_nodes(void) {
  static char lines[256][128];
  size_t count = 0, parts = 0;
  const OrtEpAssignedSubgraph* const* subgraphs = NULL;
  need("assignment", api->Session_GetEpGraphAssignmentInfo(session, &subgraphs, &parts));
  for (size_t p = 0; p < parts; ++p) {
    const char* ep = NULL;
    const OrtEpAssignedNode* const* nodes = NULL;
    size_t size = 0;
    need("name", api->EpAssignedSubgraph_GetEpName(subgraphs[p], &ep));
    need("nodes", api->EpAssignedSubgraph_GetNodes(subgraphs[p], &nodes, &size));
    for (size_t n = 0; n < size && count < 256; ++n) {
      const char *name = NULL, *type = NULL;
      need("name", api->EpAssignedNode_GetName(nodes[n], &name));
      need("type", api->EpAssignedNode_GetOperatorType(nodes[n], &type));
      snprintf(lines[count++], sizeof lines[0], "%s %s: %s", type, name, ep);
    }
  }
  qsort(lines, count, sizeof lines[0], by_text);
  for (size_t i = 0; i < count; ++i) printf("%s\n", lines[i]);
}

static size_t shape_of(const OrtTensorTypeAndShapeInfo* info, int64_t* dims, size_t* rank) {
  need("rank", api->GetDimensionsCount(info, rank));
  need("dims", api->GetDimensions(info, dims, *rank));
  size_t elements = 1;
  for (size_t d = 0; d < *rank; ++d) {
    if (dims[d] < 0) dims[d] = 3;
    elements *= (size_t)dims[d];
  }
  return elements;
}

static OrtValue* make_input(size_t index, char** name) {
  OrtTypeInfo* type_info = NULL;
  const OrtTensorTypeAndShapeInfo* info = NULL;
  ONNXTensorElementDataType type;
  int64_t dims[8];
  size_t rank = 0;
  need("input name", api->SessionGetInputName(session, index, allocator, name));
  need("input type", api->SessionGetInputTypeInfo(session, index, &type_info));
  need("cast", api->CastTypeInfoToTensorInfo(type_info, &info));
  need("type", api->GetTensorElementType(info, &type));
  const size_t elements = shape_of(info, dims, &rank);
  OrtValue* value = NULL;
  void* data = NULL;
  need("tensor", api->CreateTensorAsOrtValue(allocator, dims, rank, type, &value));
  need("data", api->GetTensorMutableData(value, &data));
  for (size_t i = 0; i < elements; ++i) {
    const int number = (int)(i * 7 % 11) - 5;
    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) ((float*)data)[i] = (float)number * 0.5f;
    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64) ((int64_t*)data)[i] = number;
    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32) ((int32_t*)data)[i] = number + 5;
  }
  api->ReleaseTypeInfo(type_info);
  return value;
}

static void print_value(const char* name, const OrtValue* value) {
  OrtTensorTypeAndShapeInfo* info = NULL;
  ONNXTensorElementDataType type;
  int64_t dims[8];
  size_t rank = 0;
  void* data = NULL;
  need("shape", api->GetTensorTypeAndShape(value, &info));
  need("type", api->GetTensorElementType(info, &type));
  const size_t elements = shape_of(info, dims, &rank);
  need("data", api->GetTensorMutableData((OrtValue*)value, &data));
  printf("%s [", name);
  for (size_t d = 0; d < rank; ++d) printf(" %d", (int)dims[d]);
  printf(" ]");
  for (size_t i = 0; i < elements && i < kMostElements; ++i) {
    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) printf(" %.4f", (double)((float*)data)[i]);
    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64) printf(" %lld", (long long)((int64_t*)data)[i]);
  }
  printf("\n");
  api->ReleaseTensorTypeAndShapeInfo(info);
}

static void run(char* text) {
  OrtRunOptions* run_options = NULL;
  const char *keys[kMostPairs], *values[kMostPairs];
  need("CreateRunOptions", api->CreateRunOptions(&run_options));
  const size_t pairs = split(text, keys, values);
  for (size_t i = 0; i < pairs; ++i) need("run entry", api->AddRunConfigEntry(run_options, keys[i], values[i]));
  size_t inputs = 0, outputs = 0;
  need("inputs", api->SessionGetInputCount(session, &inputs));
  need("outputs", api->SessionGetOutputCount(session, &outputs));
  if (inputs > kMostValues || outputs > kMostValues) exit(3);
  char *input_names[kMostValues], *output_names[kMostValues];
  OrtValue *input_values[kMostValues], *output_values[kMostValues] = {NULL};
  for (size_t i = 0; i < inputs; ++i) input_values[i] = make_input(i, &input_names[i]);
  for (size_t i = 0; i < outputs; ++i)
    need("output name", api->SessionGetOutputName(session, i, allocator, &output_names[i]));
  if (!failed("run",
              api->Run(session, run_options, (const char* const*)input_names, (const OrtValue* const*)input_values,
                       inputs, (const char* const*)output_names, outputs, output_values))) {
    for (size_t i = 0; i < outputs; ++i) print_value(output_names[i], output_values[i]);
  }
  for (size_t i = 0; i < inputs; ++i) {
    api->ReleaseValue(input_values[i]);
    allocator->Free(allocator, input_names[i]);
  }
  for (size_t i = 0; i < outputs; ++i) {
    if (output_values[i] != NULL) api->ReleaseValue(output_values[i]);
    allocator->Free(allocator, output_names[i]);
  }
  api->ReleaseRunOptions(run_options);
}

// Four runs with the same tensors, the input one more each time; the outputs of the program's, so that nothing moves.
// "new": the third and fourth run have other tensors.
static void run_again(char* text) {
  const int moves = strncmp(text, "new", 3) == 0;
  const char *keys[kMostPairs], *values[kMostPairs];
  const size_t pairs = split(text + (moves ? 3 : 0), keys, values);
  OrtRunOptions* run_options = NULL;
  need("CreateRunOptions", api->CreateRunOptions(&run_options));
  for (size_t i = 0; i < pairs; ++i) need("run entry", api->AddRunConfigEntry(run_options, keys[i], values[i]));
  char *name = NULL, *output_name = NULL;
  need("output name", api->SessionGetOutputName(session, 0, allocator, &output_name));
  OrtValue *inputs[2] = {NULL}, *outputs[2] = {NULL};
  const int64_t dims[] = {3, 4};
  for (int i = 0; i < 2; ++i) {
    if (name != NULL) allocator->Free(allocator, name);
    inputs[i] = make_input(0, &name);
    need("tensor", api->CreateTensorAsOrtValue(allocator, dims, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &outputs[i]));
  }
  for (int turn = 0; turn < 4; ++turn) {
    const int which = moves && turn >= 2;
    void* data = NULL;
    need("data", api->GetTensorMutableData(inputs[which], &data));
    for (int i = 0; i < 12; ++i) ((float*)data)[i] = (float)(i - 6 + turn);
    if (!failed("run", api->Run(session, run_options, (const char* const*)&name, (const OrtValue* const*)&inputs[which],
                                1, (const char* const*)&output_name, 1, &outputs[which])))
      print_value(output_name, outputs[which]);
  }
  for (int i = 0; i < 2; ++i) {
    api->ReleaseValue(inputs[i]);
    api->ReleaseValue(outputs[i]);
  }
  allocator->Free(allocator, name);
  allocator->Free(allocator, output_name);
  api->ReleaseRunOptions(run_options);
}

static void set_dynamic(char* text) {
  const char *keys[kMostPairs], *values[kMostPairs];
  const size_t pairs = split(text, keys, values);
  if (!failed("dynamic", api->SetEpDynamicOptions(session, keys, values, pairs))) printf("dynamic options set\n");
}

static void end_profile(void) {
  char* file = NULL;
  if (failed("end", api->SessionEndProfiling(session, allocator, &file))) return;
  printf("profile %s\n", file);
  allocator->Free(allocator, file);
}

static void plugin(char* text) {
  char* at = strchr(text, '=');
  if (at == NULL) exit(3);
  *at = '\0';
  failed("plugin", api->RegisterExecutionProviderLibrary(env, text, at + 1));
}

static void config(char* text) {
  const char *keys[kMostPairs], *values[kMostPairs];
  if (split(text, keys, values) != 1) exit(3);
  need("config", api->AddSessionConfigEntry(options, keys[0], values[0]));
}

static void capacity_of(const OrtEpDevice* device, const char* what, int type, int first, int second) {
  uint64_t out_1 = 5, out_2 = 6;
  failed(what, api->EpDevice_GetMemoryCapacity(device, (OrtDeviceMemoryType)type, first ? &out_1 : NULL,
                                               second ? &out_2 : NULL));
  printf("%s: %llu %llu\n", what, (unsigned long long)out_1, (unsigned long long)out_2);
}

static void capacity(const char* ep) {
  const OrtEpDevice* const* devices = NULL;
  const OrtEpDevice* device = NULL;
  size_t count = 0;
  need("GetEpDevices", api->GetEpDevices(env, &devices, &count));
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(api->EpDevice_EpName(devices[i]), ep) == 0) device = devices[i];
  }
  capacity_of(NULL, "no device", 0, 1, 1);
  capacity_of(device, "no output", 0, 0, 0);
  capacity_of(device, "default", 0, 1, 1);
  capacity_of(device, "first", 0, 1, 0);
  capacity_of(device, "second", 5, 0, 1);
  capacity_of(device, "unknown", 7, 1, 1);
  capacity_of(device, "negative", -1, 1, 1);
}

static void weightless(const char* mode) {
  OrtModelCompilationOptions* made = NULL;
  const OrtCompileApi* compile = api->GetCompileApi();
  need("compile options", compile->CreateModelCompilationOptionsFromSessionOptions(env, options, &made));
  if (!failed("mode", compile->ModelCompilationOptions_SetWeightlessMode(made, (OrtWeightlessSupport)atoi(mode))))
    printf("mode set\n");
  compile->ReleaseModelCompilationOptions(made);
}

static const OrtEpDevice* first_device(const char* ep) {
  const OrtEpDevice* const* devices = NULL;
  size_t count = 0;
  need("GetEpDevices", api->GetEpDevices(env, &devices, &count));
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(api->EpDevice_EpName(devices[i]), ep) == 0) return devices[i];
  }
  printf("no device of %s\n", ep);
  return NULL;
}

static void judge(const OrtEpDevice* device, size_t count, const char* text) {
  OrtCompiledModelCompatibility found = (OrtCompiledModelCompatibility)77;
  if (!failed("judge", api->GetModelCompatibilityForEpDevices(&device, count, text, &found)))
    printf("judged %d\n", found);
}

static void compatible(char* text) {
  char* model = strchr(text, '=');
  if (model == NULL) exit(3);
  *model++ = '\0';
  const OrtEpDevice* device = first_device(text);
  char* info = NULL;
  need("info", api->GetCompatibilityInfoFromModel(model, text, allocator, &info));
  printf("info %s\n", info != NULL ? info : "(null)");
  judge(device, 1, info != NULL ? info : "");
  judge(device, 1, "something else");
  judge(device, 0, "something else");
  judge(device, 1, NULL);
  if (info != NULL) allocator->Free(allocator, info);
}

static OrtStatus* write_named(void* state, const char* name, const void* buffer, size_t size) {
  printf("data %s: %.*s\n", name, (int)size, (const char*)buffer);
  return strcmp((const char*)state, "0") == 0 ? NULL : api->CreateStatus(ORT_ENGINE_ERROR, "no room for the data");
}

static void compile(char* text) {
  const char *keys[kMostPairs], *values[kMostPairs], *folder = NULL;
  const size_t pairs = split(text, keys, values);
  const OrtCompileApi* compiler = api->GetCompileApi();
  OrtModelCompilationOptions* made = NULL;
  need("compile options", compiler->CreateModelCompilationOptionsFromSessionOptions(env, options, &made));
  need("input", compiler->ModelCompilationOptions_SetInputModelPath(made, keys[0]));
  need("output", compiler->ModelCompilationOptions_SetOutputModelPath(made, values[0]));
  for (size_t i = 1; i < pairs; ++i) {
    if (strcmp(keys[i], "embed") == 0)
      need("embed", compiler->ModelCompilationOptions_SetEpContextEmbedMode(made, atoi(values[i]) != 0));
    if (strcmp(keys[i], "flags") == 0)
      need("flags", compiler->ModelCompilationOptions_SetFlags(made, (uint32_t)atoi(values[i])));
    if (strcmp(keys[i], "data") == 0)
      need("data", compiler->ModelCompilationOptions_SetEpContextDataWriteFunc(made, write_named, (void*)values[i]));
    if (strcmp(keys[i], "binary") == 0) folder = values[i];
    if (strcmp(keys[i], "name") == 0)
      need("binary", compiler->ModelCompilationOptions_SetEpContextBinaryInformation(made, folder, values[i]));
    if (strcmp(keys[i], "external") == 0)
      need("external", compiler->ModelCompilationOptions_SetOutputModelExternalInitializersFile(made, values[i], 0));
    if (strcmp(keys[i], "weightless") == 0)
      need("weightless", compiler->ModelCompilationOptions_SetWeightlessEnabled(made, atoi(values[i]) != 0));
  }
  if (!failed("compile", compiler->CompileModel(env, made))) printf("compiled\n");
  compiler->ReleaseModelCompilationOptions(made);
  new_options();
}

static void command(const char* word, char* text) {
  const int needs_session = strcmp(word, "nodes") == 0 || strcmp(word, "run") == 0 || strcmp(word, "again") == 0 ||
                            strcmp(word, "release") == 0 || strcmp(word, "dynamic") == 0 || strcmp(word, "end") == 0;
  if (needs_session && session == NULL) return;
  if (strcmp(word, "plugin") == 0)
    plugin(text);
  else if (strcmp(word, "config") == 0)
    config(text);
  else if (strcmp(word, "profile") == 0)
    need("profile", api->EnableProfiling(options, text));
  else if (strcmp(word, "read") == 0) {
    named_data = text;
    need("read", api->SessionOptionsSetEpContextDataReadFunc(options, read_named, (void*)named_data));
  } else if (strcmp(word, "device") == 0)
    chosen_device = atoi(text);
  else if (strcmp(word, "ep") == 0)
    append_ep(text);
  else if (strcmp(word, "session") == 0)
    make_session(text);
  else if (strcmp(word, "package") == 0 || strcmp(word, "own_package") == 0)
    make_from_package(text, *word == 'o');
  else if (strcmp(word, "capacity") == 0)
    capacity(text);
  else if (strcmp(word, "weightless") == 0)
    weightless(text);
  else if (strcmp(word, "compatible") == 0)
    compatible(text);
  else if (strcmp(word, "compile") == 0)
    compile(text);
  else if (strcmp(word, "nodes") == 0)
    print_nodes();
  else if (strcmp(word, "run") == 0)
    run(text);
  else if (strcmp(word, "again") == 0)
    run_again(text);
  else if (strcmp(word, "release") == 0)
    failed("release", api->SessionReleaseCapturedGraph(session, atoi(text)));
  else if (strcmp(word, "dynamic") == 0)
    set_dynamic(text);
  else if (strcmp(word, "end") == 0)
    end_profile();
  else
    exit(3);
}

int main(int count, char** words) {
  if (count < 2) return 3;
  void* library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return 3;
  const OrtApiBase* (*base)(void);
  *(void**)&base = dlsym(library, "OrtGetApiBase");
  api = base()->GetApi(ORT_API_VERSION);
  if (api == NULL) return 3;
  need("CreateEnv", api->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "eps", &env));
  need("allocator", api->GetAllocatorWithDefaultOptions(&allocator));
  new_options();
  for (int i = 2; i + 1 < count; i += 2) command(words[i], words[i + 1]);
  if (session != NULL) api->ReleaseSession(session);
  api->ReleaseSessionOptions(options);
  api->ReleaseEnv(env);
  return 0;
}
