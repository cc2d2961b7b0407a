/* Allocators: the default one, its info and statistics, shared allocators of an env, arena configurations. */
#include "effects.h"

static void info_of(const char* what, const OrtAllocator* allocator) {
  const OrtMemoryInfo* info = NULL;
  const char* name = NULL;
  OrtAllocatorType type = (OrtAllocatorType)99;
  OrtMemType mem_type = (OrtMemType)99;
  MUST(AllocatorGetInfo(allocator, &info));
  MUST(MemoryInfoGetName(info, &name));
  MUST(MemoryInfoGetType(info, &type));
  MUST(MemoryInfoGetMemType(info, &mem_type));
  printf("%s: %s allocator %d mem_type %d\n", what, name, (int)type, (int)mem_type);
}

static void default_allocator(void) {
  OrtAllocator* allocator = NULL;
  OrtAllocator* again = NULL;
  OrtKeyValuePairs* stats = NULL;
  void* block = NULL;
  CALL(GetAllocatorWithDefaultOptions(&allocator));
  CALL(GetAllocatorWithDefaultOptions(&again));
  printf("same %d\n", allocator == again);
  info_of("default", allocator);
  printf("has Reserve %d GetStats %d AllocOnStream %d\n", allocator->Reserve != NULL, allocator->GetStats != NULL,
         allocator->AllocOnStream != NULL);
  CALL(AllocatorAlloc(allocator, 100, &block));
  printf("block %d, aligned to 16 %d\n", block != NULL, (uintptr_t)block % 16 == 0);
  memset(block, 7, 100);
  CALL(AllocatorFree(allocator, block));
  block = allocator->Alloc(allocator, 64);
  printf("block %d\n", block != NULL);
  allocator->Free(allocator, block);
  if (allocator->Reserve != NULL) {
    block = allocator->Reserve(allocator, 64);
    printf("reserved %d\n", block != NULL);
    allocator->Free(allocator, block);
  }
  block = (void*)1;
  CALL(AllocatorAlloc(allocator, 0, &block));
  if (block != (void*)1) CALL(AllocatorFree(allocator, block));
  CALL(AllocatorFree(allocator, NULL));
  if (CALL(AllocatorGetStats(allocator, &stats)) && stats != NULL) {
    const char* const* keys = NULL;
    const char* const* values = NULL;
    size_t count = 99;
    api->GetKeyValuePairs(stats, &keys, &values, &count);
    printf("%zu statistics\n", count);
  }
  api->ReleaseKeyValuePairs(stats);
  api->ReleaseAllocator(NULL);
}

/* An allocator of the program's own. */
struct counting {
  OrtAllocator functions;
  OrtMemoryInfo* info;
  int allocated;
  int freed;
};
static void* counting_alloc(OrtAllocator* self, size_t size) {
  ((struct counting*)self)->allocated++;
  return malloc(size);
}
static void counting_free(OrtAllocator* self, void* block) {
  ((struct counting*)self)->freed++;
  free(block);
}
static const OrtMemoryInfo* counting_info(const OrtAllocator* self) { return ((const struct counting*)self)->info; }

static OrtStatus* counting_stats(const OrtAllocator* self, OrtKeyValuePairs** out) {
  (void)self;
  api->CreateKeyValuePairs(out);
  api->AddKeyValuePair(*out, "NumAllocs", "2");
  return NULL;
}

static void own_allocator(OrtEnv* env) {
  struct counting mine;
  OrtValue* value = NULL;
  const int64_t dims[] = {5};
  const OrtMemoryInfo* memory = NULL;
  const char* name = NULL;
  OrtAllocator* found = NULL;
  OrtMemoryInfo* gpu = NULL;
  void* block = NULL;
  OrtKeyValuePairs* stats = NULL;
  memset(&mine, 0, sizeof(mine));
  mine.functions.version = ORT_API_VERSION;
  mine.functions.GetStats = counting_stats; /* the reference calls it also when it is null */
  mine.functions.Alloc = counting_alloc;
  mine.functions.Free = counting_free;
  mine.functions.Info = counting_info;
  MUST(CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &mine.info));
  CALL(CreateTensorAsOrtValue(&mine.functions, dims, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
  CALL(GetTensorMemoryInfo(value, &memory));
  MUST(MemoryInfoGetName(memory, &name));
  printf("%s, allocated %d freed %d\n", name, mine.allocated, mine.freed);
  api->ReleaseValue(value);
  printf("allocated %d freed %d\n", mine.allocated, mine.freed);
  CALL(AllocatorAlloc(&mine.functions, 8, &block));
  CALL(AllocatorFree(&mine.functions, block));
  CALL(AllocatorGetStats(&mine.functions, &stats));
  printf("stats %s\n", stats != NULL ? text_or_null(api->GetKeyValue(stats, "NumAllocs")) : "null");
  api->ReleaseKeyValuePairs(stats);
  CALL(RegisterAllocator(env, &mine.functions));
  CALL(RegisterAllocator(env, &mine.functions));
  CALL(GetSharedAllocator(env, mine.info, &found));
  printf("found %d\n", found != NULL);
  CALL(UnregisterAllocator(env, mine.info));
  CALL(UnregisterAllocator(env, mine.info));
  found = NULL;
  CALL(GetSharedAllocator(env, mine.info, &found));
  printf("found %d\n", found != NULL);
  MUST(CreateMemoryInfo_V2("Gpu", OrtMemoryInfoDeviceType_GPU, 0x1234, 0, OrtDeviceMemoryType_DEFAULT, 0,
                           OrtDeviceAllocator, &gpu));
  found = NULL;
  CALL(GetSharedAllocator(env, gpu, &found));
  printf("found for a GPU %d\n", found != NULL);
  CALL(CreateAndRegisterAllocator(env, gpu, NULL));
  api->ReleaseMemoryInfo(gpu);
  api->ReleaseMemoryInfo(mine.info);
}

static void arenas(OrtEnv* env) {
  static const char* const keys[] = {"max_mem",
                                     "arena_extend_strategy",
                                     "initial_chunk_size_bytes",
                                     "max_dead_bytes_per_chunk",
                                     "initial_growth_chunk_size_bytes",
                                     "max_power_of_two_extend_bytes"};
  static const size_t values[] = {0, 1, 1024, 256, 2048, 4096};
  static const char* const bad_keys[] = {"nothing"};
  OrtArenaCfg* config = NULL;
  OrtMemoryInfo* cpu = NULL;
  OrtAllocator* found = NULL;
  MUST(CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &cpu));
  CALL(CreateArenaCfg(0, -1, -1, -1, &config));
  CALL(CreateAndRegisterAllocator(env, cpu, config));
  CALL(CreateAndRegisterAllocator(env, cpu, config));
  CALL(GetSharedAllocator(env, cpu, &found));
  printf("found %d\n", found != NULL);
  if (found != NULL) info_of("shared arena", found);
  CALL(UnregisterAllocator(env, cpu));
  api->ReleaseArenaCfg(config);
  config = NULL;
  CALL(CreateArenaCfgV2(keys, values, 6, &config));
  CALL(CreateAndRegisterAllocatorV2(env, "CPUExecutionProvider", cpu, config, NULL, NULL, 0));
  CALL(UnregisterAllocator(env, cpu));
  CALL(CreateAndRegisterAllocatorV2(env, "NothingExecutionProvider", cpu, config, NULL, NULL, 0));
  CALL(CreateAndRegisterAllocator(env, cpu, NULL));
  CALL(UnregisterAllocator(env, cpu));
  api->ReleaseArenaCfg(config);
  config = NULL;
  CALL(CreateArenaCfgV2(bad_keys, values, 1, &config));
  CALL(CreateArenaCfgV2(keys, values, 0, &config));
  api->ReleaseArenaCfg(config);
  api->ReleaseArenaCfg(NULL);
  api->ReleaseMemoryInfo(cpu);
}

static void run(void) {
  OrtEnv* env = NULL;
  MUST(CreateEnv(ORT_LOGGING_LEVEL_FATAL, "allocators", &env));
  default_allocator();
  own_allocator(env);
  arenas(env);
  api->ReleaseEnv(env);
  printf("released\n");
}
