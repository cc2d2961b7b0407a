// Transposed convolutions and resizing on the device against the CPU EP.
#include "operators_testing.h"

namespace tenon::cuda {
namespace {

const Operand kAbsent{.shape = Shape{0}, .absent = true};

TEST_F(Operators, TransposedConvolutions) {
  for (const int64_t outputs : {1, 5, 16}) {
    check({"ConvTranspose",
           {{Shape{2, 24, 6, 7}}, weights({24, outputs, 2, 3}), weights({outputs})},
           [](Node& node) { node.set_ints("strides", {2, 3}); },
           11});
    check({"ConvTranspose",
           {{Shape{2, 7, 9}}, weights({7, outputs, 4})},
           [](Node& node) { node.set_ints("strides", {4}); },
           11});
  }
}

struct Window {
  Shape x, w;
  std::vector<int64_t> strides, pads, dilations, output_padding, output_shape;
  int64_t group = 1;
  std::string auto_pad;
};

TEST_F(Operators, TransposedConvolutionsOfEveryForm) {
  const Window windows[] = {
      {.x = Shape{2, 24, 6, 7}, .w = Shape{24, 5, 3, 3}},
      {.x = Shape{1, 16, 9, 9}, .w = Shape{16, 8, 3, 3}, .strides = {2, 2}, .pads = {1, 1, 1, 1}},
      {.x = Shape{1, 16, 9, 9},
       .w = Shape{16, 8, 4, 4},
       .strides = {2, 2},
       .pads = {1, 0, 2, 1},
       .output_padding = {1, 0}},
      {.x = Shape{2, 12, 5, 6}, .w = Shape{12, 3, 2, 3}, .strides = {3, 2}, .group = 4},
      {.x = Shape{1, 8, 5, 6}, .w = Shape{8, 1, 3, 3}, .strides = {2, 1}, .dilations = {2, 3}, .group = 8},
      {.x = Shape{1, 8, 5, 6}, .w = Shape{8, 4, 3, 5}, .strides = {2, 2}, .auto_pad = "SAME_UPPER"},
      {.x = Shape{1, 8, 5, 6}, .w = Shape{8, 4, 3, 4}, .strides = {2, 3}, .auto_pad = "SAME_LOWER"},
      {.x = Shape{1, 8, 5, 6}, .w = Shape{8, 4, 3, 4}, .strides = {2, 3}, .auto_pad = "VALID"},
      {.x = Shape{1, 8, 5, 6}, .w = Shape{8, 4, 3, 3}, .strides = {2, 2}, .output_shape = {10, 12}},
      {.x = Shape{2, 32, 50}, .w = Shape{32, 16, 16}, .strides = {8}, .pads = {4, 4}},
      {.x = Shape{2, 7, 9}, .w = Shape{7, 1, 5}, .strides = {4}},
      {.x = Shape{1, 8, 3, 4, 5}, .w = Shape{8, 4, 3, 2, 3}, .strides = {2, 2, 1}, .pads = {1, 0, 1, 1, 0, 1}},
  };
  for (const Window& window : windows)
    for (const bool bias : {true, false}) {
      SCOPED_TRACE(
          format("{} {} group {} {}", window.x.to_string(), window.w.to_string(), window.group, window.auto_pad));
      Case test{"ConvTranspose", {{window.x}, weights(window.w)}, [&](Node& node) {
                  const auto set = [&](const char* name, const std::vector<int64_t>& values) {
                    if (!values.empty()) node.set_ints(name, values);
                  };
                  set("strides", window.strides);
                  set("pads", window.pads);
                  set("dilations", window.dilations);
                  set("output_padding", window.output_padding);
                  set("output_shape", window.output_shape);
                  node.set_int("group", window.group);
                  if (!window.auto_pad.empty()) node.set_string("auto_pad", window.auto_pad);
                }};
      test.since = 11;
      if (bias) test.inputs.push_back(weights({window.w[1] * window.group}));
      check(test);
    }
}

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
