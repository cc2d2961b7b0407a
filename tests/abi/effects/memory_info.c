/* Memory infos: all creators, their refusals, getters and comparison. */
#include "effects.h"

static void describe(const char* what, const OrtMemoryInfo* info) {
  const char* name = NULL;
  int id = -99;
  OrtMemType mem_type = (OrtMemType)99;
  OrtAllocatorType type = (OrtAllocatorType)99;
  OrtMemoryInfoDeviceType device = (OrtMemoryInfoDeviceType)99;
  if (info == NULL) {
    printf("%s: null\n", what);
    return;
  }
  MUST(MemoryInfoGetName(info, &name));
  MUST(MemoryInfoGetId(info, &id));
  MUST(MemoryInfoGetMemType(info, &mem_type));
  MUST(MemoryInfoGetType(info, &type));
  api->MemoryInfoGetDeviceType(info, &device);
  printf("%s: \"%s\" id %d mem_type %d allocator %d device %d device memory %d vendor 0x%x\n", what, name, id,
         (int)mem_type, (int)type, (int)device, (int)api->MemoryInfoGetDeviceMemType(info),
         api->MemoryInfoGetVendorId(info));
}

static void memory_devices(OrtMemoryInfo* const* all, size_t count) {
  const OrtEpApi* ep_api = api->GetEpApi();
  size_t i, j;
  for (i = 0; i < count; ++i) {
    const OrtMemoryDevice* device = all[i] != NULL ? ep_api->MemoryInfo_GetMemoryDevice(all[i]) : NULL;
    if (device == NULL) continue;
    printf("memory device %zu: type %d memory %d vendor 0x%x id %u, equal to", i,
           (int)ep_api->MemoryDevice_GetDeviceType(device), (int)ep_api->MemoryDevice_GetMemoryType(device),
           ep_api->MemoryDevice_GetVendorId(device), ep_api->MemoryDevice_GetDeviceId(device));
    for (j = 0; j < count; ++j) {
      if (all[j] != NULL && ep_api->MemoryDevice_AreEqual(device, ep_api->MemoryInfo_GetMemoryDevice(all[j])))
        printf(" %zu", j);
    }
    printf("\n");
  }
}

static OrtMemoryInfo* create(const char* name, OrtAllocatorType type, int id, OrtMemType mem_type) {
  OrtMemoryInfo* info = NULL;
  char what[160];
  snprintf(what, sizeof(what), "CreateMemoryInfo(%s, %d, %d, %d)", name, (int)type, id, (int)mem_type);
  show(what, api->CreateMemoryInfo(name, type, id, mem_type, &info));
  describe("  ", info);
  return info;
}

static OrtMemoryInfo* create_v2(const char* name, OrtMemoryInfoDeviceType device, uint32_t vendor, int32_t id,
                                OrtDeviceMemoryType kind, size_t alignment, OrtAllocatorType type) {
  OrtMemoryInfo* info = NULL;
  char what[200];
  snprintf(what, sizeof(what), "CreateMemoryInfo_V2(%s, %d, 0x%x, %d, %d, %zu, %d)", name, (int)device, vendor, id,
           (int)kind, alignment, (int)type);
  show(what, api->CreateMemoryInfo_V2(name, device, vendor, id, kind, alignment, type, &info));
  describe("  ", info);
  return info;
}

static void compare(const char* what, const OrtMemoryInfo* a, const OrtMemoryInfo* b) {
  int result = 99;
  if (a == NULL || b == NULL) return;
  MUST(CompareMemoryInfo(a, b, &result));
  if (result != -1) printf("compare %s: %d\n", what, result);
}

static void run(void) {
  static const char* const names[] = {"Cpu",
                                      "Cuda",
                                      "CudaPinned",
                                      "Cann",
                                      "CannPinned",
                                      "DML",
                                      "Hip",
                                      "HipPinned",
                                      "OpenVINO_CPU",
                                      "OpenVINO_GPU",
                                      "OpenVINO_RT",
                                      "OpenVINO_RT_NPU",
                                      "QnnHtpShared",
                                      "WebGPU_Buffer",
                                      "WebGPU_Buf",
                                      "WebNN_Tensor",
                                      "Gpu",
                                      "cpu",
                                      "",
                                      "Nothing"};
  OrtMemoryInfo* all[64];
  size_t count = 0, i, j;
  OrtMemoryInfo* info = NULL;
  CALL(CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &info));
  describe("arena default", info);
  all[count++] = info;
  info = NULL;
  CALL(CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeCPU, &info));
  describe("device cpu", info);
  all[count++] = info;
  info = NULL;
  CALL(CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeCPUInput, &info));
  describe("device cpu input", info);
  all[count++] = info;
  info = NULL;
  CALL(CreateCpuMemoryInfo(OrtInvalidAllocator, OrtMemTypeDefault, &info));
  describe("invalid allocator", info);
  all[count++] = info;
  info = NULL;
  CALL(CreateCpuMemoryInfo(OrtReadOnlyAllocator, OrtMemTypeDefault, &info));
  describe("read-only allocator", info);
  all[count++] = info;
  for (i = 0; i < sizeof(names) / sizeof(names[0]); ++i)
    all[count++] = create(names[i], OrtDeviceAllocator, 0, OrtMemTypeDefault);
  all[count++] = create("Cuda", OrtArenaAllocator, 3, OrtMemTypeDefault);
  all[count++] = create("Cuda", OrtDeviceAllocator, 0, OrtMemTypeCPUOutput);
  all[count++] = create("Cpu", OrtDeviceAllocator, 7, OrtMemTypeDefault);
  all[count++] = create("Cpu", OrtDeviceAllocator, -1, OrtMemTypeDefault);
  all[count++] =
      create_v2("Mine", OrtMemoryInfoDeviceType_GPU, 0x10de, 1, OrtDeviceMemoryType_DEFAULT, 0, OrtDeviceAllocator);
  all[count++] = create_v2("Mine", OrtMemoryInfoDeviceType_GPU, 0x10de, 1, OrtDeviceMemoryType_HOST_ACCESSIBLE, 256,
                           OrtDeviceAllocator);
  all[count++] =
      create_v2("Mine", OrtMemoryInfoDeviceType_NPU, 0x8086, 0, OrtDeviceMemoryType_DEFAULT, 64, OrtArenaAllocator);
  all[count++] =
      create_v2("Mine", OrtMemoryInfoDeviceType_FPGA, 0, 0, OrtDeviceMemoryType_DEFAULT, 0, OrtReadOnlyAllocator);
  all[count++] =
      create_v2("Cpu", OrtMemoryInfoDeviceType_CPU, 0, 0, OrtDeviceMemoryType_DEFAULT, 0, OrtDeviceAllocator);
  all[count++] =
      create_v2("Cpu", OrtMemoryInfoDeviceType_CPU, 0, 0, OrtDeviceMemoryType_HOST_ACCESSIBLE, 0, OrtDeviceAllocator);
  all[count++] = create_v2("", OrtMemoryInfoDeviceType_GPU, 0, 0, OrtDeviceMemoryType_DEFAULT, 0, OrtDeviceAllocator);
  all[count++] =
      create_v2("Other", OrtMemoryInfoDeviceType_GPU, 0x10de, 1, OrtDeviceMemoryType_DEFAULT, 0, OrtDeviceAllocator);
  all[count++] =
      create_v2("Mine", OrtMemoryInfoDeviceType_GPU, 0x10de, 1, OrtDeviceMemoryType_DEFAULT, 64, OrtDeviceAllocator);
  all[count++] =
      create_v2("Mine", OrtMemoryInfoDeviceType_GPU, 0x10de, 1, OrtDeviceMemoryType_DEFAULT, 0, OrtArenaAllocator);
  all[count++] =
      create_v2("Mine", OrtMemoryInfoDeviceType_GPU, 0x10df, 1, OrtDeviceMemoryType_DEFAULT, 0, OrtDeviceAllocator);
  api->ReleaseMemoryInfo(
      create_v2("Bad device", (OrtMemoryInfoDeviceType)9, 0, 0, OrtDeviceMemoryType_DEFAULT, 0, OrtDeviceAllocator));
  api->ReleaseMemoryInfo(
      create_v2("Bad kind", OrtMemoryInfoDeviceType_GPU, 0, 0, (OrtDeviceMemoryType)3, 0, OrtDeviceAllocator));
  api->ReleaseMemoryInfo(
      create_v2("Alignment 3", OrtMemoryInfoDeviceType_GPU, 0, 0, OrtDeviceMemoryType_DEFAULT, 3, OrtDeviceAllocator));
  api->ReleaseMemoryInfo(
      create_v2("Negative id", OrtMemoryInfoDeviceType_GPU, 0, -5, OrtDeviceMemoryType_DEFAULT, 0, OrtDeviceAllocator));
  for (i = 0; i < count; ++i) {
    for (j = 0; j < count; ++j) {
      char what[32];
      snprintf(what, sizeof(what), "%zu with %zu", i, j);
      compare(what, all[i], all[j]);
    }
  }
  memory_devices(all, count);
  for (i = 0; i < count; ++i) api->ReleaseMemoryInfo(all[i]);
  api->ReleaseMemoryInfo(NULL);
  printf("released\n");
}
