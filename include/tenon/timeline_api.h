/* Timelines that two processes share, the fences of a run, and the end of a stream's work, for programs of ONNX
 * Runtime's C ABI in Tenon's host. C99.
 *
 *   TenonGetTimelineApiFn get = (TenonGetTimelineApiFn)ort->GetExperimentalFunction(TENON_GET_TIMELINE_API);
 *   const TenonTimelineApi* timelines = get != NULL ? get(TENON_TIMELINE_API_VERSION) : NULL;
 *   timelines->CreateTimeline("frames", 0, &timeline);
 *   timelines->ExportTimeline(timeline, &fd); // for the other process, which calls OpenTimeline with it
 *   const TenonFence ready = {timeline, 1}, done = {timeline, 2};
 *   timelines->SetRunFences(run_options, &ready, 1, &done, 1);
 *   ort->Run(session, run_options, input_names, inputs, 1, output_names, 1, outputs); // waits, runs, signals
 *
 * In another host GetExperimentalFunction (OrtApi, from API version 28 on) gives null for this name. Include it after
 * ONNX Runtime's header, or alone. docs/reference/fences.md has the rules of timelines; examples/shared_frame.c is a
 * program of two processes.
 *
 * Ownership: the program releases its timelines; run options, semaphores and streams keep what they need of them.
 * Threads: every function from any thread, also several with one timeline; ReleaseTimeline when no other call uses it,
 * SetRunFences when no run starts with the options.
 * Errors: a status of ONNX Runtime's (null: OK), which the program releases. INVALID_ARGUMENT: a null argument, and
 * what else the message names. A time that passes is no error: WaitTimeline and DrainStream say so in an out parameter.
 */
#ifndef TENON_TIMELINE_API_H_
#define TENON_TIMELINE_API_H_

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define TENON_TIMELINE_CALL __stdcall
#else
#define TENON_TIMELINE_CALL
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct OrtExternalResourceImporter;
struct OrtExternalSemaphoreHandle;
struct OrtRunOptions;
struct OrtStatus;
struct OrtSyncStream;

#define TENON_GET_TIMELINE_API "TenonGetTimelineApi"
#define TENON_TIMELINE_API_VERSION 1u

/* For timeout_ns, which is relative and in nanoseconds: no deadline. 0 asks without waiting. */
#define TENON_WAIT_FOREVER (-1)

/* A 64-bit counter in a page of shared memory, which only grows (docs/reference/shared-timeline.md). It joins two
 * processes: the one that created it and the one that opened it last. */
typedef struct TenonTimeline TenonTimeline;

/* One value of one timeline. */
typedef struct TenonFence {
  TenonTimeline* timeline;
  uint64_t value;
} TenonFence;

typedef struct TenonTimelineApi {
  uint32_t version;  /* TENON_TIMELINE_API_VERSION, or the lower one that was asked for */
  uint32_t reserved; /* 0 */
  /* `name` is for messages. NOT_IMPLEMENTED on systems without futexes. */
  struct OrtStatus*(TENON_TIMELINE_CALL* CreateTimeline)(const char* name, uint64_t initial_value, TenonTimeline** out);
  /* The timeline that another process exported; borrows `fd`. Works also when that process has ended. INVALID_ARGUMENT:
   * `fd` is no timeline's. RUNTIME_EXCEPTION: a third process holds the timeline open. The process that created a
   * timeline does not open it: it would take the other process's place. */
  struct OrtStatus*(TENON_TIMELINE_CALL* OpenTimeline)(const char* name, int32_t fd, TenonTimeline** out);
  /* A new file descriptor, closed by exec, which the program sends to the other process (SCM_RIGHTS, pidfd_getfd,
   * /proc/PID/fd) and closes. */
  struct OrtStatus*(TENON_TIMELINE_CALL* ExportTimeline)(const TenonTimeline* timeline, int32_t* fd);
  /* Null is fine. When a process has released all that it has of a timeline, waits of the other one end with
   * DEVICE_RESET. */
  void(TENON_TIMELINE_CALL* ReleaseTimeline)(TenonTimeline* timeline);
  /* The value reached so far. */
  struct OrtStatus*(TENON_TIMELINE_CALL* GetTimelineValue)(const TenonTimeline* timeline, uint64_t* value);
  /* Returns when the timeline is at `value` or beyond (*reached: 1), or when `timeout_ns` has passed (*reached: 0, and
   * no error). DEVICE_RESET: the other process has ended, or released the timeline, before the value was reached. A
   * poisoned timeline: the code and text of the process that poisoned it. */
  struct OrtStatus*(TENON_TIMELINE_CALL* WaitTimeline)(TenonTimeline* timeline, uint64_t value, int64_t timeout_ns,
                                                       uint32_t* reached);
  /* Moves the timeline to `value`. INVALID_ARGUMENT: it is there, or beyond, already. */
  struct OrtStatus*(TENON_TIMELINE_CALL* SignalTimeline)(TenonTimeline* timeline, uint64_t value);
  /* Moves the timeline to `value`, if it is below, and makes waits for this value and later ones fail with `why`
   * (borrowed): a failed run's status, or one of CreateStatus. The first poison stays. */
  struct OrtStatus*(TENON_TIMELINE_CALL* PoisonTimeline)(TenonTimeline* timeline, uint64_t value,
                                                         const struct OrtStatus* why);
  /* Each run with these options waits for `waits` before it reads an input, and signals `signals` when its outputs are
   * written; a run that fails poisons them. They replace those of the call before (0 fences: none), and come beside
   * those of the run entries TENON_RUN_WAITS and TENON_RUN_SIGNALS. The entry "tenon.timeout_ms" limits the waits. */
  struct OrtStatus*(TENON_TIMELINE_CALL* SetRunFences)(struct OrtRunOptions* options, const TenonFence* waits,
                                                       size_t wait_count, const TenonFence* signals,
                                                       size_t signal_count);
  /* The timeline as a semaphore of the importer's device, for WaitSemaphore, SignalSemaphore and the run entries; the
   * program gives it to ReleaseExternalSemaphoreHandle. NOT_IMPLEMENTED: the device waits for no timeline of the
   * host's (the CPU EP's does; others that import TENON_EXTERNAL_SEMAPHORE_HOST_CALLBACKS). */
  struct OrtStatus*(TENON_TIMELINE_CALL* ImportTimeline)(struct OrtExternalResourceImporter* importer,
                                                         TenonTimeline* timeline,
                                                         struct OrtExternalSemaphoreHandle** out);
  /* Returns when everything that was put on the stream before is done (*drained: 1), or when `timeout_ns` has passed
   * (*drained: 0, and no error; the work goes on). ReleaseSyncStream cancels what has not begun, so drain a stream
   * first. The status is the stream's failure, if it has one; it stays. NOT_IMPLEMENTED: a deadline for a stream of a
   * plugin's device, whose waits have none: give TENON_WAIT_FOREVER. */
  struct OrtStatus*(TENON_TIMELINE_CALL* DrainStream)(struct OrtSyncStream* stream, int64_t timeout_ns,
                                                      uint32_t* drained);
} TenonTimelineApi;

/* Null for version 0. A version above TENON_TIMELINE_API_VERSION gives that. */
typedef const TenonTimelineApi*(TENON_TIMELINE_CALL* TenonGetTimelineApiFn)(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
