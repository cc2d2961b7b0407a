/* Records a graph view: the results of all getters, and their answers to misuse. */
#include "probe.h"

enum { kMost = 512 };

static void indent(int depth) { fprintf(out, "%*s", 2 * depth, ""); }

static const char* name_of(const OrtValueInfo* info) {
  const char* name = "?";
  if (info == NULL) return "(absent)";
  QUIET(GetValueInfoName(info, &name));
  return name;
}

static const char* node_name(const OrtNode* node) {
  const char* name = "?";
  if (node == NULL) return "(none)";
  QUIET(Node_GetName(node, &name));
  return name;
}

void dump_type_info(const OrtTypeInfo* info) {
  const OrtTensorTypeAndShapeInfo* tensor = NULL;
  ONNXType kind = ONNX_TYPE_UNKNOWN;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  size_t rank = 0, i;
  int64_t dims[16];
  const char* names[16];
  if (info == NULL) {
    fprintf(out, "no type");
    return;
  }
  QUIET(GetOnnxTypeFromTypeInfo(info, &kind));
  fprintf(out, "kind %d", (int)kind);
  QUIET(CastTypeInfoToTensorInfo(info, &tensor));
  if (tensor == NULL) return;
  QUIET(GetTensorElementType(tensor, &type));
  QUIET(GetDimensionsCount(tensor, &rank));
  fprintf(out, " element %d has_shape %d rank %zu [", (int)type, (int)api->TensorTypeAndShape_HasShape(tensor), rank);
  if (rank <= 16) {
    QUIET(GetDimensions(tensor, dims, rank));
    QUIET(GetSymbolicDimensions(tensor, names, rank));
    for (i = 0; i < rank; ++i) fprintf(out, "%s%" PRId64 "(%s)", i ? "," : "", dims[i], names[i]);
  }
  fprintf(out, "]");
}

void dump_value(const OrtValue* value) {
  OrtTensorTypeAndShapeInfo* shape = NULL;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  const OrtMemoryInfo* memory = NULL;
  const char* memory_name = "?";
  const void* data = NULL;
  int64_t dims[16];
  size_t rank = 0, bytes = 0, count = 0, i;
  if (value == NULL) {
    fprintf(out, "null");
    return;
  }
  if (!QUIET(GetTensorTypeAndShape(value, &shape))) return;
  QUIET(GetTensorElementType(shape, &type));
  QUIET(GetDimensionsCount(shape, &rank));
  QUIET(GetTensorShapeElementCount(shape, &count));
  fprintf(out, "tensor element %d [", (int)type);
  if (rank <= 16) {
    QUIET(GetDimensions(shape, dims, rank));
    for (i = 0; i < rank; ++i) fprintf(out, "%s%" PRId64, i ? "," : "", dims[i]);
  }
  fprintf(out, "]");
  api->ReleaseTensorTypeAndShapeInfo(shape);
  if (QUIET(GetTensorMemoryInfo(value, &memory)) && QUIET(MemoryInfoGetName(memory, &memory_name)))
    fprintf(out, " in %s", memory_name);
  if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) return;
  QUIET(GetTensorSizeInBytes(value, &bytes));
  QUIET(GetTensorData(value, &data));
  fprintf(out, " %zu bytes:", bytes);
  for (i = 0; i < bytes && i < 16; ++i) fprintf(out, " %02x", ((const unsigned char*)data)[i]);
}

void dump_value_info(const OrtValueInfo* info, int depth) {
  const OrtTypeInfo* type = NULL;
  const OrtNode* producer = NULL;
  const OrtNode* users[kMost];
  int64_t inputs[kMost];
  size_t output = 99, count = 0, i;
  bool required = false, optional = false, is_output = false, constant = false, outer = false;
  const OrtValue* value = NULL;
  OrtExternalInitializerInfo* external = NULL;
  indent(depth);
  if (info == NULL) {
    fprintf(out, "(absent)\n");
    return;
  }
  fprintf(out, "value \"%s\": ", name_of(info));
  if (QUIET(GetValueInfoTypeInfo(info, &type))) dump_type_info(type);
  QUIET(ValueInfo_IsRequiredGraphInput(info, &required));
  QUIET(ValueInfo_IsOptionalGraphInput(info, &optional));
  QUIET(ValueInfo_IsGraphOutput(info, &is_output));
  QUIET(ValueInfo_IsConstantInitializer(info, &constant));
  QUIET(ValueInfo_IsFromOuterScope(info, &outer));
  fprintf(out, " required_input %d optional_input %d output %d constant %d outer %d", required, optional, is_output,
          constant, outer);
  QUIET(ValueInfo_GetValueProducer(info, &producer, &output));
  fprintf(out, " producer \"%s\" output %zu uses", node_name(producer), producer == NULL ? 0 : output);
  QUIET(ValueInfo_GetValueNumConsumers(info, &count));
  fprintf(out, " %zu:", count);
  if (count > 0 && count <= kMost && QUIET(ValueInfo_GetValueConsumers(info, users, inputs, count)))
    for (i = 0; i < count; ++i) fprintf(out, " \"%s\" %" PRId64, node_name(users[i]), inputs[i]);
  QUIET(ValueInfo_GetInitializerValue(info, &value));
  if (value != NULL) {
    fprintf(out, " = ");
    dump_value(value);
  }
  if (QUIET(ValueInfo_GetExternalInitializerInfo(info, &external)) && external != NULL) {
    const char* path = api->ExternalInitializerInfo_GetFilePath(external);
    const char* slash = strrchr(path, '/');
    fprintf(out, " external \"%s\" at %" PRId64 " size %zu", slash != NULL ? slash + 1 : path,
            api->ExternalInitializerInfo_GetFileOffset(external), api->ExternalInitializerInfo_GetByteSize(external));
    api->ReleaseExternalInitializerInfo(external);
  }
  fprintf(out, "\n");
}

static void dump_attribute(const OrtOpAttr* attribute, int depth) {
  const char* name = "?";
  OrtOpAttrType type = ORT_OP_ATTR_UNDEFINED;
  char buffer[4096];
  size_t size = 0, i;
  OrtValue* tensor = NULL;
  QUIET(OpAttr_GetName(attribute, &name));
  QUIET(OpAttr_GetType(attribute, &type));
  indent(depth);
  fprintf(out, "attribute \"%s\" type %d", name, (int)type);
  if (type == ORT_OP_ATTR_TENSOR) {
    if (QUIET(OpAttr_GetTensorAttributeAsOrtValue(attribute, &tensor))) {
      fprintf(out, " = ");
      dump_value(tensor);
      api->ReleaseValue(tensor);
    }
  } else if (type != ORT_OP_ATTR_GRAPH && QUIET(ReadOpAttr(attribute, type, buffer, sizeof(buffer), &size))) {
    fprintf(out, " %zu bytes =", size);
    if (type == ORT_OP_ATTR_STRING || type == ORT_OP_ATTR_STRINGS) {
      for (i = 0; i < size; ++i) fprintf(out, buffer[i] == '\0' ? "\\0" : "%c", buffer[i]);
    } else {
      for (i = 0; i < size && i < 64; ++i) fprintf(out, "%s%02x", i % 4 ? "" : " ", (unsigned char)buffer[i]);
    }
  }
  fprintf(out, "\n");
}

static void dump_value_names(const char* what, const OrtValueInfo* const* values, size_t count) {
  size_t i;
  fprintf(out, " %s(", what);
  for (i = 0; i < count; ++i) fprintf(out, "%s%s", i ? ", " : "", name_of(values[i]));
  fprintf(out, ")");
}

void dump_node(const OrtNode* node, int depth) {
  size_t id = 0, count = 0, i;
  const char *op = "?", *domain = "?", *ep = "?";
  int since = 0;
  const OrtValueInfo* values[kMost];
  const OrtOpAttr* attributes[kMost];
  const OrtGraph* graphs[16];
  const char* graph_names[16];
  const OrtGraph* owner = NULL;
  QUIET(Node_GetId(node, &id));
  QUIET(Node_GetOperatorType(node, &op));
  QUIET(Node_GetDomain(node, &domain));
  QUIET(Node_GetSinceVersion(node, &since));
  QUIET(Node_GetEpName(node, &ep));
  indent(depth);
  fprintf(out, "node %zu \"%s\": \"%s\".%s-%d ep \"%s\"", id, node_name(node), domain, op, since, ep);
  if (QUIET(Node_GetNumInputs(node, &count)) && count <= kMost && QUIET(Node_GetInputs(node, values, count)))
    dump_value_names("inputs", values, count);
  if (QUIET(Node_GetNumOutputs(node, &count)) && count <= kMost && QUIET(Node_GetOutputs(node, values, count)))
    dump_value_names("outputs", values, count);
  if (QUIET(Node_GetNumImplicitInputs(node, &count)) && count <= kMost && count > 0 &&
      QUIET(Node_GetImplicitInputs(node, values, count)))
    dump_value_names("implicit", values, count);
  QUIET(Node_GetGraph(node, &owner));
  fprintf(out, " graph %d\n", owner != NULL);
  if (QUIET(Node_GetNumAttributes(node, &count)) && count <= kMost &&
      QUIET(Node_GetAttributes(node, attributes, count)))
    for (i = 0; i < count; ++i) dump_attribute(attributes[i], depth + 1);
  if (QUIET(Node_GetNumSubgraphs(node, &count)) && count > 0 && count <= 16 &&
      QUIET(Node_GetSubgraphs(node, graphs, count, graph_names))) {
    /* By name: their order is not the same in every host. */
    const char* last = "";
    for (;;) {
      char title[256];
      size_t next = count;
      for (i = 0; i < count; ++i)
        if (strcmp(graph_names[i], last) > 0 && (next == count || strcmp(graph_names[i], graph_names[next]) < 0))
          next = i;
      if (next == count) break;
      last = graph_names[next];
      snprintf(title, sizeof(title), "%*ssubgraph \"%s\" of \"%s\"", 2 * depth, "", last, node_name(node));
      dump_graph(graphs[next], title);
    }
  }
}

static void dump_values(const char* what, const OrtValueInfo** values, size_t count) {
  size_t i;
  fprintf(out, "%s: %zu\n", what, count);
  for (i = 0; i < count; ++i) dump_value_info(values[i], 1);
}

static void dump_metadata(const OrtGraph* graph) {
  OrtModelMetadata* metadata = NULL;
  OrtAllocator* allocator = NULL;
  char* text = NULL;
  char** keys = NULL;
  int64_t version = 0, count = 0, i;
  if (!CALL(Graph_GetModelMetadata(graph, &metadata)) || metadata == NULL) return;
  QUIET(GetAllocatorWithDefaultOptions(&allocator));
#define TEXT(call)                                               \
  if (QUIET(call(metadata, allocator, &text)) && text != NULL) { \
    fprintf(out, "  " #call ": \"%s\"\n", text);                 \
    allocator->Free(allocator, text);                            \
    text = NULL;                                                 \
  }
  TEXT(ModelMetadataGetProducerName)
  TEXT(ModelMetadataGetGraphName)
  TEXT(ModelMetadataGetDomain)
  TEXT(ModelMetadataGetDescription)
  TEXT(ModelMetadataGetGraphDescription)
#undef TEXT
  QUIET(ModelMetadataGetVersion(metadata, &version));
  fprintf(out, "  version %" PRId64 "\n", version);
  if (QUIET(ModelMetadataGetCustomMetadataMapKeys(metadata, allocator, &keys, &count)) && keys != NULL) {
    for (i = 0; i < count; ++i) {
      if (QUIET(ModelMetadataLookupCustomMetadataMap(metadata, allocator, keys[i], &text)) && text != NULL) {
        fprintf(out, "  metadata \"%s\": \"%s\"\n", keys[i], text);
        allocator->Free(allocator, text);
      }
      allocator->Free(allocator, keys[i]);
    }
    allocator->Free(allocator, keys);
  }
  api->ReleaseModelMetadata(metadata);
}

void dump_graph(const OrtGraph* graph, const char* title) {
  const char *name = "?", *path = "?";
  int64_t ir = 0, versions[64];
  const char* domains[64];
  const OrtNode* parent = NULL;
  const OrtValueInfo* values[kMost];
  const OrtNode* nodes[kMost];
  size_t count = 0, i;
  fprintf(out, "=== %s\n", title);
  QUIET(Graph_GetName(graph, &name));
  QUIET(Graph_GetModelPath(graph, &path));
  QUIET(Graph_GetOnnxIRVersion(graph, &ir));
  QUIET(Graph_GetParentNode(graph, &parent));
  {
    const char* slash = strrchr(path, '/');
    fprintf(out, "name \"%s\" path \"%s\" ir %" PRId64 " parent \"%s\"\n", name, slash != NULL ? slash + 1 : path, ir,
            node_name(parent));
  }
  if (QUIET(Graph_GetNumOperatorSets(graph, &count)) && count <= 64 &&
      QUIET(Graph_GetOperatorSets(graph, domains, versions, count))) {
    fprintf(out, "opsets %zu:", count);
    for (i = 0; i < count; ++i) fprintf(out, " \"%s\" %" PRId64, domains[i], versions[i]);
    fprintf(out, "\n");
  }
  if (parent == NULL) dump_metadata(graph);
  if (QUIET(Graph_GetNumInputs(graph, &count)) && count <= kMost && QUIET(Graph_GetInputs(graph, values, count)))
    dump_values("inputs", values, count);
  if (QUIET(Graph_GetNumOutputs(graph, &count)) && count <= kMost && QUIET(Graph_GetOutputs(graph, values, count)))
    dump_values("outputs", values, count);
  if (QUIET(Graph_GetNumInitializers(graph, &count)) && count <= kMost &&
      QUIET(Graph_GetInitializers(graph, values, count)))
    dump_values("initializers", values, count);
  if (QUIET(Graph_GetNumNodes(graph, &count)) && count <= kMost && QUIET(Graph_GetNodes(graph, nodes, count))) {
    fprintf(out, "nodes: %zu\n", count);
    for (i = 0; i < count; ++i) {
      size_t outputs = 0, j;
      dump_node(nodes[i], 1);
      if (QUIET(Node_GetNumOutputs(nodes[i], &outputs)) && outputs <= kMost &&
          QUIET(Node_GetOutputs(nodes[i], values, outputs)))
        for (j = 0; j < outputs; ++j) dump_value_info(values[j], 3);
    }
  }
  fprintf(out, "=== end of %s\n", title);
}

/* Null arguments and wrong sizes. What ends the reference's process is not here: see dump_refusals. */
void dump_misuse(const OrtGraph* graph) {
  const OrtValueInfo* values[kMost] = {NULL};
  const OrtNode* nodes[kMost] = {NULL};
  const OrtOpAttr* attribute = NULL;
  const char* domains[64];
  int64_t versions[64];
  int64_t indices[kMost];
  size_t count = 0, size = 0;
  OrtGraph* view = NULL;
  char buffer[8];
  fprintf(out, "--- misuse\n");
  QUIET(Graph_GetNumNodes(graph, &count));
  CALL(Graph_GetNodes(graph, nodes, 0));
  CALL(Graph_GetNodes(graph, nodes, 1));
  CALL(Graph_GetNodes(graph, nodes, kMost));
  CALL(Graph_GetInputs(graph, values, 0));
  CALL(Graph_GetInputs(graph, values, kMost));
  CALL(Graph_GetOutputs(graph, values, 0));
  CALL(Graph_GetInitializers(graph, values, 0));
  CALL(Graph_GetOperatorSets(graph, domains, versions, 0));
  CALL(Graph_GetOperatorSets(graph, NULL, NULL, 0));
  CALL(Graph_GetName(graph, NULL));
  CALL(Graph_GetNumNodes(graph, NULL));
  CALL(Graph_GetGraphView(graph, NULL, 0, &view));
  if (view != NULL) api->ReleaseGraph(view);
  view = NULL;
  if (count == 0 || !QUIET(Graph_GetNodes(graph, nodes, count))) return;
  CALL(Graph_GetGraphView(graph, nodes, 0, &view));
  if (view != NULL) dump_graph(view, "view of no node");
  if (view != NULL) api->ReleaseGraph(view);
  view = NULL;
  CALL(Node_GetInputs(nodes[0], values, 0));
  CALL(Node_GetInputs(nodes[0], values, kMost));
  CALL(Node_GetOutputs(nodes[0], values, 0));
  CALL(Node_GetImplicitInputs(nodes[0], values, 0));
  CALL(Node_GetImplicitInputs(nodes[0], values, 1));
  CALL(Node_GetNumInputs(nodes[0], NULL));
  CALL(Node_GetAttributeByName(nodes[0], "no such attribute", &attribute));
  fprintf(out, "  attribute %d\n", attribute != NULL);
  CALL(Node_GetAttributeByName(nodes[0], NULL, &attribute));
  CALL(Node_GetAttributes(nodes[0], &attribute, 0));
  CALL(Node_GetSubgraphs(nodes[0], NULL, 0, NULL));
  QUIET(Node_GetNumAttributes(nodes[0], &size));
  if (size > 0 && size < kMost) {
    const OrtOpAttr* attributes[kMost];
    if (QUIET(Node_GetAttributes(nodes[0], attributes, size))) {
      OrtValue* tensor = NULL;
      CALL(OpAttr_GetTensorAttributeAsOrtValue(attributes[0], &tensor));
      CALL(ReadOpAttr(attributes[0], ORT_OP_ATTR_FLOATS, buffer, sizeof(buffer), &size));
      fprintf(out, "  size %zu\n", size);
      CALL(ReadOpAttr(attributes[0], ORT_OP_ATTR_STRINGS, buffer, 0, &size));
      CALL(ReadOpAttr(attributes[0], (OrtOpAttrType)77, buffer, sizeof(buffer), &size));
      size = 0;
      CALL(ReadOpAttr(attributes[0], ORT_OP_ATTR_INTS, NULL, 0, &size));
      fprintf(out, "  size %zu\n", size);
      CALL(ReadOpAttr(attributes[0], ORT_OP_ATTR_INTS, buffer, 1, &size));
    }
  }
  if (QUIET(Node_GetNumInputs(nodes[0], &size)) && size > 0 && size < kMost &&
      QUIET(Node_GetInputs(nodes[0], values, size)) && values[0] != NULL) {
    CALL(ValueInfo_GetValueConsumers(values[0], nodes, indices, 0));
    CALL(ValueInfo_GetValueConsumers(values[0], nodes, indices, kMost));
    CALL(ValueInfo_IsGraphOutput(values[0], NULL));
  }
}

void dump_refusals(const OrtGraph* graph) {
  const OrtNode* nodes[kMost] = {NULL};
  const OrtNode* twice[2];
  const OrtValueInfo* values[kMost] = {NULL};
  OrtGraph* view = NULL;
  size_t count = 0;
  const char* text = NULL;
  fprintf(out, "--- refusals\n");
  CALL(Graph_GetNodes(NULL, nodes, kMost));
  CALL(Graph_GetNumNodes(NULL, &count));
  CALL(Graph_GetNodes(graph, NULL, kMost));
  CALL(Graph_GetGraphView(NULL, nodes, 1, &view));
  CALL(Graph_GetGraphView(graph, NULL, 1, &view));
  CALL(Graph_GetGraphView(graph, nodes, 1, &view));
  CALL(Node_GetName(NULL, &text));
  CALL(GetValueInfoName(NULL, &text));
  CALL(OpAttr_GetName(NULL, &text));
  if (!QUIET(Graph_GetNumNodes(graph, &count)) || count == 0 || count > kMost) return;
  QUIET(Graph_GetNodes(graph, nodes, count));
  CALL(Graph_GetGraphView(graph, nodes, 1, NULL));
  twice[0] = twice[1] = nodes[0];
  CALL(Graph_GetGraphView(graph, twice, 2, &view));
  if (!QUIET(Node_GetNumInputs(nodes[0], &count)) || count == 0 || count > kMost) return;
  CALL(Node_GetInputs(nodes[0], NULL, count));
  QUIET(Node_GetInputs(nodes[0], values, count));
  CALL(GetValueInfoName(values[0], NULL));
  CALL(GetValueInfoTypeInfo(values[0], NULL));
  CALL(ValueInfo_GetValueConsumers(values[0], NULL, NULL, kMost));
}
