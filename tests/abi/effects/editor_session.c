/* Model editor sessions: a model is loaded, changed by an OrtModel, and finished; in this order and in others. */
#include "effects.h"
#include "small_model.h"

static const OrtModelEditorApi* editor;
static OrtEnv* env;
static OrtSessionOptions* options;
static struct bytes model;

#define EDIT(call) show(#call, editor->call)

static OrtValueInfo* float_value(const char* name, int64_t columns) {
  const int64_t dims[] = {-1, columns};
  OrtTensorTypeAndShapeInfo* shape = NULL;
  OrtTypeInfo* type = NULL;
  OrtValueInfo* made = NULL;
  MUST(CreateTensorTypeAndShapeInfo(&shape));
  MUST(SetTensorElementType(shape, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT));
  MUST(SetDimensions(shape, dims, 2));
  must(editor->CreateTensorTypeInfo(shape, &type), "type");
  must(editor->CreateValueInfo(name, type, &made), "value");
  api->ReleaseTypeInfo(type);
  api->ReleaseTensorTypeAndShapeInfo(shape);
  return made;
}

static OrtNode* make_node(const char* op, const char* first, const char* second, const char* output) {
  const char* inputs[] = {first, second};
  OrtNode* made = NULL;
  must(editor->CreateNode(op, "", output, inputs, second == NULL ? 1 : 2, &output, 1, NULL, 0, &made), "node");
  return made;
}

/* What an update holds: a node (null: none), an initializer of three floats, new inputs and outputs. */
struct update {
  const char *domain, *op, *first, *second, *output, *initializer, *new_input, *new_output;
  int opset;
  int64_t columns;
};

static OrtModel* make_update(const struct update* from) {
  OrtModel* made = NULL;
  OrtGraph* graph = NULL;
  must(editor->CreateModel(&from->domain, &from->opset, from->domain == NULL ? 0 : 1, &made), "model");
  must(editor->CreateGraph(&graph), "graph");
  if (from->op != NULL)
    must(editor->AddNodeToGraph(graph, make_node(from->op, from->first, from->second, from->output)), "add node");
  if (from->initializer != NULL) {
    const int64_t dims[] = {3};
    float* data = NULL;
    OrtValue* value = NULL;
    OrtAllocator* allocator = NULL;
    MUST(GetAllocatorWithDefaultOptions(&allocator));
    MUST(CreateTensorAsOrtValue(allocator, dims, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
    MUST(GetTensorMutableData(value, (void**)&data));
    data[0] = 10, data[1] = 20, data[2] = 30;
    must(editor->AddInitializerToGraph(graph, from->initializer, value, false), "initializer");
  }
  if (from->new_input != NULL) {
    OrtValueInfo* input = float_value(from->new_input, 3);
    must(editor->SetGraphInputs(graph, &input, 1), "inputs");
  }
  if (from->new_output != NULL) {
    OrtValueInfo* output = float_value(from->new_output, from->columns);
    must(editor->SetGraphOutputs(graph, &output, 1), "outputs");
  }
  must(editor->AddGraphToModel(made, graph), "add graph");
  return made;
}

static OrtSession* load(void) {
  OrtSession* session = NULL;
  must(editor->CreateModelEditorSessionFromArray(env, model.data, model.size, options, &session), "load");
  return session;
}

static void describe(OrtSession* session) {
  OrtAllocator* allocator = NULL;
  size_t inputs = 99, outputs = 99;
  char* name = NULL;
  MUST(GetAllocatorWithDefaultOptions(&allocator));
  CALL(SessionGetInputCount(session, &inputs));
  CALL(SessionGetOutputCount(session, &outputs));
  printf("  %zu inputs, %zu outputs\n", inputs, outputs);
  for (size_t i = 0; i < inputs && inputs < 9; ++i) {
    if (!CALL(SessionGetInputName(session, i, allocator, &name))) continue;
    printf("  input %s\n", name);
    allocator->Free(allocator, name);
  }
  for (size_t i = 0; i < outputs && outputs < 9; ++i) {
    OrtTypeInfo* type = NULL;
    if (!CALL(SessionGetOutputName(session, i, allocator, &name))) continue;
    printf("  output %s\n", name);
    allocator->Free(allocator, name);
    if (!CALL(SessionGetOutputTypeInfo(session, i, &type))) continue;
    const OrtTensorTypeAndShapeInfo* shape = NULL;
    size_t rank = 0;
    int64_t dims[4] = {0};
    MUST(CastTypeInfoToTensorInfo(type, &shape));
    MUST(GetDimensionsCount(shape, &rank));
    MUST(GetDimensions(shape, dims, rank));
    printf("  rank %zu, last %d\n", rank, (int)dims[rank - 1]);
    api->ReleaseTypeInfo(type);
  }
}

static void run_once(OrtSession* session, const char* input, const char* output) {
  float x[6] = {1, -2, 3, 4, 5, -6};
  const int64_t dims[] = {2, 3};
  OrtMemoryInfo* info = NULL;
  OrtValue *value = NULL, *result = NULL;
  float* data = NULL;
  MUST(CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &info));
  MUST(CreateTensorWithDataAsOrtValue(info, x, sizeof x, dims, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
  if (CALL(Run(session, NULL, &input, (const OrtValue* const*)&value, 1, &output, 1, &result))) {
    if (CALL(GetTensorMutableData(result, (void**)&data)))
      printf("  %g %g %g\n", (double)data[0], (double)data[1], (double)data[2]);
    api->ReleaseValue(result);
  }
  api->ReleaseValue(value);
  api->ReleaseMemoryInfo(info);
}

static void apply(const char* what, struct update update) {
  OrtSession* session = load();
  OrtModel* changes = make_update(&update);
  printf("%s\n", what);
  if (EDIT(ApplyModelToModelEditorSession(session, changes)) &&
      EDIT(FinalizeModelEditorSession(session, options, NULL))) {
    describe(session);
    run_once(session, update.new_input != NULL ? update.new_input : "x",
             update.new_output != NULL ? update.new_output : "y");
  }
  api->ReleaseModel(changes);
  api->ReleaseSession(session);
}

static void updates(void) {
  apply("nothing", (struct update){.columns = 64});
  apply("a node at the end",
        (struct update){
            .op = "Neg", .first = "y", .output = "z", .new_output = "z", .columns = 64, .domain = "", .opset = 17});
  apply("a node at the end, no opset",
        (struct update){.op = "Neg", .first = "y", .output = "z", .new_output = "z", .columns = 64});
  apply("a node at the start", (struct update){.op = "Neg", .first = "n", .output = "x", .new_input = "n"});
  apply("a node nobody reads", (struct update){.op = "Neg", .first = "y", .output = "z"});
  apply("an inner value", (struct update){.new_output = "s", .columns = 3});
  apply("an initializer", (struct update){.op = "Add",
                                          .first = "s",
                                          .second = "extra",
                                          .output = "z",
                                          .initializer = "extra",
                                          .new_output = "z",
                                          .columns = 3});
  apply("a value that there is not",
        (struct update){.op = "Neg", .first = "nothing", .output = "z", .new_output = "z", .columns = 64});
  apply("an output of an older node", (struct update){.op = "Neg", .first = "x", .output = "s"});
  apply("no such operator",
        (struct update){.op = "Nonsense", .first = "y", .output = "z", .new_output = "z", .columns = 64});
  apply("another opset", (struct update){.domain = "", .opset = 12});
  apply("another domain", (struct update){.domain = "some.domain", .opset = 1});
  apply("a wrong shape", (struct update){.op = "Neg", .first = "y", .output = "z", .new_output = "z", .columns = 65});
}

static void orders(void) {
  OrtSession* session = load();
  OrtModel *first = NULL, *second = NULL;
  int opset = 99;
  printf("before it is finished\n");
  describe(session);
  EDIT(SessionGetOpsetForDomain(session, "", &opset));
  printf("  opset %d\n", opset);
  EDIT(SessionGetOpsetForDomain(session, "none", &opset));
  run_once(session, "x", "y");
  printf("finished at once\n");
  EDIT(FinalizeModelEditorSession(session, options, NULL));
  run_once(session, "x", "y");
  printf("finished twice\n");
  EDIT(FinalizeModelEditorSession(session, options, NULL));
  printf("applied after the end\n");
  first = make_update(&(struct update){.op = "Neg", .first = "y", .output = "z", .new_output = "z", .columns = 64});
  EDIT(ApplyModelToModelEditorSession(session, first));
  api->ReleaseSession(session);
  api->ReleaseModel(first);
  printf("two changes\n");
  session = load();
  first = make_update(&(struct update){.op = "Neg", .first = "y", .output = "z", .new_output = "z", .columns = 64});
  second = make_update(&(struct update){.op = "Abs", .first = "z", .output = "b", .new_output = "b", .columns = 64});
  EDIT(ApplyModelToModelEditorSession(session, first));
  describe(session);
  EDIT(ApplyModelToModelEditorSession(session, second));
  EDIT(FinalizeModelEditorSession(session, options, NULL));
  describe(session);
  run_once(session, "x", "b");
  api->ReleaseSession(session);
  printf("a change of a plain session\n");
  if (CALL(CreateSessionFromArray(env, model.data, model.size, options, &session))) {
    EDIT(ApplyModelToModelEditorSession(session, first));
    EDIT(FinalizeModelEditorSession(session, options, NULL));
    api->ReleaseSession(session);
  }
  api->ReleaseModel(first);
  api->ReleaseModel(second);
  printf("a model without a graph\n");
  session = load();
  must(editor->CreateModel(NULL, NULL, 0, &first), "model");
  EDIT(FinalizeModelEditorSession(session, NULL, NULL));
  run_once(session, "x", "y");
  api->ReleaseSession(session);
  api->ReleaseModel(first);
  printf("never finished\n");
  api->ReleaseSession(load());
}

static void loads(void) {
  OrtSession* session = (OrtSession*)1;
  EDIT(CreateModelEditorSession(env, "nothing.onnx", options, &session));
  EDIT(CreateModelEditorSession(env, ".", options, &session));
  EDIT(CreateModelEditorSessionFromArray(env, "junk", 4, options, &session));
  CALL(SetSessionLogSeverityLevel(options, 5));
  EDIT(CreateModelEditorSessionFromArray(env, model.data, model.size, options, &session));
  CALL(CreateSessionFromArray(env, model.data, model.size, options, &session));
  CALL(SetSessionLogSeverityLevel(options, 4));
  EDIT(CreateModelEditorSessionFromArray(env, model.data, 0, options, &session));
  if (EDIT(CreateModelEditorSessionFromArray(env, model.data, model.size, NULL, &session))) {
    EDIT(FinalizeModelEditorSession(session, options, NULL));
    run_once(session, "x", "y");
    api->ReleaseSession(session);
  }
}

static void run(void) {
  editor = api->GetModelEditorApi();
  MUST(CreateEnv(ORT_LOGGING_LEVEL_FATAL, "editor session", &env));
  MUST(CreateSessionOptions(&options));
  small_model(&model);
  loads();
  orders();
  updates();
  api->ReleaseSessionOptions(options);
  api->ReleaseEnv(env);
}
