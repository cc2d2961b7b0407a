// Results are tests/problems/conv_transpose.txt.
#include "ep/cpu/ops/blocked_testing.h"

namespace tenon::cpu {
namespace {

// auto_pad VALID means no padding, whatever `pads` says.
TEST(ConvTransposeAutoPad, ValidIgnoresPads) {
  std::mt19937 random(11);
  const auto x = uniform_floats(random, 8 * 4 * 4), w = uniform_floats(random, 8 * 8 * 3 * 3);
  std::vector<std::vector<float>> got;
  for (const int64_t pad : {0, 1}) {
    ConvNode node("ConvTranspose", "", 11);
    node.input({1, 8, 4, 4}, x).constant({8, 8, 3, 3}, w).output({1, 8, 6, 6});
    node.node().set_ints("pads", {pad, pad, pad, pad});
    node.node().set_string("auto_pad", "VALID");
    got.push_back(node.run(1).at(0));
  }
  EXPECT_EQ(got[0], got[1]);
}

}  // namespace
}  // namespace tenon::cpu
