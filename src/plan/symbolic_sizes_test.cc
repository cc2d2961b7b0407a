#include "plan/symbolic_sizes.h"

#include <gtest/gtest.h>

#include <limits>

namespace tenon {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

class SymbolicSizesTest : public ::testing::Test {
 protected:
  SizeId symbol(const char* name) { return sizes.of({.value = -1, .symbol = name}); }
  SizeId number(int64_t number) { return sizes.number(number); }
  SymbolicSizes sizes;
  const SizeId p = symbol("p"), s = symbol("s");
};

TEST_F(SymbolicSizesTest, EqualPolynomialsAreOne) {
  EXPECT_EQ(sizes.sum(p, s), sizes.sum(s, p));
  EXPECT_EQ(sizes.difference(sizes.sum(p, s), s), p);
  EXPECT_EQ(sizes.product(sizes.sum(p, s), number(2)), sizes.sum(sizes.sum(p, p), sizes.sum(s, s)));
  EXPECT_EQ(sizes.product(sizes.sum(p, s), sizes.difference(p, s)),
            sizes.difference(sizes.product(p, p), sizes.product(s, s)));
  EXPECT_EQ(sizes.difference(p, p), number(0));
  EXPECT_EQ(sizes.product(p, number(0)), number(0));
  EXPECT_NE(p, s);
}

TEST_F(SymbolicSizesTest, ADivisionLeavesNoRemainderOrNothingIsKnown) {
  const SizeId product = sizes.product(sizes.product(p, s), number(6));
  EXPECT_EQ(sizes.quotient(product, sizes.product(s, number(2))), sizes.product(p, number(3)));
  EXPECT_EQ(sizes.quotient(product, product), number(1));
  EXPECT_FALSE(sizes.quotient(product, number(4)).valid());
  EXPECT_FALSE(sizes.quotient(p, s).valid());
  EXPECT_FALSE(sizes.quotient(p, number(0)).valid());
  EXPECT_FALSE(sizes.quotient(product, sizes.sum(p, s)).valid());
  EXPECT_FALSE(sizes.quotient(number(std::numeric_limits<int64_t>::min()), number(-1)).valid());
}

TEST_F(SymbolicSizesTest, OnlyWhatIsNeverNegativeIsADimension) {
  EXPECT_EQ(sizes.dim(number(7)).value, 7);
  EXPECT_EQ(sizes.dim(p).symbol, "p");
  const Dim total = sizes.dim(sizes.sum(p, s));
  EXPECT_NE(total.symbol, "");
  EXPECT_EQ(sizes.of(total), sizes.sum(p, s));
  EXPECT_EQ(sizes.dim(sizes.sum(s, p)), total);
  for (const SizeId size : {number(-1), sizes.difference(p, s), sizes.difference(p, number(1)), SizeId::none()}) {
    EXPECT_FALSE(sizes.dim(size).known());
    EXPECT_EQ(sizes.dim(size).symbol, "");
  }
}

TEST_F(SymbolicSizesTest, EqualityIsKnownWhereNoSymbolDecides) {
  EXPECT_EQ(sizes.equal(p, p), true);
  EXPECT_EQ(sizes.equal(number(2), number(3)), false);
  EXPECT_EQ(sizes.equal(p, number(-1)), false);
  EXPECT_EQ(sizes.equal(sizes.sum(p, number(1)), p), false);
  EXPECT_EQ(sizes.equal(p, number(0)), std::nullopt);
  EXPECT_EQ(sizes.equal(p, s), std::nullopt);
  EXPECT_EQ(sizes.equal(p, SizeId::none()), std::nullopt);
}

TEST_F(SymbolicSizesTest, WhatOverflowsOrGrowsLongIsNotKnown) {
  EXPECT_FALSE(sizes.sum(number(kMost), number(1)).valid());
  EXPECT_FALSE(sizes.product(sizes.product(p, number(kMost)), number(2)).valid());
  EXPECT_FALSE(sizes.sum(sizes.product(p, number(kMost)), p).valid());
  SizeId sum = number(0), product = number(1);
  for (char name = 'a'; name <= 'i'; ++name) {
    const SizeId next = symbol(std::string(1, name).c_str());
    sum = sizes.sum(sum, next);
    product = sizes.product(product, next);
  }
  EXPECT_FALSE(sum.valid());
  EXPECT_FALSE(product.valid());
  EXPECT_FALSE(sizes.sum(SizeId::none(), p).valid());
}

TEST_F(SymbolicSizesTest, BroadcastingIsTheSameInAnyOrder) {
  EXPECT_EQ(sizes.broadcast(number(1), p), p);
  EXPECT_EQ(sizes.broadcast(p, number(1)), p);
  EXPECT_EQ(sizes.broadcast(p, number(5)), number(5));
  EXPECT_EQ(sizes.broadcast(p, p), p);
  const SizeId both = sizes.broadcast(p, s), q = symbol("q");
  EXPECT_EQ(sizes.broadcast(s, p), both);
  EXPECT_EQ(sizes.broadcast(both, p), both);
  EXPECT_EQ(sizes.broadcast(sizes.broadcast(q, s), p), sizes.broadcast(both, q));
  EXPECT_NE(both, p);
  EXPECT_FALSE(sizes.broadcast(p, SizeId::none()).valid());
}

TEST_F(SymbolicSizesTest, SymbolsThatTurnOutEqualAreOneInPolynomialsToo) {
  const SizeId total = sizes.sum(sizes.product(p, number(3)), s);
  const Dim named = sizes.dim(total);
  sizes.assume_equal({.value = -1, .symbol = "s"}, {.value = -1, .symbol = "p"});
  EXPECT_EQ(symbol("s"), symbol("p"));
  EXPECT_EQ(sizes.resolve(total), sizes.product(p, number(4)));
  EXPECT_EQ(sizes.of(named), sizes.product(p, number(4)));
  EXPECT_EQ(sizes.sum(p, s), sizes.product(p, number(2)));
  Dim dim{.value = -1, .symbol = "s"};
  sizes.rename(dim);
  EXPECT_EQ(dim.symbol, "p");  // the older one
}

TEST_F(SymbolicSizesTest, NumbersAndSumsAreNotTakenForOthers) {
  sizes.assume_equal({.value = 4, .symbol = {}}, {.value = -1, .symbol = "p"});
  sizes.assume_equal(sizes.dim(sizes.sum(p, s)), {.value = -1, .symbol = "p"});
  EXPECT_EQ(sizes.number_of(p), std::nullopt);
  EXPECT_EQ(sizes.dim(p).symbol, "p");
}

}  // namespace
}  // namespace tenon
