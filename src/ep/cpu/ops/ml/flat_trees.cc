#include "ep/cpu/ops/ml/flat_trees.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace tenon::cpu {

namespace {

using Branch = TreeEnsembleDesc::Branch;
using Mode = TreeEnsembleDesc::Mode;

// A descent looks after so many steps whether all rows are in leaves.
constexpr int kStepsBetweenLooks = 8;

template <typename T>
T next_below(T value) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  // Nothing is below.
  if (value == -kInfinity) return std::numeric_limits<T>::quiet_NaN();
  return std::nextafter(value, -kInfinity);
}

}  // namespace

template <typename T>
class FlatTrees<T>::Builder {
 public:
  Builder(FlatTrees& flat, const TreeEnsembleDesc& desc)
      : flat_(flat), desc_(desc), branch_at_(desc.branches.size(), kNone), leaf_at_(desc.leaves.size(), kNone) {}

  // The node of `place` and everything below, the nearest levels next to each other. The depth is the longest way down.
  Tree build(int32_t place) {
    Tree tree{.root = node_of(place)};
    std::vector<std::pair<int32_t, int32_t>> level = {{place, 0}};
    std::vector<int32_t> reached(desc_.branches.size(), -1);
    while (!level.empty()) {
      std::vector<std::pair<int32_t, int32_t>> next;
      for (const auto& [at, depth] : level) {
        tree.depth = std::max(tree.depth, depth);
        if (at < 0) continue;
        // A part that two branches share is visited again only from farther down.
        if (reached[at] >= depth) continue;
        reached[at] = depth;
        const Branch& branch = desc_.branches[at];
        next.emplace_back(branch.yes, depth + length_of(branch));
        next.emplace_back(branch.no, depth + length_of(branch));
      }
      std::vector<int32_t> fresh;
      for (const auto& [at, depth] : level)
        if (at >= 0 && !written_[at]) fresh.push_back(at), written_[at] = true;
      for (const int32_t at : fresh) write(desc_.branches[at], node_of(at));
      level = std::move(next);
    }
    return tree;
  }

 private:
  static int32_t length_of(const Branch& branch) {
    if (branch.mode == Mode::kMember) return 2 * static_cast<int32_t>(std::max<size_t>(branch.members, 1));
    return branch.mode == Mode::kEqual || branch.mode == Mode::kNotEqual ? 2 : 1;
  }

  uint32_t add_node() {
    flat_.nodes_.emplace_back();
    return static_cast<uint32_t>(flat_.nodes_.size() - 1) * kSteps;
  }

  uint32_t node_of(int32_t place) {
    uint32_t& at = place >= 0 ? branch_at_[place] : leaf_at_[-1 - place];
    if (at != kNone) return at;
    at = add_node();
    if (place < 0) {
      FlatNode& node = flat_.nodes_[at / kSteps];
      node.next[0] = node.next[1] = at;
      const int32_t leaf = -1 - place;
      std::memcpy(&node.threshold, &leaf, sizeof(leaf));
    }
    return at;
  }

  void set(uint32_t at, const Branch& branch, T threshold, bool missing_is_yes, uint32_t yes, uint32_t no) {
    const uint32_t missing = missing_is_yes ? kMissingIsYes : 0;
    flat_.any_missing_is_yes_ = flat_.any_missing_is_yes_ || missing_is_yes;
    flat_.nodes_[at / kSteps] = {threshold, static_cast<uint32_t>(branch.feature) | missing, {no, yes}};
  }

  // x = value: at most the value, and not below it.
  void set_equal(uint32_t at, const Branch& branch, T value, bool missing_is_yes, uint32_t yes, uint32_t no) {
    const uint32_t second = add_node();
    set(at, branch, value, missing_is_yes, second, no);
    set(second, branch, next_below(value), false, no, yes);
  }

  void write(const Branch& branch, uint32_t at) {
    const uint32_t yes = node_of(branch.yes), no = node_of(branch.no);
    const T threshold = static_cast<T>(branch.threshold);
    const bool missing = branch.missing_is_yes;
    switch (branch.mode) {
      case Mode::kLessOrEqual:
        return set(at, branch, threshold, missing, yes, no);
      case Mode::kLess:
        return set(at, branch, next_below(threshold), missing, yes, no);
      case Mode::kGreaterOrEqual:
      case Mode::kGreater:
        // Nothing compares with NaN.
        if (threshold != threshold) return set(at, branch, threshold, missing, yes, no);
        return set(at, branch, branch.mode == Mode::kGreater ? threshold : next_below(threshold), !missing, no, yes);
      case Mode::kEqual:
        return set_equal(at, branch, threshold, missing, yes, no);
      case Mode::kNotEqual:
        // NaN differs from every number.
        return set_equal(at, branch, threshold, false, no, yes);
      case Mode::kMember:
        break;
    }
    if (branch.members == 0)
      return set(at, branch, std::numeric_limits<T>::quiet_NaN(), missing, yes, no);  // nothing is in the set
    for (size_t m = 0; m < branch.members; ++m) {
      const bool last = m + 1 == branch.members;
      const uint32_t next = last ? no : add_node();
      set_equal(at, branch, static_cast<T>(desc_.members[branch.first_member + m]), missing, yes, next);
      at = next;
    }
  }

  FlatTrees& flat_;
  const TreeEnsembleDesc& desc_;
  static constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> branch_at_, leaf_at_;
  std::vector<bool> written_ = std::vector<bool>(branch_at_.size(), false);
};

template <typename T>
FlatTrees<T>::FlatTrees(const TreeEnsembleDesc& desc) {
  Builder builder(*this, desc);
  for (const int32_t root : desc.roots) {
    trees_.push_back(builder.build(root));
    steps_ += trees_.back().depth;
  }
}

template <typename T>
template <bool missing, int together, bool of_one_row>
void FlatTrees<T>::descend(const Tree* tree, const T* x, int64_t features, int32_t* leaves) const {
  const auto* const nodes = reinterpret_cast<const std::byte*>(nodes_.data());
  const auto node_at = [&](uint32_t place) -> const FlatNode& {
    return *reinterpret_cast<const FlatNode*>(nodes + uint64_t{place} * kStep);
  };
  uint32_t at[together];
  int32_t deepest = tree->depth;
  for (int k = 0; k < together; ++k) {
    const Tree& one = tree[of_one_row ? k : 0];
    at[k] = one.root;
    if (of_one_row) deepest = std::max(deepest, one.depth);
  }
  for (int32_t depth = 0; depth < deepest;) {
    const int32_t until = std::min(deepest, depth + kStepsBetweenLooks);
    for (; depth < until; ++depth) {
      for (int k = 0; k < together; ++k) {
        const FlatNode& node = node_at(at[k]);
        const T value = x[(of_one_row ? 0 : k * features) + (missing ? node.feature & ~kMissingIsYes : node.feature)];
        bool yes = value <= node.threshold;
        if (missing) yes = yes | ((value != value) & ((node.feature & kMissingIsYes) != 0));
        at[k] = node.next[static_cast<int>(yes)];
      }
    }
    if (depth == deepest) break;
    bool done = true;
    for (int k = 0; k < together; ++k) done = done & (node_at(at[k]).next[1] == at[k]);
    if (done) break;
  }
  for (int k = 0; k < together; ++k) std::memcpy(&leaves[k], &node_at(at[k]).threshold, sizeof(leaves[k]));
}

template <typename T>
template <bool missing>
void FlatTrees<T>::find(const Tree& tree, const T* x, int64_t features, int64_t rows, int32_t* leaves) const {
  int64_t row = 0;
  for (; row + kTogether <= rows; row += kTogether)
    descend<missing, kTogether, false>(&tree, x + row * features, features, leaves + row);
  for (; row < rows; ++row) descend<missing, 1, true>(&tree, x + row * features, features, leaves + row);
}

template <typename T>
template <bool missing>
void FlatTrees<T>::find_of_row(const Tree* trees, size_t count, const T* x, int32_t* leaves) const {
  size_t tree = 0;
  for (; tree + kTogether <= count; tree += kTogether)
    descend<missing, kTogether, true>(trees + tree, x, 0, leaves + tree);
  for (; tree < count; ++tree) descend<missing, 1, true>(trees + tree, x, 0, leaves + tree);
}

template <typename T>
void FlatTrees<T>::find_leaves(size_t tree, const T* x, int64_t features, int64_t rows, int32_t* leaves) const {
  if (any_missing_is_yes_) return find<true>(trees_[tree], x, features, rows, leaves);
  find<false>(trees_[tree], x, features, rows, leaves);
}

template <typename T>
void FlatTrees<T>::find_leaves_of_row(size_t first, size_t count, const T* x, int32_t* leaves) const {
  if (any_missing_is_yes_) return find_of_row<true>(&trees_[first], count, x, leaves);
  find_of_row<false>(&trees_[first], count, x, leaves);
}

template class FlatTrees<float>;
template class FlatTrees<double>;

}  // namespace tenon::cpu
