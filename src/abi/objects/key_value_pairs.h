// OrtKeyValuePairs: text by key, and the arrays of pointers that GetKeyValuePairs hands out. They list the pairs as
// they were added; replacing a value sorts them by key, as in the reference.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

struct OrtKeyValuePairs {
  using Map = std::map<std::string, std::string, std::less<>>;

  OrtKeyValuePairs() = default;
  explicit OrtKeyValuePairs(Map entries);
  OrtKeyValuePairs(const OrtKeyValuePairs& other) : OrtKeyValuePairs(other.entries_) {}
  OrtKeyValuePairs& operator=(const OrtKeyValuePairs& other);

  const Map& entries() const { return entries_; }
  // Null for a key that is not there. The text lives until the pair is changed or removed.
  const char* find(std::string_view key) const;
  // Replaces the value of a key that is there; an empty key is ignored, as the reference does.
  void set(std::string_view key, std::string_view value);
  void remove(std::string_view key);
  const std::vector<const char*>& keys() const { return keys_; }
  const std::vector<const char*>& values() const { return values_; }

 private:
  void index();
  Map entries_;
  std::vector<const char*> keys_;
  std::vector<const char*> values_;
};
