// Every pair of types, beside conversions of single numbers that are written down another way.
#include "ep/cpu/ops/elementwise/casts.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <vector>

#include "ep/cpu/ops/reference_types.h"

namespace tenon::cpu {
namespace {

using ref::Bool, ref::BFloat16, ref::Float16;

template <typename T>
std::vector<T> values() {
  if constexpr (std::is_same_v<T, Bool>) {
    return {std::bit_cast<Bool>(uint8_t{0}), std::bit_cast<Bool>(uint8_t{1}), std::bit_cast<Bool>(uint8_t{2}),
            std::bit_cast<Bool>(uint8_t{255})};
  } else if constexpr (std::is_integral_v<T>) {
    using Limits = std::numeric_limits<T>;
    std::vector<T> all = {0, 1, static_cast<T>(-1), Limits::max(), Limits::min(), 100};
    for (int bit = 0; bit < static_cast<int>(8 * sizeof(T)); ++bit)
      for (int beside : {-1, 0, 1}) {
        const auto x = static_cast<T>((uint64_t{1} << bit) + static_cast<uint64_t>(beside));
        all.push_back(x);
        all.push_back(static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x)));
      }
    return all;
  } else {
    std::vector<T> all;
    for (double x : {0.0,      0.4,     0.5,        1.0,        1.5,          126.9,
                     127.0,    128.0,   255.5,      256.0,      32767.5,      32768.0,
                     65504.0,  65519.9, 65520.0,    65536.0,    2147483520.0, 2147483647.5,
                     0x1p31,   0x1p32,  0x1p32 + 1, 0x1p53 + 2, 0x1p62,       0x1p63,
                     0x1.8p63, 0x1p64,  1e-7,       5.96e-8,    1e-30,        1e-40,
                     1e-46,    3.38e38, 3.4e38,     1e39,       1e300,        std::numeric_limits<double>::infinity()})
      for (double sign : {1.0, -1.0})
        all.push_back(
            static_cast<T>(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(sign * x)));
    all.push_back(static_cast<T>(std::numeric_limits<float>::quiet_NaN()));
    return all;
  }
}

// Cut off, in 128 bits; the lowest number of I where that holds no such number.
template <typename I>
I cut_off(double x) {
  using Limits = std::numeric_limits<I>;
  if (std::isnan(x) || std::abs(x) > 1e30) return Limits::min();
  const auto whole = static_cast<__int128>(x);
  return whole < Limits::min() || whole > Limits::max() ? Limits::min() : static_cast<I>(whole);
}

template <typename To, typename From>
To wanted(From x) {
  using C = ref::Compute<From>;
  const C value = static_cast<C>(x);
  if constexpr (std::is_same_v<To, From> && !std::is_same_v<To, Bool>) {
    return x;
  } else if constexpr (std::is_same_v<To, Bool>) {
    return Bool(value);
  } else if constexpr (ref::is_float<From> && std::is_integral_v<To>) {
    const auto number = static_cast<double>(value);
    if constexpr (sizeof(To) < 4) return static_cast<To>(cut_off<int32_t>(number));
    if constexpr (sizeof(To) >= 4) {
      using Signed = std::make_signed_t<To>;
      constexpr double kHalf = -static_cast<double>(std::numeric_limits<Signed>::min());
      if (std::is_unsigned_v<To> && number >= kHalf)
        return static_cast<To>(static_cast<To>(cut_off<Signed>(number - kHalf)) + (To{1} << (8 * sizeof(To) - 1)));
      return static_cast<To>(cut_off<Signed>(number));
    }
  } else if constexpr (std::is_integral_v<From> && ref::is_half<To>) {
    return To(static_cast<double>(value));
  } else {
    return static_cast<To>(value);
  }
}

// Which tell the sign of a zero.
template <typename T>
auto bits_of(T value) {
  return std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
}

template <typename From, typename To>
void expect_cast() {
  const std::vector<From> some = values<From>();
  // More than a block of what lies between two steps, and a number of elements that no vector divides.
  std::vector<From> x;
  while (x.size() < 2048 + 13) x.push_back(some[x.size() % some.size()]);
  const DataType from = ref::TypeNumber<From>::value, to = ref::TypeNumber<To>::value;
  const CastSteps steps(from, to);
  ASSERT_TRUE(steps);
  for (size_t n : {size_t{0}, size_t{1}, size_t{19}, x.size()}) {
    std::vector<To> y(n + 1, To(1));
    steps.run(x.data(), y.data(), static_cast<int64_t>(n));
    for (size_t i = 0; i < n; ++i) {
      const To want = wanted<To>(x[i]);
      if constexpr (ref::is_float<To>) {
        if (std::isnan(static_cast<ref::Compute<To>>(want))) {
          EXPECT_TRUE(std::isnan(static_cast<ref::Compute<To>>(y[i])));
          continue;
        }
      }
      ASSERT_EQ(bits_of(y[i]), bits_of(want)) << data_type_name(from) << " to " << data_type_name(to) << ", element "
                                              << i << ", " << static_cast<double>(static_cast<ref::Compute<From>>(x[i]))
                                              << ", not " << static_cast<double>(static_cast<ref::Compute<To>>(y[i]));
    }
    EXPECT_EQ(bits_of(y[n]), bits_of(To(1)));
  }
  if constexpr (sizeof(From) == sizeof(To)) {
    std::vector<From> y = x;
    steps.run(y.data(), y.data(), std::ssize(y));
    std::vector<To> apart(x.size());
    steps.run(x.data(), apart.data(), std::ssize(x));
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(bits_of(y[i]), bits_of(apart[i]))
          << data_type_name(from) << " to " << data_type_name(to) << " in place";
  }
}

template <typename From, typename... To>
void expect_casts_to(ref::TypeList<To...>) {
  (expect_cast<From, To>(), ...);
}

template <typename... From>
void expect_casts_from(ref::TypeList<From...>) {
  (expect_casts_to<From>(ref::AllTypes()), ...);
}

TEST(Casts, OfEveryPairOfTypes) { expect_casts_from(ref::AllTypes()); }

TEST(Casts, NoneOfStrings) {
  EXPECT_FALSE(CastSteps(DataType::kString, DataType::kFloat));
  EXPECT_FALSE(CastSteps(DataType::kFloat, DataType::kFloat8E5M2));
}

}  // namespace
}  // namespace tenon::cpu
