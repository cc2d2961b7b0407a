/* Runs a model in place on frames that another process writes, in C: one memfd holds input and output, one timeline in
 * shared memory gives the order, and the ledger shows 0 bytes copied. When the other process dies, the run says so.
 *
 *   producer (child):   write frame k, signal 2k+1, wait for 2k+2, read the result
 *   consumer (parent):  wait for 2k+1, run with input and output in the memfd, signal 2k+2
 *
 * Usage: shared_frame MODEL [DIM=N]... [--die-at FRAME]
 * --die-at: the producer kills itself before it writes that frame, and the consumer reports it and ends with 1. */
#define _GNU_SOURCE /* memfd_create */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <tenon/onnxruntime_c_api.h>

#include <tenon/copy_ledger_api.h>
#include <tenon/external_handles.h>
#include <tenon/timeline_api.h>
#include <unistd.h>

enum { kFrames = 20, kMostDims = 16 };
static const int64_t kTimeoutNs = INT64_C(30000000000);

static const char* process = "consumer";
static const OrtApi* ort;
static const TenonTimelineApi* timelines;

static void fail(const char* what, const char* why) {
  fprintf(stderr, "shared_frame: %s: %s: %s\n", process, what, why);
  exit(1);
}

static void fail_errno(const char* what) { fail(what, strerror(errno)); }

/* Ends the program when a call has failed, with the call's own words. */
static void check(const char* what, OrtStatus* status) {
  if (status != NULL) fail(what, ort->GetErrorMessage(status));
}

/* Both processes agree on this. The result begins at the next page, so that both are aligned. */
typedef struct Layout {
  uint64_t input_bytes, output_offset, output_bytes;
  int64_t die_at; /* a frame, or -1 */
} Layout;

static size_t total_bytes(const Layout* layout) { return (size_t)(layout->output_offset + layout->output_bytes); }

/* A message of the layout with the descriptors of memory and timeline (SCM_RIGHTS). */
typedef union Rights {
  struct cmsghdr header;
  char bytes[CMSG_SPACE(2 * sizeof(int))];
} Rights;

static void send_layout(int channel, Layout layout, int memory_fd, int timeline_fd) {
  const int fds[2] = {memory_fd, timeline_fd};
  Rights rights;
  memset(&rights, 0, sizeof(rights));
  struct iovec data = {&layout, sizeof(layout)};
  struct msghdr message = {0};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = rights.bytes;
  message.msg_controllen = sizeof(rights.bytes);
  struct cmsghdr* part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof(fds));
  memcpy(CMSG_DATA(part), fds, sizeof(fds));
  if (sendmsg(channel, &message, MSG_NOSIGNAL) != (ssize_t)sizeof(layout)) fail_errno("sendmsg");
}

/* 0 when the consumer has ended before it sent anything. */
static int receive_layout(int channel, Layout* layout, int fds[2]) {
  Rights rights;
  struct iovec data = {layout, sizeof(*layout)};
  struct msghdr message = {0};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = rights.bytes;
  message.msg_controllen = sizeof(rights.bytes);
  if (recvmsg(channel, &message, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(*layout)) return 0;
  const struct cmsghdr* part = CMSG_FIRSTHDR(&message);
  if (part == NULL || part->cmsg_type != SCM_RIGHTS || part->cmsg_len != CMSG_LEN(2 * sizeof(int))) return 0;
  memcpy(fds, CMSG_DATA(part), 2 * sizeof(int));
  return 1;
}

static void wait_for(TenonTimeline* timeline, uint64_t value) {
  uint32_t reached = 0;
  check("waiting for the other process", timelines->WaitTimeline(timeline, value, kTimeoutNs, &reached));
  if (reached == 0) fail("waiting for the other process", "it has not answered for 30 s");
}

/* The other program: it knows the descriptors, the layout and the timeline, and nothing of models. */
static int produce(int channel) {
  process = "producer";
  Layout layout;
  int fds[2];
  if (!receive_layout(channel, &layout, fds)) return 1;
  void* mapped = mmap(NULL, total_bytes(&layout), PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
  if (mapped == MAP_FAILED) fail_errno("mmap");
  TenonTimeline* timeline = NULL;
  check("OpenTimeline", timelines->OpenTimeline("frames", fds[1], &timeline));
  float* input = mapped;
  const float* output = (const float*)((const char*)mapped + layout.output_offset);
  for (int frame = 0; frame < kFrames; ++frame) {
    const uint64_t turn = 2 * (uint64_t)frame;
    if (frame == layout.die_at) raise(SIGKILL);
    for (size_t i = 0; i < layout.input_bytes / sizeof(float); ++i) input[i] = (float)frame / kFrames;
    check("SignalTimeline", timelines->SignalTimeline(timeline, turn + 1));
    wait_for(timeline, turn + 2);
    float largest = output[0];
    for (size_t i = 1; i < layout.output_bytes / sizeof(float); ++i)
      if (output[i] > largest) largest = output[i];
    if (frame % 5 == 0) printf("producer: frame %d: largest output value %g\n", frame, (double)largest);
  }
  timelines->ReleaseTimeline(timeline);
  munmap(mapped, total_bytes(&layout));
  close(fds[0]);
  close(fds[1]);
  fflush(stdout);
  return 0;
}

/* The number behind "batch=" or "--die-at"; `text` is the whole argument, for the message. */
static int64_t whole_number(const char* text, const char* digits) {
  char* end = NULL;
  errno = 0;
  const long long number = strtoll(digits, &end, 10);
  if (end == digits || *end != '\0' || errno != 0 || number < 0) fail(text, "gives no whole number from 0 on");
  return number;
}

/* "batch=2" fixes a dimension of the model; those left open are 1. */
static void fix_dimension(OrtSessionOptions* options, const char* text) {
  char name[256];
  const char* equals = strchr(text, '=');
  if (equals == NULL) fail(text, "is no DIM=N");
  const size_t length = (size_t)(equals - text);
  if (length == 0 || length >= sizeof(name)) fail(text, "names no dimension");
  memcpy(name, text, length);
  name[length] = '\0';
  check("AddFreeDimensionOverrideByName",
        ort->AddFreeDimensionOverrideByName(options, name, whole_number(text, equals + 1)));
}

typedef struct Shape {
  int64_t dims[kMostDims];
  size_t rank;
  size_t bytes;
} Shape;

static Shape shape_of(const OrtTensorTypeAndShapeInfo* info, const char* what) {
  Shape shape = {{0}, 0, sizeof(float)};
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  check("GetTensorElementType", ort->GetTensorElementType(info, &type));
  if (type != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) fail(what, "is no float32 tensor, which this example takes");
  check("GetDimensionsCount", ort->GetDimensionsCount(info, &shape.rank));
  if (shape.rank > kMostDims) fail(what, "has too many dimensions");
  check("GetDimensions", ort->GetDimensions(info, shape.dims, shape.rank));
  for (size_t i = 0; i < shape.rank; ++i) {
    if (shape.dims[i] < 0) shape.dims[i] = 1;
    shape.bytes *= (size_t)shape.dims[i];
  }
  return shape;
}

typedef struct Model {
  OrtSession* session;
  char *input_name, *output_name;
  Shape input, output;
} Model;

/* Loads the model; a trial run in ordinary memory tells how large the output is. */
static Model load(OrtEnv* env, const OrtSessionOptions* options, const char* path) {
  Model model;
  memset(&model, 0, sizeof(model));
  OrtAllocator* allocator = NULL;
  OrtTypeInfo* type = NULL;
  const OrtTensorTypeAndShapeInfo* info = NULL;
  size_t inputs = 0;
  check("CreateSession", ort->CreateSession(env, path, options, &model.session));
  check("GetAllocatorWithDefaultOptions", ort->GetAllocatorWithDefaultOptions(&allocator));
  check("SessionGetInputCount", ort->SessionGetInputCount(model.session, &inputs));
  if (inputs != 1) fail(path, "has another number of inputs than 1, which this example takes");
  check("SessionGetInputName", ort->SessionGetInputName(model.session, 0, allocator, &model.input_name));
  check("SessionGetOutputName", ort->SessionGetOutputName(model.session, 0, allocator, &model.output_name));
  check("SessionGetInputTypeInfo", ort->SessionGetInputTypeInfo(model.session, 0, &type));
  check("CastTypeInfoToTensorInfo", ort->CastTypeInfoToTensorInfo(type, &info));
  if (info == NULL) fail(path, "has an input that is no tensor");
  model.input = shape_of(info, "the model's input");
  ort->ReleaseTypeInfo(type);

  OrtValue *input = NULL, *output = NULL;
  OrtTensorTypeAndShapeInfo* made = NULL;
  void* data = NULL;
  check("CreateTensorAsOrtValue", ort->CreateTensorAsOrtValue(allocator, model.input.dims, model.input.rank,
                                                              ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &input));
  check("GetTensorMutableData", ort->GetTensorMutableData(input, &data));
  memset(data, 0, model.input.bytes);
  check("Run", ort->Run(model.session, NULL, (const char* const*)&model.input_name, (const OrtValue* const*)&input, 1,
                        (const char* const*)&model.output_name, 1, &output));
  check("GetTensorTypeAndShape", ort->GetTensorTypeAndShape(output, &made));
  model.output = shape_of(made, "the model's first output");
  ort->ReleaseTensorTypeAndShapeInfo(made);
  ort->ReleaseValue(input);
  ort->ReleaseValue(output);
  return model;
}

/* Sealed, so that neither side can cut the memory away under the other. */
static int make_memory(size_t bytes) {
  const int fd = memfd_create("frame", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    fail_errno("memfd");
  return fd;
}

static const OrtEpDevice* cpu_device(const OrtEnv* env) {
  const OrtEpDevice* const* devices = NULL;
  size_t count = 0;
  check("GetEpDevices", ort->GetEpDevices(env, &devices, &count));
  for (size_t i = 0; i < count; ++i)
    if (strcmp(ort->EpDevice_EpName(devices[i]), "CPUExecutionProvider") == 0) return devices[i];
  fail("GetEpDevices", "lists no device of the CPU EP");
  return NULL;
}

static OrtValue* tensor_at(const OrtInteropApi* interop, OrtExternalResourceImporter* importer,
                           const OrtExternalMemoryHandle* memory, const Shape* shape, uint64_t offset) {
  OrtExternalTensorDescriptor descriptor;
  memset(&descriptor, 0, sizeof(descriptor));
  descriptor.version = ORT_API_VERSION;
  descriptor.element_type = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  descriptor.shape = shape->dims;
  descriptor.rank = shape->rank;
  descriptor.offset_bytes = (size_t)offset;
  OrtValue* tensor = NULL;
  check("CreateTensorFromMemory", interop->CreateTensorFromMemory(importer, memory, &descriptor, &tensor));
  return tensor;
}

/* The runs; how many bytes they copied, as the ledger has them. */
static uint64_t consume(const Model* model, const OrtValue* input, OrtValue* output, TenonTimeline* timeline,
                        const TenonCopyLedgerApi* copies) {
  OrtRunOptions* options = NULL;
  TenonCopyLedger* ledger = NULL;
  const TenonCopyRecord* records = NULL;
  size_t count = 0;
  uint64_t bytes = 0;
  check("CreateRunOptions", ort->CreateRunOptions(&options));
  check("AddRunConfigEntry", ort->AddRunConfigEntry(options, "tenon.timeout_ms", "30000"));
  check("CreateLedger", copies->CreateLedger(&ledger));
  check("SetRunLedger", copies->SetRunLedger(options, ledger));
  for (int frame = 0; frame < kFrames; ++frame) {
    const uint64_t turn = 2 * (uint64_t)frame;
    const TenonFence ready = {timeline, turn + 1}, done = {timeline, turn + 2};
    check("SetRunFences", timelines->SetRunFences(options, &ready, 1, &done, 1));
    OrtStatus* ran = ort->Run(model->session, options, (const char* const*)&model->input_name, &input, 1,
                              (const char* const*)&model->output_name, 1, &output);
    if (ran != NULL) {
      char what[64];
      const int gone = ort->GetErrorCode(ran) == ORT_DEVICE_RESET;
      snprintf(what, sizeof(what), gone ? "the producer is gone at frame %d" : "frame %d", frame);
      check(what, ran);
    }
  }
  check("GetRecords", copies->GetRecords(ledger, &records, &count));
  for (size_t i = 0; i < count; ++i) {
    printf("\"%s\" copied, %" PRIu64 " bytes: %s\n", records[i].name, records[i].bytes, records[i].reason);
    bytes += records[i].bytes;
  }
  copies->ReleaseLedger(ledger);
  ort->ReleaseRunOptions(options);
  return bytes;
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: shared_frame MODEL [DIM=N]... [--die-at FRAME]\n");
    return 2;
  }
  ort = OrtGetApiBase()->GetApi(ORT_API_VERSION);
  if (ort == NULL) fail("OrtGetApiBase", "the library is older than this program's headers");
  const TenonGetTimelineApiFn get_timelines =
      (TenonGetTimelineApiFn)ort->GetExperimentalFunction(TENON_GET_TIMELINE_API);
  const TenonGetCopyLedgerApiFn get_copies =
      (TenonGetCopyLedgerApiFn)ort->GetExperimentalFunction(TENON_GET_COPY_LEDGER_API);
  if (get_timelines == NULL || get_copies == NULL) fail("GetExperimentalFunction", "the host is not Tenon's");
  timelines = get_timelines(TENON_TIMELINE_API_VERSION);
  const TenonCopyLedgerApi* copies = get_copies(TENON_COPY_LEDGER_API_VERSION);

  /* The other process comes first: fork copies no threads, and an env may have some. */
  int channel[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) != 0) fail_errno("socketpair");
  const pid_t producer = fork();
  if (producer < 0) fail_errno("fork");
  if (producer == 0) {
    close(channel[0]);
    return produce(channel[1]);
  }
  close(channel[1]);

  OrtEnv* env = NULL;
  OrtSessionOptions* options = NULL;
  Layout layout = {0, 0, 0, -1};
  check("CreateEnv", ort->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "shared_frame", &env));
  check("CreateSessionOptions", ort->CreateSessionOptions(&options));
  /* A copy that a run would need is an error. */
  check("AddSessionConfigEntry", ort->AddSessionConfigEntry(options, "tenon.disallow_copies", "1"));
  for (int i = 2; i < argc; ++i) {
    if (strcmp(argv[i], "--die-at") != 0)
      fix_dimension(options, argv[i]);
    else if (++i < argc)
      layout.die_at = whole_number(argv[i], argv[i]);
    else
      fail("--die-at", "is not followed by a frame");
  }
  Model model = load(env, options, argv[1]);
  layout.input_bytes = model.input.bytes;
  layout.output_offset = (layout.input_bytes + 4095) / 4096 * 4096;
  layout.output_bytes = model.output.bytes;

  TenonTimeline* timeline = NULL;
  int32_t timeline_fd = -1;
  const int memory_fd = make_memory(total_bytes(&layout));
  check("CreateTimeline", timelines->CreateTimeline("frames", 0, &timeline));
  check("ExportTimeline", timelines->ExportTimeline(timeline, &timeline_fd));
  send_layout(channel[0], layout, memory_fd, timeline_fd);
  close(timeline_fd);

  const OrtInteropApi* interop = ort->GetInteropApi();
  OrtExternalResourceImporter* importer = NULL;
  OrtExternalMemoryHandle* memory = NULL;
  TenonExternalMemoryInfo info;
  OrtExternalMemoryDescriptor descriptor;
  memset(&info, 0, sizeof(info));
  info.version = TENON_EXTERNAL_MEMORY_INFO_VERSION;
  info.kind = TENON_EXTERNAL_MEMORY_MAPPABLE_FD;
  info.handle.fd = memory_fd;
  memset(&descriptor, 0, sizeof(descriptor));
  descriptor.version = ORT_API_VERSION;
  descriptor.handle_type = (OrtExternalMemoryHandleType)TENON_EXTERNAL_MEMORY_MAPPABLE_FD;
  descriptor.native_handle = &info;
  descriptor.size_bytes = total_bytes(&layout);
  check("CreateExternalResourceImporterForDevice",
        interop->CreateExternalResourceImporterForDevice(cpu_device(env), &importer));
  check("ImportMemory", interop->ImportMemory(importer, &descriptor, &memory)); /* memory_fd is the import's now */
  OrtValue* input = tensor_at(interop, importer, memory, &model.input, 0);
  OrtValue* output = tensor_at(interop, importer, memory, &model.output, layout.output_offset);

  const uint64_t bytes_copied = consume(&model, input, output, timeline, copies);
  int status = 0;
  waitpid(producer, &status, 0);
  printf("consumer: %d frames of %" PRIu64 " bytes in and %" PRIu64 " bytes out, %" PRIu64 " bytes copied\n", kFrames,
         layout.input_bytes, layout.output_bytes, bytes_copied);

  OrtAllocator* allocator = NULL;
  check("GetAllocatorWithDefaultOptions", ort->GetAllocatorWithDefaultOptions(&allocator));
  allocator->Free(allocator, model.input_name);
  allocator->Free(allocator, model.output_name);
  ort->ReleaseValue(input);
  ort->ReleaseValue(output);
  interop->ReleaseExternalMemoryHandle(memory);
  interop->ReleaseExternalResourceImporter(importer);
  timelines->ReleaseTimeline(timeline);
  ort->ReleaseSession(model.session);
  ort->ReleaseSessionOptions(options);
  ort->ReleaseEnv(env);
  return bytes_copied == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}
