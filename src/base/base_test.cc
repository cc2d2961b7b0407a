#include <tenon/log.h>
#include <unistd.h>

#include <cstdio>
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
#include "base/system.h"
#include "base/testing.h"
#include "base/trace.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Environment, UnsetAndEmptyMeanTheDefault) {
  set_environment_variable("TENON_THREADS", nullptr);
  EXPECT_EQ(env_integer(Env::kThreads, 0, 64).value(), 0);
  set_environment_variable("TENON_THREADS", "");
  EXPECT_EQ(env_value(Env::kThreads), "0");
  set_environment_variable("TENON_THREADS", "3");
  EXPECT_EQ(env_integer(Env::kThreads, 0, 64).value(), 3);
  EXPECT_EQ(environment_value("TENON_THREADS"), "3");
  EXPECT_EQ(environment_value("HOME"), "");
  set_environment_variable("TENON_THREADS", nullptr);
}

TEST(Environment, NumbersOutOfRangeOrWithRubbishAreErrorsThatNameTheVariable) {
  for (const char* text : {"-1", "65", "4 ", "four", "99999999999999999999"}) {
    set_environment_variable("TENON_THREADS", text);
    EXPECT_THAT(
        env_integer(Env::kThreads, 0, 64),
        has_status(StatusCode::kInvalidArgument, ::testing::AllOf(HasSubstr("TENON_THREADS"), HasSubstr(text))));
  }
  set_environment_variable("TENON_THREADS", nullptr);
}

TEST(Environment, AValueThatAVariableDoesNotTakeIsAnErrorThatSaysWhatItTakes) {
  struct Case {
    const char *name, *value, *takes;
  };
  const Case cases[] = {{"TENON_CPU_ISA", "sse9", "baseline, avx2 or avx512"},
                        {"TENON_CPU_ISA", "AVX2", "baseline, avx2 or avx512"},
                        {"TENON_LOG", "loud", "info, warning or error"},
                        {"TENON_TRACE", "copy,plans", "dispatch, plan, copy"},
                        {"TENON_THREADS", "many", "whole number from 0 to 1024"}};
  EXPECT_THAT(check_environment(), is_ok());
  for (const Case& one : cases) {
    set_environment_variable(one.name, one.value);
    EXPECT_THAT(check_environment(),
                has_status(StatusCode::kInvalidArgument,
                           ::testing::AllOf(HasSubstr(one.name), HasSubstr(one.value), HasSubstr(one.takes))));
    set_environment_variable(one.name, nullptr);
  }
  for (const auto& [name, value] :
       {std::pair("TENON_CPU_ISA", "avx2"), {"TENON_LOG", "error"}, {"TENON_TRACE", "copy,plan"}}) {
    set_environment_variable(name, value);
    EXPECT_THAT(check_environment(), is_ok()) << name;
    set_environment_variable(name, nullptr);
  }
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
  file.close();
  EXPECT_EQ(std::remove(path.c_str()), 0);
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
  threads.reserve(4);
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

}  // namespace
}  // namespace tenon
