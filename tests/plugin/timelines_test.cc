// The table of tenon/timeline_api.h, as programs in C use it: shared timelines, fences of runs, and draining streams.
#include <fcntl.h>
#include <sys/wait.h>
#include <tenon/timeline_api.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "hosts.h"

namespace tenon::hosts {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr int64_t kLongNs = 20'000'000'000;
constexpr int64_t kShortNs = 20'000'000;

class Timelines : public HostTest {
 protected:
  using Owner = std::unique_ptr<TenonTimeline, void(TENON_TIMELINE_CALL*)(TenonTimeline*)>;

  // False in a host that is not Tenon's.
  bool use_table() {
    use();
    if (host_ == nullptr) return false;
    if (host().version() < 28) return false;  // the first with GetExperimentalFunction
    get_ = reinterpret_cast<TenonGetTimelineApiFn>(api().GetExperimentalFunction(TENON_GET_TIMELINE_API));
    if (!host().is_tenon()) {
      EXPECT_EQ(get_, nullptr);
      return false;
    }
    table_ = get_(TENON_TIMELINE_API_VERSION);
    return table_ != nullptr;
  }
  const TenonTimelineApi& table() const { return *table_; }

  Owner create(uint64_t initial_value = 0) {
    TenonTimeline* made = nullptr;
    EXPECT_THAT(ok(table().CreateTimeline("frames", initial_value, &made), "CreateTimeline"), is_ok());
    return {made, table().ReleaseTimeline};
  }
  Owner open(int fd) {
    TenonTimeline* made = nullptr;
    EXPECT_THAT(ok(table().OpenTimeline("frames", fd, &made), "OpenTimeline"), is_ok());
    return {made, table().ReleaseTimeline};
  }
  int export_fd(const Owner& timeline) {
    int32_t fd = -1;
    EXPECT_THAT(ok(table().ExportTimeline(timeline.get(), &fd), "ExportTimeline"), is_ok());
    return fd;
  }
  uint64_t value(const Owner& timeline) {
    uint64_t reached = 99;
    EXPECT_THAT(ok(table().GetTimelineValue(timeline.get(), &reached), "GetTimelineValue"), is_ok());
    return reached;
  }
  Result<bool> wait(const Owner& timeline, uint64_t value, int64_t timeout_ns = kLongNs) {
    uint32_t reached = 99;
    TENON_TRY(ok(table().WaitTimeline(timeline.get(), value, timeout_ns, &reached), "WaitTimeline"));
    return reached == 1;
  }
  Status signal(const Owner& timeline, uint64_t value) {
    return ok(table().SignalTimeline(timeline.get(), value), "SignalTimeline");
  }
  Result<bool> drain(OrtSyncStream* stream, int64_t timeout_ns) {
    uint32_t drained = 99;
    TENON_TRY(ok(table().DrainStream(stream, timeout_ns, &drained), "DrainStream"));
    return drained == 1;
  }
  Owned<OrtRunOptions> run_options() {
    OrtRunOptions* made = nullptr;
    EXPECT_THAT(ok(api().CreateRunOptions(&made), "CreateRunOptions"), is_ok());
    return host().own(made, api().ReleaseRunOptions);
  }
  // The CPU device in the same library.
  static std::unique_ptr<Host> use_cpu() {
    auto cpu = Host::load({.library = std::getenv("TENON_TEST_HOST"), .ep_name = "CPUExecutionProvider"});
    EXPECT_THAT(cpu, is_ok());
    return *std::move(cpu);
  }

  TenonGetTimelineApiFn get_ = nullptr;
  const TenonTimelineApi* table_ = nullptr;
};

std::string failure(const Status& status) { return status.message(); }
std::string failure(const Result<bool>& answer) { return answer.status().message(); }

bool true_of(const Result<bool>& answer) {
  EXPECT_THAT(answer, is_ok());
  return answer.ok() && *answer;
}

// Ends with the code that the program's own function gives.
template <typename Body>
pid_t start_process(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  return child;
}

int exit_code(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_F(Timelines, TheTableHasAVersion) {
  if (!use_table()) GTEST_SKIP() << "another host has no table";
  EXPECT_EQ(get_(0), nullptr);
  EXPECT_EQ(get_(1), &table());
  EXPECT_EQ(get_(1000), &table());
  EXPECT_EQ(table().version, 1U);
}

TEST_F(Timelines, NullArgumentsAreNamed) {
  if (!use_table()) GTEST_SKIP() << "another host has no table";
  const TenonTimelineApi& t = table();
  const Owner timeline = create();
  TenonTimeline* made = timeline.get();
  int32_t fd = 7;
  uint32_t answer = 7;
  uint64_t number = 7;
  OrtExternalSemaphoreHandle* handle = nullptr;
  const std::pair<OrtStatus*, const char*> answers[] = {
      {t.CreateTimeline(nullptr, 0, &made), "name"},
      {t.CreateTimeline("x", 0, nullptr), "out"},
      {t.OpenTimeline(nullptr, 0, &made), "name"},
      {t.OpenTimeline("x", 0, nullptr), "out"},
      {t.ExportTimeline(nullptr, &fd), "timeline"},
      {t.ExportTimeline(timeline.get(), nullptr), "fd"},
      {t.GetTimelineValue(nullptr, &number), "timeline"},
      {t.GetTimelineValue(timeline.get(), nullptr), "value"},
      {t.WaitTimeline(nullptr, 1, 0, &answer), "timeline"},
      {t.WaitTimeline(timeline.get(), 1, 0, nullptr), "reached"},
      {t.SignalTimeline(nullptr, 1), "timeline"},
      {t.PoisonTimeline(nullptr, 1, nullptr), "timeline"},
      {t.PoisonTimeline(timeline.get(), 1, nullptr), "why"},
      {t.SetRunFences(nullptr, nullptr, 0, nullptr, 0), "options"},
      {t.ImportTimeline(nullptr, timeline.get(), &handle), "importer"},
      {t.DrainStream(nullptr, 0, &answer), "stream"},
  };
  for (const auto& [status, argument] : answers)
    EXPECT_THAT(ok(status, argument), has_status(StatusCode::kInvalidArgument, HasSubstr(argument)));
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(fd, -1);
  EXPECT_EQ(answer, 0U);
  EXPECT_EQ(number, 0U);
  t.ReleaseTimeline(nullptr);
}

TEST_F(Timelines, ATimeThatPassesIsAnAnswer) {
  if (!use_table()) GTEST_SKIP() << "another host has no table";
  const Owner timeline = create(5);
  EXPECT_EQ(value(timeline), 5U);
  EXPECT_TRUE(true_of(wait(timeline, 5, 0)));
  EXPECT_FALSE(true_of(wait(timeline, 6, 0)));
  EXPECT_FALSE(true_of(wait(timeline, 6, kShortNs)));
  EXPECT_THAT(signal(timeline, 6), is_ok());
  EXPECT_TRUE(true_of(wait(timeline, 6, TENON_WAIT_FOREVER)));
  EXPECT_THAT(signal(timeline, 6), has_status(StatusCode::kInvalidArgument, HasSubstr("values only grow")));
  EXPECT_THAT(wait(timeline, 7, -2), has_status(StatusCode::kInvalidArgument, HasSubstr("-2 ns")));
}

// Also when who poisons it was cancelled.
TEST_F(Timelines, PoisonIsAFailureAndNoPassedTime) {
  if (!use_table()) GTEST_SKIP() << "another host has no table";
  for (const OrtErrorCode code : {ORT_EP_FAIL, ORT_MODEL_LOAD_CANCELED}) {
    const Owner timeline = create();
    OrtStatus* why = api().CreateStatus(code, "The camera is unplugged.");
    EXPECT_THAT(ok(table().PoisonTimeline(timeline.get(), 3, why), "PoisonTimeline"), is_ok());
    api().ReleaseStatus(why);
    EXPECT_THAT(failure(wait(timeline, 3)), HasSubstr("The camera is unplugged."));
    EXPECT_EQ(value(timeline), 3U);
  }
  const Owner timeline = create();
  OrtStatus* fine = api().CreateStatus(ORT_OK, "");
  EXPECT_THAT(ok(table().PoisonTimeline(timeline.get(), 3, fine), "PoisonTimeline"),
              has_status(StatusCode::kInvalidArgument));
  api().ReleaseStatus(fine);
}

TEST_F(Timelines, OnlyATimelinesDescriptorOpens) {
  if (!use_table()) GTEST_SKIP() << "another host has no table";
  TenonTimeline* made = nullptr;
  const int null_device = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {-1, 12345, null_device}) {
    EXPECT_THAT(ok(table().OpenTimeline("frames", fd, &made), "OpenTimeline"),
                has_status(StatusCode::kInvalidArgument, HasSubstr(std::to_string(fd))));
    EXPECT_EQ(made, nullptr);
  }
  ::close(null_device);
}

TEST_F(Timelines, AnExportIsTheProgramsToClose) {
  if (!use_table()) GTEST_SKIP() << "another host has no table";
  Owner timeline = create();
  const int fd = export_fd(timeline);
  timeline.reset();
  EXPECT_GE(::fcntl(fd, F_GETFD), 0);
  EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(::close(fd), 0);
}

// The opener lives on: it reads what was reached, and a wait for more says that the creator is gone.
TEST_F(Timelines, ATimelineOutlivesItsCreator) {
  if (!use_table()) GTEST_SKIP() << "another host has no table";
  int channel[2];
  ASSERT_EQ(::pipe2(channel, O_CLOEXEC), 0);
  const pid_t creator = start_process([&] {
    const Owner timeline = create();
    const int fd = export_fd(timeline);
    if (!signal(timeline, 4).ok()) return 1;
    if (::write(channel[1], &fd, sizeof(fd)) != sizeof(fd)) return 2;
    ::pause();
    return 3;
  });
  int number = -1;
  ASSERT_EQ(::read(channel[0], &number, sizeof(number)), static_cast<ssize_t>(sizeof(number)));
  const std::string path = "/proc/" + std::to_string(creator) + "/fd/" + std::to_string(number);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0) << path;
  const Owner early = open(fd);
  EXPECT_FALSE(true_of(wait(early, 5, kShortNs)));
  ASSERT_EQ(::kill(creator, SIGKILL), 0);
  EXPECT_THAT(failure(wait(early, 5)), AllOf(HasSubstr("DEVICE_RESET"), HasSubstr(std::to_string(creator))));
  EXPECT_EQ(exit_code(creator), -SIGKILL);

  const Owner late = open(fd);
  EXPECT_EQ(value(late), 4U);
  EXPECT_TRUE(true_of(wait(late, 4)));
  EXPECT_THAT(failure(wait(late, 5)), AllOf(HasSubstr("DEVICE_RESET"), HasSubstr("is gone")));
  ::close(fd);
  ::close(channel[0]);
  ::close(channel[1]);
}

TEST_F(Timelines, AThirdProcessIsRefused) {
  if (!use_table()) GTEST_SKIP() << "another host has no table";
  const Owner timeline = create();
  const int fd = export_fd(timeline);
  const pid_t second = start_process([&] {
    const Owner opened = open(fd);
    return signal(opened, 1).ok() && true_of(wait(opened, 2)) ? 0 : 1;
  });
  ASSERT_TRUE(true_of(wait(timeline, 1)));
  const pid_t third = start_process([&] {
    TenonTimeline* made = nullptr;
    const Status refused = ok(table().OpenTimeline("frames", fd, &made), "OpenTimeline");
    return !refused.ok() && refused.message().find("two processes") != std::string::npos ? 0 : 1;
  });
  EXPECT_EQ(exit_code(third), 0);
  EXPECT_THAT(signal(timeline, 2), is_ok());
  EXPECT_EQ(exit_code(second), 0);
  EXPECT_THAT(failure(wait(timeline, 3)), AllOf(HasSubstr("DEVICE_RESET"), HasSubstr("has closed")));
  ::close(fd);
}

TEST_F(Timelines, ARunWaitsAndSignals) {
  if (!use_table()) GTEST_SKIP() << "another host has no table";
  const auto chain = session({"Neg"});
  std::vector<float> from = numbers(), to(kCount);
  const auto x = wrap(from), y = wrap(to);
  OrtValue* out = y.get();
  Owner timeline = create(1);
  const auto options = run_options();
  const TenonFence ready = {timeline.get(), 1}, done = {timeline.get(), 2};
  ASSERT_THAT(ok(table().SetRunFences(options.get(), &ready, 1, &done, 1), "SetRunFences"), is_ok());
  ASSERT_THAT(run(chain.get(), x.get(), &out, options.get()), is_ok());
  EXPECT_EQ(value(timeline), 2U);
  EXPECT_THAT(to, ElementsAreArray(chain_of(from, {"Neg"})));

  // The time for the run limits the waits too, and a run that fails poisons its signals.
  const TenonFence never = {timeline.get(), 9}, failed = {timeline.get(), 3};
  ASSERT_THAT(ok(table().SetRunFences(options.get(), &never, 1, &failed, 1), "SetRunFences"), is_ok());
  ASSERT_THAT(ok(api().AddRunConfigEntry(options.get(), "tenon.timeout_ms", "20"), "AddRunConfigEntry"), is_ok());
  EXPECT_THAT(failure(run(chain.get(), x.get(), &out, options.get())), HasSubstr("tenon.timeout_ms"));
  EXPECT_THAT(failure(wait(timeline, 3)), HasSubstr("tenon.timeout_ms"));

  // Options keep the timelines that they need.
  Owner other = create();
  const TenonFence only = {other.get(), 1};
  const int fd = export_fd(other);
  const Owner reader = open(fd);
  ::close(fd);
  ASSERT_THAT(ok(table().SetRunFences(options.get(), nullptr, 0, &only, 1), "SetRunFences"), is_ok());
  other.reset();
  ASSERT_THAT(run(chain.get(), x.get(), &out, options.get()), is_ok());
  EXPECT_EQ(value(reader), 1U);
  ASSERT_THAT(ok(table().SetRunFences(options.get(), nullptr, 0, nullptr, 0), "SetRunFences"), is_ok());
  EXPECT_THAT(run(chain.get(), x.get(), &out, options.get()), is_ok());
}

TEST_F(Timelines, BadFencesAreRefusedAndTheOldOnesStay) {
  if (!use_table()) GTEST_SKIP() << "another host has no table";
  const auto chain = session({"Neg"});
  std::vector<float> from = numbers(), to(kCount);
  const auto x = wrap(from), y = wrap(to);
  OrtValue* out = y.get();
  const Owner timeline = create();
  const auto options = run_options();
  const TenonFence done = {timeline.get(), 1};
  ASSERT_THAT(ok(table().SetRunFences(options.get(), nullptr, 0, &done, 1), "SetRunFences"), is_ok());
  const TenonFence fences[2] = {done, {nullptr, 2}};
  EXPECT_THAT(ok(table().SetRunFences(options.get(), fences, 2, nullptr, 0), "SetRunFences"),
              has_status(StatusCode::kInvalidArgument, AllOf(HasSubstr("Fence 1 of 2"), HasSubstr("waits"))));
  EXPECT_THAT(ok(table().SetRunFences(options.get(), nullptr, 1, nullptr, 0), "SetRunFences"),
              has_status(StatusCode::kInvalidArgument, HasSubstr("no array")));
  const std::vector<TenonFence> many(65, done);
  EXPECT_THAT(ok(table().SetRunFences(options.get(), nullptr, 0, many.data(), many.size()), "SetRunFences"),
              has_status(StatusCode::kInvalidArgument, AllOf(HasSubstr("65 signals"), HasSubstr("64"))));
  ASSERT_THAT(run(chain.get(), x.get(), &out, options.get()), is_ok());
  EXPECT_EQ(value(timeline), 1U);
}

TEST_F(Timelines, AStreamOfTheCpuIsDrained) {
  if (!use_table()) GTEST_SKIP() << "another host has no table";
  const auto cpu = use_cpu();
  auto importer = cpu->create_importer();
  auto stream = cpu->create_stream();
  ASSERT_TRUE(importer.ok() && stream.ok());
  const Owner timeline = create();
  OrtExternalSemaphoreHandle* handle = nullptr;
  ASSERT_THAT(ok(table().ImportTimeline(importer->get(), timeline.get(), &handle), "ImportTimeline"), is_ok());
  const auto semaphore = host().own(handle, host().interop().ReleaseExternalSemaphoreHandle);
  EXPECT_TRUE(true_of(drain(stream->get(), 0)) || true_of(drain(stream->get(), kLongNs)));
  const auto& interop = host().interop();
  ASSERT_THAT(ok(interop.WaitSemaphore(importer->get(), handle, stream->get(), 1), "Wait"), is_ok());
  ASSERT_THAT(ok(interop.SignalSemaphore(importer->get(), handle, stream->get(), 2), "Signal"), is_ok());
  EXPECT_FALSE(true_of(drain(stream->get(), kShortNs)));
  EXPECT_THAT(drain(stream->get(), -5), has_status(StatusCode::kInvalidArgument, HasSubstr("-5 ns")));
  EXPECT_THAT(signal(timeline, 1), is_ok());
  EXPECT_TRUE(true_of(drain(stream->get(), kLongNs)));
  EXPECT_EQ(value(timeline), 2U);

  // A failure on the stream stays.
  ASSERT_THAT(ok(interop.WaitSemaphore(importer->get(), handle, stream->get(), 3), "Wait"), is_ok());
  OrtStatus* why = api().CreateStatus(ORT_EP_FAIL, "The camera is unplugged.");
  ASSERT_THAT(ok(table().PoisonTimeline(timeline.get(), 3, why), "PoisonTimeline"), is_ok());
  api().ReleaseStatus(why);
  for (int turn = 0; turn < 2; ++turn)
    EXPECT_THAT(drain(stream->get(), kLongNs), has_status(StatusCode::kDeviceError, HasSubstr("camera")));
}

// docs/reference/interop.md: releasing a stream cancels what has not begun, and its signals are poisoned.
TEST_F(Timelines, AReleasedStreamPoisonsItsSignals) {
  if (!use_table()) GTEST_SKIP() << "another host has no table";
  const auto cpu = use_cpu();
  auto importer = cpu->create_importer();
  auto stream = cpu->create_stream();
  ASSERT_TRUE(importer.ok() && stream.ok());
  const Owner timeline = create();
  OrtExternalSemaphoreHandle* handle = nullptr;
  ASSERT_THAT(ok(table().ImportTimeline(importer->get(), timeline.get(), &handle), "ImportTimeline"), is_ok());
  const auto semaphore = host().own(handle, host().interop().ReleaseExternalSemaphoreHandle);
  const auto& interop = host().interop();
  ASSERT_THAT(ok(interop.WaitSemaphore(importer->get(), handle, stream->get(), 1), "Wait"), is_ok());
  ASSERT_THAT(ok(interop.SignalSemaphore(importer->get(), handle, stream->get(), 2), "Signal"), is_ok());
  stream->reset();
  EXPECT_THAT(failure(wait(timeline, 2)), HasSubstr("stream \"cpu\" ends"));
}

// A plugin's device waits for the timeline by callbacks, and has no waits with a deadline.
TEST_F(Timelines, APluginsStreamIsOrderedAndDrained) {
  if (!use_table()) GTEST_SKIP() << "another host has no table";
  auto importer = host().create_importer();
  auto stream = host().create_stream();
  ASSERT_TRUE(importer.ok() && stream.ok());
  Owner timeline = create(1);
  OrtExternalSemaphoreHandle* handle = nullptr;
  ASSERT_THAT(ok(table().ImportTimeline(importer->get(), timeline.get(), &handle), "ImportTimeline"), is_ok());
  const auto& interop = host().interop();
  ASSERT_THAT(ok(interop.WaitSemaphore(importer->get(), handle, stream->get(), 1), "Wait"), is_ok());
  ASSERT_THAT(ok(interop.SignalSemaphore(importer->get(), handle, stream->get(), 2), "Signal"), is_ok());
  EXPECT_THAT(drain(stream->get(), kLongNs), has_status(StatusCode::kUnsupported, HasSubstr("TENON_WAIT_FOREVER")));
  EXPECT_TRUE(true_of(drain(stream->get(), TENON_WAIT_FOREVER)));
  EXPECT_EQ(value(timeline), 2U);

  // Runs take the semaphore by its handle too.
  const auto chain = session({"Neg"});
  std::vector<float> from = numbers(), to(kCount);
  const auto x = wrap(from), y = wrap(to);
  OrtValue* out = y.get();
  const auto options = run_options();
  const std::string done = std::to_string(reinterpret_cast<uintptr_t>(handle)) + ":3";
  ASSERT_THAT(ok(api().AddRunConfigEntry(options.get(), TENON_RUN_SIGNALS, done.c_str()), "AddRunConfigEntry"),
              is_ok());
  ASSERT_THAT(run(chain.get(), x.get(), &out, options.get()), is_ok());
  EXPECT_EQ(value(timeline), 3U);
  interop.ReleaseExternalSemaphoreHandle(handle);
}

}  // namespace
}  // namespace tenon::hosts
