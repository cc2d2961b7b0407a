// One OrtIoBinding in several threads. ONNX Runtime calls it no object to share; in our host calls of it wait for each
// other, so that programs which share one get its results.
#include <atomic>
#include <thread>

#include "hosts.h"

namespace tenon::hosts {
namespace {

class IoBindingThreads : public HostTest {};

TEST_F(IoBindingThreads, RunsAndCallsOfOneBindingComeOneAfterTheOther) {
  use();
  if (!host().is_tenon()) GTEST_SKIP() << "other hosts do not say what they do";
  const auto chain = session({"Neg", "Abs", "Neg"});
  ASSERT_NE(chain, nullptr);
  std::vector<float> from = numbers(), to(kCount);
  const auto x = wrap(from), y = wrap(to);
  OrtIoBinding* binding = nullptr;
  ASSERT_THAT(ok(api().CreateIoBinding(chain.get(), &binding), "CreateIoBinding"), is_ok());
  const auto owned = host().own(binding, api().ReleaseIoBinding);
  ASSERT_THAT(ok(api().BindInput(binding, "x", x.get()), "BindInput"), is_ok());
  ASSERT_THAT(ok(api().BindOutput(binding, "y", y.get()), "BindOutput"), is_ok());
  OrtAllocator* allocator = nullptr;
  ASSERT_THAT(ok(api().GetAllocatorWithDefaultOptions(&allocator), "allocator"), is_ok());
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      for (int turn = 0; turn < 50; ++turn) {
        Status status;
        switch ((number + turn) % 4) {
          case 0:
            status = ok(api().BindInput(binding, "x", x.get()), "BindInput");
            break;
          case 1: {
            OrtValue** values = nullptr;
            size_t count = 0;
            status = ok(api().GetBoundOutputValues(binding, allocator, &values, &count), "GetBoundOutputValues");
            for (size_t i = 0; i < count; ++i) api().ReleaseValue(values[i]);
            allocator->Free(allocator, values);
            if (count != 1) ++wrong;
            break;
          }
          default:
            status = ok(api().RunWithBinding(chain.get(), nullptr, binding), "RunWithBinding");
        }
        if (!status.ok()) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(to, chain_of(from, {"Neg", "Abs", "Neg"}));
}

}  // namespace
}  // namespace tenon::hosts
