/* The copies that runs make, for programs of ONNX Runtime's C ABI in Tenon's host. C99.
 *
 *   TenonGetCopyLedgerApiFn get = (TenonGetCopyLedgerApiFn)ort->GetExperimentalFunction(TENON_GET_COPY_LEDGER_API);
 *   const TenonCopyLedgerApi* copies = get != NULL ? get(TENON_COPY_LEDGER_API_VERSION) : NULL;
 *   copies->CreateLedger(&ledger);
 *   copies->SetRunLedger(run_options, ledger);
 *   ort->Run(session, run_options, input_names, inputs, 1, output_names, 1, outputs);
 *   copies->GetRecords(ledger, &records, &count);
 *
 * In another host GetExperimentalFunction (OrtApi, from API version 28 on) gives null for this name. Include it after
 * ONNX Runtime's header, or alone.
 *
 * Ownership: the program releases its ledger; run options and the env that it was set for keep what they need.
 * Threads: runs may share a ledger; GetRecords, ClearLedger and ReleaseLedger of one ledger from one thread at a time.
 * Errors: a status of ONNX Runtime's (null: OK), which the program releases; a null argument is INVALID_ARGUMENT. */
#ifndef TENON_COPY_LEDGER_API_H_
#define TENON_COPY_LEDGER_API_H_

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define TENON_COPY_LEDGER_CALL __stdcall
#else
#define TENON_COPY_LEDGER_CALL
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct OrtEnv;
struct OrtMemoryInfo;
struct OrtRunOptions;
struct OrtSession;
struct OrtStatus;

#define TENON_GET_COPY_LEDGER_API "TenonGetCopyLedgerApi"
#define TENON_COPY_LEDGER_API_VERSION 1u

typedef struct TenonCopyLedger TenonCopyLedger;

/* One copy, in the order in which they were made. Text is the ledger's. */
typedef struct TenonCopyRecord {
  const char* name;   /* of the tensor, as the model has it */
  const char* from;   /* "cpu", "gpu:0 (vendor 0x10de)" */
  const char* to;     /* alike */
  const char* reason; /* "not_compatible", "alignment", ...: docs/explanation/zero-copy.md has them all */
  uint64_t bytes;
  uint32_t once;     /* 1: made once for the session (a constant), and in no later run; else 0 */
  uint32_t reserved; /* 0 */
} TenonCopyRecord;

/* Where an input or output is bound, for ExplainCopies. */
typedef struct TenonPlacement {
  const char* name;                   /* of the input or output */
  const int64_t* dims;                /* of an input; null: as the model declares it */
  size_t rank;                        /* of dims */
  const struct OrtMemoryInfo* memory; /* null: plain host memory */
  size_t alignment;                   /* of the tensor's address; 0: as memory that was allocated there */
} TenonPlacement;

typedef struct TenonCopyLedgerApi {
  uint32_t version;  /* TENON_COPY_LEDGER_API_VERSION, or the lower one that was asked for */
  uint32_t reserved; /* 0 */
  /* An empty ledger. */
  struct OrtStatus*(TENON_COPY_LEDGER_CALL* CreateLedger)(TenonCopyLedger** out);
  /* Null is fine. */
  void(TENON_COPY_LEDGER_CALL* ReleaseLedger)(TenonCopyLedger* ledger);
  /* Each run with these options adds its copies to `ledger` (null: to none), also one that fails. A run that returns
   * before it is done (on a stream of the CPU device) adds them when it is. */
  struct OrtStatus*(TENON_COPY_LEDGER_CALL* SetRunLedger)(struct OrtRunOptions* options, TenonCopyLedger* ledger);
  /* OrtApi::CopyTensors, and the elements that OrtApi::GetValue copies, are added to `ledger` (null: to none), with the
   * reason "caller_asked". */
  struct OrtStatus*(TENON_COPY_LEDGER_CALL* SetCallerLedger)(const struct OrtEnv* env, TenonCopyLedger* ledger);
  /* All copies so far. The records live until the next call with this ledger from this table. */
  struct OrtStatus*(TENON_COPY_LEDGER_CALL* GetRecords)(TenonCopyLedger* ledger, const TenonCopyRecord** records,
                                                        size_t* count);
  struct OrtStatus*(TENON_COPY_LEDGER_CALL* ClearLedger)(TenonCopyLedger* ledger);
  /* Adds the copies that the session's first run with such bindings makes to `ledger`; runs nothing. What `placements`
   * does not name is in plain host memory, in the shape that the model declares. `open` (may be null) is how many parts
   * of the model have copies that only a run knows. */
  struct OrtStatus*(TENON_COPY_LEDGER_CALL* ExplainCopies)(struct OrtSession* session, const TenonPlacement* placements,
                                                           size_t placement_count, TenonCopyLedger* ledger,
                                                           size_t* open);
} TenonCopyLedgerApi;

/* Null for version 0. A version above TENON_COPY_LEDGER_API_VERSION gives that. */
typedef const TenonCopyLedgerApi*(TENON_COPY_LEDGER_CALL* TenonGetCopyLedgerApiFn)(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
