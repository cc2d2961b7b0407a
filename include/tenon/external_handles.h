/* Handle kinds beyond ONNX Runtime's, for the importer functions of its C ABI (OrtInteropApi). C99.
 *
 * Memory: OrtExternalMemoryDescriptor has room for one pointer, so for each kind here `native_handle` points to a
 * TenonExternalMemoryInfo, which is read during the call only. ONNX Runtime's own kinds (0 to 3) keep their meaning:
 * the handle itself is in `native_handle` (for a file descriptor the integer; 0 is a valid one), the allocation is not
 * dedicated, its device is not known and not checked. TENON_EXTERNAL_MEMORY_DESCRIBED describes them in full.
 *
 * Ownership: after a successful import a file descriptor and a DLPack tensor are the import's, which closes or deletes
 * them; pointers, IPC handles and NT handles stay the caller's (an NT handle is duplicated). After a failed one all of
 * them are the caller's, untouched.
 * CanImportMemory and CanImportSemaphore say which of these kinds a device imports. */
#ifndef TENON_EXTERNAL_HANDLES_H_
#define TENON_EXTERNAL_HANDLES_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Values for OrtExternalMemoryDescriptor.handle_type. ONNX Runtime's own count up from 0. */
#define TENON_EXTERNAL_HANDLE_FIRST 0x544E0000u
#define TENON_EXTERNAL_MEMORY_HOST_ALLOCATION 0x544E0000u /* handle.pointer; the memory must outlive the import */
#define TENON_EXTERNAL_MEMORY_MAPPABLE_FD 0x544E0001u     /* handle.fd: memfd, POSIX shared memory, any fd that maps */
#define TENON_EXTERNAL_MEMORY_DLPACK 0x544E0002u          /* handle.dlpack */
#define TENON_EXTERNAL_MEMORY_CUDA_VMM_FD 0x544E0003u     /* handle.fd, from cuMemExportToShareableHandle */
#define TENON_EXTERNAL_MEMORY_CUDA_IPC 0x544E0004u        /* handle.ipc, from cuIpcGetMemHandle */
#define TENON_EXTERNAL_MEMORY_DMA_BUF_FD 0x544E0005u      /* handle.fd */
/* Any kind, ONNX Runtime's or one of the above, that TenonExternalMemoryInfo.kind names. */
#define TENON_EXTERNAL_MEMORY_DESCRIBED 0x544E00FFu

/* Values for OrtExternalSemaphoreDescriptor.type. */
#define TENON_EXTERNAL_SEMAPHORE_SHARED_TIMELINE_FD 0x544E0000u /* native_handle: the fd as an integer; consumed */
#define TENON_EXTERNAL_SEMAPHORE_HOST_CALLBACKS 0x544E0001u     /* native_handle: a TenonTimelineCallbacks* */

/* Keys for AddRunConfigEntry in Tenon's host: fences of a run, as "HANDLE:VALUE,HANDLE:VALUE", where HANDLE is the
 * address of an OrtExternalSemaphoreHandle, decimal or with 0x, and VALUE decimal. The run comes after the waits, and
 * the signals come when it is done, also when it fails. An EP whose device has "tenon.run_fences" = "1" in its EP
 * metadata waits and signals by itself where it runs the whole model; with disable_synchronize_execution_providers = 1,
 * Run then returns at once. The handles must live until Run returns. */
#define TENON_RUN_WAITS "tenon.run_waits"
#define TENON_RUN_SIGNALS "tenon.run_signals"

#define TENON_EXTERNAL_MEMORY_INFO_VERSION 1u

/* TenonExternalMemoryInfo.flags; unknown bits are refused. */
#define TENON_EXTERNAL_MEMORY_READ_ONLY 1u        /* tensors of the import cannot be written */
#define TENON_EXTERNAL_MEMORY_DLPACK_VERSIONED 2u /* handle.dlpack is a DLManagedTensorVersioned */
/* device_uuid begins with the 8 bytes of the LUID of the DXGI adapter that made the memory, and the rest is 0. For the
 * kinds of NT handles. */
#define TENON_EXTERNAL_MEMORY_DEVICE_LUID 4u

#define TENON_IPC_HANDLE_BYTES 64
#define TENON_DEVICE_UUID_BYTES 16
#define TENON_DEVICE_LUID_BYTES 8

typedef struct TenonExternalMemoryInfo {
  uint32_t version;   /* TENON_EXTERNAL_MEMORY_INFO_VERSION */
  uint32_t kind;      /* what the handle is: equal to handle_type unless that is TENON_EXTERNAL_MEMORY_DESCRIBED */
  uint32_t flags;     /* TENON_EXTERNAL_MEMORY_READ_ONLY, ... */
  uint32_t dedicated; /* 1: the allocation was made for one buffer or image alone (Vulkan); else 0 */
  uint8_t device_uuid[TENON_DEVICE_UUID_BYTES]; /* of the device that made it; all 0: not known, not checked */
  union {
    int32_t fd;
    void* pointer;
    void* nt_handle;
    void* dlpack; /* DLManagedTensor*, or DLManagedTensorVersioned* with the flag */
    uint8_t ipc[TENON_IPC_HANDLE_BYTES];
  } handle;
} TenonExternalMemoryInfo;

#define TENON_TIMELINE_CALLBACKS_VERSION 1u

/* What the callbacks of a timeline answer. Other values are failures that the caller's message quotes. */
#define TENON_TIMELINE_OK 0
#define TENON_TIMELINE_TIMEOUT 1
#define TENON_TIMELINE_LOST 2 /* the device or process behind the timeline is gone */

/* A 64-bit timeline that only its owner can reach, for example a Vulkan timeline semaphore of a driver that exports
 * none. The import copies the struct. Callbacks are called from threads of the library, also several at once; each may
 * block as long as its own rules say. */
typedef struct TenonTimelineCallbacks {
  uint32_t version;  /* TENON_TIMELINE_CALLBACKS_VERSION */
  uint32_t reserved; /* 0 */
  void* user_data;
  int32_t (*value)(void* user_data, uint64_t* out_value);
  /* Returns when the value is at least `value`, or TENON_TIMELINE_TIMEOUT after `timeout_ns`. */
  int32_t (*wait)(void* user_data, uint64_t value, int64_t timeout_ns);
  int32_t (*signal)(void* user_data, uint64_t value);
  /* May be null. Called once, when the import and all work queued with it are gone; not after a failed import. */
  void (*release)(void* user_data);
} TenonTimelineCallbacks;

#ifdef __cplusplus
}
#endif

#endif
