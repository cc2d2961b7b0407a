/* Custom operators of a library that take and give strings: each model named has one input "text". drive_texts.py calls
 * main(): LIBRARY MODELS OPERATORS NAME... */
#include "drop_in.h"

static void print_texts(const char* label, const OrtValue* value, size_t count) {
  size_t bytes = 0, i;
  char* text;
  size_t* starts;
  MUST(ort->GetStringTensorDataLength(value, &bytes));
  text = malloc(bytes + 1);
  starts = malloc((count + 1) * sizeof(size_t));
  MUST(ort->GetStringTensorContent(value, text, bytes, starts, count));
  starts[count] = bytes;
  printf("%s:", label);
  for (i = 0; i < count; ++i) printf(" \"%.*s\"", (int)(starts[i + 1] - starts[i]), text + starts[i]);
  printf("\n");
  free(text);
  free(starts);
}

static void print_result(const char* label, const OrtValue* value) {
  OrtTensorTypeAndShapeInfo* info = NULL;
  enum ONNXTensorElementDataType type;
  size_t count;
  MUST(ort->GetTensorTypeAndShape(value, &info));
  MUST(ort->GetTensorElementType(info, &type));
  MUST(ort->GetTensorShapeElementCount(info, &count));
  if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) {
    print_info(label, info);
    print_texts("  strings", value, count);
  } else {
    print_value(label, value);
  }
  ort->ReleaseTensorTypeAndShapeInfo(info);
}

static void run(OrtSession* session, const char* const* texts, size_t count) {
  const int64_t dims[1] = {(int64_t)count};
  OrtValue *text = NULL, *results[8] = {NULL};
  char* names[8];
  size_t outputs = 0, i;
  const char* in[] = {"text"};
  OrtStatus* failed;
  MUST(ort->SessionGetOutputCount(session, &outputs));
  if (outputs > 8) exit(1);
  for (i = 0; i < outputs; ++i) MUST(ort->SessionGetOutputName(session, i, allocator, &names[i]));
  MUST(ort->CreateTensorAsOrtValue(allocator, dims, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, &text));
  MUST(ort->FillStringTensor(text, texts, count));
  failed = ort->Run(session, NULL, in, (const OrtValue* const*)&text, 1, (const char* const*)names, outputs, results);
  /* What an operator says of a bad input is part of a message that each library words in its own way. */
  printf("  run: %d\n", failed == NULL ? 0 : (int)ort->GetErrorCode(failed));
  if (failed == NULL)
    for (i = 0; i < outputs; ++i) print_result(names[i], results[i]);
  else
    ort->ReleaseStatus(failed);
  for (i = 0; i < outputs; ++i) {
    if (results[i] != NULL) ort->ReleaseValue(results[i]);
    MUST(ort->AllocatorFree(allocator, names[i]));
  }
  ort->ReleaseValue(text);
}

int main(int argc, char** argv) {
  const char* const texts[] = {"the quick brown fox jumps, the!", " Naive caf\xc3\xa9 fox. ", "fox", "the", ""};
  OrtSessionOptions* options;
  int i;
  start(argc, argv);
  options = fresh();
  check("library", ort->RegisterCustomOpsLibrary_V2(options, argv[3]));
  for (i = 4; i < argc; ++i) {
    OrtSession* session = open_session(argv[i], argv[i], options);
    if (session == NULL) continue;
    run(session, texts, 1);
    run(session, texts, 4);
    run(session, texts + 3, 2);
    run(session, texts, 0);
    ort->ReleaseSession(session);
  }
  ort->ReleaseSessionOptions(options);
  return finish();
}
