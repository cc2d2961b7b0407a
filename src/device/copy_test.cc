#include "device/copy.h"

#include <cstring>

#include "base/testing.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

Tensor bytes(void* data, int64_t size, const MemoryPlace& place = {}) {
  return Tensor::view(DataType::kUint8, {size}, data, static_cast<size_t>(size), nullptr, place).value();
}

// S6.1: what moved, from where to where, and why.
TEST(CopyTensor, CopiesAndWritesDownBytesPlacesAndReason) {
  char source[8] = "tenon!!";
  char target[8] = {};
  const MemoryPlace pinned{.device_type = DeviceType::kGpu, .kind = MemoryKind::kHostAccessible};
  CopyLedger ledger;
  ASSERT_THAT(copy_tensor(bytes(target, 8), bytes(source, 8, pinned), CopyReason::kAlignment, "x", &ledger), is_ok());
  EXPECT_STREQ(target, "tenon!!");
  ASSERT_EQ(ledger.records.size(), 1u);
  EXPECT_EQ(ledger.records[0].bytes, 8u);
  EXPECT_EQ(ledger.records[0].source, pinned);
  EXPECT_EQ(ledger.records[0].target, MemoryPlace{});
  EXPECT_EQ(ledger.records[0].reason, CopyReason::kAlignment);
  EXPECT_STREQ(ledger.records[0].what, "x");
  EXPECT_EQ(ledger.bytes_copied(), 8u);
}

TEST(CopyTensor, TheSameAddressIsNoTransfer) {
  char memory[8] = "same";
  CopyLedger ledger;
  ASSERT_THAT(copy_tensor(bytes(memory, 8), bytes(memory, 8), CopyReason::kCallerAsked, "x", &ledger), is_ok());
  EXPECT_TRUE(ledger.records.empty());
}

TEST(CopyTensor, OverlappingRangesKeepTheSourcesBytes) {
  char memory[12] = "0123456789";
  ASSERT_THAT(copy_tensor(bytes(memory + 2, 8), bytes(memory, 8), CopyReason::kOverlap, "x", nullptr), is_ok());
  EXPECT_STREQ(memory, "0101234567");
}

TEST(CopyTensor, UsesTheLedgersReservedRoom) {
  char source[4] = {}, target[4] = {};
  CopyLedger ledger;
  ledger.records.reserve(1);
  const CopyRecord* room = ledger.records.data();
  ASSERT_THAT(copy_tensor(bytes(target, 4), bytes(source, 4), CopyReason::kCallerAsked, "x", &ledger), is_ok());
  EXPECT_EQ(ledger.records.data(), room);
}

TEST(CopyTensor, RefusesOtherTypesSizesAndUnaddressablePlaces) {
  char source[8] = {}, target[8] = {1};
  CopyLedger ledger;
  Tensor dst = bytes(target, 8);
  EXPECT_THAT(copy_tensor(dst, bytes(source, 7), CopyReason::kCallerAsked, "x", &ledger),
              has_status(StatusCode::kInvalidArgument, HasSubstr("7 bytes")));
  Tensor signed_bytes = Tensor::view(DataType::kInt8, {8}, source, 8).value();
  EXPECT_THAT(copy_tensor(dst, signed_bytes, CopyReason::kCallerAsked, "x", &ledger),
              has_status(StatusCode::kInvalidArgument, HasSubstr("int8 to uint8")));
  EXPECT_THAT(
      copy_tensor(dst, bytes(source, 8, {.device_type = DeviceType::kGpu}), CopyReason::kCallerAsked, "x", &ledger),
      has_status(StatusCode::kUnsupported, HasSubstr("gpu:0")));
  EXPECT_THAT(copy_tensor(dst, Tensor(), CopyReason::kCallerAsked, "x", &ledger),
              has_status(StatusCode::kInvalidArgument, HasSubstr("source")));
  EXPECT_THAT(copy_tensor(dst.as_read_only(), bytes(source, 8), CopyReason::kCallerAsked, "x", &ledger),
              has_status(StatusCode::kInvalidArgument, HasSubstr("read-only")));
  EXPECT_TRUE(ledger.records.empty());
  EXPECT_EQ(target[0], 1);
}

TEST(CopyReason, EveryReasonHasItsName) {
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(CopyReason::kCallerAsked); ++i)
    names.emplace_back(copy_reason_name(static_cast<CopyReason>(i)));
  EXPECT_THAT(names, ::testing::ElementsAre("not_compatible", "alignment", "output_unknown_size", "output_is_input",
                                            "output_shared", "overlap", "caller_asked"));
  EXPECT_EQ(copy_reason_name(static_cast<CopyReason>(99)), "unknown");
}

}  // namespace
}  // namespace tenon
