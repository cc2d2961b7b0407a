// Sizes whose numbers are not known when a model is loaded: polynomials with integer coefficients over the symbols of
// open dimensions, such as past + 1 and 4 * batch * heads.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/strong_id.h"
#include "graph/graph.h"

namespace tenon {

// A polynomial of one SymbolicSizes: equal ids are equal numbers in every run. none(): nothing is known.
using SizeId = StrongId<struct SizeTag>;

// Polynomials that were asked for, each once. What overflows or grows long is none(), and so is what none() makes.
// Threads: one.
class SymbolicSizes {
 public:
  SizeId number(int64_t number);
  // none() for a dimension without a symbol.
  SizeId of(const Dim& dim);

  SizeId sum(SizeId a, SizeId b);
  SizeId difference(SizeId a, SizeId b);
  SizeId product(SizeId a, SizeId b);
  // none() where a number remains: a division rounds by the sign of what is not known.
  SizeId quotient(SizeId a, SizeId b);

  // The size that numpy's broadcasting gives, where both are dimensions: the one that is not 1.
  SizeId broadcast(SizeId a, SizeId b);

  std::optional<int64_t> number_of(SizeId size) const;
  // nullopt where symbols decide. No symbol is negative.
  std::optional<bool> equal(SizeId a, SizeId b);
  // From now on the two symbols mean the same, also in polynomials. Nothing where one of them is no symbol.
  void assume_equal(const Dim& a, const Dim& b);
  // Makes the symbol of `dim` the one that it means.
  void rename(Dim& dim);
  // The id that one from before assume_equal() has become.
  SizeId resolve(SizeId size) const;
  // A number, or a symbol that stands for the polynomial, here and in `of`; unknown where it may be negative.
  Dim dim(SizeId size);

 private:
  using Symbols = std::vector<int32_t>;           // sorted; the factors of a product
  using Polynomial = std::map<Symbols, int64_t>;  // the coefficients, none of which is 0

  // False where the coefficient overflows.
  static bool add_term(Polynomial& polynomial, const Symbols& symbols, int64_t coefficient);
  SizeId intern(Polynomial polynomial);
  const Polynomial& polynomial(SizeId size) const { return *polynomials_[resolve(size)]; }
  // a + factor * b
  SizeId combine(SizeId a, int64_t factor, SizeId b);
  bool never_negative(SizeId size) const;

  std::map<Polynomial, SizeId> ids_;
  IdVector<SizeId, const Polynomial*> polynomials_;  // keys of ids_
  IdVector<SizeId, SizeId> became_;                  // none: nothing else
  std::map<std::string, SizeId, std::less<>> of_symbol_;
  IdVector<SizeId, std::string> symbol_of_;  // "": none yet
  // Of broadcast symbols: the sizes that were broadcast, sorted. The order does not matter, nor how often one stands.
  std::map<SizeId, std::vector<SizeId>> broadcast_;
  std::map<std::vector<SizeId>, SizeId> broadcast_of_;
  int32_t symbols_ = 0;
};

}  // namespace tenon
