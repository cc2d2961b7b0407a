/* Type and shape infos: made, changed and read; type infos of every kind and the casts between them. */
#include "effects.h"

static void describe(const char* what, const OrtTensorTypeAndShapeInfo* info) {
  ONNXTensorElementDataType type = (ONNXTensorElementDataType)99;
  size_t rank = 99, count = 99, i;
  int64_t dims[8];
  const char* names[8];
  MUST(GetTensorElementType(info, &type));
  MUST(GetDimensionsCount(info, &rank));
  printf("%s: type %d has_shape %d rank %zu [", what, (int)type, (int)api->TensorTypeAndShape_HasShape(info), rank);
  memset(dims, 0x55, sizeof(dims));
  if (rank <= 8) {
    MUST(GetDimensions(info, dims, rank));
    MUST(GetSymbolicDimensions(info, names, rank));
    for (i = 0; i < rank; ++i) printf(" %" PRId64 "\"%s\"", dims[i], text_or_null(names[i]));
  }
  printf(" ]\n");
  show("  GetTensorShapeElementCount", api->GetTensorShapeElementCount(info, &count));
  printf("  count %zu\n", count);
}

static void describe_type(const char* what, const OrtTypeInfo* info) {
  enum ONNXType kind = (enum ONNXType)99;
  const OrtTensorTypeAndShapeInfo* tensor = (const void*)1;
  const OrtMapTypeInfo* map = (const void*)1;
  const OrtSequenceTypeInfo* sequence = (const void*)1;
  const OrtOptionalTypeInfo* optional = (const void*)1;
  const char* denotation = "unset";
  size_t length = 99;
  OrtTypeInfo* inner = NULL;
  MUST(GetOnnxTypeFromTypeInfo(info, &kind));
  MUST(GetDenotationFromTypeInfo(info, &denotation, &length));
  show("  CastTypeInfoToTensorInfo", api->CastTypeInfoToTensorInfo(info, &tensor));
  show("  CastTypeInfoToMapTypeInfo", api->CastTypeInfoToMapTypeInfo(info, &map));
  show("  CastTypeInfoToSequenceTypeInfo", api->CastTypeInfoToSequenceTypeInfo(info, &sequence));
  show("  CastTypeInfoToOptionalTypeInfo", api->CastTypeInfoToOptionalTypeInfo(info, &optional));
  printf("%s: kind %d denotation \"%.*s\" (%zu) tensor %d map %d sequence %d optional %d\n", what, (int)kind,
         (int)length, text_or_null(denotation), length, tensor != NULL, map != NULL, sequence != NULL,
         optional != NULL);
  if (tensor != NULL) describe("  tensor", tensor);
  if (map != NULL) {
    ONNXTensorElementDataType key = (ONNXTensorElementDataType)99;
    MUST(GetMapKeyType(map, &key));
    MUST(GetMapValueType(map, &inner));
    printf("key %d, value:\n", (int)key);
    describe_type("value", inner);
    api->ReleaseTypeInfo(inner);
  }
  if (sequence != NULL) {
    MUST(GetSequenceElementType(sequence, &inner));
    describe_type("element", inner);
    api->ReleaseTypeInfo(inner);
  }
  if (optional != NULL) {
    MUST(GetOptionalContainedTypeInfo(optional, &inner));
    describe_type("contained", inner);
    api->ReleaseTypeInfo(inner);
  }
}

static void shape(const char* what, const int64_t* dims, size_t rank) {
  OrtTensorTypeAndShapeInfo* info = NULL;
  MUST(CreateTensorTypeAndShapeInfo(&info));
  CALL(SetDimensions(info, dims, rank));
  describe(what, info);
  api->ReleaseTensorTypeAndShapeInfo(info);
}

static void tensor_infos(void) {
  OrtTensorTypeAndShapeInfo* info = NULL;
  const int64_t dims[] = {2, 3, 4};
  const int64_t odd[] = {2, -1, 4};
  const int64_t very_odd[] = {2, -7, 4};
  const int64_t zero[] = {2, 0, 4};
  const int64_t huge[] = {INT64_C(1) << 40, INT64_C(1) << 40};
  const char* names[] = {"batch", "", "width"};
  const char* many[] = {"a", "b", "c", "d"};
  int64_t back[8];
  const char* back_names[8] = {"x", "x", "x", "x", "x", "x", "x", "x"};
  int type;
  CALL(CreateTensorTypeAndShapeInfo(&info));
  describe("new", info);
  for (type = 0; type <= 26; ++type) {
    ONNXTensorElementDataType got = (ONNXTensorElementDataType)99;
    char what[64];
    snprintf(what, sizeof(what), "SetTensorElementType %d", type);
    show(what, api->SetTensorElementType(info, (enum ONNXTensorElementDataType)type));
    MUST(GetTensorElementType(info, &got));
    printf("  now %d\n", (int)got);
  }
  CALL(SetTensorElementType(info, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT));
  CALL(SetDimensions(info, dims, 3));
  describe("2x3x4", info);
  CALL(SetSymbolicDimensions(info, names, 3));
  describe("with names", info);
  CALL(SetSymbolicDimensions(info, many, 4));
  describe("four names for three dimensions", info);
  CALL(SetSymbolicDimensions(info, many, 1));
  describe("one name for three dimensions", info);
  memset(back, 0x55, sizeof(back));
  CALL(GetDimensions(info, back, 2));
  printf("  %" PRId64 " %" PRId64 " %d\n", back[0], back[1], back[2] == 0x5555555555555555);
  memset(back, 0x55, sizeof(back));
  CALL(GetDimensions(info, back, 5));
  printf("  %" PRId64 " %" PRId64 " %" PRId64 " %d\n", back[0], back[1], back[2], back[3] == 0x5555555555555555);
  CALL(GetSymbolicDimensions(info, back_names, 5));
  printf("  %s %s\n", text_or_null(back_names[0]), text_or_null(back_names[4]));
  api->ReleaseTensorTypeAndShapeInfo(info);
  api->ReleaseTensorTypeAndShapeInfo(NULL);
  shape("2x-1x4", odd, 3);
  shape("2x-7x4", very_odd, 3);
  shape("2x0x4", zero, 3);
  shape("overflowing", huge, 2);
  shape("scalar", NULL, 0);
}

static void type_infos(void) {
  const OrtModelEditorApi* editor = api->GetModelEditorApi();
  OrtTensorTypeAndShapeInfo* shape = NULL;
  OrtTypeInfo* tensor = NULL;
  OrtTypeInfo* other = NULL;
  OrtTypeInfo* outer = NULL;
  const int64_t dims[] = {-1, 3};
  MUST(CreateTensorTypeAndShapeInfo(&shape));
  MUST(SetTensorElementType(shape, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64));
  MUST(SetDimensions(shape, dims, 2));
  show("CreateTensorTypeInfo", editor->CreateTensorTypeInfo(shape, &tensor));
  describe_type("tensor", tensor);
  show("CreateSparseTensorTypeInfo", editor->CreateSparseTensorTypeInfo(shape, &other));
  describe_type("sparse tensor", other);
  api->ReleaseTypeInfo(other);
  other = NULL;
  show("CreateMapTypeInfo", editor->CreateMapTypeInfo(ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, tensor, &other));
  describe_type("map", other);
  show("CreateSequenceTypeInfo", editor->CreateSequenceTypeInfo(other, &outer));
  describe_type("sequence of maps", outer);
  api->ReleaseTypeInfo(other);
  api->ReleaseTypeInfo(outer);
  show("CreateOptionalTypeInfo", editor->CreateOptionalTypeInfo(tensor, &outer));
  describe_type("optional", outer);
  api->ReleaseTypeInfo(outer);
  api->ReleaseTypeInfo(tensor);
  api->ReleaseTensorTypeAndShapeInfo(shape);
  api->ReleaseTypeInfo(NULL);
  api->ReleaseMapTypeInfo(NULL);
  api->ReleaseSequenceTypeInfo(NULL);
  printf("released\n");
}

static void run(void) {
  tensor_infos();
  type_infos();
}
