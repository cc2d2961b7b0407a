#include <gmock/gmock.h>
#include <tenon/object.h>
#include <tenon/ort_bridge.h>

#include <memory>

#include "abi/objects/run_options.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"

namespace tenon {
namespace {

struct Release {
  void operator()(OrtValue* value) const { abi::ort_api::ReleaseValue(value); }
};
using Value = std::unique_ptr<OrtValue, Release>;

TEST(OrtBridge, AValueSharesTheTensorsMemoryAndKeepsItsOwner) {
  auto numbers = std::make_shared<std::array<float, 6>>();
  const std::weak_ptr<const void> alive = numbers;
  Tensor tensor = *Tensor::view(DataType::kFloat, Shape{2, 3}, numbers->data(), sizeof *numbers, numbers);
  const void* address = numbers->data();
  numbers.reset();
  Value value(*make_ort_value(tensor));
  tensor = Tensor();
  ASSERT_FALSE(alive.expired());
  const void* data = nullptr;
  ASSERT_EQ(abi::ort_api::GetTensorData(value.get(), &data), nullptr);
  EXPECT_EQ(data, address);
  Tensor back = *tensor_of(value.get());
  value.reset();
  EXPECT_EQ(back.data(), address);
  EXPECT_EQ(back.shape(), (Shape{2, 3}));
  back = Tensor();
  EXPECT_TRUE(alive.expired());
}

TEST(OrtBridge, SequencesWithoutElementsAndEmptyOptionalsAreValues) {
  const Value sequence(*make_ort_value(object_tensor(Object::sequence({}))));
  size_t count = 1;
  ASSERT_EQ(abi::ort_api::GetValueCount(sequence.get(), &count), nullptr);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(object_of(*tensor_of(sequence.get()))->kind(), ObjectKind::kSequence);
  const Value nothing(*make_ort_value(object_tensor(nullptr)));
  int has_value = 1;
  ASSERT_EQ(abi::ort_api::HasValue(nothing.get(), &has_value), nullptr);
  EXPECT_EQ(has_value, 0);
  EXPECT_EQ(object_of(*tensor_of(nothing.get())), nullptr);
}

TEST(OrtBridge, StringsPassBothWays) {
  const Value value(*make_ort_value(*string_tensor({"red", ""}, Shape{2})));
  const Tensor back = *tensor_of(value.get());
  EXPECT_EQ(text_at(back, 0), "red");
  EXPECT_EQ(text_at(back, 1), "");
}

TEST(OrtBridge, NothingIsAnErrorAndNoSessionIsNull) {
  EXPECT_EQ(make_ort_value(Tensor()).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(tensor_of(nullptr).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(session_of(nullptr), nullptr);
}

TEST(OrtBridge, FencesOfARunReplaceEarlierOnesAndHaveTimelines) {
  OrtRunOptions options;
  const Fence fence{*make_host_timeline("frames"), 3};
  ASSERT_TRUE(set_run_fences(&options, {&fence, 1}, {&fence, 1}).ok());
  ASSERT_TRUE(set_run_fences(&options, {}, {&fence, 1}).ok());
  EXPECT_TRUE(options.waits.empty());
  ASSERT_EQ(options.signals.size(), 1u);
  EXPECT_EQ(options.signals[0].value, 3u);
  const Fence nothing{nullptr, 7};
  const Status bad = set_run_fences(&options, {&nothing, 1}, {});
  EXPECT_EQ(bad.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(bad.message(), testing::HasSubstr("7"));
  EXPECT_EQ(options.signals.size(), 1u);
  EXPECT_EQ(set_run_fences(nullptr, {}, {}).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tenon
