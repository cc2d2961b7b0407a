// einsum: `eq=ij,jk->ik` and one shape for each operand. Letters only; an ellipsis is not part of the grammar.
#include <map>

#include "base/format.h"
#include "base/status.h"
#include "graph/model_writer.h"
#include "problems/family.h"

namespace tenon::problems {

namespace {

Status build(const Problem& problem, Case& test) {
  const std::string equation = problem.word("eq");
  const size_t arrow = equation.find("->");
  TENON_INVALID_IF(arrow == std::string::npos, "eq is \"{}\"; it takes ij,jk->ik.", equation);
  std::vector<std::string> terms = {""};
  for (char c : equation.substr(0, arrow)) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  const std::string output = equation.substr(arrow + 2);
  TENON_INVALID_IF(terms.size() != problem.shapes.size(), "{} has {} operands for {} shapes.", equation, terms.size(),
                   problem.shapes.size());
  std::map<char, int64_t> sizes;
  for (size_t t = 0; t < terms.size(); ++t) {
    TENON_INVALID_IF(terms[t].size() != problem.shapes[t].size(), "Operand {} has {} letters for {} dimensions.", t,
                     terms[t].size(), problem.shapes[t].size());
    for (size_t i = 0; i < terms[t].size(); ++i) sizes[terms[t][i]] = problem.shapes[t][i];
  }
  std::vector<Value> operands;
  std::vector<std::string> names;
  for (size_t t = 0; t < terms.size(); ++t) {
    operands.push_back(test.data(format("x{}", t), problem.shapes[t]));
    names.push_back(operands.back().name);
  }
  Dims dims, inner;
  std::string letters = output;
  for (char c : output) dims.push_back(sizes[c]);
  for (const auto& [letter, size] : sizes)
    if (output.find(letter) == std::string::npos) {
      letters += letter;
      inner.push_back(size);
    }
  Array y(problem.type, dims);
  const int64_t count = product(inner);
  for (int64_t i = 0; i < y.count(); ++i) {
    double sum = 0, magnitude = 0;
    for (int64_t k = 0; k < count; ++k) {
      std::vector<int64_t> at = index_of(i, dims);
      const std::vector<int64_t> rest = index_of(k, inner);
      at.insert(at.end(), rest.begin(), rest.end());
      double term = 1;
      for (size_t t = 0; t < terms.size(); ++t) {
        int64_t offset = 0;
        for (char c : terms[t]) offset = offset * sizes[c] + at[letters.find(c)];
        term *= operands[t].data[offset];
      }
      sum += term;
      magnitude += std::fabs(term);
    }
    // Products of several operands may be stored one after the other.
    const double bound = product_bound(problem.type, count, magnitude) +
                         static_cast<double>(terms.size() - 1) * unit_roundoff(problem.type) * magnitude;
    put(y, i, stored({sum, bound}, problem.type));
  }
  test.expect(test.node("Einsum", names, {model_writer::string_attribute("equation", equation)}), y);
  return {};
}

}  // namespace

std::vector<Family> einsum_families() {
  return {{.name = "einsum",
           .fewest_shapes = 1,
           .most_shapes = 4,
           .options = {{"eq", Option::Kind::kWord}},
           .types = kFloats,
           .build = build}};
}

}  // namespace tenon::problems
