#include <tenon/object.h>

#include <thread>
#include <vector>

#include "base/testing.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

Tensor numbers(const Shape& shape) {
  Tensor tensor = Tensor::allocate(DataType::kFloat, shape).value();
  for (int64_t i = 0; i < shape.element_count(); ++i) tensor.data_as<float>()[i] = static_cast<float>(i);
  return tensor;
}

Tensor words() { return string_tensor({"a", "b", "c"}, Shape{3}).value(); }

ObjectTypeRef type_of_maps(DataType key, DataType value) {
  const auto tensor = std::make_shared<const ObjectType>(ObjectType{.kind = ObjectKind::kTensor, .type = value});
  const auto map =
      std::make_shared<const ObjectType>(ObjectType{.kind = ObjectKind::kMap, .type = key, .element = tensor});
  return std::make_shared<const ObjectType>(ObjectType{.kind = ObjectKind::kSequence, .element = map});
}

TEST(ObjectMaps, AreTheMapsThatTheRowsWouldBe) {
  const Tensor keys = words(), values = numbers({2, 3});
  const ObjectRef maps = Object::maps(keys, values).value();
  EXPECT_EQ(maps->kind(), ObjectKind::kSequence);
  ASSERT_EQ(maps->elements().size(), 2U);
  for (int64_t row = 0; row < 2; ++row) {
    const Object& map = *maps->elements()[row];
    EXPECT_EQ(map.kind(), ObjectKind::kMap);
    EXPECT_EQ(map.elements()[0]->as_tensor().data(), keys.data());
    EXPECT_EQ(map.elements()[1]->as_tensor().data(), values.data_as<float>() + 3 * row);
    EXPECT_EQ(map.elements()[1]->as_tensor().shape(), (Shape{3}));
  }
  EXPECT_EQ(maps->map_keys()->data(), keys.data());
  EXPECT_EQ(maps->map_values()->data(), values.data());
}

TEST(ObjectMaps, CompareAndCopyAsAnyOtherSequence) {
  const ObjectRef maps = Object::maps(words(), numbers({2, 3})).value();
  std::vector<ObjectRef> rows(maps->elements().begin(), maps->elements().end());
  const ObjectRef plain = Object::sequence(rows);
  EXPECT_EQ(plain->map_keys(), nullptr);
  EXPECT_TRUE(same_contents(object_tensor(maps), object_tensor(plain)));
  const ObjectRef longer = Object::appended(*maps, rows[0], 1);
  EXPECT_EQ(longer->elements().size(), 3U);
  EXPECT_FALSE(same_contents(object_tensor(maps), object_tensor(longer)));
  for (const Object* object : {maps.get(), plain.get()}) {
    EXPECT_TRUE(is_of_type(object, type_of_maps(DataType::kString, DataType::kFloat)));
    EXPECT_FALSE(is_of_type(object, type_of_maps(DataType::kInt64, DataType::kFloat)));
    EXPECT_FALSE(is_of_type(object, type_of_maps(DataType::kString, DataType::kDouble)));
  }
}

TEST(ObjectMaps, ADeepCopyHasMemoryOfItsOwn) {
  std::vector<float> borrowed = {1, 2, 3};
  const Tensor values = Tensor::view(DataType::kFloat, {1, 3}, borrowed.data(), 12).value();
  const Tensor copy = deep_copy(object_tensor(Object::maps(words(), values).value())).value();
  borrowed[1] = 9;
  EXPECT_EQ(object_of(copy)->elements()[0]->elements()[1]->as_tensor().data_as<float>()[1], 2);
}

TEST(ObjectMaps, WithoutRowsThereAreNone) {
  EXPECT_TRUE(Object::maps(words(), numbers({0, 3})).value()->elements().empty());
}

TEST(ObjectMaps, ThreadsThatAskAtOnceGetTheSame) {
  const ObjectRef maps = Object::maps(words(), numbers({100, 3})).value();
  std::vector<const ObjectRef*> seen(8);
  std::vector<std::thread> threads;
  for (auto& one : seen) threads.emplace_back([&] { one = maps->elements().data(); });
  for (std::thread& thread : threads) thread.join();
  for (const ObjectRef* one : seen) EXPECT_EQ(one, seen[0]);
}

TEST(ObjectMaps, RefuseKeysAndValuesThatAreNone) {
  const auto refused = [](Tensor keys, Tensor values, const char* text) {
    EXPECT_THAT(Object::maps(std::move(keys), std::move(values)),
                has_status(StatusCode::kInvalidArgument, HasSubstr(text)));
  };
  refused(numbers({3}), numbers({2, 3}), "keys of a map are a float32 tensor");
  refused(Tensor(), numbers({2, 3}), "keys of a map");
  refused(words(), numbers({2, 2}), "shape [2,2]; they have to be numbers in a column for each of 3 keys");
  refused(words(), numbers({3}), "shape [3]");
  refused(words(), Tensor(), "values of maps");
  refused(words(), string_tensor({"x", "y", "z"}, {1, 3}).value(), "string tensor");
}

ObjectTypeRef type_of_tensors(DataType type) {
  const auto tensor = std::make_shared<const ObjectType>(ObjectType{.kind = ObjectKind::kTensor, .type = type});
  return std::make_shared<const ObjectType>(ObjectType{.kind = ObjectKind::kSequence, .element = tensor});
}

TEST(ObjectParts, AreTensorsOverTheWhole) {
  const Tensor whole = numbers({3, 2});
  const ObjectRef parts = Object::parts(whole, Shape{1, 2}).value();
  EXPECT_EQ(parts->parts_whole()->data(), whole.data());
  EXPECT_EQ(*parts->parts_shape(), (Shape{1, 2}));
  EXPECT_EQ(parts->map_keys(), nullptr);
  EXPECT_EQ(parts->map_values(), nullptr);
  EXPECT_TRUE(is_of_type(parts.get(), type_of_tensors(DataType::kFloat)));
  EXPECT_FALSE(is_of_type(parts.get(), type_of_tensors(DataType::kDouble)));
  EXPECT_FALSE(is_of_type(parts.get(), type_of_maps(DataType::kString, DataType::kFloat)));
  ASSERT_EQ(parts->elements().size(), 3U);
  for (int64_t i = 0; i < 3; ++i) {
    const Tensor& part = parts->elements()[i]->as_tensor();
    EXPECT_EQ(part.data(), whole.data_as<float>() + 2 * i);
    EXPECT_EQ(part.shape(), (Shape{1, 2}));
    EXPECT_EQ(part.owner(), whole.owner());
  }
  const ObjectRef plain = Object::sequence({parts->elements().begin(), parts->elements().end()});
  EXPECT_EQ(plain->parts_whole(), nullptr);
  EXPECT_TRUE(same_contents(object_tensor(parts), object_tensor(plain)));
}

TEST(ObjectParts, OfStringsShareThem) {
  const ObjectRef parts = Object::parts(words(), Shape()).value();
  ASSERT_EQ(parts->elements().size(), 3U);
  EXPECT_EQ(text_at(parts->elements()[2]->as_tensor(), 0), "c");
}

TEST(ObjectParts, ADeepCopyHasMemoryOfItsOwn) {
  std::vector<float> borrowed = {1, 2, 3};
  const Tensor whole = Tensor::view(DataType::kFloat, {3}, borrowed.data(), 12).value();
  const Tensor copy = deep_copy(object_tensor(Object::parts(whole, Shape()).value())).value();
  borrowed[1] = 9;
  EXPECT_EQ(object_of(copy)->elements()[1]->as_tensor().data_as<float>()[0], 2);
}

TEST(ObjectParts, RefuseWhatIsNoWholeNumberOfThem) {
  const auto refused = [](const Tensor& whole, const Shape& part) {
    EXPECT_THAT(Object::parts(whole, part), has_status(StatusCode::kInvalidArgument, HasSubstr("whole parts")));
  };
  refused(numbers({3}), Shape{2});
  refused(numbers({3}), Shape{0});
  refused(Tensor(), Shape());
  refused(Tensor::allocate(DataType::kInt4, {4}).value(), Shape{1});
}

}  // namespace
}  // namespace tenon
