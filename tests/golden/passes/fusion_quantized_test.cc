// The patterns of quantised models that passes rewrite: the operators that are left, and that the results stay the
// same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph_maker.h"
#include "interpreter.h"
#include "ops/shape_inference.h"

namespace tenon {
namespace {

// Bytes of x, and the numbers that they stand for.
ValueId rounded(GraphMaker& m, ValueId x, float step) {
  const ValueId scale = m.number(step);
  return m.node("DequantizeLinear", {m.node("QuantizeLinear", {x, scale}), scale});
}

// The operators that are left after the load passes and, with 2 for each symbol, the plan passes. The outputs have to
// be what they were.
std::vector<std::string> operators_left(GraphMaker& m, double tolerance = 2e-5) {
  Graph graph = m.graph();
  EXPECT_TRUE(infer_shapes(graph).ok());
  const std::vector<ConstantRef> inputs = make_inputs(graph, 2);
  const Result<std::vector<ConstantRef>> before = interpret(graph, inputs);
  EXPECT_TRUE(before.ok()) << before.status().message();
  EXPECT_TRUE(run_named(graph, PassPhase::kLoad, {}).ok());
  Graph planned = with_shapes(graph, inputs);
  EXPECT_TRUE(run_named(planned, PassPhase::kPlan, {}).ok());
  const Result<std::vector<ConstantRef>> after = interpret(planned, inputs);
  EXPECT_TRUE(after.ok()) << after.status().message();
  if (before.ok() && after.ok()) {
    for (size_t i = 0; i < before->size(); ++i)
      EXPECT_LT(relative_difference(*(*before)[i], *(*after)[i]), tolerance) << planned.to_text();
  }
  std::vector<std::string> left;
  for (const Node& node : planned.nodes) left.push_back(node.op_type);
  return left;
}

TEST(Fusion, AProductOfBytesTakesBothStepsBiasActivationAndResidual) {
  GraphMaker m(21);
  const ValueId x = m.input("x", {"N", "6"}), skip = m.input("skip", {"N", "5"});
  ValueId y = m.node("MatMul", {rounded(m, x, 0.02f), rounded(m, m.weights("w", {6, 5}), 0.01f)});
  y = rounded(m, m.node("Add", {y, m.weights("b", {5})}), 0.03f);
  y = m.node("Relu", {m.node("Add", {y, m.weights("b2", {5})})});
  m.output(m.node("Add", {y, skip}));
  EXPECT_THAT(operators_left(m), testing::ElementsAre("QuantizeLinear", "QuantizedMatMul"));
}

TEST(Fusion, AConvolutionOfBytesTakesATable) {
  GraphMaker m(21);
  const ValueId x = m.input("x", {"N", "3", "7"});
  ValueId y = m.node("Conv", {rounded(m, x, 0.02f), rounded(m, m.weights("w", {4, 3, 3}), 0.01f), m.weights("b", {4})});
  y = m.node("Sigmoid", {rounded(m, y, 0.03f)});
  m.output(m.node("QuantizeLinear", {y, m.number(0.01f)}));
  EXPECT_THAT(operators_left(m), testing::ElementsAre("QuantizeLinear", "QuantizedConv"));
}

// Zeros are the zero point of the bytes.
TEST(Fusion, APadBetweenBytesIsThePaddingOfTheConvolution) {
  GraphMaker m(21);
  std::byte* data = nullptr;
  const ConstantRef seven = *make_constant(DataType::kUint8, Shape{}, &data);
  *data = std::byte{7};
  const ValueId scale = m.number(0.02f), zero = m.graph().add_constant("zero", seven);
  const auto between = [&](ValueId v) {
    return m.node("DequantizeLinear", {m.node("QuantizeLinear", {v, scale, zero}), scale, zero});
  };
  const ValueId x = m.input("x", {"N", "3", "7"});
  const ValueId y = between(m.node("Pad", {between(x), m.ints({0, 0, 1, 0, 0, 2})}));
  m.output(m.node("Conv", {y, rounded(m, m.weights("w", {4, 3, 3}), 0.01f)}));
  EXPECT_THAT(operators_left(m), testing::ElementsAre("QuantizeLinear", "QuantizedConv"));
}

TEST(Fusion, BytesMoveInPlaceOfNumbers) {
  GraphMaker m(21);
  ValueId y = rounded(m, m.input("x", {"N", "4", "6"}), 0.02f);
  y = m.node("Transpose", {m.node("Reshape", {y, m.ints({0, 0, 2, 3})})});
  m.set("perm", {0, 2, 1, 3});
  y = m.node("Mul", {y, m.number(0.5f)});
  m.output(m.node("QuantizeLinear", {y, m.number(0.02f)}));
  EXPECT_THAT(operators_left(m), testing::ElementsAre("QuantizeLinear", "Reshape", "Transpose", "LookupBytes"));
}

// The largest byte stands for the largest number, and the nearest byte for the nearest one; bytes in between do not.
TEST(Fusion, BytesAreChosenInPlaceOfNumbers) {
  GraphMaker m(21);
  ValueId y = m.node("MaxPool", {rounded(m, m.input("x", {"N", "3", "8"}), 0.02f)});
  m.set("kernel_shape", std::vector<int64_t>{2}).set("strides", std::vector<int64_t>{2});
  y = m.node("Resize", {y, kNoValue, m.floats("scales", {3}, {1, 1, 2})});
  m.set("mode", "nearest");
  y = m.node("Resize", {y, kNoValue, m.floats("more", {3}, {1, 1, 2})});
  m.set("mode", "linear");
  m.output(y);
  EXPECT_THAT(operators_left(m),
              testing::ElementsAre("QuantizeLinear", "MaxPool", "Resize", "DequantizeLinear", "Resize"));
}

TEST(Fusion, IntegerProductsTakeTheirScale) {
  GraphMaker m(21);
  const ValueId x = m.input("x", {"N", "6"}), step = m.number(0.01f);
  m.node("DynamicQuantizeLinear", {x}, 3);
  const ValueId bytes = m.output_of_last(0), scale = m.output_of_last(1), zero = m.output_of_last(2);
  const ValueId w = m.node("QuantizeLinear", {m.weights("w", {6, 5}), step});
  ValueId y = m.node("Cast", {m.node("MatMulInteger", {bytes, w, zero})});
  m.set("to", int64_t{1});
  y = m.node("Mul", {y, m.node("Mul", {scale, step})});
  m.output(m.node("Relu", {m.node("Add", {y, m.weights("b", {5})})}));
  EXPECT_THAT(operators_left(m), testing::ElementsAre("DynamicQuantizeLinear", "Mul", "QuantizedMatMul"));
}

TEST(Fusion, ADepthwiseConvolutionBetweenBytesIsOneOfBytes) {
  GraphMaker m(21);
  const ValueId x = m.input("x", {"N", "3", "7"});
  const ValueId y = m.node("Conv", {rounded(m, x, 0.02f), rounded(m, m.weights("w", {3, 1, 3}), 0.01f)});
  m.set("group", int64_t{3});
  ValueId z = m.node("Sigmoid", {rounded(m, m.node("Relu", {y}), 0.01f)});
  m.output(m.node("QuantizeLinear", {z, m.number(0.01f)}));
  EXPECT_THAT(operators_left(m), testing::ElementsAre("QuantizeLinear", "QuantizedConv"));
}

// It would be a product with one row.
TEST(Fusion, ADepthwiseConvolutionStaysOneOfNumbers) {
  GraphMaker m(21);
  const ValueId x = m.input("x", {"N", "3", "7"});
  m.output(m.node("Conv", {rounded(m, x, 0.02f), rounded(m, m.weights("w", {3, 1, 3}), 0.01f)}));
  m.set("group", int64_t{3});
  EXPECT_THAT(operators_left(m), testing::ElementsAre("QuantizeLinear", "DequantizeLinear", "Conv"));
}

TEST(Fusion, ASoftmaxBetweenBytesIsOneStep) {
  GraphMaker m(21);
  const ValueId y = m.node("Softmax", {rounded(m, m.input("x", {"N", "40"}), 0.02f)});
  m.output(m.node("QuantizeLinear", {y, m.number(0.004f)}));
  EXPECT_THAT(operators_left(m), testing::ElementsAre("QuantizeLinear", "QuantizedSoftmax"));
}

// Dequantising the whole table for a few of its rows would take most of a small model's time.
TEST(Fusion, RowsOfATableAreDequantisedBehindTheirGather) {
  GraphMaker m(21);
  const ValueId indices = m.input("indices", {"N", "3"}, DataType::kInt64);
  m.output(m.node("Neg", {m.node("Gather", {rounded(m, m.weights("table", {9, 4}), 0.01f), indices})}));
  EXPECT_THAT(operators_left(m), testing::ElementsAre("Gather", "DequantizeLinear", "Neg"));
}

TEST(Fusion, SumsAndProductsBetweenBytesAreOneStep) {
  GraphMaker m(21);
  const ValueId x = m.input("x", {"N", "6"}), y = m.input("y", {"N", "6"});
  const ValueId sum = rounded(m, m.node("Add", {rounded(m, x, 0.02f), rounded(m, y, 0.01f)}), 0.03f);
  const ValueId product = m.node("Mul", {rounded(m, m.weights("w", {2, 6}), 0.01f), sum});
  m.output(m.node("QuantizeLinear", {product, m.number(0.01f)}));
  EXPECT_THAT(operators_left(m), testing::ElementsAre("QuantizeLinear", "QuantizeLinear", "QLinearAdd", "QLinearMul"));
}

TEST(Fusion, PartsBetweenBytesStayBytes) {
  GraphMaker m(21);
  const ValueId x = rounded(m, m.input("x", {"N", "6"}), 0.02f), y = rounded(m, m.input("y", {"N", "5"}), 0.02f);
  const ValueId first = m.node("Split", {x, m.ints({2, 4})}, 2), second = m.output_of_last(1);
  m.set("axis", int64_t{1});
  const ValueId joined = m.node("Concat", {rounded(m, second, 0.02f), y});
  m.set("axis", int64_t{1});
  m.output(m.node("QuantizeLinear", {joined, m.number(0.02f)}));
  const ValueId other = m.node("Concat", {y, rounded(m, first, 0.03f)});
  m.set("axis", int64_t{-1});
  m.output(m.node("QuantizeLinear", {other, m.number(0.025f)}));
  EXPECT_THAT(operators_left(m), testing::ElementsAre("QuantizeLinear", "QuantizeLinear", "Split", "Concat",
                                                      "LookupBytes", "LookupBytes", "Concat"));
}

// The bytes of a map are summed as they are.
TEST(Fusion, AMeanBetweenBytesIsOneStep) {
  for (bool reduce : {false, true}) {
    GraphMaker m(21);
    const ValueId x = rounded(m, m.input("x", {"N", "3", "5", "4"}), 0.02f);
    const ValueId mean = reduce ? m.node("ReduceMean", {x, m.ints({-1, 2})}) : m.node("GlobalAveragePool", {x});
    m.output(m.node("QuantizeLinear", {mean, m.number(0.0071f)}));
    EXPECT_THAT(operators_left(m), testing::ElementsAre("QuantizeLinear", "QLinearGlobalAveragePool"));
  }
}

// One step that overflows float32 makes other bytes of the largest numbers: those of a table.
TEST(Fusion, PartsOfAStepThatOverflowsAreTables) {
  GraphMaker m(21);
  const ValueId scale = m.number(3e37f), x = m.input("x", {"N", "6"}, DataType::kUint8);
  const ValueId joined =
      m.node("Concat", {m.node("DequantizeLinear", {x, scale}), m.node("DequantizeLinear", {x, scale})});
  m.set("axis", int64_t{1});
  m.output(m.node("QuantizeLinear", {joined, scale}));
  EXPECT_THAT(operators_left(m), testing::ElementsAre("LookupBytes", "LookupBytes", "Concat"));
}

// GELU with a step between all its operators.
TEST(Fusion, FunctionsOfOneNumberThatMeetAreOneTable) {
  GraphMaker m(21);
  const ValueId x = rounded(m, m.input("x", {"N", "6"}), 0.02f);
  ValueId y = rounded(m, m.node("Erf", {rounded(m, m.node("Div", {x, m.number(1.414214f)}), 0.015f)}), 0.008f);
  y = rounded(m, m.node("Mul", {x, rounded(m, m.node("Add", {y, m.number(1)}), 0.016f)}), 0.03f);
  m.output(m.node("QuantizeLinear", {m.node("Mul", {y, m.number(0.5f)}), m.number(0.015f)}));
  EXPECT_THAT(operators_left(m), testing::ElementsAre("QuantizeLinear", "LookupBytes"));
}

TEST(Fusion, BytesOfTwoSourcesThatMeetAreNoTable) {
  GraphMaker m(21);
  const ValueId x = rounded(m, m.input("x", {"N", "6"}), 0.02f), y = rounded(m, m.input("y", {"N", "6"}), 0.02f);
  m.output(m.node("QuantizeLinear", {m.node("Sub", {x, m.node("Abs", {y})}), m.number(0.03f)}));
  EXPECT_THAT(operators_left(m), testing::ElementsAre("QuantizeLinear", "DequantizeLinear", "QuantizeLinear",
                                                      "DequantizeLinear", "Abs", "Sub", "QuantizeLinear"));
}

// Operators of bytes with steps that are constants.
class ByteMaker {
 public:
  explicit ByteMaker(GraphMaker& m) : m_(m) {}
  struct Bytes {
    ValueId data, scale, zero;
  };
  ValueId constant(DataType type, const Shape& shape, int first) {
    std::byte* data = nullptr;
    ConstantRef made = *make_constant(type, shape, &data);
    for (size_t i = 0; i < made->size_bytes; ++i) data[i] = static_cast<std::byte>(first + static_cast<int>(i) * 7);
    return m_.graph().add_constant("bytes" + std::to_string(m_.graph().values.size()), std::move(made));
  }
  Bytes step(ValueId data, float scale, int zero) {
    return {data, m_.number(scale), constant(DataType::kUint8, Shape{}, zero)};
  }
  Bytes quantized(ValueId x) {
    Bytes y = step(kNoValue, 0.01f, 128);
    y.data = m_.node("QuantizeLinear", {x, y.scale, y.zero});
    return y;
  }
  Bytes number(int value) { return step(constant(DataType::kUint8, Shape{1}, value), 0.02f, 3); }
  Bytes apply(const std::string& op, const std::vector<Bytes>& x, float scale = 0.015f) {
    std::vector<ValueId> inputs;
    for (const Bytes& one : x) inputs.insert(inputs.end(), {one.data, one.scale, one.zero});
    Bytes y = step(kNoValue, scale, 100);
    inputs.insert(inputs.end(), {y.scale, y.zero});
    y.data = m_.node(op, inputs);
    if (op != "QLinearConv") m_.graph().nodes.back().domain = "com.microsoft";
    return y;
  }

 private:
  GraphMaker& m_;
};

// HardSwish as quantizers write it.
TEST(Fusion, OperatorsOfOneTensorOfBytesAreOneTable) {
  GraphMaker m(21);
  ByteMaker bytes(m);
  const auto x = bytes.quantized(m.input("x", {"N", "6"}));
  const auto gate = bytes.apply("QLinearMul", {bytes.apply("QLinearAdd", {bytes.number(153), x}), bytes.number(8)});
  m.output(bytes.apply("QLinearMul", {x, gate}).data);
  EXPECT_THAT(operators_left(m), testing::ElementsAre("QuantizeLinear", "LookupBytes"));
}

TEST(Fusion, AConvolutionOfBytesTakesOperatorsOfBytesAsItsTable) {
  GraphMaker m(21);
  ByteMaker bytes(m);
  const auto x = bytes.quantized(m.input("x", {"N", "3", "7"}));
  const auto w = bytes.step(bytes.constant(DataType::kUint8, Shape{4, 3, 3}, 90), 0.005f, 120);
  const auto y = bytes.apply("QLinearConv", {x, w});
  m.output(bytes.apply("QLinearMul", {bytes.apply("QLinearSigmoid", {y}), y}).data);
  EXPECT_THAT(operators_left(m), testing::ElementsAre("QuantizeLinear", "QuantizedConv"));
}

// The parts get the step of the whole: by a table, or they have it already.
TEST(Fusion, BytesAreConcatenatedInPlaceOfNumbers) {
  GraphMaker m(21);
  const ValueId x = rounded(m, m.input("x", {"N", "6"}), 0.02f), y = rounded(m, m.input("y", {"N", "4"}), 0.03f);
  const ValueId whole = m.node("Concat", {x, y});
  m.set("axis", int64_t{1});
  m.output(m.node("Cos", {rounded(m, whole, 0.03f)}));
  EXPECT_THAT(operators_left(m), testing::ElementsAre("QuantizeLinear", "QuantizeLinear", "LookupBytes", "Concat",
                                                      "DequantizeLinear", "Cos"));
}

TEST(Fusion, NumbersThatAreReadAreConcatenated) {
  GraphMaker m(21);
  const ValueId x = rounded(m, m.input("x", {"N", "6"}), 0.02f), y = rounded(m, m.input("y", {"N", "4"}), 0.03f);
  const ValueId whole = m.node("Concat", {x, y});
  m.set("axis", int64_t{1});
  m.output(m.node("QuantizeLinear", {whole, m.number(0.03f)}));
  m.output(m.node("Cos", {whole}));
  EXPECT_THAT(operators_left(m), testing::ElementsAre("QuantizeLinear", "DequantizeLinear", "QuantizeLinear",
                                                      "DequantizeLinear", "Concat", "QuantizeLinear", "Cos"));
}

TEST(Fusion, OperatorsOfTwoTensorsOfBytesStay) {
  GraphMaker m(21);
  ByteMaker bytes(m);
  const auto x = bytes.quantized(m.input("x", {"N", "6"})), y = bytes.quantized(m.input("y", {"N", "6"}));
  m.output(bytes.apply("QLinearAdd", {x, bytes.apply("QLinearLeakyRelu", {y})}).data);
  // A number of more dimensions changes the shape.
  const auto number = bytes.step(bytes.constant(DataType::kUint8, Shape{1, 1, 1}, 200), 0.02f, 3);
  m.output(bytes.apply("QLinearAdd", {x, number}).data);
  EXPECT_THAT(operators_left(m),
              testing::ElementsAre("QuantizeLinear", "QuantizeLinear", "LookupBytes", "QLinearAdd", "QLinearAdd"));
}

// The numbers of BatchNormalization for 5 channels of planes of 24 by `columns`.
std::vector<std::string> normalised_bytes(const std::string& columns) {
  GraphMaker m(21);
  const ValueId x = rounded(m, m.input("x", {"N", "5", "24", columns}), 0.02f);
  const ValueId variance = m.floats("variance", {5}, {0.5f, 1, 1.5f, 2, 2.5f});
  ValueId y = m.node("BatchNormalization",
                     {x, m.weights("scale", {5}), m.weights("bias", {5}), m.weights("mean", {5}), variance});
  y = m.node("Sigmoid", {m.node("PRelu", {y, m.weights("slope", {5, 1, 1})})});
  m.output(m.node("QuantizeLinear", {m.node("Mul", {m.weights("factor", {1, 5, 1, 1}), y}), m.number(0.004f)}));
  return operators_left(m);
}

TEST(Fusion, FunctionsOfNumbersAndTheirChannelAreATableForEachChannel) {
  EXPECT_THAT(normalised_bytes("25"), testing::ElementsAre("QuantizeLinear", "LookupBytes"));
}

TEST(Fusion, ChannelsOfFewNumbersHaveNoTables) {
  EXPECT_THAT(normalised_bytes("2"), testing::Contains("BatchNormalization"));
}

// A bound is that of the bytes; another function needs the numbers, or a table.
TEST(Fusion, ANormalisationBetweenBytesIsAProduct) {
  for (const char* last : {"Relu", "Identity", "Sigmoid"}) {
    GraphMaker m(21);
    const ValueId x = rounded(m, m.input("x", {"N", "3", "2", "4"}), 0.02f);
    const ValueId y = m.node("BatchNormalization", {x, m.weights("scale", {3}), m.weights("bias", {3}),
                                                    m.weights("mean", {3}), m.floats("variance", {3}, {0.5f, 1, 2})});
    m.output(m.node("QuantizeLinear", {m.node(last, {y}), m.number(0.03f)}));
    if (std::string(last) == "Sigmoid")
      EXPECT_THAT(operators_left(m), testing::Contains("BatchNormalization"));
    else
      EXPECT_THAT(operators_left(m), testing::ElementsAre("QuantizeLinear", "QuantizedConv")) << last;
  }
}

// Quantizers repeat the step of a value behind each operator that only moves its elements.
TEST(Fusion, BytesThatKeepTheirStepKeepTheirPlace) {
  GraphMaker m(21);
  const ValueId x = rounded(m, m.input("x", {"N", "4"}), 0.02f);
  m.output(m.node("Sigmoid", {rounded(m, m.node("Transpose", {rounded(m, x, 0.02f)}), 0.02f)}));
  EXPECT_THAT(operators_left(m), testing::ElementsAre("QuantizeLinear", "Transpose", "DequantizeLinear", "Activation"));
}

TEST(Fusion, DequantisedNumbersNeedNoGuardAgainstNaN) {
  GraphMaker m(21);
  const ValueId x = rounded(m, m.node("Softmax", {rounded(m, m.input("x", {"N", "40"}), 0.02f)}), 0.004f);
  const ValueId y = m.node("Where", {m.node("IsNaN", {x}), m.number(0), x});
  m.output(m.node("QuantizeLinear", {y, m.number(0.004f)}));
  EXPECT_THAT(operators_left(m), testing::ElementsAre("QuantizeLinear", "QuantizedSoftmax"));
}

// Weights [depth, columns] of 4 bits, or the transposed ones behind a Transpose.
ValueId weights_of_blocks(GraphMaker& m, bool transposed, DataType type, bool zeros) {
  constexpr int64_t kDepth = 40, kColumns = 6, kBlocks = 3;
  const auto codes = [&](const char* name, int64_t lines) {
    std::byte* data = nullptr;
    const Shape shape = transposed ? Shape{kColumns, lines} : Shape{lines, kColumns};
    const ConstantRef constant = make_constant(type, shape, &data).value();
    for (size_t i = 0; i < constant->size_bytes; ++i) data[i] = static_cast<std::byte>(i * 73 + 5);
    return m.graph().add_constant(name, constant);
  };
  std::vector<ValueId> inputs = {codes("codes", kDepth),
                                 m.weights("scales", transposed ? Shape{kColumns, kBlocks} : Shape{kBlocks, kColumns})};
  if (zeros) inputs.push_back(codes("zeros", kBlocks));
  const ValueId w = m.node("DequantizeLinear", inputs);
  m.set("axis", int64_t{transposed ? 1 : 0}).set("block_size", int64_t{16});
  return transposed ? m.node("Transpose", {w}) : w;
}

// As float32 numbers they would take eight times the memory, or be made anew in each run. Blocks of the rounded input
// are a 127th of its largest number fine.
TEST(Fusion, WeightsOfFourBitsStayBlocks) {
  for (bool transposed : {false, true}) {
    for (DataType type : {DataType::kInt4, DataType::kUint4}) {
      for (bool zeros : {false, true}) {
        GraphMaker m(21);
        const ValueId x = m.input("x", {"N", "40"});
        m.output(m.node("MatMul", {x, weights_of_blocks(m, transposed, type, zeros)}));
        EXPECT_THAT(operators_left(m, 0.01), testing::ElementsAre("MatMulNBits"));
      }
    }
  }
}

TEST(Fusion, RowsOfFourBitsAreDequantisedBehindTheirGather) {
  // Along the axis of its blocks, a table is one of float32.
  for (bool along : {false, true}) {
    GraphMaker m(21);
    const ValueId indices = m.input("indices", {"N"}, DataType::kInt64);
    const ValueId table = weights_of_blocks(m, false, DataType::kUint4, true);
    m.output(m.node("Gather", {table, m.node("Min", {indices, m.ints({2})})}));
    m.set("axis", int64_t{along ? 0 : -1});
    EXPECT_THAT(operators_left(m), testing::ElementsAre("Min", along ? "Gather" : "GatherBlockQuantized"));
  }
}

// A float32 product reads weights that were bytes.
TEST(Fusion, WeightsOfOtherProductsAreDequantisedOnce) {
  GraphMaker m(21);
  const ValueId x = m.input("x", {"N", "6"});
  m.output(m.node("MatMul", {x, rounded(m, m.weights("w", {6, 5}), 0.01f)}));
  EXPECT_THAT(operators_left(m), testing::ElementsAre("MatMul"));
}

}  // namespace
}  // namespace tenon
