// InvokeOp with values that ONNX Runtime's library takes unchecked.
#include <gmock/gmock.h>

#include <memory>

#include "abi/objects/allocator.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "ep/host/kernel_context.h"

namespace tenon::abi {
namespace {

using ::testing::HasSubstr;

class FakeHost final : public KernelHost {
 public:
  explicit FakeHost(bool cpu = true) : cpu_(cpu) {}
  OrtAllocator* allocator(OrtMemType) const override { return default_allocator(); }
  OrtAllocator* allocator(const OrtMemoryInfo&) const override { return default_allocator(); }
  const OrtLogger* logger() const override { return nullptr; }
  const OrtKeyValuePairs& config() const override { return config_; }
  const OrtEp* ep() const override { return nullptr; }
  bool is_cpu_ep() const override { return cpu_; }

 private:
  const bool cpu_;
  OrtKeyValuePairs config_;
};

struct FakeRun final : KernelContext {
  FakeRun() { pool = threads.get(); }
  Result<void*> allocate_output(size_t, const Shape&) override { return static_cast<void*>(nullptr); }
  const std::shared_ptr<ThreadPool> threads = *ThreadPool::create({.threads = 1});
};

std::string outcome(OrtStatus* status) {
  if (status == nullptr) return "ok";
  std::string text = std::to_string(status->code) + ": " + status->message;
  release_status(status);
  return text;
}

struct ReleaseValue {
  void operator()(OrtValue* value) const { ort_api::ReleaseValue(value); }
};
struct ReleaseOp {
  void operator()(OrtOp* op) const { ort_api::ReleaseOp(op); }
};
using Value = std::unique_ptr<OrtValue, ReleaseValue>;
using Op = std::unique_ptr<OrtOp, ReleaseOp>;

class InvokeOp : public ::testing::Test {
 protected:
  InvokeOp() { info_.host = std::make_shared<FakeHost>(); }

  std::string create(Op* op, const char* type, int version, int inputs, int outputs) {
    OrtOp* made = nullptr;
    const std::string text =
        outcome(ort_api::CreateOp(&info_, type, "", version, nullptr, nullptr, 0, nullptr, 0, inputs, outputs, &made));
    op->reset(made);
    return text;
  }

  std::string invoke(const Op& op, std::vector<const OrtValue*> inputs, std::vector<OrtValue*> outputs) {
    OrtKernelContext context(info_.host, std::make_shared<KernelFrame>());
    EXPECT_TRUE(context.begin(run_, nullptr).ok());
    const std::string text =
        outcome(ort_api::InvokeOp(&context, op.get(), inputs.data(), static_cast<int>(inputs.size()), outputs.data(),
                                  static_cast<int>(outputs.size())));
    EXPECT_TRUE(context.end().ok());
    return text;
  }

  static Value strings(std::vector<const char*> texts) {
    OrtValue* value = nullptr;
    const auto count = static_cast<int64_t>(texts.size());
    EXPECT_EQ(outcome(ort_api::CreateTensorAsOrtValue(default_allocator(), &count, 1,
                                                      ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, &value)),
              "ok");
    EXPECT_EQ(outcome(ort_api::FillStringTensor(value, texts.data(), texts.size())), "ok");
    return Value(value);
  }
  static Value floats(std::vector<float>& data) {
    OrtValue* value = nullptr;
    const auto count = static_cast<int64_t>(data.size());
    OrtMemoryInfo cpu;
    EXPECT_EQ(outcome(ort_api::CreateTensorWithDataAsOrtValue(&cpu, data.data(), data.size() * sizeof(float), &count, 1,
                                                              ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value)),
              "ok");
    return Value(value);
  }

  OrtKernelInfo info_;
  FakeRun run_;
};

TEST_F(InvokeOp, StringsAreWrittenIntoTheGivenTensor) {
  Op op;
  ASSERT_EQ(create(&op, "Identity", 16, 1, 1), "ok");
  const Value from = strings({"one", "a text that fits in no small buffer"}), to = strings({"", ""}),
              one = strings({""});
  EXPECT_EQ(invoke(op, {from.get()}, {to.get()}), "ok");
  EXPECT_EQ(*to->strings, *from->strings);
  EXPECT_THAT(invoke(op, {from.get()}, {one.get()}), HasSubstr("[2]"));
}

TEST_F(InvokeOp, WrongValuesAreRefused) {
  Op op;
  ASSERT_EQ(create(&op, "Add", 14, 2, 1), "ok");
  std::vector<float> a = {1, 2}, b = {3, 4}, c = {0, 0}, three = {0, 0, 0};
  const Value x = floats(a), y = floats(b), sum = floats(c), other = floats(three), text = strings({"1", "2"});
  EXPECT_EQ(invoke(op, {x.get(), y.get()}, {sum.get()}), "ok");
  EXPECT_EQ(c[1], 6);
  EXPECT_NE(invoke(op, {x.get(), nullptr}, {sum.get()}), "ok");
  EXPECT_NE(invoke(op, {x.get(), text.get()}, {sum.get()}), "ok");
  EXPECT_NE(invoke(op, {x.get(), y.get()}, {other.get()}), "ok");
  EXPECT_NE(invoke(op, {x.get(), y.get()}, {text.get()}), "ok");
  EXPECT_NE(invoke(op, {x.get(), y.get()}, {nullptr}), "ok");
  OrtValue sequence;
  sequence.kind = ONNX_TYPE_SEQUENCE;
  EXPECT_NE(invoke(op, {x.get(), &sequence}, {sum.get()}), "ok");
  EXPECT_NE(invoke(op, {x.get(), y.get()}, {&sequence}), "ok");
  sum->tensor = sum->tensor.as_read_only();
  EXPECT_THAT(invoke(op, {x.get(), y.get()}, {sum.get()}), HasSubstr("read-only"));
}

TEST_F(InvokeOp, OutsideOfARunItIsRefused) {
  Op op;
  ASSERT_EQ(create(&op, "Add", 14, 2, 1), "ok");
  const OrtKernelContext context(info_.host, std::make_shared<KernelFrame>());
  EXPECT_THAT(outcome(ort_api::InvokeOp(&context, op.get(), nullptr, 0, nullptr, 0)), HasSubstr("outside"));
}

TEST_F(InvokeOp, CountsAndOtherEpsAreChecked) {
  Op op;
  EXPECT_THAT(create(&op, "Add", 14, -1, 1), HasSubstr("negative"));
  EXPECT_THAT(create(&op, "Add", 14, 2, -1), HasSubstr("negative"));
  OrtOp* made = nullptr;
  EXPECT_THAT(outcome(ort_api::CreateOp(&info_, "Add", "", 14, nullptr, nullptr, 1, nullptr, 0, 2, 1, &made)),
              HasSubstr("type_constraint_names"));
  EXPECT_THAT(outcome(ort_api::CreateOp(&info_, "Add", "", 14, nullptr, nullptr, 0, nullptr, 1, 2, 1, &made)),
              HasSubstr("attr_values"));
  info_.host = std::make_shared<FakeHost>(false);
  EXPECT_THAT(create(&op, "Add", 14, 2, 1), HasSubstr("CPU EP"));
}

}  // namespace
}  // namespace tenon::abi
