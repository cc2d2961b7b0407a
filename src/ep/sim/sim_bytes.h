// Writes and reads the bytes of a compiled program: numbers of eight bytes, texts and lists with their length first.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::sim {

class ByteWriter {
 public:
  void number(uint64_t value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value)); }
  void text(std::string_view value) {
    number(value.size());
    bytes_.append(value);
  }
  template <typename List>
  void list(const List& values) {
    number(values.size());
    for (auto value : values) number(static_cast<uint64_t>(static_cast<int64_t>(value)));
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Past the end everything is 0 or empty, and ok() is false from then on.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  uint64_t number() {
    uint64_t value = 0;
    const std::string_view raw = take(sizeof(value));
    if (!raw.empty()) std::memcpy(&value, raw.data(), sizeof(value));
    return value;
  }
  std::string_view text() { return take(number()); }
  template <typename T>
  std::vector<T> list() {
    std::vector<T> values;
    const uint64_t count = number();
    if (count > rest_.size() / sizeof(uint64_t)) ok_ = false;
    for (uint64_t i = 0; i < count && ok_; ++i) values.push_back(static_cast<T>(static_cast<int64_t>(number())));
    return values;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view take(uint64_t size_bytes) {
    if (size_bytes > rest_.size()) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    const std::string_view taken = rest_.substr(0, size_bytes);
    rest_.remove_prefix(size_bytes);
    return taken;
  }
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace tenon::sim
