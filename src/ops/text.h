// Operators on strings: StringConcat, StringSplit, StringNormalizer, RegexFullMatch and TfIdfVectorizer of ONNX
// (opsets 9 to 28).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/types.h>

#include "base/status.h"
#include "graph/graph.h"

namespace tenon {

struct StringSplitDesc {
  std::string delimiter;  // empty: parts are between blanks, and none is empty
  int64_t most_splits = INT64_MAX;
};
StringSplitDesc read_string_split(const Node& node);
// Adds the parts of `text`, which they are views of, to `parts`.
void split_text(std::string_view text, const StringSplitDesc& desc, std::vector<std::string_view>& parts);

enum class CaseChange : uint8_t { kNone, kLower, kUpper };
struct StringNormalizerDesc {
  CaseChange change = CaseChange::kNone;
  bool case_sensitive = false;
  std::vector<std::string> stopwords;
};
// Errors: a case_change_action that there is not.
Result<StringNormalizerDesc> read_string_normalizer(const Node& node);

// TfIdfVectorizer: what is counted is an n-gram of the pool, and where.
struct TfIdfDesc {
  enum class Mode : uint8_t { kTf, kIdf, kTfIdf };
  Mode mode = Mode::kTf;
  int64_t min_length = 1, max_length = 1, max_skip = 0;
  int64_t columns = 0;
  struct NGram {
    size_t first = 0;  // in the pool
    size_t length = 1;
    int64_t column = 0;
    float weight = 1;
  };
  std::vector<NGram> grams;
  std::vector<int64_t> pool_integers;  // one of both
  std::vector<std::string> pool_strings;
};
// Errors: counts that do not increase or leave the pool, numbers of indexes or weights that are not those of the
// n-grams, negative indexes, a pool of both kinds, lengths out of order, an unknown mode.
Result<TfIdfDesc> read_tf_idf(const Node& node);

}  // namespace tenon
