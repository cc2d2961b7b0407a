// Ids that do not mix: an EP's number is no index of a memory space. Containers indexed by one kind of id alone.
//
//   struct SpaceTag;
//   using SpaceId = StrongId<SpaceTag>;
//   IdVector<SpaceId, MemorySpace> spaces;
//   const SpaceId space = spaces.push_back({});
//   for (SpaceId id : spaces.ids()) use(spaces[id]);
//
// Cost: an id is an int32_t, an index one sign extension; nothing is checked in release.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/status.h"

namespace tenon {

template <typename Tag>
class StrongId {
 public:
  // No id.
  constexpr StrongId() = default;
  template <std::integral Number>
  constexpr explicit StrongId(Number number) : value_(static_cast<int32_t>(number)) {}
  static constexpr StrongId none() { return {}; }

  constexpr bool valid() const { return value_ >= 0; }
  // -1: none. For reports, attributes and messages.
  constexpr int32_t value() const { return value_; }
  // For arrays that have no IdVector.
  constexpr size_t index() const { return static_cast<size_t>(value_); }

  friend constexpr auto operator<=>(StrongId, StrongId) = default;
  constexpr StrongId& operator++() {
    ++value_;
    return *this;
  }

 private:
  int32_t value_ = -1;
};

// The ids [first, end), for a range-based for.
template <typename Id>
class IdRange {
 public:
  class Iterator {
   public:
    constexpr explicit Iterator(Id id) : id_(id) {}
    constexpr Id operator*() const { return id_; }
    constexpr Iterator& operator++() {
      ++id_;
      return *this;
    }
    friend constexpr bool operator==(Iterator, Iterator) = default;

   private:
    Id id_;
  };

  constexpr IdRange(Id first, Id end) : first_(first), end_(end) {}
  constexpr Iterator begin() const { return Iterator(first_); }
  constexpr Iterator end() const { return Iterator(end_); }

 private:
  Id first_, end_;
};

// A view of elements that only an Id finds. The first one has the id kFirst.
template <typename Id, typename T, int32_t kFirst = 0>
class IdSpan {
 public:
  constexpr IdSpan() = default;
  constexpr explicit IdSpan(std::span<T> elements) : elements_(elements) {}

  constexpr T& operator[](Id id) const {
    TENON_DCHECK(contains(id));
    return elements_[static_cast<size_t>(id.value() - kFirst)];
  }
  constexpr bool contains(Id id) const {
    return id.value() >= kFirst && static_cast<size_t>(id.value() - kFirst) < elements_.size();
  }
  constexpr size_t size() const { return elements_.size(); }
  constexpr bool empty() const { return elements_.empty(); }
  constexpr auto begin() const { return elements_.begin(); }
  constexpr auto end() const { return elements_.end(); }
  constexpr IdRange<Id> ids() const { return {Id(kFirst), Id(elements_.size() + kFirst)}; }

 private:
  std::span<T> elements_;
};

// A vector that only an Id indexes. The first element has the id kFirst.
template <typename Id, typename T, int32_t kFirst = 0>
class IdVector {
 public:
  using value_type = T;
  using iterator = typename std::vector<T>::iterator;
  using const_iterator = typename std::vector<T>::const_iterator;

  IdVector() = default;
  IdVector(std::initializer_list<T> elements) : elements_(elements) {}
  explicit IdVector(std::vector<T> elements) : elements_(std::move(elements)) {}
  explicit IdVector(size_t size) : elements_(size) {}
  IdVector(size_t size, const T& value) : elements_(size, value) {}

  decltype(auto) operator[](Id id) { return elements_[offset(id)]; }
  decltype(auto) operator[](Id id) const { return elements_[offset(id)]; }
  bool contains(Id id) const {
    return id.value() >= kFirst && static_cast<size_t>(id.value() - kFirst) < elements_.size();
  }
  size_t size() const { return elements_.size(); }
  bool empty() const { return elements_.empty(); }
  auto begin() { return elements_.begin(); }
  auto begin() const { return elements_.begin(); }
  auto end() { return elements_.end(); }
  auto end() const { return elements_.end(); }
  IdRange<Id> ids() const { return {Id(kFirst), end_id()}; }
  // The id that the next element gets.
  Id end_id() const { return Id(elements_.size() + kFirst); }

  Id push_back(T element) {
    elements_.push_back(std::move(element));
    return Id(elements_.size() - 1 + kFirst);
  }
  template <typename... Args>
  T& emplace_back(Args&&... args) {
    return elements_.emplace_back(std::forward<Args>(args)...);
  }
  T& back() { return elements_.back(); }
  const T& back() const { return elements_.back(); }
  iterator erase(const_iterator first, const_iterator last) { return elements_.erase(first, last); }
  void resize(size_t size) { elements_.resize(size); }
  void resize(size_t size, const T& value) { elements_.resize(size, value); }
  void assign(size_t size, const T& value) { elements_.assign(size, value); }
  void reserve(size_t size) { elements_.reserve(size); }
  void shrink_to_fit() { elements_.shrink_to_fit(); }
  void clear() { elements_.clear(); }

  // The elements in the order of their ids, for code that needs no id.
  const std::vector<T>& elements() const { return elements_; }

  operator IdSpan<Id, const T, kFirst>() const { return IdSpan<Id, const T, kFirst>(elements_); }  // NOLINT: a view

  friend bool operator==(const IdVector&, const IdVector&) = default;

 private:
  static size_t offset(Id id) { return static_cast<size_t>(id.value() - kFirst); }

  std::vector<T> elements_;
};

}  // namespace tenon

template <typename Tag>
struct std::hash<tenon::StrongId<Tag>> {
  size_t operator()(tenon::StrongId<Tag> id) const noexcept { return std::hash<int32_t>()(id.value()); }
};

template <typename Tag>
struct fmt::formatter<tenon::StrongId<Tag>> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  template <typename Context>
  auto format(tenon::StrongId<Tag> id, Context& context) const {
    auto out = context.out();
    for (char digit : tenon::format("{}", id.value())) *out++ = digit;
    return out;
  }
};
