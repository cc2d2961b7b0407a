// Generated kernels whose blocks share memory: sums along an axis, norms of groups, the limits of what is quantised.
#include <algorithm>

#include "operators_testing.h"

namespace tenon::cuda {
namespace {

// 256 elements and more are a block's, whose threads have parts of unequal length.
TEST_F(Operators, SumsAlongAnAxis) {
  for (const auto& [exclusive, reverse] : {std::pair{0, 0}, {1, 0}, {0, 1}, {1, 1}}) {
    SCOPED_TRACE(format("exclusive {} reverse {}", exclusive, reverse));
    const auto attributes = [exclusive = exclusive, reverse = reverse](Node& node) {
      node.set_int("exclusive", exclusive);
      node.set_int("reverse", reverse);
    };
    check({"CumSum", {{Shape{3, 1000}}, ints({1})}, attributes, 14, 1, false});
    check({"CumSum", {{Shape{2, 300, 5}}, ints({-2})}, attributes, 14, 1, false});
    check({"CumSum", {{Shape{4, 20}}, ints({0})}, attributes, 14, 1, false});
  }
}

TEST_F(Operators, NormsOfGroups) {
  const auto groups = [](Node& node) { node.set_int("num_groups", 3); };
  for (const int64_t side : {1, 5, 19}) {
    const Shape shape{2, 6, side, side + 1};
    check({"InstanceNormalization", {{shape}, weights({6}), weights({6})}, nullptr, 6});
    check({"GroupNormalization", {{shape}, weights({6}), weights({6})}, groups, 21});
  }
  for (const int64_t power : {1, 2})
    check({"LpNormalization", {{Shape{3, 400, 2}}}, [&](Node& node) {
             node.set_int("p", power);
             node.set_int("axis", 1);
           }});
}

// Compute: the bytes, their scale and their zero point are those of ONNX's formula.
class DynamicQuantize : public Operators {
 protected:
  void check_limits(int64_t count, float low, float high) {
    if (!case_is_in_part()) return;
    SCOPED_TRACE(format("{} numbers from {} to {}", count, low, high));
    const Shape shape{count};
    std::byte *x_bytes = nullptr, *y_bytes = nullptr, *scale_bytes = nullptr, *zero_bytes = nullptr;
    const ConstantRef x = *make_constant(DataType::kFloat, shape, &x_bytes);
    const std::vector<float> values = random_floats(static_cast<size_t>(count), 5, low, high);
    store_floats(values, DataType::kFloat, x_bytes);
    const ConstantRef y = *make_constant(DataType::kUint8, shape, &y_bytes),
                      scale = *make_constant(DataType::kFloat, Shape{}, &scale_bytes),
                      zero = *make_constant(DataType::kUint8, Shape{}, &zero_bytes);
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    const float begin = std::min(0.0F, *least), end = std::max(0.0F, *most), step = (end - begin) / 255.0F;
    const float place = std::clamp(std::nearbyint(-begin / step), 0.0F, 255.0F);
    std::memcpy(scale_bytes, &step, sizeof(step));
    *reinterpret_cast<uint8_t*>(zero_bytes) = static_cast<uint8_t>(place);
    for (size_t i = 0; i < values.size(); ++i)
      reinterpret_cast<uint8_t*>(y_bytes)[i] =
          static_cast<uint8_t>(std::clamp(std::nearbyint(values[i] / step) + place, 0.0F, 255.0F));
    Case test{.name = "DynamicQuantizeLinear", .inputs = {{.shape = shape}}, .since = 11, .outputs = 3};
    run(test, {x}, {y, scale, zero}, false, 1e-7);
  }
};

// A block has 4,096 numbers; what many blocks found, one joins.
TEST_F(DynamicQuantize, LimitsAreThoseOfAllBlocks) {
  check_limits(1, 2, 3);
  check_limits(300, -1, 1);
  check_limits(5000, -7, -2);
  check_limits(40'001, -3, 9);
}

}  // namespace
}  // namespace tenon::cuda
