// Runs a model in place on frames that another process writes: one memfd holds input and output, one timeline in shared
// memory gives the order. The ledger shows 0 bytes copied.
//
//   producer (child):   write frame k, signal 2k+1, wait for 2k+2, read the result
//   consumer (parent):  wait for 2k+1, run with input and output bound to the memfd, signal 2k+2
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <tenon/importer.h>
#include <tenon/session.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr int kFrames = 20;
constexpr int64_t kTimeoutNs = 30'000'000'000;

[[noreturn]] void fail(const tenon::Status& status) {
  std::fprintf(stderr, "shared_frame: %s\n", status.to_string().c_str());
  std::exit(1);
}

void check(const tenon::Status& status) {
  if (!status.ok()) fail(status);
}

template <typename T>
T check(tenon::Result<T> result) {
  if (!result.ok()) fail(result.status());
  return *std::move(result);
}

// Both processes agree on this.
struct Layout {
  tenon::Shape input_shape;
  tenon::Shape output_shape;
  size_t input_bytes = 0;
  size_t output_offset = 0;
  size_t output_bytes = 0;
  size_t total_bytes() const { return output_offset + output_bytes; }
};

// A trial run in ordinary memory tells how large the output is.
Layout find_layout(tenon::Session& session) {
  if (session.inputs().size() != 1 || session.inputs()[0].type != tenon::DataType::kFloat)
    fail({tenon::StatusCode::kUnsupported, "This example takes a model of one float32 input."});
  if (session.outputs()[0].type != tenon::DataType::kFloat)
    fail({tenon::StatusCode::kUnsupported, "This example takes a model whose first output is float32."});
  Layout layout;
  std::vector<int64_t> dims = session.inputs()[0].dims;
  std::replace_if(dims.begin(), dims.end(), [](int64_t dim) { return dim < 0; }, 1);
  layout.input_shape = tenon::Shape(dims);
  tenon::Binding binding = check(session.make_binding());
  tenon::Tensor input = check(tenon::Tensor::allocate(tenon::DataType::kFloat, layout.input_shape));
  check(binding.bind_input(session.inputs()[0].name, input));
  check(session.run(binding));
  const tenon::Tensor output = binding.output(size_t{0});
  layout.output_shape = output.shape();
  layout.input_bytes = input.size_bytes();
  layout.output_offset = (layout.input_bytes + 4095) / 4096 * 4096;
  layout.output_bytes = output.size_bytes();
  return layout;
}

// The other program: it knows a file descriptor, the layout and the timeline, and nothing of models.
int produce(int memory_fd, int timeline_fd, const Layout& layout) {
  auto timeline = check(tenon::SharedTimeline::open("frames", timeline_fd));
  void* mapped = ::mmap(nullptr, layout.total_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
  if (mapped == MAP_FAILED) return 1;
  auto* input = static_cast<float*>(mapped);
  auto* output = reinterpret_cast<const float*>(static_cast<const char*>(mapped) + layout.output_offset);
  for (int frame = 0; frame < kFrames; ++frame) {
    const auto turn = static_cast<uint64_t>(2 * frame);
    std::fill_n(input, layout.input_bytes / sizeof(float), static_cast<float>(frame) / kFrames);
    check(timeline->signal(turn + 1));
    check(timeline->wait(turn + 2, kTimeoutNs));
    const float largest = *std::max_element(output, output + layout.output_bytes / sizeof(float));
    if (frame % 5 == 0) std::printf("producer: frame %d: largest output value %g\n", frame, largest);
  }
  ::munmap(mapped, layout.total_bytes());
  std::fflush(stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: shared_frame MODEL [DIM=N]...\n");
    return 2;
  }
  tenon::SessionOptions options;
  options.threads = 1;             // no thread of its own: this program forks
  options.disallow_copies = true;  // a copy that a run would need is an error
  for (int i = 2; i < argc; ++i) {
    const std::string text = argv[i];
    const size_t equals = text.find('=');
    if (equals == std::string::npos) fail({tenon::StatusCode::kInvalidArgument, "\"" + text + "\" is no DIM=N."});
    const char *first = text.data() + equals + 1, *last = text.data() + text.size();
    int64_t size = 0;
    const auto [stop, error] = std::from_chars(first, last, size);
    if (error != std::errc{} || stop != last || size < 0)
      fail({tenon::StatusCode::kInvalidArgument, "\"" + text + "\" gives no whole number from 0 on."});
    options.dims[text.substr(0, equals)] = size;
  }
  auto session = check(tenon::Session::load(argv[1], options));
  const Layout layout = find_layout(*session);

  // Sealed, so that neither side can cut the memory away under the other.
  tenon::OwnedHandle memfd = tenon::OwnedHandle::take_fd(::memfd_create("frame", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memfd.valid() || ::ftruncate(memfd.fd(), static_cast<off_t>(layout.total_bytes())) != 0 ||
      ::fcntl(memfd.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    std::perror("shared_frame: memfd");
    return 1;
  }
  auto timeline = check(tenon::SharedTimeline::create("frames"));

  const pid_t producer = ::fork();
  if (producer == 0) ::_exit(produce(memfd.fd(), timeline->fd(), layout));

  auto memory = check(tenon::Importer::host().import_memory(
      memfd, {.kind = tenon::ExternalMemoryKind::kMappableFd, .size_bytes = layout.total_bytes(), .name = "frame"}));
  tenon::Binding binding = check(session->make_binding());
  check(binding.bind_input(session->inputs()[0].name, check(tenon::ExternalMemory::create_tensor(
                                                          memory, tenon::DataType::kFloat, layout.input_shape))));
  check(binding.bind_output(session->outputs()[0].name,
                            check(tenon::ExternalMemory::create_tensor(memory, session->outputs()[0].type,
                                                                       layout.output_shape, layout.output_offset))));
  tenon::RunReport report;
  size_t bytes_copied = 0;
  for (int frame = 0; frame < kFrames; ++frame) {
    const auto turn = static_cast<uint64_t>(2 * frame);
    const tenon::Fence ready{timeline, turn + 1}, done{timeline, turn + 2};
    check(session->run(binding, {.waits = {ready}, .signals = {done}, .timeout_ns = kTimeoutNs, .report = &report}));
    for (const tenon::CopyRecord& copy : report.copies.records)
      std::printf("frame %d: \"%s\" copied, %zu bytes: %s\n", frame, copy.what, copy.bytes,
                  std::string(tenon::copy_reason_name(copy.reason)).c_str());
    bytes_copied += report.copies.bytes_copied();
  }
  int status = 0;
  ::waitpid(producer, &status, 0);
  std::printf("consumer: %d frames of %zu bytes in and %zu bytes out, %zu bytes copied\n", kFrames, layout.input_bytes,
              layout.output_bytes, bytes_copied);
  return bytes_copied == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}
