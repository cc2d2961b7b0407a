#include <tenon/tensor.h>

#include <cstring>

#include "base/fault.h"
#include "base/system.h"
#include "base/testing.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

TEST(TensorAllocate, GivesZeroedMemoryAlignedTo64Bytes) {
  for (int64_t count : {1, 3, 1000, 1 << 20}) {
    Tensor tensor = Tensor::allocate(DataType::kFloat, {count}).value();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % 64, 0u);
    EXPECT_EQ(tensor.size_bytes(), size_t{4} * count);
    for (int64_t i = 0; i < count; ++i) ASSERT_EQ(tensor.data_as<float>()[i], 0.0f);
  }
}

TEST(TensorAllocate, AnEmptyTensorStillHasAnAddress) {
  Tensor tensor = Tensor::allocate(DataType::kInt64, {2, 0}).value();
  EXPECT_TRUE(tensor.defined());
  EXPECT_NE(tensor.data(), nullptr);
  EXPECT_EQ(tensor.size_bytes(), 0u);
}

TEST(TensorAllocate, RefusesStringsNegativeDimensionsAndOverflow) {
  EXPECT_THAT(Tensor::allocate(DataType::kUndefined, {1}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("undefined")));
  EXPECT_THAT(Tensor::allocate(DataType::kFloat, {2, -1}), has_status(StatusCode::kInvalidArgument, HasSubstr("-1")));
  EXPECT_THAT(Tensor::allocate(DataType::kFloat, {INT64_MAX, INT64_MAX}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("overflow")));
  const auto unheard_of =
      static_cast<DataType>(77);  // NOLINT(clang-analyzer-optin.core.EnumCastOutOfRange): on purpose
  EXPECT_THAT(Tensor::allocate(unheard_of, {1}), has_status(StatusCode::kInvalidArgument));
}

// Linux promises more memory than there is, and ends the process when it is written.
TEST(TensorAllocate, RefusesMoreThanTheMachineHas) {
  EXPECT_GT(memory_bytes(), page_bytes());
  ASSERT_LT(memory_bytes(), SIZE_MAX / 2);
  const auto count = static_cast<int64_t>(memory_bytes() / sizeof(float));
  EXPECT_THAT(Tensor::allocate(DataType::kFloat, {count + 1}),
              has_status(StatusCode::kResourceExhausted, HasSubstr(std::to_string(memory_bytes()) + " bytes")));
}

TEST(TensorAllocate, AFailedAllocationIsAStatus) {
  FaultInjection fault(1);
  EXPECT_THAT(Tensor::allocate(DataType::kFloat, {4}), has_status(StatusCode::kResourceExhausted));
}

TEST(TensorView, ChecksRoomAddressAndAlignment) {
  alignas(64) std::byte memory[256];
  EXPECT_THAT(Tensor::view(DataType::kFloat, {65}, memory, sizeof(memory)),
              has_status(StatusCode::kInvalidArgument, HasSubstr("260")));
  EXPECT_THAT(Tensor::view(DataType::kFloat, {1}, nullptr, 4),
              has_status(StatusCode::kInvalidArgument, HasSubstr("null")));
  EXPECT_THAT(Tensor::view(DataType::kFloat, {1}, memory + 2, 4),
              has_status(StatusCode::kInvalidArgument, HasSubstr("aligned to 4")));
  EXPECT_THAT(Tensor::view(DataType::kUint8, {1}, memory + 2, SIZE_MAX),
              has_status(StatusCode::kInvalidArgument, HasSubstr("wraps")));
  EXPECT_THAT(Tensor::view(DataType::kFloat, {1}, memory + 4, 4, nullptr, {.alignment = 64}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("64")));
  // A complex number needs its component's alignment only; a packed type none.
  EXPECT_THAT(Tensor::view(DataType::kComplex64, {1}, memory + 4, 8), is_ok());
  EXPECT_THAT(Tensor::view(DataType::kInt4, {3}, memory + 1, 2), is_ok());
}

TEST(TensorView, AcceptsNoMemoryForNoElements) {
  Tensor tensor = Tensor::view(DataType::kFloat, {0, 4}, nullptr, 0).value();
  EXPECT_TRUE(tensor.defined());
  EXPECT_EQ(tensor.data(), nullptr);
}

TEST(TensorView, TheLastHandleReleasesTheOwner) {
  auto owner = std::make_shared<int>(0);
  std::weak_ptr<int> alive = owner;
  float memory[4];
  Tensor first = Tensor::view(DataType::kFloat, {4}, memory, sizeof(memory), std::move(owner)).value();
  Tensor second = first.reinterpret(DataType::kUint8, {16}).value();
  first = Tensor();
  EXPECT_FALSE(alive.expired());
  second = Tensor();
  EXPECT_TRUE(alive.expired());
}

TEST(TensorReinterpret, UsesTheWholeCapacityAndNoMore) {
  float memory[8];
  Tensor tensor = Tensor::view(DataType::kFloat, {2}, memory, sizeof(memory)).value();
  EXPECT_EQ(tensor.capacity_bytes(), 32u);
  EXPECT_EQ(tensor.reinterpret(DataType::kInt32, {2, 4})->capacity_bytes(), 32u);
  EXPECT_THAT(tensor.reinterpret(DataType::kInt32, {9}), has_status(StatusCode::kInvalidArgument, HasSubstr("36")));
  EXPECT_THAT(Tensor().reinterpret(DataType::kInt32, {1}), has_status(StatusCode::kInvalidArgument));
}

TEST(TensorReadOnly, StaysReadOnlyWhenReinterpreted) {
  float memory[8];
  const Tensor tensor = Tensor::view(DataType::kFloat, {8}, memory, sizeof(memory)).value();
  EXPECT_FALSE(tensor.read_only());
  EXPECT_TRUE(tensor.as_read_only().reinterpret(DataType::kInt32, {2, 4})->read_only());
}

}  // namespace
}  // namespace tenon
