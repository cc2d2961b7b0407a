// Names of bytes: the same for the same bytes, and others for any change.
#include "base/content_hash.h"

#include <set>
#include <vector>

#include "base/testing.h"

namespace tenon {
namespace {

std::vector<std::byte> counting(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

TEST(ContentHash, EachLengthAndEachBitCounts) {
  std::set<ContentHash> names;
  size_t cases = 0;
  for (size_t size = 0; size <= 100; ++size, ++cases) names.insert(content_hash(std::vector<std::byte>(size)));
  std::vector<std::byte> bytes = counting(100);
  names.insert(content_hash(bytes)), ++cases;
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit, ++cases) {
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    names.insert(content_hash(bytes));
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
  EXPECT_EQ(names.size(), cases);
}

// Weights whose signs are swapped, or whose rows are, differ in bits that lie whole stripes apart.
TEST(ContentHash, TwoChangesOfOnePlaceInTwoStripesCount) {
  std::set<ContentHash> names;
  std::vector<std::byte> bytes = counting(256);
  size_t cases = 0;
  for (int bit = 0; bit < 64; ++bit) {
    for (int other = 0; other < 64; ++other, ++cases) {
      std::vector<std::byte> changed = bytes;
      changed[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      changed[32 + other / 8] ^= static_cast<std::byte>(1 << other % 8);
      names.insert(content_hash(changed));
    }
  }
  EXPECT_EQ(names.size(), cases);
}

TEST(ContentHash, TheAddressDoesNotCount) {
  const std::vector<std::byte> bytes = counting(1000);
  std::vector<std::byte> moved(1001);
  std::copy(bytes.begin(), bytes.end(), moved.begin() + 1);
  EXPECT_EQ(content_hash(bytes), content_hash(std::span(moved).subspan(1)));
  EXPECT_EQ(content_hash(bytes).to_string().size(), 32u);
}

}  // namespace
}  // namespace tenon
