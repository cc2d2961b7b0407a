#include "abi/objects/key_value_pairs.h"

#include <algorithm>

#include "abi/objects/slots.h"
#include "abi/objects/status.h"

OrtKeyValuePairs::OrtKeyValuePairs(Map entries) : entries_(std::move(entries)) { index(); }

OrtKeyValuePairs& OrtKeyValuePairs::operator=(const OrtKeyValuePairs& other) {
  if (this != &other) {
    entries_ = other.entries_;
    index();
  }
  return *this;
}

void OrtKeyValuePairs::index() {
  keys_.clear();
  values_.clear();
  for (const auto& [key, value] : entries_) {
    keys_.push_back(key.c_str());
    values_.push_back(value.c_str());
  }
}

const char* OrtKeyValuePairs::find(std::string_view key) const {
  const auto entry = entries_.find(key);
  return entry == entries_.end() ? nullptr : entry->second.c_str();
}

void OrtKeyValuePairs::set(std::string_view key, std::string_view value) {
  if (key.empty()) return;
  if (const auto entry = entries_.find(key); entry != entries_.end()) {
    entry->second = value;
    index();
    return;
  }
  const auto added = entries_.emplace(key, value).first;
  keys_.push_back(added->first.c_str());
  values_.push_back(added->second.c_str());
}

void OrtKeyValuePairs::remove(std::string_view key) {
  const auto entry = entries_.find(key);
  if (entry == entries_.end()) return;
  const auto place = std::find(keys_.begin(), keys_.end(), entry->first.c_str());
  values_.erase(values_.begin() + (place - keys_.begin()));
  keys_.erase(place);
  entries_.erase(entry);
}

namespace tenon::abi {

void ort_api::CreateKeyValuePairs(OrtKeyValuePairs** out) noexcept {
  if (out != nullptr) *out = new OrtKeyValuePairs();
}

void ort_api::AddKeyValuePair(OrtKeyValuePairs* kvps, const char* key, const char* value) noexcept {
  if (kvps != nullptr && key != nullptr && value != nullptr) kvps->set(key, value);
}

const char* ort_api::GetKeyValue(const OrtKeyValuePairs* kvps, const char* key) noexcept {
  return kvps != nullptr && key != nullptr ? kvps->find(key) : nullptr;
}

void ort_api::GetKeyValuePairs(const OrtKeyValuePairs* kvps, const char* const** keys, const char* const** values,
                               size_t* num_entries) noexcept {
  clear(keys);
  clear(values);
  clear(num_entries);
  if (kvps == nullptr || keys == nullptr || values == nullptr || num_entries == nullptr) return;
  *keys = kvps->keys().data();
  *values = kvps->values().data();
  *num_entries = kvps->keys().size();
}

void ort_api::RemoveKeyValuePair(OrtKeyValuePairs* kvps, const char* key) noexcept {
  if (kvps != nullptr && key != nullptr) kvps->remove(key);
}

void ort_api::ReleaseKeyValuePairs(OrtKeyValuePairs* input) noexcept { delete input; }

}  // namespace tenon::abi
