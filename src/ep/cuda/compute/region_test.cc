// The programs that regions become, and their refusals; needs no device.
#include "ep/cuda/compute/region.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ep/cuda/compute/algorithm_cache.h"
#include "ep/cuda/compute/device_op.h"
#include "ops/shape_inference.h"
#include "plan/testing.h"

namespace tenon::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<Dim> dims(std::initializer_list<int64_t> numbers) {
  std::vector<Dim> result;
  for (int64_t number : numbers) result.push_back({number, {}});
  return result;
}

ConstantRef floats(const Shape& shape, float value, DataType type = DataType::kFloat) {
  std::byte* data = nullptr;
  ConstantRef constant = *make_constant(type, shape, &data);
  store_floats(std::vector<float>(shape.element_count(), value), type, data);
  return constant;
}

// Relu(Conv(x) + x), then the mean of each image.
Graph residual_block(DataType type) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", dims({1, 16, 8, 8}), type);
  const ValueId w = builder.graph.add_constant("w", floats(Shape{16, 16, 3, 3}, 0.1F, type));
  const ValueId conv = builder.node("Conv", {x, w}, "conv", type);
  builder.last().set_ints("pads", {1, 1, 1, 1});
  const ValueId sum = builder.node("Add", {conv, x}, "sum", type);
  const ValueId relu = builder.node("Relu", {sum}, "relu", type);
  builder.output(builder.node("GlobalAveragePool", {relu}, "y", type));
  return builder.graph;
}

std::string program_text(Graph graph) {
  Result<Region> region = Region::prepare(std::move(graph));
  EXPECT_TRUE(region.ok()) << region.status().to_string();
  std::vector<Shape> shapes;
  for (ValueId id : region->graph().inputs) shapes.push_back(region->graph().value(id).shape());
  const Result<Program> program = region->lower_at(shapes, true);
  EXPECT_TRUE(program.ok()) << program.status().to_string();
  return program.ok() ? program->to_text() : "";
}

TEST(Region, AConvolutionTakesInItsResidualAndActivation) {
  const std::string text = program_text(residual_block(DataType::kFloat));
  EXPECT_THAT(text, HasSubstr("conv float32 64x16x144"));
  EXPECT_THAT(text, HasSubstr("act 1 residual"));
  EXPECT_THAT(text, HasSubstr("global_average_pool"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;  // channels last, convolution, pool
}

// The passes know float32 only; a graph of f16 has the same operators all the same.
TEST(Region, F16IsFusedLikeFloat32) {
  const std::string text = program_text(residual_block(DataType::kFloat16));
  EXPECT_THAT(text, HasSubstr("conv float16 64x16x144"));
  EXPECT_THAT(text, HasSubstr("act 1 residual"));
  EXPECT_THAT(text, Not(HasSubstr("float32")));
}

// The bits of a number of 16 bits are no others because kernels compute in 32.
TEST(Region, BitsOfF16AreThoseOfAnInteger) {
  for (const bool to_float : {true, false}) {
    const DataType from = to_float ? DataType::kInt16 : DataType::kFloat16,
                   to = to_float ? DataType::kFloat16 : DataType::kInt16;
    plan_testing::GraphBuilder builder;
    const ValueId x = builder.input("x", dims({4, 32}), from);
    const ValueId before = to_float ? x : builder.node("Relu", {x}, "before", from);
    const ValueId bits = builder.node("BitCast", {before}, "bits", to);
    builder.last().set_int("to", static_cast<int64_t>(to));
    builder.last().since_version = 26;
    builder.output(to_float ? builder.node("Relu", {bits}, "y", to) : bits);
    EXPECT_THAT(program_text(builder.graph), HasSubstr("float16"));
  }
}

// An attribute that names a type of 16 bits is called float32 like its values.
TEST(Region, BytesBecomeF16InARegionOfF16) {
  plan_testing::GraphBuilder builder;
  const DataType half = DataType::kFloat16;
  const ValueId x = builder.input("x", dims({4, 32}), DataType::kUint8);
  const ValueId wide = builder.node(
      "DequantizeLinear", {x, builder.graph.add_constant("scale", floats(Shape{}, 0.5F, half))}, "wide", half);
  builder.last().set_int("output_dtype", static_cast<int64_t>(half));
  builder.last().since_version = 24;
  builder.output(builder.node("Relu", {wide}, "y", half));
  EXPECT_THAT(program_text(builder.graph), Not(HasSubstr("float32")));
}

// 16 bits round the square root of two so far that nobody would know it.
TEST(Region, GeluIsRecognisedInF16) {
  plan_testing::GraphBuilder builder;
  const DataType half = DataType::kFloat16;
  const ValueId x = builder.input("x", dims({4, 32}), half);
  const auto number = [&](const char* name, float value) {
    return builder.graph.add_constant(name, floats(Shape{}, value, half));
  };
  const ValueId scaled = builder.node("Div", {x, number("root", 1.41421356F)}, "scaled", half);
  const ValueId erf = builder.node("Erf", {scaled}, "erf", half);
  const ValueId raised = builder.node("Add", {erf, number("one", 1)}, "raised", half);
  const ValueId halved = builder.node("Mul", {raised, number("half", 0.5F)}, "halved", half);
  builder.output(builder.node("Mul", {x, halved}, "y", half));
  EXPECT_THAT(program_text(builder.graph), HasSubstr("= gelu <-"));
}

// torch.onnx writes Where(IsNaN(p), 0, p) around the softmax of its attention.
TEST(Region, AttentionThatReplacesNaNIsOneKernel) {
  plan_testing::GraphBuilder builder;
  const auto heads = [&](const char* name, const std::vector<int64_t>& perm) {
    const ValueId x = builder.input(name, dims({2, 16, 32}), DataType::kFloat);
    const ValueId shape = builder.graph.add_constant(std::string(name) + "_heads",
                                                     make_int64_constant(std::array<int64_t, 4>{2, 16, 4, 8}));
    const ValueId split = builder.node("Reshape", {x, shape}, std::string(name) + "_split", DataType::kFloat);
    const ValueId moved = builder.node("Transpose", {split}, std::string(name) + "_moved", DataType::kFloat);
    builder.last().set_ints("perm", perm);
    return moved;
  };
  const ValueId q = heads("q", {0, 2, 1, 3}), k = heads("k", {0, 2, 3, 1}), v = heads("v", {0, 2, 1, 3});
  const ValueId scores = builder.node("MatMul", {q, k}, "scores", DataType::kFloat);
  const ValueId p = builder.node("Softmax", {scores}, "p", DataType::kFloat);
  builder.last().set_int("axis", -1);
  const ValueId bad = builder.node("IsNaN", {p}, "bad", DataType::kBool);
  const ValueId zero = builder.graph.add_constant("zero", floats(Shape{}, 0));
  const ValueId good = builder.node("Where", {bad, zero, p}, "good", DataType::kFloat);
  const ValueId context = builder.node("MatMul", {good, v}, "context", DataType::kFloat);
  const ValueId back = builder.node("Transpose", {context}, "back", DataType::kFloat);
  builder.last().set_ints("perm", {0, 2, 1, 3});
  const ValueId shape = builder.graph.add_constant("joined", make_int64_constant(std::array<int64_t, 3>{2, 16, 32}));
  builder.output(builder.node("Reshape", {back, shape}, "y", DataType::kFloat));
  const std::string text = program_text(builder.graph);
  EXPECT_THAT(text, HasSubstr("attention float32 2x4x16x8"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

TEST(Region, AChainIsOneKernelAndAConstantIsNoInput) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", dims({2, 64}));
  const ValueId c = builder.graph.add_constant("c", floats(Shape{64}, 2));
  const ValueId a = builder.node("Mul", {x, c}, "a");
  const ValueId b = builder.node("Exp", {a}, "b");
  builder.output(builder.node("Sub", {b, x}, "y"));
  const std::string text = program_text(builder.graph);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_THAT(text, HasSubstr("(output 0)"));
}

TEST(Region, AReshapeMovesNothing) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", dims({2, 64}));
  const ValueId e = builder.node("Exp", {x}, "e");
  const ValueId shape = builder.constant("shape", {4, 32});
  builder.output(builder.node("Reshape", {e, shape}, "y"));
  const std::string text = program_text(builder.graph);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

TEST(Region, AnImageOfThreeChannelsIsPairsOfPixelsForAStrideOfTwo) {
  plan_testing::GraphBuilder builder;
  const DataType half = DataType::kFloat16;
  const ValueId x = builder.input("x", dims({1, 3, 224, 224}), half);
  const ValueId w = builder.graph.add_constant("w", floats(Shape{64, 3, 7, 7}, 0.1F, half));
  builder.output(builder.node("Conv", {x, w}, "y", half));
  builder.last().set_ints("pads", {3, 3, 3, 3});
  builder.last().set_ints("strides", {2, 2});
  const std::string text = program_text(builder.graph);
  EXPECT_THAT(text, HasSubstr("in 224x112x8 kernel 7x4 stride 2x1 pad 3x2"));
}

TEST(Region, OtherShapesAreOtherPrograms) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", {{-1, "n"}, {8, {}}});
  builder.output(builder.node("Exp", {x}, "y"));
  const Result<Region> region = Region::prepare(builder.graph);
  ASSERT_TRUE(region.ok());
  for (int64_t n : {1, 7}) {
    const Result<Program> program = region->lower_at(std::vector<Shape>{Shape{n, 8}}, true);
    ASSERT_TRUE(program.ok()) << program.status().to_string();
    EXPECT_EQ(program->tensor(program->outputs[0]).shape, (Shape{n, 8}));
  }
  EXPECT_EQ(region->lower_at(std::vector<Shape>{Shape{1, 9}}, true).status().code(), StatusCode::kInvalidArgument);
}

TEST(Program, TensorsThatAreAliveTogetherDoNotOverlap) {
  const Result<Region> region = Region::prepare(residual_block(DataType::kFloat));
  ASSERT_TRUE(region.ok());
  const Result<Program> program = region->lower_at(std::vector<Shape>{Shape{1, 16, 8, 8}}, true);
  ASSERT_TRUE(program.ok());
  for (const DeviceStorage& a : program->storages)
    for (const DeviceStorage& b : program->storages) {
      if (&a == &b || a.kind != StorageKind::kArena || b.kind != StorageKind::kArena || a.first < 0 || b.first < 0)
        continue;
      if (a.last < b.first || b.last < a.first) continue;
      EXPECT_TRUE(a.offset_bytes + a.size_bytes <= b.offset_bytes || b.offset_bytes + b.size_bytes <= a.offset_bytes);
    }
}

TEST(AlgorithmCache, ChoicesOfAnotherEnvironmentAreNotFound) {
  const std::string path = ::testing::TempDir() + "/tenon_algorithm_cache_test/choices";
  {
    AlgorithmCache cache(path, "device a");
    cache.add("problem", "tile 64x64 splits 1");
    cache.save();
  }
  EXPECT_EQ(AlgorithmCache(path, "device a").find("problem"), "tile 64x64 splits 1");
  EXPECT_EQ(AlgorithmCache(path, "device b").find("problem"), std::nullopt);
  EXPECT_EQ(AlgorithmCache("/nonexistent/choices", "device a").find("problem"), std::nullopt);
}

// The packed numbers of the program's largest constant.
std::vector<float> packed_weights(const Region& region) {
  std::vector<Shape> shapes;
  for (ValueId id : region.graph().inputs) shapes.push_back(region.graph().value(id).shape());
  Result<Program> program = region.lower_at(shapes, true);
  EXPECT_TRUE(program.ok()) << program.status().to_string();
  if (!program.ok() || program->constants.empty()) return {};
  const auto largest = std::max_element(program->constants.begin(), program->constants.end(),
                                        [](const auto& a, const auto& b) { return a.size_bytes < b.size_bytes; });
  std::vector<float> values(largest->size_bytes / sizeof(float));
  largest->fill(reinterpret_cast<std::byte*>(values.data()));
  return values;
}

// x [1,70] times w, whose elements say where they stand; `bytes` without an owner, as a host's initializers have none.
Graph product_with(const std::vector<float>& bytes, const Shape& shape, bool transposed) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", dims({1, 70}), DataType::kFloat);
  auto borrowed = std::make_shared<Constant>();
  borrowed->type = DataType::kFloat;
  borrowed->shape = shape;
  borrowed->data = reinterpret_cast<const std::byte*>(bytes.data());
  borrowed->size_bytes = bytes.size() * sizeof(float);
  const ValueId w = builder.graph.add_constant("w", borrowed);
  const ValueId y = builder.node(transposed ? "Gemm" : "MatMul", {x, w}, "y");
  if (transposed) builder.last().set_int("transB", 1);
  builder.output(y);
  return builder.graph;
}

// Neither size is a multiple of the blocks that are packed; 100 * 70 numbers are exact in TF32's 11 bits when even.
TEST(Region, AMatrixIsPackedWithTheWeightsOfAColumnTogether) {
  for (const bool transposed : {false, true}) {
    std::vector<float> w(70 * 100);
    for (int k = 0; k < 70; ++k)
      for (int n = 0; n < 100; ++n) w[transposed ? n * 70 + k : k * 100 + n] = static_cast<float>(k + 128 * (n % 8));
    Result<Region> region = Region::prepare(product_with(w, transposed ? Shape{100, 70} : Shape{70, 100}, transposed));
    ASSERT_TRUE(region.ok()) << region.status().to_string();
    const std::vector<float> packed = packed_weights(*region);
    ASSERT_EQ(packed.size(), w.size());
    for (int n = 0; n < 100; ++n)
      for (int k = 0; k < 70; ++k)
        ASSERT_EQ(packed[n * 70 + k], static_cast<float>(k + 128 * (n % 8))) << n << " " << k;
  }
}

// Only float32 is rounded to TF32, and only where there are many rows: a second packing would be a second upload.
TEST(Region, WeightsOf16BitsHaveOnePackingForAllSizes) {
  for (const DataType type : {DataType::kFloat16, DataType::kFloat}) {
    plan_testing::GraphBuilder builder;
    const auto weights = [&](const char* name, const Shape& shape) {
      std::byte* data = nullptr;
      const ConstantRef made = *make_constant(type, shape, &data);
      return builder.graph.add_constant(name, made);
    };
    const Dim rows{.value = -1, .symbol = "rows"}, side{.value = -1, .symbol = "side"};
    const auto number = [](int64_t value) { return Dim{.value = value, .symbol = {}}; };
    const ValueId x = builder.input("x", {rows, number(64)}, type);
    const ValueId image = builder.input("image", {number(1), number(16), side, side}, type);
    builder.output(builder.node("MatMul", {x, weights("w", Shape{64, 128})}, "y", type));
    builder.output(builder.node("Conv", {image, weights("window", Shape{16, 16, 3, 3})}, "z", type));
    const Result<Region> region = Region::prepare(std::move(builder.graph));
    ASSERT_TRUE(region.ok()) << region.status().to_string();
    const auto keys = [&](int64_t many, int64_t length) {
      const Result<Program> program =
          region->lower_at(std::vector<Shape>{Shape{many, 64}, Shape{1, 16, length, length}}, true);
      EXPECT_TRUE(program.ok()) << program.status().to_string();
      std::vector<std::string> found;
      for (const DeviceConstant& constant : program->constants) found.push_back(constant.key);
      return found;
    };
    EXPECT_EQ(keys(20, 6) == keys(200, 40), type == DataType::kFloat16);
  }
}

TEST(Region, BorrowedConstantsCanBecomeItsOwn) {
  std::vector<float> w(70 * 100, 2.0F);
  Result<Region> region = Region::prepare(product_with(w, Shape{70, 100}, false));
  ASSERT_TRUE(region.ok()) << region.status().to_string();
  ASSERT_TRUE(region->own_constants().ok());
  std::fill(w.begin(), w.end(), -1.0F);  // the host has taken its memory back
  EXPECT_THAT(packed_weights(*region), ::testing::Each(2.0F));
}

TEST(Region, DroppedConstantsMakeNoProgram) {
  const std::vector<float> w(70 * 100, 2.0F);
  Result<Region> region = Region::prepare(product_with(w, Shape{70, 100}, false));
  ASSERT_TRUE(region.ok()) << region.status().to_string();
  region->drop_constants();
  for (const Value& value : region->graph().values) EXPECT_EQ(value.constant, nullptr) << value.name;
}

// scores + Where(And(truths, x), 0, -1), as exporters write a mask.
Graph masked_scores(uint8_t last_truth) {
  plan_testing::GraphBuilder builder;
  const ValueId scores = builder.input("scores", dims({2, 3, 8, 8}), DataType::kFloat);
  const ValueId x = builder.input("x", dims({2, 1, 1, 8}), DataType::kBool);
  std::byte* data = nullptr;
  const ConstantRef truths = *make_constant(DataType::kBool, Shape{1, 1, 8, 1}, &data);
  std::fill(data, data + 8, std::byte{1});
  data[7] = static_cast<std::byte>(last_truth);
  const ValueId both = builder.node("And", {builder.graph.add_constant("truths", truths), x}, "both", DataType::kBool);
  const ValueId zero = builder.graph.add_constant("zero", floats(Shape{}, 0)),
                one = builder.graph.add_constant("one", floats(Shape{}, -1));
  const ValueId mask = builder.node("Where", {both, zero, one}, "mask");
  builder.output(builder.node("Softmax", {builder.node("Add", {scores, mask}, "sum")}, "y"));
  builder.last().set_int("axis", -1);
  return builder.graph;
}

TEST(Region, AMaskThatIsTheSameForEveryQueryStaysSmall) {
  EXPECT_THAT(program_text(masked_scores(1)), Not(HasSubstr("And")));
  EXPECT_THAT(program_text(masked_scores(0)), HasSubstr("And"));
}

}  // namespace
}  // namespace tenon::cuda
