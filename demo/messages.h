// Messages between the demo's two sides. Plain structs, because both sides are the same program.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "demo/demo.h"

namespace tenon::demo {

inline constexpr int kMaxBuffers = 3;
inline constexpr int kMaxBoxes = 64;

// Text of bounded length inside a message.
template <size_t N>
struct FixedText {
  char text[N] = {};

  // False if it had to be cut.
  bool set(std::string_view value) {
    const size_t length = value.size() < N - 1 ? value.size() : N - 1;
    std::memcpy(text, value.data(), length);
    text[length] = '\0';
    return length == value.size();
  }
  std::string_view view() const { return {text, strnlen(text, N)}; }
};

// To the Vulkan side: what to draw.
struct StartMessage {
  static constexpr uint32_t kKind = 1;
  uint64_t frames = 0;
  uint64_t kill_at = 0;
  int32_t buffers = 1;
  int32_t delay_ms = 0;
  uint32_t on_device = 0;  // 1: buffers in the device's own memory, for a model that runs there
  FixedText<256> device;
  FixedText<4096> png;
  FixedText<4096> dump_directory;
};

enum class FenceRoute : uint32_t {
  kExported,   // the fds are the driver's timelines
  kBridged,    // the fds are shared-memory timelines, which the Vulkan side moves along with its own
  kCallbacks,  // one process: Tenon calls the application's own device
};

// From the Vulkan side: where everything is. File descriptors: the inputs of all buffers, their outputs, the timeline
// of drawn frames, the timeline of released ones.
struct HelloMessage {
  static constexpr uint32_t kKind = 2;
  uint32_t memory_kind = 0;  // ExternalMemoryKind
  FenceRoute fence = FenceRoute::kBridged;
  uint64_t input_offsets[kMaxBuffers] = {};
  uint64_t output_offsets[kMaxBuffers] = {};
  // In the device's own memory: the allocations' sizes, and whose they are.
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;
  uint32_t on_device = 0;
  uint8_t device_uuid[16] = {};
  FixedText<256> device;
};

// From the Vulkan side: what it found in a frame. Times are of CLOCK_MONOTONIC, in nanoseconds.
struct FrameMessage {
  static constexpr uint32_t kKind = 3;
  uint64_t frame = 0;
  int64_t begin_ns = 0;  // before drawing was submitted
  int64_t seen_ns = 0;   // the fence behind the result was seen
  int64_t found_ns = 0;  // the boxes were found
  int32_t expected_count = 0;
  int32_t found_count = 0;
  Box expected[kMaxBoxes] = {};
  Box found[kMaxBoxes] = {};
};

// From the Vulkan side: it stops, and why.
struct EndMessage {
  static constexpr uint32_t kKind = 4;
  uint32_t code = 0;  // StatusCode; kOk after the last frame
  FixedText<2048> text;
};

}  // namespace tenon::demo
