#include "ops/text.h"

#include <algorithm>

#include "ops/attributes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

StringSplitDesc read_string_split(const Node& node) {
  const Attributes attributes(node);
  return {.delimiter = std::string(attributes.find_text("delimiter").value_or("")),
          .most_splits = attributes.find_integer("maxsplit").value_or(INT64_MAX)};
}

Result<StringNormalizerDesc> read_string_normalizer(const Node& node) {
  const Attributes attributes(node);
  StringNormalizerDesc desc{.case_sensitive = attributes.flag("is_case_sensitive")};
  const std::string_view change = attributes.text("case_change_action");
  if (change == "LOWER") {
    desc.change = CaseChange::kLower;
  } else if (change == "UPPER") {
    desc.change = CaseChange::kUpper;
  } else {
    TENON_INVALID_IF(change != "NONE", "StringNormalizer has the unknown case_change_action \"{}\".", change);
  }
  const std::span<const std::string> words = attributes.texts("stopwords");
  desc.stopwords.assign(words.begin(), words.end());
  return desc;
}

Result<TfIdfDesc> read_tf_idf(const Node& node) {
  const Attributes attributes(node);
  TfIdfDesc desc;
  const std::string_view mode = attributes.find_text("mode").value_or("");
  TENON_INVALID_IF(mode != "TF" && mode != "IDF" && mode != "TFIDF", "TfIdfVectorizer has the unknown mode \"{}\".",
                   mode);
  desc.mode = mode == "TF" ? TfIdfDesc::Mode::kTf : mode == "IDF" ? TfIdfDesc::Mode::kIdf : TfIdfDesc::Mode::kTfIdf;
  desc.min_length = attributes.find_integer("min_gram_length").value_or(0);
  desc.max_length = attributes.find_integer("max_gram_length").value_or(0);
  desc.max_skip = attributes.find_integer("max_skip_count").value_or(0);
  TENON_INVALID_IF(desc.min_length < 1 || desc.max_length < desc.min_length || desc.max_skip < 0,
                   "TfIdfVectorizer has n-grams of {} to {} elements with {} skips.", desc.min_length, desc.max_length,
                   desc.max_skip);
  const std::span<const int64_t> integers = attributes.integers("pool_int64s");
  const std::span<const std::string> strings = attributes.texts("pool_strings");
  TENON_INVALID_IF(integers.empty() == strings.empty(),
                   "TfIdfVectorizer needs one of pool_int64s ({} entries) and pool_strings ({}).", integers.size(),
                   strings.size());
  desc.pool_integers.assign(integers.begin(), integers.end());
  desc.pool_strings.assign(strings.begin(), strings.end());
  const size_t pool = integers.size() + strings.size();
  const std::span<const int64_t> counts = attributes.integers("ngram_counts");
  const std::span<const int64_t> indexes = attributes.integers("ngram_indexes");
  const std::span<const float> weights = attributes.numbers("weights");
  for (size_t n = 0; n < counts.size(); ++n) {
    const int64_t begin = counts[n];
    const int64_t end = n + 1 < counts.size() ? counts[n + 1] : static_cast<int64_t>(pool);
    const auto length = static_cast<int64_t>(n) + 1;
    TENON_INVALID_IF(begin < 0 || end < begin || end > static_cast<int64_t>(pool) || (end - begin) % length != 0,
                     "The n-grams of {} elements are entries {} to {} of a pool of {}.", length, begin, end, pool);
    for (int64_t at = begin; at < end; at += length) {
      const size_t number = desc.grams.size();
      TENON_INVALID_IF(number >= indexes.size(), "TfIdfVectorizer has {} indexes, fewer than n-grams.", indexes.size());
      TENON_INVALID_IF(indexes[number] < 0 || indexes[number] == INT64_MAX, "Index {} of n-gram {} is no column.",
                       indexes[number], number);
      TENON_INVALID_IF(!weights.empty() && number >= weights.size(),
                       "TfIdfVectorizer has {} weights, fewer than n-grams.", weights.size());
      desc.grams.push_back({.first = static_cast<size_t>(at),
                            .length = static_cast<size_t>(length),
                            .column = indexes[number],
                            .weight = weights.empty() ? 1.0f : weights[number]});
    }
  }
  TENON_INVALID_IF(desc.grams.size() != indexes.size(), "TfIdfVectorizer has {} n-grams and {} indexes.",
                   desc.grams.size(), indexes.size());
  for (int64_t index : indexes) desc.columns = std::max(desc.columns, index + 1);
  return desc;
}

namespace infer {
namespace {

Status infer_concat(Context& c) {
  c.set_type(0, DataType::kString);
  if (!c.ranked(0) || !c.ranked(1)) return {};
  TENON_TRY_ASSIGN(Dims dims, broadcast(c.dims(0), c.dims(1)));
  return c.set_dims(0, std::move(dims));
}

Status infer_match(Context& c) {
  c.set_type(0, DataType::kBool);
  return c.ranked(0) ? c.set_dims(0, c.dims(0)) : Status();
}

Status infer_split(Context& c) {
  c.set_type(0, DataType::kString);
  c.set_type(1, DataType::kInt64);
  if (!c.ranked(0)) return {};
  Dims parts = c.dims(0);
  parts.emplace_back();
  TENON_TRY(c.set_dims(1, c.dims(0)));
  return c.set_dims(0, std::move(parts));
}

Status infer_normalizer(Context& c) {
  c.set_type(0, DataType::kString);
  TENON_TRY(read_string_normalizer(c.node()).status());
  if (!c.ranked(0)) return {};
  TENON_INVALID_IF(c.rank(0) != 1 && !(c.rank(0) == 2 && (!c.dims(0)[0].known() || c.dims(0)[0].value == 1)),
                   "StringNormalizer takes [C] or [1,C], not {}.", text(c.dims(0)));
  // Without words that go, all stay.
  if (Attributes(c.node()).texts("stopwords").empty() && c.dims(0).back().known() && c.dims(0).back().value > 0)
    return c.set_dims(0, c.dims(0));
  Dims out(c.rank(0));
  if (c.rank(0) == 2) out[0] = number(1);
  return c.set_dims(0, std::move(out));
}

Status infer_tf_idf(Context& c) {
  c.set_type(0, DataType::kFloat);
  if (!c.ranked(0)) return {};
  TENON_INVALID_IF(c.rank(0) > 2, "TfIdfVectorizer takes [C] or [N,C], not {}.", text(c.dims(0)));
  TENON_TRY_ASSIGN(const TfIdfDesc desc, read_tf_idf(c.node()));
  Dims out;
  if (c.rank(0) == 2) out.push_back(c.dims(0)[0]);
  out.push_back(number(desc.columns));
  return c.set_dims(0, std::move(out));
}

constexpr Row kRows[] = {
    {"RegexFullMatch", &infer_match}, {"StringConcat", &infer_concat},    {"StringNormalizer", &infer_normalizer},
    {"StringSplit", &infer_split},    {"TfIdfVectorizer", &infer_tf_idf},
};

}  // namespace

std::span<const Row> text_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
