#include "graph/early_copies.h"

#include <algorithm>
#include <cstdint>
#include <new>
#include <system_error>

namespace tenon {

namespace {

// Whether its address is where it lies in the model.
bool is_aligned(const Constant& constant) {
  const size_t alignment = std::clamp<size_t>(data_type_size(constant.type), 1, 8);
  return reinterpret_cast<uintptr_t>(constant.data.stored()) % alignment == 0;
}

}  // namespace

EarlyCopies::EarlyCopies(const Graph& graph) {
  constexpr size_t kMostThreads = 8;
  size_t size_bytes = 0;
  for (const Value& value : graph.values) {
    if (value.constant == nullptr || is_aligned(*value.constant)) continue;
    weights_.push_back(value.constant);
    size_bytes += value.constant->size_bytes;
  }
  if (size_bytes < kLeastBytes) return;
  const size_t wanted = std::min({kMostThreads, weights_.size(), size_t{std::thread::hardware_concurrency()}});
  try {
    while (threads_.size() < wanted) threads_.emplace_back([this] { copy(); });
  } catch (const std::system_error&) {
    // Those that there are do it.
  }
}

EarlyCopies::~EarlyCopies() {
  for (std::thread& thread : threads_) thread.join();
}

void EarlyCopies::copy() {
  for (size_t i = next_++; i < weights_.size(); i = next_++) {
    try {
      (void)weights_[i]->data.bytes();
    } catch (const std::bad_alloc&) {
      return;
    }
  }
}

}  // namespace tenon
