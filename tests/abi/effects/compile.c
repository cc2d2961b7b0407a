/* The compile API: every setter with good and bad arguments, CompileModel in wrong and in right order, and whether its
 * results load and run. */
#include <sys/stat.h>
#include <unistd.h>

#include "effects.h"
#include "small_model.h"

static const OrtCompileApi* compile;
static OrtEnv* env;
static OrtSessionOptions* session_options;
static OrtAllocator* allocator;
static struct bytes model;

#define SET(call) show(#call, compile->ModelCompilationOptions_##call)

static void save(const char* path, const void* data, size_t size) {
  FILE* file = fopen(path, "wb");
  if (file == NULL || fwrite(data, 1, size, file) != size || fclose(file) != 0) exit(4);
}

static long file_size(const char* path) {
  struct stat info;
  return stat(path, &info) == 0 ? (long)info.st_size : -1;
}

static OrtModelCompilationOptions* make(void) {
  OrtModelCompilationOptions* made = NULL;
  must(compile->CreateModelCompilationOptionsFromSessionOptions(env, session_options, &made), "create");
  return made;
}

/* Options with an input. */
static OrtModelCompilationOptions* make_with_input(void) {
  OrtModelCompilationOptions* made = make();
  must(compile->ModelCompilationOptions_SetInputModelFromBuffer(made, model.data, model.size), "input");
  return made;
}

static void compile_and_release(const char* what, OrtModelCompilationOptions* options) {
  show(what, compile->CompileModel(env, options));
  compile->ReleaseModelCompilationOptions(options);
}

static void run_session(const char* what, OrtSession* session) {
  float x[6] = {1, -2, 3, 4, 5, -6};
  const int64_t dims[] = {2, 3};
  const char *input = "x", *output = "y";
  OrtMemoryInfo* info = NULL;
  OrtValue *value = NULL, *result = NULL;
  float* data = NULL;
  MUST(CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &info));
  MUST(CreateTensorWithDataAsOrtValue(info, x, sizeof x, dims, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
  if (show("  run", api->Run(session, NULL, &input, (const OrtValue* const*)&value, 1, &output, 1, &result))) {
    MUST(GetTensorMutableData(result, (void**)&data));
    printf("  %s: %g %g %g %g\n", what, (double)data[0], (double)data[1], (double)data[64], (double)data[127]);
    api->ReleaseValue(result);
  }
  api->ReleaseValue(value);
  api->ReleaseMemoryInfo(info);
  api->ReleaseSession(session);
}

static void run_bytes(const char* what, const void* data, size_t size) {
  OrtSession* session = NULL;
  if (show("  load", api->CreateSessionFromArray(env, data, size, session_options, &session)))
    run_session(what, session);
}

static void run_file(const char* path) {
  OrtSession* session = NULL;
  if (show("  load", api->CreateSession(env, path, session_options, &session))) run_session(path, session);
}

static OrtStatus* no_write(void* state, const void* buffer, size_t size) {
  (void)state, (void)buffer, (void)size;
  return NULL;
}

static OrtStatus* no_named_write(void* state, const char* name, const void* buffer, size_t size) {
  (void)state, (void)name, (void)buffer, (void)size;
  return NULL;
}

static OrtStatus* no_location(void* state, const char* name, const OrtValue* value,
                              const OrtExternalInitializerInfo* in, OrtExternalInitializerInfo** out) {
  (void)state, (void)name, (void)value, (void)in;
  *out = NULL;
  return NULL;
}

static void nulls(void) {
  OrtModelCompilationOptions *options = NULL, *kept = NULL;
  void* buffer = (void*)1;
  size_t size = 99;
  show("create, no env", compile->CreateModelCompilationOptionsFromSessionOptions(NULL, session_options, &options));
  show("create, no options", compile->CreateModelCompilationOptionsFromSessionOptions(env, NULL, &options));
  compile->ReleaseModelCompilationOptions(NULL);
  options = kept = make();
  show("CompileModel, nothing set", compile->CompileModel(env, options));
  SET(SetInputModelPath(options, ""));
  SET(SetInputModelFromBuffer(options, NULL, 5));
  SET(SetInputModelFromBuffer(options, model.data, 0));
  SET(SetInputModel(options, NULL));
  SET(SetOutputModelPath(options, ""));
  SET(SetOutputModelBuffer(options, NULL, &buffer, &size));
  SET(SetOutputModelBuffer(options, allocator, NULL, &size));
  SET(SetOutputModelBuffer(options, allocator, &buffer, NULL));
  SET(SetOutputModelWriteFunc(options, NULL, NULL));
  SET(SetOutputModelGetInitializerLocationFunc(options, NULL, NULL));
  SET(SetOutputModelExternalInitializersFile(options, "", 10));
  SET(SetOutputModelExternalInitializersBuffer(options, "", 10, allocator, &buffer, &size));
  SET(SetOutputModelExternalInitializersBuffer(options, "name", 10, NULL, &buffer, &size));
  SET(SetOutputModelExternalInitializersBuffer(options, "name", 10, allocator, NULL, &size));
  SET(SetOutputModelExternalInitializersBuffer(options, "name", 10, allocator, &buffer, NULL));
  SET(SetEpContextBinaryInformation(options, "", "m"));
  SET(SetEpContextBinaryInformation(options, "d", ""));
  SET(SetEpContextDataWriteFunc(options, NULL, NULL));
  SET(SetFlags(options, 0));
  SET(SetFlags(options, 4));
  SET(SetFlags(options, 0xffffffffu));
  SET(SetGraphOptimizationLevel(options, (GraphOptimizationLevel)-1));
  SET(SetGraphOptimizationLevel(options, (GraphOptimizationLevel)5));
  SET(SetGraphOptimizationLevel(options, (GraphOptimizationLevel)77));
  SET(SetGraphOptimizationLevel(options, ORT_ENABLE_ALL));
  for (size_t alignment = 0; alignment <= 3; ++alignment) {
    printf("%zu ", alignment);
    SET(SetOutputModelExternalInitializersAlignment(options, alignment, 1));
  }
  SET(SetOutputModelExternalInitializersAlignment(options, 4096, 0));
  SET(SetOutputModelExternalInitializersAlignment(options, 65536, 0));
  SET(SetOutputModelExternalInitializersAlignment(options, 1u << 30, 0));
  SET(SetOutputModelExternalInitializersAlignment(options, 1u << 31, 0));
  SET(SetWeightlessEnabled(options, true));
  SET(SetWeightlessEnabled(options, false));
  compile->ReleaseModelCompilationOptions(kept);
  printf("untouched: %d %zu\n", buffer == (void*)1, size);
}

static void wrong_order(void) {
  OrtModelCompilationOptions* options = make();
  void* buffer = NULL;
  void* weights = NULL;
  size_t size = 0, weights_size = 0;
  SET(SetOutputModelPath(options, "out.onnx"));
  compile_and_release("no input", options);
  options = make_with_input();
  compile_and_release("no output, the input is a buffer", options);
  options = make();
  SET(SetInputModelPath(options, "in.onnx"));
  compile_and_release("no output, the input is a file", options);
  printf("  in_ctx.onnx %d\n", file_size("in_ctx.onnx") > 0);
  run_file("in_ctx.onnx");
  options = make();
  SET(SetInputModelPath(options, "nothing.onnx"));
  SET(SetOutputModelPath(options, "out.onnx"));
  compile_and_release("no such input", options);
  options = make();
  SET(SetInputModelPath(options, "junk.onnx"));
  SET(SetOutputModelPath(options, "out.onnx"));
  compile_and_release("no model", options);
  options = make();
  SET(SetInputModelFromBuffer(options, "junk", 4));
  SET(SetOutputModelPath(options, "out.onnx"));
  compile_and_release("no model, the input is a buffer", options);
  printf("  out.onnx %ld\n", file_size("out.onnx"));
  options = make_with_input();
  SET(SetInputModelPath(options, "nothing.onnx"));
  SET(SetOutputModelPath(options, "two.onnx"));
  compile_and_release("two inputs, the last is no file", options);
  options = make();
  SET(SetInputModelPath(options, "nothing.onnx"));
  SET(SetInputModelFromBuffer(options, model.data, model.size));
  SET(SetOutputModelPath(options, "two.onnx"));
  compile_and_release("two inputs, the last is a buffer", options);
  options = make_with_input();
  SET(SetOutputModelPath(options, "first.onnx"));
  SET(SetOutputModelBuffer(options, allocator, &buffer, &size));
  compile_and_release("two outputs, the last is a buffer", options);
  printf("  first.onnx %ld, buffer %d, size %d\n", file_size("first.onnx"), buffer != NULL, size > 0);
  if (buffer != NULL) allocator->Free(allocator, buffer);
  buffer = NULL;
  options = make_with_input();
  SET(SetOutputModelBuffer(options, allocator, &buffer, &size));
  SET(SetOutputModelPath(options, "last.onnx"));
  compile_and_release("two outputs, the last is a file", options);
  printf("  last.onnx %d, buffer %d\n", file_size("last.onnx") > 0, buffer != NULL);
  options = make_with_input();
  SET(SetOutputModelWriteFunc(options, no_write, NULL));
  SET(SetOutputModelBuffer(options, allocator, &buffer, &size));
  compile_and_release("a function, then a buffer", options);
  printf("  buffer %d\n", buffer != NULL);
  if (buffer != NULL) allocator->Free(allocator, buffer);
  options = make_with_input();
  SET(SetOutputModelPath(options, "mixed.onnx"));
  SET(SetOutputModelExternalInitializersFile(options, "mixed.bin", 0));
  SET(SetOutputModelGetInitializerLocationFunc(options, no_location, NULL));
  SET(SetOutputModelExternalInitializersBuffer(options, "mixed", 0, allocator, &weights, &weights_size));
  compile_and_release("three homes of initializers", options);
  if (weights != NULL) allocator->Free(allocator, weights);
  options = make_with_input();
  SET(SetOutputModelPath(options, "mixed2.onnx"));
  SET(SetOutputModelGetInitializerLocationFunc(options, no_location, NULL));
  SET(SetOutputModelExternalInitializersFile(options, "mixed.bin", 0));
  compile_and_release("two homes of initializers", options);
  options = make_with_input();
  SET(SetOutputModelPath(options, "mixed3.onnx"));
  SET(SetOutputModelExternalInitializersAlignment(options, 4096, 0));
  compile_and_release("an alignment of nothing", options);
  buffer = NULL;
  options = make_with_input();
  SET(SetOutputModelBuffer(options, allocator, &buffer, &size));
  SET(SetOutputModelExternalInitializersAlignment(options, 4096, 0));
  SET(SetOutputModelGetInitializerLocationFunc(options, no_location, NULL));
  compile_and_release("an alignment of a function", options);
  if (buffer != NULL) allocator->Free(allocator, buffer);
}

static void files(void) {
  OrtModelCompilationOptions* options = make_with_input();
  SET(SetOutputModelPath(options, "out.onnx"));
  compile_and_release("to a file", options);
  run_file("out.onnx");
  options = make_with_input();
  SET(SetOutputModelPath(options, "out.onnx"));
  compile_and_release("to a file that exists", options);
  options = make_with_input();
  SET(SetOutputModelPath(options, "out.onnx"));
  SET(SetFlags(options, OrtCompileApiFlags_ERROR_IF_OUTPUT_FILE_EXISTS));
  compile_and_release("to a file that exists, flag", options);
  options = make_with_input();
  SET(SetOutputModelPath(options, "fresh.onnx"));
  SET(SetFlags(options, OrtCompileApiFlags_ERROR_IF_NO_NODES_COMPILED));
  compile_and_release("no nodes, flag", options);
  printf("  fresh.onnx %ld\n", file_size("fresh.onnx"));
  options = make_with_input();
  SET(SetOutputModelPath(options, "nowhere/out.onnx"));
  compile_and_release("no folder", options);
  printf("  nowhere %ld\n", file_size("nowhere"));
  options = make_with_input();
  SET(SetOutputModelPath(options, "folder"));
  compile_and_release("a folder", options);
  options = make_with_input();
  SET(SetOutputModelPath(options, "folder/"));
  compile_and_release("a folder, with a slash", options);
  options = make();
  SET(SetInputModelPath(options, "in.onnx"));
  SET(SetOutputModelPath(options, "in.onnx"));
  compile_and_release("over the input", options);
  run_file("in.onnx");
  for (int level = 0; level <= 99; ++level) {
    if (level > 3 && level != 99) continue;
    options = make_with_input();
    SET(SetGraphOptimizationLevel(options, (GraphOptimizationLevel)level));
    SET(SetOutputModelPath(options, "level.onnx"));
    compile_and_release("with a level", options);
    run_file("level.onnx");
  }
}

struct sink {
  struct bytes bytes;
  int calls, fail_at;
};

static OrtStatus* write_sink(void* state, const void* buffer, size_t size) {
  struct sink* sink = state;
  if (++sink->calls == sink->fail_at) return api->CreateStatus(ORT_ENGINE_ERROR, "the sink is full");
  if (sink->bytes.size + size > sizeof sink->bytes.data) exit(4);
  memcpy(sink->bytes.data + sink->bytes.size, buffer, size);
  sink->bytes.size += size;
  return NULL;
}

static void memory(void) {
  static struct sink sink;
  void* buffer = NULL;
  size_t size = 0;
  OrtModelCompilationOptions* options = make_with_input();
  SET(SetOutputModelBuffer(options, allocator, &buffer, &size));
  show("to a buffer", compile->CompileModel(env, options));
  if (buffer != NULL) {
    run_bytes("buffer", buffer, size);
    allocator->Free(allocator, buffer);
  }
  buffer = NULL;
  show("to a buffer again", compile->CompileModel(env, options));
  printf("  buffer %d\n", buffer != NULL);
  if (buffer != NULL) allocator->Free(allocator, buffer);
  compile->ReleaseModelCompilationOptions(options);
  buffer = (void*)1, size = 99;
  options = make_with_input();
  SET(SetOutputModelBuffer(options, allocator, &buffer, &size));
  SET(SetFlags(options, OrtCompileApiFlags_ERROR_IF_NO_NODES_COMPILED));
  compile_and_release("to a buffer, no nodes", options);
  printf("  buffer null %d as it was %d, size %zu\n", buffer == NULL, buffer == (void*)1, size);
  options = make_with_input();
  SET(SetOutputModelWriteFunc(options, write_sink, &sink));
  compile_and_release("to a function", options);
  printf("  called %d\n", sink.calls > 0);
  run_bytes("function", sink.bytes.data, sink.bytes.size);
  sink.calls = 0, sink.bytes.size = 0, sink.fail_at = 1;
  options = make_with_input();
  SET(SetOutputModelWriteFunc(options, write_sink, &sink));
  compile_and_release("to a function that fails", options);
  printf("  calls %d\n", sink.calls);
}

static OrtStatus* locate(void* state, const char* name, const OrtValue* value, const OrtExternalInitializerInfo* in,
                         OrtExternalInitializerInfo** out) {
  const char* what = state;
  size_t size = 0;
  *out = NULL;
  OrtStatus* bad = api->GetTensorSizeInBytes(value, &size);
  if (bad != NULL) return bad;
  if (strcmp(what, "show") == 0 || strcmp(what, "kept") == 0)
    printf("  %zu bytes, external %d %s\n", size, in != NULL,
           in != NULL ? api->ExternalInitializerInfo_GetFilePath(in) : "");
  if (strcmp(what, "fail") == 0) return api->CreateStatus(ORT_NO_SUCHFILE, "no place for it");
  if (strcmp(what, "file") == 0 && strcmp(name, "big") == 0) {
    void* data = NULL;
    bad = api->GetTensorMutableData((OrtValue*)value, &data);
    if (bad != NULL) return bad;
    save("own.bin", data, size);
    return api->CreateExternalInitializerInfo("own.bin", 0, size, out);
  }
  if (strcmp(what, "kept") == 0 && in != NULL)
    return api->CreateExternalInitializerInfo(api->ExternalInitializerInfo_GetFilePath(in),
                                              api->ExternalInitializerInfo_GetFileOffset(in),
                                              api->ExternalInitializerInfo_GetByteSize(in), out);
  return NULL;
}

static void initializers(void) {
  OrtModelCompilationOptions* options = NULL;
  static const size_t thresholds[] = {0, 12, 13, 768, 1024};
  void *buffer = NULL, *weights = NULL;
  size_t size = 0, weights_size = 0;
  for (size_t i = 0; i < 5; ++i) {
    char file[40];
    snprintf(file, sizeof file, "weights%zu.bin", thresholds[i]);
    options = make_with_input();
    SET(SetOutputModelPath(options, "external.onnx"));
    SET(SetOutputModelExternalInitializersFile(options, file, thresholds[i]));
    compile_and_release("external initializers", options);
    printf("  %s %ld\n", file, file_size(file));
    run_file("external.onnx");
  }
  options = make_with_input();
  SET(SetOutputModelPath(options, "aligned.onnx"));
  SET(SetOutputModelExternalInitializersFile(options, "aligned.bin", 0));
  SET(SetOutputModelExternalInitializersAlignment(options, 4096, 100));
  compile_and_release("aligned", options);
  printf("  aligned.bin %ld\n", file_size("aligned.bin"));
  run_file("aligned.onnx");
  options = make_with_input();
  SET(SetOutputModelPath(options, "nofolder.onnx"));
  SET(SetOutputModelExternalInitializersFile(options, "nowhere/weights.bin", 0));
  compile_and_release("no folder for initializers", options);
  printf("  nofolder.onnx %ld\n", file_size("nofolder.onnx"));
  options = make_with_input();
  SET(SetOutputModelBuffer(options, allocator, &buffer, &size));
  SET(SetOutputModelExternalInitializersFile(options, "beside.bin", 0));
  compile_and_release("a buffer, and a file for initializers", options);
  printf("  buffer %d, beside.bin %ld\n", buffer != NULL, file_size("beside.bin"));
  if (buffer != NULL) allocator->Free(allocator, buffer);
  buffer = NULL;
  options = make_with_input();
  SET(SetOutputModelBuffer(options, allocator, &buffer, &size));
  SET(SetOutputModelExternalInitializersBuffer(options, "weights", 13, allocator, &weights, &weights_size));
  compile_and_release("two buffers", options);
  printf("  buffer %d, weights %d, %zu bytes\n", buffer != NULL, weights != NULL, weights_size);
  if (buffer != NULL && weights != NULL) {
    OrtSessionOptions* loading = NULL;
    OrtSession* session = NULL;
    const char* file = "weights";
    MUST(CreateSessionOptions(&loading));
    CALL(AddExternalInitializersFromFilesInMemory(loading, &file, (char* const*)&weights, &weights_size, 1));
    if (show("  load", api->CreateSessionFromArray(env, buffer, size, loading, &session)))
      run_session("two buffers", session);
    api->ReleaseSessionOptions(loading);
  }
  if (buffer != NULL) allocator->Free(allocator, buffer);
  if (weights != NULL) allocator->Free(allocator, weights);
  buffer = NULL, weights = (void*)1, weights_size = 77;
  options = make_with_input();
  SET(SetOutputModelBuffer(options, allocator, &buffer, &size));
  SET(SetOutputModelExternalInitializersBuffer(options, "weights", 100000, allocator, &weights, &weights_size));
  compile_and_release("two buffers, no large initializer", options);
  printf("  buffer %d, weights null %d, %zu bytes\n", buffer != NULL, weights == NULL, weights_size);
  if (buffer != NULL) allocator->Free(allocator, buffer);
  static const char* const states[] = {"show", "fail", "file"};
  for (size_t i = 0; i < 3; ++i) {
    char state[8];
    strcpy(state, states[i]);
    options = make_with_input();
    SET(SetOutputModelPath(options, "located.onnx"));
    SET(SetOutputModelGetInitializerLocationFunc(options, locate, state));
    compile_and_release(state, options);
  }
  run_file("located.onnx");
  char kept[] = "kept";
  options = make();
  SET(SetInputModelPath(options, "located.onnx"));
  SET(SetOutputModelPath(options, "kept.onnx"));
  SET(SetOutputModelGetInitializerLocationFunc(options, locate, kept));
  compile_and_release(kept, options);
  run_file("kept.onnx");
}

static void others(void) {
  OrtModelCompilationOptions* options = NULL;
  for (int embed = 0; embed < 2; ++embed) {
    options = make_with_input();
    SET(SetEpContextEmbedMode(options, embed));
    SET(SetOutputModelPath(options, "other.onnx"));
    compile_and_release("embed", options);
  }
  options = make_with_input();
  SET(SetEpContextBinaryInformation(options, "folder", "name"));
  SET(SetOutputModelPath(options, "other.onnx"));
  compile_and_release("binary information", options);
  options = make_with_input();
  SET(SetEpContextBinaryInformation(options, "folder", "name"));
  compile_and_release("binary information without output", options);
  options = make_with_input();
  SET(SetEpContextDataWriteFunc(options, no_named_write, NULL));
  SET(SetOutputModelPath(options, "other.onnx"));
  compile_and_release("data function", options);
  options = make_with_input();
  SET(SetEpContextDataWriteFunc(options, no_named_write, NULL));
  SET(SetEpContextEmbedMode(options, true));
  SET(SetOutputModelPath(options, "other.onnx"));
  compile_and_release("data function, embedded", options);
  for (int mode = 0; mode < 3; ++mode) {
    options = make_with_input();
    SET(SetWeightlessMode(options, (OrtWeightlessSupport)mode));
    SET(SetOutputModelPath(options, "other.onnx"));
    compile_and_release("weightless mode", options);
  }
  options = make_with_input();
  SET(SetWeightlessEnabled(options, true));
  SET(SetOutputModelPath(options, "other.onnx"));
  compile_and_release("weightless", options);
  run_file("other.onnx");
}

/* OrtModel as the input: y = Relu(x). */
static void editor_model(void) {
  const OrtModelEditorApi* editor = api->GetModelEditorApi();
  const char *domain = "", *x = "x", *y = "y";
  const int version = 17;
  const int64_t dims[] = {2, 3};
  OrtTensorTypeAndShapeInfo* shape = NULL;
  OrtTypeInfo* type = NULL;
  OrtValueInfo *input = NULL, *output = NULL;
  OrtModel* made = NULL;
  OrtGraph* graph = NULL;
  OrtNode* node = NULL;
  void* buffer = NULL;
  size_t size = 0;
  OrtModelCompilationOptions* options = NULL;
  MUST(CreateTensorTypeAndShapeInfo(&shape));
  MUST(SetTensorElementType(shape, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT));
  MUST(SetDimensions(shape, dims, 2));
  must(editor->CreateTensorTypeInfo(shape, &type), "type");
  must(editor->CreateValueInfo(x, type, &input), "x");
  must(editor->CreateValueInfo(y, type, &output), "y");
  must(editor->CreateGraph(&graph), "graph");
  must(editor->SetGraphInputs(graph, &input, 1), "inputs");
  must(editor->SetGraphOutputs(graph, &output, 1), "outputs");
  must(editor->CreateNode("Relu", "", "relu", &x, 1, &y, 1, NULL, 0, &node), "node");
  must(editor->AddNodeToGraph(graph, node), "add node");
  must(editor->CreateModel(&domain, &version, 1, &made), "model");
  options = make();
  SET(SetInputModel(options, made));
  SET(SetOutputModelPath(options, "edited.onnx"));
  compile_and_release("a model without a graph", options);
  must(editor->AddGraphToModel(made, graph), "add graph");
  options = make();
  SET(SetInputModel(options, made));
  compile_and_release("an OrtModel without an output", options);
  options = make();
  SET(SetInputModel(options, made));
  SET(SetOutputModelPath(options, "edited.onnx"));
  compile_and_release("an OrtModel", options);
  printf("  edited.onnx %d\n", file_size("edited.onnx") > 0);
  options = make();
  SET(SetInputModel(options, made));
  SET(SetOutputModelBuffer(options, allocator, &buffer, &size));
  compile_and_release("an OrtModel to a buffer", options);
  OrtSession* session = NULL;
  if (buffer != NULL && CALL(CreateSessionFromArray(env, buffer, size, NULL, &session))) {
    size_t count = 0;
    CALL(SessionGetInputCount(session, &count));
    printf("  %zu inputs\n", count);
    api->ReleaseSession(session);
  }
  if (buffer != NULL) allocator->Free(allocator, buffer);
  options = make();
  SET(SetInputModel(options, made));
  SET(SetInputModelFromBuffer(options, model.data, model.size));
  SET(SetOutputModelPath(options, "edited2.onnx"));
  compile_and_release("an OrtModel, then a buffer", options);
  options = make();
  SET(SetInputModelFromBuffer(options, model.data, model.size));
  SET(SetInputModel(options, made));
  SET(SetOutputModelPath(options, "edited2.onnx"));
  compile_and_release("a buffer, then an OrtModel", options);
  api->ReleaseModel(made);
  api->ReleaseTypeInfo(type);
  api->ReleaseTensorTypeAndShapeInfo(shape);
}

static void run(void) {
  char folder[] = "/tmp/tenon_compile_XXXXXX";
  char home[4096];
  if (getcwd(home, sizeof home) == NULL || mkdtemp(folder) == NULL || chdir(folder) != 0 || mkdir("folder", 0700) != 0)
    exit(4);
  compile = api->GetCompileApi();
  MUST(CreateEnv(ORT_LOGGING_LEVEL_FATAL, "compile", &env));
  MUST(CreateSessionOptions(&session_options));
  MUST(GetAllocatorWithDefaultOptions(&allocator));
  small_model(&model);
  save("in.onnx", model.data, model.size);
  save("junk.onnx", "junk", 4);
  nulls();
  wrong_order();
  files();
  memory();
  initializers();
  others();
  editor_model();
  api->ReleaseSessionOptions(session_options);
  api->ReleaseEnv(env);
  if (chdir(home) != 0) exit(4);
  char command[80];
  snprintf(command, sizeof command, "rm -r %s", folder);
  if (system(command) != 0) exit(4);
}
