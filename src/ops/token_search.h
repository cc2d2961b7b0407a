// Searches for tokens (GreedySearch, Sampling and BeamSearch of com.microsoft), as the internal operators SearchStart,
// SearchStep and SearchEnd see them: the state of a search is one tensor of int32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/status.h"

namespace tenon {

// A view of such a tensor. A row is one beam of one batch; floats are stored by their bits. Lifetime: the tensor's.
class SearchState {
 public:
  static constexpr int64_t kMostLength = 4096, kMostBeams = 128;

  // The number of int32 that a search takes. Errors: sizes that are not positive, or too many.
  static Result<int64_t> size(int64_t batch, int64_t beams, int64_t most_length);
  // Writes the header and zeros.
  static SearchState start(std::span<int32_t> words, int64_t batch, int64_t beams, int64_t most_length);
  // Errors: what is no state.
  static Result<SearchState> read(std::span<int32_t> words);

  int64_t batch() const { return words_[0]; }
  int64_t beams() const { return words_[1]; }
  int64_t rows() const { return batch() * beams(); }
  int64_t most_length() const { return words_[2]; }
  // Tokens of each row so far, and steps that were taken.
  int32_t& length() { return words_[3]; }
  int32_t& steps() { return words_[4]; }
  std::span<int32_t> tokens(int64_t row) { return part(0, most_length(), row); }
  // By row: tokens at the beginning that are no padding.
  int32_t& counted(int64_t row) { return part(1, 1, row)[0]; }
  // By row: the sum of the logarithms of probabilities.
  float& score(int64_t row) { return reinterpret_cast<float&>(part(2, 1, row)[0]); }
  // By batch: no further token changes the result.
  int32_t& ended(int64_t b) { return words_[kHeader + b]; }
  // Sequences that ended, the best first: `kept` of them for each batch, with a score and a length each.
  int32_t& kept(int64_t b) { return words_[kHeader + batch() + b]; }
  float& kept_score(int64_t b, int64_t i) { return reinterpret_cast<float&>(part(3, 1, b * beams() + i)[0]); }
  int32_t& kept_length(int64_t b, int64_t i) { return part(4, 1, b * beams() + i)[0]; }
  std::span<int32_t> kept_tokens(int64_t b, int64_t i) { return part(5, most_length(), b * beams() + i); }
  // Puts a sequence among those that ended, if it is one of the best. Its score is `sum` divided by its length to the
  // power of `penalty`.
  void keep(int64_t b, std::span<const int32_t> sequence, float sum, float penalty);

 private:
  static constexpr int64_t kHeader = 5;
  explicit SearchState(std::span<int32_t> words) : words_(words) {}
  // Parts 0 to 5 have a row of `each` words for each beam, in the order: tokens, counted, score, kept score, kept
  // length, kept tokens.
  std::span<int32_t> part(int number, int64_t each, int64_t row);

  std::span<int32_t> words_;
};

}  // namespace tenon
