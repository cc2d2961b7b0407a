#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <tenon/fence.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/fault.h"
#include "base/testing.h"
#include "interop/shared_timeline_page.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kLong = 20'000 * kMs;

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// Runs `body` in a forked process, whose exit code is 0 when it returns true.
class Child {
 public:
  explicit Child(const std::function<bool()>& body) : pid_(::fork()) {
    if (pid_ == 0) ::_exit(body() ? 0 : 1);
  }
  ~Child() {
    if (pid_ > 0) {
      kill_now();
      join();
    }
  }
  pid_t pid() const { return pid_; }
  void kill_now() { ::kill(pid_, SIGKILL); }
  bool join() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  pid_t pid_;
};

std::shared_ptr<SharedTimeline> create(uint64_t initial = 0) {
  return SharedTimeline::create("frames", initial).value();
}

TEST(SharedTimeline, BothSidesSeeTheSameValue) {
  auto first = create(7);
  auto second = SharedTimeline::open("frames", first->fd()).value();
  EXPECT_EQ(second->value().value(), 7u);
  EXPECT_THAT(second->signal(9), is_ok());
  EXPECT_THAT(first->wait(9, 0), is_ok());
  EXPECT_THAT(first->signal(9), has_status(StatusCode::kInvalidArgument, HasSubstr("only grow")));
  EXPECT_THAT(first->signal(uint64_t{1} << 40), is_ok());
  EXPECT_THAT(second->wait(uint64_t{1} << 40, 0), is_ok());
}

// S1.5: the wait starts first, the signal comes later, from another thread.
TEST(SharedTimeline, AWaitEndsWhenAnotherThreadSignals) {
  auto t = create();
  std::atomic<bool> signalled{false};
  std::thread signaller([&] {
    sleep_ms(60);
    signalled = true;
    EXPECT_THAT(t->signal(1), is_ok());
  });
  EXPECT_THAT(t->wait(1, kLong), is_ok());
  EXPECT_TRUE(signalled);
  signaller.join();
}

// S1.5: and from another process, there and back.
TEST(SharedTimeline, AWaitEndsWhenAnotherProcessSignals) {
  auto t = create();
  Child child([&] {
    auto other = SharedTimeline::open("frames", t->fd());
    if (!other.ok()) return false;
    for (uint64_t value = 1; value < 200; value += 2) {
      if (value % 50 == 1) sleep_ms(5);
      if (!(*other)->signal(value).ok() || !(*other)->wait(value + 1, kLong).ok()) return false;
    }
    return true;
  });
  for (uint64_t value = 1; value < 200; value += 2) {
    ASSERT_THAT(t->wait(value, kLong), is_ok());
    ASSERT_THAT(t->signal(value + 1), is_ok());
  }
  EXPECT_TRUE(child.join());
}

TEST(SharedTimeline, TwoWaitersInTwoProcessesBothWake) {
  auto t = create();
  Child child([&] {
    auto other = SharedTimeline::open("frames", t->fd());
    return other.ok() && (*other)->wait(2, kLong).ok();
  });
  Status here;
  std::thread waiter([&] { here = t->wait(1, kLong); });
  sleep_ms(40);
  EXPECT_THAT(t->signal(2), is_ok());
  waiter.join();
  EXPECT_THAT(here, is_ok());
  EXPECT_TRUE(child.join());
}

TEST(SharedTimeline, ADeadlineEndsAWaitWithCancelled) {
  auto t = create();
  const int64_t start = monotonic_ns();
  EXPECT_THAT(t->wait(1, 40 * kMs), has_status(StatusCode::kTimeout, HasSubstr("frames")));
  EXPECT_GE(monotonic_ns() - start, 40 * kMs);
  EXPECT_THAT(t->wait(1, 0), has_status(StatusCode::kTimeout));
  EXPECT_THAT(t->wait(1, -7), has_status(StatusCode::kInvalidArgument));
}

TEST(SharedTimeline, ATimeoutTooLargeToAddToTheClockDoesNotPassEarly) {
  auto t = create();
  std::thread signaller([&] {
    sleep_ms(60);
    EXPECT_THAT(t->signal(1), is_ok());
  });
  EXPECT_THAT(t->wait(1, INT64_MAX), is_ok());
  signaller.join();
}

// A producer that dies between frames is an error for the consumer.
TEST(SharedTimeline, AKilledPeerEndsTheWaitWithDeviceLost) {
  auto t = create();
  Child child([&] {
    auto other = SharedTimeline::open("frames", t->fd());
    if (!other.ok() || !(*other)->signal(1).ok()) return false;
    ::pause();
    return true;
  });
  ASSERT_THAT(t->wait(1, kLong), is_ok());
  std::thread killer([&] {
    sleep_ms(50);
    child.kill_now();  // not reaped: the peer stays a zombie while we wait
  });
  EXPECT_THAT(t->wait(2, INT64_MAX), has_status(StatusCode::kDeviceLost, HasSubstr("is gone")));
  killer.join();
  // The value that the peer had signalled stays reached, and every later wait ends at once.
  EXPECT_THAT(t->wait(1, 0), is_ok());
  EXPECT_THAT(t->wait(2, kLong), has_status(StatusCode::kDeviceLost));
}

TEST(SharedTimeline, AKilledCreatorEndsTheOpenersWait) {
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);
  Child creator([&] {
    auto t = SharedTimeline::create("frames");
    const int fd = t.ok() ? (*t)->fd() : -1;
    if (::write(fds[1], &fd, sizeof(fd)) != sizeof(fd)) return false;
    ::pause();
    return true;
  });
  int remote = -1;
  ASSERT_EQ(::read(fds[0], &remote, sizeof(remote)), static_cast<ssize_t>(sizeof(remote)));
  ::close(fds[0]);
  ::close(fds[1]);
  const int fd =
      ::open(("/proc/" + std::to_string(creator.pid()) + "/fd/" + std::to_string(remote)).c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  auto t = SharedTimeline::open("frames", fd).value();
  ::close(fd);
  creator.kill_now();
  EXPECT_THAT(t->wait(1, kLong), has_status(StatusCode::kDeviceLost));
}

TEST(SharedTimeline, APeerThatClosesEndsTheWaitAndMayBeReplaced) {
  auto t = create();
  auto other = SharedTimeline::open("frames", t->fd()).value();
  EXPECT_THAT(t->wait(1, 30 * kMs), has_status(StatusCode::kTimeout));
  other.reset();
  EXPECT_THAT(t->wait(1, kLong), has_status(StatusCode::kDeviceLost, HasSubstr("closed")));
  other = SharedTimeline::open("frames", t->fd()).value();
  EXPECT_THAT(t->wait(1, 30 * kMs), has_status(StatusCode::kTimeout));
}

TEST(SharedTimeline, AThirdProcessIsRefusedWhileTheSecondLives) {
  auto t = create();
  Child second([&] {
    auto other = SharedTimeline::open("frames", t->fd());
    if (!other.ok() || !(*other)->signal(1).ok()) return false;
    ::pause();
    return true;
  });
  ASSERT_THAT(t->wait(1, kLong), is_ok());
  EXPECT_THAT(SharedTimeline::open("frames", t->fd()),
              has_status(StatusCode::kResourceExhausted, HasSubstr("already open")));
  second.kill_now();
  second.join();
  EXPECT_THAT(SharedTimeline::open("frames", t->fd()), is_ok());
}

TEST(SharedTimeline, PoisonCrossesToTheOtherProcessWithItsText) {
  auto t = create(3);
  Child child([&] {
    auto other = SharedTimeline::open("frames", t->fd());
    if (!other.ok()) return false;
    (*other)->poison(5, Status(StatusCode::kResourceExhausted, "Node \"Conv_3\" finds no memory."));
    (*other)->poison(6, Status(StatusCode::kInternal, "A later failure."));
    return true;
  });
  EXPECT_THAT(t->wait(4, kLong), has_status(StatusCode::kResourceExhausted, HasSubstr("Conv_3")));
  EXPECT_TRUE(child.join());
  EXPECT_EQ(t->value().value(), 6u);
  EXPECT_THAT(t->wait(9, kLong), has_status(StatusCode::kResourceExhausted));
  EXPECT_THAT(t->wait(3, kLong), is_ok());
  EXPECT_THAT(t->status(), has_status(StatusCode::kResourceExhausted));
}

TEST(SharedTimeline, APoisonTextThatIsTooLongIsCut) {
  auto t = create();
  t->poison(1, Status(StatusCode::kDeviceError, std::string(5000, 'x')));
  EXPECT_EQ(t->status().message().size(), kPoisonTextBytes);
}

TEST(SharedTimeline, OpenRefusesWhatIsNoTimeline) {
  FdCount fds;
  EXPECT_THAT(SharedTimeline::open("t", -1), has_status(StatusCode::kInvalidArgument, HasSubstr("-1")));
  EXPECT_THAT(SharedTimeline::open("t", 1000), has_status(StatusCode::kInvalidArgument, HasSubstr("1000 of")));
  const int file = ::open("/dev/zero", O_RDWR | O_CLOEXEC);
  EXPECT_THAT(SharedTimeline::open("t", file), has_status(StatusCode::kInvalidArgument));
  ::close(file);
  for (const int64_t size : {0, 8, 4095, 8192}) {
    const int fd = ::memfd_create("tenon-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ASSERT_EQ(::ftruncate(fd, size), 0);
    EXPECT_THAT(SharedTimeline::open("t", fd),
                has_status(StatusCode::kInvalidArgument, HasSubstr(std::to_string(size) + " bytes")));
    ::close(fd);
  }
  EXPECT_EQ(fds.opened_since(), 0);
}

// A page of the right size that holds `page` and carries `seals`.
int make_page(const SharedTimelinePage& page, unsigned seals) {
  const int fd = ::memfd_create("tenon-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  EXPECT_EQ(::pwrite(fd, &page, sizeof(page), 0), static_cast<ssize_t>(sizeof(page)));
  EXPECT_EQ(::ftruncate(fd, kSharedTimelineBytes), 0);
  EXPECT_EQ(::fcntl(fd, F_ADD_SEALS, seals), 0);
  return fd;
}

TEST(SharedTimeline, OpenRefusesUnsealedReadOnlyAndForeignPages) {
  FdCount fds;
  SharedTimelinePage good{.magic = kSharedTimelineMagic, .version = 1, .size_bytes = kSharedTimelineBytes};
  SharedTimelinePage newer = good, other = good, small = good;
  newer.version = 2;
  other.magic = 5;
  small.size_bytes = 64;
  struct Case {
    SharedTimelinePage page;
    unsigned seals;
    StatusCode code;
    const char* text;
  };
  for (const Case& c : {Case{good, 0, StatusCode::kInvalidArgument, "sealed"},
                        Case{good, F_SEAL_SHRINK | F_SEAL_WRITE, StatusCode::kInvalidArgument, "mapped"},
                        Case{newer, F_SEAL_SHRINK, StatusCode::kUnsupported, "version 2"},
                        Case{other, F_SEAL_SHRINK, StatusCode::kInvalidArgument, "TENONTL1"},
                        Case{small, F_SEAL_SHRINK, StatusCode::kInvalidArgument, "64 bytes"}}) {
    const int fd = make_page(c.page, c.seals);
    EXPECT_THAT(SharedTimeline::open("t", fd), has_status(c.code, HasSubstr(c.text)));
    ::close(fd);
  }
  const int fd = make_page(good, F_SEAL_SHRINK);
  EXPECT_THAT(SharedTimeline::open("t", fd), is_ok());
  ::close(fd);
  EXPECT_EQ(fds.opened_since(), 0);
  EXPECT_EQ(count_mappings("tenon-test"), 0);
}

// Whatever the other side writes into the page, each call returns, and within its deadline.
TEST(SharedTimeline, GarbageInThePageIsAnErrorAndNeverACrash) {
  std::mt19937_64 random(1);
  auto t = create();
  void* address = ::mmap(nullptr, kSharedTimelineBytes, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd(), 0);
  ASSERT_NE(address, MAP_FAILED);
  auto* page = static_cast<SharedTimelinePage*>(address);
  const SharedTimelinePage good = *page;
  int errors = 0;
  for (int round = 0; round < 300; ++round) {
    *page = good;
    const bool keep_header = round % 2 == 0;
    auto* bytes = static_cast<unsigned char*>(address);
    for (size_t i = keep_header ? 16 : 0; i < sizeof(SharedTimelinePage); ++i)
      if (random() % 3 == 0) bytes[i] = static_cast<unsigned char>(random());
    if (round % 3 == 0) page->poison_state = 2;
    (void)t->value();
    if (!t->wait(~uint64_t{0} - 1, kMs / 10).ok()) ++errors;
    (void)t->status();
    (void)t->signal(random());
    t->poison(random(), Status(StatusCode::kDeviceError, "x"));
  }
  EXPECT_GT(errors, 290);
  std::memset(address, 0xff, kSharedTimelineBytes);
  EXPECT_THAT(t->wait(1, kMs), has_status(StatusCode::kInvalidArgument));
  EXPECT_THAT(t->signal(1), has_status(StatusCode::kInvalidArgument));
  ::munmap(address, kSharedTimelineBytes);
}

TEST(SharedTimeline, ThePageCannotBeCutOff) {
  auto t = create();
  EXPECT_NE(::ftruncate(t->fd(), 0), 0);
  EXPECT_NE(::ftruncate(t->fd(), 8192), 0);
  EXPECT_THAT(t->signal(1), is_ok());
}

TEST(SharedTimeline, AFailedStepLeavesNothingBehind) {
  FdCount fds;
  auto kept = create();
  const int mappings = count_mappings("tenon-timeline");
  int failed = 0;
  for (int n = 1;; ++n) {
    FaultInjection fault(n);
    Status status;
    {
      auto created = SharedTimeline::create("frames");
      auto opened = SharedTimeline::open("frames", kept->fd());
      status = created.ok() ? opened.status() : created.status();
    }
    EXPECT_EQ(fds.opened_since(), 1) << fault.fired_at();
    EXPECT_EQ(count_mappings("tenon-timeline"), mappings) << fault.fired_at();
    if (!fault.fired()) {
      EXPECT_THAT(status, is_ok());
      break;
    }
    EXPECT_THAT(status, has_status(StatusCode::kResourceExhausted, HasSubstr(fault.fired_at())));
    ++failed;
  }
  EXPECT_EQ(failed, 6);
}

}  // namespace
}  // namespace tenon
