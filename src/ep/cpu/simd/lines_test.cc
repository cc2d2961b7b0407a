#include "ep/cpu/simd/lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "ep/cpu/simd/test_tables.h"

TENON_TEST_TABLES(LineTable, line_table)

namespace tenon::cpu {
namespace {

class Lines : public testing::TestWithParam<Isa> {};

TEST_P(Lines, RunningSumsKeepWhatFloatsWouldLose) {
  const LineTable& table = line_table_of(GetParam());
  for (int64_t n : {1, 7, 16, 33, 64, 200, 1100})
    for (bool reverse : {false, true})
      for (bool exclusive : {false, true}) {
        // A float32 sum would stay at the first number.
        constexpr int64_t kLength = 3;
        std::vector<float> x(kLength * n, 1.0f), y(kLength * n + 1, 77.0f);
        const int64_t first = reverse ? (kLength - 1) * n : 0, step = reverse ? -n : n;
        for (int64_t i = 0; i < n; ++i) x[first + i] = 16777216.0f;
        table.running_sum(x.data() + first, y.data() + first, kLength, step, n, exclusive);
        for (int64_t i = 0; i < n; ++i) {
          EXPECT_EQ(y[first + i], exclusive ? 0.0f : 16777216.0f);
          EXPECT_EQ(y[first + 2 * step + i], exclusive ? 16777216.0f : 16777218.0f) << "line " << i << " of " << n;
        }
        EXPECT_EQ(y[kLength * n], 77.0f);
      }
}

TEST_P(Lines, RunningSumsOfInfinitiesAndNaN) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const LineTable& table = line_table_of(GetParam());
  for (int64_t n : {1, 16, 70, 1100}) {
    std::vector<float> x(5 * n), y(5 * n);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = 0; k < 5; ++k) x[k * n + i] = k == 1 ? kInfinity : k == 3 ? -kInfinity : 2.0f;
    table.running_sum(x.data(), y.data(), 5, n, n, false);
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_EQ(y[i], 2.0f);
      EXPECT_EQ(y[n + i], kInfinity);
      EXPECT_EQ(y[2 * n + i], kInfinity);
      EXPECT_TRUE(std::isnan(y[3 * n + i]));
      EXPECT_TRUE(std::isnan(y[4 * n + i]));
    }
  }
}

template <typename T, typename Sum>
void expect_running_sums(const Sum& sum) {
  constexpr int64_t kLength = 5;
  for (int64_t n : {1, 3, 7, 8, 15, 16, 17, 33, 100, 1100})
    for (bool exclusive : {false, true}) {
      std::vector<T> x(kLength * n), y(kLength * n + 1, T(77));
      for (int64_t i = 0; i < std::ssize(x); ++i) x[i] = static_cast<T>(i * 37 % 101 - 50);
      if (std::is_integral_v<T>) x[0] = std::numeric_limits<T>::max(), x[n] = 2;
      sum(x.data(), y.data(), kLength, n, n, exclusive);
      for (int64_t i = 0; i < n; ++i) {
        std::conditional_t<std::is_integral_v<T>, uint64_t, double> total = 0;
        for (int64_t k = 0; k < kLength; ++k) {
          const auto before = total;
          total += static_cast<decltype(total)>(x[k * n + i]);
          EXPECT_EQ(y[k * n + i], static_cast<T>(exclusive ? before : total)) << "line " << i << " of " << n;
        }
      }
      EXPECT_EQ(y.back(), T(77));
    }
}

TEST_P(Lines, RunningSumsOfOtherTypes) {
  const LineTable& table = line_table_of(GetParam());
  expect_running_sums<double>(table.running_sum_f64);
  expect_running_sums<int32_t>(table.running_sum_i32);
  expect_running_sums<int64_t>(table.running_sum_i64);
}

TEST_P(Lines, AddsRowsAndNothingBesideThem) {
  for (const int64_t n : {1, 7, 15, 16, 17, 33, 56}) {
    const int64_t rows = 3, from = n + 2, to = n + 5;
    std::vector<float> x(rows * from), y(rows * to), want(y.size());
    for (int64_t i = 0; i < std::ssize(x); ++i) x[i] = static_cast<float>(i % 11);
    for (int64_t i = 0; i < std::ssize(y); ++i) want[i] = y[i] = static_cast<float>(i % 7);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < n; ++i) want[r * to + i] += x[r * from + i];
    line_table_of(GetParam()).add_rows(x.data(), from, y.data(), to, rows, n);
    EXPECT_EQ(y, want) << n;
  }
}

TEST_P(Lines, StandardisesRows) {
  const LineTable& table = line_table_of(GetParam());
  for (int64_t n : {1, 15, 16, 63, 64, 1000}) {
    std::vector<float> x(n), y(n + 1, 77.0f);
    double want = 0;
    for (int64_t i = 0; i < n; ++i) {
      x[i] = static_cast<float>(i * 37 % 101) * 0.25f;
      want += (x[i] - 3.0) * (x[i] - 3.0);
    }
    EXPECT_NEAR(table.squares(x.data(), n, 3.0f), want, 1e-5 * want);
    table.standardise(x.data(), y.data(), n, 3.0f, 0.5f, 0.25f);
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(y[i], (x[i] - 3.0f) * 0.5f + 0.25f);
    ASSERT_EQ(y[n], 77.0f);
  }
}

TEST_P(Lines, SquareDistancesOfColumns) {
  constexpr int64_t kLength = 5;
  for (int64_t n : {1, 15, 16, 17, 130, 300}) {
    const std::vector<float> x = {0.5f, -2, 3, 0, 7};
    std::vector<float> columns(kLength * (n + 2)), y(n + 1, 77.0f);
    for (size_t i = 0; i < columns.size(); ++i) columns[i] = static_cast<float>(i * 37 % 101) * 0.25f;
    line_table_of(GetParam()).square_distances(x.data(), columns.data(), n + 2, kLength, n, y.data());
    for (int64_t j = 0; j < n; ++j) {
      double want = 0;
      for (int64_t i = 0; i < kLength; ++i) want += std::pow(x[i] - columns[i * (n + 2) + j], 2);
      ASSERT_NEAR(y[j], want, 1e-5 * want) << n << " " << j;
    }
    ASSERT_EQ(y[n], 77.0f);
  }
}

TEST_P(Lines, DotProductsAreSummedInDouble) {
  for (int64_t n : {0, 1, 7, 8, 15, 33, 300}) {
    std::vector<float> x(n), y(n);
    double want = 0;
    for (int64_t i = 0; i < n; ++i) {
      x[i] = i % 2 == 0 ? 1e8f : -1e8f;
      y[i] = 1.0f + static_cast<float>(i / 2 * 37 % 101) * 0.25f;
      want += double{x[i]} * y[i];
    }
    EXPECT_EQ(line_table_of(GetParam()).dot(x.data(), y.data(), n), want) << n;
  }
}

TEST_P(Lines, FindsTheFirstPlace) {
  const LineTable& table = line_table_of(GetParam());
  for (int64_t n : {0, 1, 15, 16, 17, 64, 150}) {
    std::vector<float> x(n + 1, 2.0f);
    EXPECT_EQ(table.find(x.data(), n, 3.0f), n);
    for (int64_t at = n; at-- > 0;) {
      x[at] = 3.0f;
      ASSERT_EQ(table.find(x.data(), n, 3.0f), at) << "of " << n;
    }
  }
}

TEST_P(Lines, TurnsPairs) {
  const LineTable& table = line_table_of(GetParam());
  constexpr int64_t kRows = 3;
  for (int64_t pairs : {1, 4, 16, 17, 40})
    for (int64_t angle_step : {int64_t{0}, pairs + 2})
      for (bool interleaved : {false, true}) {
        const int64_t step = 2 * pairs + 3;
        std::vector<float> x(kRows * step), y(kRows * step, 77.0f), c(kRows * (pairs + 2)), s(c.size());
        for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 101) * 0.25f;
        for (size_t i = 0; i < c.size(); ++i) c[i] = static_cast<float>(i % 7), s[i] = static_cast<float>(i % 5) - 2;
        (interleaved ? table.turn_interleaved : table.turn)(x.data(), c.data(), s.data(), kRows, step, angle_step,
                                                            pairs, y.data());
        for (int64_t r = 0; r < kRows; ++r) {
          for (int64_t i = 0; i < pairs; ++i) {
            const int64_t first = r * step + (interleaved ? 2 * i : i), second = first + (interleaved ? 1 : pairs);
            const float cosine = c[r * angle_step + i], sine = s[r * angle_step + i];
            ASSERT_EQ(y[first], cosine * x[first] - sine * x[second]) << pairs << " pairs, row " << r << ", pair " << i;
            ASSERT_EQ(y[second], sine * x[first] + cosine * x[second]);
          }
          ASSERT_EQ(y[r * step + 2 * pairs], 77.0f);
        }
      }
}

// The two elements of a pair have factors of their own, and rows of each operand lie as far apart as they like.
TEST_P(Lines, RotatesRows) {
  const LineTable& table = line_table_of(GetParam());
  constexpr int64_t kRows = 3;
  for (int64_t half : {1, 3, 4, 8, 16, 17, 40})
    for (int64_t angle_step : {int64_t{0}, 2 * half + 1})
      for (bool neighbours : {false, true}) {
        const int64_t turned = 2 * half, x_step = turned + 5, y_step = turned + 1;
        std::vector<float> x(kRows * x_step), y(kRows * y_step, 77.0f), c(kRows * (turned + 1)), s(c.size());
        for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 101) * 0.25f;
        for (size_t i = 0; i < c.size(); ++i) c[i] = static_cast<float>(i % 7), s[i] = static_cast<float>(i % 5) - 2;
        (neighbours ? table.rotate_neighbours : table.rotate_halves)({.x = x.data(),
                                                                      .cos = c.data(),
                                                                      .sin = s.data(),
                                                                      .y = y.data(),
                                                                      .rows = kRows,
                                                                      .turned = turned,
                                                                      .x_step = x_step,
                                                                      .cos_step = angle_step,
                                                                      .sin_step = turned + 1,
                                                                      .y_step = y_step});
        for (int64_t r = 0; r < kRows; ++r) {
          for (int64_t i = 0; i < turned; ++i) {
            const bool is_first = neighbours ? i % 2 == 0 : i < half;
            const int64_t other = neighbours ? i ^ 1 : is_first ? i + half : i - half;
            const float product = s[r * (turned + 1) + i] * x[r * x_step + other];
            ASSERT_EQ(y[r * y_step + i], c[r * angle_step + i] * x[r * x_step + i] + (is_first ? -product : product))
                << half << " pairs, row " << r << ", element " << i;
          }
          ASSERT_EQ(y[r * y_step + turned], 77.0f);
        }
      }
}

template <typename T>
void check_twice(void (*twice)(const void* x, int64_t n, int64_t rows, void* y)) {
  for (int64_t n : {1, 15, 16, 33, 64, 70, 200})
    for (int64_t rows : {1, 2, 3}) {
      std::vector<T> x(n), y(2 * n * rows + 1, T{77});
      for (int64_t i = 0; i < n; ++i) x[i] = static_cast<T>(i);
      twice(x.data(), n, rows, y.data());
      for (int64_t i = 0; i < 2 * n * rows; ++i) ASSERT_EQ(y[i], x[i % (2 * n) / 2]) << i << " of " << rows << "x" << n;
      ASSERT_EQ(y.back(), T{77});
    }
}

TEST_P(Lines, EachElementTwice) {
  const LineTable& table = line_table_of(GetParam());
  check_twice<uint8_t>(table.twice8);
  check_twice<uint16_t>(table.twice16);
  check_twice<uint32_t>(table.twice32);
}

// The order of elements as TopK has it; B is their bits, widened.
template <typename T, typename B>
ElementOrder<B> order_of_type(bool largest) {
  ElementOrder<B> by{.flip = largest ? B(0) : B(-1)};
  if constexpr (std::is_floating_point_v<T>) {
    by.signs = -1;
    by.magnitude = std::numeric_limits<B>::max();
    by.infinity = std::bit_cast<B>(std::numeric_limits<T>::infinity());
    by.nan = std::numeric_limits<B>::max() ^ by.flip;
  } else if constexpr (std::is_unsigned_v<T>) {
    by.flip ^= B(std::numeric_limits<std::make_signed_t<T>>::min());
  }
  return by;
}

template <typename T>
bool comes_before(T a, T b, bool largest) {
  if (a != a || b != b) return largest ? a != a && b == b : a == a && b != b;
  return largest ? a > b : a < b;
}

// Values of a type in an order that mixes them.
template <typename T>
std::vector<T> mixed(const std::vector<T>& values, int64_t n) {
  std::vector<T> x(n);
  for (int64_t i = 0; i < n; ++i) x[i] = values[i * i * 7 % 1009 % std::ssize(values)];
  return x;
}

template <typename T, typename B>
void expect_keys(const KeyTable<B>& table, const std::vector<T>& values) {
  constexpr bool kWide = sizeof(T) == sizeof(B);
  for (bool largest : {true, false}) {
    const auto by = order_of_type<T, B>(largest);
    const auto key = [&](T value) {
      using Signed = std::conditional_t<sizeof(T) == 1, int8_t, std::conditional_t<sizeof(T) == 2, int16_t, B>>;
      return key_of(static_cast<B>(std::bit_cast<Signed>(value)), by);
    };
    for (T a : values)
      for (T b : values) ASSERT_EQ(key(a) > key(b), comes_before(a, b, largest)) << a << " and " << b;
    // Lines beside each other: the first of the k, and the first of columns.
    const int64_t length = 100;
    for (int64_t n : {1, 4, 7, 8, 9, 16, 33, 70, 150}) {
      const int64_t step = n + 3;
      const std::vector<T> x = mixed(values, length * step);
      const auto wanted = [&](int64_t l) {
        std::vector<int64_t> order(length);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](int64_t a, int64_t b) { return comes_before(x[a * step + l], x[b * step + l], largest); });
        return order;
      };
      for (bool back : {false, true}) {
        std::vector<int64_t> y(n + 1, -7);
        const int64_t last = length - 1;
        table.top_rows(back ? x.data() + last * step : x.data(), sizeof(T), length, back ? -step : step, n, by,
                       y.data());
        for (int64_t l = 0; l < n; ++l) {
          const std::vector<int64_t> order = wanted(l);
          int64_t at = 0;
          while (back && at < last && !comes_before(x[order[0] * step + l], x[order[at + 1] * step + l], largest)) ++at;
          ASSERT_EQ(y[l], back ? last - order[at] : order[0]) << "column " << l << " of " << n;
        }
        ASSERT_EQ(y[n], -7);
      }
      if constexpr (kWide) {
        for (int64_t k : {1, 2, 5, 32}) {
          std::vector<B> order(k * kTopLines, -1);
          const TopLines<B> lines{.x = reinterpret_cast<const B*>(x.data()),
                                  .step = step,
                                  .length = length,
                                  .n = n,
                                  .k = k,
                                  .by = by,
                                  .order = order.data()};
          if (n > kTopLines || !table.top(lines)) continue;
          for (int64_t l = 0; l < n; ++l)
            for (int64_t j = 0; j < k; ++j)
              ASSERT_EQ(order[j * kTopLines + l], wanted(l)[j]) << "place " << j << " of " << k << " in line " << l;
        }
      }
    }
    // A row: the largest keys of groups, and the places of keys from one on.
    if constexpr (kWide) {
      for (int64_t n : {64, 65, 79, 100, 200, 1000}) {
        const std::vector<T> x = mixed(values, n);
        const auto* const bits = reinterpret_cast<const B*>(x.data());
        for (int64_t groups : {16, 32, 64}) {
          std::vector<B> tops(groups + 1, B(-7));
          table.group_tops(bits, n, by, groups, tops.data());
          for (int64_t g = 0; g < groups; ++g) {
            B top = key(x[g]);
            for (int64_t i = g; i < n; i += groups) top = std::max(top, key(x[i]));
            ASSERT_EQ(tops[g], top) << "group " << g << " of " << n;
          }
          ASSERT_EQ(tops[groups], B(-7));
        }
        for (T value : values) {
          std::vector<int64_t> found, places(kMostPlaces + 1, -7);
          for (int64_t next = 1; next < n;) {
            const int64_t count = table.at_least(bits, n, by, key(value), &next, places.data());
            found.insert(found.end(), places.begin(), places.begin() + count);
            ASSERT_EQ(places[kMostPlaces], -7);
          }
          std::vector<int64_t> wanted;
          for (int64_t i = 1; i < n; ++i)
            if (!comes_before(value, x[i], largest)) wanted.push_back(i);
          ASSERT_EQ(found, wanted) << value << " in " << n;
        }
      }
    }
  }
}

TEST_P(Lines, KeysOfEachTypeGiveItsOrder) {
  const LineTable& table = line_table_of(GetParam());
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  expect_keys<float>(table.keys32,
                     {1, -0.0f, 0.0f, NAN, -2, -NAN, kInfinity, -kInfinity, 3.5f, -7, 1e-40f, -1e-40f, 12});
  expect_keys<float>(table.keys32, {-1, -2, -NAN, -kInfinity, -3, -5, -0.0f});
  expect_keys<double>(table.keys64, {1, -0.0, 0.0, NAN, -2, -NAN, kInfinity, -kInfinity, 3.5, -7, 1e-310, -1e-310, 12});
  expect_keys<int32_t>(table.keys32, {0, -1, 5, INT32_MAX, INT32_MIN, 17, -100});
  expect_keys<uint32_t>(table.keys32, {0, UINT32_MAX, 5, INT32_MAX, 17, 1u << 31});
  expect_keys<int64_t>(table.keys64, {0, -1, 5, INT64_MAX, INT64_MIN, 17, int64_t{1} << 40});
  expect_keys<uint64_t>(table.keys64, {0, UINT64_MAX, 5, INT64_MAX, 17, uint64_t{1} << 63});
  expect_keys<int16_t>(table.keys32, {0, -1, 5, INT16_MAX, INT16_MIN, 17});
  expect_keys<uint16_t>(table.keys32, {0, 5, UINT16_MAX, 1 << 15, 17});
  expect_keys<int8_t>(table.keys32, {0, -1, 5, INT8_MAX, INT8_MIN, 17});
  expect_keys<uint8_t>(table.keys32, {0, 5, UINT8_MAX, 1 << 7, 17});
}

// Rows of bits of S in the order `by`, and with smaller ones first.
template <typename S, typename B>
void expect_top_places(const KeyTable<B>& table, ElementOrder<B> by, const std::vector<S>& values) {
  for (bool largest : {true, false}) {
    if (!largest) by.flip = ~by.flip;
    for (bool nan_first : {true, false}) {
      by.nan = nan_first || largest ? std::numeric_limits<B>::max() : std::numeric_limits<B>::min();
      for (int64_t n : {1, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 200, 255, 256, 300, 1000}) {
        const std::vector<S> x = mixed(values, n);
        const auto key = [&](int64_t i) { return key_of(static_cast<B>(x[i]), by); };
        int64_t first = 0, last = 0;
        for (int64_t i = 1; i < n; ++i) {
          if (key(i) > key(first)) first = i;
          if (key(i) >= key(last)) last = i;
        }
        ASSERT_EQ(table.top_place(x.data(), sizeof(S), n, by, false), first) << "of " << n << ", largest " << largest;
        ASSERT_EQ(table.top_place(x.data(), sizeof(S), n, by, true), last) << "of " << n << ", largest " << largest;
      }
      // One that comes first, at each place.
      for (int64_t n : {5, 70, 150, 300}) {
        std::vector<S> x(n, values[0]);
        const bool rises = key_of(static_cast<B>(values[1]), by) > key_of(static_cast<B>(values[0]), by);
        for (int64_t i = 0; i < n && rises; ++i) {
          x[i] = values[1];
          ASSERT_EQ(table.top_place(x.data(), sizeof(S), n, by, false), i) << "of " << n;
          ASSERT_EQ(table.top_place(x.data(), sizeof(S), n, by, true), i) << "of " << n;
          x[i] = values[0];
        }
      }
    }
  }
}

template <typename S, typename B>
void expect_top_places_of_integers(const KeyTable<B>& table) {
  constexpr S kLeast = std::numeric_limits<S>::min(), kMost = std::numeric_limits<S>::max();
  for (B flip : {B(0), B(kLeast)}) {
    const ElementOrder<B> by{.flip = flip};
    expect_top_places<S>(table, by, {0, kMost, -1, 5, kLeast, 17});
    expect_top_places<S>(table, by, {17, -3, 5, 6, -100, 1, 16});
  }
}

// `one` and `infinity` are bits of a float.
template <typename S, typename B>
void expect_top_places_of_floats(const KeyTable<B>& table, S one, S infinity) {
  constexpr S kMost = std::numeric_limits<S>::max(), kSign = std::numeric_limits<S>::min();
  const auto minus = [](S bits) { return static_cast<S>(bits ^ kSign); };
  const ElementOrder<B> by{.signs = -1, .magnitude = kMost, .infinity = infinity};
  const S two = static_cast<S>(one + 1), nan = static_cast<S>(infinity + 1);
  expect_top_places<S>(table, by, {one, infinity, 0, minus(two), minus(0), minus(infinity), 1, minus(1)});
  expect_top_places<S>(table, by, {one, two, 0, minus(two), minus(0), 1, minus(1)});
  // All of one sign, and zeros of both signs that come first.
  expect_top_places<S>(table, by, {minus(two), minus(one), minus(infinity), minus(1)});
  expect_top_places<S>(table, by, {two, one, infinity, 1});
  expect_top_places<S>(table, by, {minus(one), 0, minus(two), minus(0)});
  expect_top_places<S>(table, by, {one, minus(0), two, 0});
  // NaNs of both signs, of each, and alone.
  expect_top_places<S>(table, by, {minus(one), nan, 0, minus(nan), one, kMost, infinity, minus(infinity)});
  expect_top_places<S>(table, by, {one, nan, minus(one), 0, two});
  expect_top_places<S>(table, by, {one, minus(nan), minus(one), 0, two});
  expect_top_places<S>(table, by, {infinity, minus(nan), minus(infinity)});
  expect_top_places<S>(table, by, {nan, minus(nan), kMost, S(-1)});
}

TEST_P(Lines, FirstAndLastPlacesOfTheLargestKeyOfARow) {
  const LineTable& table = line_table_of(GetParam());
  expect_top_places_of_integers<int8_t>(table.keys32);
  expect_top_places_of_integers<int16_t>(table.keys32);
  expect_top_places_of_integers<int32_t>(table.keys32);
  expect_top_places_of_integers<int64_t>(table.keys64);
  expect_top_places_of_floats<int16_t>(table.keys32, 0x3c00, 0x7c00);
  expect_top_places_of_floats<int16_t>(table.keys32, 0x3f80, 0x7f80);
  expect_top_places_of_floats<int32_t>(table.keys32, 0x3f800000, 0x7f800000);
  expect_top_places_of_floats<int64_t>(table.keys64, 0x3ff0000000000000, 0x7ff0000000000000);
}

INSTANTIATE_TEST_SUITE_P(Isas, Lines, testing::ValuesIn(testable_isas()),
                         [](const auto& info) { return isa_name(info.param); });

}  // namespace
}  // namespace tenon::cpu
