// TfIdfVectorizer: counts the n-grams of each row that its pool has.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "ep/cpu/ops/gather/indices.h"
#include "ep/cpu/ops/sequence/objects.h"
#include "ops/ml.h"
#include "ops/text.h"

namespace tenon::cpu::ref {

namespace {

// The n-grams as a tree by elements: a way through it of n steps is an n-gram.
class GramTree {
 public:
  static constexpr int32_t kNone = -1;

  GramTree() : grams_(1, kNone) {}
  void add(std::span<const int32_t> words, int32_t gram) {
    int32_t at = 0;
    for (int32_t word : words) {
      const auto [found, is_new] = next_.emplace(key(at, word), static_cast<int32_t>(grams_.size()));
      if (is_new) grams_.push_back(kNone);
      at = found->second;
    }
    grams_[at] = gram;
  }
  int32_t step(int32_t at, int32_t word) const {
    const auto found = next_.find(key(at, word));
    return found == next_.end() ? kNone : found->second;
  }
  int32_t gram(int32_t at) const { return grams_[at]; }

 private:
  static uint64_t key(int32_t at, int32_t word) {
    return static_cast<uint64_t>(static_cast<uint32_t>(at)) << 32 | static_cast<uint32_t>(word);
  }
  std::unordered_map<uint64_t, int32_t> next_;
  std::vector<int32_t> grams_;
};

// Words as numbers: those of the pool, -1 for others.
struct Vocabulary {
  std::unordered_map<std::string, int32_t> strings;
  std::unordered_map<int64_t, int32_t> integers;

  template <typename Map, typename Word>
  static int32_t find(const Map& map, const Word& word) {
    const auto found = map.find(word);
    return found == map.end() ? -1 : found->second;
  }
};

struct Counter {
  TfIdfDesc desc;
  Vocabulary words;
  GramTree tree;

  explicit Counter(TfIdfDesc given) : desc(std::move(given)) {
    std::vector<int32_t> pool;
    for (const std::string& word : desc.pool_strings)
      pool.push_back(words.strings.emplace(word, static_cast<int32_t>(words.strings.size())).first->second);
    for (int64_t word : desc.pool_integers)
      pool.push_back(words.integers.emplace(word, static_cast<int32_t>(words.integers.size())).first->second);
    for (size_t g = 0; g < desc.grams.size(); ++g) {
      const TfIdfDesc::NGram& gram = desc.grams[g];
      tree.add(std::span(pool).subspan(gram.first, gram.length), static_cast<int32_t>(g));
    }
  }

  // Adds what `row` has to `counts`, one a column.
  void count(std::span<const int32_t> row, float* counts) const {
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
          counts[desc.grams[tree.gram(at)].column] += 1;
        }
      }
      if (desc.max_length == 1) return;
    }
  }

  void weigh(float* counts) const {
    if (desc.mode == TfIdfDesc::Mode::kTf) return;
    std::vector<float> weights(desc.columns, 1.0f);
    for (const TfIdfDesc::NGram& gram : desc.grams) weights[gram.column] = gram.weight;
    for (int64_t c = 0; c < desc.columns; ++c) {
      if (counts[c] > 0) counts[c] = desc.mode == TfIdfDesc::Mode::kIdf ? weights[c] : counts[c] * weights[c];
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
              row[i] = read == nullptr ? Vocabulary::find(counter.words.strings,
                                                          std::string(text_of(context.input<TextAddress>(0)[at])))
                                       : Vocabulary::find(counter.words.integers, read(context.inputs[0], at));
            }
            float* counts = context.output<float>(0) + r * columns;
            std::fill(counts, counts + columns, 0.0f);
            counter.count(row, counts);
            counter.weigh(counts);
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
