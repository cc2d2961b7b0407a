#include <tenon/dlpack.h>

#include <cstring>
#include <vector>

#include "base/fault.h"
#include "base/testing.h"
#include "interop/dlpack_types.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A producer that counts how often its deleter runs. Outlives its tensors.
struct Producer {
  Producer() {
    DLTensor dl{.data = data,
                .device = {.device_type = kDLCPU, .device_id = 0},
                .ndim = 2,
                .dtype = {.code = kDlpackFloat, .bits = 32, .lanes = 1},
                .shape = shape,
                .strides = strides,
                .byte_offset = 0};
    plain = {.dl_tensor = dl, .manager_ctx = this, .deleter = [](DLManagedTensor* self) {
               ++static_cast<Producer*>(self->manager_ctx)->deleted;
             }};
    versioned = {
        .version = {1, 0},
        .manager_ctx = this,
        .deleter = [](DLManagedTensorVersioned* self) { ++static_cast<Producer*>(self->manager_ctx)->deleted; },
        .flags = 0,
        .dl_tensor = dl};
  }
  DLTensor& dl() { return plain.dl_tensor; }

  alignas(16) float data[6] = {0, 1, 2, 3, 4, 5};
  int64_t shape[2] = {2, 3};
  int64_t strides[2] = {3, 1};
  DLManagedTensor plain{};
  DLManagedTensorVersioned versioned{};
  int deleted = 0;
};

TEST(TensorFromDlpack, ViewsTheProducersMemoryAndDeletesOnceAfterTheLastTensor) {
  Producer producer;
  Tensor tensor = tensor_from_dlpack(&producer.plain).value();
  EXPECT_EQ(tensor.data(), producer.data);
  EXPECT_EQ(tensor.shape(), (Shape{2, 3}));
  EXPECT_EQ(tensor.type(), DataType::kFloat);
  Tensor second = tensor.reinterpret(DataType::kFloat, {6}).value();
  tensor = Tensor();
  EXPECT_EQ(producer.deleted, 0);
  second = Tensor();
  EXPECT_EQ(producer.deleted, 1);
}

TEST(TensorFromDlpack, TheVersionedStructCarriesReadOnly) {
  Producer producer;
  producer.versioned.flags = kDlpackReadOnly;
  EXPECT_THAT(tensor_from_dlpack(&producer.versioned),
              has_status(StatusCode::kInvalidArgument, HasSubstr("read-only")));
  EXPECT_EQ(producer.deleted, 0);
  EXPECT_TRUE(tensor_from_dlpack(&producer.versioned, true)->read_only());
  EXPECT_EQ(producer.deleted, 1);
  producer.versioned.flags = 2;  // "is a copy": of no interest
  EXPECT_FALSE(tensor_from_dlpack(&producer.versioned)->read_only());
}

TEST(TensorFromDlpack, AnotherMajorVersionIsRefusedUnread) {
  Producer producer;
  producer.versioned.version = {2, 7};
  producer.versioned.dl_tensor.shape = reinterpret_cast<int64_t*>(8);  // must not be followed
  EXPECT_THAT(tensor_from_dlpack(&producer.versioned), has_status(StatusCode::kUnsupported, HasSubstr("2.7")));
  EXPECT_EQ(producer.deleted, 0);
  Producer minor;
  minor.versioned.version = {1, 99};
  EXPECT_THAT(tensor_from_dlpack(&minor.versioned), is_ok());
}

// Each misuse names its values, and the tensor stays the caller's: the deleter does not run.
TEST(TensorFromDlpack, RefusesEveryMisuse) {
  int64_t huge[2] = {INT64_MAX, 4}, negative[2] = {2, -3}, transposed[2] = {1, 2}, broadcast[2] = {0, 1};
  const auto refused = [](StatusCode code, const char* text, auto change) {
    Producer producer;
    change(producer.dl());
    EXPECT_THAT(tensor_from_dlpack(&producer.plain), has_status(code, HasSubstr(text)));
    EXPECT_EQ(producer.deleted, 0);
  };
  const StatusCode invalid = StatusCode::kInvalidArgument, unsupported = StatusCode::kUnsupported;
  refused(invalid, "CUDA device -1", [](DLTensor& t) { t.device = {.device_type = kDLCUDA, .device_id = -1}; });
  refused(unsupported, "device type 7", [](DLTensor& t) { t.device.device_type = kDLVulkan; });
  refused(unsupported, "stride 2 on axis 1", [&](DLTensor& t) { t.strides = transposed; });
  refused(unsupported, "stride 0 on axis 0", [&](DLTensor& t) { t.strides = broadcast; });
  refused(unsupported, "4 lanes", [](DLTensor& t) { t.dtype.lanes = 4; });
  refused(unsupported, "0 lanes", [](DLTensor& t) { t.dtype.lanes = 0; });
  refused(unsupported, "24 bits", [](DLTensor& t) { t.dtype.bits = 24; });
  refused(unsupported, "type code 3", [](DLTensor& t) { t.dtype.code = 3; });
  refused(invalid, "-1 dimensions", [](DLTensor& t) { t.ndim = -1; });
  refused(invalid, "13 dimensions", [](DLTensor& t) { t.ndim = 13; });
  refused(invalid, "null shape", [](DLTensor& t) { t.shape = nullptr; });
  refused(invalid, "null address", [](DLTensor& t) { t.data = nullptr; });
  refused(invalid, "negative", [&](DLTensor& t) { t.shape = negative; });
  refused(invalid, "overflows", [&](DLTensor& t) { t.shape = huge; });
  refused(invalid, "aligned to 4", [](DLTensor& t) { t.byte_offset = 2; });
  refused(invalid, "wraps", [](DLTensor& t) { t.byte_offset = UINT64_MAX; });
  EXPECT_THAT(tensor_from_dlpack(static_cast<DLManagedTensor*>(nullptr)), has_status(invalid));
  EXPECT_THAT(tensor_from_dlpack(static_cast<DLManagedTensorVersioned*>(nullptr)), has_status(invalid));
}

TEST(TensorFromDlpack, TakesOffsetsNoStridesPinnedMemoryAndNoDeleter) {
  Producer producer;
  producer.dl().strides = nullptr;
  producer.dl().shape[0] = 1;
  producer.dl().byte_offset = 12;
  producer.dl().device.device_type = kDLCUDAHost;
  producer.plain.deleter = nullptr;
  EXPECT_EQ(tensor_from_dlpack(&producer.plain)->data(), producer.data + 3);
}

// Memory that the host cannot read is told apart by its space; nothing looks into it.
TEST(TensorDlpack, MemoryOfACudaDevicePassesBothWays) {
  for (const int32_t kind : {2, 13}) {
    Producer producer;
    producer.dl().device = {.device_type = static_cast<DLDeviceType>(kind), .device_id = 3};
    Tensor tensor = tensor_from_dlpack(&producer.plain).value();
    EXPECT_EQ(tensor.data(), producer.data);
    EXPECT_EQ(tensor.space(), (MemorySpace{.device_type = DeviceType::kGpu,
                                           .kind = kind == 2 ? MemoryKind::kDefault : MemoryKind::kHostAccessible,
                                           .vendor_id = 0x10de,
                                           .device_id = 3}));
    DLManagedTensor* managed = tensor_to_dlpack(tensor).value();
    tensor = Tensor();
    EXPECT_EQ(managed->dl_tensor.device.device_type, kind == 2 ? kDLCUDA : kDLCPU);  // the host reads managed memory
    EXPECT_EQ(managed->dl_tensor.device.device_id, kind == 2 ? 3 : 0);
    EXPECT_EQ(managed->dl_tensor.data, producer.data);
    EXPECT_EQ(producer.deleted, 0);
    managed->deleter(managed);
    EXPECT_EQ(producer.deleted, 1);
  }
}

TEST(TensorFromDlpack, StridesOfDimensionsOfSizeOneAndOfEmptyTensorsDoNotCount) {
  Producer one;
  one.shape[0] = 1;
  one.strides[0] = 77;
  EXPECT_THAT(tensor_from_dlpack(&one.plain), is_ok());
  Producer none;
  none.shape[1] = 0;
  none.strides[0] = 5;
  none.dl().data = nullptr;
  EXPECT_THAT(tensor_from_dlpack(&none.plain), is_ok());
}

TEST(TensorFromDlpack, AFailedStepLeavesTheTensorWithTheCaller) {
  Producer producer;
  FaultInjection fault(1);
  EXPECT_THAT(tensor_from_dlpack(&producer.plain), has_status(StatusCode::kResourceExhausted));
  EXPECT_EQ(producer.deleted, 0);
}

TEST(TensorToDlpack, SharesTheMemoryAndKeepsItAlive) {
  auto owner = std::make_shared<std::vector<float>>(6, 1.0f);
  std::weak_ptr<std::vector<float>> alive = owner;
  Tensor tensor = Tensor::view(DataType::kFloat, {2, 3}, owner->data(), 24, owner).value();
  owner.reset();
  DLManagedTensor* managed = tensor_to_dlpack(tensor).value();
  EXPECT_EQ(managed->dl_tensor.data, tensor.data());
  tensor = Tensor();
  EXPECT_FALSE(alive.expired());
  EXPECT_EQ(managed->dl_tensor.ndim, 2);
  EXPECT_THAT(std::vector<int64_t>(managed->dl_tensor.shape, managed->dl_tensor.shape + 2), ElementsAre(2, 3));
  EXPECT_THAT(std::vector<int64_t>(managed->dl_tensor.strides, managed->dl_tensor.strides + 2), ElementsAre(3, 1));
  managed->deleter(managed);
  EXPECT_TRUE(alive.expired());
}

TEST(TensorToDlpack, EveryTypeComesBackAsItself) {
  int types = 0;
  for (int i = 1; i <= static_cast<int>(DataType::kInt2); ++i) {
    const auto type = static_cast<DataType>(i);
    if (data_type_bits(type) < 8 || type == DataType::kString) continue;
    ++types;
    Tensor tensor = Tensor::allocate(type, {4}).value();
    Tensor back = tensor_from_dlpack(tensor_to_dlpack_versioned(tensor).value()).value();
    EXPECT_EQ(back.type(), type) << data_type_name(type);
    EXPECT_EQ(back.data(), tensor.data());
  }
  EXPECT_EQ(types, 20);
}

TEST(TensorToDlpack, RefusesWhatDlpackCannotSay) {
  Tensor tensor = Tensor::allocate(DataType::kFloat, {4}).value();
  EXPECT_THAT(tensor_to_dlpack(tensor.as_read_only()), has_status(StatusCode::kUnsupported, HasSubstr("read-only")));
  EXPECT_THAT(tensor_to_dlpack(Tensor()), has_status(StatusCode::kInvalidArgument));
  EXPECT_THAT(tensor_to_dlpack(Tensor::allocate(DataType::kInt4, {4}).value()),
              has_status(StatusCode::kUnsupported, HasSubstr("int4")));
  EXPECT_THAT(tensor_to_dlpack(Tensor::allocate(DataType::kString, {4}).value()),
              has_status(StatusCode::kUnsupported, HasSubstr("string")));
  Tensor device =
      Tensor::view(DataType::kFloat, {4}, tensor.data(), 16, nullptr, {.device_type = DeviceType::kGpu}).value();
  EXPECT_THAT(tensor_to_dlpack(device), has_status(StatusCode::kUnsupported, HasSubstr("gpu")));
  DLManagedTensorVersioned* managed = tensor_to_dlpack_versioned(tensor.as_read_only()).value();
  EXPECT_EQ(managed->flags, kDlpackReadOnly);
  EXPECT_TRUE(tensor_from_dlpack(managed, true)->read_only());
}

}  // namespace
}  // namespace tenon
