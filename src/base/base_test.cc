#include <fcntl.h>
#include <tenon/external_memory.h>
#include <tenon/log.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/deadline.h"
#include "base/env.h"
#include "base/fault.h"
#include "base/format.h"
#include "base/guarded.h"
#include "base/log.h"
#include "base/testing.h"
#include "base/trace.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Environment, UnsetAndEmptyMeanTheDefault) {
  ::unsetenv("TENON_THREADS");
  EXPECT_EQ(env_integer(Env::kThreads, 0, 64).value(), 0);
  ::setenv("TENON_THREADS", "", 1);
  EXPECT_EQ(env_value(Env::kThreads), "0");
  ::setenv("TENON_THREADS", "3", 1);
  EXPECT_EQ(env_integer(Env::kThreads, 0, 64).value(), 3);
  EXPECT_EQ(environment_value("TENON_THREADS"), "3");
  EXPECT_EQ(environment_value("HOME"), "");
  ::unsetenv("TENON_THREADS");
}

TEST(Environment, NumbersOutOfRangeOrWithRubbishAreErrorsThatNameTheVariable) {
  for (const char* text : {"-1", "65", "4 ", "four", "99999999999999999999"}) {
    ::setenv("TENON_THREADS", text, 1);
    EXPECT_THAT(
        env_integer(Env::kThreads, 0, 64),
        has_status(StatusCode::kInvalidArgument, ::testing::AllOf(HasSubstr("TENON_THREADS"), HasSubstr(text))));
  }
  ::unsetenv("TENON_THREADS");
}

TEST(Environment, TheTableIsSortedAndTellsWhatEachIsFor) {
  std::string last;
  for (const EnvironmentVariable& variable : environment_variables()) {
    EXPECT_LT(last, variable.name);
    EXPECT_THAT(variable.name, ::testing::StartsWith("TENON_"));
    EXPECT_GT(std::string(variable.help).size(), 20u);
    last = variable.name;
  }
}

struct CapturedLog {
  CapturedLog() {
    set_log_sink([this](LogLevel level, std::string_view topic, std::string_view message) {
      lines.push_back(format("{} {}: {}", log_level_name(level), topic, message));
    });
  }
  ~CapturedLog() {
    set_log_sink({});
    set_trace_topics("");
  }
  std::vector<std::string> lines;
};

TEST(Log, GoesWhereTheApplicationSays) {
  CapturedLog log;
  log_warning("pool", "Only {} threads start.", 2);
  log_info("pool", "not shown by default");
  EXPECT_THAT(log.lines, ElementsAre("warning pool: Only 2 threads start."));
}

TEST(Trace, OnlyTheTopicsThatWereAskedForAreFormatted) {
  CapturedLog log;
  set_trace_topics("copy,sync");
  int formatted = 0;
  TENON_TRACE(kCopy, "\"{}\" moves {} bytes.", "x", ++formatted);
  TENON_TRACE(kPlan, "{}", ++formatted);
  EXPECT_EQ(formatted, 1);
  EXPECT_THAT(log.lines, ElementsAre("trace copy: \"x\" moves 1 bytes."));
}

TEST(Trace, AnUnknownTopicIsWarnedAbout) {
  CapturedLog log;
  set_trace_topics("copi");
  EXPECT_THAT(log.lines, ElementsAre(HasSubstr("\"copi\"")));
}

TEST(TraceFile, IsOneJsonArrayOfSpansWhateverTheNames) {
  const std::string path = ::testing::TempDir() + tenon::format("tenon_trace_test_{}.json", ::getpid());
  ASSERT_THAT(open_trace_file(path), is_ok());
  {
    TraceSpan outer("run", "quote \" back\\slash \n \xff end");
    TraceSpan inner("kernel", std::string_view("Conv_1"));
  }
  std::thread([] { TraceSpan span("kernel", "elsewhere"); }).join();
  for (int i = 0; i < 2000; ++i) TraceSpan span("kernel", "fills the buffer more than once");
  close_trace_file();
  EXPECT_FALSE(trace_file_enabled());

  std::ifstream file(path);
  const nlohmann::json spans = nlohmann::json::parse(file);
  ASSERT_EQ(spans.size(), 2003u);
  EXPECT_EQ(spans[0]["name"], "Conv_1");
  EXPECT_EQ(spans[0]["cat"], "kernel");
  EXPECT_EQ(spans[0]["ph"], "X");
  EXPECT_GE(spans[0]["ts"].get<double>(), spans[1]["ts"].get<double>());
  EXPECT_LE(spans[0]["dur"].get<double>(), spans[1]["dur"].get<double>());
  EXPECT_NE(spans[2]["tid"], spans[0]["tid"]);
  ::unlink(path.c_str());
}

TEST(TraceFile, APathThatCannotBeWrittenIsAnErrorThatNamesIt) {
  EXPECT_THAT(open_trace_file("/nowhere/at/all.json"),
              has_status(StatusCode::kInvalidArgument, HasSubstr("/nowhere/at/all.json")));
}

Status three_steps(std::vector<int>* done) {
  TENON_FAULT_POINT("one");
  done->push_back(1);
  TENON_FAULT_POINT("two");
  done->push_back(2);
  return Status();
}

TEST(FaultInjection, FailsEachPointInTurnAndThenNone) {
  std::vector<std::string> failed;
  for (int n = 1; n < 10; ++n) {
    FaultInjection fault(n);
    std::vector<int> done;
    const Status status = three_steps(&done);
    EXPECT_EQ(status.ok(), !fault.fired());
    if (!fault.fired()) {
      EXPECT_THAT(done, ElementsAre(1, 2));
      break;
    }
    failed.emplace_back(fault.fired_at());
    EXPECT_THAT(status, has_status(StatusCode::kResourceExhausted, HasSubstr(fault.fired_at())));
  }
  EXPECT_THAT(failed, ElementsAre("one", "two"));
}

TEST(FaultInjection, LeavesOtherThreadsAlone) {
  FaultInjection fault(1);
  Status other;
  std::thread([&] { other = fault_point("elsewhere"); }).join();
  EXPECT_THAT(other, is_ok());
  EXPECT_FALSE(fault.fired());
}

TEST(Guarded, IsHeldByOneThreadAtATime) {
  Guarded<int> count;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 1000; ++k) ++*count.lock();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(*count.lock(), 4000);
}

TEST(Deadline, ATimeoutThatDoesNotFitNeverPasses) {
  EXPECT_TRUE(Deadline::after(INT64_MAX).never());
  EXPECT_TRUE(Deadline::after(-1).never());
  EXPECT_TRUE(Deadline::after(0).passed());
  EXPECT_EQ(Deadline::after(-1).remaining_ns(5), 5);
  EXPECT_LE(Deadline::after(1'000'000'000).remaining_ns(), 1'000'000'000);
}

TEST(OwnedHandle, ClosesItsFdOnceAndGivesItUpOnRelease) {
  FdCount fds;
  {
    OwnedHandle first = OwnedHandle::take_fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    OwnedHandle second = std::move(first);
    EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move)
    OwnedHandle copy = second.dup().value();
    EXPECT_NE(copy.fd(), second.fd());
    EXPECT_EQ(::fcntl(copy.fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    EXPECT_EQ(fds.opened_since(), 2);
    copy = std::move(second);
    EXPECT_EQ(fds.opened_since(), 1);
    OwnedHandle& same = copy;
    copy = std::move(same);
    EXPECT_TRUE(copy.valid());
    const int fd = copy.release_fd();
    EXPECT_FALSE(copy.valid());
    ::close(fd);
  }
  EXPECT_EQ(fds.opened_since(), 0);
}

TEST(OwnedHandle, DuplicatingAClosedFdNamesIt) {
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  OwnedHandle handle = OwnedHandle::take_fd(fd);
  ::close(fd);
  EXPECT_THAT(handle.dup(), has_status(StatusCode::kInvalidArgument, HasSubstr(std::to_string(fd))));
  EXPECT_THAT(OwnedHandle().dup(), has_status(StatusCode::kInvalidArgument));
  (void)handle.release_fd();
}

}  // namespace
}  // namespace tenon
