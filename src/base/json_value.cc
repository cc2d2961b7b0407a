#include "base/json_value.h"

#include <utility>

namespace tenon {

namespace {

constexpr int kMostLevels = 64;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(uint32_t code, std::string& out) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<JsonValue> whole() {
    TENON_TRY_ASSIGN(JsonValue value, this->value(0));
    skip_space();
    if (at_ < text_.size()) return wrong("the end");
    return value;
  }

 private:
  Status wrong(std::string_view wanted) const {
    return invalid_argument("The JSON text has something else than {} at byte {} of {}.", wanted, at_, text_.size());
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take_word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  Result<JsonValue> value(int level) {
    if (level >= kMostLevels) return wrong(format("a value within {} levels", kMostLevels));
    skip_space();
    JsonValue made;
    if (peek() == '{') return object(level);
    if (peek() == '[') return array(level);
    if (peek() == '"') {
      made.kind = JsonValue::Kind::kString;
      TENON_TRY_ASSIGN(made.text, string());
      return made;
    }
    if (peek() == '-' || is_digit(peek())) return number();
    if (take_word("null")) return made;
    made.kind = JsonValue::Kind::kBool;
    made.flag = take_word("true");
    if (!made.flag && !take_word("false")) return wrong("a value");
    return made;
  }

  Result<JsonValue> object(int level) {
    JsonValue made;
    made.kind = JsonValue::Kind::kObject;
    ++at_;
    skip_space();
    if (take('}')) return made;
    do {
      skip_space();
      if (peek() != '"') return wrong("a member's name");
      TENON_TRY_ASSIGN(std::string name, string());
      skip_space();
      if (!take(':')) return wrong("':'");
      TENON_TRY_ASSIGN(JsonValue member, value(level + 1));
      if (auto* known = const_cast<JsonValue*>(made.find(name)); known != nullptr) {
        *known = std::move(member);
      } else {
        made.members.push_back({std::move(name), std::move(member)});
      }
      skip_space();
    } while (take(','));
    if (!take('}')) return wrong("',' or '}'");
    return made;
  }

  Result<JsonValue> array(int level) {
    JsonValue made;
    made.kind = JsonValue::Kind::kArray;
    ++at_;
    skip_space();
    if (take(']')) return made;
    do {
      TENON_TRY_ASSIGN(JsonValue element, value(level + 1));
      made.elements.push_back(std::move(element));
      skip_space();
    } while (take(','));
    if (!take(']')) return wrong("',' or ']'");
    return made;
  }

  Result<JsonValue> number() {
    const size_t begin = at_;
    take('-');
    if (!take('0')) TENON_TRY(digits());
    if (take('.')) TENON_TRY(digits());
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      TENON_TRY(digits());
    }
    JsonValue made;
    made.kind = JsonValue::Kind::kNumber;
    made.text = std::string(text_.substr(begin, at_ - begin));
    return made;
  }
  Status digits() {
    if (!is_digit(peek())) return wrong("a digit");
    while (is_digit(peek())) ++at_;
    return Status();
  }

  Result<std::string> string() {
    std::string made;
    ++at_;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (static_cast<unsigned char>(text_[at_]) < 0x20) return wrong("a character of a string");
      if (text_[at_] != '\\') {
        made += text_[at_++];
        continue;
      }
      ++at_;
      TENON_TRY(escape(made));
    }
    if (!take('"')) return wrong("'\"'");
    return made;
  }

  Status escape(std::string& out) {
    constexpr std::string_view kNames = "\"\\/bfnrt", kValues = "\"\\/\b\f\n\r\t";
    if (take('u')) return unicode(out);
    const size_t index = at_ < text_.size() ? kNames.find(text_[at_]) : std::string_view::npos;
    if (index == std::string_view::npos) return wrong("an escape");
    out += kValues[index];
    ++at_;
    return Status();
  }

  Status unicode(std::string& out) {
    TENON_TRY_ASSIGN(uint32_t code, hex());
    const bool high = code >= 0xD800 && code < 0xDC00;
    if (high) {
      if (!take('\\') || !take('u')) return wrong("the second half of a surrogate pair");
      TENON_TRY_ASSIGN(const uint32_t low, hex());
      if (low < 0xDC00 || low >= 0xE000) return wrong("the second half of a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code < 0xE000) {
      return wrong("the first half of a surrogate pair");
    }
    append_utf8(code, out);
    return Status();
  }

  Result<uint32_t> hex() {
    uint32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = peek();
      const int digit = is_digit(c)            ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return wrong("four hexadecimal digits");
      code = code * 16 + static_cast<uint32_t>(digit);
      ++at_;
    }
    return code;
  }

  const std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Result<JsonValue> JsonValue::parse(std::string_view text) { return Parser(text).whole(); }

const JsonValue* JsonValue::find(std::string_view name) const {
  for (const auto& [key, value] : members)
    if (key == name) return &value;
  return nullptr;
}

}  // namespace tenon
