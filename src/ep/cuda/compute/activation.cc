#include "ep/cuda/compute/activation.h"

#include <cctype>
#include <cmath>
#include <string_view>

#include "base/format.h"
#include "ep/cuda/compute/loops.h"

namespace tenon::cuda {

namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// A parameter in the type of x.
std::string number_like(const std::string& x, double value) {
  if (std::isfinite(value)) return format("num({}, {:.17e})", x, value);
  return format("num({}, {})", x,
                std::isnan(value) ? "infinity_() - infinity_()"
                : value > 0       ? "infinity_()"
                                  : "-infinity_()");
}

}  // namespace

std::string unary_expression(const UnaryDesc& unary, const std::string& x) {
  const std::string_view formula = row_of(unary.function).formula;
  std::string text = "(";
  for (size_t i = 0; i < formula.size();) {
    size_t end = i;
    while (end < formula.size() && is_word(formula[end])) ++end;
    const std::string_view word = formula.substr(i, end - i);
    if (word == "x") {
      text += x;
    } else if (word == "a" || word == "b") {
      text += number_like(x, word == "a" ? unary.alpha : unary.beta);
    } else if (word.empty()) {
      text += formula[end++];
    } else {
      text += word;
    }
    i = end;
  }
  return text + ")";
}

std::string activation_expression(const Epilogue& epilogue, const std::string& x) {
  return unary_expression({unary_of(epilogue.activation), epilogue.alpha, epilogue.beta}, x);
}

}  // namespace tenon::cuda
