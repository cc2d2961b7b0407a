#include "ep/cuda/rendezvous.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/testing.h"

namespace tenon::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string new_path() {
  static int made = 0;
  return ::testing::TempDir() + format("tenon_meet_{}_{}", ::getpid(), made++);
}

RankOptions rank_of(int rank, int ranks, const std::string& place) {
  return {.rank = rank, .ranks = ranks, .given = true, .meeting_place = place};
}

std::vector<char> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

// The result of each rank of a meeting.
struct Met {
  Status status;
  std::vector<char> bytes;
};
std::vector<Met> meet(const std::vector<RankOptions>& ranks) {
  std::vector<Met> met(ranks.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.size(); ++i)
    threads.emplace_back([&, i] {
      met[i].bytes = bytes_of(format("of rank {}", ranks[i].rank));
      met[i].status = Rendezvous(ranks[i]).meet(met[i].bytes);
    });
  for (std::thread& thread : threads) thread.join();
  return met;
}

TEST(Rendezvous, AllRanksGetWhatRank0Gives) {
  const std::string path = new_path();
  for (const std::string& place : {path, std::string("localhost:18877"), std::string("127.0.0.1:18878")}) {
    const std::vector<Met> met = meet({rank_of(2, 3, place), rank_of(0, 3, place), rank_of(1, 3, place)});
    for (const Met& one : met) {
      ASSERT_THAT(one.status, is_ok()) << place;
      EXPECT_EQ(one.bytes, bytes_of("of rank 0"));
    }
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

// A program that made several sessions, one after the other: the ranks need not be at the same one.
TEST(Rendezvous, ManyMeetingsFollowEachOtherAtAPlace) {
  constexpr int kMeetings = 20;
  const std::string place = new_path();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      for (int i = 0; i < kMeetings; ++i) {
        std::vector<char> bytes = bytes_of(format("{} of rank {}", i, rank));
        ASSERT_THAT(Rendezvous(rank_of(rank, 3, place)).meet(bytes), is_ok());
        EXPECT_EQ(bytes, bytes_of(format("{} of rank 0", i)));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

// Killed programs leave the files of their sockets behind.
TEST(Rendezvous, AnOldSocketIsReplaced) {
  const std::string place = new_path();
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) FAIL() << "there is no socket: " << std::strerror(errno);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, place.c_str(), place.size() + 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ::close(fd);
  for (const Met& one : meet({rank_of(0, 2, place), rank_of(1, 2, place)})) EXPECT_THAT(one.status, is_ok());
}

void until(const Rendezvous& rank, const std::string& sentence) {
  for (int i = 0; i < 500 && rank.who_is_missing() != sentence; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(rank.who_is_missing(), sentence);
}

TEST(Rendezvous, MissingRanksAreNamed) {
  const std::string place = new_path();
  Rendezvous first(rank_of(0, 4, place)), third(rank_of(2, 4, place));
  Status ended[2];
  std::thread threads[] = {std::thread([&] {
                             std::vector<char> bytes = bytes_of("id");
                             ended[0] = first.meet(bytes);
                           }),
                           std::thread([&] {
                             std::vector<char> bytes;
                             ended[1] = third.meet(bytes);
                           })};
  until(first, format("Ranks 1 and 3 of 4 have not come to {}.", place));
  until(third, format("Rank 0 of 4 is at {}, and waits for another rank.", place));
  first.stop();
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(ended[0], has_status(StatusCode::kCancelled));
  EXPECT_THAT(ended[1], has_status(StatusCode::kInvalidArgument, AllOf(HasSubstr("given up"), HasSubstr("1 and 3"))));
}

TEST(Rendezvous, ARankThatLeavesIsMissingAgain) {
  const std::string place = new_path();
  Rendezvous first(rank_of(0, 3, place)), second(rank_of(1, 3, place));
  std::vector<char> given = bytes_of("id");
  Status ended, left;
  std::thread thread([&] { ended = first.meet(given); });
  std::thread leaving([&] {
    std::vector<char> got;
    left = second.meet(got);
  });
  until(first, format("Rank 2 of 3 has not come to {}.", place));
  second.stop();
  leaving.join();
  EXPECT_THAT(left, has_status(StatusCode::kCancelled));
  until(first, format("Ranks 1 and 2 of 3 have not come to {}.", place));
  std::thread again([&] {
    std::vector<char> got;
    left = Rendezvous(rank_of(1, 3, place)).meet(got);
  });
  std::vector<char> got;
  EXPECT_THAT(Rendezvous(rank_of(2, 3, place)).meet(got), is_ok());
  again.join();
  thread.join();
  EXPECT_THAT(left, is_ok());
  EXPECT_THAT(ended, is_ok());
}

TEST(Rendezvous, RanksThatDisagreeAreToldHow) {
  const std::string place = new_path();
  for (const Met& one : meet({rank_of(0, 2, place), rank_of(1, 4, place)}))
    EXPECT_THAT(one.status, has_status(StatusCode::kInvalidArgument, "Rank 1 is one of 4 ranks, and rank 0 one of 2."));
  // The second rank 1 is refused, and the others meet.
  Rendezvous first(rank_of(0, 3, place));
  std::vector<char> given = bytes_of("id");
  Status ended;
  std::thread thread([&] { ended = first.meet(given); });
  Status seconds[2];
  std::thread others[] = {std::thread([&] {
                            std::vector<char> got;
                            seconds[0] = Rendezvous(rank_of(1, 3, place)).meet(got);
                          }),
                          std::thread([&] {
                            std::vector<char> got;
                            seconds[1] = Rendezvous(rank_of(1, 3, place)).meet(got);
                          })};
  until(first, format("Rank 2 of 3 has not come to {}.", place));
  // Both have asked by then, or the second one still does.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  std::vector<char> got;
  EXPECT_THAT(Rendezvous(rank_of(2, 3, place)).meet(got), is_ok());
  for (std::thread& other : others) other.join();
  thread.join();
  EXPECT_THAT(ended, is_ok());
  const Status& refused = seconds[0].ok() ? seconds[1] : seconds[0];
  EXPECT_THAT(refused, has_status(StatusCode::kInvalidArgument, "There is a rank 1 of 3 already."));
}

TEST(Rendezvous, APlaceThatIsNoneIsNamed) {
  std::vector<char> bytes;
  for (const char* place : {"nowhere", "host:", ":80", "host:http"})
    EXPECT_THAT(Rendezvous(rank_of(0, 2, place)).meet(bytes),
                has_status(StatusCode::kInvalidArgument, HasSubstr(format("\"{}\"", place))));
  EXPECT_THAT(Rendezvous(rank_of(0, 2, "/" + std::string(200, 'x'))).meet(bytes),
              has_status(StatusCode::kInvalidArgument, HasSubstr("a path of 201 characters")));
  EXPECT_THAT(Rendezvous(rank_of(1, 2, "no such host.invalid:80")).meet(bytes),
              has_status(StatusCode::kInvalidArgument, HasSubstr("has no address")));
}

}  // namespace
}  // namespace tenon::cuda
