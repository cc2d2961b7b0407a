// StringConcat, StringNormalizer, RegexFullMatch, and Equal of strings.
#include <algorithm>
#include <string>
#include <utility>

#include "ep/cpu/ops/sequence/objects.h"
#include "ep/cpu/ops/text/case_change.h"
#include "ep/cpu/ops/text/cast.h"
#include "ep/cpu/ops/text/regex.h"
#include "ep/cpu/ops/text/split.h"
#include "ep/cpu/ops/text/write.h"
#include "ops/attributes.h"
#include "ops/text.h"

namespace tenon::cpu::ref {

namespace {

// Elements that a thread takes at once.
constexpr int64_t kGrain = 1024;

// Two inputs that broadcast.
struct Pairs {
  Shape out;
  Walk walk;
};
Result<Pairs> pairs_of(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  TENON_INVALID_IF(node.inputs[0].type != DataType::kString || node.inputs[1].type != DataType::kString,
                   "{} takes strings, not {} and {}.", node.node->op_type, data_type_name(node.inputs[0].type),
                   data_type_name(node.inputs[1].type));
  Pairs pairs;
  TENON_TRY_ASSIGN(pairs.out, broadcast_shape(node.inputs[0].shape, node.inputs[1].shape));
  TENON_TRY(require_output(node, 0, pairs.out));
  TENON_TRY_ASSIGN(const Strides a, broadcast_strides(node.inputs[0].shape, pairs.out));
  TENON_TRY_ASSIGN(const Strides b, broadcast_strides(node.inputs[1].shape, pairs.out));
  pairs.walk = make_walk(pairs.out, {a, b, dense_strides(pairs.out)});
  return pairs;
}

// body(a, b, index of the output)
template <typename Body>
void each_pair(const Walk& walk, const KernelContext& context, const Body& body) {
  const auto* a = context.input<TextAddress>(0);
  const auto* b = context.input<TextAddress>(1);
  walk.run([&](const auto& at) {
    for (int64_t i = 0; i < walk.inner; ++i) {
      body(text_of(a[at[0] + i * walk.inner_strides[0]]), text_of(b[at[1] + i * walk.inner_strides[1]]),
           at[2] + i * walk.inner_strides[2]);
    }
    return true;
  });
}

Result<RefImpl> make_concat(RefNode& node) {
  TENON_TRY_ASSIGN(const Pairs pairs, pairs_of(node));
  RefImpl impl;
  impl.run = [pairs](KernelContext& context) -> Status {
    TENON_TRY_ASSIGN(RunObjects * objects, run_objects(context));
    const std::span<std::string> texts = objects->add_texts(pairs.out.element_count());
    auto* y = context.output<TextAddress>(0);
    if (texts.empty()) return {};
    each_pair(pairs.walk, context, [&](std::string_view a, std::string_view b, int64_t i) {
      join_texts(a, b, texts[i]);
      y[i] = &texts[i];
    });
    return {};
  };
  return impl;
}

Result<RefImpl> make_equal(RefNode& node) {
  TENON_TRY_ASSIGN(const Pairs pairs, pairs_of(node));
  RefImpl impl;
  impl.run = [pairs](KernelContext& context) -> Status {
    auto* y = context.output<uint8_t>(0);
    if (pairs.out.element_count() == 0) return {};
    each_pair(pairs.walk, context, [&](std::string_view a, std::string_view b, int64_t i) { y[i] = a == b ? 1 : 0; });
    return {};
  };
  return impl;
}

Result<RefImpl> make_normalizer(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY_ASSIGN(StringNormalizerDesc desc, read_string_normalizer(*node.node));
  const Shape& x = node.inputs[0].shape;
  TENON_INVALID_IF(x.rank() != 1 && !(x.rank() == 2 && x[0] == 1), "StringNormalizer takes [C] or [1,C], not {}.",
                   x.to_string());
  // Without regard to case, words are compared as they are given out, or in lower case if that leaves them alone.
  const CaseChange compared = desc.case_sensitive                 ? CaseChange::kNone
                              : desc.change == CaseChange::kUpper ? CaseChange::kUpper
                                                                  : CaseChange::kLower;
  for (std::string& word : desc.stopwords) change_case(std::string(word), compared, word);
  std::sort(desc.stopwords.begin(), desc.stopwords.end());
  RefImpl impl;
  impl.run = [x, desc = std::move(desc), compared, spec = output_spec(node, 0)](KernelContext& context) -> Status {
    TENON_TRY_ASSIGN(RunObjects * objects, run_objects(context));
    const auto* texts = context.input<TextAddress>(0);
    const int64_t count = x.element_count();
    const std::span<std::string> made = objects->add_texts(std::max<int64_t>(1, count));
    int64_t kept = 0;
    std::string word;
    for (int64_t i = 0; i < count; ++i) {
      const std::string_view text = text_of(texts[i]);
      if (!desc.stopwords.empty()) {
        change_case(text, compared, word);
        if (std::binary_search(desc.stopwords.begin(), desc.stopwords.end(), word)) continue;
      }
      change_case(text, desc.change, made[kept++]);
    }
    if (kept == 0) kept = 1;  // one empty string stands for none
    Shape shape = x;
    shape[x.rank() - 1] = kept;
    TENON_TRY_ASSIGN(void* const y, open_output(context, spec, 0, shape));
    for (int64_t i = 0; i < kept; ++i) static_cast<TextAddress*>(y)[i] = &made[i];
    return {};
  };
  return impl;
}

Result<RefImpl> make_full_match(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  TENON_TRY_ASSIGN(const Regex regex, Regex::parse(Attributes(*node.node).find_text("pattern").value_or("")));
  RefImpl impl;
  impl.run = [regex, count = node.inputs[0].shape.element_count()](KernelContext& context) -> Status {
    const auto* texts = context.input<TextAddress>(0);
    auto* y = context.output<uint8_t>(0);
    context.pool->parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = regex.full_match(text_of(texts[i])) ? 1 : 0;
    });
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<kStringSet, &make_concat>("StringConcat", 20),
    ref_row<kStringSet, &make_string_split>("StringSplit", 20),
    ref_row<kStringSet, &make_normalizer>("StringNormalizer", 10),
    ref_row<kStringSet, &make_full_match>("RegexFullMatch", 20),
    ref_row<kStringSet, &make_equal>("Equal", 19),
    {"", "Cast", 9, kAnyVersion, "ref", &match_string_cast, &create_packed_ref<&make_string_cast>},
    {"", "CastLike", 15, kAnyVersion, "ref", &match_string_cast, &create_packed_ref<&make_string_cast>},
};

}  // namespace

std::span<const KernelEntry> ref_text_rows() { return kRows; }

}  // namespace tenon::cpu::ref
