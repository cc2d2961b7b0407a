#include <fcntl.h>
#include <tenon/external_memory.h>
#include <unistd.h>

#include "base/testing.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

TEST(OwnedHandle, ClosesItsFdOnceAndGivesItUpOnRelease) {
  FdCount fds;
  {
    OwnedHandle first = OwnedHandle::take_fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    OwnedHandle second = std::move(first);
    EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
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

TEST(OwnedHandle, ADuplicateOfTheCallersFdLeavesItToTheCaller) {
  FdCount fds;
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  {
    const auto copy = OwnedHandle::duplicate_fd(fd);
    ASSERT_THAT(copy, is_ok());
    EXPECT_NE(copy->fd(), fd);
  }
  EXPECT_EQ(::fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  ::close(fd);
  EXPECT_EQ(fds.opened_since(), 0);
  EXPECT_THAT(OwnedHandle::duplicate_fd(fd), has_status(StatusCode::kInvalidArgument));
  EXPECT_THAT(OwnedHandle::duplicate_fd(-1), has_status(StatusCode::kInvalidArgument));
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
