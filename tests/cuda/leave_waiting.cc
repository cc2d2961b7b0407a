#include "leave_waiting.h"

#include <dlfcn.h>

namespace tenon::test {

Result<LeftWaiting> leave_waiting(const LeaveWaiting& options) {
  LeftWaiting left;
  TENON_TRY_ASSIGN(left.program, OtherProgram::start(options.vulkan));
  TENON_TRY_ASSIGN(left.host,
                   conformance::Host::load(
                       {.library = options.host_library, .plugin_name = "cuda", .plugin_library = options.plugin}));
  left.frames = std::make_unique<WaitingFrames>(*left.host);
  TENON_TRY(left.frames->open(*left.program));
  TENON_TRY_ASSIGN(left.session, left.frames->make_session());
  TENON_TRY(left.frames->wait(1));
  left.program->signal(1);
  constexpr int64_t kLongMs = 10'000;
  TENON_TRY(left.frames->run(left.session.get(), true, kLongMs));
  // Only now: its exit handler is newer than what the first wait has registered.
  if (options.unloading_library != nullptr && ::dlopen(options.unloading_library, RTLD_NOW) == nullptr)
    return not_found("{}.", ::dlerror());
  TENON_TRY(left.frames->wait(2));
  return left;
}

}  // namespace tenon::test

// For programs in Python (gpu_faults_test.py, faults_test.py): 0, or 1 with the reason printed.
extern "C" [[gnu::visibility("default")]] int tenon_leave_waiting(const char* host_library, const char* plugin,
                                                                  const char* unloading_library, int vulkan) {
  auto left = tenon::test::leave_waiting(
      {.host_library = host_library, .plugin = plugin, .unloading_library = unloading_library, .vulkan = vulkan != 0});
  if (!left.ok()) {
    std::printf("%s\n", left.status().to_string().c_str());
    std::fflush(stdout);
    return 1;
  }
  left->program->kill();
  // A program that forgets everything.
  static const auto* const forgotten = new tenon::test::LeftWaiting(*std::move(left));
  return forgotten != nullptr ? 0 : 1;
}
