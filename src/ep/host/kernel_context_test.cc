#include "ep/host/kernel_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "abi/objects/allocator.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"

namespace tenon::abi {
namespace {

using testing::HasSubstr;

class FakeHost final : public KernelHost {
 public:
  OrtAllocator* allocator(OrtMemType) const override { return default_allocator(); }
  OrtAllocator* allocator(const OrtMemoryInfo& info) const override {
    return info.device == OrtMemoryDevice{} ? default_allocator() : nullptr;
  }
  const OrtLogger* logger() const override { return nullptr; }
  const OrtKeyValuePairs& config() const override { return config_; }
  const OrtEp* ep() const override { return nullptr; }

 private:
  OrtKeyValuePairs config_;
};

// One input of [2], an absent one, an output of [2] and one whose size the kernel gives.
struct FakeRun final : KernelContext {
  FakeRun() {
    auto made = ThreadPool::create({.threads = 1});
    EXPECT_TRUE(made.ok());
    threads = *std::move(made);
    pool = threads.get();
    inputs = in;
    outputs = out;
  }
  Result<void*> allocate_output(size_t index, const Shape& shape) override {
    ++allocated;
    EXPECT_EQ(index, 1u);
    memory.assign(shape.element_count(), 0.0f);
    return static_cast<void*>(memory.data());
  }
  std::shared_ptr<ThreadPool> threads;
  float x[2] = {1, 2}, y[2] = {};
  const void* in[2] = {x, nullptr};
  void* out[2] = {y, nullptr};
  std::vector<float> memory;
  int allocated = 0;
};

std::shared_ptr<const KernelFrame> frame() {
  auto made = std::make_shared<KernelFrame>();
  made->inputs = {{DataType::kFloat, Shape{2}}, {}};
  made->outputs = {{DataType::kFloat, Shape{2}}, {DataType::kFloat, Shape{}, Layout::kPlain, true}};
  return made;
}

std::string message_of(OrtStatus* status) {
  if (status == nullptr) return "ok";
  std::string text = status->message;
  release_status(status);
  return text;
}

TEST(KernelContext, ShowsTheRunsTensorsWhereTheyLie) {
  FakeRun run;
  OrtKernelContext context(std::make_shared<FakeHost>(), frame());
  ASSERT_TRUE(context.begin(run, nullptr).ok());
  const OrtValue* input = nullptr;
  ASSERT_EQ(ort_api::KernelContext_GetInput(&context, 0, &input), nullptr);
  EXPECT_EQ(input->tensor.data(), run.x);
  ASSERT_EQ(ort_api::KernelContext_GetInput(&context, 1, &input), nullptr);
  EXPECT_EQ(input, nullptr);
  ASSERT_EQ(ort_api::KernelContext_GetInput(&context, 7, &input), nullptr);
  EXPECT_EQ(input, nullptr);
  OrtValue* output = nullptr;
  const int64_t dims[] = {2};
  ASSERT_EQ(ort_api::KernelContext_GetOutput(&context, 0, dims, 1, &output), nullptr);
  EXPECT_EQ(output->tensor.data(), run.y);
  // S5.1: a synchronous run has no stream.
  OrtSyncStream* stream = reinterpret_cast<OrtSyncStream*>(&run);
  ASSERT_EQ(ort_api::KernelContext_GetSyncStream(&context, &stream), nullptr);
  EXPECT_EQ(stream, nullptr);
}

TEST(KernelContext, GivesAnotherRunsTensorsInTheNextRun) {
  FakeRun first, second;
  OrtKernelContext context(std::make_shared<FakeHost>(), frame());
  const int64_t dims[] = {3};
  OrtValue* output = nullptr;
  ASSERT_TRUE(context.begin(first, nullptr).ok());
  ASSERT_EQ(ort_api::KernelContext_GetOutput(&context, 1, dims, 1, &output), nullptr);
  ASSERT_TRUE(context.end().ok());
  ASSERT_TRUE(context.begin(second, nullptr).ok());
  const OrtValue* input = nullptr;
  ASSERT_EQ(ort_api::KernelContext_GetInput(&context, 0, &input), nullptr);
  EXPECT_EQ(input->tensor.data(), second.x);
  // The output that the first run made is not an output of this one.
  ASSERT_EQ(ort_api::KernelContext_GetPreallocatedOutput(&context, 1, &output), nullptr);
  EXPECT_EQ(output, nullptr);
  EXPECT_THAT(context.end().message(), HasSubstr("Output 1 has a size that only the kernel knows"));
}

TEST(KernelContext, RefusesAShapeThatThePlanDoesNotHave) {
  FakeRun run;
  OrtKernelContext context(std::make_shared<FakeHost>(), frame());
  ASSERT_TRUE(context.begin(run, nullptr).ok());
  OrtValue* output = nullptr;
  const int64_t wrong[] = {3}, negative[] = {-1};
  EXPECT_THAT(message_of(ort_api::KernelContext_GetOutput(&context, 0, wrong, 1, &output)), HasSubstr("[2]"));
  EXPECT_EQ(output, nullptr);
  EXPECT_NE(message_of(ort_api::KernelContext_GetOutput(&context, 1, negative, 1, &output)), "ok");
  EXPECT_NE(message_of(ort_api::KernelContext_GetOutput(&context, 1, nullptr, 1, &output)), "ok");
  EXPECT_EQ(run.allocated, 0);
}

TEST(KernelContext, AsksTheRunOnceForAnOutputOfUnknownSize) {
  FakeRun run;
  OrtKernelContext context(std::make_shared<FakeHost>(), frame());
  ASSERT_TRUE(context.begin(run, nullptr).ok());
  const int64_t dims[] = {3, 2}, other[] = {6};
  OrtValue *output = nullptr, *again = nullptr;
  ASSERT_EQ(ort_api::KernelContext_GetOutput(&context, 1, dims, 2, &output), nullptr);
  ASSERT_EQ(ort_api::KernelContext_GetOutput(&context, 1, dims, 2, &again), nullptr);
  EXPECT_EQ(output, again);
  EXPECT_EQ(run.allocated, 1);
  EXPECT_NE(message_of(ort_api::KernelContext_GetOutput(&context, 1, other, 1, &again)), "ok");
  EXPECT_TRUE(context.end().ok());
}

TEST(KernelContext, IsOfNoUseOutsideOfARun) {
  FakeRun run;
  OrtKernelContext context(std::make_shared<FakeHost>(), frame());
  OrtValue* output = nullptr;
  const int64_t dims[] = {2};
  EXPECT_THAT(message_of(ort_api::KernelContext_GetOutput(&context, 0, dims, 1, &output)), HasSubstr("outside"));
  EXPECT_THAT(message_of(ort_api::KernelContext_ParallelFor(
                  &context, [](void*, size_t) {}, 1, 0, nullptr)),
              HasSubstr("outside"));
}

TEST(KernelContext, ParallelForCallsEachIndexOnce) {
  FakeRun run;
  OrtKernelContext context(std::make_shared<FakeHost>(), frame());
  ASSERT_TRUE(context.begin(run, nullptr).ok());
  for (size_t batches : {size_t{0}, size_t{1}, size_t{7}, size_t{1000}}) {
    std::vector<std::atomic<int>> seen(100);
    const auto count = [](void* data, size_t i) { ++static_cast<std::atomic<int>*>(data)[i]; };
    ASSERT_EQ(ort_api::KernelContext_ParallelFor(&context, count, seen.size(), batches, seen.data()), nullptr);
    for (const auto& one : seen) EXPECT_EQ(one, 1);
  }
}

TEST(KernelContext, FindsAllocatorsByMemorySpace) {
  FakeRun run;
  OrtKernelContext context(std::make_shared<FakeHost>(), frame());
  ASSERT_TRUE(context.begin(run, nullptr).ok());
  OrtMemoryInfo host, elsewhere;
  elsewhere.device.type = OrtMemoryInfoDeviceType_NPU;
  OrtAllocator* allocator = nullptr;
  EXPECT_EQ(message_of(ort_api::KernelContext_GetAllocator(&context, &elsewhere, &allocator)),
            "No requested allocator available");
  ASSERT_EQ(ort_api::KernelContext_GetAllocator(&context, &host, &allocator), nullptr);
  void* scratch = nullptr;
  ASSERT_EQ(ort_api::KernelContext_GetScratchBuffer(&context, &host, 64, &scratch), nullptr);
  ASSERT_NE(scratch, nullptr);
  allocator->Free(allocator, scratch);
  ort_api::ReleaseAllocator(allocator);
}

TEST(KernelContextPool, UsesAContextThatIsGivenBack) {
  KernelContextPool pool(std::make_shared<FakeHost>(), frame());
  auto first = pool.take();
  const OrtKernelContext* address = first.get();
  auto second = pool.take();
  EXPECT_NE(second.get(), address);
  pool.give_back(std::move(first));
  EXPECT_EQ(pool.take().get(), address);
}

TEST(KernelInfo, OutlivesItsGraphAndCopies) {
  std::unique_ptr<OrtKernelInfo> info;
  {
    Graph graph;
    Value x;
    x.name = "x";
    x.type = DataType::kFloat;
    x.set_shape(Shape{2});
    graph.add_value(x);
    graph.add_constant("c", make_int64_constant(std::vector<int64_t>{5}));
    Node node;
    node.op_type = "Softmax";
    node.since_version = 13;
    node.inputs = {ValueId(0), ValueId(1), kNoValue};
    auto made = make_kernel_info(graph, node, std::make_shared<FakeHost>());
    ASSERT_TRUE(made.ok());
    info = *std::move(made);
  }
  OrtKernelInfo* copy = nullptr;
  ASSERT_EQ(ort_api::CopyKernelInfo(info.get(), &copy), nullptr);
  info.reset();
  int64_t axis = 0;
  ASSERT_EQ(ort_api::KernelInfoGetAttribute_int64(copy, "axis", &axis), nullptr);
  EXPECT_EQ(axis, -1);  // the schema's default
  int is_constant = 0;
  const OrtValue* value = nullptr;
  ASSERT_EQ(ort_api::KernelInfoGetConstantInput_tensor(copy, 1, &is_constant, &value), nullptr);
  EXPECT_EQ(is_constant, 1);
  EXPECT_EQ(*value->tensor.data_as<int64_t>(), 5);
  size_t size = 1;
  char room[1];
  EXPECT_THAT(message_of(ort_api::KernelInfo_GetOperatorType(copy, room, &size)), HasSubstr("not large enough"));
  EXPECT_EQ(size, sizeof("Softmax"));
  ort_api::ReleaseKernelInfo(copy);
}

}  // namespace
}  // namespace tenon::abi
