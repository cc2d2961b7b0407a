/* Models made with the model editor: accepted and refused calls, and the results of their sessions. */
#include "effects.h"

static const OrtModelEditorApi* editor;
#define EDIT(call) show(#call, editor->call)

static OrtTypeInfo* float_type(const int64_t* dims, size_t rank) {
  OrtTensorTypeAndShapeInfo* shape = NULL;
  OrtTypeInfo* type = NULL;
  MUST(CreateTensorTypeAndShapeInfo(&shape));
  MUST(SetTensorElementType(shape, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT));
  MUST(SetDimensions(shape, dims, rank));
  must(editor->CreateTensorTypeInfo(shape, &type), "CreateTensorTypeInfo");
  api->ReleaseTensorTypeAndShapeInfo(shape);
  return type;
}

static OrtValueInfo* value_info(const char* name, const int64_t* dims, size_t rank) {
  OrtTypeInfo* type = float_type(dims, rank);
  OrtValueInfo* info = NULL;
  EDIT(CreateValueInfo(name, type, &info));
  api->ReleaseTypeInfo(type);
  return info;
}

static void values(void) {
  int64_t dims[2] = {2, -1};
  OrtTypeInfo* type = float_type(dims, 2);
  OrtValueInfo* info = NULL;
  const OrtTypeInfo* found = NULL;
  const char* name = NULL;
  EDIT(CreateValueInfo(NULL, type, &info));
  EDIT(CreateValueInfo("", type, &info));
  EDIT(CreateValueInfo("x", NULL, &info));
  info = value_info("x", dims, 2);
  if (info == NULL) return;
  CALL(GetValueInfoName(info, &name));
  printf("  %s\n", text_or_null(name));
  CALL(GetValueInfoTypeInfo(info, &found));
  printf("  type %d\n", found != NULL);
  api->ReleaseValueInfo(info);
  api->ReleaseTypeInfo(type);
  api->ReleaseValueInfo(NULL);
}

static OrtNode* node(const char* op, const char* domain, const char* name, const char* const* inputs, size_t num_inputs,
                     const char* const* outputs, size_t num_outputs) {
  OrtNode* made = NULL;
  char what[120];
  snprintf(what, sizeof(what), "CreateNode %s \"%s\" \"%s\" %zu %zu", text_or_null(op), text_or_null(domain),
           text_or_null(name), num_inputs, num_outputs);
  show(what, editor->CreateNode(op, domain, name, inputs, num_inputs, outputs, num_outputs, NULL, 0, &made));
  printf("  made %d\n", made != NULL);
  return made;
}

static void nodes(void) {
  const char* xs[2] = {"x", "y"};
  float alpha = 0.5f;
  OrtOpAttr* attribute = NULL;
  OrtNode* made = NULL;
  const char* text = NULL;
  size_t count = 99;
  api->ReleaseNode(node("Add", "", "add", xs, 2, xs, 1));
  api->ReleaseNode(node("Add", "ai.onnx", "", xs, 2, xs, 1));
  api->ReleaseNode(node("", "", "n", xs, 2, xs, 1));
  api->ReleaseNode(node("Add", "", "none", xs, 0, xs, 0));
  MUST(CreateOpAttr("alpha", &alpha, 1, ORT_OP_ATTR_FLOAT, &attribute));
  EDIT(CreateNode("LeakyRelu", "", "leaky", xs, 1, xs + 1, 1, &attribute, 1, &made));
  CALL(Node_GetName(made, &text));
  printf("  %s\n", text_or_null(text));
  CALL(Node_GetOperatorType(made, &text));
  printf("  %s\n", text_or_null(text));
  CALL(Node_GetDomain(made, &text));
  printf("  \"%s\"\n", text_or_null(text));
  CALL(Node_GetNumInputs(made, &count));
  CALL(Node_GetNumAttributes(made, &count));
  printf("  %zu attributes\n", count);
  api->ReleaseNode(made);
  api->ReleaseNode(NULL);
}

static OrtGraph* make_graph(void) {
  int64_t dims[1] = {3};
  const char* add_in[2] = {"x", "c"};
  const char* add_out[1] = {"a"};
  const char* mul_in[2] = {"a", "d"};
  const char* mul_out[1] = {"y"};
  OrtGraph* graph = NULL;
  OrtValueInfo* inputs[1];
  OrtValueInfo* outputs[1];
  OrtAllocator* allocator = NULL;
  OrtMemoryInfo* memory = NULL;
  OrtValue *c = NULL, *d = NULL;
  OrtModelMetadata* metadata = NULL;
  int64_t version = -1;
  static float kept[3] = {2, 3, 4};
  float* data = NULL;
  MUST(GetAllocatorWithDefaultOptions(&allocator));
  EDIT(CreateGraph(&graph));
  inputs[0] = value_info("x", dims, 1);
  outputs[0] = value_info("y", dims, 1);
  EDIT(SetGraphInputs(graph, inputs, 1));
  EDIT(SetGraphOutputs(graph, outputs, 1));
  MUST(CreateTensorAsOrtValue(allocator, dims, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &c));
  MUST(GetTensorMutableData(c, (void**)&data));
  data[0] = 10;
  data[1] = 20;
  data[2] = 30;
  MUST(CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory));
  MUST(CreateTensorWithDataAsOrtValue(memory, kept, 3 * sizeof(float), dims, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
                                      &d));
  EDIT(AddInitializerToGraph(graph, "c", c, false));
  EDIT(AddInitializerToGraph(graph, "d", d, false));
  EDIT(AddInitializerToGraph(graph, "d again", d, false));
  CALL(Graph_GetModelMetadata(graph, &metadata));
  CALL(ModelMetadataGetVersion(metadata, &version));
  printf("  version %lld\n", (long long)version);
  api->ReleaseModelMetadata(metadata);
  EDIT(AddNodeToGraph(graph, node("Mul", "", "mul", mul_in, 2, mul_out, 1)));
  EDIT(AddNodeToGraph(graph, node("Add", "", "add", add_in, 2, add_out, 1)));
  api->ReleaseMemoryInfo(memory);
  return graph;
}

static void run_model(const OrtEnv* env, const OrtModel* model) {
  OrtSessionOptions* options = NULL;
  OrtSession* session = NULL;
  OrtAllocator* allocator = NULL;
  OrtValue *x = NULL, *y = NULL;
  int64_t dims[1] = {3};
  const char* in[1] = {"x"};
  const char* out[1] = {"y"};
  float* data = NULL;
  size_t count = 0;
  int opset = -9;
  MUST(CreateSessionOptions(&options));
  MUST(SetIntraOpNumThreads(options, 1));
  if (EDIT(CreateSessionFromModel(env, model, options, &session))) {
    CALL(SessionGetInputCount(session, &count));
    printf("  %zu inputs\n", count);
    CALL(SessionGetOutputCount(session, &count));
    printf("  %zu outputs\n", count);
    EDIT(SessionGetOpsetForDomain(session, "", &opset));
    printf("  opset %d\n", opset);
    EDIT(SessionGetOpsetForDomain(session, "no.such", &opset));
    MUST(GetAllocatorWithDefaultOptions(&allocator));
    MUST(CreateTensorAsOrtValue(allocator, dims, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &x));
    MUST(GetTensorMutableData(x, (void**)&data));
    data[0] = 1;
    data[1] = 2;
    data[2] = 3;
    if (CALL(Run(session, NULL, in, (const OrtValue* const*)&x, 1, out, 1, &y))) {
      MUST(GetTensorMutableData(y, (void**)&data));
      printf("  %g %g %g\n", (double)data[0], (double)data[1], (double)data[2]);
      api->ReleaseValue(y);
    }
    api->ReleaseValue(x);
    api->ReleaseSession(session);
  }
  api->ReleaseSessionOptions(options);
}

static void run(void) {
  OrtEnv* env = NULL;
  OrtModel* model = NULL;
  OrtGraph* graph = NULL;
  const char* domains[1] = {""};
  int versions[1] = {17};
  MUST(CreateEnv(ORT_LOGGING_LEVEL_FATAL, "effects", &env));
  editor = api->GetModelEditorApi();
  values();
  nodes();
  EDIT(CreateModel(domains, versions, 1, &model));
  graph = make_graph();
  EDIT(AddGraphToModel(model, graph));
  run_model(env, model);
  api->ReleaseModel(model);
  model = NULL;
  EDIT(CreateModel(domains, versions, 0, &model));
  api->ReleaseModel(model);
  api->ReleaseModel(NULL);
  EDIT(CreateGraph(&graph));
  api->ReleaseGraph(graph);
  api->ReleaseGraph(NULL);
  api->ReleaseEnv(env);
}
