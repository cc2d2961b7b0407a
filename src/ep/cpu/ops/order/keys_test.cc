#include "ep/cpu/ops/order/keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "ep/cpu/ops/reference_types.h"

namespace tenon::cpu::ref {
namespace {

template <typename T>
bool comes_before(T a, T b, bool largest) {
  if (a != a || b != b) return largest ? a != a && b == b : a == a && b != b;
  return largest ? a > b : a < b;
}

template <typename T, typename B>
void expect_order(const std::vector<T>& x, const char* what) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<B> bits(n);
  std::memcpy(bits.data(), x.data(), n * sizeof(B));
  for (bool largest : {true, false}) {
    std::vector<int64_t> wanted(n);
    std::iota(wanted.begin(), wanted.end(), 0);
    std::stable_sort(wanted.begin(), wanted.end(),
                     [&](int64_t a, int64_t b) { return comes_before(x[a], x[b], largest); });
    const TypeOrder order = *type_order(TypeNumber<T>::value, largest, false);
    order.with_keys([&]<typename O>(const KeyTable<O>& table, const ElementOrder<O>& by) {
      if constexpr (std::is_same_v<O, B>) {
        std::vector<std::byte> room(order_room(sizeof(B), n) + 64);
        auto* const aligned = room.data() + (64 - reinterpret_cast<uintptr_t>(room.data()) % 64);
        for (int64_t k : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{10}, int64_t{50}, n / 9, n / 3, n}) {
          if (k > n) continue;
          const int64_t* const found = order_of(table, bits.data(), n, k, by, aligned);
          for (int64_t i = 0; i < k; ++i)
            ASSERT_EQ(found[i], wanted[i]) << what << ", place " << i << " of " << k << " in " << n;
        }
        ASSERT_EQ(top_place(table, bits.data(), sizeof(B), n, by, false), wanted[0]) << what << " of " << n;
        int64_t last = n - 1;
        while (comes_before(x[wanted[0]], x[last], largest)) --last;
        ASSERT_EQ(top_place(table, bits.data(), sizeof(B), n, by, true), last) << what << " of " << n;
      }
    });
  }
}

template <typename T, typename B>
void expect_orders(const std::vector<T>& special) {
  std::mt19937_64 random(7);
  for (int64_t n : {1, 3, 15, 16, 63, 64, 65, 127, 128, 300, 1000, 5000, 20000}) {
    std::vector<T> x(n);
    const auto rows = [&](const char* what, const auto& at) {
      for (int64_t i = 0; i < n; ++i) x[i] = at(i);
      expect_order<T, B>(x, what);
    };
    rows("random", [&](int64_t) { return static_cast<T>(static_cast<int64_t>(random()) >> 20); });
    rows("ties", [&](int64_t) { return static_cast<T>(random() % 5); });
    rows("equal", [&](int64_t) { return special[0]; });
    rows("special", [&](int64_t) { return special[random() % special.size()]; });
    rows("few special",
         [&](int64_t) { return static_cast<T>(random() % 40 == 0 ? special[random() % special.size()] : T(3)); });
    rows("ascending", [&](int64_t i) { return static_cast<T>(i); });
    rows("descending", [&](int64_t i) { return static_cast<T>(-i); });
    // All large ones are in one of the groups that are looked at first.
    rows("periodic", [&](int64_t i) { return static_cast<T>(i % 128 == 5 ? 1000 + i : i % 100); });
  }
}

TEST(Keys, OrderAndPlacesAreThoseOfAStableSort) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  expect_orders<float, int32_t>({-kInfinity, kInfinity, NAN, -NAN, 0.0f, -0.0f, 1e-40f, -3});
  expect_orders<double, int64_t>({NAN, -kInfinity, kInfinity, -NAN, 0.0, -0.0, 1e-310, -3});
  expect_orders<int32_t, int32_t>({INT32_MIN, INT32_MAX, 0, -1});
  expect_orders<uint32_t, int32_t>({UINT32_MAX, 0, 1u << 31, INT32_MAX});
  expect_orders<int64_t, int64_t>({INT64_MAX, INT64_MIN, 0, -1});
  expect_orders<uint64_t, int64_t>({0, UINT64_MAX, uint64_t{1} << 63, INT64_MAX});
}

TEST(Keys, NarrowElementsKeepTheirOrder) {
  const auto keys_of = [](DataType type, auto bits, bool largest) {
    std::vector<int32_t> wide(bits.size()), keys;
    const TypeOrder order = *type_order(type, largest, false);
    widen(bits.data(), sizeof(bits[0]), std::ssize(bits), wide.data());
    for (size_t i = 0; i < bits.size(); ++i) {
      keys.push_back(key_of(wide[i], order.by32));
      EXPECT_EQ(key_at(&bits[i], sizeof(bits[0]), order.by32), keys.back());
    }
    return keys;
  };
  for (bool largest : {true, false}) {
    // Of all numbers of 8 bits, in their order.
    std::vector<int8_t> ascending(256);
    std::iota(ascending.begin(), ascending.end(), INT8_MIN);
    std::vector<uint8_t> counted(256);
    std::iota(counted.begin(), counted.end(), 0);
    std::vector<int32_t> of_signed = keys_of(DataType::kInt8, ascending, largest);
    std::vector<int32_t> of_unsigned = keys_of(DataType::kUint8, counted, largest);
    for (std::vector<int32_t>* keys : {&of_signed, &of_unsigned}) {
      if (!largest) std::reverse(keys->begin(), keys->end());
      EXPECT_TRUE(std::adjacent_find(keys->begin(), keys->end(), std::greater_equal<>()) == keys->end());
    }
    // -infinity, -1, -0, 0, the smallest, 1, infinity and two NaNs.
    for (DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
      const uint16_t one = type == DataType::kFloat16 ? 0x3c00 : 0x3f80,
                     most = type == DataType::kFloat16 ? 0x7c00 : 0x7f80;
      const std::vector<uint16_t> bits = {static_cast<uint16_t>(most | 0x8000),
                                          static_cast<uint16_t>(one | 0x8000),
                                          0x8000,
                                          0,
                                          1,
                                          one,
                                          most,
                                          0x7fff,
                                          0xffff};
      const std::vector<int32_t> keys = keys_of(type, bits, largest);
      for (size_t i = 0; i + 1 < keys.size(); ++i) {
        const bool same = i == 2 || i == 7;
        EXPECT_TRUE(same ? keys[i] == keys[i + 1] : largest ? keys[i] < keys[i + 1] : keys[i] > keys[i + 1]) << i;
      }
    }
  }
}

TEST(Keys, TopPlacesOfLongNarrowRowsAreThoseOfTheirKeys) {
  std::mt19937_64 random(7);
  const auto expect_places = [&]<typename S>(DataType type, S) {
    for (bool largest : {true, false}) {
      const ElementOrder<int32_t> by = type_order(type, largest, true)->by32;
      for (int64_t n : {20, 8192, 8193, 16384, 16385, 50000}) {
        std::vector<S> x(n);
        // All bits there are, NaNs among them, or few of the smallest ones.
        for (uint64_t count : {uint64_t{1} << 16, uint64_t{7}}) {
          for (S& one : x) one = static_cast<S>(random() % count);
          const auto key = [&](int64_t i) { return key_at(&x[i], sizeof(S), by); };
          int64_t first = 0, last = 0;
          for (int64_t i = 1; i < n; ++i) {
            if (key(i) > key(first)) first = i;
            if (key(i) >= key(last)) last = i;
          }
          const KeyTable<int32_t>& table = line_table().keys32;
          EXPECT_EQ(top_place(table, x.data(), sizeof(S), n, by, false), first) << n << " of " << data_type_name(type);
          EXPECT_EQ(top_place(table, x.data(), sizeof(S), n, by, true), last) << n << " of " << data_type_name(type);
        }
      }
    }
  };
  for (DataType type : {DataType::kFloat16, DataType::kBfloat16, DataType::kInt16, DataType::kUint16})
    expect_places(type, int16_t());
  for (DataType type : {DataType::kInt8, DataType::kUint8}) expect_places(type, int8_t());
}

TEST(Keys, OfTextThereAreNone) { EXPECT_FALSE(type_order(DataType::kString, true, false)); }

}  // namespace
}  // namespace tenon::cpu::ref
