// JSON text that others hand us, read into values. Members keep their order; of two with one name the last counts.
//
// Errors: text that is not JSON (RFC 8259), deeper than 64 levels, or followed by more; the message has the byte.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tenon {

struct JsonMember;

struct JsonValue {
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };

  static Result<JsonValue> parse(std::string_view text);

  bool is_string() const { return kind == Kind::kString; }
  bool is_object() const { return kind == Kind::kObject; }
  // Null for what is no object, or has no such member.
  const JsonValue* find(std::string_view name) const;

  Kind kind = Kind::kNull;
  bool flag = false;
  std::string text;  // of a string, as UTF-8; of a number as it is written
  std::vector<JsonValue> elements;
  std::vector<JsonMember> members;
};

struct JsonMember {
  std::string name;
  JsonValue value;
};

}  // namespace tenon
