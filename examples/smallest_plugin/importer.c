/* The importer: tensors in memory of other processes, which arrives as a file descriptor that can be mapped (a memfd,
 * POSIX shared memory). Kinds and structs of handles: tenon/external_handles.h.
 *
 * Ownership: a successful import closes the file descriptor, a failed one leaves it to the caller. The mapping lives
 * until the handle and all tensors that were made from it are released, in any order. */
#define _POSIX_C_SOURCE 200809L
#include "plugin.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenon/external_handles.h>

/* A status of the host's, which the host releases. The message takes printf's formats. */
__attribute__((format(printf, 3, 4))) static OrtStatus* fail(const Host* host, OrtErrorCode code, const char* format,
                                                             ...) {
  char message[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof(message), format, arguments);
  va_end(arguments);
  return host->api->CreateStatus(code, message);
}

typedef struct Mapping {
  const OrtApi* api;
  atomic_int owners;
  void* address; /* of the page in which the memory begins */
  size_t length;
  char* memory; /* size_bytes of the import begin here */
  OrtMemoryInfo* info;
} Mapping;

static void drop(Mapping* mapping) {
  if (atomic_fetch_sub(&mapping->owners, 1) != 1) return;
  if (mapping->address != NULL) munmap(mapping->address, mapping->length);
  if (mapping->info != NULL) mapping->api->ReleaseMemoryInfo(mapping->info);
  free(mapping);
}

/* ---- Memory ---- */

typedef struct Memory {
  OrtExternalMemoryHandle table;
  Mapping* mapping;
} Memory;

typedef struct Importer {
  OrtExternalResourceImporterImpl table;
  Host host;
  const OrtEpDevice* device;
} Importer;

static void ORT_API_CALL release_memory(OrtExternalMemoryHandle* handle) {
  if (handle == NULL) return;
  drop(((Memory*)handle)->mapping);
  free(handle);
}

/* DESCRIBED: the TenonExternalMemoryInfo says what the handle is. */
static bool ORT_API_CALL can_import_memory(const OrtExternalResourceImporterImpl* self,
                                           OrtExternalMemoryHandleType kind) {
  (void)self;
  return (uint32_t)kind == TENON_EXTERNAL_MEMORY_MAPPABLE_FD || (uint32_t)kind == TENON_EXTERNAL_MEMORY_DESCRIBED;
}

static OrtStatus* check_version(const Host* host, uint32_t version) {
  if (version >= PLUGIN_API_VERSION && version <= ORT_API_VERSION) return NULL;
  return fail(host, ORT_INVALID_ARGUMENT, "Field version of the descriptor is %u; %u to %u are known.", version,
              PLUGIN_API_VERSION, (unsigned)ORT_API_VERSION);
}

static OrtStatus* check_memory(const Host* host, const OrtExternalMemoryDescriptor* memory) {
  TRY(check_version(host, memory->version));
  const TenonExternalMemoryInfo* info = memory->native_handle;
  if (info == NULL || info->version != TENON_EXTERNAL_MEMORY_INFO_VERSION)
    return fail(host, ORT_INVALID_ARGUMENT, "Field native_handle leads to no TenonExternalMemoryInfo of version %u.",
                TENON_EXTERNAL_MEMORY_INFO_VERSION);
  if (info->kind != TENON_EXTERNAL_MEMORY_MAPPABLE_FD)
    return fail(host, ORT_NOT_IMPLEMENTED, "External memory of kind 0x%x cannot be imported.", info->kind);
  if ((info->flags & ~TENON_EXTERNAL_MEMORY_READ_ONLY) != 0)
    return fail(host, ORT_INVALID_ARGUMENT, "Field flags has the unknown bits 0x%x.", info->flags);
  struct stat file;
  if (fstat(info->handle.fd, &file) != 0)
    return fail(host, ORT_INVALID_ARGUMENT, "The handle (%d) is no open file descriptor.", info->handle.fd);
  const uint64_t bytes = (uint64_t)file.st_size;
  if (memory->size_bytes == 0 || memory->offset_bytes > bytes || memory->size_bytes > bytes - memory->offset_bytes)
    return fail(host, ORT_INVALID_ARGUMENT, "Bytes %zu and the %zu behind are not within the %llu of the file.",
                memory->offset_bytes, memory->size_bytes, (unsigned long long)bytes);
  return NULL;
}

static OrtStatus* map(const Host* host, const OrtExternalMemoryDescriptor* memory, Mapping* mapping) {
  const TenonExternalMemoryInfo* info = memory->native_handle;
  TRY(host->api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &mapping->info));
  const size_t into_page = memory->offset_bytes % (size_t)sysconf(_SC_PAGESIZE);
  const int access = (info->flags & TENON_EXTERNAL_MEMORY_READ_ONLY) != 0 ? PROT_READ : PROT_READ | PROT_WRITE;
  mapping->length = into_page + memory->size_bytes;
  void* address =
      mmap(NULL, mapping->length, access, MAP_SHARED, info->handle.fd, (off_t)(memory->offset_bytes - into_page));
  if (address == MAP_FAILED)
    return fail(host, ORT_INVALID_ARGUMENT, "File descriptor %d cannot be mapped.", info->handle.fd);
  mapping->address = address;
  mapping->memory = (char*)address + into_page;
  return NULL;
}

static OrtStatus* ORT_API_CALL import_memory(OrtExternalResourceImporterImpl* self,
                                             const OrtExternalMemoryDescriptor* descriptor,
                                             OrtExternalMemoryHandle** out) {
  const Importer* importer = (Importer*)self;
  const Host* host = &importer->host;
  *out = NULL;
  if (!can_import_memory(self, descriptor->handle_type))
    return fail(host, ORT_NOT_IMPLEMENTED, "External memory of kind 0x%x cannot be imported.",
                (unsigned)descriptor->handle_type);
  TRY(check_memory(host, descriptor));
  Memory* memory = calloc(1, sizeof(*memory));
  Mapping* mapping = calloc(1, sizeof(*mapping));
  OrtStatus* status = NULL;
  if (memory == NULL || mapping == NULL) {
    free(mapping);
    mapping = NULL;
    status = fail(host, ORT_FAIL, "There is no memory for an import.");
  } else {
    mapping->api = host->api;
    atomic_init(&mapping->owners, 1);
    status = map(host, descriptor, mapping);
  }
  if (status != NULL) {
    if (mapping != NULL) drop(mapping);
    free(memory);
    return status;
  }
  memory->table.version = PLUGIN_API_VERSION;
  memory->table.ep_device = importer->device;
  memory->table.descriptor = *descriptor;
  memory->table.Release = release_memory;
  memory->mapping = mapping;
  /* Nothing below can fail: from here on the file descriptor is the import's, and the mapping does not need it. */
  close(((const TenonExternalMemoryInfo*)descriptor->native_handle)->handle.fd);
  memory->table.descriptor.native_handle = NULL; /* the caller's struct was there for the call only */
  *out = &memory->table;
  return NULL;
}

static void ORT_API_CALL importer_release_memory(OrtExternalResourceImporterImpl* self,
                                                 OrtExternalMemoryHandle* handle) {
  (void)self;
  release_memory(handle);
}

/* ---- Tensors ---- */

/* A tensor holds the mapping through the allocator that the host frees its memory with. */
typedef struct View {
  OrtAllocator table;
  Mapping* mapping;
} View;

static void* ORT_API_CALL view_alloc(OrtAllocator* self, size_t bytes) {
  (void)self, (void)bytes;
  return NULL; /* the host frees with it, and allocates nothing */
}

static void ORT_API_CALL view_free(OrtAllocator* self, void* memory) {
  (void)memory;
  drop(((View*)self)->mapping);
  free(self);
}

static const OrtMemoryInfo* ORT_API_CALL view_info(const OrtAllocator* self) {
  return ((const View*)self)->mapping->info;
}

static OrtStatus* check_tensor(const Host* host, const OrtExternalTensorDescriptor* tensor, size_t import_bytes,
                               size_t* bytes) {
  TRY(check_version(host, tensor->version));
  if (tensor->element_type != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT)
    return fail(host, ORT_INVALID_ARGUMENT, "Field element_type is %d; this EP computes float tensors (1) alone.",
                (int)tensor->element_type);
  if (tensor->rank != 0 && tensor->shape == NULL)
    return fail(host, ORT_INVALID_ARGUMENT, "Field shape is null, and rank is %zu.", tensor->rank);
  *bytes = sizeof(float);
  for (size_t i = 0; i < tensor->rank; ++i) {
    if (tensor->shape[i] < 0 || __builtin_mul_overflow(*bytes, (size_t)tensor->shape[i], bytes))
      return fail(host, ORT_INVALID_ARGUMENT, "Dimension %zu (%lld) is negative or too large.", i,
                  (long long)tensor->shape[i]);
  }
  if (tensor->offset_bytes % sizeof(float) != 0)
    return fail(host, ORT_INVALID_ARGUMENT, "Field offset_bytes (%zu) is no multiple of the element's size.",
                tensor->offset_bytes);
  if (tensor->offset_bytes > import_bytes || *bytes > import_bytes - tensor->offset_bytes)
    return fail(host, ORT_INVALID_ARGUMENT, "A tensor of %zu bytes at %zu is not within the import's %zu bytes.",
                *bytes, tensor->offset_bytes, import_bytes);
  return NULL;
}

static OrtStatus* ORT_API_CALL create_tensor(OrtExternalResourceImporterImpl* self,
                                             const OrtExternalMemoryHandle* handle,
                                             const OrtExternalTensorDescriptor* descriptor, OrtValue** out) {
  const Host* host = &((Importer*)self)->host;
  *out = NULL;
  if (handle->Release != release_memory)
    return fail(host, ORT_INVALID_ARGUMENT, "The memory handle belongs to another importer.");
  size_t bytes = 0;
  TRY(check_tensor(host, descriptor, handle->descriptor.size_bytes, &bytes));
  View* view = calloc(1, sizeof(*view));
  if (view == NULL) return fail(host, ORT_FAIL, "There is no memory for a tensor.");
  Mapping* mapping = ((const Memory*)handle)->mapping;
  view->table.version = PLUGIN_API_VERSION;
  view->table.Alloc = view_alloc;
  view->table.Reserve = view_alloc;
  view->table.Free = view_free;
  view->table.Info = view_info;
  view->mapping = mapping;
  atomic_fetch_add(&mapping->owners, 1);
  OrtStatus* status = host->api->CreateTensorWithDataAndDeleterAsOrtValue(
      &view->table, mapping->memory + descriptor->offset_bytes, bytes, descriptor->shape, descriptor->rank,
      descriptor->element_type, out);
  if (status != NULL) view_free(&view->table, NULL);
  return status;
}

/* ---- Semaphores: none. A device with streams has them here; see src/ep/sim/sim_importer.cc. ---- */

static bool ORT_API_CALL can_import_semaphore(const OrtExternalResourceImporterImpl* self,
                                              OrtExternalSemaphoreType kind) {
  (void)self, (void)kind;
  return false;
}

static OrtStatus* ORT_API_CALL import_semaphore(OrtExternalResourceImporterImpl* self,
                                                const OrtExternalSemaphoreDescriptor* descriptor,
                                                OrtExternalSemaphoreHandle** out) {
  *out = NULL;
  return fail(&((Importer*)self)->host, ORT_NOT_IMPLEMENTED, "Semaphores of type %u cannot be imported.",
              (unsigned)descriptor->type);
}

static void ORT_API_CALL release_semaphore(OrtExternalResourceImporterImpl* self, OrtExternalSemaphoreHandle* handle) {
  (void)self, (void)handle;
}

static OrtStatus* ORT_API_CALL use_semaphore(OrtExternalResourceImporterImpl* self, OrtExternalSemaphoreHandle* handle,
                                             OrtSyncStream* stream, uint64_t value) {
  (void)handle, (void)stream, (void)value;
  return fail(&((Importer*)self)->host, ORT_NOT_IMPLEMENTED, "This device has no streams, and so no semaphores.");
}

static void ORT_API_CALL release_importer(OrtExternalResourceImporterImpl* self) { free(self); }

OrtStatus* create_importer(const Host* host, const OrtEpDevice* device, OrtExternalResourceImporterImpl** out) {
  *out = NULL;
  Importer* importer = calloc(1, sizeof(*importer));
  if (importer == NULL) return fail(host, ORT_FAIL, "There is no memory for an importer.");
  importer->host = *host;
  importer->device = device;
  importer->table.ort_version_supported = PLUGIN_API_VERSION;
  importer->table.CanImportMemory = can_import_memory;
  importer->table.ImportMemory = import_memory;
  importer->table.ReleaseMemory = importer_release_memory;
  importer->table.CreateTensorFromMemory = create_tensor;
  importer->table.CanImportSemaphore = can_import_semaphore;
  importer->table.ImportSemaphore = import_semaphore;
  importer->table.ReleaseSemaphore = release_semaphore;
  importer->table.WaitSemaphore = use_semaphore;
  importer->table.SignalSemaphore = use_semaphore;
  importer->table.Release = release_importer;
  *out = &importer->table;
  return NULL;
}
