#include "ops/token_search.h"

#include <algorithm>
#include <cmath>

#include "ops/attributes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

Result<int64_t> SearchState::size(int64_t batch, int64_t beams, int64_t most_length) {
  TENON_INVALID_IF(beams < 1 || beams > kMostBeams, "The number of beams ({}) is not in [1, {}].", beams, kMostBeams);
  TENON_INVALID_IF(most_length < 1 || most_length > kMostLength, "The length of a search ({}) is not in [1, {}].",
                   most_length, kMostLength);
  // A batch of an int32 has no overflow here: 2^31 * 2^7 * 2^14.
  TENON_INVALID_IF(batch < 0 || batch > INT32_MAX, "A search of {} sequences.", batch);
  return kHeader + 2 * batch + batch * beams * (4 + 2 * most_length);
}

SearchState SearchState::start(std::span<int32_t> words, int64_t batch, int64_t beams, int64_t most_length) {
  std::fill(words.begin(), words.end(), 0);
  words[0] = static_cast<int32_t>(batch);
  words[1] = static_cast<int32_t>(beams);
  words[2] = static_cast<int32_t>(most_length);
  return SearchState(words);
}

Result<SearchState> SearchState::read(std::span<int32_t> words) {
  TENON_INVALID_IF(std::ssize(words) < kHeader, "The state of a search has {} numbers.", words.size());
  TENON_TRY_ASSIGN(const int64_t expected, size(words[0], words[1], words[2]));
  TENON_INVALID_IF(expected != std::ssize(words) || words[3] < 0 || words[3] > words[2],
                   "The state of a search has {} numbers, not {}.", words.size(), expected);
  return SearchState(words);
}

std::span<int32_t> SearchState::part(int number, int64_t each, int64_t row) {
  const int64_t before = number == 0 ? 0 : rows() * (most_length() + number - 1);
  return words_.subspan(kHeader + 2 * batch() + before + row * each, each);
}

void SearchState::keep(int64_t b, std::span<const int32_t> sequence, float sum, float penalty) {
  const float score = sum / std::pow(static_cast<float>(sequence.size()), penalty);
  int64_t at = kept(b);
  if (at == beams()) {
    if (!(score > kept_score(b, at - 1))) return;
    --at;
  } else {
    ++kept(b);
  }
  for (; at > 0 && score > kept_score(b, at - 1); --at) {
    kept_score(b, at) = kept_score(b, at - 1);
    kept_length(b, at) = kept_length(b, at - 1);
    std::ranges::copy(kept_tokens(b, at - 1), kept_tokens(b, at).begin());
  }
  kept_score(b, at) = score;
  kept_length(b, at) = static_cast<int32_t>(sequence.size());
  std::ranges::copy(sequence, kept_tokens(b, at).begin());
}

namespace infer {
namespace {

Status set(Context& c, size_t output, DataType type, Dims dims) {
  if (!c.has_output(output)) return {};
  c.set_type(output, type);
  return c.set_dims(output, std::move(dims));
}

// state, tokens, positions, mask, batches of the rows.
Status infer_start(Context& c) {
  TENON_TRY(c.require_rank(0, 2, "ids"));
  const Dim batch = c.ranked(0) ? c.dims(0)[0] : Dim{}, length = c.ranked(0) ? c.dims(0)[1] : Dim{};
  const auto one = [&](size_t input) -> std::optional<int64_t> {
    const auto values = c.values(input);
    return values && values->size() == 1 ? std::optional(values->front()) : std::nullopt;
  };
  const std::optional<int64_t> most = one(1), beams = c.has(2) ? one(2) : 1;
  Dim size, rows;
  if (batch.known() && most && beams) {
    TENON_TRY_ASSIGN(size.value, SearchState::size(batch.value, *beams, *most));
    rows.value = batch.value * *beams;
  }
  TENON_TRY(set(c, 0, DataType::kInt32, {size}));
  for (size_t i = 1; i < 4; ++i) TENON_TRY(set(c, i, DataType::kInt32, {rows, length}));
  return set(c, 4, DataType::kInt32, {rows});
}

// state, go, tokens, positions, rows, scores.
Status infer_step(Context& c) {
  TENON_TRY(c.require_rank(0, 3, "logits"));
  const Dim rows = c.ranked(0) ? c.dims(0)[0] : Dim{};
  const int64_t words = Attributes(c.node()).find_integer("vocab_size").value_or(0);
  TENON_TRY(set(c, 0, DataType::kInt32, c.ranked(1) ? c.dims(1) : Dims{Dim{}}));
  TENON_TRY(set(c, 1, DataType::kBool, {}));
  for (size_t i = 2; i < 4; ++i) TENON_TRY(set(c, i, DataType::kInt32, {rows, number(1)}));
  TENON_TRY(set(c, 4, DataType::kInt32, {rows}));
  return set(c, 5, DataType::kFloat, {rows, words > 0 ? number(words) : c.ranked(0) ? c.dims(0)[2] : Dim{}});
}

// sequences, their scores, the scores of all tokens at each step.
Status infer_end(Context& c) {
  const bool beams = c.has(1);
  TENON_TRY(set(c, 0, DataType::kInt32, Dims(beams ? 3 : 2)));
  TENON_TRY(set(c, 1, DataType::kFloat, Dims(2)));
  return set(c, 2, DataType::kFloat, Dims(4));
}

constexpr Row kRows[] = {{"SearchEnd", &infer_end}, {"SearchStart", &infer_start}, {"SearchStep", &infer_step}};

}  // namespace

std::span<const Row> internal_search_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
