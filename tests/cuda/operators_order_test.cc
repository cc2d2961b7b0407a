// TopK on the device against the CPU EP.
#include "operators_testing.h"

namespace tenon::cuda {
namespace {

void set_axis(Node& node, int64_t axis, int64_t largest) {
  node.set_int("axis", axis);
  node.set_int("largest", largest);
}

TEST_F(Operators, TopKOfRowsAndColumns) {
  for (const int64_t largest : {0, 1}) {
    for (const auto& [count, k] : {std::pair<int64_t, int64_t>{1, 1}, {7, 7}, {1000, 5}, {8400, 300}, {3000, 2048}}) {
      SCOPED_TRACE(format("{} of {}, {}", k, count, largest));
      check({"TopK", {{Shape{3, count}}, ints({k})}, [&](Node& node) { set_axis(node, -1, largest); }, 11, 2});
    }
    check({"TopK", {{Shape{2, 50, 6}}, ints({9})}, [&](Node& node) { set_axis(node, 1, largest); }, 11, 2});
  }
}

// Equal elements keep the order of their places; integers have few different values here.
TEST_F(Operators, TopKOfEqualElements) {
  for (const DataType type : {DataType::kInt32, DataType::kInt64})
    for (const int64_t largest : {0, 1})
      check({"TopK",
             {{Shape{4, 1500}, type}, ints({700})},
             [&](Node& node) { set_axis(node, 1, largest); },
             11,
             2,
             false});
  check({"TopK", {{Shape{2, 600}, DataType::kFloat, false, 0, 0}, ints({100})}, nullptr, 11, 2});
  check({"TopK",
         {{.shape = Shape{1, 8}, .floats = {0, -0.0F, INFINITY, -INFINITY, 1, NAN, -1, 0}}, ints({8})},
         nullptr,
         11,
         2,
         false});
}

TEST_F(Operators, TopKOfNothing) {
  check({"TopK", {{Shape{3, 20}}, ints({0})}, nullptr, 11, 2});
  check({"TopK", {{Shape{0, 20}}, ints({4})}, nullptr, 11, 2});
}

}  // namespace
}  // namespace tenon::cuda
