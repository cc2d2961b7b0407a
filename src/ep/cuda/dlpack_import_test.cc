// Imports of DLPack tensors of a CUDA device, as torch exports them, without a copy.
#include "ep/cuda/gate_testing.h"
#include "ep/cuda/importer_testing.h"
#include "interop/dlpack_types.h"

namespace tenon::cuda {
namespace {

using ::testing::HasSubstr;

constexpr int32_t kCuda = 2;

// A producer's float tensor of shape 16 x 64 on the device.
class Producer {
 public:
  explicit Producer(CudaMemory& memory, int32_t device_type = kCuda, int32_t device_id = 0)
      : memory_(memory), block_(memory.allocate(kBytes, nullptr).value()) {
    DLTensor& tensor = managed_.dl_tensor;
    tensor.data = block_;
    std::memcpy(&tensor.device.device_type, &device_type, sizeof(device_type));
    tensor.device.device_id = device_id;
    tensor.ndim = 2;
    tensor.dtype = {.code = kDlpackFloat, .bits = 32, .lanes = 1};
    tensor.shape = shape_;
    tensor.strides = strides_;
    tensor.byte_offset = 0;
    managed_.version = {.major = kDlpackMajor, .minor = 0};
    managed_.manager_ctx = this;
    managed_.deleter = [](DLManagedTensorVersioned* self) { ++static_cast<Producer*>(self->manager_ctx)->deleted_; };
  }
  ~Producer() { memory_.free(block_); }

  static constexpr size_t kBytes = size_t{16} * 64 * sizeof(float);
  ExternalHandle handle() {
    ExternalHandle handle{.kind = ExternalMemoryKind::kDlpack, .type = HandleType::kDlpack};
    handle.pointer = &managed_;
    handle.dlpack_versioned = true;
    return handle;
  }
  DLManagedTensorVersioned& managed() { return managed_; }
  std::byte* data() const { return static_cast<std::byte*>(block_); }
  int64_t* strides() { return strides_; }
  int deleted() const { return deleted_; }

 private:
  CudaMemory& memory_;
  void* const block_;
  int64_t shape_[2] = {16, 64};
  int64_t strides_[2] = {64, 1};
  DLManagedTensorVersioned managed_{};
  int deleted_ = 0;
};

// S2: no copy, and the producer gets its tensor back once.
TEST_F(CudaImporterTest, ADlpackTensorIsUsedWhereItLiesAndGivenBackOnce) {
  EXPECT_TRUE(can_import(*memory_->device(), ExternalMemoryKind::kDlpack));
  Producer producer(*memory_);
  auto imported = import(producer.handle(), 1024, 256);
  ASSERT_THAT(imported, is_ok());
  EXPECT_EQ((*imported)->address(), producer.data() + 256);
  EXPECT_FALSE((*imported)->host_accessible());
  EXPECT_EQ(producer.deleted(), 0);
  imported = invalid_argument("released");
  memory_->collect();
  EXPECT_EQ(producer.deleted(), 1);
}

// The producer may hand the memory out again once it has it back: queued work has to be through.
TEST_F(CudaImporterTest, ADlpackTensorGoesBackWhenTheQueuedWorkIsDone) {
  const auto stream = make_stream();
  Producer producer(*memory_);
  auto imported = import(producer.handle(), Producer::kBytes);
  ASSERT_THAT(imported, is_ok());
  fake::Gate gate(*stream);
  imported = invalid_argument("released");
  memory_->collect();
  EXPECT_EQ(producer.deleted(), 0);
  gate.open();
  ASSERT_THAT(stream->synchronize(), is_ok());
  for (int i = 0; i < 1000 && producer.deleted() == 0; ++i) memory_->collect();
  EXPECT_EQ(producer.deleted(), 1);
}

// S1.3: after a refusal the tensor is the caller's.
TEST_F(CudaImporterTest, DlpackTensorsThatDoNotFitStayTheProducers) {
  const auto refused = [&](Producer& producer, StatusCode code, const char* why, size_t size_bytes = 1024,
                           size_t offset_bytes = 0) {
    EXPECT_THAT(import(producer.handle(), size_bytes, offset_bytes), has_status(code, HasSubstr(why)));
    memory_->collect();
    EXPECT_EQ(producer.deleted(), 0) << why;
  };
  Producer host(*memory_, 1);
  refused(host, StatusCode::kUnsupported, "device type 1");
  Producer other(*memory_, kCuda, 3);
  refused(other, StatusCode::kUnsupported, "CUDA device 3; this importer is of device 0");
  Producer producer(*memory_);
  refused(producer, StatusCode::kInvalidArgument, "4096 bytes", 4096, 1);
  refused(producer, StatusCode::kInvalidArgument, "4096 bytes", SIZE_MAX, 1);
  producer.strides()[0] = 128;
  refused(producer, StatusCode::kUnsupported, "stride 128");
  producer.strides()[0] = 64;
  producer.managed().flags = kDlpackReadOnly;
  refused(producer, StatusCode::kInvalidArgument, "read-only");
  producer.managed().flags = 0;
  producer.managed().version.major = 9;
  refused(producer, StatusCode::kUnsupported, "version 9");
}

TEST_F(CudaImporterTest, AFailureAtAnyStepLeavesTheDlpackTensor) {
  for (int nth = 1;; ++nth) {
    ASSERT_LT(nth, 20);
    Producer producer(*memory_);
    FaultInjection fault(nth);
    auto imported = import(producer.handle(), 1024);
    if (!fault.fired()) {
      EXPECT_THAT(imported, is_ok());
      EXPECT_GT(nth, 1);
      imported = invalid_argument("released");
      memory_->collect();
      EXPECT_EQ(producer.deleted(), 1);
      break;
    }
    EXPECT_FALSE(imported.ok());
    EXPECT_EQ(producer.deleted(), 0) << fault.fired_at();
  }
}

}  // namespace
}  // namespace tenon::cuda
