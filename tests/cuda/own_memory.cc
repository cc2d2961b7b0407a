// Whole hosts with a program's own allocator (S4.3) and a session's limit: two sessions with an allocator each, what
// CreateAllocator gives of them, and an allocator that has no more. Over the fake driver and on a GPU (plugin_test.py
// and gpu_test.py run it).
//   tenon_cuda_own_memory HOST_LIBRARY PLUGIN
#include <chrono>
#include <cstdio>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "conformance/host.h"
#include "ep/cuda/driver/cuda_device.h"
#include "own_allocator.h"
#include "programs/relu_model.h"
#include "zero_session.h"

namespace tenon {
namespace {

using conformance::Host;
using conformance::Owned;
using test::OwnAllocator;
using Options = std::map<std::string, std::string>;

constexpr size_t kBytes = 4096;
int complaints = 0;

void expect(bool good, const std::string& what) {
  std::printf("%s: %s\n", good ? "passed" : "FAILED", what.c_str());
  std::fflush(stdout);
  if (!good) ++complaints;
}

Status answer(const Host& host, OrtStatus* status, const char* what) {
  return conformance::to_status(host.take(status), what);
}

Status run(const Host& host, OrtSession* session) {
  std::vector<float> x(test::kZeroCount, 3.0F);
  return test::run_zero_session(host, session, x);
}

// The allocator that CreateAllocator gives for the device's own memory.
Result<Owned<OrtAllocator>> allocator_of(const Host& host, const OrtSession* session) {
  const OrtMemoryInfo* info = host.api().EpDevice_MemoryInfo(host.device(), OrtDeviceMemoryType_DEFAULT);
  OrtAllocator* allocator = nullptr;
  TENON_TRY(answer(host, host.api().CreateAllocator(session, info, &allocator), "CreateAllocator"));
  return host.own(allocator, host.api().ReleaseAllocator);
}

// Null, also where the host makes a status of that.
void* alloc(const Host& host, OrtAllocator* allocator, size_t size_bytes) {
  void* block = nullptr;
  return host.take(host.api().AllocatorAlloc(allocator, size_bytes, &block)).ok() ? block : nullptr;
}
void free(const Host& host, OrtAllocator* allocator, void* block) {
  (void)host.take(host.api().AllocatorFree(allocator, block));
}

// A block goes back when the session's stream has passed its free, a moment later: whether that is so in time. Every
// use of the allocator gives back what has become free.
template <typename Condition>
bool soon(const Host& host, OrtAllocator* allocator, const Condition& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    free(host, allocator, alloc(host, allocator, 64));
  }
  return false;
}

Status test_two_sessions(const Host& host) {
  {
    TENON_TRY_ASSIGN(auto a, test::make_zero_session(host, OwnAllocator::options<0>()));
    TENON_TRY_ASSIGN(auto b, test::make_zero_session(host, OwnAllocator::options<1>()));
    TENON_TRY_ASSIGN(auto plain, test::make_zero_session(host, {}));
    for (int turn = 0; turn < 4; ++turn)
      for (OrtSession* session : {a.get(), b.get(), plain.get()}) TENON_TRY(run(host, session));
    expect(OwnAllocator::taken(0) > 0 && OwnAllocator::taken(1) > 0, "each session takes of its own allocator");
    const int64_t taken[] = {OwnAllocator::taken(0), OwnAllocator::taken(1)};
    for (int turn = 0; turn < 4; ++turn) TENON_TRY(run(host, plain.get()));
    expect(OwnAllocator::taken(0) == taken[0] && OwnAllocator::taken(1) == taken[1],
           "a session without one takes of neither");
    a = nullptr;
    TENON_TRY(run(host, b.get()));
    expect(OwnAllocator::live(0) == 0, "a session that ends gives all back, and the other one goes on");
  }
  expect(OwnAllocator::live(1) == 0 && OwnAllocator::wrong() == 0,
         "every block comes back once, to whom it was taken of");
  return Status();
}

Status test_create_allocator(const Host& host) {
  TENON_TRY_ASSIGN(auto session, test::make_zero_session(host, OwnAllocator::options<0>()));
  TENON_TRY(run(host, session.get()));
  TENON_TRY_ASSIGN(auto allocator, allocator_of(host, session.get()));
  int64_t live = OwnAllocator::live(0);
  // The blocks that the run has freed go back first.
  (void)soon(host, allocator.get(),
             [&] { return std::exchange(live, OwnAllocator::live(0)) == OwnAllocator::live(0); });
  const int64_t emptied = OwnAllocator::emptied(0);
  void* const block = alloc(host, allocator.get(), kBytes);
  expect(block != nullptr && OwnAllocator::live(0) == live + 1, "CreateAllocator gives the session's own allocator");
  free(host, allocator.get(), block);
  expect(
      soon(host, allocator.get(), [&] { return OwnAllocator::live(0) == live; }) && OwnAllocator::emptied(0) == emptied,
      "which gets its block back");
  void* const reserved = allocator->Reserve(allocator.get(), kBytes);
  expect(reserved != nullptr && OwnAllocator::emptied(0) == emptied, "a block is reserved");
  allocator->Free(allocator.get(), reserved);
  expect(soon(host, allocator.get(), [&] { return OwnAllocator::live(0) == live; }) &&
             OwnAllocator::emptied(0) == emptied + 1,
         "the cache is emptied once behind a reserved block");
  void* const late = alloc(host, allocator.get(), kBytes);
  session = nullptr;
  expect(soon(host, allocator.get(), [&] { return OwnAllocator::live(0) == 1; }), "a block may outlive its session");
  free(host, allocator.get(), late);
  allocator = nullptr;
  expect(OwnAllocator::live(0) == 0 && OwnAllocator::wrong() == 0, "and goes back then");
  return Status();
}

Status test_refusals(const Host& host) {
  TENON_TRY_ASSIGN(auto session, test::make_zero_session(host, OwnAllocator::options<0>()));
  TENON_TRY_ASSIGN(auto allocator, allocator_of(host, session.get()));
  int64_t emptied = OwnAllocator::emptied(0);
  OwnAllocator::refuse(0, 1);
  void* const block = alloc(host, allocator.get(), kBytes);
  expect(block != nullptr && OwnAllocator::emptied(0) == emptied + 1, "the cache is emptied once before the other try");
  free(host, allocator.get(), block);
  emptied = OwnAllocator::emptied(0);
  OwnAllocator::refuse(0, 2);
  expect(alloc(host, allocator.get(), kBytes) == nullptr && OwnAllocator::emptied(0) == emptied + 1,
         "which is the last");
  // Whether a run needs new memory is the host's: it fails, or is right.
  for (int64_t nth = 1; nth <= 8; ++nth) {
    OwnAllocator::refuse(0, 2 * nth);
    const Status failed = run(host, session.get());
    OwnAllocator::refuse(0, 0);
    const Status after = run(host, session.get());
    expect(after.ok(), format("a session goes on after \"{}\": {}", failed.to_string(), after.to_string()));
  }
  allocator = nullptr;
  session = nullptr;
  expect(OwnAllocator::live(0) == 0 && OwnAllocator::wrong() == 0, "every block comes back, also of runs that fail");
  return Status();
}

// The limit as a session's entry without a prefix, which no host passes on as the EP's option.
Result<Owned<OrtSession>> session_with_bare_limit(const Host& host, const char* limit) {
  const OrtApi& api = host.api();
  OrtSessionOptions* raw = nullptr;
  TENON_TRY(answer(host, api.CreateSessionOptions(&raw), "CreateSessionOptions"));
  const auto options = host.own(raw, api.ReleaseSessionOptions);
  TENON_TRY(answer(host, api.AddSessionConfigEntry(raw, "gpu_mem_limit", limit), "AddSessionConfigEntry"));
  const OrtEpDevice* device = host.device();
  TENON_TRY(answer(host, api.SessionOptionsAppendExecutionProvider_V2(raw, host.env(), &device, 1, nullptr, nullptr, 0),
                   "SessionOptionsAppendExecutionProvider_V2"));
  const std::vector<std::byte> model = test::relu_model({1, 8});
  OrtSession* session = nullptr;
  TENON_TRY(
      answer(host, api.CreateSessionFromArray(host.env(), model.data(), model.size(), raw, &session), "CreateSession"));
  return host.own(session, api.ReleaseSession);
}

Status test_limit(const Host& host) {
  constexpr size_t kLimit = size_t{64} << 20;
  TENON_TRY_ASSIGN(const auto prefixed, test::make_zero_session(host, {{"gpu_mem_limit", std::to_string(kLimit)}}));
  TENON_TRY_ASSIGN(const auto bare, session_with_bare_limit(host, std::to_string(kLimit).c_str()));
  TENON_TRY_ASSIGN(const auto none, test::make_zero_session(host, {{"gpu_mem_limit", "18446744073709551615"}}));
  for (const OrtSession* session : {prefixed.get(), bare.get(), none.get()}) {
    TENON_TRY_ASSIGN(const auto allocator, allocator_of(host, session));
    void* const fits = alloc(host, allocator.get(), kBytes);
    void* const large = alloc(host, allocator.get(), kLimit);
    expect(fits != nullptr && (large != nullptr) == (session == none.get()),
           session == none.get()   ? "CreateAllocator gives all that a session without a limit may have"
           : session == bare.get() ? "a limit without a prefix counts too"
                                   : "CreateAllocator gives no more than the session's limit");
    for (void* block : {fits, large})
      if (block != nullptr) free(host, allocator.get(), block);
  }
  const Status refused = session_with_bare_limit(host, "much").status();
  expect(refused.message().find("gpu_mem_limit") != std::string::npos,
         "a bad value without a prefix is an error: " + refused.to_string());
  return Status();
}

Status test_all(const char* library, const char* plugin) {
  TENON_TRY_ASSIGN(const cuda::CudaDriver* const driver, cuda::cuda_driver());
  TENON_TRY_ASSIGN(const auto host, Host::load({.library = library, .plugin_name = "cuda", .plugin_library = plugin}));
  std::printf("%s\n", host->description().c_str());
  TENON_TRY(OwnAllocator::use(*driver));
  TENON_TRY(test_two_sessions(*host));
  TENON_TRY(test_create_allocator(*host));
  TENON_TRY(test_refusals(*host));
  TENON_TRY(test_limit(*host));
  OwnAllocator::end();
  return Status();
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s HOST_LIBRARY PLUGIN\n", argv[0]);
    return 2;
  }
  const tenon::Status status = tenon::test_all(argv[1], argv[2]);
  if (!status.ok()) std::printf("FAILED: %s\n", status.to_string().c_str());
  return status.ok() && tenon::complaints == 0 ? 0 : 1;
}
