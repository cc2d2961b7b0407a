// Small operators on ids of tokens and characters: NGramHashMapping and its form for packed batches,
// BifurcationDetector, WordConvEmbedding; and MaxpoolWithMask.
#include <algorithm>
#include <cmath>

#include "ep/cpu/ops/contrib/rows.h"
#include "ep/cpu/ops/reference_kernel.h"
#include "ops/attributes.h"
#include "ops/contrib.h"
#include "ops/pool.h"

namespace tenon::cpu::ref {

namespace {

constexpr std::string_view kDomain = "com.microsoft";

// --- NGramHashMapping ---

using Ids = std::vector<int64_t>;

// The elements of an input of int32 or int64; none where it is absent.
Ids ids_of(const KernelContext& context, size_t index, const TensorSpec& spec) {
  Ids ids(spec.present() ? spec.shape.element_count() : 0);
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = spec.type == DataType::kInt32 ? context.input<int32_t>(index)[i] : context.input<int64_t>(index)[i];
  return ids;
}

void write_id(void* y, DataType type, int64_t at, int64_t id) {
  if (type == DataType::kInt32) {
    static_cast<int32_t*>(y)[at] = static_cast<int32_t>(id);
  } else {
    static_cast<int64_t*>(y)[at] = id;
  }
}

struct NGramHash {
  NGramHashDesc desc;
  std::vector<TensorSpec> specs;  // of the inputs
  bool packed = false;

  // Where the packed form has one input more.
  size_t at(size_t input) const { return packed ? input + 1 : input; }

  Status run(KernelContext& context) const {
    const auto read = [&](size_t input) { return input < specs.size() ? ids_of(context, input, specs[input]) : Ids(); };
    const DataType type = specs[0].type;
    const int64_t before = desc.largest - 1;
    const Ids tokens = read(0), multipliers = read(1), sizes = read(2), past = read(at(3)), offsets = read(at(4)),
              end = read(at(5)), segments = read(at(6)), past_segments = packed ? read(8) : Ids(),
              captures = packed ? read(9) : Ids();
    for (int64_t size : sizes) TENON_INVALID_IF(size < 1, "A head has a vocabulary of {}.", size);
    Ids begins = packed ? read(3) : Ids();
    for (int64_t b = 0; !packed && b <= desc.batch; ++b) begins.push_back(b * desc.length);
    const int64_t missing = end.empty() ? desc.pad : end[0];
    TENON_INVALID_IF(begins.front() != 0 || begins.back() != std::ssize(tokens),
                     "The sequences have the tokens [{}, {}) of {}.", begins.front(), begins.back(), tokens.size());
    for (int64_t b = 0; b < desc.batch; ++b) {
      TENON_INVALID_IF(begins[b] < 0 || begins[b + 1] < begins[b] || begins[b + 1] > std::ssize(tokens),
                       "Sequence {} has the tokens [{}, {}) of {}.", b, begins[b], begins[b + 1], tokens.size());
      // The tokens of one sequence behind those of its past.
      Ids all(before, missing), parts;
      if (!past.empty()) std::copy_n(past.begin() + b * before, before, all.begin());
      all.insert(all.end(), tokens.begin() + begins[b], tokens.begin() + begins[b + 1]);
      if (!segments.empty() && begins[b] < begins[b + 1]) {
        parts.assign(before, segments[begins[b]]);
        if (!past_segments.empty()) std::copy_n(past_segments.begin() + b * before, before, parts.begin());
        parts.insert(parts.end(), segments.begin() + begins[b], segments.begin() + begins[b + 1]);
      }
      int64_t first = 0;  // what lies before it does not count
      for (int64_t i = 1; i < std::ssize(all); ++i) {
        if (desc.resets && !end.empty() && all[i - 1] == end[0]) first = i;
        if (!parts.empty() && parts[i] != parts[i - 1]) first = i;
        if (i >= before) hash(context, all, i, first, missing, multipliers, sizes, offsets, begins[b] + i - before);
      }
      const auto last = [&](const Ids& of, size_t output, int64_t behind, int64_t to) {
        if (output >= context.outputs.size() || context.outputs[output] == nullptr) return;
        for (int64_t i = 0; i < before; ++i)
          write_id(context.outputs[output], output == 2 ? DataType::kInt32 : type, to + i, of[behind - before + i]);
      };
      last(all, 1, std::ssize(all), b * before);
      if (packed && !parts.empty()) last(parts, 2, std::ssize(parts), b * before);
      for (int64_t i = 0; i < desc.captured; ++i) {
        const int64_t row = (b * desc.captured + i) * before;
        if (!captures.empty() && i < captures[b] && before + i < std::ssize(all)) {
          last(all, 3, before + i + 1, row);
        } else if (context.outputs.size() > 3 && context.outputs[3] != nullptr) {
          for (int64_t k = 0; k < before; ++k) write_id(context.outputs[3], type, row + k, desc.pad);
        }
      }
    }
    return {};
  }

  void hash(KernelContext& context, const Ids& all, int64_t i, int64_t first, int64_t missing, const Ids& multipliers,
            const Ids& sizes, const Ids& offsets, int64_t row) const {
    const DataType type = specs[0].type;
    uint64_t mix = 0;
    for (int64_t n = 0; n < desc.largest; ++n) {
      const int64_t id = i - n < first ? missing : all[i - n];
      mix ^= static_cast<uint64_t>(id) * static_cast<uint64_t>(multipliers[n]);
      if (n == 0) continue;
      for (int64_t h = 0; h < desc.heads; ++h) {
        const int64_t head = (n - 1) * desc.heads + h;
        const int64_t narrow = type == DataType::kInt32 ? static_cast<int32_t>(mix) : static_cast<int64_t>(mix);
        int64_t hashed = narrow % sizes[head];
        if (hashed < 0) hashed += sizes[head];
        if (!offsets.empty())
          hashed = static_cast<int64_t>(static_cast<uint64_t>(hashed) + static_cast<uint64_t>(offsets[head]));
        write_id(context.outputs[0], type, row * (desc.largest - 1) * desc.heads + head, hashed);
      }
    }
  }
};

Result<RefImpl> make_ngram_hash(RefNode& node) {
  NGramHash hash;
  hash.packed = node.node->op_type == "VarlenNGramHashMapping";
  TENON_TRY(require_inputs(node, hash.packed ? 4 : 3));
  std::vector<Shape> shapes;
  for (const TensorSpec& spec : node.inputs) {
    TENON_INVALID_IF(spec.present() && spec.type != DataType::kInt32 && spec.type != DataType::kInt64,
                     "{} has an input of {}.", node.node->op_type, data_type_name(spec.type));
    shapes.push_back(spec.shape);
  }
  TENON_TRY_ASSIGN(hash.desc, read_ngram_hash(*node.node, shapes));
  for (size_t i = 0; i < node.outputs.size() && i < hash.desc.outputs.size(); ++i)
    if (node.outputs[i].present()) TENON_TRY(require_output(node, i, hash.desc.outputs[i]));
  hash.specs.assign(node.inputs.begin(), node.inputs.end());
  RefImpl impl;
  impl.run = [hash = std::move(hash)](KernelContext& context) { return hash.run(context); };
  return impl;
}

// --- BifurcationDetector ---

// The last `size` elements of `tokens` in `source`, from `first` on; the length of `source` where they are not there.
int64_t find_last(std::span<const int64_t> source, int64_t first, std::span<const int64_t> tokens, int64_t size) {
  const auto suffix = tokens.last(size);
  return std::search(source.begin() + first, source.end(), suffix.begin(), suffix.end()) - source.begin();
}

Result<RefImpl> make_bifurcation(RefNode& node) {
  TENON_TRY(require_inputs(node, 3));
  std::vector<int64_t> counts;
  for (const TensorSpec& spec : node.inputs) {
    TENON_INVALID_IF(spec.present() && (spec.type != DataType::kInt64 || spec.shape.rank() > 1),
                     "BifurcationDetector takes rows of int64, not {}{}.", data_type_name(spec.type),
                     spec.shape.to_string());
    counts.push_back(spec.present() ? spec.shape.element_count() : -1);
  }
  counts.resize(4, -1);
  const Attributes attributes(*node.node);
  const int64_t least = attributes.integer("min_ngram_size"), most = attributes.integer("max_ngram_size");
  TENON_INVALID_IF(least < 1 || most < least || counts[2] != 1,
                   "BifurcationDetector has sizes from {} to {}, and {} indices.", least, most, counts[2]);
  RefImpl impl;
  impl.run = [counts, least, most, spec = output_spec(node, 0),
              found = output_spec(node, 1)](KernelContext& context) -> Status {
    const std::span source(context.input<int64_t>(0), static_cast<size_t>(counts[0]));
    std::vector<int64_t> tokens(context.input<int64_t>(1), context.input<int64_t>(1) + counts[1]);
    if (counts[3] >= 0) {
      const int64_t from = *context.input<int64_t>(2);
      TENON_INVALID_IF(from < 0 || from > counts[0] || counts[3] != counts[0] + 1 - from,
                       "{} predicted tokens do not follow index {} of {} tokens.", counts[3], from, counts[0]);
      const auto* const predicted = context.input<int64_t>(3);
      int64_t same = 0;
      while (from + same < counts[0] && predicted[same] == source[from + same]) ++same;
      tokens.insert(tokens.end(), predicted, predicted + same + 1);
    }
    TENON_TRY_ASSIGN(void* const memory, open_output(context, spec, 0, Shape{std::ssize(tokens)}));
    std::ranges::copy(tokens, static_cast<int64_t*>(memory));
    int64_t index = -1;
    for (int64_t size = least; size <= most && size <= std::ssize(tokens); ++size) {
      const int64_t at = find_last(source, 0, tokens, size);
      if (at == counts[0]) break;
      index = at + size;
      if (index >= counts[0]) break;
      if (find_last(source, at + 1, tokens, size) != counts[0]) index = -1;
    }
    TENON_TRY_ASSIGN(void* const result, open_output(context, found, 1, found.shape));
    *static_cast<int64_t*>(result) = index;
    return {};
  };
  return impl;
}

// --- WordConvEmbedding ---

Result<RefImpl> make_word_conv(RefNode& node) {
  TENON_TRY(require_inputs(node, 4));
  TENON_TRY_ASSIGN(const WordConvDesc desc, read_word_conv(*node.node, node.inputs[0].shape, node.inputs[1].shape,
                                                           node.inputs[2].shape, node.inputs[3].shape));
  TENON_INVALID_IF(node.inputs[0].type != DataType::kInt32 || node.inputs[1].type != DataType::kFloat,
                   "WordConvEmbedding has characters of {} and weights of {}.", data_type_name(node.inputs[0].type),
                   data_type_name(node.inputs[1].type));
  TENON_TRY(require_output(node, 0, Shape{desc.words, desc.filters}));
  RefImpl impl;
  impl.run = [desc](KernelContext& context) -> Status {
    const auto *const weights = context.input<float>(1), *const bias = context.input<float>(2),
                      *const table = context.input<float>(3);
    for (int64_t w = 0; w < desc.words; ++w) {
      const int32_t* const word = context.input<int32_t>(0) + w * desc.length;
      float* const y = context.output<float>(0) + w * desc.filters;
      // A word that begins with 0 has no characters.
      const int64_t count = word[0] > 0 ? std::count_if(word, word + desc.length, [](int32_t c) { return c > 0; }) : 0;
      std::fill_n(y, desc.filters, count == 0 ? 0.0F : -1.0F);
      if (count == 0) continue;
      const int64_t taken = std::max(count, desc.width);
      for (int64_t i = 0; i < taken; ++i)
        TENON_INVALID_IF(word[i] < 0 || word[i] >= desc.characters, "Character {} of word {} is not in [0, {}).",
                         word[i], w, desc.characters);
      for (int64_t at = 0; at + desc.width <= taken; ++at) {
        for (int64_t f = 0; f < desc.filters; ++f) {
          float sum = bias[f];
          for (int64_t k = 0; k < desc.width; ++k)
            for (int64_t d = 0; d < desc.depth; ++d)
              sum += table[word[at + k] * desc.depth + d] * weights[(f * desc.width + k) * desc.depth + d];
          y[f] = std::max(y[f], std::tanh(sum));
        }
      }
    }
    return {};
  };
  return impl;
}

// --- MaxpoolWithMask ---

// The largest element of each window; along its last axis a window ends at the first element that is masked.
Result<RefImpl> make_masked_pool(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  const Shape &x = node.inputs[0].shape, &mask = node.inputs[1].shape;
  TENON_TRY_ASSIGN(const PoolDesc pool, read_pool(*node.node, x));
  Shape wanted = x;
  if (x.rank() >= 3) wanted[0] = wanted[1] = 1;
  TENON_INVALID_IF(node.inputs[0].type != DataType::kFloat || node.inputs[1].type != DataType::kInt32 ||
                       mask != wanted || pool.spatial() > 3,
                   "MaxpoolWithMask takes a mask of int32{} for float32{}, not {}{}.", wanted.to_string(),
                   x.to_string(), data_type_name(node.inputs[1].type), mask.to_string());
  TENON_TRY(require_output(node, 0, pool.output()));
  RefImpl impl;
  impl.run = [pool](KernelContext& context) -> Status {
    std::array<WindowAxis, 3> axes;
    for (int i = 0; i < pool.spatial(); ++i) axes[3 - pool.spatial() + i] = pool.axis(i);
    const auto* const allowed = context.input<int32_t>(1);
    const int64_t in = pool.window.in_count();
    float* y = context.output<float>(0);
    const auto range = [&](int axis, int64_t o) {
      const WindowAxis& a = axes[axis];
      const int64_t begin = o * a.stride - a.pad_begin;
      return std::pair(std::max<int64_t>(begin, 0), std::min(begin + a.kernel, a.in));
    };
    for (int64_t plane = 0; plane < pool.batch * pool.channels; ++plane) {
      const float* const x = context.input<float>(0) + plane * in;
      for (int64_t o = 0; o < pool.window.out_count(); ++o) {
        const auto [h0, h1] = range(0, o / axes[2].out / axes[1].out);
        const auto [w0, w1] = range(1, o / axes[2].out % axes[1].out);
        const auto [d0, d1] = range(2, o % axes[2].out);
        float largest = std::numeric_limits<float>::lowest();
        for (int64_t h = h0; h < h1; ++h) {
          for (int64_t w = w0; w < w1; ++w) {
            for (int64_t d = d0; d < d1; ++d) {
              const int64_t i = (h * axes[1].in + w) * axes[2].in + d;
              // In images the first element counts whatever its mask, as in ONNX Runtime.
              if (allowed[i] == 0 && (i > 0 || pool.spatial() == 1)) break;
              largest = std::max(largest, x[i]);
            }
          }
        }
        *y++ = largest;
      }
    }
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<~TypeSet{0}, &make_bifurcation>("BifurcationDetector", 1, kAnyVersion, kDomain),
    ref_row<~TypeSet{0}, &make_masked_pool>("MaxpoolWithMask", 1, kAnyVersion, kDomain),
    ref_row<~TypeSet{0}, &make_ngram_hash>("NGramHashMapping", 1, kAnyVersion, kDomain),
    ref_row<~TypeSet{0}, &make_ngram_hash>("VarlenNGramHashMapping", 1, kAnyVersion, kDomain),
    ref_row<~TypeSet{0}, &make_word_conv>("WordConvEmbedding", 1, kAnyVersion, kDomain),
};

}  // namespace

std::span<const KernelEntry> token_rows() { return kRows; }

}  // namespace tenon::cpu::ref
