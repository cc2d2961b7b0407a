// Sparse values: what the programs of tests/abi/effects cannot ask ONNX Runtime's library without crashing it.
#include <gmock/gmock.h>

#include <limits>
#include <memory>
#include <new>

#include "abi/objects/slots.h"
#include "abi/objects/sparse_tensor.h"
#include "abi/objects/status.h"
#include "abi/objects/value.h"

namespace tenon::abi {
namespace {

using ::testing::HasSubstr;

struct Release {
  void operator()(OrtValue* value) const { ort_api::ReleaseValue(value); }
};
using Value = std::unique_ptr<OrtValue, Release>;

// Counts its blocks, and has none left when it is told so.
struct CountingAllocator : OrtAllocator {
  CountingAllocator() : OrtAllocator() {
    version = ORT_API_VERSION;
    Alloc = [](OrtAllocator* self, size_t bytes) -> void* {
      auto* own = static_cast<CountingAllocator*>(self);
      if (own->exhausted) return nullptr;
      ++own->blocks;
      return ::operator new(bytes, std::align_val_t{64});
    };
    Free = [](OrtAllocator* self, void* block) {
      if (block == nullptr) return;
      --static_cast<CountingAllocator*>(self)->blocks;
      ::operator delete(block, std::align_val_t{64});
    };
    Info = [](const OrtAllocator* self) -> const OrtMemoryInfo* {
      return &static_cast<const CountingAllocator*>(self)->info;
    };
  }
  OrtMemoryInfo info;
  int blocks = 0;
  bool exhausted = false;
};

std::string outcome(OrtStatus* status) {
  if (status == nullptr) return "ok";
  std::string text = std::to_string(status->code) + ": " + status->message;
  release_status(status);
  return text;
}

class SparseValue : public ::testing::Test {
 protected:
  Value make(ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) {
    OrtValue* value = nullptr;
    EXPECT_EQ(outcome(ort_api::CreateSparseTensorAsOrtValue(&allocator_, dense_, 2, type, &value)), "ok");
    return Value(value);
  }

  const int64_t dense_[2] = {3, 4}, three_[1] = {3}, linear_[3] = {0, 5, 11};
  const float numbers_[3] = {1, 2, 3};
  CountingAllocator allocator_;
  OrtMemoryInfo cpu_;
};

TEST_F(SparseValue, ItsBlockGoesBackOnce) {
  Value value = make();
  EXPECT_EQ(allocator_.blocks, 0);
  ASSERT_EQ(outcome(ort_api::FillSparseTensorCoo(value.get(), &cpu_, three_, 1, numbers_, linear_, 3)), "ok");
  EXPECT_EQ(allocator_.blocks, 1);
  const void* data = nullptr;
  size_t count = 0;
  ASSERT_EQ(outcome(ort_api::GetSparseTensorIndices(value.get(), ORT_SPARSE_COO_INDICES, &count, &data)), "ok");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % alignof(int64_t), 0u);
  value.reset();
  EXPECT_EQ(allocator_.blocks, 0);
}

TEST_F(SparseValue, AFillThatFailsLeavesItEmptyAndFillable) {
  const Value value = make();
  allocator_.exhausted = true;
  EXPECT_THAT(outcome(ort_api::FillSparseTensorCoo(value.get(), &cpu_, three_, 1, numbers_, linear_, 3)),
              HasSubstr("bytes"));
  allocator_.exhausted = false;
  OrtSparseFormat format = ORT_SPARSE_COO;
  EXPECT_EQ(outcome(ort_api::GetSparseTensorFormat(value.get(), &format)), "ok");
  EXPECT_EQ(format, ORT_SPARSE_UNDEFINED);
  EXPECT_EQ(outcome(ort_api::FillSparseTensorCoo(value.get(), &cpu_, three_, 1, numbers_, linear_, 3)), "ok");
}

TEST_F(SparseValue, NullArraysAreRefused) {
  const Value value = make();
  EXPECT_THAT(outcome(ort_api::FillSparseTensorCoo(value.get(), &cpu_, three_, 1, nullptr, linear_, 3)),
              HasSubstr("3 values is null"));
  EXPECT_THAT(outcome(ort_api::FillSparseTensorCoo(value.get(), &cpu_, nullptr, 1, numbers_, linear_, 3)),
              HasSubstr("shape is null"));
  EXPECT_THAT(outcome(ort_api::FillSparseTensorCsr(value.get(), &cpu_, three_, 1, numbers_, nullptr, 3, linear_, 4)),
              HasSubstr("inner index data must not be null"));
  const int64_t values[] = {1, 1, 3}, indices[] = {2, 3};
  EXPECT_THAT(
      outcome(ort_api::FillSparseTensorBlockSparse(value.get(), &cpu_, values, 3, numbers_, indices, 2, nullptr)),
      HasSubstr("6 indices is null"));
  const Value strings = make(ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING);
  const char* const texts[] = {"a", nullptr, "c"};
  EXPECT_THAT(outcome(ort_api::FillSparseTensorCoo(strings.get(), &cpu_, three_, 1, texts, linear_, 3)),
              HasSubstr("String 1"));
  EXPECT_EQ(allocator_.blocks, 0);
}

TEST_F(SparseValue, SizesThatOverflowAreRefused) {
  const Value value = make();
  const int64_t most = std::numeric_limits<int64_t>::max();
  const int64_t huge[] = {most}, product[] = {most, most};
  EXPECT_NE(outcome(ort_api::FillSparseTensorCoo(value.get(), &cpu_, huge, 1, numbers_, linear_, 3)), "ok");
  EXPECT_NE(outcome(ort_api::FillSparseTensorCoo(value.get(), &cpu_, product, 2, numbers_, linear_, 3)), "ok");
  OrtValue* made = nullptr;
  float* data = const_cast<float*>(numbers_);
  EXPECT_NE(outcome(ort_api::CreateSparseTensorWithValuesAsOrtValue(&cpu_, data, dense_, 2, huge, 1,
                                                                    ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &made)),
            "ok");
  EXPECT_EQ(made, nullptr);
  // A dense size that overflows bounds no index, and is an error where one is checked against it.
  EXPECT_EQ(outcome(ort_api::CreateSparseTensorAsOrtValue(&allocator_, product, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
                                                          &made)),
            "ok");
  const Value large(made);
  EXPECT_NE(outcome(ort_api::FillSparseTensorCoo(large.get(), &cpu_, three_, 1, numbers_, linear_, 3)), "ok");
  // More dimensions than a shape has.
  const int64_t ranks[64] = {};
  EXPECT_THAT(outcome(ort_api::CreateSparseTensorAsOrtValue(&allocator_, ranks, 64, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
                                                            &made)),
              HasSubstr("Rank 64"));
}

TEST_F(SparseValue, MemoryOfADeviceIsRefused) {
  const Value value = make();
  OrtMemoryInfo gpu;
  gpu.name = "Gpu";
  gpu.device.type = OrtMemoryInfoDeviceType_GPU;
  EXPECT_THAT(outcome(ort_api::FillSparseTensorCoo(value.get(), &gpu, three_, 1, numbers_, linear_, 3)),
              HasSubstr("\"Gpu\""));
  allocator_.info = gpu;
  OrtValue* made = nullptr;
  EXPECT_THAT(outcome(ort_api::CreateSparseTensorAsOrtValue(&allocator_, dense_, 2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
                                                            &made)),
              HasSubstr("\"Gpu\""));
}

TEST_F(SparseValue, OtherValuesAreNone) {
  float data[3] = {};
  OrtValue* made = nullptr;
  ASSERT_EQ(outcome(ort_api::CreateTensorWithDataAsOrtValue(&cpu_, data, sizeof(data), three_, 1,
                                                            ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &made)),
            "ok");
  const Value tensor(made);
  EXPECT_THAT(outcome(ort_api::FillSparseTensorCoo(tensor.get(), &cpu_, three_, 1, numbers_, linear_, 3)),
              HasSubstr("not a sparse tensor"));
  EXPECT_THAT(outcome(ort_api::UseCooIndices(tensor.get(), nullptr, 0)), HasSubstr("not a sparse tensor"));
  const void* values = nullptr;
  EXPECT_THAT(outcome(ort_api::GetSparseTensorValues(tensor.get(), &values)), HasSubstr("not a sparse tensor"));
  OrtValue nothing;
  EXPECT_THAT(outcome(ort_api::GetSparseTensorValues(&nothing, &values)), HasSubstr("constructed sparse tensor"));
  const Value sparse = make();
  const OrtValue* const element = sparse.get();
  EXPECT_NE(outcome(ort_api::CreateValue(&element, 1, ONNX_TYPE_SEQUENCE, &made)), "ok");
}

}  // namespace
}  // namespace tenon::abi
