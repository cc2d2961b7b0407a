#include "plan/symbolic_sizes.h"

#include <algorithm>
#include <iterator>

#include "graph/symbols.h"

namespace tenon {

namespace {

constexpr size_t kMaxTerms = 8, kMaxFactors = 8;

}  // namespace

SizeId SymbolicSizes::intern(Polynomial polynomial) {
  const auto [entry, added] = ids_.emplace(std::move(polynomial), polynomials_.end_id());
  if (added) {
    polynomials_.push_back(&entry->first);
    became_.push_back(SizeId::none());
    symbol_of_.push_back({});
  }
  return entry->second;
}

SizeId SymbolicSizes::number(int64_t number) {
  return intern(number == 0 ? Polynomial{} : Polynomial{{Symbols{}, number}});
}

SizeId SymbolicSizes::of(const Dim& dim) {
  if (dim.known()) return number(dim.value);
  if (dim.symbol.empty()) return SizeId::none();
  const auto [entry, added] = of_symbol_.emplace(dim.symbol, SizeId::none());
  if (added) {
    entry->second = intern({{Symbols{symbols_++}, 1}});
    symbol_of_[entry->second] = dim.symbol;
  }
  return resolve(entry->second);
}

bool SymbolicSizes::add_term(Polynomial& polynomial, const Symbols& symbols, int64_t coefficient) {
  const auto term = polynomial.emplace(symbols, 0).first;
  if (__builtin_add_overflow(term->second, coefficient, &term->second)) return false;
  if (term->second == 0) polynomial.erase(term);
  return true;
}

SizeId SymbolicSizes::combine(SizeId a, int64_t factor, SizeId b) {
  if (!a.valid() || !b.valid()) return SizeId::none();
  Polynomial out = polynomial(a);
  for (const auto& [symbols, coefficient] : polynomial(b)) {
    int64_t term = 0;
    if (__builtin_mul_overflow(coefficient, factor, &term) || !add_term(out, symbols, term)) return SizeId::none();
  }
  return out.size() > kMaxTerms ? SizeId::none() : intern(std::move(out));
}

SizeId SymbolicSizes::sum(SizeId a, SizeId b) { return combine(a, 1, b); }

SizeId SymbolicSizes::difference(SizeId a, SizeId b) { return combine(a, -1, b); }

SizeId SymbolicSizes::product(SizeId a, SizeId b) {
  if (!a.valid() || !b.valid()) return SizeId::none();
  Polynomial out;
  for (const auto& [left, x] : polynomial(a)) {
    for (const auto& [right, y] : polynomial(b)) {
      Symbols symbols;
      std::merge(left.begin(), left.end(), right.begin(), right.end(), std::back_inserter(symbols));
      int64_t term = 0;
      if (symbols.size() > kMaxFactors || __builtin_mul_overflow(x, y, &term) || !add_term(out, symbols, term))
        return SizeId::none();
    }
  }
  return out.size() > kMaxTerms ? SizeId::none() : intern(std::move(out));
}

SizeId SymbolicSizes::quotient(SizeId a, SizeId b) {
  if (!a.valid() || !b.valid() || polynomial(b).size() != 1) return SizeId::none();
  const auto& [divisors, divisor] = *polynomial(b).begin();
  Polynomial out;
  for (const auto& [symbols, coefficient] : polynomial(a)) {
    // INT64_MIN / -1 overflows.
    if (divisor == -1 || coefficient % divisor != 0) return SizeId::none();
    if (!std::includes(symbols.begin(), symbols.end(), divisors.begin(), divisors.end())) return SizeId::none();
    Symbols rest;
    std::set_difference(symbols.begin(), symbols.end(), divisors.begin(), divisors.end(), std::back_inserter(rest));
    out.emplace(std::move(rest), coefficient / divisor);
  }
  return intern(std::move(out));
}

SizeId SymbolicSizes::broadcast(SizeId a, SizeId b) {
  a = resolve(a);
  b = resolve(b);
  if (!a.valid() || !b.valid() || a == b || number_of(b) == 1) return a.valid() && b.valid() ? a : SizeId::none();
  if (number_of(a) == 1 || number_of(b)) return b;
  if (number_of(a)) return a;
  const auto parts = [this](SizeId size) {
    const auto found = broadcast_.find(size);
    std::vector<SizeId> out = found == broadcast_.end() ? std::vector<SizeId>{size} : found->second;
    for (SizeId& part : out) part = resolve(part);
    std::sort(out.begin(), out.end());
    return out;
  };
  const std::vector<SizeId> left = parts(a), right = parts(b);
  std::vector<SizeId> both;
  std::set_union(left.begin(), left.end(), right.begin(), right.end(), std::back_inserter(both));
  const auto [entry, added] = broadcast_of_.emplace(both, SizeId::none());
  if (added) {
    entry->second = of({.value = -1, .symbol = new_symbol()});
    broadcast_.emplace(entry->second, both);
  }
  return entry->second;
}

std::optional<int64_t> SymbolicSizes::number_of(SizeId size) const {
  if (!size.valid()) return std::nullopt;
  const Polynomial& terms = polynomial(size);
  if (terms.empty()) return 0;
  if (terms.size() > 1 || !terms.begin()->first.empty()) return std::nullopt;
  return terms.begin()->second;
}

bool SymbolicSizes::never_negative(SizeId size) const {
  return std::all_of(polynomial(size).begin(), polynomial(size).end(),
                     [](const auto& term) { return term.second > 0; });
}

std::optional<bool> SymbolicSizes::equal(SizeId a, SizeId b) {
  const SizeId left = difference(a, b), right = difference(b, a);
  if (!left.valid() || !right.valid()) return std::nullopt;
  if (const std::optional<int64_t> number = number_of(left)) return *number == 0;
  // One is larger by a number above 0 at least.
  const SizeId one = number(1);
  for (const SizeId larger : {left, right})
    if (const SizeId rest = difference(larger, one); rest.valid() && never_negative(rest)) return false;
  return std::nullopt;
}

void SymbolicSizes::assume_equal(const Dim& a, const Dim& b) {
  SizeId kept = of(a), gone = of(b);
  if (!kept.valid() || !gone.valid() || kept == gone) return;
  // More is known about the older one.
  if (gone < kept) std::swap(kept, gone);
  const auto symbol_of = [this](SizeId size) {
    const Polynomial& terms = polynomial(size);
    const bool is_symbol = terms.size() == 1 && terms.begin()->first.size() == 1 && terms.begin()->second == 1;
    return is_symbol ? terms.begin()->first[0] : -1;
  };
  const int32_t old = symbol_of(gone), now = symbol_of(kept);
  if (old < 0 || now < 0) return;
  const SizeId end = polynomials_.end_id();
  for (SizeId size(0); size < end; ++size) {
    if (became_[size].valid()) continue;
    Polynomial changed;
    bool fits = true;
    for (const auto& [factors, coefficient] : *polynomials_[size]) {
      Symbols symbols = factors;
      std::replace(symbols.begin(), symbols.end(), old, now);
      std::sort(symbols.begin(), symbols.end());
      fits = fits && add_term(changed, symbols, coefficient);
    }
    // Where a coefficient overflows the size stays as it is.
    if (fits && changed != *polynomials_[size]) became_[size] = intern(std::move(changed));
  }
}

SizeId SymbolicSizes::resolve(SizeId size) const {
  while (size.valid() && became_[size].valid()) size = became_[size];
  return size;
}

void SymbolicSizes::rename(Dim& dim) {
  if (dim.symbol.empty()) return;
  const auto found = of_symbol_.find(dim.symbol);
  if (found != of_symbol_.end() && became_[found->second].valid()) dim = this->dim(found->second);
}

Dim SymbolicSizes::dim(SizeId size) {
  size = resolve(size);
  if (!size.valid() || !never_negative(size)) return {};
  if (const std::optional<int64_t> number = number_of(size)) return {.value = *number, .symbol = {}};
  std::string& symbol = symbol_of_[size];
  if (symbol.empty()) {
    symbol = new_symbol();
    of_symbol_.emplace(symbol, size);
  }
  return {.value = -1, .symbol = symbol};
}

}  // namespace tenon
