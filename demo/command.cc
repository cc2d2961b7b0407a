// tenon demo: runs the main job and prints its results.
#include "demo/demo.h"

#include <tenon/ep.h>
#include <tenon/session.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "demo/status.h"
#include "programs/commands.h"
#include "programs/output.h"

namespace tenon::demo {
namespace {

constexpr const char* kCudaEp = "TenonCudaExecutionProvider";

struct DemoArguments {
  DemoOptions options;
  std::string device = "cpu";  // what the model runs on
  std::string plugin;          // the EP library of "cuda"; "": beside this program
  bool json = false;
};

struct Quantiles {
  double p50 = 0;
  double p99 = 0;
};

// Over all frames but the first, which plans (unless it is the only one).
template <typename Time>
Quantiles quantiles(const DemoReport& report, const Time& time) {
  std::vector<double> values;
  for (const FrameReport& frame : report.frames)
    if (frame.frame > 1 || report.frames.size() == 1) values.push_back(time(frame.times));
  std::sort(values.begin(), values.end());
  return {quantile(values, 0.5), quantile(values, 0.99)};
}

struct Row {
  const char* name;
  const char* key;
  Quantiles quantiles;
};

std::vector<Row> time_rows(const DemoReport& report) {
  return {{"wait", "wait_ms", quantiles(report, [](const FrameTimes& t) { return t.wait; })},
          {"infer", "infer_ms", quantiles(report, [](const FrameTimes& t) { return t.infer; })},
          {"signal", "signal_ms", quantiles(report, [](const FrameTimes& t) { return t.signal; })},
          {"latency", "latency_ms", quantiles(report, [](const FrameTimes& t) { return t.latency(); })},
          {"find boxes", "postprocess_ms", quantiles(report, [](const FrameTimes& t) { return t.postprocess; })},
          {"run's wait", "run_wait_ms", quantiles(report, [](const FrameTimes& t) { return t.run_wait; })}};
}

nlohmann::ordered_json boxes_json(const std::vector<Box>& boxes) {
  auto list = nlohmann::ordered_json::array();
  for (const Box& box : boxes) list.push_back({box.x0, box.y0, box.x1, box.y1});
  return list;
}

void print_report_json(const DemoReport& report, const DemoOptions& options) {
  const Quantiles latency = quantiles(report, [](const FrameTimes& t) { return t.latency(); });
  nlohmann::ordered_json object = {{"frames", report.frames.size()},
                                   {"bytes_copied", report.bytes_copied},
                                   {"p50_ms", latency.p50},
                                   {"p99_ms", latency.p99},
                                   {"boxes", report.boxes()},
                                   {"model", report.model},
                                   {"memory", report.memory},
                                   {"fence", report.fence},
                                   {"fps", report.frames_per_second()},
                                   {"first_frame_ms", report.frames[0].times.latency()},
                                   {"lines_expected", report.lines_expected()},
                                   {"lines_matched", report.lines_matched()},
                                   {"match_rate", report.match_rate()},
                                   {"device", report.device},
                                   {"ep_name", report.ep_name},
                                   {"ep_device", report.ep_device},
                                   {"in_process", options.in_process},
                                   {"buffers", options.buffers},
                                   {"producer_pid", report.producer_pid},
                                   {"offset_bytes", report.offset_bytes}};
  for (const Row& row : time_rows(report)) object[row.key] = {{"p50", row.quantiles.p50}, {"p99", row.quantiles.p99}};
  object["copies"] = nlohmann::ordered_json::array();
  for (const CopyLine& copy : report.copies) object["copies"].push_back({{"what", copy.text}, {"bytes", copy.bytes}});
  object["per_frame"] = nlohmann::ordered_json::array();
  for (const FrameReport& frame : report.frames) {
    object["per_frame"].push_back({{"frame", frame.frame},
                                   {"wait_ms", frame.times.wait},
                                   {"run_wait_ms", frame.times.run_wait},
                                   {"infer_ms", frame.times.infer},
                                   {"signal_ms", frame.times.signal},
                                   {"expected", boxes_json(frame.expected)},
                                   {"found", boxes_json(frame.found)},
                                   {"matched", frame.matched}});
  }
  print_json(object);
}

void print_report(const DemoReport& report, const DemoOptions& options) {
  const char* fence = report.fence == "vulkan_timeline" ? "Vulkan's timelines, imported by fd"
                      : report.fence == "shared_timeline"
                          ? "timelines in shared memory, moved along with Vulkan's (the driver exports none)"
                          : "callbacks on the application's own Vulkan device";
  print("Text on Vulkan frames, found in place\n");
  print("  model      {}\n", report.model);
  if (!report.ep_device.empty()) print("  run by     {} on {}\n", report.ep_name, report.ep_device);
  print("  drawn by   {}, {}\n", report.device,
        options.in_process ? "in this process" : format("in process {}", report.producer_pid));
  print("  memory     {} x (frame {}, map {}), imported as {} at offset {}\n", options.buffers,
        bytes_text(736 * 960 * 12), bytes_text(736 * 960 * 4), report.memory, report.offset_bytes);
  print("  fence      {}\n", fence);
  print("  frames     {}, {:.2f} per second; the first, which plans, took {:.0f} ms\n", report.frames.size(),
        report.frames_per_second(), report.frames[0].times.latency());
  print("                   p50        p99\n");
  for (const Row& row : time_rows(report)) {
    if (std::string_view(row.key) == "run_wait_ms") continue;
    print("  {:<10} {:>10} {:>10}\n", row.name, time_text(row.quantiles.p50), time_text(row.quantiles.p99));
  }
  print("  boxes      {} found; {} of {} lines are where they were drawn\n", report.boxes(), report.lines_matched(),
        report.lines_expected());
  print("  copied     {} bytes between drawn frame, model and map\n", report.bytes_copied);
  if (!report.ep_device.empty())
    print("  The device waits for the drawn frame itself: \"infer\" has that wait and both crossings in it.\n");
  for (const CopyLine& copy : report.copies) print("    {} bytes of {}\n", copy.bytes, copy.text);
  if (!options.png.empty()) print("  picture    {}\n", options.png);
}

// The CUDA EP's library: beside this program, or where an installation has it.
std::string find_plugin() {
  std::error_code unknown;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path();
  for (const std::filesystem::path& folder : {program, program.parent_path() / "lib", program / TENON_PLUGIN_FOLDER}) {
    const std::filesystem::path library = folder / "libtenon_ep_cuda.so";
    if (std::filesystem::exists(library, unknown)) return library.string();
  }
  return "";
}

Status load_cuda(const std::string& plugin) {
  const std::string library = plugin.empty() ? find_plugin() : plugin;
  if (library.empty())
    return not_found(
        "The CUDA EP (libtenon_ep_cuda.so) is neither beside this program nor in ../lib or {}; --plugin says where it "
        "is. A build without a CUDA toolkit leaves it out.",
        TENON_PLUGIN_FOLDER);
  TENON_TRY(register_ep_library("cuda", library));
  for (const EpDevice& device : ep_devices())
    if (device.ep_name == kCudaEp) return {};
  return not_found(
      "{} offers no device on this machine: it needs an NVIDIA GPU of compute capability 8.0 or newer and a driver of "
      "CUDA 13. The log says what is missing.",
      kCudaEp);
}

Status run(const DemoArguments& arguments) {
  DemoOptions options = arguments.options;
  if (arguments.device != "cuda" && !arguments.plugin.empty())
    return invalid_argument("--plugin is the CUDA EP's library, which --device {} does not use.", arguments.device);
  if (arguments.device == "cuda") {
    TENON_TRY_WITH_CONTEXT(load_cuda(arguments.plugin), "while preparing --device cuda");
    options.ep_name = kCudaEp;
  }
  Result<DemoReport> report = Status();
  {
    Progress progress("demo", options.frames);
    report = run_demo(options, [&progress](uint64_t frame) { progress.update(frame); });
  }
  TENON_TRY(Status(report.status()));
  if (arguments.json)
    print_report_json(*report, options);
  else
    print_report(*report, options);
  if (report->match_rate() < kLeastMatchRate) {
    return device_error(
        "Only {} of {} lines were found where they were drawn: the model did not read the frames that the "
        "Vulkan side drew, or not when they were finished.",
        report->lines_matched(), report->lines_expected());
  }
  return {};
}

void add_producer(CLI::App& app, Action* action) {
  CLI::App* command = app.add_subcommand("demo-producer", "The demo's Vulkan side; started by the demo");
  command->group("");  // not shown
  const auto socket = std::make_shared<int>(-1);
  command->add_option("--socket", *socket)->required();
  command->callback([socket, action] {
    *action = [socket]() -> Status {
      // The producer sends its error to the demo over the socket, and the demo prints it.
      return Status(run_producer_process(*socket).code(), "");
    };
  });
}

}  // namespace
}  // namespace tenon::demo

namespace tenon::programs {

void add_demo(CLI::App& app, Action* action) {
  CLI::App* command = app.add_subcommand("demo", "Finds text on frames that Vulkan draws, without a copy");
  const auto arguments = std::make_shared<demo::DemoArguments>();
  demo::DemoOptions& options = arguments->options;
  options.model = "build/models/ppocr_v6_det.onnx";
  command->add_option("--model", options.model, "Text detector of the PP-OCR family")->capture_default_str();
  command->add_option("--frames", options.frames, "Frames to draw")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--buffers", options.buffers, "Frames in flight")->check(CLI::Range(1, 3))->capture_default_str();
  command->add_option("--threads", options.threads, "Threads of the model; 0: one for each CPU")
      ->check(CLI::Range(0, 1024));
  command->add_flag("--in-process", options.in_process, "Draw in this process instead of another one");
  command->add_option("--device", arguments->device, "What the model runs on: cuda draws into the GPU's own memory")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command->add_option("--plugin", arguments->plugin,
                      "The CUDA EP's library; default: libtenon_ep_cuda.so beside tenon");
  command->add_option("--vulkan-device", options.device, "A part of the Vulkan device's name; default: the best one");
  command->add_option("--png", options.png, "Write the last frame with its boxes to this file");
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->add_option("--delay-ms", options.delay_ms, "Draw each frame so much later")->check(CLI::Range(0, 10'000));
  // For tests.
  command->add_option("--dump", options.dump_directory, "Write each frame's input and map as .npy files")->group("");
  command->add_flag("--skip-wait", options.skip_wait, "Run without waiting for the frame")->group("");
  command->add_option("--kill-producer-at", options.kill_producer_at, "End the Vulkan side before this frame")
      ->group("");
  command->callback([arguments, action] { *action = [arguments] { return demo::run(*arguments); }; });
  demo::add_producer(app, action);
}

}  // namespace tenon::programs
