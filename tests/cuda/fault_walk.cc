// Every call of the driver fails once, in its turn, under a whole host: sessions and runs over the fake driver, on
// streams of their own, on one for the session, and on that while the runs are given the program's.
//   tenon_cuda_fault_walk HOST_LIBRARY PLUGIN
// For each call, up to the first that is never reached: making a session and two runs fail with a status or go on; a
// session that was made goes on after the failure; nothing is left over. Prints what failed at which call.
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/format.h"
#include "conformance/host.h"
#include "ep/cuda/fake/fake_control.h"
#include "zero_session.h"

namespace {

using namespace tenon;  // NOLINT(google-build-using-namespace)
using conformance::Host;
using conformance::Owned;

constexpr int kOutOfMemory = 2, kInvalidHandle = 400;

enum class Streams : uint8_t { kOwn, kUnified, kPrograms };
const char* name_of(Streams streams) {
  return streams == Streams::kOwn ? "own" : streams == Streams::kUnified ? "one" : "the program's";
}

class Walk {
 public:
  Walk(Host& host, const cuda::fake::FakeControl& fake) : host_(host), fake_(fake) {}

  // Runs from host memory to host memory, and checks what comes.
  Status run(OrtSession* session, float first) {
    std::vector<float> x(test::kZeroCount);
    for (size_t i = 0; i < x.size(); ++i) x[i] = first - static_cast<float>(i);
    return test::run_zero_session(host_, session, x, run_options_.get());
  }

  // A session and two runs; the first failure.
  Status work(Streams streams, Status* again) {
    Status failure = work_on(streams, again);
    (void)choose_stream(Streams::kOwn);
    return failure;
  }
  Status work_on(Streams streams, Status* again) {
    TENON_TRY(choose_stream(streams));
    // The fake plugin takes Relu alone: Neg runs on the CPU EP, so that there are copies both ways.
    TENON_TRY_ASSIGN(
        const Owned<OrtSession> session,
        test::make_zero_session(host_, {{"use_ep_level_unified_stream", streams == Streams::kOwn ? "0" : "1"}}));
    Status failure;
    for (int i = 0; i < 2 && failure.ok(); ++i) failure = run(session.get(), 500.0F + static_cast<float>(i));
    char name[128] = {};
    if (!fake_.failed(name, sizeof(name))) fake_.fail_at(0, 0);
    // The session goes on, whatever failed.
    for (int i = 0; i < 2 && again->ok(); ++i) *again = run(session.get(), 100);
    return failure;
  }

  // The number of live objects above `before`; an object that is freed in a stream's order is gone a moment later.
  int64_t left_over(int64_t before) const {
    int64_t more = 0;
    for (int i = 0; i < 100; ++i) {
      more = fake_.live_objects() - before;
      if (more <= 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return more;
  }

  bool walk(int result, Streams streams) {
    Status again;
    for (int i = 0; i < 3; ++i) {
      const Status well = work(streams, &again);
      if (!well.ok() || !again.ok()) return complain("Without a failure: " + well.to_string() + again.to_string());
    }
    const int64_t before = fake_.live_objects();
    std::map<std::string, int> failed;
    int unseen = 0;
    for (int64_t n = 1;; ++n) {
      fake_.fail_at(n, result);
      const Status failure = work(streams, &again);
      char name[128] = {};
      const bool fired = fake_.failed(name, sizeof(name));
      fake_.fail_at(0, 0);
      if (!fired) break;
      failure.ok() ? ++unseen : ++failed[name];
      const std::string where = format("Call {} ({}) failing with {}", n, name, result);
      if (!failure.ok() && failure.message().find(name) == std::string::npos &&
          failure.message().find("emory") == std::string::npos && failure.message().find("lloc") == std::string::npos)
        (void)complain(where + " is not named: " + failure.to_string());
      if (!again.ok()) (void)complain(where + " leaves a session that fails: " + again.to_string());
      again = Status();
      // Blocks that the pools keep, and events to use again.
      if (const int64_t more = left_over(before); more > 0)
        (void)complain(format("{} leaves {} objects more.", where, more));
      total_ = n;
    }
    std::printf("result %d, %s streams: %lld calls failed in turn, %d of them without a failure of the work\n", result,
                name_of(streams), static_cast<long long>(total_), unseen);
    for (const auto& [name, count] : failed) std::printf("  %s %d\n", name.c_str(), count);
    return total_ > 10;
  }

  int complaints() const { return complaints_; }

 private:
  // A new one each time, whose events are new too.
  Status choose_stream(Streams streams) {
    run_options_ = nullptr;
    stream_ = nullptr;
    if (streams != Streams::kPrograms) return Status();
    TENON_TRY_ASSIGN(stream_, host_.create_stream());
    OrtRunOptions* options = nullptr;
    TENON_TRY(conformance::to_status(host_.take(host_.api().CreateRunOptions(&options)), "CreateRunOptions"));
    run_options_ = host_.own(options, host_.api().ReleaseRunOptions);
    host_.api().RunOptionsSetSyncStream(options, stream_.get());
    return Status();
  }

  bool complain(const std::string& text) {
    std::printf("WRONG: %s\n", text.c_str());
    ++complaints_;
    return false;
  }

  Host& host_;
  const cuda::fake::FakeControl& fake_;
  Owned<OrtSyncStream> stream_;  // null: the runs' own
  Owned<OrtRunOptions> run_options_;
  int64_t total_ = 0;
  int complaints_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s HOST_LIBRARY PLUGIN\n", argv[0]);
    return 2;
  }
  Result<std::unique_ptr<Host>> host =
      Host::load({.library = argv[1], .plugin_name = "cuda", .plugin_library = argv[2]});
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  const auto* fake = driver == nullptr
                         ? nullptr
                         : static_cast<const cuda::fake::FakeControl*>(::dlsym(driver, cuda::fake::kFakeControl));
  if (!host.ok() || fake == nullptr) {
    std::fprintf(stderr, "%s\n", host.ok() ? "libcuda.so.1 is not the fake driver" : host.status().to_string().c_str());
    return 2;
  }
  std::printf("%s\n", (*host)->description().c_str());
  Walk walk(**host, *fake);
  bool done = true;
  for (const int result : {kOutOfMemory, kInvalidHandle})
    for (const Streams streams : {Streams::kOwn, Streams::kUnified, Streams::kPrograms})
      done = walk.walk(result, streams) && done;
  return done && walk.complaints() == 0 ? 0 : 1;
}
