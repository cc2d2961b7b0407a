// The Tenon side of the demo: imports the Vulkan side's buffers, and runs the model on them frame by frame.
#include "demo/demo.h"

#include <tenon/importer.h>
#include <tenon/session.h>

#include <algorithm>
#include <optional>

#include "demo/break_even.h"
#include "demo/page.h"
#include "demo/producer.h"
#include "demo/producer_link.h"
#include "programs/clock.h"

namespace tenon::demo {
namespace {

constexpr int64_t kRunTimeoutNs = 20'000'000'000;

double ms_between(int64_t begin_ns, int64_t end_ns) { return static_cast<double>(end_ns - begin_ns) / 1e6; }

Result<StartMessage> start_message(const DemoOptions& options) {
  if (options.frames == 0) return invalid_argument("The demo needs at least one frame.");
  if (options.buffers < 1 || options.buffers > kMaxBuffers)
    return invalid_argument("{} buffers are asked for; 1 to {} work.", options.buffers, kMaxBuffers);
  if (options.delay_ms < 0 || options.delay_ms > 10'000)
    return invalid_argument("A delay of {} ms is outside 0 to 10000 ms.", options.delay_ms);
  StartMessage start;
  start.frames = options.frames;
  start.kill_at = options.kill_producer_at;
  start.buffers = options.buffers;
  start.delay_ms = options.delay_ms;
  start.on_device = options.ep_name.empty() ? 0 : 1;
  if (!start.device.set(options.device)) return invalid_argument("The device's name is too long.");
  if (!start.png.set(options.png)) return invalid_argument("The path of the picture is too long.");
  if (!start.dump_directory.set(options.dump_directory))
    return invalid_argument("The path of the dump folder is too long.");
  return start;
}

// One buffer pair as the session sees it.
struct Slot {
  Tensor input;
  Tensor output;
  std::optional<Binding> binding;
};

Result<Tensor> import_tensor(Importer& importer, BufferHandle& buffer, const ProducerSide& side,
                             const std::string& name, bool writable, size_t size_bytes, const Shape& shape) {
  ExternalMemoryDescriptor descriptor;
  descriptor.kind = buffer.kind;
  descriptor.size_bytes = size_bytes;
  descriptor.offset_bytes = buffer.offset_bytes;
  descriptor.writable = writable;
  descriptor.name = name;
  descriptor.dedicated = side.on_device;
  descriptor.device_uuid = side.device_uuid;
  TENON_TRY_ASSIGN(const auto memory, importer.import_memory(buffer.handle, descriptor));
  return ExternalMemory::create_tensor(memory, DataType::kFloat, shape);
}

// A timeline of the Vulkan side that the EP's device waits for and signals; the host looks at it through Vulkan.
Result<std::shared_ptr<Timeline>> import_timeline(Importer& importer, OwnedHandle& fd,
                                                  const std::shared_ptr<Timeline>& on_host, const std::string& name) {
  TimelineCallbacks callbacks;
  callbacks.value = [on_host] { return on_host->value(); };
  callbacks.wait = [on_host](uint64_t value, int64_t timeout_ns) { return on_host->wait(value, timeout_ns); };
  callbacks.signal = [on_host](uint64_t value) { return on_host->signal(value); };
  return importer.import_timeline(fd, TimelineKind::kVulkanTimelineFd, name, std::move(callbacks));
}

Status check_model(const Session& session) {
  const auto fits = [](std::span<const ValueInfo> values) {
    return values.size() == 1 && values[0].type == DataType::kFloat &&
           (!values[0].has_shape || values[0].dims.size() == 4);
  };
  if (!fits(session.inputs()) || !fits(session.outputs()))
    return invalid_argument(
        "The demo needs a detector with one image as input and one map as output (float32, rank 4).");
  return {};
}

// `importer`: of the device that the model runs on.
Result<std::vector<Slot>> make_slots(Session& session, ProducerSide& side, Importer& importer) {
  const std::string& input_name = session.inputs()[0].name;
  const std::string& output_name = session.outputs()[0].name;
  std::vector<Slot> slots;
  for (size_t i = 0; i < side.inputs.size(); ++i) {
    Slot slot;
    const Shape input_shape{1, kFrameChannels, kFrameHeight, kFrameWidth}, map_shape{1, 1, kFrameHeight, kFrameWidth};
    TENON_TRY_ASSIGN(slot.input, import_tensor(importer, side.inputs[i], side, input_name, side.on_device,
                                               side.on_device ? side.input_bytes : kInputBytes, input_shape));
    TENON_TRY_ASSIGN(slot.output, import_tensor(importer, side.outputs[i], side, output_name, true,
                                                side.on_device ? side.output_bytes : kMapBytes, map_shape));
    TENON_TRY_ASSIGN(slot.binding, session.make_binding());
    TENON_TRY(slot.binding->bind_input(input_name, slot.input));
    TENON_TRY(slot.binding->bind_output(output_name, slot.output));
    slots.push_back(std::move(slot));
  }
  return slots;
}

const char* fence_name(FenceRoute route) {
  switch (route) {
    case FenceRoute::kExported:
      return "vulkan_timeline";
    case FenceRoute::kBridged:
      return "shared_timeline";
    case FenceRoute::kCallbacks:
      return "callback_timeline";
  }
  return "unknown";
}

const char* memory_name(ExternalMemoryKind kind) {
  return kind == ExternalMemoryKind::kVulkanOpaqueFd ? "vulkan_opaque_fd" : "mappable_fd";
}

void add_copies(const CopyLedger& ledger, DemoReport* report) {
  report->bytes_copied += ledger.bytes_copied();
  for (const CopyRecord& record : ledger.records) {
    const std::string text = format("{} from {} to {}: {}", record.what, record.source.to_string(),
                                    record.target.to_string(), copy_reason_name(record.reason));
    const auto known = std::find_if(report->copies.begin(), report->copies.end(),
                                    [&text](const CopyLine& line) { return line.text == text; });
    if (known != report->copies.end())
      known->bytes += record.bytes;
    else
      report->copies.push_back({text, record.bytes});
  }
}

FrameReport frame_report(const FrameMessage& message, const FrameTimes& run_times, int64_t infer_begin_ns,
                         int64_t infer_end_ns) {
  FrameReport frame;
  frame.frame = message.frame;
  frame.times = run_times;
  frame.times.wait = ms_between(message.begin_ns, infer_begin_ns);
  frame.times.infer = ms_between(infer_begin_ns, infer_end_ns);
  frame.times.signal = ms_between(infer_end_ns, message.seen_ns);
  frame.times.postprocess = ms_between(message.seen_ns, message.found_ns);
  frame.expected.assign(message.expected, message.expected + std::clamp(message.expected_count, 0, kMaxBoxes));
  frame.found.assign(message.found, message.found + std::clamp(message.found_count, 0, kMaxBoxes));
  frame.matched = count_matches(frame.expected, frame.found, kMatchOverlap);
  return frame;
}

// The Tenon side's times of a frame that the Vulkan side has not reported yet.
struct PendingFrame {
  FrameTimes times;
  int64_t infer_begin_ns = 0;
  int64_t infer_end_ns = 0;
};

Result<PendingFrame> run_frame(Session& session, Slot& slot, const ProducerSide& side, uint64_t frame, bool skip_wait,
                               RunReport* run, DemoReport* report) {
  const Fence drawn{side.drawn, frame};
  const Fence released{side.released, frame};
  RunOptions options;
  if (!skip_wait) options.waits = std::span(&drawn, 1);
  options.signals = std::span(&released, 1);
  options.timeout_ns = kRunTimeoutNs;
  options.report = run;
  const int64_t start_ns = now_ns();
  TENON_TRY(session.run(*slot.binding, options));
  PendingFrame pending;
  pending.infer_begin_ns = start_ns + run->wait_ns;
  pending.infer_end_ns = pending.infer_begin_ns + run->infer_ns;
  pending.times.run_wait = static_cast<double>(run->wait_ns) / 1e6;
  add_copies(run->copies, report);
  return pending;
}

// Where the model runs on the device the frame is queued there, fences and all, before it is drawn; the host then looks
// for the released frame as the Vulkan side does.
Result<PendingFrame> queue_frame(Session& session, Slot& slot, const ProducerSide& side, const Fence& drawn,
                                 const Fence& released, bool skip_wait, RunReport* run, DemoReport* report) {
  RunOptions options;
  if (!skip_wait) options.waits = std::span(&drawn, 1);
  options.signals = std::span(&released, 1);
  options.report = run;
  options.synchronize = false;
  PendingFrame pending;
  pending.infer_begin_ns = now_ns();
  Status done = session.run(*slot.binding, options);
  if (done.ok()) done = side.released->wait(released.value, kRunTimeoutNs);
  if (!done.ok()) {
    // The device may wait for a frame that nobody draws any more.
    (void)side.drawn->signal(drawn.value);
    (void)session.synchronize();
    return done;
  }
  pending.infer_end_ns = now_ns();
  add_copies(run->copies, report);
  return pending;
}

}  // namespace

double DemoReport::frames_per_second() const {
  return frames.size() > 1 && seconds > 0 ? static_cast<double>(frames.size() - 1) / seconds : 0;
}

size_t DemoReport::lines_expected() const {
  size_t sum = 0;
  for (const FrameReport& frame : frames) sum += frame.expected.size();
  return sum;
}

size_t DemoReport::lines_matched() const {
  size_t sum = 0;
  for (const FrameReport& frame : frames) sum += static_cast<size_t>(frame.matched);
  return sum;
}

size_t DemoReport::boxes() const {
  size_t sum = 0;
  for (const FrameReport& frame : frames) sum += frame.found.size();
  return sum;
}

double DemoReport::match_rate() const {
  const size_t expected = lines_expected();
  return expected > 0 ? static_cast<double>(lines_matched()) / static_cast<double>(expected) : 0;
}

Result<DemoReport> run_demo(const DemoOptions& options, const std::function<void(uint64_t frame)>& on_frame) {
  TENON_TRY_ASSIGN(const StartMessage start, start_message(options));
  DemoReport report;
  report.ep_name = options.ep_name.empty() ? "CPUExecutionProvider" : options.ep_name;
  if (!options.ep_name.empty()) {
    TENON_TRY_ASSIGN(report.ep_device, ep_device_name(options.ep_name));
  }
  // The Vulkan side starts up while the model is loaded.
  TENON_TRY_ASSIGN(const std::unique_ptr<ProducerLink> link,
                   options.in_process ? make_thread_link(start) : make_process_link(start));
  SessionOptions session_options;
  session_options.threads = options.threads;
  if (!options.ep_name.empty()) session_options.eps = {{.ep_name = options.ep_name}};
  TENON_TRY_ASSIGN(const std::shared_ptr<Session> session, Session::load(options.model, session_options));
  TENON_TRY(check_model(*session));
  TENON_TRY_ASSIGN(ProducerSide side, link->connect());

  report.model = options.model;
  report.device = side.device;
  report.memory = memory_name(side.inputs[0].kind);
  report.fence = fence_name(side.fence);
  report.offset_bytes = side.inputs[0].offset_bytes;
  report.producer_pid = side.pid;
  std::shared_ptr<Importer> device;
  std::shared_ptr<Timeline> drawn = side.drawn, released = side.released;
  if (side.on_device) {
    TENON_TRY_ASSIGN(device, Importer::create(options.ep_name));
    TENON_TRY_ASSIGN(drawn, import_timeline(*device, side.drawn_fd, side.drawn, "drawn frames"));
    TENON_TRY_ASSIGN(released, import_timeline(*device, side.released_fd, side.released, "released frames"));
  }
  TENON_TRY_ASSIGN(std::vector<Slot> slots, make_slots(*session, side, device != nullptr ? *device : Importer::host()));

  RunReport run;
  std::vector<PendingFrame> pending;
  int64_t first_end_ns = 0;
  int64_t last_end_ns = 0;
  const auto collect = [&]() -> Status {
    const size_t index = report.frames.size();
    TENON_TRY_ASSIGN(const FrameMessage message, link->next_frame());
    if (message.frame != index + 1)
      return internal_error("The Vulkan side reports frame {} after frame {}.", message.frame, index);
    report.frames.push_back(
        frame_report(message, pending[index].times, pending[index].infer_begin_ns, pending[index].infer_end_ns));
    if (message.frame == 1) first_end_ns = message.found_ns;
    last_end_ns = message.found_ns;
    if (on_frame) on_frame(message.frame);
    return {};
  };
  for (uint64_t frame = 1; frame <= options.frames; ++frame) {
    Slot& slot = slots[frame % slots.size()];
    Result<PendingFrame> done =
        side.on_device
            ? queue_frame(*session, slot, side, {drawn, frame}, {released, frame}, options.skip_wait, &run, &report)
            : run_frame(*session, slot, side, frame, options.skip_wait, &run, &report);
    if (!done.ok())
      return link->explain(std::move(done).status()).with_context(format("while running the model on frame {}", frame));
    pending.push_back(*done);
    // Reports are read one frame late when frames overlap, so that reading them delays nothing.
    if (frame >= slots.size()) TENON_TRY_WITH_CONTEXT(collect(), format("after frame {}", frame));
  }
  while (report.frames.size() < options.frames) TENON_TRY_WITH_CONTEXT(collect(), "after the last frame");
  TENON_TRY(link->finish());
  report.seconds = ms_between(first_end_ns, last_end_ns) / 1e3;
  return report;
}

}  // namespace tenon::demo
