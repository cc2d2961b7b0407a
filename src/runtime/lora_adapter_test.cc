// The file format of adapters: what is written is read, and broken bytes are refused.
#include "tenon/lora_adapter.h"

#include <cstring>
#include <random>

#include "base/testing.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

Tensor numbers(DataType type, const Shape& shape, uint8_t first) {
  Tensor tensor = *Tensor::allocate(type, shape);
  for (size_t i = 0; i < tensor.size_bytes(); ++i) tensor.data_as<uint8_t>()[i] = static_cast<uint8_t>(first + i);
  return tensor;
}

LoraAdapter example() {
  LoraAdapter adapter;
  adapter.adapter_version = 3;
  adapter.model_version = -7;
  adapter.parameters = {{"a", numbers(DataType::kFloat, Shape{2, 3}, 1)},
                        {"layer.1.weight", numbers(DataType::kInt64, Shape{5}, 2)},
                        {"odd", numbers(DataType::kUint8, Shape{3}, 3)},
                        {"empty", numbers(DataType::kFloat16, Shape{0, 4}, 4)},
                        {"scalar", numbers(DataType::kDouble, Shape{}, 5)}};
  return adapter;
}

TEST(LoraAdapter, WhatIsWrittenIsRead) {
  const LoraAdapter written = example();
  const std::vector<std::byte> bytes = *written.write();
  const LoraAdapter read = *LoraAdapter::read(bytes);
  EXPECT_EQ(read.format_version, 1);
  EXPECT_EQ(read.adapter_version, 3);
  EXPECT_EQ(read.model_version, -7);
  ASSERT_EQ(read.parameters.size(), written.parameters.size());
  for (size_t i = 0; i < read.parameters.size(); ++i) {
    const auto& [name, tensor] = read.parameters[i];
    const Tensor& from = written.parameters[i].second;
    EXPECT_EQ(name, written.parameters[i].first);
    EXPECT_EQ(tensor.type(), from.type());
    EXPECT_EQ(tensor.shape(), from.shape());
    EXPECT_EQ(std::memcmp(tensor.data(), from.data(), from.size_bytes()), 0) << name;
    EXPECT_TRUE(tensor.read_only());
    EXPECT_TRUE(from.size_bytes() == 0 || tensor.owner() != nullptr);
  }
}

TEST(LoraAdapter, AnAdapterWithoutParametersIsOne) {
  EXPECT_TRUE(LoraAdapter::read(*LoraAdapter().write())->parameters.empty());
}

TEST(LoraAdapter, EveryPrefixIsRefused) {
  const std::vector<std::byte> bytes = *example().write();
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(LoraAdapter::read(std::span(bytes).first(size)).ok()) << size;
}

// Not every changed byte can be found out; none may lead out of the bytes.
TEST(LoraAdapter, ChangedBytesAreReadWithinBounds) {
  const std::vector<std::byte> bytes = *example().write();
  std::mt19937 random(7);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> changed = bytes;
    for (unsigned i = 0; i <= random() % 4; ++i) changed[random() % changed.size()] = static_cast<std::byte>(random());
    const Result<LoraAdapter> read = LoraAdapter::read(changed);
    if (!read.ok()) continue;
    for (const auto& [name, tensor] : read->parameters) {
      unsigned sum = 0;
      for (size_t i = 0; i < tensor.size_bytes(); ++i) sum += tensor.data_as<uint8_t>()[i];
      EXPECT_LE(sum, 255u * tensor.size_bytes());
    }
  }
}

TEST(LoraAdapter, OtherBytesAndVersionsAreNamed) {
  std::vector<std::byte> bytes = *example().write();
  EXPECT_THAT(LoraAdapter::read(std::span(bytes).first(8)),
              has_status(StatusCode::kInvalidArgument, HasSubstr("TORT")));
  // The format's version is the first field of the first table.
  for (size_t at = 8; at < 64; at += 4) {
    int32_t number = 0;
    std::memcpy(&number, bytes.data() + at, 4);
    if (number != 1) continue;
    bytes[at] = std::byte{2};
    break;
  }
  EXPECT_THAT(LoraAdapter::read(bytes), has_status(StatusCode::kUnsupported, HasSubstr("version 2")));
  EXPECT_THAT(LoraAdapter::load("/no/such/adapter"), has_status(StatusCode::kNotFound, HasSubstr("/no/such/adapter")));
}

TEST(LoraAdapter, WhatAnAdapterCannotHoldIsRefused) {
  LoraAdapter adapter;
  adapter.parameters = {{"a", Tensor()}};
  EXPECT_THAT(adapter.write(), has_status(StatusCode::kInvalidArgument, HasSubstr("\"a\"")));
  adapter.parameters = {{"", numbers(DataType::kFloat, Shape{1}, 1)}};
  EXPECT_THAT(adapter.write(), has_status(StatusCode::kInvalidArgument, HasSubstr("no name")));
  adapter.parameters = {{"half", *Tensor::allocate(DataType::kInt4, Shape{2})}};
  EXPECT_THAT(adapter.write(), has_status(StatusCode::kInvalidArgument, HasSubstr("int4")));
  // No memory behind it: only its size is looked at.
  alignas(64) static std::byte one[64];
  const int64_t count = int64_t{1} << 31;
  adapter.parameters = {{"large", *Tensor::view(DataType::kUint8, Shape{count}, one, count)}};
  EXPECT_THAT(adapter.write(), has_status(StatusCode::kUnsupported, HasSubstr("2147483647")));
  adapter.parameters = {{"a", numbers(DataType::kFloat, Shape{1}, 1)}, {"a", numbers(DataType::kFloat, Shape{1}, 1)}};
  EXPECT_THAT(LoraAdapter::read(*adapter.write()),
              has_status(StatusCode::kInvalidArgument, HasSubstr("two parameters")));
}

}  // namespace
}  // namespace tenon
