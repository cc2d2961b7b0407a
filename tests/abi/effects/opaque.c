/* Values of opaque types, of which a library without built-in ones knows none. */
#include "effects.h"

static void run(void) {
  const int64_t two[] = {2};
  float data[2] = {1, 2};
  int content = 5;
  OrtMemoryInfo* cpu = NULL;
  OrtValue* value = NULL;
  OrtValue* tensor = NULL;
  CALL(CreateOpaqueValue("no.such.domain", "NoSuchType", &content, sizeof(content), &value));
  printf("  %s\n", value != NULL ? "a value" : "null");
  CALL(CreateOpaqueValue("", "", &content, sizeof(content), &value));
  printf("  %s\n", value != NULL ? "a value" : "null");
  CALL(CreateOpaqueValue("ai.onnx", "tensor(float)", &content, sizeof(content), &value));
  printf("  %s\n", value != NULL ? "a value" : "null");
  MUST(CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &cpu));
  MUST(CreateTensorWithDataAsOrtValue(cpu, data, sizeof(data), two, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &tensor));
  CALL(GetOpaqueValue("no.such.domain", "NoSuchType", tensor, &content, sizeof(content)));
  printf("  %d\n", content);
  api->ReleaseValue(tensor);
  api->ReleaseMemoryInfo(cpu);
}
