#include "ep/cuda/rendezvous.h"

#include "base/format.h"

namespace tenon::cuda {

std::string listed_ranks(const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size(); ++i)
    text += format("{}{}", i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ", ranks[i]);
  return text;
}

std::vector<int> other_ranks(const RankOptions& options) {
  std::vector<int> others;
  for (int rank = 0; rank < options.ranks; ++rank)
    if (rank != options.rank) others.push_back(rank);
  return others;
}

}  // namespace tenon::cuda
