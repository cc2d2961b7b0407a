// StringConcat, StringSplit, StringNormalizer, RegexFullMatch, and Equal of strings.
#include <algorithm>
#include <string>
#include <utility>

#include "ep/cpu/ops/sequence/objects.h"
#include "ep/cpu/ops/text/case_change.h"
#include "ep/cpu/ops/text/cast.h"
#include "ep/cpu/ops/text/regex.h"
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
      texts[i].reserve(a.size() + b.size());
      texts[i].append(a).append(b);
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

Result<RefImpl> make_split(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& x = node.inputs[0].shape;
  TENON_UNSUPPORTED_IF(x.rank() >= Shape::kMaxRank, "StringSplit adds a dimension to {}, which has {} already.",
                       x.to_string(), x.rank());
  RefImpl impl;
  impl.run = [x, desc = read_string_split(*node.node), parts_spec = output_spec(node, 0),
              counts_spec = output_spec(node, 1)](KernelContext& context) -> Status {
    TENON_TRY_ASSIGN(RunObjects * objects, run_objects(context));
    const auto* texts = context.input<TextAddress>(0);
    const int64_t count = x.element_count();
    std::vector<std::string_view> parts;  // of all texts
    std::vector<size_t> ends(count);
    size_t most = 0;
    for (int64_t i = 0; i < count; ++i) {
      const size_t begin = parts.size();
      split_text(text_of(texts[i]), desc, parts);
      ends[i] = parts.size();
      most = std::max(most, ends[i] - begin);
    }
    Shape shape = x;
    shape.push_back(static_cast<int64_t>(most));
    TENON_TRY_ASSIGN(void* const y, open_output(context, parts_spec, 0, shape));
    TENON_TRY_ASSIGN(void* const counts, open_output(context, counts_spec, 1, x));
    const std::span<std::string> made = objects->add_texts(y == nullptr ? 0 : parts.size());
    for (size_t p = 0; p < made.size(); ++p) made[p].assign(parts[p]);
    auto* row = static_cast<TextAddress*>(y);
    for (size_t i = 0, p = 0; i < ends.size(); ++i) {
      const size_t number = ends[i] - p;
      if (counts != nullptr) static_cast<int64_t*>(counts)[i] = static_cast<int64_t>(number);
      if (row != nullptr) {
        for (size_t k = 0; k < most; ++k) *row++ = k < number ? &made[p + k] : nullptr;
      }
      p = ends[i];
    }
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
  for (std::string& word : desc.stopwords) word = change_case(word, compared);
  std::sort(desc.stopwords.begin(), desc.stopwords.end());
  RefImpl impl;
  impl.run = [x, desc = std::move(desc), compared, spec = output_spec(node, 0)](KernelContext& context) -> Status {
    TENON_TRY_ASSIGN(RunObjects * objects, run_objects(context));
    const auto* texts = context.input<TextAddress>(0);
    std::vector<std::string> kept;
    for (int64_t i = 0; i < x.element_count(); ++i) {
      const std::string_view text = text_of(texts[i]);
      if (!desc.stopwords.empty() &&
          std::binary_search(desc.stopwords.begin(), desc.stopwords.end(), change_case(text, compared)))
        continue;
      kept.push_back(change_case(text, desc.change));
    }
    if (kept.empty()) kept.emplace_back();  // one empty string stands for none
    Shape shape = x;
    shape[x.rank() - 1] = std::ssize(kept);
    TENON_TRY_ASSIGN(void* const y, open_output(context, spec, 0, shape));
    const std::span<std::string> made = objects->add_texts(kept.size());
    for (size_t i = 0; i < kept.size(); ++i) {
      made[i] = std::move(kept[i]);
      static_cast<TextAddress*>(y)[i] = &made[i];
    }
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
    ref_row<kStringSet, &make_split>("StringSplit", 20),
    ref_row<kStringSet, &make_normalizer>("StringNormalizer", 10),
    ref_row<kStringSet, &make_full_match>("RegexFullMatch", 20),
    ref_row<kStringSet, &make_equal>("Equal", 19),
    {"", "Cast", 9, kAnyVersion, "ref", &match_string_cast, &create_packed_ref<&make_string_cast>},
    {"", "CastLike", 15, kAnyVersion, "ref", &match_string_cast, &create_packed_ref<&make_string_cast>},
};

}  // namespace

std::span<const KernelEntry> ref_text_rows() { return kRows; }

}  // namespace tenon::cpu::ref
