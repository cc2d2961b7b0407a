// Asynchronous runs of the C ABI end in their callbacks, also when one of them releases the session.
#include <atomic>
#include <chrono>
#include <thread>

#include "hosts.h"

namespace tenon::hosts {
namespace {

struct Call {
  const OrtApi* api = nullptr;
  OrtSession* session = nullptr;  // released by the callback
  const std::atomic<bool>* all_queued = nullptr;
  std::atomic<int>* called = nullptr;
  OrtErrorCode code = ORT_OK;
};

void ORT_API_CALL finished(void* data, OrtValue**, size_t, OrtStatus* status) {
  auto& call = *static_cast<Call*>(data);
  if (status != nullptr) call.code = call.api->GetErrorCode(status);
  call.api->ReleaseStatus(status);
  while (!*call.all_queued) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (call.session != nullptr) call.api->ReleaseSession(call.session);
  ++*call.called;
}

using RunAsync = HostTest;

// A program that is done with its session after a run says so in the run's callback. The runs that are queued behind
// still happen, and none of it hangs.
TEST_F(RunAsync, ASessionIsReleasedInItsOwnCallback) {
  use();
  if (!host().is_tenon()) GTEST_SKIP() << "stock hosts end their thread pool with the session, on its own thread";
  const char* input = "x";
  const char* output = "y";
  for (const size_t count : {size_t{1}, size_t{6}}) {
    for (int turn = 0; turn < 20; ++turn) {
      OrtSession* released = session({"Neg"}).release();
      ASSERT_NE(released, nullptr);
      std::vector<float> from = numbers();
      const auto x = wrap(from);
      const OrtValue* in = x.get();
      std::vector<std::vector<float>> results(count, std::vector<float>(kCount));
      std::vector<Owned<OrtValue>> values;
      std::vector<OrtValue*> out;
      for (auto& result : results) {
        values.push_back(wrap(result));
        out.push_back(values.back().get());
      }
      std::atomic<int> called = 0;
      std::atomic<bool> all_queued = false;
      std::vector<Call> calls(count, Call{.api = &api(), .all_queued = &all_queued, .called = &called});
      calls[0].session = released;
      for (size_t i = 0; i < count; ++i)
        ASSERT_THAT(ok(api().RunAsync(released, nullptr, &input, &in, 1, &output, 1, &out[i], &finished, &calls[i]),
                       "RunAsync"),
                    is_ok());
      all_queued = true;
      for (int i = 0; i < 60'000 && called < static_cast<int>(count); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ASSERT_EQ(called, static_cast<int>(count));
      for (size_t i = 0; i < count; ++i) {
        EXPECT_EQ(calls[i].code, ORT_OK);
        EXPECT_EQ(results[i], chain_of(from, {"Neg"}));
      }
    }
  }
  EXPECT_EQ(counter("eps"), 0);
}

}  // namespace
}  // namespace tenon::hosts
