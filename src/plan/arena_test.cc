#include "plan/arena.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

#include "base/testing.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

TEST(PackArena, SizesThatOverflowAreRefused) {
  std::vector<ArenaBuffer> one = {{.size_bytes = std::numeric_limits<size_t>::max() - 3, .first = 0, .last = 1}};
  EXPECT_THAT(pack_arena(one), has_status(StatusCode::kResourceExhausted, HasSubstr("does not fit")));
  const size_t half = std::numeric_limits<size_t>::max() / 2 + 1;
  std::vector<ArenaBuffer> two = {{.size_bytes = half, .first = 0, .last = 1},
                                  {.size_bytes = half, .first = 0, .last = 1}};
  EXPECT_THAT(pack_arena(two), has_status(StatusCode::kResourceExhausted));
}

TEST(PackArena, BlocksThatAreNeverAliveTogetherShareMemory) {
  std::vector<ArenaBuffer> buffers = {{.size_bytes = 1000, .first = 0, .last = 1},
                                      {.size_bytes = 1000, .first = 1, .last = 2},
                                      {.size_bytes = 1000, .first = 2, .last = 3}};
  const Result<size_t> bytes = pack_arena(buffers);
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, 2048u);
  EXPECT_EQ(buffers[0].offset_bytes, buffers[2].offset_bytes);
}

TEST(PackArena, TheTightestGapIsTaken) {
  // Two gaps, of 256 and of 128 bytes, are left between buffers that live throughout; the buffer of 128 takes the
  // latter.
  std::vector<ArenaBuffer> buffers = {
      {.size_bytes = 512, .first = 0, .last = 9}, {.size_bytes = 256, .first = 0, .last = 1},
      {.size_bytes = 200, .first = 0, .last = 9}, {.size_bytes = 128, .first = 0, .last = 1},
      {.size_bytes = 128, .first = 0, .last = 9}, {.size_bytes = 100, .first = 5, .last = 9}};
  ASSERT_TRUE(pack_arena(buffers).ok());
  EXPECT_EQ(buffers[5].offset_bytes, buffers[3].offset_bytes);
}

TEST(PackArena, RandomBlocksNeverOverlapWhileAlive) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<ArenaBuffer> buffers(40);
    for (ArenaBuffer& buffer : buffers) {
      buffer.size_bytes = random() % 5000;
      buffer.first = static_cast<int32_t>(random() % 30);
      buffer.last = buffer.first + static_cast<int32_t>(random() % 10);
    }
    const Result<size_t> bytes = pack_arena(buffers);
    ASSERT_TRUE(bytes.ok());
    for (size_t a = 0; a < buffers.size(); ++a) {
      EXPECT_EQ(buffers[a].offset_bytes % kArenaAlignment, 0u);
      EXPECT_LE(buffers[a].offset_bytes + buffers[a].size_bytes, *bytes);
      for (size_t b = 0; b < a; ++b) {
        if (buffers[a].last < buffers[b].first || buffers[b].last < buffers[a].first) continue;
        EXPECT_TRUE(buffers[a].offset_bytes + buffers[a].size_bytes <= buffers[b].offset_bytes ||
                    buffers[b].offset_bytes + buffers[b].size_bytes <= buffers[a].offset_bytes)
            << a << " and " << b;
      }
    }
  }
}

}  // namespace
}  // namespace tenon
