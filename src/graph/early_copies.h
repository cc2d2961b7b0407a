// Makes the aligned copies of a graph's large weights by threads, while whoever will ask for them is busy otherwise:
// EPs get the addresses of all weights, and one copy after the other took longer than making an EP.
#pragma once

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "graph/graph.h"

namespace tenon {

class EarlyCopies {
 public:
  // Begins, and returns at once. Nothing is done for less than kLeastBytes, nor where the system has no threads.
  explicit EarlyCopies(const Graph& graph);
  // All are made. What there was no memory for fails again where it is asked for.
  ~EarlyCopies();
  EarlyCopies(const EarlyCopies&) = delete;
  EarlyCopies& operator=(const EarlyCopies&) = delete;

  static constexpr size_t kLeastBytes = size_t{8} << 20;

 private:
  void copy();

  std::vector<ConstantRef> weights_;
  std::atomic<size_t> next_{0};
  std::vector<std::thread> threads_;
};

}  // namespace tenon
