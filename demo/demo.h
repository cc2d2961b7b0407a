// The main job: a Vulkan program draws frames of moving text as the model's input, Tenon finds the text in place, and
// the Vulkan program reads the result in place.
//
// Two processes by default: this one runs Tenon, the other one (the same program, started with a hidden command) is the
// Vulkan side. Buffers travel as file descriptors, order is kept by timelines.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "demo/box.h"
#include "demo/status.h"

namespace tenon::demo {

struct DemoOptions {
  std::string model;
  uint64_t frames = 60;
  int buffers = 1;          // frames in flight, 1 to 3: 1 shows the latency, more overlap drawing and inference
  int threads = 0;          // of the session; 0: all
  bool in_process = false;  // draw on a thread of this process
  std::string device;       // a part of the Vulkan device's name; "": the best one
  std::string ep_name;      // the model runs on this EP's first device, in the Vulkan side's own memory; "": the CPU EP
  std::string png;          // where to write the last frame with its boxes; "": nowhere
  // For tests.
  std::string dump_directory;     // writes each frame's input and map there, as N.input.npy and N.map.npy
  int delay_ms = 0;               // the Vulkan side is late by so much in every frame
  bool skip_wait = false;         // runs the model without waiting for the frame
  uint64_t kill_producer_at = 0;  // the Vulkan side's process ends itself before it draws this frame (1, 2, ...)
};

// The times of one frame, in milliseconds. wait + infer + signal is the frame's latency: from the moment at which the
// Vulkan side begins it until it sees the fence behind the result.
struct FrameTimes {
  double wait = 0;  // drawing, and until Tenon sees the frame's fence
  double infer = 0;
  double signal = 0;       // until the Vulkan side sees the fence
  double postprocess = 0;  // the Vulkan side's host code, from the map to boxes
  double run_wait = 0;     // how long Tenon's run waited
  double latency() const { return wait + infer + signal; }
};

struct FrameReport {
  uint64_t frame = 0;
  FrameTimes times;
  std::vector<Box> expected;  // wholly visible lines
  std::vector<Box> found;
  int matched = 0;  // expected lines that a found box overlaps by at least kMatchOverlap
};
inline constexpr float kMatchOverlap = 0.5F;
// Of all lines, over all frames: what a working demo reaches.
inline constexpr double kLeastMatchRate = 0.9;

struct CopyLine {
  std::string text;  // what was copied from where to where, and why
  size_t bytes = 0;
};

struct DemoReport {
  std::string model;
  std::string device;
  std::string ep_name;      // "CPUExecutionProvider", ...
  std::string ep_device;    // "NVIDIA H200"; "" for the CPU EP
  std::string memory;       // "vulkan_opaque_fd", ...
  std::string fence;        // "vulkan_timeline", "shared_timeline", "callback_timeline"
  size_t offset_bytes = 0;  // where the first buffer begins in its fd's object
  int64_t producer_pid = 0;
  std::vector<FrameReport> frames;
  double seconds = 0;  // from the end of the first frame, which plans, to the end of the last
  size_t bytes_copied = 0;
  std::vector<CopyLine> copies;

  double frames_per_second() const;
  size_t lines_expected() const;
  size_t lines_matched() const;
  size_t boxes() const;
  double match_rate() const;
};

// Errors: what Vulkan, the importer or the session answer, with the frame in the context; kDeviceLost when the Vulkan
// side dies. Nothing is left behind: no process, no descriptor.
Result<DemoReport> run_demo(const DemoOptions& options, const std::function<void(uint64_t frame)>& on_frame = {});

// The Vulkan side's process: talks to run_demo over the socket `fd`, which it closes.
Status run_producer_process(int fd);

}  // namespace tenon::demo
