// TfIdfVectorizer: counts the n-grams of each row that its pool has.
#include <algorithm>
#include <array>
#include <utility>

#include "ep/cpu/ops/gather/indices.h"
#include "ep/cpu/ops/ml/places.h"
#include "ep/cpu/ops/sequence/objects.h"
#include "ops/ml.h"
#include "ops/text.h"

namespace tenon::cpu::ref {

namespace {

// The n-grams as a tree by elements: a way through it of n steps is an n-gram. Steps from the root are looked up by the
// word, the others in a table with open addressing: a row takes a step or two for each of its elements.
class GramTree {
 public:
  static constexpr int32_t kNone = -1;

  explicit GramTree(size_t words) : first_(words, kNone), grams_(1, kNone) {}
  void add(std::span<const int32_t> words, int32_t gram) {
    int32_t at = 0;
    for (int32_t word : words) {
      int32_t next = step(at, word);
      if (next == kNone) {
        next = static_cast<int32_t>(grams_.size());
        grams_.push_back(kNone);
        link(at, word, next);
      }
      at = next;
    }
    grams_[at] = gram;
  }
  // `word` may be kNone, which no step has.
  int32_t step(int32_t at, int32_t word) const {
    if (word == kNone) return kNone;
    if (at == 0) return first_[word];
    if (steps_.empty()) return kNone;
    return steps_[slot_of(at, word)].next;
  }
  int32_t gram(int32_t at) const { return grams_[at]; }

 private:
  struct Step {
    int32_t at = kNone, word = kNone, next = kNone;
  };

  // The place of the step, or the free one where it would be.
  size_t slot_of(int32_t at, int32_t word) const {
    const uint64_t key = static_cast<uint64_t>(static_cast<uint32_t>(at)) << 32 | static_cast<uint32_t>(word);
    const size_t mask = steps_.size() - 1;
    size_t slot = (key * 0x9E3779B97F4A7C15u) >> 32 & mask;
    while (steps_[slot].next != kNone && (steps_[slot].at != at || steps_[slot].word != word)) slot = (slot + 1) & mask;
    return slot;
  }
  void link(int32_t at, int32_t word, int32_t next) {
    if (at == 0) {
      first_[word] = next;
      return;
    }
    if (++used_ * 2 > steps_.size()) {
      const std::vector<Step> before =
          std::exchange(steps_, std::vector<Step>(std::max<size_t>(16, steps_.size() * 2)));
      for (const Step& step : before)
        if (step.next != kNone) steps_[slot_of(step.at, step.word)] = step;
    }
    steps_[slot_of(at, word)] = {at, word, next};
  }

  std::vector<int32_t> first_;  // by the word
  std::vector<Step> steps_;     // a power of two, at most half of them used
  size_t used_ = 0;
  std::vector<int32_t> grams_;
};

// Words as numbers: their first places in the pool, GramTree::kNone for others.
class Vocabulary {
 public:
  explicit Vocabulary(const TfIdfDesc& desc)
      : texts_(desc.pool_strings, SameKeys::kFirst),
        integers_(std::vector<uint64_t>(desc.pool_integers.begin(), desc.pool_integers.end()), SameKeys::kFirst) {
    for (size_t byte = 0; byte < bytes_.size(); ++byte) {
      const auto character = static_cast<char>(byte);
      bytes_[byte] = static_cast<int32_t>(texts_.find(std::string_view(&character, 1)));
    }
  }
  // Where each character is a word, most have one byte, which needs no hash.
  int32_t find(std::string_view word) const {
    if (word.size() == 1) return bytes_[static_cast<unsigned char>(word[0])];
    return static_cast<int32_t>(texts_.find(word));
  }
  int32_t find(int64_t word) const {
    const auto key = static_cast<uint64_t>(word);
    int64_t place = 0;
    integers_.find(&key, 1, &place);
    return static_cast<int32_t>(place);
  }

 private:
  TextPlaces texts_;
  NumberPlaces integers_;
  std::array<int32_t, 256> bytes_{};
};

struct Counter {
  TfIdfDesc desc;
  Vocabulary words;
  GramTree tree;

  explicit Counter(TfIdfDesc given)
      : desc(std::move(given)), words(desc), tree(desc.pool_strings.size() + desc.pool_integers.size()) {
    std::vector<int32_t> pool;
    pool.reserve(desc.pool_strings.size() + desc.pool_integers.size());
    for (const std::string& word : desc.pool_strings) pool.push_back(words.find(word));
    for (int64_t word : desc.pool_integers) pool.push_back(words.find(word));
    for (size_t g = 0; g < desc.grams.size(); ++g) {
      const TfIdfDesc::NGram& gram = desc.grams[g];
      tree.add(std::span(pool).subspan(gram.first, gram.length), static_cast<int32_t>(g));
    }
  }

  // Adds what `row` has to `y`, one a column. N-grams may share a column: as in ONNX Runtime each brings its own
  // weight, and of mode IDF the last one counts.
  void count(std::span<const int32_t> row, float* y) const {
    const auto length = static_cast<int64_t>(row.size());
    for (int64_t distance = 1; distance <= desc.max_skip + 1; ++distance) {
      // N-grams of one element skip none, so they are counted once.
      for (int64_t begin = 0; begin < length; ++begin) {
        int32_t at = 0;
        for (int64_t n = 1; n <= desc.max_length; ++n) {
          const int64_t place = begin + (n - 1) * distance;
          if (place >= length) break;
          at = tree.step(at, row[place]);
          if (at == GramTree::kNone) break;
          if (n < desc.min_length || (n == 1 && distance > 1) || tree.gram(at) == GramTree::kNone) continue;
          const TfIdfDesc::NGram& gram = desc.grams[tree.gram(at)];
          if (desc.mode == TfIdfDesc::Mode::kIdf) {
            y[gram.column] = gram.weight;
          } else {
            y[gram.column] += desc.mode == TfIdfDesc::Mode::kTf ? 1 : gram.weight;
          }
        }
      }
      if (desc.max_length == 1) return;
    }
  }
};

Result<RefImpl> make_tf_idf(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY_ASSIGN(TfIdfDesc desc, read_tf_idf(*node.node));
  const TensorSpec& x = node.inputs[0];
  FeatureRows rows{.rows = 1, .features = 1};
  if (x.shape.rank() > 0) {
    TENON_TRY_ASSIGN(rows, feature_rows(*node.node, x.shape));
  }
  TENON_INVALID_IF((x.type == DataType::kString) != desc.pool_integers.empty(),
                   "TfIdfVectorizer of {} has a pool of {}.", data_type_name(x.type),
                   desc.pool_integers.empty() ? "strings" : "integers");
  TENON_TRY(require_output(node, 0, x.shape.rank() == 2 ? Shape{rows.rows, desc.columns} : Shape{desc.columns}));
  IndexReader read = nullptr;
  if (x.type != DataType::kString) {
    TENON_TRY_ASSIGN(read, index_reader(node, 0));
  }
  RefImpl impl;
  impl.run = [rows, read, counter = Counter(std::move(desc))](KernelContext& context) -> Status {
    const int64_t columns = counter.desc.columns;
    context.pool->parallel_for(
        rows.rows, std::max<int64_t>(1, 1024 / std::max<int64_t>(1, rows.features)), [&](int64_t begin, int64_t end) {
          std::vector<int32_t> row(rows.features);
          for (int64_t r = begin; r < end; ++r) {
            for (int64_t i = 0; i < rows.features; ++i) {
              const int64_t at = r * rows.features + i;
              row[i] = read == nullptr ? counter.words.find(text_of(context.input<TextAddress>(0)[at]))
                                       : counter.words.find(read(context.inputs[0], at));
            }
            float* const y = context.output<float>(0) + r * columns;
            std::fill_n(y, columns, 0.0f);
            counter.count(row, y);
          }
        });
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row < type_set(IndexTypes()) | kStringSet,
    &make_tf_idf > ("TfIdfVectorizer", 9),
};

}  // namespace

std::span<const KernelEntry> ref_text_vector_rows() { return kRows; }

}  // namespace tenon::cpu::ref
