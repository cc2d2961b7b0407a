// From a name to the rows of a table that carry it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace tenon {

// Rows are numbers from 0 in the order in which they were added; several may have one name. Made once and then only
// read, from any thread. Loading a model in a new process pays for the memory of the tables that it reads: this one
// takes 16 bytes and two links a row. At most 32,767 rows.
// Lifetime: the characters of the names outlive the index.
class NameIndex {
 public:
  static constexpr int16_t kNone = -1;

  // `capacity`: the number of rows that will be added, at most.
  explicit NameIndex(size_t capacity) {
    size_t buckets = 16;
    while (buckets < capacity) buckets *= 2;
    buckets_.assign(buckets, {kNone, kNone});
    rows_.reserve(capacity);
  }

  void add(std::string_view name) {
    const auto row = static_cast<int16_t>(rows_.size());
    Bucket& bucket = buckets_[bucket_of(name)];
    rows_.push_back({name.data(), static_cast<uint16_t>(name.size()), kNone});
    if (bucket.first == kNone) {
      bucket.first = row;
    } else {
      rows_[static_cast<size_t>(bucket.last)].next = row;
    }
    bucket.last = row;
  }

  // The first row of that name, and the next one after `row`; kNone where there is none.
  int32_t first(std::string_view name) const { return at_or_after(buckets_[bucket_of(name)].first, name); }
  int32_t next(int32_t row) const {
    const Row& now = rows_[static_cast<size_t>(row)];
    return at_or_after(now.next, now.name());
  }

 private:
  struct Row {
    const char* characters;
    uint16_t size;
    int16_t next;  // of the same bucket

    std::string_view name() const { return {characters, size}; }
  };
  struct Bucket {
    int16_t first, last;
  };

  // The length, and the first and last eight characters: names of operators differ there.
  size_t bucket_of(std::string_view name) const {
    uint64_t head = 0, tail = 0;
    const size_t size = name.size() < sizeof(head) ? name.size() : sizeof(head);
    if (size > 0) {
      std::memcpy(&head, name.data(), size);
      std::memcpy(&tail, name.data() + name.size() - size, size);
    }
    const uint64_t mixed = (head ^ (tail << 7 | tail >> 57) ^ name.size()) * 0x9E3779B97F4A7C15u;
    return static_cast<size_t>(mixed >> 32) & (buckets_.size() - 1);
  }

  int32_t at_or_after(int32_t row, std::string_view name) const {
    while (row != kNone && rows_[static_cast<size_t>(row)].name() != name) row = rows_[static_cast<size_t>(row)].next;
    return row;
  }

  std::vector<Bucket> buckets_;
  std::vector<Row> rows_;
};

}  // namespace tenon
