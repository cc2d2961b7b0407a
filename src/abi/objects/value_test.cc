#include "abi/objects/value.h"

#include <gmock/gmock.h>

#include <array>
#include <cstdlib>
#include <memory>

#include "abi/objects/allocator.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"

namespace tenon::abi {
namespace {

using testing::HasSubstr;

// The code and text of a status, which is released.
struct Failure {
  OrtErrorCode code = ORT_OK;
  std::string message;
};
Failure failure(OrtStatus* status) {
  Failure result{ort_api::GetErrorCode(status), ort_api::GetErrorMessage(status)};
  ort_api::ReleaseStatus(status);
  return result;
}
#define EXPECT_FAILS(call, expected_code, text) \
  do {                                          \
    const Failure one = failure(call);          \
    EXPECT_EQ(one.code, expected_code);         \
    EXPECT_THAT(one.message, HasSubstr(text));  \
  } while (false)

using Value = std::unique_ptr<OrtValue>;

Value view(void* data, size_t bytes, std::vector<int64_t> dims, const OrtMemoryInfo& memory = {}) {
  OrtValue* value = nullptr;
  EXPECT_EQ(ort_api::CreateTensorWithDataAsOrtValue(&memory, data, bytes, dims.data(), dims.size(),
                                                    ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value),
            nullptr);
  return Value(value);
}

// An allocator of a program's own, which counts and can refuse or throw.
struct Counting {
  OrtAllocator functions{};
  OrtMemoryInfo info;
  int blocks = 0;
  bool refuses = false;
  bool throws = false;

  Counting() {
    functions.version = 1;
    functions.Alloc = [](OrtAllocator* self, size_t size) -> void* {
      auto* counting = reinterpret_cast<Counting*>(self);
      if (counting->throws) throw 1;
      if (counting->refuses) return nullptr;
      ++counting->blocks;
      return std::malloc(size);
    };
    functions.Free = [](OrtAllocator* self, void* block) {
      --reinterpret_cast<Counting*>(self)->blocks;
      std::free(block);
    };
    functions.Info = [](const OrtAllocator* self) -> const OrtMemoryInfo* {
      return &reinterpret_cast<const Counting*>(self)->info;
    };
  }
};

TEST(OrtValue, RefusedShapesLeaveTheOutParameterNull) {
  float data[4] = {};
  const OrtMemoryInfo memory;
  const int64_t negative[] = {-1};
  const int64_t overflowing[] = {int64_t{1} << 40, int64_t{1} << 40};
  const int64_t many[13] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  const auto type = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  auto* value = reinterpret_cast<OrtValue*>(1);
  const auto create = [&](const int64_t* dims, size_t rank) {
    value = reinterpret_cast<OrtValue*>(1);
    return ort_api::CreateTensorWithDataAsOrtValue(&memory, data, sizeof(data), dims, rank, type, &value);
  };
  EXPECT_FAILS(create(negative, 1), ORT_INVALID_ARGUMENT, "negative");
  EXPECT_EQ(value, nullptr);
  EXPECT_FAILS(create(overflowing, 2), ORT_FAIL, "overflow");
  EXPECT_FAILS(create(many, 13), ORT_INVALID_ARGUMENT, "Rank 13");
  EXPECT_FAILS(create(nullptr, 2), ORT_INVALID_ARGUMENT, "null");
  EXPECT_EQ(value, nullptr);
}

// The sizes beside a zero may be as large as they like.
TEST(OrtValue, AnEmptyTensorHasNoElementsWhateverItsOtherSizes) {
  const OrtMemoryInfo memory;
  const int64_t large = int64_t{1} << 40;
  for (const std::array<int64_t, 3>& dims :
       {std::array{large, large, int64_t{0}}, std::array{int64_t{0}, large, large}}) {
    float data[4] = {};
    OrtValue* value = nullptr;
    OrtTensorTypeAndShapeInfo* info = nullptr;
    size_t count = 7;
    ASSERT_EQ(ort_api::CreateTensorWithDataAsOrtValue(&memory, data, sizeof(data), dims.data(), dims.size(),
                                                      ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value),
              nullptr);
    ASSERT_EQ(ort_api::GetTensorTypeAndShape(value, &info), nullptr);
    EXPECT_EQ(ort_api::GetTensorShapeElementCount(info, &count), nullptr);
    EXPECT_EQ(count, 0u);
    ort_api::ReleaseTensorTypeAndShapeInfo(info);
    ort_api::ReleaseValue(value);
  }
}

TEST(OrtValue, MisalignedAndNullDataAreRefused) {
  alignas(8) char bytes[32] = {};
  const OrtMemoryInfo memory;
  const int64_t dims[] = {4};
  OrtValue* value = nullptr;
  EXPECT_FAILS(ort_api::CreateTensorWithDataAsOrtValue(&memory, bytes + 1, 16, dims, 1,
                                                       ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value),
               ORT_INVALID_ARGUMENT, "not aligned");
  EXPECT_FAILS(ort_api::CreateTensorWithDataAsOrtValue(&memory, nullptr, 16, dims, 1,
                                                       ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value),
               ORT_INVALID_ARGUMENT, "null");
}

// S3.2: a value enters a binding as the tensor that it is, with its space.
TEST(OrtValue, AViewIsATensorOfTheSameMemoryAndSpace) {
  float data[6] = {};
  const OrtMemoryInfo shared{
      .name = "Sim",
      .mem_type = OrtMemTypeCPU,
      .device = {OrtMemoryInfoDeviceType_NPU, OrtDeviceMemoryType_HOST_ACCESSIBLE, 0x544e, 2, 0}};
  const Value value = view(data, sizeof(data), {2, 3}, shared);
  EXPECT_EQ(value->tensor.data(), data);
  EXPECT_EQ(value->tensor.space(), to_memory_space(shared));
  EXPECT_EQ(value->tensor.space().kind, MemoryKind::kHostAccessible);
  const OrtMemoryInfo* reported = nullptr;
  ASSERT_EQ(ort_api::GetTensorMemoryInfo(value.get(), &reported), nullptr);
  EXPECT_EQ(*reported, shared);
}

TEST(OrtValue, AnOwnedTensorGoesBackToItsAllocatorWithItsLastCopy) {
  Counting allocator;
  const int64_t dims[] = {5};
  OrtValue* value = nullptr;
  ASSERT_EQ(ort_api::CreateTensorAsOrtValue(&allocator.functions, dims, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value),
            nullptr);
  EXPECT_EQ(allocator.blocks, 1);
  {
    const Tensor kept = value->tensor;
    ort_api::ReleaseValue(value);
    EXPECT_EQ(allocator.blocks, 1);
  }
  EXPECT_EQ(allocator.blocks, 0);
}

TEST(OrtValue, AnAllocatorThatRefusesOrThrowsGivesAStatus) {
  Counting allocator;
  const int64_t dims[] = {5};
  OrtValue* value = nullptr;
  const auto create = [&] {
    return ort_api::CreateTensorAsOrtValue(&allocator.functions, dims, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value);
  };
  allocator.refuses = true;
  EXPECT_FAILS(create(), ORT_RUNTIME_EXCEPTION, "no memory for 20 bytes");
  allocator.throws = true;
  EXPECT_FAILS(create(), ORT_RUNTIME_EXCEPTION, "threw");
  allocator.functions.Alloc = nullptr;
  EXPECT_FAILS(create(), ORT_INVALID_ARGUMENT, "Alloc");
  EXPECT_EQ(value, nullptr);
  EXPECT_EQ(allocator.blocks, 0);
}

TEST(OrtValue, ABufferIsTakenOverOnlyOnSuccess) {
  Counting allocator;
  const int64_t dims[] = {4};
  OrtValue* value = nullptr;
  void* block = allocator.functions.Alloc(&allocator.functions, 16);
  EXPECT_FAILS(ort_api::CreateTensorWithDataAndDeleterAsOrtValue(&allocator.functions, block, 15, dims, 1,
                                                                 ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value),
               ORT_INVALID_ARGUMENT, "Expected:16 Got:15");
  EXPECT_EQ(allocator.blocks, 1);
  ASSERT_EQ(ort_api::CreateTensorWithDataAndDeleterAsOrtValue(&allocator.functions, block, 16, dims, 1,
                                                              ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value),
            nullptr);
  ort_api::ReleaseValue(value);
  EXPECT_EQ(allocator.blocks, 0);
}

TEST(OrtValue, AnElementOfASequenceOutlivesTheMemoryThatTheSequenceViews) {
  auto data = std::make_unique<float[]>(2);
  data[0] = 7;
  const Value element = view(data.get(), 8, {2});
  const OrtValue* one[] = {element.get()};
  OrtValue* sequence = nullptr;
  ASSERT_EQ(ort_api::CreateValue(one, 1, ONNX_TYPE_SEQUENCE, &sequence), nullptr);
  OrtValue* taken = nullptr;
  ASSERT_EQ(ort_api::GetValue(sequence, 0, default_allocator(), &taken), nullptr);
  ort_api::ReleaseValue(sequence);
  data.reset();
  EXPECT_EQ(*taken->tensor.data_as<float>(), 7);
  ort_api::ReleaseValue(taken);
}

TEST(OrtValue, IndicesOutsideASequenceAreRefused) {
  float data[2] = {};
  const Value element = view(data, 8, {2});
  const OrtValue* one[] = {element.get()};
  const OrtValue* none[] = {nullptr};
  OrtValue* sequence = nullptr;
  OrtValue* taken = nullptr;
  ASSERT_EQ(ort_api::CreateValue(one, 1, ONNX_TYPE_SEQUENCE, &sequence), nullptr);
  EXPECT_FAILS(ort_api::GetValue(sequence, -1, default_allocator(), &taken), ORT_FAIL, "(-1)");
  EXPECT_FAILS(ort_api::GetValue(sequence, 1, default_allocator(), &taken), ORT_FAIL, "(1)");
  EXPECT_FAILS(ort_api::CreateValue(none, 1, ONNX_TYPE_SEQUENCE, &taken), ORT_INVALID_ARGUMENT, "null");
  ort_api::ReleaseValue(sequence);
}

TEST(OrtValue, ANullStringLeavesTheTensorAsItWas) {
  const int64_t dims[] = {2};
  const char* good[] = {"a", "b"};
  const char* bad[] = {"c", nullptr};
  OrtValue* value = nullptr;
  ASSERT_EQ(ort_api::CreateTensorAsOrtValue(default_allocator(), dims, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, &value),
            nullptr);
  ASSERT_EQ(ort_api::FillStringTensor(value, good, 2), nullptr);
  EXPECT_FAILS(ort_api::FillStringTensor(value, bad, 2), ORT_INVALID_ARGUMENT, "String 1");
  EXPECT_THAT(*value->strings, testing::ElementsAre("a", "b"));
  ort_api::ReleaseValue(value);
}

}  // namespace
}  // namespace tenon::abi
