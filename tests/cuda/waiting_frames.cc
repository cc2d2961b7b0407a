#include "waiting_frames.h"

#include <span>
#include <vector>

#include "cli/conformance/relu_model.h"

namespace tenon::test {

using conformance::Owned;

namespace {

constexpr int64_t kCount = 1000;

}  // namespace

Status WaitingFrames::open(OtherProgram& program) {
  TENON_TRY_ASSIGN(importer_, host_.create_importer());
  TENON_TRY_ASSIGN(stream_, host_.create_stream());
  TENON_TRY_ASSIGN(elsewhere_, host_.create_stream());
  OrtExternalSemaphoreDescriptor descriptor = {};
  descriptor.version = host_.version();
  descriptor.type = ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_OPAQUE_FD;
  descriptor.native_handle = reinterpret_cast<void*>(static_cast<intptr_t>(program.timeline_fd()));
  OrtExternalSemaphoreHandle* handle = nullptr;
  TENON_TRY(answer(host_.interop().ImportSemaphore(importer_.get(), &descriptor, &handle)));
  program.timeline_is_taken();
  semaphore_ = host_.own(handle, host_.interop().ReleaseExternalSemaphoreHandle);
  return Status();
}

Status WaitingFrames::wait(uint64_t value) {
  return answer(host_.interop().WaitSemaphore(importer_.get(), semaphore_.get(), stream_.get(), value));
}

Status WaitingFrames::signal_elsewhere(uint64_t value) {
  return answer(host_.interop().SignalSemaphore(importer_.get(), semaphore_.get(), elsewhere_.get(), value));
}

Result<Owned<OrtSession>> WaitingFrames::make_session(const char* load_timeout_ms) {
  return host_.create_session(chain_model({"Relu", "Neg", "Relu", "Neg"}, {kCount}),
                              {{"load_timeout_ms", load_timeout_ms}});
}

Status WaitingFrames::run(OrtSession* session, bool on_stream, int64_t timeout_ms) {
  const OrtApi& api = host_.api();
  std::vector<float> elements(kCount, 3.0F);
  TENON_TRY_ASSIGN(const Owned<OrtValue> x, host_.tensor_over(elements, std::span(&kCount, 1)));
  OrtRunOptions* raw_options = nullptr;
  TENON_TRY(answer(api.CreateRunOptions(&raw_options)));
  const auto options = host_.own(raw_options, api.ReleaseRunOptions);
  if (timeout_ms > 0)
    TENON_TRY(answer(api.AddRunConfigEntry(raw_options, "tenon.timeout_ms", std::to_string(timeout_ms).c_str())));
  if (on_stream) api.RunOptionsSetSyncStream(raw_options, stream_.get());
  const char* inputs[] = {"x"};
  const char* outputs[] = {"y"};
  const OrtValue* in[] = {x.get()};
  OrtValue* raw_y = nullptr;
  TENON_TRY(answer(api.Run(session, raw_options, inputs, in, 1, outputs, 1, &raw_y)));
  const auto y = host_.own(raw_y, api.ReleaseValue);
  void* data = nullptr;
  TENON_TRY(answer(api.GetTensorMutableData(raw_y, &data)));
  for (int64_t i = 0; i < kCount; ++i)
    if (static_cast<const float*>(data)[i] != 0) return internal_error("Element {} is wrong.", i);
  return Status();
}

}  // namespace tenon::test
