#include <sys/wait.h>
#include <tenon/log.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
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

// The events of a trace file, by phase ("X": spans, "M": names). A file without its "]" is valid in this format.
std::vector<nlohmann::json> events_of(const std::string& path, std::string_view phase) {
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!text.ends_with("]\n")) text += "]";
  std::vector<nlohmann::json> events;
  for (nlohmann::json& event : nlohmann::json::parse(text))
    if (event["ph"] == phase) events.push_back(std::move(event));
  return events;
}

struct TemporaryTrace {
  TemporaryTrace() { EXPECT_THAT(open_trace_file(path), is_ok()); }
  ~TemporaryTrace() {
    close_trace_file();
    EXPECT_EQ(std::remove(path.c_str()), 0);
  }
  const std::string path = ::testing::TempDir() + tenon::format("tenon_trace_test_{}.json", ::getpid());
};

TEST(TraceFile, IsOneJsonArrayOfSpansWhateverTheNames) {
  const TemporaryTrace trace;
  {
    TraceSpan outer("run", "quote \" back\\slash \n \xff end");
    outer.args().add("text \"", "\xff\"\\").add("yes", true).add("least", INT64_MIN).add("none", "");
    TraceSpan inner("kernel", "größe");
  }
  std::thread([] { TraceSpan span("kernel", "elsewhere"); }).join();
  for (int i = 0; i < 2000; ++i) TraceSpan span("kernel", "fills the buffer more than once");
  {
    const std::string name(100'000, 'n');
    TraceSpan span("kernel", name);
  }
  {
    TraceSpan span("kernel", "long");
    span.args().add("text", std::string(100'000, 'a'));
  }
  close_trace_file();
  EXPECT_FALSE(trace_file_enabled());

  const std::vector<nlohmann::json> spans = events_of(trace.path, "X");
  ASSERT_EQ(spans.size(), 2005u);
  EXPECT_EQ(spans[0]["name"], "größe");
  EXPECT_EQ(spans[0]["cat"], "kernel");
  EXPECT_EQ(spans[0]["args"], nlohmann::json::object());
  EXPECT_EQ(spans[1]["name"], "quote \" back\\slash \n \xef\xbf\xbd end");
  EXPECT_EQ(spans[1]["args"],
            nlohmann::json({{"text \"", "\xef\xbf\xbd\"\\"}, {"yes", true}, {"least", INT64_MIN}, {"none", ""}}));
  EXPECT_GE(spans[0]["ts"].get<double>(), spans[1]["ts"].get<double>());
  EXPECT_LE(spans[0]["dur"].get<double>(), spans[1]["dur"].get<double>());
  EXPECT_NE(spans[2]["tid"], spans[0]["tid"]);
  EXPECT_EQ(spans[2003]["name"].get<std::string>().size(), 200u);
  EXPECT_EQ(spans[2004]["args"]["text"].get<std::string>().size(), 100'000u);
  // The process and both threads have names.
  std::vector<std::pair<std::string, int>> named;
  for (const nlohmann::json& event : events_of(trace.path, "M")) named.emplace_back(event["name"], event["tid"]);
  EXPECT_THAT(named, ElementsAre(std::pair("process_name", spans[0]["tid"].get<int>()),
                                 std::pair("thread_name", spans[0]["tid"].get<int>()),
                                 std::pair("thread_name", spans[2]["tid"].get<int>())));
}

TEST(TraceFile, SpansNameTheSubjectOfTheirThread) {
  const TemporaryTrace trace;
  {
    TraceSpan run("run", "run", 7);
    const TraceSubject::Scope subject({.session = 7, .step = 3, .stream = 1, .node = "Relu"});
    TraceSpan copy("copy", "x");
    std::thread([] { TraceSpan span("part", "elsewhere"); }).join();
  }
  EXPECT_EQ(TraceSubject::current().session, 0);
  close_trace_file();
  const std::vector<nlohmann::json> spans = events_of(trace.path, "X");
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0]["args"].dump(), "{}");
  EXPECT_EQ(spans[1]["args"].dump(), R"({"session":7,"step":3,"stream":1})");
  EXPECT_EQ(spans[2]["args"].dump(), R"({"session":7})");
}

TEST(TraceFile, AnotherThatHasTheFileOpenKeepsIt) {
  const TemporaryTrace trace;
  {
    TraceSpan span("run", "first");
  }
  // Another process, or a plugin with a copy of this code, opens the same path.
  const int other = create_locked_file(trace.path);
  EXPECT_EQ(other, -1);
  EXPECT_EQ(errno, EWOULDBLOCK);
  close_trace_file();
  EXPECT_EQ(events_of(trace.path, "X").size(), 1u);

  const int holder = create_locked_file(trace.path);
  ASSERT_GE(holder, 0);
  ASSERT_THAT(open_trace_file(trace.path), is_ok());
  {
    TraceSpan span("run", "second");
  }
  close_trace_file();
  EXPECT_EQ(::close(holder), 0);
  const std::string second = trace.path.substr(0, trace.path.size() - 5) + "-2.json";
  EXPECT_EQ(events_of(second, "X").at(0)["name"], "second");
  EXPECT_EQ(std::remove(second.c_str()), 0);
}

// The array without its "]" is valid, and has the spans that ended 20 ms before.
TEST(TraceFile, IsValidAfterACrash) {
  const TemporaryTrace trace;
  const pid_t child = ::fork();
  if (child == 0) {
    if (!open_trace_file(trace.path + ".child.json").ok()) ::_exit(1);
    TraceSpan outer("run", "never ends");
    {
      TraceSpan span("kernel", "before");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    {
      TraceSpan span("kernel", "last");
    }
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const std::vector<nlohmann::json> spans = events_of(trace.path + ".child.json", "X");
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0]["name"], "before");
  EXPECT_EQ(std::remove((trace.path + ".child.json").c_str()), 0);
  // The child wrote nothing to the file that its parent has open.
  close_trace_file();
  EXPECT_EQ(events_of(trace.path, "X").size(), 0u);
}

struct KeptSpans final : TraceSink {
  void ended(const TraceEvent& event) override {
    names.push_back(format("{} {}{}", event.category, event.name, event.args));
  }
  std::vector<std::string> names;
};

TEST(TraceSinks, GetTheSpansOfTheirThreadWithoutAFile) {
  KeptSpans kept;
  {
    const TraceSink::Scope scope(&kept);
    TraceSpan span("pass", "fold");
    ASSERT_TRUE(span);
    span.args().add("nodes", 3);
    std::thread([] { EXPECT_FALSE(TraceSpan("pass", "elsewhere")); }).join();
  }
  EXPECT_FALSE(trace_enabled());
  EXPECT_THAT(kept.names, ElementsAre("pass fold,\"nodes\":3"));
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
