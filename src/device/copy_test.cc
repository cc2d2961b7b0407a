#include "device/copy.h"

#include <cstring>

#include "base/testing.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

Tensor bytes(void* data, int64_t size, const MemorySpace& space = {}) {
  return Tensor::view(DataType::kUint8, {size}, data, size, nullptr, space).value();
}

// S6.1: what moved, from where to where, and why.
TEST(CopyTensor, CopiesAndRecordsBytesSpacesAndReason) {
  char source[8] = "tenon!!";
  char target[8] = {};
  const MemorySpace pinned{.device_type = DeviceType::kGpu, .kind = MemoryKind::kHostAccessible};
  CopyLedger ledger;
  ASSERT_THAT(copy_tensor(bytes(target, 8), bytes(source, 8, pinned), CopyReason::kAlignment, "x", &ledger), is_ok());
  EXPECT_STREQ(target, "tenon!!");
  ASSERT_EQ(ledger.records.size(), 1u);
  EXPECT_EQ(ledger.records[0].bytes, 8u);
  EXPECT_EQ(ledger.records[0].source, pinned);
  EXPECT_EQ(ledger.records[0].target, MemorySpace{});
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

class RecordingTransfer final : public DataTransfer {
 public:
  bool can_copy(const MemorySpace& src, const MemorySpace&) const override { return src.device_id == 0; }
  Status copy(const Tensor& dst, const Tensor& src, DeviceStream* stream) override {
    ++calls;
    last_stream = stream;
    if (fail) return device_error("The device is gone.");
    std::memcpy(dst.data(), src.data(), src.size_bytes());
    return {};
  }
  int calls = 0;
  bool fail = false;
  DeviceStream* last_stream = nullptr;
};

TEST(CopyTensor, WhatTheHostCannotAddressGoesThroughTheTransfer) {
  char source[4] = "abc", target[4] = {};
  const MemorySpace gpu{.device_type = DeviceType::kGpu};
  RecordingTransfer transfer;
  CopyLedger ledger;
  auto* stream = reinterpret_cast<DeviceStream*>(&transfer);  // only passed on
  ASSERT_THAT(
      copy_tensor(bytes(target, 4), bytes(source, 4, gpu), CopyReason::kNotCompatible, "x", &ledger, &transfer, stream),
      is_ok());
  EXPECT_STREQ(target, "abc");
  EXPECT_EQ(transfer.last_stream, stream);
  EXPECT_EQ(ledger.bytes_copied(), 4u);
  // The host itself moves bytes that it can address.
  ASSERT_THAT(copy_tensor(bytes(target, 4), bytes(source, 4), CopyReason::kCallerAsked, "x", &ledger, &transfer),
              is_ok());
  EXPECT_EQ(transfer.calls, 1);
}

TEST(CopyTensor, ATransferThatRefusesOrFailsLeavesNoRecord) {
  char source[4] = {}, target[4] = {};
  const MemorySpace gpu{.device_type = DeviceType::kGpu};
  const MemorySpace other{.device_type = DeviceType::kGpu, .device_id = 1};
  RecordingTransfer transfer;
  CopyLedger ledger;
  EXPECT_THAT(
      copy_tensor(bytes(target, 4), bytes(source, 4, other), CopyReason::kNotCompatible, "x", &ledger, &transfer),
      has_status(StatusCode::kUnsupported, HasSubstr("refuses the pair")));
  transfer.fail = true;
  EXPECT_THAT(copy_tensor(bytes(target, 4), bytes(source, 4, gpu), CopyReason::kNotCompatible, "x", &ledger, &transfer),
              has_status(StatusCode::kDeviceError, HasSubstr("while copying \"x\" from gpu:0")));
  EXPECT_TRUE(ledger.records.empty());
}

TEST(CopyReason, EveryReasonHasItsName) {
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(CopyReason::kCallerAsked); ++i)
    names.emplace_back(copy_reason_name(static_cast<CopyReason>(i)));
  EXPECT_THAT(names, ::testing::ElementsAre("not_compatible", "alignment", "output_unknown_size", "output_is_input",
                                            "output_shared", "overlap", "caller_asked"));
  EXPECT_EQ(copy_reason_name(static_cast<CopyReason>(99)), "unknown");
}

TEST(CopyTensor, NothingIsWrittenDownForNoBytes) {
  const Tensor from = *Tensor::allocate(DataType::kFloat, {0, 4});
  const Tensor to = *Tensor::allocate(DataType::kFloat, {0, 4});
  CopyLedger ledger;
  EXPECT_THAT(copy_tensor(to, from, CopyReason::kCallerAsked, "x", &ledger), is_ok());
  copy_moving_axis(Shape{0, 4}, 1, false, 4, from.data_as<std::byte>(), to.data_as<std::byte>(),
                   CopyReason::kScanSlices, "x", &ledger);
  EXPECT_TRUE(ledger.records.empty());
}

}  // namespace
}  // namespace tenon
