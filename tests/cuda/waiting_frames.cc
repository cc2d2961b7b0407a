#include "waiting_frames.h"

#include <vector>

#include "zero_session.h"

namespace tenon::test {

using conformance::Owned;

Status WaitingFrames::open(OtherProgram& program) {
  TENON_TRY_ASSIGN(importer_, host_.create_importer());
  TENON_TRY_ASSIGN(stream_, host_.create_stream());
  TENON_TRY_ASSIGN(elsewhere_, host_.create_stream());
  TENON_TRY_ASSIGN(semaphore_,
                   host_.import_semaphore(importer_.get(), ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_OPAQUE_FD,
                                          reinterpret_cast<void*>(static_cast<intptr_t>(program.timeline_fd()))));
  program.timeline_is_taken();
  return Status();
}

Status WaitingFrames::wait(uint64_t value) {
  return answer(host_.interop().WaitSemaphore(importer_.get(), semaphore_.get(), stream_.get(), value));
}

Status WaitingFrames::signal_elsewhere(uint64_t value) {
  return answer(host_.interop().SignalSemaphore(importer_.get(), semaphore_.get(), elsewhere_.get(), value));
}

Result<Owned<OrtSession>> WaitingFrames::make_session(const char* load_timeout_ms, bool unified) {
  return make_zero_session(
      host_, {{"load_timeout_ms", load_timeout_ms}, {"use_ep_level_unified_stream", unified ? "1" : "0"}});
}

Status WaitingFrames::run(OrtSession* session, bool on_stream, int64_t timeout_ms) {
  const OrtApi& api = host_.api();
  OrtRunOptions* raw_options = nullptr;
  TENON_TRY(answer(api.CreateRunOptions(&raw_options)));
  const auto options = host_.own(raw_options, api.ReleaseRunOptions);
  if (timeout_ms > 0)
    TENON_TRY(answer(api.AddRunConfigEntry(raw_options, "tenon.timeout_ms", std::to_string(timeout_ms).c_str())));
  if (on_stream) api.RunOptionsSetSyncStream(raw_options, stream_.get());
  std::vector<float> x(kZeroCount, 3.0F);
  return run_zero_session(host_, session, x, raw_options);
}

}  // namespace tenon::test
