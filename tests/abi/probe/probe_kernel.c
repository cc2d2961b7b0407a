/* Records the input of a kernel: its OrtKernelInfo when it is made, its OrtKernelContext when it runs. */
#include "probe.h"

static void text_attribute(const OrtKernelInfo* info, const char* name) {
  char buffer[64];
  size_t size = 0;
  fprintf(out, "attribute \"%s\" as a string\n", name);
  CALL(KernelInfoGetAttribute_string(info, name, NULL, &size));
  fprintf(out, "  size %zu\n", size);
  size = 1;
  CALL(KernelInfoGetAttribute_string(info, name, buffer, &size));
  fprintf(out, "  size %zu\n", size);
  size = sizeof(buffer);
  if (CALL(KernelInfoGetAttribute_string(info, name, buffer, &size))) fprintf(out, "  size %zu \"%s\"\n", size, buffer);
}

static void list_attributes(const OrtKernelInfo* info, const char* name) {
  float floats[8];
  int64_t ints[8];
  size_t size = 0;
  fprintf(out, "attribute \"%s\" as lists\n", name);
  CALL(KernelInfoGetAttributeArray_float(info, name, NULL, &size));
  fprintf(out, "  size %zu\n", size);
  size = 1;
  CALL(KernelInfoGetAttributeArray_float(info, name, floats, &size));
  fprintf(out, "  size %zu\n", size);
  size = 8;
  if (CALL(KernelInfoGetAttributeArray_float(info, name, floats, &size))) fprintf(out, "  size %zu\n", size);
  size = 0;
  CALL(KernelInfoGetAttributeArray_int64(info, name, NULL, &size));
  fprintf(out, "  size %zu\n", size);
  size = 1;
  CALL(KernelInfoGetAttributeArray_int64(info, name, ints, &size));
  fprintf(out, "  size %zu\n", size);
  size = 8;
  if (CALL(KernelInfoGetAttributeArray_int64(info, name, ints, &size))) fprintf(out, "  size %zu\n", size);
}

static void names(const OrtKernelInfo* info) {
  char buffer[64];
  size_t size = 0, count = 0, i;
  int since = -1;
#define NAME(call)                    \
  size = 0;                           \
  CALL(call(info, NULL, &size));      \
  fprintf(out, "  size %zu\n", size); \
  size = 1;                           \
  CALL(call(info, buffer, &size));    \
  size = sizeof(buffer);              \
  if (CALL(call(info, buffer, &size))) fprintf(out, "  size %zu \"%s\"\n", size, buffer);
  NAME(KernelInfo_GetNodeName)
  NAME(KernelInfo_GetOperatorType)
  NAME(KernelInfo_GetOperatorDomain)
#undef NAME
  if (CALL(KernelInfo_GetOperatorSinceVersion(info, &since))) fprintf(out, "  since %d\n", since);
  if (CALL(KernelInfo_GetInputCount(info, &count))) fprintf(out, "  %zu inputs\n", count);
  for (i = 0; i <= count; ++i) {
    OrtTypeInfo* type = NULL;
    const OrtValue* value = NULL;
    int constant = -1;
    size = sizeof(buffer);
    if (CALL(KernelInfo_GetInputName(info, i, buffer, &size))) fprintf(out, "  %zu \"%s\" size %zu\n", i, buffer, size);
    if (CALL(KernelInfo_GetInputTypeInfo(info, i, &type))) {
      fprintf(out, "  ");
      dump_type_info(type);
      fprintf(out, "\n");
    }
    api->ReleaseTypeInfo(type);
    if (CALL(KernelInfoGetConstantInput_tensor(info, i, &constant, &value))) {
      fprintf(out, "  constant %d ", constant);
      dump_value(value);
      fprintf(out, "\n");
    }
  }
  if (CALL(KernelInfo_GetOutputCount(info, &count))) fprintf(out, "  %zu outputs\n", count);
  for (i = 0; i <= count; ++i) {
    OrtTypeInfo* type = NULL;
    size = 0;
    CALL(KernelInfo_GetOutputName(info, i, NULL, &size));
    size = sizeof(buffer);
    if (CALL(KernelInfo_GetOutputName(info, i, buffer, &size)))
      fprintf(out, "  %zu \"%s\" size %zu\n", i, buffer, size);
    if (CALL(KernelInfo_GetOutputTypeInfo(info, i, &type))) {
      fprintf(out, "  ");
      dump_type_info(type);
      fprintf(out, "\n");
    }
    api->ReleaseTypeInfo(type);
  }
}

void dump_kernel_info(const OrtKernelInfo* info) {
  float f = -1;
  int64_t n = -1;
  const OrtLogger* logger = NULL;
  OrtAllocator* allocator = NULL;
  OrtKeyValuePairs* config = NULL;
  OrtKernelInfo* copy = NULL;
  const OrtEp* ep = NULL;
  OrtValue* tensor = NULL;
  fprintf(out, "=== kernel info\n");
  names(info);
  if (CALL(KernelInfoGetAttribute_float(info, "alpha", &f))) fprintf(out, "  %g\n", (double)f);
  if (CALL(KernelInfoGetAttribute_float(info, "missing", &f))) fprintf(out, "  %g\n", (double)f);
  if (CALL(KernelInfoGetAttribute_int64(info, "alpha", &n))) fprintf(out, "  %d\n", (int)n);
  if (CALL(KernelInfoGetAttribute_int64(info, "group", &n))) fprintf(out, "  %d\n", (int)n);
  if (CALL(KernelInfoGetAttribute_int64(info, "pads", &n))) fprintf(out, "  %d\n", (int)n);
  if (CALL(KernelInfoGetAttribute_float(info, "group", &f))) fprintf(out, "  %g\n", (double)f);
  text_attribute(info, "auto_pad");
  text_attribute(info, "group");
  text_attribute(info, "missing");
  list_attributes(info, "group");
  list_attributes(info, "pads");
  list_attributes(info, "missing");
  QUIET(GetAllocatorWithDefaultOptions(&allocator));
  CALL(KernelInfoGetAttribute_tensor(info, "missing", allocator, &tensor));
  CALL(KernelInfoGetAttribute_tensor(info, "group", allocator, &tensor));
  if (CALL(KernelInfoGetAttribute_tensor(info, "value", allocator, &tensor))) {
    fprintf(out, "  ");
    dump_value(tensor);
    fprintf(out, "\n");
    api->ReleaseValue(tensor);
  }
  {
    char** texts = NULL;
    size_t size = 99;
    CALL(KernelInfoGetAttributeArray_string(info, "missing", allocator, &texts, &size));
    fprintf(out, "  size %zu\n", size);
    CALL(KernelInfoGetAttributeArray_string(info, "group", allocator, &texts, &size));
    CALL(KernelInfoGetAttributeArray_string(info, "auto_pad", allocator, &texts, &size));
  }
  if (CALL(KernelInfo_GetLogger(info, &logger))) fprintf(out, "  logger %d\n", logger != NULL);
  allocator = NULL;
  if (CALL(KernelInfoGetAllocator(info, OrtMemTypeDefault, &allocator)) && allocator != NULL) {
    const OrtMemoryInfo* memory = allocator->Info(allocator);
    const char* name = "?";
    QUIET(MemoryInfoGetName(memory, &name));
    fprintf(out, "  allocator of \"%s\"\n", name);
    api->ReleaseAllocator(allocator);
  }
  if (CALL(KernelInfo_GetConfigEntries(info, &config))) {
    fprintf(out, "  config %d\n", config != NULL);
    api->ReleaseKeyValuePairs(config);
  }
  show("KernelInfo_GetEp", ep_api->KernelInfo_GetEp(info, &ep));
  fprintf(out, "  ep %d\n", ep != NULL);
  if (CALL(CopyKernelInfo(info, &copy))) {
    size_t count = 0;
    QUIET(KernelInfo_GetInputCount(copy, &count));
    fprintf(out, "  copy has %zu inputs\n", count);
    api->ReleaseKernelInfo(copy);
  }
}

static void count_up(void* data, size_t index) {
  size_t* seen = (size_t*)data;
  seen[index] += 1;
}

void dump_kernel_context(OrtKernelContext* context) {
  size_t inputs = 0, outputs = 0, i;
  const OrtValue* input = NULL;
  OrtValue* output = NULL;
  const OrtLogger* logger = NULL;
  OrtSyncStream* stream = NULL;
  OrtMemoryInfo* memory = NULL;
  OrtAllocator* allocator = NULL;
  void* pointer = NULL;
  int64_t bad_dims[2] = {-1, 3};
  size_t seen[100] = {0};
  fprintf(out, "=== kernel context\n");
  if (CALL(KernelContext_GetInputCount(context, &inputs))) fprintf(out, "  %zu inputs\n", inputs);
  if (CALL(KernelContext_GetOutputCount(context, &outputs))) fprintf(out, "  %zu outputs\n", outputs);
  for (i = 0; i < inputs; ++i) {
    CALL(KernelContext_GetInput(context, i, &input));
    fprintf(out, "  ");
    dump_value(input);
    fprintf(out, "\n");
  }
  input = NULL;
  CALL(KernelContext_GetInput(context, inputs, &input));
  fprintf(out, "  input %d\n", input != NULL);
  CALL(KernelContext_GetOutput(context, outputs, bad_dims, 0, &output));
  fprintf(out, "  output %d\n", output != NULL);
  if (CALL(KernelContext_GetLogger(context, &logger))) fprintf(out, "  logger %d\n", logger != NULL);
  if (CALL(KernelContext_GetSyncStream(context, &stream))) fprintf(out, "  stream %d\n", stream != NULL);
  pointer = &pointer;
  if (CALL(KernelContext_GetGPUComputeStream(context, &pointer))) fprintf(out, "  gpu stream %d\n", pointer != NULL);
  pointer = NULL;
  if (CALL(KernelContext_GetResource(context, 1, 0, &pointer))) fprintf(out, "  resource %d\n", pointer != NULL);
  QUIET(CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory));
  if (CALL(KernelContext_GetAllocator(context, memory, &allocator)) && allocator != NULL) {
    void* block = allocator->Alloc(allocator, 100);
    fprintf(out, "  allocated %d\n", block != NULL);
    allocator->Free(allocator, block);
    if (CALL(KernelContext_GetScratchBuffer(context, memory, 64, &pointer)) && pointer != NULL) {
      memset(pointer, 1, 64);
      allocator->Free(allocator, pointer);
    }
    api->ReleaseAllocator(allocator);
  }
  api->ReleaseMemoryInfo(memory);
  memory = NULL;
  allocator = NULL;
  if (QUIET(CreateMemoryInfo_V2("Nowhere", OrtMemoryInfoDeviceType_NPU, 0x1234, 3, OrtDeviceMemoryType_DEFAULT, 0,
                                OrtDeviceAllocator, &memory))) {
    CALL(KernelContext_GetAllocator(context, memory, &allocator));
    fprintf(out, "  allocator %d\n", allocator != NULL);
    api->ReleaseMemoryInfo(memory);
  }
  if (CALL(KernelContext_ParallelFor(context, count_up, 100, 0, seen))) {
    size_t once = 0;
    for (i = 0; i < 100; ++i) once += seen[i] == 1;
    fprintf(out, "  %zu of 100 once\n", once);
  }
  CALL(KernelContext_ParallelFor(context, count_up, 100, 7, seen));
  CALL(KernelContext_ParallelFor(context, count_up, 0, 0, seen));
  output = NULL;
  CALL(KernelContext_GetPreallocatedOutput(context, outputs, &output));
  fprintf(out, "  preallocated %d\n", output != NULL);
}
