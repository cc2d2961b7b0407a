// Trees as an array of nodes that all ask the same question: is the feature at most the threshold?
//
// Every mode of ONNX becomes such nodes: "<" asks for the next lower number, ">" and ">=" swap what follows, "=" is two
// nodes, a set a chain of them. A leaf leads to itself, so that a descent needs no branch: it takes as many steps as
// the deepest leaf asks for, whatever it meets, and several rows go down together.
//
// Threads: never changes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/trees.h"

namespace tenon::cpu {

template <typename T>
class FlatTrees {
 public:
  // Rows that go down a tree together, and trees that a row goes down together: their loads overlap.
  static constexpr int kTogether = 8;
  static constexpr size_t kMostNodes = size_t{1} << 29;

  // Of at most kMostNodes questions and leaves, where a set counts two for each member.
  explicit FlatTrees(const TreeEnsembleDesc& desc);

  // The leaves that `rows` rows of features end in, tree `tree`: leaves[r] is that of the row at x + r * features.
  void find_leaves(size_t tree, const T* x, int64_t features, int64_t rows, int32_t* leaves) const;
  // The leaves that one row ends in, of `count` trees from `first` on.
  void find_leaves_of_row(size_t first, size_t count, const T* x, int32_t* leaves) const;
  size_t trees() const { return trees_.size(); }
  int64_t steps() const { return steps_; }  // of all trees together, for a row

 private:
  static constexpr uint32_t kMissingIsYes = 1u << 31;
  struct FlatNode {
    T threshold = 0;
    uint32_t feature = 0;  // with kMissingIsYes
    // no, yes: places, not a choice, which compilers make a branch of. A place is a node's distance from the first one
    // in steps of kStep bytes, which an address needs no product for. A leaf has its number in the threshold's bytes.
    uint32_t next[2] = {0, 0};
  };
  static constexpr uint32_t kStep = sizeof(uint32_t), kSteps = sizeof(FlatNode) / kStep;
  static_assert(kMostNodes * kSteps < UINT32_MAX);
  struct Tree {
    uint32_t root = 0;
    int32_t depth = 0;
  };

  class Builder;
  // Several rows down a tree, or one row down several trees (`of_one_row`), whose loads overlap.
  template <bool missing, int together, bool of_one_row>
  void descend(const Tree* tree, const T* x, int64_t features, int32_t* leaves) const;
  template <bool missing>
  void find(const Tree& tree, const T* x, int64_t features, int64_t rows, int32_t* leaves) const;
  template <bool missing>
  void find_of_row(const Tree* trees, size_t count, const T* x, int32_t* leaves) const;

  std::vector<FlatNode> nodes_;
  std::vector<Tree> trees_;
  bool any_missing_is_yes_ = false;
  int64_t steps_ = 0;
};

extern template class FlatTrees<float>;
extern template class FlatTrees<double>;

}  // namespace tenon::cpu
