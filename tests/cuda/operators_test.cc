// Convolutions, products, rows, elementwise and moving operators on the device against the CPU EP.
#include "operators_testing.h"

namespace tenon::cuda {
namespace {

TEST_F(Operators, Convolutions) {
  const auto pads = [](Node& node) { node.set_ints("pads", {1, 1, 1, 1}); };
  check({"Conv", {{Shape{2, 16, 9, 11}}, weights({24, 16, 3, 3}), weights({24})}, pads, 11});
  check({"Conv", {{Shape{1, 3, 20, 20}}, weights({16, 3, 3, 3}), weights({16})}, pads, 11});
  check({"Conv",
         {{Shape{1, 32, 13, 13}}, weights({32, 1, 3, 3}), weights({32})},
         [](Node& node) {
           node.set_ints("pads", {1, 1, 1, 1});
           node.set_int("group", 32);
           node.set_ints("strides", {2, 2});
         },
         11});
  check({"Conv",
         {{Shape{1, 16, 12, 12}}, weights({16, 1, 5, 5})},
         [](Node& node) {
           node.set_ints("pads", {2, 2, 2, 2});
           node.set_int("group", 16);
         },
         11});
  check({"Conv",
         {{Shape{1, 16, 12, 12}}, weights({8, 4, 3, 3})},
         [](Node& node) {
           node.set_int("group", 4);
           node.set_ints("dilations", {2, 2});
         },
         11});
  check({"Conv", {{Shape{2, 8, 33}}, weights({8, 8, 3})}, [](Node& node) { node.set_ints("pads", {1, 1}); }, 11});
}

TEST_F(Operators, Products) {
  check({"MatMul", {{Shape{2, 10, 64}}, weights({64, 48})}, nullptr});
  check({"MatMul", {{Shape{2, 3, 10, 16}}, {Shape{2, 3, 16, 24}}}, nullptr});
  check({"MatMul", {{Shape{2, 10, 16}}, {Shape{16, 24}}}, nullptr});
  check({"Gemm", {{Shape{5, 40}}, weights({32, 40}), weights({32})}, [](Node& node) { node.set_int("transB", 1); }});
}

TEST_F(Operators, Rows) {
  for (int64_t columns : {64, 768, 1000, 1024, 3000, 77}) {
    check({"LayerNormalization", {{Shape{6, columns}}, weights({columns}), weights({columns})}, nullptr, 17});
    check({"Softmax", {{Shape{3, 5, columns}}}, [](Node& node) { node.set_int("axis", -1); }});
  }
  check({"Softmax", {{Shape{2, 16, 4, 21}}}, [](Node& node) { node.set_int("axis", 1); }});
  check({"LogSoftmax", {{Shape{3, 200}}}, [](Node& node) { node.set_int("axis", -1); }});
}

TEST_F(Operators, Pooling) {
  const auto window = [](Node& node) {
    node.set_ints("kernel_shape", {3, 3});
    node.set_ints("strides", {2, 2});
    node.set_ints("pads", {1, 1, 1, 1});
  };
  check({"MaxPool", {{Shape{2, 16, 15, 17}}}, window, 12});
  check({"AveragePool", {{Shape{2, 5, 15, 17}}}, window, 11});
  for (const char* side : {"SAME_UPPER", "SAME_LOWER"})
    for (const char* name : {"MaxPool", "AveragePool"})
      check({name,
             {{Shape{2, 8, 15, 18}}},
             [&](Node& node) {
               node.set_ints("kernel_shape", {2, 4});
               node.set_ints("strides", {1, 3});
               node.set_string("auto_pad", side);
             },
             11});
  check({"GlobalMaxPool", {{Shape{2, 40, 7, 7}}}, nullptr, 1});
  check({"GlobalMaxPool", {{Shape{2, 5, 300}}}, nullptr, 1});
  check({"GlobalAveragePool", {{Shape{2, 40, 7, 7}}}, nullptr, 1});
  check({"GlobalAveragePool", {{Shape{2, 5, 9, 7}}}, nullptr, 1});
}

TEST_F(Operators, Reductions) {
  const auto keep = [](Node& node) { node.set_int("keepdims", 1); };
  for (const char* name : {"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2"}) {
    check({name, {{Shape{3, 50, 9}}, ints({1})}, keep, 18});
    check({name, {{Shape{3, 5, 300}}, ints({-1})}, [](Node& node) { node.set_int("keepdims", 0); }, 18});
  }
  check({"ReduceMean", {{Shape{2, 24, 6, 5}}, ints({2, 3})}, keep, 18});
}

TEST_F(Operators, Elementwise) {
  for (const char* name : {"Add", "Sub", "Mul", "Div"}) {
    check({name, {{Shape{2, 3, 32}}, {Shape{2, 3, 32}, DataType::kFloat, false, 0.5F, 2}}, nullptr, 14});
    check({name, {{Shape{2, 3, 5}}, {Shape{3, 1}, DataType::kFloat, false, 0.5F, 2}}, nullptr, 14});
    check({name, {{Shape{7}}, {Shape{}, DataType::kFloat, true, 0.5F, 2}}, nullptr, 14});
  }
  for (const char* name : {"Relu", "Sigmoid", "Tanh", "Exp", "Erf", "Abs", "Neg", "Floor", "Ceil", "HardSwish",
                           "HardSigmoid", "LeakyRelu", "Elu", "Softplus"})
    check({name,
           {{Shape{3, 70}, DataType::kFloat, false, -4, 4}},
           nullptr,
           name == std::string_view("HardSwish") ? 14 : 13});
  for (const char* name : {"Sqrt", "Log", "Reciprocal"})
    check({name, {{Shape{65}, DataType::kFloat, false, 0.1F, 4}}, nullptr});
  check({"Pow", {{Shape{33}, DataType::kFloat, false, 0.1F, 3}, {Shape{}, DataType::kFloat, true, 2, 2}}, nullptr, 15});
  check({"Clip",
         {{Shape{70}}, {Shape{}, DataType::kFloat, true, -0.5F, -0.5F}, {Shape{}, DataType::kFloat, true, 0.5F, 0.5F}},
         nullptr});
  check({"Where", {{Shape{4, 1}, DataType::kBool}, {Shape{4, 6}}, {Shape{6}}}, nullptr, 9});
  check({"Add", {{Shape{40}, DataType::kInt64}, {Shape{40}, DataType::kInt64}}, nullptr, 14, 1, false});
  check({"Equal", {{Shape{40}, DataType::kInt64}, {Shape{1}, DataType::kInt64}}, nullptr, 13, 1, false});
  check({"And", {{Shape{4, 8}, DataType::kBool}, {Shape{8}, DataType::kBool}}, nullptr, 7, 1, false});
  check({"Cast", {{Shape{40}, DataType::kInt64}}, [](Node& node) { node.set_int("to", 1); }, 13, 1, false});
}

TEST_F(Operators, Moves) {
  check({"Transpose", {{Shape{2, 3, 4, 40}}}, [](Node& node) { node.set_ints("perm", {0, 2, 1, 3}); }});
  check({"Transpose", {{Shape{17, 31}}}, nullptr});
  check({"Gather", {{Shape{9, 64}, DataType::kFloat}, {Shape{2, 5}, DataType::kInt64}}, nullptr});
  check({"Gather", {{Shape{3, 9, 4}}, {Shape{}, DataType::kInt64, true, 0, 0, {-2}}}, [](Node& node) {
           node.set_int("axis", 1);
         }});
  check({"Concat", {{Shape{2, 3, 8}}, {Shape{2, 5, 8}}}, [](Node& node) { node.set_int("axis", 1); }});
  check({"Split", {{Shape{2, 6, 8}}, ints({2, 4})}, [](Node& node) { node.set_int("axis", 1); }, 13, 2});
  check({"Slice", {{Shape{4, 10, 8}}, ints({1}), ints({9}), ints({1}), ints({2})}, nullptr});
  check({"Pad", {{Shape{3, 5}}, ints({1, 0, 0, 2})}, nullptr, 18});
  check({"Expand", {{Shape{3, 1}}, ints({2, 3, 4})}, nullptr});
  check({"Reshape", {{Shape{3, 8}}, ints({4, 6})}, nullptr, 14});
  const Operand places{
      .shape = Shape{3, 2}, .type = DataType::kInt64, .constant = true, .integers = {0, 1, 2, -1, 3, 0}};
  check({"GatherND", {{Shape{4, 5}}, places}, nullptr});
}

}  // namespace
}  // namespace tenon::cuda
