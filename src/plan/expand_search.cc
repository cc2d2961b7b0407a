// GreedySearch, Sampling, BeamSearch and WhisperBeamSearch: a Loop over the decoder, whose next input is what
// SearchStep makes of its logits. A decoder of GPT's kind reads the prompt itself; others follow an encoder.
#include <utility>

#include "plan/expand.h"

namespace tenon::expand {

namespace {

constexpr std::string_view kInternal = "tenon";
constexpr int64_t kGpt = 0, kWhisper = 2;

// Where the operators have the inputs that they share; -1: nowhere.
struct Inputs {
  int beams = -1, sequences = -1, length_penalty = -1, repetition = 3, vocab = 4, first_vocab = 5, mask = 6,
      presence = -1, seed = -1, forced = -1, processor = -1, temperature = -1;
};
constexpr Inputs kGreedyInputs;
constexpr Inputs kSamplingInputs{.presence = 7, .seed = 8};
constexpr Inputs kBeamInputs{.beams = 3,
                             .sequences = 4,
                             .length_penalty = 5,
                             .repetition = 6,
                             .vocab = 7,
                             .first_vocab = 8,
                             .mask = 9,
                             .forced = 10,
                             .processor = 11};
constexpr Inputs kWhisperInputs{.beams = 3,
                                .sequences = 4,
                                .length_penalty = 5,
                                .repetition = 6,
                                .vocab = 7,
                                .first_vocab = 8,
                                .mask = 9,
                                .forced = 10,
                                .processor = 11,
                                .temperature = 14};

// Outputs of SearchStep.
struct Stepped {
  ValueId state, go, tokens, positions, rows, scores;
};

// What an input of the decoder gets in the next iteration.
enum class Next { kTokens, kPositions, kMask, kCache };
struct Carried {
  ValueId inner, initial;  // of the decoder, and of the graph around it
  Next next = Next::kCache;
  ValueId made = kNoValue;  // of the decoder, for a cache
};

class Search {
 public:
  Search(Expansion& to, const Inputs& at, std::string mode) : to_(to), at_(at), mode_(std::move(mode)) {
    const Attributes attributes = to.attributes();
    pad_ = attributes.find_integer("pad_token_id").value_or(-1);
    wants_scores_ = has_beams() && to.out(2) != kNoValue;
    decoder_ = attributes.graph("decoder");
  }

  void run() {
    const int64_t kind = to_.attributes().integer("model_type");
    if (decoder_ == nullptr || decoder_->inputs.empty() || decoder_->outputs.empty()) {
      to_.fail(invalid_argument("{} has no decoder with inputs and outputs.", to_.node().op_type));
    } else if (kind == kGpt) {
      run_gpt();
    } else if (has_beams()) {
      run_encoder(kind == kWhisper);
    } else {
      to_.fail(
          unsupported("{} is computed for decoders of GPT's kind, not of model_type {}.", to_.node().op_type, kind));
    }
  }

 private:
  bool has_beams() const { return at_.beams >= 0; }
  ValueId in(int input) const { return input >= 0 ? to_.in(input) : kNoValue; }
  ValueId joined(const std::vector<ValueId>& parts) { return to_.add("Concat", parts, {integer("axis", 0)}); }

  // How many tokens are made at most: the length of the result less the first ones.
  ValueId steps_after(ValueId ids, int64_t made) {
    const ValueId most = to_.cast(to_.reshape(to_.in(1), {1}), DataType::kInt64);
    const ValueId left = to_.add("Sub", {most, to_.sizes(ids, 1, 2)});
    return made == 0 ? left : to_.add("Sub", {left, to_.constant({made})});
  }

  // The inputs of a step that are the operator's.
  std::vector<ValueId> step_inputs() const {
    return {to_.in(2),           in(at_.length_penalty), in(at_.repetition), in(at_.vocab),
            in(at_.first_vocab), in(at_.presence),       in(at_.seed),       in(at_.temperature)};
  }

  Stepped step(Expansion& at, ValueId logits, ValueId state, const std::vector<ValueId>& more) const {
    Stepped made{at.new_value(), at.new_value(), at.new_value(), at.new_value(), at.new_value(), kNoValue};
    if (wants_scores_) made.scores = at.new_value();
    if (at.type(logits) != DataType::kFloat) logits = at.cast(logits, DataType::kFloat);
    std::vector<ValueId> inputs = {logits, state};
    inputs.insert(inputs.end(), more.begin(), more.end());
    Node node;
    node.domain = kInternal;
    node.op_type = "SearchStep";
    node.since_version = 1;
    while (inputs.back() == kNoValue) inputs.pop_back();
    node.inputs = std::move(inputs);
    node.outputs = {made.state, made.go, made.tokens, made.positions, made.rows, made.scores};
    for (const Attribute& attribute : to_.node().attributes)
      if (attribute.graph == nullptr && attribute.kind != AttributeKind::kStrings)
        node.attributes.edit().push_back(attribute);
    node.set_string("mode", mode_);
    at.put(std::move(node));
    return made;
  }

  // The cache of the rows that go on.
  ValueId picked(Expansion& at, ValueId cache, ValueId rows, int64_t axis) const {
    return has_beams() ? at.add("Gather", {cache, rows}, {integer("axis", axis)}) : cache;
  }

  // The tokens that were made, or all of their sequences.
  ValueId next_tokens(Expansion& at, ValueId before, const Stepped& made, bool sequences) const {
    if (!sequences) return made.tokens;
    return at.add("Concat", {picked(at, before, made.rows, 0), made.tokens}, {integer("axis", 1)});
  }

  // A token that was made counts.
  static ValueId longer_mask(Expansion& at, ValueId mask, ValueId tokens) {
    const ValueId ones = at.cast(at.add("Equal", {tokens, tokens}), DataType::kInt32);
    return at.add("Concat", {mask, ones}, {integer("axis", 1)});
  }

  // The state, and what a decoder begins with.
  struct Started {
    ValueId state, tokens, positions, mask, batches;
  };
  Started start(ValueId ids, ValueId mask) {
    const Started made{to_.new_value(), to_.new_value(), to_.new_value(), to_.new_value(), to_.new_value()};
    to_.add_node(kInternal, "SearchStart", {ids, to_.in(1), in(at_.beams), mask}, {integer("pad_token_id", pad_)},
                 {made.state, made.tokens, made.positions, made.mask, made.batches});
    return made;
  }

  // A cache without positions: [2?, rows, heads, 0, depth], of which the decoder's input says heads and depth.
  ValueId empty_cache(ValueId input, size_t rank, ValueId tokens) {
    const Value& cache = decoder_->value(input);
    if (!cache.has_rank || cache.dims.size() != rank || !cache.dims[rank - 3].known() ||
        !cache.dims[rank - 1].known()) {
      to_.fail(invalid_argument("The decoder's cache \"{}\" is {}; its heads and their size have to be known.",
                                cache.name, cache.type_text()));
      return kNoValue;
    }
    std::vector<ValueId> parts = {to_.sizes(tokens, 0, 1),
                                  to_.constant({cache.dims[rank - 3].value, 0, cache.dims[rank - 1].value})};
    if (rank == 5) parts.insert(parts.begin(), to_.constant({2}));
    return to_.add("Expand", {to_.scalar(0, cache.type), joined(parts)});
  }

  static ValueId captured(Graph& body, const Graph& outer, ValueId id) {
    if (id == kNoValue) return id;
    const ValueId inner = body.add_value(outer.value(id));
    body.captures.emplace_back(id, inner);
    return inner;
  }

  // A body's input beside those of the decoder.
  static ValueId input(Graph& body, const char* name, DataType type, size_t rank) {
    Value value;
    value.name = name;
    value.type = type;
    value.has_rank = true;
    value.dims.resize(rank);
    return body.add_value(std::move(value));
  }

  // Runs the decoder from `state` on, `trips` times at most, and ends the search.
  void loop(Graph body, const std::vector<Carried>& carried, int64_t cache_axis, ValueId trips, ValueId go,
            ValueId state, bool sequences, ValueId first_scores) {
    if (!to_.status().ok()) return;
    const ValueId before = input(body, "search", DataType::kInt32, 1);
    body.inputs = {input(body, "iteration", DataType::kInt64, 0), input(body, "go", DataType::kBool, 0)};
    std::vector<ValueId> inputs = {trips, go};
    for (const Carried& one : carried) {
      body.inputs.push_back(one.inner);
      inputs.push_back(one.initial);
    }
    body.inputs.push_back(before);
    inputs.push_back(state);
    std::vector<ValueId> more = step_inputs();
    for (ValueId& id : more) id = captured(body, to_.graph(), id);

    Node named;
    named.op_type = to_.node().op_type;
    named.name = to_.node().name;
    Expansion inner(body, std::move(named));
    const Stepped made = step(inner, body.outputs[0], before, more);
    std::vector<ValueId> outputs = {made.go};
    for (const Carried& one : carried) {
      outputs.push_back(one.next == Next::kTokens      ? next_tokens(inner, one.inner, made, sequences)
                        : one.next == Next::kPositions ? made.positions
                        : one.next == Next::kMask      ? longer_mask(inner, one.inner, made.tokens)
                                                       : picked(inner, one.made, made.rows, cache_axis));
    }
    outputs.push_back(made.state);
    if (wants_scores_) outputs.push_back(made.scores);
    body.outputs = std::move(outputs);
    for (Node& node : inner.nodes()) body.nodes.push_back(std::move(node));
    to_.fail(inner.status());
    const std::vector<ValueId> results = to_.add_loop(std::move(body), std::move(inputs));

    ValueId scores = kNoValue;
    if (wants_scores_) {
      scores = results.back();
      if (first_scores != kNoValue) scores = joined({to_.add("Unsqueeze", {first_scores, to_.constant({0})}), scores});
    }
    to_.add_node(kInternal, "SearchEnd", {results[carried.size()], in(at_.sequences), in(at_.length_penalty), scores},
                 {integer("pad_token_id", pad_)},
                 {to_.out(0) == kNoValue ? to_.new_value() : to_.out(0), to_.out(1), to_.out(2)});
  }

  // input_ids, position_ids, attention_mask, caches -> logits, caches.
  void run_gpt() {
    const Graph& decoder = *decoder_;
    const size_t layers = decoder.outputs.size() - 1;
    if (layers < 1 || decoder.inputs.size() != layers + 3) {
      to_.fail(
          unsupported("The decoder of {} has {} inputs for {} caches; ids, positions and a mask stand before them.",
                      to_.node().op_type, decoder.inputs.size(), layers));
      return;
    }
    const Started started = start(to_.in(0), in(at_.mask));
    ValueId tokens = started.tokens, positions = started.positions, mask = started.mask, state = started.state,
            go = kNoValue, first_scores = kNoValue;
    std::vector<ValueId> caches(layers, empty_cache(decoder.inputs[3], 5, tokens));
    const Graph* const first = to_.attributes().graph("init_decoder");
    if (first != nullptr) {
      std::vector<ValueId> inputs = {tokens, positions, mask};
      inputs.insert(inputs.end(), caches.begin(), caches.end());
      const std::vector<ValueId> outputs = to_.add_body(*first, inputs);
      if (outputs.size() != caches.size() + 1) {
        to_.fail(invalid_argument("The first decoder has {} outputs, not {}.", outputs.size(), caches.size() + 1));
        return;
      }
      const Stepped made = step(to_, outputs[0], state, step_inputs());
      for (size_t i = 0; i < layers; ++i) caches[i] = picked(to_, outputs[i + 1], made.rows, 1);
      mask = longer_mask(to_, mask, made.tokens);
      tokens = made.tokens, positions = made.positions, state = made.state, go = made.go, first_scores = made.scores;
    }
    Graph body = decoder;
    std::vector<Carried> carried = {{body.inputs[0], tokens, Next::kTokens},
                                    {body.inputs[1], positions, Next::kPositions},
                                    {body.inputs[2], mask, Next::kMask}};
    for (size_t i = 0; i < layers; ++i)
      carried.push_back({body.inputs[i + 3], caches[i], Next::kCache, body.outputs[i + 1]});
    const ValueId trips = steps_after(to_.in(0), first != nullptr ? 1 : 0);
    loop(std::move(body), carried, 1, trips, go, state, false, first_scores);
  }

  // The encoder makes the caches of cross attention; an older one also the logits and caches of the first token. The
  // decoder: ids, mask (not Whisper's), hidden states?, its own caches, caches of cross attention -> logits, its own.
  void run_encoder(bool whisper) {
    const Graph& decoder = *decoder_;
    const Graph* const encoder = to_.attributes().graph("encoder");
    const size_t fixed = whisper ? 1 : 2, caches = decoder.outputs.size() - 1;
    const bool hidden =
        decoder.inputs.size() > fixed && decoder.value(decoder.inputs[fixed]).name == "encoder_hidden_states";
    const size_t past = fixed + (hidden ? 1 : 0), own_inputs = whisper ? 1 : 2;
    if (encoder == nullptr || encoder->inputs.size() < own_inputs || encoder->inputs.size() > own_inputs + 1 ||
        decoder.inputs.size() != past + 2 * caches) {
      to_.fail(
          unsupported("{} has {} and a decoder with {} inputs and {} caches.", to_.node().op_type,
                      encoder == nullptr ? "no encoder" : format("an encoder with {} inputs", encoder->inputs.size()),
                      decoder.inputs.size(), caches));
      return;
    }
    if (whisper && in(at_.processor) != kNoValue && !is_zero(in(at_.processor))) {
      to_.fail(unsupported("{} is computed without a logits_processor.", to_.node().op_type));
      return;
    }
    ValueId ids = whisper ? in(at_.forced) : kNoValue;
    if (ids == kNoValue) {
      const int64_t token = to_.attributes().integer("decoder_start_token_id");
      ids = to_.add("Expand", {to_.cast(to_.constant({token}), DataType::kInt32),
                               joined({to_.sizes(to_.in(0), 0, 1), to_.constant({1})})});
    }
    std::vector<ValueId> inputs = {to_.in(0)};
    ValueId mask = in(at_.mask);
    if (!whisper) {
      if (mask == kNoValue) {
        mask = to_.new_value();
        to_.add_node(kInternal, "SearchStart", {to_.in(0), to_.in(1)},
                     {integer("pad_token_id", pad_), integer("left", 1)}, {kNoValue, kNoValue, kNoValue, mask});
      }
      inputs.push_back(mask);
    }
    const bool begun = encoder->inputs.size() == own_inputs + 1;
    if (begun) inputs.push_back(ids);
    const std::vector<ValueId> outputs = to_.add_body(*encoder, inputs);
    const size_t expected = begun ? 2 + 2 * caches : caches;
    if (outputs.size() != expected || (hidden && !begun)) {
      to_.fail(unsupported("The encoder of {} has {} outputs; with {} inputs it has {}.", to_.node().op_type,
                           outputs.size(), inputs.size(), expected));
      return;
    }
    const Started started = start(ids, kNoValue);
    const auto each = [&](ValueId id) { return to_.add("Gather", {id, started.batches}, {integer("axis", 0)}); };
    Graph body = decoder;
    const auto holds = [&](size_t at, ValueId id) { body.captures.emplace_back(each(id), body.inputs[at]); };
    if (!whisper) holds(1, mask);
    if (hidden) holds(fixed, outputs[1]);
    for (size_t i = 0; i < caches; ++i) holds(past + caches + i, outputs[outputs.size() - caches + i]);

    const Value& declared = decoder.value(decoder.inputs[0]);
    const bool sequences = !declared.has_rank || declared.dims.size() != 2 || declared.dims[1].value != 1;
    ValueId tokens = started.tokens, state = started.state, go = kNoValue, first_scores = kNoValue;
    if (begun) {
      const Stepped made = step(to_, each(outputs[0]), state, step_inputs());
      tokens = next_tokens(to_, tokens, made, sequences);
      state = made.state, go = made.go, first_scores = made.scores;
    }
    std::vector<Carried> carried = {{body.inputs[0], tokens, Next::kTokens}};
    for (size_t i = 0; i < caches; ++i) {
      const ValueId initial = begun ? each(outputs[2 + i]) : empty_cache(decoder.inputs[past + i], 4, tokens);
      carried.push_back({body.inputs[past + i], initial, Next::kCache, body.outputs[1 + i]});
    }
    loop(std::move(body), carried, 0, steps_after(ids, begun ? 1 : 0), go, state, sequences, first_scores);
  }

  bool is_zero(ValueId id) const {
    const ConstantRef& constant = to_.value(id).constant;
    return constant != nullptr && constant->type == DataType::kInt32 && constant->size_bytes == sizeof(int32_t) &&
           constant->as<int32_t>()[0] == 0;
  }

  Expansion& to_;
  const Inputs& at_;
  const std::string mode_;
  int64_t pad_ = -1;
  bool wants_scores_ = false;
  const Graph* decoder_ = nullptr;
};

void greedy_search(Expansion& to) { Search(to, kGreedyInputs, "greedy").run(); }

void sampling(Expansion& to) {
  if (to.out(1) != kNoValue) {
    to.fail(unsupported("Sampling without the output \"filtered_logits\" alone is computed."));
    return;
  }
  Search(to, kSamplingInputs, "sample").run();
}

void beam_search(Expansion& to) { Search(to, kBeamInputs, "beams").run(); }

void whisper_search(Expansion& to) {
  if (to.out(3) != kNoValue || to.out(4) != kNoValue ||
      to.attributes().find_integer("decoder_output_cross_qk").value_or(0)) {
    to.fail(
        unsupported("WhisperBeamSearch is computed without products of cross attention and probabilities of silence."));
    return;
  }
  Search(to, kWhisperInputs, "beams").run();
}

constexpr Row kRows[] = {
    {"com.microsoft", "BeamSearch", &beam_search},
    {"com.microsoft", "GreedySearch", &greedy_search},
    {"com.microsoft", "Sampling", &sampling},
    {"com.microsoft", "WhisperBeamSearch", &whisper_search},
};

}  // namespace

std::span<const Row> search_rows() { return kRows; }

}  // namespace tenon::expand
