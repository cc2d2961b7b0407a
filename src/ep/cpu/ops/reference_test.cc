// Cases that the onnx package's node cases (tests/golden) lack: errors that data causes, outputs of unknown size, and
// the internal operators.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include <tenon/thread_pool.h>

#include "ep/cpu/cpu_provider.h"
#include "ep/cpu/ops/reference_types.h"

namespace tenon::cpu::ref {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

// One node on the reference rows.
class Reference {
 public:
  explicit Reference(std::string op_type, int version = 18, std::string domain = "") {
    node.op_type = std::move(op_type);
    node.domain = std::move(domain);
    node.since_version = version;
  }

  // Of type bool where `type` says so: bytes of 0 and 1.
  template <typename T>
  Reference& input(const Shape& shape, std::vector<T> values, DataType type = TypeNumber<T>::value) {
    node.inputs.push_back(ValueId(inputs_.size()));
    inputs_.push_back({.type = type, .shape = shape});
    auto bytes = std::make_shared<std::vector<std::byte>>(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(bytes->data(), values.data(), bytes->size());
    data_.push_back(std::move(bytes));
    return *this;
  }
  Reference& absent() {
    node.inputs.push_back(kNoValue);
    inputs_.push_back({});
    data_.push_back(nullptr);
    return *this;
  }
  Reference& output(DataType type, const Shape& shape, Layout layout = Layout::kPlain) {
    outputs_.push_back({.type = type, .shape = shape, .layout = layout});
    return *this;
  }
  Reference& dynamic_output(DataType type) {
    outputs_.push_back({.type = type, .dynamic = true});
    return *this;
  }
  Reference& layout(size_t input, Layout layout) {
    inputs_[input].layout = layout;
    return *this;
  }

  Status run() {
    const std::vector<ConstantRef> constants(inputs_.size());
    KernelNode asked;
    asked.graph = &graph_;
    asked.node = &node;
    asked.inputs = inputs_;
    asked.outputs = outputs_;
    asked.constants = constants;
    const KernelEntry* row = nullptr;
    Status refusal = not_found("There is no row for {}.", node.op_type);
    for (std::span<const KernelEntry> family : reference_kernels()) {
      for (const KernelEntry& entry : family) {
        if (entry.op_type != node.op_type || entry.domain != node.domain) continue;
        refusal = entry.match(asked);
        if (refusal.ok()) row = &entry;
      }
    }
    if (row == nullptr) return refusal;
    TENON_TRY_ASSIGN(const std::unique_ptr<Kernel> kernel, row->create(asked));

    struct Context final : KernelContext {
      Result<void*> allocate_output(size_t index, const Shape& shape) override {
        results[index].resize(TensorSpec{.type = types[index], .shape = shape}.size_bytes());
        shapes[index] = shape;
        ++allocations;
        return static_cast<void*>(results[index].data());
      }
      std::map<size_t, std::vector<std::byte>> results;
      std::map<size_t, Shape> shapes;
      std::vector<DataType> types;
      int allocations = 0;
    } context;
    std::vector<const void*> from;
    std::vector<void*> to;
    from.reserve(data_.size());
    for (const auto& bytes : data_) from.push_back(bytes ? bytes->data() : nullptr);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      context.types.push_back(outputs_[i].type);
      context.results[i].resize(outputs_[i].dynamic ? 0 : outputs_[i].size_bytes(), std::byte{0xff});
      to.push_back(outputs_[i].dynamic ? nullptr : context.results[i].data());
    }
    std::vector<double> scratch(kernel->scratch_bytes() / sizeof(double) + 1);
    const auto pool = ThreadPool::create({.threads = threads}).value();
    context.inputs = from;
    context.outputs = to;
    context.pool = pool.get();
    context.scratch = reinterpret_cast<std::byte*>(scratch.data());
    const Status status = kernel->run(context);
    results_ = std::move(context.results);
    shapes_ = std::move(context.shapes);
    allocations = context.allocations;
    return status;
  }

  template <typename T = float>
  std::vector<T> result(size_t index = 0) {
    std::vector<T> values(results_[index].size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), results_[index].data(), results_[index].size());
    return values;
  }
  // Of a dynamic output.
  Shape shape(size_t index = 0) { return shapes_[index]; }

  Node node;
  int allocations = 0, threads = 1;

 private:
  Graph graph_;
  std::vector<TensorSpec> inputs_, outputs_;
  std::vector<std::shared_ptr<std::vector<std::byte>>> data_;
  std::map<size_t, std::vector<std::byte>> results_;
  std::map<size_t, Shape> shapes_;
};

void expect_error(const Status& status, StatusCode code, const std::string& text) {
  EXPECT_EQ(status.code(), code) << status.to_string();
  EXPECT_THAT(status.message(), HasSubstr(text));
}

TEST(Reference, IntegerDivisionByZeroIsAnError) {
  Reference div("Div");
  div.input<int32_t>({2}, {4, 5}).input<int32_t>({2}, {2, 0}).output(DataType::kInt32, {2});
  expect_error(div.run(), StatusCode::kInvalidArgument, "divided by zero");
}

TEST(Reference, TheLowestIntegerDividedByMinusOneWraps) {
  Reference div("Div");
  const int64_t lowest = std::numeric_limits<int64_t>::min();
  div.input<int64_t>({1}, {lowest}).input<int64_t>({1}, {-1}).output(DataType::kInt64, {1});
  ASSERT_TRUE(div.run().ok());
  EXPECT_THAT(div.result<int64_t>(), ElementsAre(lowest));
}

// As numpy and ONNX Runtime do on x86-64.
TEST(Reference, FloatsBeyondAnIntegerKeepTheLowBitsOfAnInt32WhenCast) {
  Reference cast("Cast");
  cast.node.set_int("to", static_cast<int64_t>(DataType::kInt8));
  cast.input<float>({4}, {300, -300, NAN, -1.9f}).output(DataType::kInt8, {4});
  ASSERT_TRUE(cast.run().ok());
  EXPECT_THAT(cast.result<int8_t>(), ElementsAre(44, -44, 0, -1));
}

template <typename T>
class FloatTests : public testing::Test {};
using FloatTestTypes = testing::Types<float, double, Float16, BFloat16>;
TYPED_TEST_SUITE(FloatTests, FloatTestTypes);

// Of infinities and NaNs of both signs, and of the largest and the smallest numbers.
TYPED_TEST(FloatTests, InfinitiesAndNaNs) {
  using T = TypeParam;
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> some = {infinity, -infinity, nan, -nan, 0, -0.0f, 1, -65504, 3e38f, 1e-45f};
  std::vector<T> x;
  for (size_t i = 0; i < 70; ++i) x.push_back(static_cast<T>(some[i * 3 % some.size()]));
  for (int negative : {0, 1, -1})  // -1: IsNaN
    for (int positive : {0, 1}) {
      Reference test(negative < 0 ? "IsNaN" : "IsInf", 20);
      if (negative >= 0) test.node.set_int("detect_negative", negative);
      if (negative >= 0) test.node.set_int("detect_positive", positive);
      test.template input<T>({7, 10}, x).output(DataType::kBool, {7, 10});
      ASSERT_TRUE(test.run().ok());
      const std::vector<uint8_t> y = test.template result<uint8_t>();
      for (size_t i = 0; i < x.size(); ++i) {
        const auto value = static_cast<double>(static_cast<Compute<T>>(x[i]));
        const bool is =
            negative < 0 ? std::isnan(value) : std::isinf(value) && (value < 0 ? negative == 1 : positive == 1);
        EXPECT_EQ(y[i], is ? 1 : 0) << value << ", " << negative << ", " << positive;
      }
    }
}

// The sum of the pads is small, and neither of them can be negated or added to an index.
TEST(Reference, PadCropsMoreThanThereIs) {
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min(), kHighest = std::numeric_limits<int64_t>::max();
  Reference pad("Pad");
  pad.input<float>({2}, {1, 2}).input<int64_t>({2}, {kLowest, kHighest}).output(DataType::kFloat, {1});
  ASSERT_TRUE(pad.run().ok());
  EXPECT_THAT(pad.result<float>(), ElementsAre(0));
}

TEST(Reference, GatherRefusesAnIndexPastTheAxis) {
  for (int64_t index : {int64_t{3}, int64_t{-4}}) {
    Reference gather("Gather");
    gather.input<float>({3}, {1, 2, 3}).input<int64_t>({1}, {index}).output(DataType::kFloat, {1});
    expect_error(gather.run(), StatusCode::kOutOfRange, "is outside [-3, 3)");
  }
}

TEST(Reference, ScatterNDRefusesAnIndexPastTheAxis) {
  Reference scatter("ScatterND");
  scatter.input<float>({2}, {1, 2}).input<int64_t>({1, 1}, {2}).input<float>({1}, {9}).output(DataType::kFloat, {2});
  expect_error(scatter.run(), StatusCode::kOutOfRange, "Index 2");
}

TEST(Reference, ValuesThatContradictThePlannedShapeAreAnError) {
  Reference expand("Expand");
  expand.input<float>({1}, {1}).input<int64_t>({1}, {5}).output(DataType::kFloat, {4});
  expect_error(expand.run(), StatusCode::kInvalidArgument, "planned as [4]");
}

TEST(Reference, RangeRefusesADeltaOfZero) {
  Reference range("Range");
  range.input<int64_t>({}, {0}).input<int64_t>({}, {5}).input<int64_t>({}, {0}).dynamic_output(DataType::kInt64);
  expect_error(range.run(), StatusCode::kInvalidArgument, "delta is zero");
}

TEST(Reference, NonZeroAllocatesWhatItFinds) {
  Reference non_zero("NonZero");
  non_zero.input<float>({2, 2}, {0, 3, 4, 0}).dynamic_output(DataType::kInt64);
  ASSERT_TRUE(non_zero.run().ok());
  EXPECT_EQ(non_zero.shape(), (Shape{2, 2}));
  EXPECT_THAT(non_zero.result<int64_t>(), ElementsAre(0, 1, 1, 0));
}

TEST(Reference, CompressKeepsTheOrderOfRowsThatThreadsCopy) {
  constexpr int64_t kRows = 70001, kColumns = 3;
  for (int axis : {0, 1}) {
    std::vector<int32_t> x(kRows * kColumns), kept;
    std::vector<uint8_t> condition(kRows - 5);
    for (size_t i = 0; i < condition.size(); ++i) condition[i] = i * i % 7 < 3 ? 1 : 0;
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<int32_t>(i);
      const size_t row = axis == 0 ? i / kColumns : i % kRows;
      if (row < condition.size() && condition[row] != 0) kept.push_back(x[i]);
    }
    Reference compress("Compress");
    compress.threads = 3;
    compress.node.set_int("axis", axis);
    compress.input<int32_t>(axis == 0 ? Shape{kRows, kColumns} : Shape{kColumns, kRows}, x);
    compress.input<uint8_t>({kRows - 5}, condition, DataType::kBool).dynamic_output(DataType::kInt32);
    ASSERT_TRUE(compress.run().ok());
    EXPECT_EQ(compress.result<int32_t>(), kept);
  }
}

// An output whose size follows from the inputs but was not planned gets its memory once, before the kernel runs.
TEST(Reference, AnUnplannedOutputOfKnownShapeIsAllocated) {
  Reference add("Add");
  add.input<float>({2, 1}, {1, 2}).input<float>({2}, {10, 20}).dynamic_output(DataType::kFloat);
  ASSERT_TRUE(add.run().ok());
  EXPECT_EQ(add.shape(), (Shape{2, 2}));
  EXPECT_EQ(add.allocations, 1);
  EXPECT_THAT(add.result(), ElementsAre(11, 21, 12, 22));
}

TEST(Reference, HalvesRoundOnceAndToEven) {
  EXPECT_EQ(Float16(2049.0).bits, Float16(2048.0).bits);
  EXPECT_EQ(Float16(2051.0).bits, Float16(2052.0).bits);
  EXPECT_EQ(Float16(65520.0).bits, 0x7c00);
  EXPECT_EQ(Float16(65519.0).bits, 0x7bff);
  // Through float it would round to 1.0009765625 first and then up.
  EXPECT_EQ(Float16(1.00048828125 + 1e-12).bits, 0x3c01);
  EXPECT_EQ(Float16(1.00048828125 - 1e-12).bits, 0x3c00);
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    ASSERT_EQ(Float16::encode(Float16::decode(static_cast<uint16_t>(bits))), bits);
  }
}

TEST(Reference, ConvAddsItsResidualBeforeOrAfterTheActivation) {
  for (int after : {0, 1}) {
    Reference conv("Conv", 1, "tenon");
    conv.node.set_string("activation", "relu");
    conv.node.set_int("residual_after", after);
    conv.input<float>({1, 1, 2}, {1, -3}).input<float>({1, 1, 1}, {2}).input<float>({1}, {1});
    conv.input<float>({1, 1, 2}, {-5, 6}).output(DataType::kFloat, {1, 1, 2});
    ASSERT_TRUE(conv.run().ok());
    // z = {3, -5}.
    EXPECT_EQ(conv.result(), (after == 0 ? std::vector<float>{0, 1} : std::vector<float>{-2, 6}));
  }
}

TEST(Reference, ActivationsAreTheirFormulas) {
  struct Row {
    const char* name;
    float alpha, beta;
    double (*formula)(double);
  };
  const Row rows[] = {
      {"none", 0, 0, [](double x) { return x; }},
      {"clip", -0.5f, 1, [](double x) { return x < -0.5 ? -0.5
                                               : x > 1  ? 1
                                                        : x; }},
      {"leaky_relu", 0.25f, 0, [](double x) { return x < 0 ? 0.25 * x : x; }},
      {"sigmoid", 0, 0, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"hardsigmoid", 0.25f, 0.5f, [](double x) { return std::fmin(1, std::fmax(0, 0.25 * x + 0.5)); }},
      {"hardswish", 0.25f, 0.5f, [](double x) { return x * std::fmin(1, std::fmax(0, 0.25 * x + 0.5)); }},
      {"silu", 0, 0, [](double x) { return x / (1 + std::exp(-x)); }},
      {"gelu", 0, 0, [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }},
      {"tanh", 0, 0, [](double x) { return std::tanh(x); }},
  };
  const std::vector<float> x = {-3, -0.75f, 0, 0.5f, 2.5f};
  for (const Row& row : rows) {
    Reference activation("Activation", 1, "tenon");
    activation.node.set_string("activation", row.name);
    activation.node.set_float("activation_alpha", row.alpha);
    activation.node.set_float("activation_beta", row.beta);
    activation.input<float>({5}, x).output(DataType::kFloat, {5});
    ASSERT_TRUE(activation.run().ok()) << row.name;
    for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(activation.result()[i], row.formula(x[i]), 1e-6) << row.name;
  }
  Reference unknown("Activation", 1, "tenon");
  unknown.node.set_string("activation", "reloo");
  unknown.input<float>({1}, {1}).output(DataType::kFloat, {1});
  expect_error(unknown.run(), StatusCode::kInvalidArgument, "reloo");
}

TEST(Reference, LayerNormGivesTheSumThatItNormalises) {
  Reference norm("LayerNorm", 1, "tenon");
  norm.node.set_float("epsilon", 0);
  norm.input<float>({1, 2}, {1, 2}).input<float>({1, 2}, {2, 5}).input<float>({2}, {1, 10}).input<float>({2}, {0, 3});
  norm.output(DataType::kFloat, {1, 2}).output(DataType::kFloat, {1, 2});
  ASSERT_TRUE(norm.run().ok());
  EXPECT_THAT(norm.result(1), ElementsAre(3, 7));
  EXPECT_THAT(norm.result(0), Pointwise(FloatNear(1e-6f), {-1, 13}));
}

// Two tokens, one head of one: softmax over {q k0, q k1}.
TEST(Reference, PackedAttentionReadsTheThirdsOfEachRow) {
  Reference packed("PackedAttention", 1, "tenon");
  packed.node.set_int("num_heads", 1);
  packed.node.set_float("scale", 0.5f);
  packed.input<float>({1, 2, 3}, {1, 2, 10, 0, 4, 20});
  packed.input<float>({1, 1, 1, 2}, {0, 1}).output(DataType::kFloat, {1, 2, 1});
  ASSERT_TRUE(packed.run().ok());
  const auto mix = [](double a, double b) {
    return static_cast<float>((10 * std::exp(a) + 20 * std::exp(b)) / (std::exp(a) + std::exp(b)));
  };
  EXPECT_THAT(packed.result(), Pointwise(FloatNear(1e-5f), {mix(1, 2 + 1), mix(0, 1)}));
}

// As ONNX Runtime does, and as the fast kernel.
TEST(Reference, GemmWithABetaOfZeroDoesNotReadC) {
  Reference gemm("Gemm");
  gemm.node.set_float("beta", 0);
  gemm.input<double>({1, 2}, {1, 2}).input<double>({2, 1}, {3, 4}).input<double>({1}, {INFINITY});
  gemm.output(DataType::kDouble, {1, 1});
  ASSERT_TRUE(gemm.run().ok());
  EXPECT_THAT(gemm.result<double>(), ElementsAre(11));
}

TEST(Reference, LookupTakesTheLastRowForUnknownIndices) {
  Reference lookup("LookupOrDefault", 1, "tenon");
  lookup.input<float>({3, 1}, {10, 20, -1}).input<int32_t>({4}, {1, 2, -1, 0}).output(DataType::kFloat, {4, 1});
  ASSERT_TRUE(lookup.run().ok());
  EXPECT_THAT(lookup.result(), ElementsAre(20, -1, -1, 10));
}

TEST(Reference, ReorderPadsChannelsWithZerosAndComesBack) {
  const std::vector<float> plain = {1, 2, 3, 4, 5, 6};
  Reference there("Reorder", 1, "tenon");
  there.node.set_string("to", "blocked8");
  there.input<float>({1, 3, 2}, plain).output(DataType::kFloat, {1, 3, 2}, Layout::kBlocked8);
  ASSERT_TRUE(there.run().ok());
  const std::vector<float> blocked = there.result();
  EXPECT_THAT(blocked, ElementsAre(1, 3, 5, 0, 0, 0, 0, 0, 2, 4, 6, 0, 0, 0, 0, 0));
  Reference back("Reorder", 1, "tenon");
  back.node.set_string("to", "plain");
  back.input<float>({1, 3, 2}, blocked).layout(0, Layout::kBlocked8).output(DataType::kFloat, {1, 3, 2});
  ASSERT_TRUE(back.run().ok());
  EXPECT_EQ(back.result(), plain);
}

TEST(Reference, ReorderReadsAndWritesChannelsThatAreLast) {
  const std::vector<float> last = {1, 3, 5, 2, 4, 6};
  Reference there("Reorder", 1, "tenon");
  there.node.set_string("to", "blocked8");
  there.node.set_int("channels_last", 1);
  there.input<float>({1, 2, 3}, last).output(DataType::kFloat, {1, 3, 1, 2}, Layout::kBlocked8);
  ASSERT_TRUE(there.run().ok());
  const std::vector<float> blocked = there.result();
  EXPECT_THAT(blocked, ElementsAre(1, 3, 5, 0, 0, 0, 0, 0, 2, 4, 6, 0, 0, 0, 0, 0));
  Reference back("Reorder", 1, "tenon");
  back.node.set_string("to", "plain");
  back.node.set_int("channels_last", 1);
  back.input<float>({1, 3, 1, 2}, blocked).layout(0, Layout::kBlocked8).output(DataType::kFloat, {1, 2, 3});
  ASSERT_TRUE(back.run().ok());
  EXPECT_EQ(back.result(), last);

  Reference other("Reorder", 1, "tenon");
  other.node.set_string("to", "plain");
  other.node.set_int("channels_last", 1);
  other.input<float>({1, 3, 1, 2}, blocked).layout(0, Layout::kBlocked8).output(DataType::kFloat, {1, 3, 2});
  expect_error(other.run(), StatusCode::kInvalidArgument, "[1,3,2] with its channels last is not [1,3,1,2]");
}

}  // namespace
}  // namespace tenon::cpu::ref
