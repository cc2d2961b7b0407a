// Reads a regular expression and writes its program.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "ep/cpu/ops/text/code_points.h"
#include "ep/cpu/ops/text/regex.h"

namespace tenon::cpu::ref {

namespace {

using Ranges = std::vector<Regex::Range>;

constexpr char32_t kMostCode = 0x10FFFF;
constexpr int kMostRepeats = 1000;  // as in RE2
constexpr size_t kMostInstructions = 200'000;
constexpr int kMostNested = 200;

struct NamedClass {
  std::string_view name;
  std::array<Regex::Range, 4> ranges;  // up to the first {0, 0} behind the first
};
constexpr Regex::Range kNo = {0, 0};
constexpr NamedClass kPosix[] = {
    {"alnum", {{{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, kNo}}},
    {"alpha", {{{'A', 'Z'}, {'a', 'z'}, kNo, kNo}}},
    {"ascii", {{{0, 0x7F}, kNo, kNo, kNo}}},
    {"blank", {{{'\t', '\t'}, {' ', ' '}, kNo, kNo}}},
    {"cntrl", {{{0, 0x1F}, {0x7F, 0x7F}, kNo, kNo}}},
    {"digit", {{{'0', '9'}, kNo, kNo, kNo}}},
    {"graph", {{{'!', '~'}, kNo, kNo, kNo}}},
    {"lower", {{{'a', 'z'}, kNo, kNo, kNo}}},
    {"print", {{{' ', '~'}, kNo, kNo, kNo}}},
    {"punct", {{{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}}},
    {"space", {{{'\t', '\r'}, {' ', ' '}, kNo, kNo}}},
    {"upper", {{{'A', 'Z'}, kNo, kNo, kNo}}},
    {"word", {{{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}}}},
    {"xdigit", {{{'0', '9'}, {'A', 'F'}, {'a', 'f'}, kNo}}},
};

Ranges ranges_of(const NamedClass& named) {
  Ranges ranges = {named.ranges[0]};
  for (size_t i = 1; i < named.ranges.size() && named.ranges[i].last != 0; ++i) ranges.push_back(named.ranges[i]);
  return ranges;
}

// Sorted, without overlaps.
void tidy(Ranges& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Ranges merged;
  for (const Regex::Range& range : ranges) {
    if (!merged.empty() && range.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  ranges = std::move(merged);
}

void negate(Ranges& ranges) {
  tidy(ranges);
  Ranges rest;
  char32_t begin = 0;
  for (const Regex::Range& range : ranges) {
    if (range.first > begin) rest.push_back({begin, range.first - 1});
    begin = range.last + 1;
  }
  if (begin <= kMostCode) rest.push_back({begin, kMostCode});
  ranges = std::move(rest);
}

// Letters of ASCII in the other case as well.
void add_other_case(Ranges& ranges) {
  const size_t count = ranges.size();
  for (size_t i = 0; i < count; ++i) {
    const auto add = [&](char32_t first, char32_t last, int shift) {
      const char32_t from = std::max(ranges[i].first, first), to = std::min(ranges[i].last, last);
      if (from <= to) ranges.push_back({from + shift, to + shift});
    };
    add('A', 'Z', 'a' - 'A');
    add('a', 'z', 'A' - 'a');
  }
}

// \d \w \s and their negations.
std::optional<Ranges> perl_class(char32_t code) {
  Ranges ranges;
  switch (code) {
    case 'd':
    case 'D':
      ranges = {{'0', '9'}};
      break;
    case 'w':
    case 'W':
      ranges = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
      break;
    case 's':
    case 'S':
      ranges = {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};
      break;
    default:
      return std::nullopt;
  }
  if (code < 'a') negate(ranges);
  return ranges;
}

int digit_of(char32_t code, int base) {
  int digit = -1;
  if (code >= '0' && code <= '9') digit = static_cast<int>(code - '0');
  if (code >= 'a' && code <= 'f') digit = static_cast<int>(code - 'a') + 10;
  if (code >= 'A' && code <= 'F') digit = static_cast<int>(code - 'A') + 10;
  return digit < base ? digit : -1;
}

// A part of the expression, as a tree.
struct Part {
  enum class Kind : uint8_t { kEmpty, kRanges, kAssert, kSequence, kAlternatives, kRepeat };
  Kind kind = Kind::kEmpty;
  Ranges ranges;
  Regex::Place place = Regex::Place::kTextBegin;
  std::vector<Part> parts;
  int least = 0, most = -1;  // kRepeat; -1: without end
};

}  // namespace

class RegexCompiler {
 public:
  explicit RegexCompiler(std::string_view pattern) : pattern_(pattern) {}

  Result<Regex> run() {
    TENON_TRY_ASSIGN(const Part whole, alternatives(0));
    if (at_ < pattern_.size()) return wrong("an unmatched \")\"");
    const uint32_t match = add({.op = Regex::Op::kMatch});
    TENON_TRY_ASSIGN(regex_.start_, write(whole, match));
    regex_.find_repeated_class();
    regex_.make_table();
    return std::move(regex_);
  }

 private:
  struct Flags {
    bool other_case = false, dot_is_all = false, lines = false;
  };

  Status wrong(std::string_view what) const {
    return invalid_argument("The regular expression \"{}\" has {} at byte {}.", pattern_, what, at_);
  }
  bool done() const { return at_ >= pattern_.size(); }
  bool looking_at(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool take(std::string_view text) {
    if (!looking_at(text)) return false;
    at_ += text.size();
    return true;
  }
  Result<char32_t> take_code() {
    if (done()) return wrong("an end that is too early");
    const CodePoint point = next_code_point(pattern_.substr(at_));
    if (!point.valid) return wrong("a byte that is not UTF-8");
    at_ += point.length;
    return point.code;
  }

  // --- reading ---

  Result<Part> alternatives(int nested) {
    if (nested > kMostNested) return wrong("groups that nest too deep");
    const Flags outer = flags_;
    Part result{.kind = Part::Kind::kAlternatives};
    do {
      TENON_TRY_ASSIGN(Part one, sequence(nested));
      result.parts.push_back(std::move(one));
    } while (take("|"));
    flags_ = outer;
    return result;
  }

  Result<Part> sequence(int nested) {
    Part result{.kind = Part::Kind::kSequence};
    while (!done() && !looking_at("|") && !looking_at(")")) {
      if (take("\\Q")) {
        while (!done() && !take("\\E")) {
          TENON_TRY_ASSIGN(const char32_t code, take_code());
          result.parts.push_back(literal(code));
        }
        continue;
      }
      TENON_TRY_ASSIGN(Part part, atom(nested));
      TENON_TRY(repeat(part));
      result.parts.push_back(std::move(part));
    }
    return result;
  }

  Part literal(char32_t code) const { return one_of({{code, code}}); }
  Part one_of(Ranges ranges) const {
    if (flags_.other_case) add_other_case(ranges);
    tidy(ranges);
    return {.kind = Part::Kind::kRanges, .ranges = std::move(ranges)};
  }
  static Part place(Regex::Place place) { return {.kind = Part::Kind::kAssert, .place = place}; }

  Result<Part> atom(int nested) {
    if (take("(")) return group(nested);
    if (take("[")) return char_class();
    if (take("^")) return place(flags_.lines ? Regex::Place::kLineBegin : Regex::Place::kTextBegin);
    if (take("$")) return place(flags_.lines ? Regex::Place::kLineEnd : Regex::Place::kTextEnd);
    if (take(".")) {
      Ranges ranges = {{'\n', '\n'}};
      if (flags_.dot_is_all) ranges.clear();
      negate(ranges);
      return Part{.kind = Part::Kind::kRanges, .ranges = std::move(ranges)};
    }
    if (looking_at("*") || looking_at("+") || looking_at("?")) return wrong("a repetition of nothing");
    if (take("\\")) return escaped();
    TENON_TRY_ASSIGN(const char32_t code, take_code());
    return literal(code);
  }

  Result<Part> escaped() {
    if (take("A")) return place(Regex::Place::kTextBegin);
    if (take("z")) return place(Regex::Place::kTextEnd);
    if (take("b")) return place(Regex::Place::kWordEdge);
    if (take("B")) return place(Regex::Place::kNoWordEdge);
    if (!done()) {
      if (std::optional<Ranges> named = perl_class(static_cast<unsigned char>(pattern_[at_]))) {
        ++at_;
        return one_of(*std::move(named));
      }
    }
    TENON_TRY_ASSIGN(const char32_t code, escaped_code());
    return literal(code);
  }

  // Behind a backslash.
  Result<char32_t> escaped_code() {
    if (looking_at("p") || looking_at("P") || looking_at("C"))
      return unsupported("The regular expression \"{}\" has \\{} at byte {}, which Tenon does not match.", pattern_,
                         pattern_[at_], at_);
    const size_t begin = at_;
    TENON_TRY_ASSIGN(const char32_t code, take_code());
    switch (code) {
      case 'a':
        return U'\a';
      case 'f':
        return U'\f';
      case 'n':
        return U'\n';
      case 'r':
        return U'\r';
      case 't':
        return U'\t';
      case 'v':
        return U'\v';
      case 'x':
        return hexadecimal();
      default:
        break;
    }
    if (code >= '0' && code <= '7') {
      // One digit but 0 would be a reference.
      const bool octal = code == '0' || (!done() && pattern_[at_] >= '0' && pattern_[at_] <= '7');
      if (!octal) {
        at_ = begin;
        return wrong("a reference to a group");
      }
      char32_t value = code - '0';
      for (int i = 0; i < 2 && !done() && pattern_[at_] >= '0' && pattern_[at_] <= '7'; ++i)
        value = value * 8 + (pattern_[at_++] - '0');
      return value;
    }
    const bool letter = (code >= 'A' && code <= 'Z') || (code >= 'a' && code <= 'z') || code == '8' || code == '9';
    if (letter) {
      at_ = begin;
      return wrong("an escape that there is not");
    }
    return code;
  }

  Result<char32_t> hexadecimal() {
    const bool braces = take("{");
    char32_t value = 0;
    int digits = 0;
    while (!done() && (braces || digits < 2)) {
      const int digit = digit_of(static_cast<unsigned char>(pattern_[at_]), 16);
      if (digit < 0) break;
      value = value * 16 + digit;
      if (value > kMostCode) return wrong("a code that is no character");
      ++digits;
      ++at_;
    }
    if (digits == 0 || (!braces && digits < 2) || (braces && !take("}"))) return wrong("a code that is not complete");
    return value;
  }

  Result<Part> group(int nested) {
    if (take("?")) {
      if (looking_at("P<") || looking_at("<")) {
        const size_t begin = pattern_.find('<', at_) + 1;
        const size_t end = pattern_.find('>', at_);
        if (begin < pattern_.size() && (pattern_[begin] == '=' || pattern_[begin] == '!'))
          return wrong("a condition on what comes before, which is not part of the syntax,");
        if (end == std::string_view::npos || end == begin) return wrong("a group's name that does not end");
        at_ = end + 1;
      } else {
        TENON_TRY_ASSIGN(const bool closed, read_flags());
        if (closed) return Part{};
      }
    }
    const Flags outer = before_group_.value_or(flags_);
    before_group_.reset();
    TENON_TRY_ASSIGN(Part inner, alternatives(nested + 1));
    flags_ = outer;
    if (!take(")")) return wrong("a group that does not end");
    return inner;
  }

  // "(?i)" holds to the end of the group around it, "(?i:" in its own. True for the former.
  Result<bool> read_flags() {
    const Flags outer = flags_;
    bool on = true;
    while (true) {
      if (take(")")) return true;
      if (take(":")) {
        before_group_ = outer;
        return false;
      }
      if (take("-")) {
        on = false;
      } else if (take("i")) {
        flags_.other_case = on;
      } else if (take("s")) {
        flags_.dot_is_all = on;
      } else if (take("m")) {
        flags_.lines = on;
      } else if (!take("U")) {
        return wrong("a group of a kind that there is not");
      }
    }
  }

  Result<Part> char_class() {
    const size_t begin = at_;
    const bool negated = take("^");
    Ranges ranges;
    bool first = true;
    while (first || !looking_at("]")) {
      if (done()) {
        at_ = begin;
        return wrong("a class that does not end");
      }
      if (looking_at("[:")) {
        TENON_TRY(named_class(ranges));
        first = false;
        continue;
      }
      first = false;
      if (looking_at("\\") && at_ + 1 < pattern_.size()) {
        if (std::optional<Ranges> named = perl_class(static_cast<unsigned char>(pattern_[at_ + 1]))) {
          at_ += 2;
          ranges.insert(ranges.end(), named->begin(), named->end());
          continue;
        }
      }
      TENON_TRY_ASSIGN(const char32_t low, class_code());
      char32_t high = low;
      if (looking_at("-") && !looking_at("-]")) {
        ++at_;
        TENON_TRY_ASSIGN(high, class_code());
        if (high < low) return wrong("a range whose end is before its beginning");
      }
      ranges.push_back({low, high});
    }
    ++at_;
    if (flags_.other_case) add_other_case(ranges);
    if (negated) negate(ranges);
    tidy(ranges);
    return Part{.kind = Part::Kind::kRanges, .ranges = std::move(ranges)};
  }

  Result<char32_t> class_code() { return take("\\") ? escaped_code() : take_code(); }

  Status named_class(Ranges& ranges) {
    const size_t end = pattern_.find(":]", at_);
    if (end == std::string_view::npos) return wrong("a class's name that does not end");
    std::string_view name = pattern_.substr(at_ + 2, end - at_ - 2);
    const bool negated = name.starts_with("^");
    if (negated) name.remove_prefix(1);
    for (const NamedClass& named : kPosix) {
      if (named.name != name) continue;
      Ranges found = ranges_of(named);
      if (negated) negate(found);
      ranges.insert(ranges.end(), found.begin(), found.end());
      at_ = end + 2;
      return {};
    }
    return wrong("a class that there is not");
  }

  // What stands behind an atom.
  Status repeat(Part& part) {
    bool repeated = false;
    while (true) {
      int least = 0, most = -1;
      if (take("*")) {
      } else if (take("+")) {
        least = 1;
      } else if (take("?")) {
        most = 1;
      } else if (!counts(least, most)) {
        return {};
      }
      if (repeated) return wrong("a repetition of a repetition");
      if (least > kMostRepeats || most > kMostRepeats || (most >= 0 && most < least))
        return wrong("a number of repetitions that is too large");
      (void)take("?");  // lazy: the same texts match
      Part inner = std::move(part);
      part = Part{.kind = Part::Kind::kRepeat, .least = least, .most = most};
      part.parts.push_back(std::move(inner));
      repeated = true;
    }
  }

  // "{2}", "{2,}" or "{2,5}"; anything else with a brace stands for itself.
  bool counts(int& least, int& most) {
    const size_t begin = at_;
    const auto number = [&](int& value) {
      const size_t first = at_;
      value = 0;
      while (!done() && pattern_[at_] >= '0' && pattern_[at_] <= '9')
        value = std::min(value * 10 + (pattern_[at_++] - '0'), kMostRepeats + 1);
      return at_ > first;
    };
    if (take("{") && number(least)) {
      most = least;
      if (take(",") && !number(most)) most = -1;
      if (take("}")) return true;
    }
    at_ = begin;
    least = 0;
    most = -1;
    return false;
  }

  // --- writing: each part goes on to `next`, and the result is where it begins ---

  uint32_t add(Regex::Instruction instruction) {
    regex_.program_.push_back(instruction);
    return static_cast<uint32_t>(regex_.program_.size() - 1);
  }

  Result<uint32_t> write(const Part& part, uint32_t next) {
    if (regex_.program_.size() + regex_.ranges_.size() > kMostInstructions)
      return resource_exhausted("The regular expression \"{}\" is too large.", pattern_);
    switch (part.kind) {
      case Part::Kind::kEmpty:
        return next;
      case Part::Kind::kRanges: {
        const auto first = static_cast<uint32_t>(regex_.ranges_.size());
        regex_.ranges_.insert(regex_.ranges_.end(), part.ranges.begin(), part.ranges.end());
        return add({.op = Regex::Op::kRanges,
                    .next = next,
                    .ranges = first,
                    .count = static_cast<uint32_t>(part.ranges.size())});
      }
      case Part::Kind::kAssert:
        return add({.op = Regex::Op::kAssert, .place = part.place, .next = next});
      case Part::Kind::kSequence: {
        uint32_t begin = next;
        for (size_t i = part.parts.size(); i-- > 0;) {
          TENON_TRY_ASSIGN(begin, write(part.parts[i], begin));
        }
        return begin;
      }
      case Part::Kind::kAlternatives: {
        TENON_TRY_ASSIGN(uint32_t begin, write(part.parts.back(), next));
        for (size_t i = part.parts.size() - 1; i-- > 0;) {
          TENON_TRY_ASSIGN(const uint32_t other, write(part.parts[i], next));
          begin = add({.op = Regex::Op::kSplit, .next = other, .other = begin});
        }
        return begin;
      }
      case Part::Kind::kRepeat:
        return write_repeat(part, next);
    }
    return next;
  }

  Result<uint32_t> write_repeat(const Part& part, uint32_t next) {
    const Part& inner = part.parts[0];
    uint32_t begin = next;
    if (part.most < 0) {
      const uint32_t split = add({.op = Regex::Op::kSplit, .other = next});
      TENON_TRY_ASSIGN(const uint32_t body, write(inner, split));
      regex_.program_[split].next = body;
      begin = split;
    }
    for (int i = part.least; i < part.most; ++i) {
      TENON_TRY_ASSIGN(const uint32_t body, write(inner, begin));
      begin = add({.op = Regex::Op::kSplit, .next = body, .other = next});
    }
    for (int i = 0; i < part.least; ++i) {
      TENON_TRY_ASSIGN(begin, write(inner, begin));
    }
    return begin;
  }

  const std::string_view pattern_;
  size_t at_ = 0;
  Flags flags_;
  std::optional<Flags> before_group_;
  Regex regex_;
};

Result<Regex> Regex::parse(std::string_view pattern) { return RegexCompiler(pattern).run(); }

}  // namespace tenon::cpu::ref
