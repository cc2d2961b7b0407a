// The steps of GreedySearch, Sampling and BeamSearch between two runs of their decoder (ops/token_search.h).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ep/cpu/ops/contrib/rows.h"
#include "ep/cpu/ops/random/draws.h"
#include "ep/cpu/ops/reference_kernel.h"
#include "ops/attributes.h"
#include "ops/token_search.h"

namespace tenon::cpu::ref {

namespace {

constexpr std::string_view kDomain = "tenon";

// Copies of the node's specs, which a run reads.
struct Specs {
  explicit Specs(const RefNode& node)
      : inputs(node.inputs.begin(), node.inputs.end()), outputs(node.outputs.begin(), node.outputs.end()) {}
  const TensorSpec& input(size_t index) const { return index < inputs.size() ? inputs[index] : kAbsent; }
  const TensorSpec& output(size_t index) const { return index < outputs.size() ? outputs[index] : kAbsent; }

  static inline const TensorSpec kAbsent;
  std::vector<TensorSpec> inputs, outputs;
};

// Memory for an output; null for an absent one.
template <typename T>
Result<T*> open(KernelContext& context, const Specs& specs, size_t output, const Shape& shape) {
  if (!specs.output(output).present()) return nullptr;
  TENON_TRY_ASSIGN(void* const memory, open_output(context, specs.output(output), output, shape));
  return static_cast<T*>(memory);
}

// The number that an int32 or float input of one element holds; `otherwise` where it is absent.
template <typename T>
Result<T> one_number(const KernelContext& context, const Specs& specs, size_t input, T otherwise) {
  const TensorSpec& spec = specs.input(input);
  if (!spec.present()) return otherwise;
  constexpr bool kInteger = std::is_same_v<T, int32_t>;
  TENON_INVALID_IF(spec.shape.element_count() != 1 || spec.type != (kInteger ? DataType::kInt32 : DataType::kFloat),
                   "A search takes one {} as input {}, not {}{}.", kInteger ? "int32" : "float32", input,
                   data_type_name(spec.type), spec.shape.to_string());
  return *context.input<T>(input);
}

// A mask of int32, of one row or of one for each batch. Errors: another shape.
Status check_mask(const Specs& specs, size_t input, int64_t batch, int64_t width) {
  const TensorSpec& spec = specs.input(input);
  if (!spec.present()) return {};
  TENON_INVALID_IF(spec.type != DataType::kInt32 || (spec.shape != Shape{batch, width} && spec.shape != Shape{width}),
                   "A search of {} sequences takes a mask of int32[{},{}], not {}{}.", batch, batch, width,
                   data_type_name(spec.type), spec.shape.to_string());
  return {};
}

// --- SearchStart ---

// ids, most_length, beams?, mask? -> state?, tokens?, positions?, mask?, batches of the rows?
Status start(KernelContext& context, const Specs& specs, int32_t pad, bool left) {
  const Shape& shape = specs.inputs[0].shape;
  const int64_t batch = shape[0], length = shape[1];
  TENON_TRY_ASSIGN(const int32_t most_length, one_number<int32_t>(context, specs, 1, 0));
  TENON_TRY_ASSIGN(const int32_t beams, one_number<int32_t>(context, specs, 2, 1));
  TENON_TRY(check_mask(specs, 3, batch, length));
  TENON_TRY_ASSIGN(const int64_t size, SearchState::size(batch, beams, most_length));
  const int64_t rows = batch * beams;
  TENON_TRY_ASSIGN(auto* const words, open<int32_t>(context, specs, 0, Shape{size}));
  TENON_TRY_ASSIGN(auto* const tokens, open<int32_t>(context, specs, 1, Shape{rows, length}));
  TENON_TRY_ASSIGN(auto* const positions, open<int32_t>(context, specs, 2, Shape{rows, length}));
  TENON_TRY_ASSIGN(auto* const mask, open<int32_t>(context, specs, 3, Shape{rows, length}));
  TENON_TRY_ASSIGN(auto* const batches, open<int32_t>(context, specs, 4, Shape{rows}));
  std::optional<SearchState> state;
  if (words != nullptr) {
    TENON_INVALID_IF(length >= most_length, "max_length ({}) is not larger than the length of the input ({}).",
                     most_length, length);
    state = SearchState::start({words, static_cast<size_t>(size)}, batch, beams, most_length);
    state->length() = static_cast<int32_t>(length);
  }
  const auto* const given = specs.input(3).present() ? context.input<int32_t>(3) : nullptr;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t b = row / beams;
    const int32_t* const ids = context.input<int32_t>(0) + b * length;
    int32_t count = 0;
    for (int64_t i = 0; i < length; ++i) {
      // Of an encoder only the padding before the first word is none: T5 ends with such a token.
      const bool counts = ids[i] != pad || (left && count > 0);
      if (tokens != nullptr) tokens[row * length + i] = ids[i];
      if (positions != nullptr) positions[row * length + i] = counts ? count : 0;
      if (mask != nullptr) mask[row * length + i] = given != nullptr ? given[b * length + i] : counts ? 1 : 0;
      count += counts ? 1 : 0;
    }
    if (batches != nullptr) batches[row] = static_cast<int32_t>(b);
    if (!state) continue;
    std::copy_n(ids, length, state->tokens(row).begin());
    state->counted(row) = count;
    state->score(row) = row % beams == 0 ? 0.0F : -1e9F;  // all beams begin alike: only one of them is taken up
  }
  return {};
}

Result<RefImpl> make_start(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  TENON_INVALID_IF(node.inputs[0].type != DataType::kInt32 || node.inputs[0].shape.rank() != 2,
                   "A search begins with ids of int32 in two dimensions, not {}{}.",
                   data_type_name(node.inputs[0].type), node.inputs[0].shape.to_string());
  const Attributes attributes(*node.node);
  RefImpl impl;
  impl.run = [specs = Specs(node), pad = static_cast<int32_t>(attributes.integer("pad_token_id")),
              left = attributes.flag("left")](KernelContext& context) { return start(context, specs, pad, left); };
  return impl;
}

// --- SearchStep ---

enum Input : size_t {
  kLogits,
  kState,
  kMinLength,
  kLengthPenalty,
  kRepetitionPenalty,
  kVocabMask,
  kFirstVocabMask,
  kPresenceMask,
  kSeed,
  kTemperature
};

struct Sampling {
  bool descending = false;  // the attribute "custom"
  float top_p = 0, filtered = 0;
  int64_t least = 0;  // tokens that are kept
};

class Step {
 public:
  explicit Step(const RefNode& node) : specs_(node) {
    const Attributes attributes(*node.node);
    mode_ = attributes.text("mode");
    // The operator's own; what it does not have means nothing.
    const auto whole = [&](const char* name) { return attributes.find_integer(name).value_or(0); };
    pad_ = static_cast<int32_t>(attributes.find_integer("pad_token_id").value_or(-1));
    end_ = static_cast<int32_t>(attributes.find_integer("eos_token_id").value_or(-1));
    ngram_ = whole("no_repeat_ngram_size");
    early_ = whole("early_stopping") != 0;
    words_ = whole("vocab_size");
    temperature_ = attributes.find_number("temperature").value_or(1);
    presence_ = attributes.find_number("presence_penalty").value_or(0);
    sampling_ = {whole("custom") != 0, attributes.find_number("top_p").value_or(0),
                 attributes.find_number("filter_value").value_or(-1e20F), whole("min_tokens_to_keep")};
    if (words_ < 1) words_ = node.inputs[kLogits].shape[2];
  }

  Status check() const {
    const TensorSpec& logits = specs_.inputs[kLogits];
    TENON_INVALID_IF(words_ > logits.shape[2] || words_ < 2, "A vocabulary of {} words has logits {}.", words_,
                     logits.shape.to_string());
    TENON_INVALID_IF(end_ < 0 || end_ >= words_ || pad_ < 0 || pad_ >= words_,
                     "The tokens for the end ({}) and for padding ({}) are not in [0, {}).", end_, pad_, words_);
    return {};
  }

  Status run(KernelContext& context) const {
    const Shape& logits = specs_.inputs[kLogits].shape;
    const int64_t rows = logits[0], length = logits[1], width = logits[2];
    TENON_TRY_ASSIGN(auto* const memory, open<int32_t>(context, specs_, 0, specs_.inputs[kState].shape));
    const std::span words(memory, static_cast<size_t>(specs_.inputs[kState].shape[0]));
    std::copy_n(context.input<int32_t>(kState), words.size(), words.begin());
    TENON_TRY_ASSIGN(SearchState state, SearchState::read(words));
    TENON_INVALID_IF(state.rows() != rows || length < 1 || state.length() >= state.most_length(),
                     "The decoder of {} sequences has logits {}.", state.rows(), logits.to_string());
    std::vector<float> all(rows * words_);
    for (int64_t row = 0; row < rows; ++row) {
      const float* const last = context.input<float>(kLogits) + ((row + 1) * length - 1) * width;
      std::copy_n(last, words_, all.begin() + row * words_);
    }
    const std::span scores(all);
    if (mode_ == "beams") normalise(scores);
    TENON_TRY(process(context, state, scores));
    std::vector<int32_t> tokens(rows), from(rows);
    if (mode_ == "beams") {
      TENON_TRY(take_beams(context, state, scores, tokens, from));
    } else {
      std::iota(from.begin(), from.end(), 0);
      if (mode_ == "sample") {
        TENON_TRY(sample(context, state, scores, tokens));
      } else {
        for (int64_t row = 0; row < rows; ++row) {
          const auto of_row = scores.subspan(row * words_, words_);
          tokens[row] = static_cast<int32_t>(std::ranges::max_element(of_row) - of_row.begin());
        }
      }
      end_rows(state, tokens);
    }
    append(state, tokens, from);
    return write(context, state, tokens, from, scores);
  }

 private:
  // Logarithms of probabilities.
  void normalise(std::span<float> scores) const {
    for (int64_t at = 0; at < std::ssize(scores); at += words_) {
      const auto row = scores.subspan(at, words_);
      const float largest = *std::ranges::max_element(row);
      // As float32, as in ONNX Runtime: tokens whose probability is 1 but for a last digit are equally likely then.
      float sum = 0;
      for (float score : row) sum += std::exp(score - largest);
      const float logarithm = std::log(sum);
      for (float& score : row) score = score - largest - logarithm;
    }
  }

  Status process(const KernelContext& context, SearchState& state, std::span<float> scores) const {
    constexpr float kNever = std::numeric_limits<float>::lowest();
    TENON_TRY_ASSIGN(const float penalty, one_number<float>(context, specs_, kRepetitionPenalty, 1));
    TENON_INVALID_IF(!(penalty > 0), "The penalty of a repetition ({}) is not positive.", penalty);
    TENON_TRY_ASSIGN(const int32_t least, one_number<int32_t>(context, specs_, kMinLength, 0));
    TENON_TRY_ASSIGN(const float temperature, one_number<float>(context, specs_, kTemperature, temperature_));
    for (size_t mask : {kVocabMask, kFirstVocabMask, kPresenceMask})
      TENON_TRY(check_mask(specs_, mask, state.batch(), words_));
    std::vector<uint8_t> seen(words_);
    for (int64_t row = 0; row < state.rows(); ++row) {
      const auto row_scores = scores.subspan(row * words_, words_);
      const auto tokens = state.tokens(row).first(state.length());
      std::ranges::fill(seen, uint8_t{0});
      for (int32_t token : tokens) {
        TENON_INVALID_IF((penalty != 1 || ngram_ > 0) && (token < 0 || token >= words_),
                         "Token {} is not in the vocabulary of {}.", token, words_);
        if (penalty == 1 || seen[token]++ != 0) continue;
        row_scores[token] = row_scores[token] < 0 ? row_scores[token] * penalty : row_scores[token] / penalty;
      }
      if (ngram_ > 0) {
        for (int64_t i = 0; i + ngram_ <= std::ssize(tokens); ++i)
          if (std::equal(tokens.begin() + i, tokens.begin() + i + ngram_ - 1, tokens.end() - ngram_ + 1))
            row_scores[tokens[i + ngram_ - 1]] = kNever;
      }
      for (size_t mask : {kVocabMask, kFirstVocabMask}) {
        const int32_t* const allowed = mask_row(context, mask, row / state.beams());
        if (allowed == nullptr || (mask == kFirstVocabMask && state.steps() > 0)) continue;
        for (int64_t i = 0; i < words_; ++i)
          if (allowed[i] == 0) row_scores[i] = kNever;
      }
      if (state.length() < least) row_scores[end_] = kNever;
      if (temperature > 0 && temperature != 1)
        for (float& score : row_scores) score /= temperature;
      if (const int32_t* const present = mask_row(context, kPresenceMask, row / state.beams())) {
        for (int64_t i = 0; i < words_; ++i) row_scores[i] -= static_cast<float>(present[i]) * presence_;
      }
    }
    return {};
  }

  const int32_t* mask_row(const KernelContext& context, size_t input, int64_t b) const {
    const TensorSpec& spec = specs_.input(input);
    if (!spec.present()) return nullptr;
    return context.input<int32_t>(input) + (spec.shape.rank() == 2 ? b * words_ : 0);
  }

  // The first `count` of `order` become the indices of the largest or smallest scores; of equal ones the first comes
  // first.
  static void rank(std::span<const float> scores, std::vector<int64_t>& order, int64_t count, bool descending) {
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](int64_t x, int64_t y) {
      return scores[x] == scores[y] ? x < y : (scores[x] > scores[y]) == descending;
    });
  }

  // The best tokens of all beams of a batch; an end among the first of them ends a sequence.
  Status take_beams(const KernelContext& context, SearchState& state, std::span<float> scores,
                    std::span<int32_t> tokens, std::span<int32_t> from) const {
    TENON_TRY_ASSIGN(const float penalty, one_number<float>(context, specs_, kLengthPenalty, 1));
    const int64_t beams = state.beams(), each = beams * words_, best = 2 * beams;
    // The best of each batch, and their scores.
    std::vector<int64_t> order(each), found(state.batch() * best);
    std::vector<float> sums(state.batch() * best);
    for (int64_t b = 0; b < state.batch(); ++b) {
      const auto of_batch = scores.subspan(b * each, each);
      for (int64_t i = 0; i < each; ++i) of_batch[i] += state.score(b * beams + i / words_);
      rank(of_batch, order, best, true);
      for (int64_t i = 0; i < best; ++i) sums[b * best + i] = of_batch[found[b * best + i] = order[i]];
    }
    for (int64_t b = 0; b < state.batch(); ++b) {
      if (state.ended(b) != 0) {
        for (int64_t i = 0; i < beams; ++i) {
          tokens[b * beams + i] = pad_;
          state.score(b * beams + i) = 0;
          if (beams == 1) from[b] = static_cast<int32_t>(b);  // ONNX Runtime moves no caches then
        }
        continue;
      }
      int64_t taken = 0;
      for (int64_t i = 0; i < best && taken < beams; ++i) {
        const int64_t row = b * beams + found[b * best + i] / words_;
        const auto token = static_cast<int32_t>(found[b * best + i] % words_);
        if (token == end_) {
          if (i < beams) state.keep(b, state.tokens(row).first(state.length()), sums[b * best + i], penalty);
          continue;
        }
        tokens[b * beams + taken] = token;
        from[b * beams + taken] = static_cast<int32_t>(row);
        state.score(b * beams + taken++) = sums[b * best + i];
      }
      TENON_INVALID_IF(taken < beams, "Of {} tokens of batch {} only {} go on.", best, b, taken);
      if (state.kept(b) < beams) continue;
      // ONNX Runtime looks at as many scores, but from the number of the batch's first beam on: others than its own
      // where there are several batches.
      const auto seen = std::span<const float>(sums).subspan(b * beams, best);
      const float hoped = *std::ranges::max_element(seen) / std::pow(static_cast<float>(state.length()), penalty);
      if (early_ || state.kept_score(b, beams - 1) >= hoped) state.ended(b) = 1;
    }
    return {};
  }

  Status sample(const KernelContext& context, SearchState& state, std::span<float> scores,
                std::span<int32_t> tokens) const {
    TENON_TRY_ASSIGN(const int32_t seed, one_number<int32_t>(context, specs_, kSeed, 0));
    const Draws draws(specs_.input(kSeed).present() ? std::optional(static_cast<float>(seed)) : std::nullopt);
    Draws::Stream stream = draws.next_run();
    std::array<float, kDraws<float>> drawn;
    std::vector<int64_t> order(words_);
    std::vector<double> share(words_);
    for (int64_t row = 0; row < state.rows(); ++row) {
      const auto row_scores = scores.subspan(row * words_, words_);
      rank(row_scores, order, words_, sampling_.descending);
      weigh(row_scores, share);
      // From the most likely on while their shares exceed top_p, or from the least likely on up to the rest of it.
      double sum = 0;
      const int64_t counted = words_ - (sampling_.descending ? 1 : std::max<int64_t>(sampling_.least, 0));
      std::vector<int64_t> dropped;
      for (int64_t i = 0; i < counted; ++i) {
        sum += share[order[i]];
        if (sampling_.descending ? sum > sampling_.top_p : sum <= 1 - sampling_.top_p)
          dropped.push_back(order[sampling_.descending ? i + 1 : i]);
      }
      for (int64_t i : dropped) row_scores[i] = sampling_.filtered;
      weigh(row_scores, share);
      draw_uniform(stream, static_cast<int64_t>(state.steps()) * state.rows() + row, std::span(drawn));
      double left = drawn[0];
      int64_t chosen = words_ - 1;
      for (int64_t i = 0; i < words_; ++i) {
        left -= share[i];
        if (left < 0) {
          chosen = i;
          break;
        }
      }
      tokens[row] = static_cast<int32_t>(chosen);
    }
    return {};
  }

  static void weigh(std::span<const float> scores, std::span<double> share) {
    const float largest = *std::ranges::max_element(scores);
    double sum = 0;
    for (size_t i = 0; i < scores.size(); ++i) sum += share[i] = std::exp(static_cast<double>(scores[i] - largest));
    for (double& one : share) one /= sum;
  }

  // A sequence that has ended goes on with padding.
  void end_rows(SearchState& state, std::span<int32_t> tokens) const {
    for (int64_t row = 0; row < state.rows(); ++row) {
      if (tokens[row] == end_) state.ended(row) = 1;
      if (state.ended(row) != 0) tokens[row] = pad_;
    }
  }

  static void append(SearchState& state, std::span<const int32_t> tokens, std::span<const int32_t> from) {
    const int64_t length = state.length();
    std::vector<int32_t> before(state.rows() * length);
    for (int64_t row = 0; row < state.rows(); ++row)
      std::copy_n(state.tokens(row).begin(), length, before.begin() + row * length);
    for (int64_t row = 0; row < state.rows(); ++row) {
      std::copy_n(before.begin() + from[row] * length, length, state.tokens(row).begin());
      state.tokens(row)[length] = tokens[row];
    }
    ++state.length();
    ++state.steps();
  }

  Status write(KernelContext& context, SearchState& state, std::span<const int32_t> tokens,
               std::span<const int32_t> from, std::span<const float> scores) const {
    const int64_t rows = state.rows();
    TENON_TRY_ASSIGN(auto* const go, open<bool>(context, specs_, 1, Shape()));
    if (go != nullptr) {
      *go = false;
      for (int64_t b = 0; b < state.batch(); ++b) *go = *go || state.ended(b) == 0;
    }
    TENON_TRY_ASSIGN(auto* const next, open<int32_t>(context, specs_, 2, Shape{rows, 1}));
    if (next != nullptr) std::ranges::copy(tokens, next);
    TENON_TRY_ASSIGN(auto* const positions, open<int32_t>(context, specs_, 3, Shape{rows, 1}));
    for (int64_t row = 0; positions != nullptr && row < rows; ++row)
      positions[row] = state.counted(row) + state.steps() - 1;
    TENON_TRY_ASSIGN(auto* const sources, open<int32_t>(context, specs_, 4, Shape{rows}));
    if (sources != nullptr) std::ranges::copy(from, sources);
    TENON_TRY_ASSIGN(auto* const seen, open<float>(context, specs_, 5, Shape{rows, words_}));
    if (seen != nullptr) std::ranges::copy(scores, seen);
    return {};
  }

  Specs specs_;
  std::string mode_;
  int32_t pad_ = 0, end_ = 0;
  int64_t ngram_ = 0, words_ = 0;
  bool early_ = false;
  float temperature_ = 1, presence_ = 0;
  Sampling sampling_;
};

Result<RefImpl> make_step(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  TENON_INVALID_IF(node.inputs[kLogits].type != DataType::kFloat, "A search takes logits of float32, not {}.",
                   data_type_name(node.inputs[kLogits].type));
  TENON_INVALID_IF(node.inputs[kLogits].shape.rank() != 3 || node.inputs[kState].shape.rank() != 1,
                   "A search takes logits in three dimensions, not {}.", node.inputs[kLogits].shape.to_string());
  auto step = std::make_shared<Step>(node);
  TENON_TRY(step->check());
  RefImpl impl;
  impl.run = [step](KernelContext& context) { return step->run(context); };
  return impl;
}

// --- SearchEnd ---

// state, sequences of each batch?, length_penalty?, scores of all tokens? -> sequences, scores?, scores of all tokens?
Status end(KernelContext& context, const Specs& specs, int32_t pad) {
  std::vector<int32_t> words(context.input<int32_t>(0), context.input<int32_t>(0) + specs.inputs[0].shape[0]);
  TENON_TRY_ASSIGN(SearchState state, SearchState::read(words));
  const bool beams = specs.input(1).present();
  TENON_TRY_ASSIGN(const int32_t wanted, one_number<int32_t>(context, specs, 1, 1));
  TENON_TRY_ASSIGN(const float penalty, one_number<float>(context, specs, 2, 1));
  TENON_INVALID_IF(wanted < 1 || wanted > state.beams(), "Of {} beams {} sequences are wanted.", state.beams(), wanted);
  const int64_t batch = state.batch(), most = state.most_length();
  TENON_TRY_ASSIGN(auto* const y,
                   open<int32_t>(context, specs, 0, beams ? Shape{batch, wanted, most} : Shape{batch, most}));
  TENON_TRY_ASSIGN(auto* const scores, open<float>(context, specs, 1, Shape{batch, wanted}));
  for (int64_t b = 0; b < batch; ++b) {
    if (!beams) {
      const auto tokens = state.tokens(b);
      std::fill_n(y + b * most, most, pad);
      std::copy_n(tokens.begin(), state.length(), y + b * most);
      continue;
    }
    for (int64_t i = 0; state.ended(b) == 0 && i < state.beams(); ++i) {
      const int64_t row = b * state.beams() + i;
      state.keep(b, state.tokens(row).first(state.length()), state.score(row), penalty);
    }
    for (int64_t i = 0; i < wanted; ++i) {
      int32_t* const to = y + (b * wanted + i) * most;
      std::fill_n(to, most, pad);
      std::copy_n(state.kept_tokens(b, i).begin(), state.kept_length(b, i), to);
      if (scores != nullptr) scores[b * wanted + i] = state.kept_score(b, i);
    }
  }
  if (!specs.output(2).present() || !specs.input(3).present()) return {};
  // Steps that were not taken have zeros.
  const Shape& seen = specs.inputs[3].shape;
  const int64_t first = state.length() - state.steps();
  const Shape shape{most - first, batch, state.beams(), seen[seen.rank() - 1]};
  TENON_TRY_ASSIGN(auto* const all, open<float>(context, specs, 2, shape));
  const int64_t written = std::min(seen.element_count(), shape.element_count());
  std::copy_n(context.input<float>(3), written, all);
  std::fill_n(all + written, shape.element_count() - written, 0.0F);
  return {};
}

Result<RefImpl> make_end(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  RefImpl impl;
  impl.run = [specs = Specs(node), pad = static_cast<int32_t>(Attributes(*node.node).integer("pad_token_id"))](
                 KernelContext& context) { return end(context, specs, pad); };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<~TypeSet{0}, &make_end>("SearchEnd", 1, kAnyVersion, kDomain),
    ref_row<~TypeSet{0}, &make_start>("SearchStart", 1, kAnyVersion, kDomain),
    ref_row<~TypeSet{0}, &make_step>("SearchStep", 1, kAnyVersion, kDomain),
};

}  // namespace

std::span<const KernelEntry> search_rows() { return kRows; }

}  // namespace tenon::cpu::ref
