// Resizing on the device against the CPU EP: with regions of interest, filters and axes, which problem lines do not
// have.
#include "operators_testing.h"

namespace tenon::cuda {
namespace {

const Operand kAbsent{.shape = Shape{0}, .absent = true};

constexpr const char* kCoordinates[] = {"half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
                                        "align_corners", "asymmetric",           "tf_crop_and_resize"};

TEST_F(Operators, ResizeToTheNearest) {
  for (const char* coordinates : kCoordinates)
    for (const char* rounding : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})
      for (const std::vector<int64_t>& size : {std::vector<int64_t>{2, 3, 10, 21}, {2, 3, 3, 5}, {2, 3, 5, 1}}) {
        SCOPED_TRACE(format("{} {} {}x{}", coordinates, rounding, size[2], size[3]));
        check({"Resize",
               {{Shape{2, 3, 5, 7}}, numbers({0, 0, 0.1F, -0.2F, 1, 1, 0.9F, 1.1F}), kAbsent, ints(size)},
               [&](Node& node) {
                 node.set_string("coordinate_transformation_mode", coordinates);
                 node.set_string("nearest_mode", rounding);
                 node.set_float("extrapolation_value", 7);
               },
               13,
               1,
               false});
      }
}

TEST_F(Operators, ResizeByInterpolation) {
  for (const char* mode : {"linear", "cubic"})
    for (const char* coordinates : kCoordinates)
      for (const std::vector<float>& scale : {std::vector<float>{1, 1, 1.7F, 3}, {1, 1, 0.5F, 0.61F}}) {
        SCOPED_TRACE(format("{} {} {}", mode, coordinates, scale[3]));
        check({"Resize",
               {{Shape{1, 8, 12, 13}}, numbers({0, 0, 0.1F, -0.2F, 1, 1, 0.9F, 1.1F}), numbers(scale)},
               [&](Node& node) {
                 node.set_string("mode", mode);
                 node.set_string("coordinate_transformation_mode", coordinates);
               },
               13});
      }
}

TEST_F(Operators, ResizeWithFiltersAndAxes) {
  for (const char* mode : {"linear", "cubic"})
    for (const int antialias : {0, 1})
      for (const int outside : {0, 1}) {
        check({"Resize",
               {{Shape{2, 14, 15, 4}}, kAbsent, kAbsent, ints({6, 31})},
               [&](Node& node) {
                 node.set_string("mode", mode);
                 node.set_int("antialias", antialias);
                 node.set_int("exclude_outside", outside);
                 node.set_float("cubic_coeff_a", -0.5F);
                 node.set_ints("axes", {1, 2});
               },
               18});
      }
  for (const char* policy : {"not_larger", "not_smaller"})
    check({"Resize",
           {{Shape{1, 4, 10, 12}}, kAbsent, kAbsent, ints({15, 20})},
           [&](Node& node) {
             node.set_string("mode", "linear");
             node.set_string("keep_aspect_ratio_policy", policy);
             node.set_ints("axes", {2, -1});
           },
           18});
  check({"Resize",
         {{Shape{9, 5}}, kAbsent, numbers({2, 0.5F})},
         [](Node& node) { node.set_string("mode", "linear"); },
         13});
  check({"Resize", {{Shape{1, 2, 4}, DataType::kInt64}, kAbsent, kAbsent, ints({1, 2, 9})}, nullptr, 13, 1, false});
}

}  // namespace
}  // namespace tenon::cuda
