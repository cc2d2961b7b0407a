#include "runtime/session_spaces.h"

#include <array>

#include "base/testing.h"
#include "runtime/once_copies.h"

namespace tenon {
namespace {

// Plain host memory, and two spaces of a device that ask for alignments.
SessionSpaces two_alignments() {
  SpaceTable table;
  for (const uint32_t alignment : {64U, 256U, 64U}) {
    MemorySpace space{.device_type = DeviceType::kGpu, .vendor_id = 0x10de};
    space.alignment = alignment;
    table.spaces.push_back(space);
    table.allocators.push_back(nullptr);
    table.handles.push_back(false);
  }
  return SessionSpaces(std::move(table));
}

TEST(SessionSpaces, AnAddressHasTheStrictestAlignmentThatASpaceAsksFor) {
  const SessionSpaces spaces = two_alignments();
  const auto at = [](uintptr_t address) { return reinterpret_cast<const void*>(address); };
  EXPECT_EQ(spaces.alignment_of(at(512)), 256u);
  EXPECT_EQ(spaces.alignment_of(at(512 + 128)), 64u);
  EXPECT_EQ(spaces.alignment_of(at(512 + 4)), 0u);
  EXPECT_EQ(SessionSpaces().alignment_of(at(512)), 0u);
}

TEST(SessionSpaces, TheWordOfATensorTellsItsSpaceAndItsAlignment) {
  const SessionSpaces spaces = two_alignments();
  alignas(256) std::array<float, 128> data{};
  const auto word = [&](float* begin) {
    int64_t found = -1;
    (void)spaces.space_of(Tensor::view(DataType::kFloat, Shape{1}, begin, sizeof(float)).value(), found);
    return found;
  };
  EXPECT_EQ(word(data.data()), word(data.data() + 64));
  EXPECT_NE(word(data.data()), word(data.data() + 16));
  EXPECT_NE(word(data.data() + 16), word(data.data() + 1));
}

TEST(SessionSpaces, PlainHostMemoryIsThereWithoutAnyEp) {
  const SessionSpaces spaces;
  EXPECT_FALSE(spaces.has_devices());
  const Result<Tensor> tensor = spaces.allocate(kHostSpace, DataType::kFloat, Shape{3});
  ASSERT_THAT(tensor, is_ok());
  EXPECT_EQ(tensor->size_bytes(), 12u);
  EXPECT_EQ(spaces.transfer(MemorySpace{}, MemorySpace{}), nullptr);
}

TEST(OnceCopies, EachCopyIsInOneLedger) {
  OnceCopies copies;
  copies.add_at_load({.bytes = 8, .what = "a"});
  const CopyRecord later{.bytes = 16, .what = "b"};
  copies.add({&later, 1});
  CopyLedger first, second;
  copies.take(first);
  copies.take(second);
  ASSERT_EQ(first.records.size(), 2u);
  EXPECT_TRUE(first.records[0].once);
  EXPECT_TRUE(first.records[1].once);
  EXPECT_TRUE(second.records.empty());
  EXPECT_EQ(copies.at_load().records.size(), 1u);
}

}  // namespace
}  // namespace tenon
