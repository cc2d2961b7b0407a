#include "ops/einsum.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "ops/attributes.h"

namespace tenon {

namespace {

using infer::Dims;
using infer::InputDims;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The dimensions of an ellipsis, the outermost first.
std::string ellipsis_letters(int64_t count) {
  std::string letters;
  for (int64_t i = count; i > 0; --i) letters += static_cast<char>('0' + i - 1);
  return letters;
}

// The term's letters before and after its ellipsis.
struct Term {
  std::string before, after;
  bool ellipsis = false;
  int64_t named() const { return static_cast<int64_t>(before.size() + after.size()); }
  std::string letters(int64_t own) const { return ellipsis ? before + ellipsis_letters(own) + after : before; }
};

Result<Term> read_term(std::string_view text) {
  Term term;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '.') {
      TENON_INVALID_IF(term.ellipsis || text.substr(i, 3) != "...", "The equation's term \"{}\" has a misplaced dot.",
                       text);
      term.ellipsis = true;
      i += 2;
      continue;
    }
    TENON_INVALID_IF(!is_letter(text[i]), "The equation's term \"{}\" has something other than letters.", text);
    (term.ellipsis ? term.after : term.before) += text[i];
  }
  return term;
}

// Letters that occur once in all terms, in the order of their codes.
std::string letters_once(const std::vector<std::string>& terms) {
  std::map<char, int> counts;
  for (const std::string& term : terms)
    for (char c : term) ++counts[c];
  std::string once;
  for (const auto& [letter, count] : counts)
    if (count == 1 && is_letter(letter)) once += letter;
  return once;
}

}  // namespace

Result<EinsumForm> read_einsum_form(const Node& node, const InputDims& inputs) {
  const std::optional<std::string_view> attribute = Attributes(node).find_text("equation");
  TENON_INVALID_IF(!attribute, "{} lacks the attribute \"equation\".", node.op_type);
  std::string text(*attribute);
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  const std::string_view left = std::string_view(text).substr(0, arrow);
  const size_t terms = std::count(left.begin(), left.end(), ',') + 1;
  TENON_INVALID_IF(terms != node.inputs.size(), "The equation \"{}\" has {} terms for {} inputs.", text, terms,
                   node.inputs.size());
  EinsumForm equation;
  int64_t widest = 0;
  for (size_t input = 0, begin = 0; input < terms; ++input) {
    const std::string_view part = left.substr(begin, left.find(',', begin) - begin);
    begin += part.size() + 1;
    const Dims& dims = *inputs.find(input);
    const auto rank = static_cast<int64_t>(dims.size());
    TENON_TRY_ASSIGN(const Term term, read_term(part));
    const int64_t own = rank - term.named();
    TENON_INVALID_IF(own < 0 || (own > 0 && !term.ellipsis), "The equation's term \"{}\" does not fit rank {}.", part,
                     rank);
    TENON_UNSUPPORTED_IF(own > 9, "The equation's term \"{}\" has an ellipsis of {} dimensions.", part, own);
    widest = std::max(widest, own);
    const std::string& letters = equation.inputs.emplace_back(term.letters(own));
    for (size_t i = 0; i < letters.size(); ++i) {
      const auto [size, added] = equation.sizes.emplace(letters[i], dims[i]);
      if (added) continue;
      Result<Dims> both = infer::broadcast({size->second}, {dims[i]});
      TENON_INVALID_IF(!both.ok(), "Label '{}' of the equation \"{}\" has sizes {} and {}.", letters[i], text,
                       size->second.value, dims[i].value);
      size->second = both->front();
    }
  }
  if (arrow == std::string::npos) {
    equation.output = ellipsis_letters(widest) + letters_once(equation.inputs);
    return equation;
  }
  TENON_TRY_ASSIGN(const Term term, read_term(std::string_view(text).substr(arrow + 2)));
  equation.output = term.letters(widest);
  for (char c : equation.output) {
    TENON_INVALID_IF(!equation.sizes.contains(c), "Label '{}' of the equation \"{}\" is in no input.", c, text);
    TENON_INVALID_IF(equation.output.find(c) != equation.output.rfind(c),
                     "Label '{}' of the equation \"{}\" is in the output twice.", c, text);
  }
  return equation;
}

Result<EinsumDesc> read_einsum(const Node& node, const InputShapes& shapes) {
  TENON_TRY(require_shapes(node, shapes, node.inputs.size()));
  TENON_TRY_ASSIGN(EinsumForm equation, read_einsum_form(node, infer::input_dims(shapes)));
  EinsumDesc desc{.inputs = std::move(equation.inputs), .output = std::move(equation.output), .sizes = {}};
  for (const auto& [letter, size] : equation.sizes) desc.sizes.emplace(letter, size.value);
  return desc;
}

namespace infer {
namespace {

Status infer_einsum(Context& c) {
  c.set_type(0, c.type(0));
  const InputDims dims = input_dims(c);
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims.find(i) == nullptr) return {};
  TENON_TRY_ASSIGN(const EinsumForm equation, read_einsum_form(c.node(), dims));
  Dims out;
  for (char letter : equation.output) out.push_back(equation.sizes.at(letter));
  return c.set_dims(0, std::move(out));
}

constexpr Row kRows[] = {{"Einsum", &infer_einsum}};

}  // namespace

std::span<const Row> einsum_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
