#include "ep/cpu/ops/ml/flat_trees.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>

namespace tenon::cpu {
namespace {

using Mode = TreeEnsembleDesc::Mode;

// The leaf by the text of the standard, one question after the other.
int32_t leaf_of(const TreeEnsembleDesc& desc, int32_t place, const float* x) {
  while (place >= 0) {
    const TreeEnsembleDesc::Branch& branch = desc.branches[place];
    const float value = x[branch.feature];
    const auto threshold = static_cast<float>(branch.threshold);
    bool yes = branch.missing_is_yes && std::isnan(value);
    switch (branch.mode) {
      case Mode::kLessOrEqual:
        yes = yes || value <= threshold;
        break;
      case Mode::kLess:
        yes = yes || value < threshold;
        break;
      case Mode::kGreaterOrEqual:
        yes = yes || value >= threshold;
        break;
      case Mode::kGreater:
        yes = yes || value > threshold;
        break;
      case Mode::kEqual:
        yes = yes || value == threshold;
        break;
      case Mode::kNotEqual:
        yes = yes || value != threshold;
        break;
      case Mode::kMember:
        for (size_t m = 0; m < branch.members; ++m)
          yes = yes || value == static_cast<float>(desc.members[branch.first_member + m]);
        break;
    }
    place = yes ? branch.yes : branch.no;
  }
  return -1 - place;
}

class RandomTrees {
 public:
  explicit RandomTrees(uint32_t seed) : random_(seed) {}
  int below(int end) { return static_cast<int>(random_() % static_cast<uint32_t>(end)); }
  // Few numbers, so that features meet thresholds; now and then none, or one that nothing is below.
  float number() {
    if (below(8) == 0) return std::numeric_limits<float>::quiet_NaN();
    if (below(20) == 0) return -std::numeric_limits<float>::infinity();
    return static_cast<float>(below(9) - 4) / 2;
  }

  TreeEnsembleDesc make(int features) {
    TreeEnsembleDesc desc;
    const int branches = 1 + below(20);
    const bool missing = below(2) == 0;
    for (int i = 0; i < branches; ++i) {
      // Parts may be shared, and nothing is under itself.
      const auto child = [&] {
        if (i + 1 < branches && below(3) != 0) return i + 1 + below(branches - i - 1);
        desc.leaves.emplace_back();
        return -static_cast<int32_t>(desc.leaves.size());
      };
      TreeEnsembleDesc::Branch branch{.mode = static_cast<Mode>(below(7)),
                                      .missing_is_yes = missing && below(2) == 0,
                                      .feature = below(features),
                                      .threshold = number(),
                                      .first_member = desc.members.size(),
                                      .members = static_cast<size_t>(below(4))};
      for (size_t m = 0; m < branch.members; ++m) desc.members.push_back((below(9) - 4) / 2.0);
      branch.yes = child();
      branch.no = child();
      desc.branches.push_back(branch);
    }
    desc.roots = {0, below(branches)};
    return desc;
  }

 private:
  std::mt19937 random_;
};

TEST(FlatTrees, RowsEndInTheLeavesThatTheQuestionsLeadTo) {
  constexpr int kRows = 21, kFeatures = 3;
  RandomTrees random(1);
  for (int repeat = 0; repeat < 300; ++repeat) {
    const TreeEnsembleDesc desc = random.make(kFeatures);
    const FlatTrees<float> trees(desc);
    std::array<float, kRows * kFeatures> x{};
    for (float& value : x) value = random.number();
    std::array<int32_t, kRows> leaves{};
    for (size_t tree = 0; tree < desc.roots.size(); ++tree) {
      trees.find_leaves(tree, x.data(), kFeatures, kRows, leaves.data());
      for (int row = 0; row < kRows; ++row)
        ASSERT_EQ(leaves[row], leaf_of(desc, desc.roots[tree], &x[row * kFeatures])) << "repeat " << repeat;
    }
  }
}

}  // namespace
}  // namespace tenon::cpu
