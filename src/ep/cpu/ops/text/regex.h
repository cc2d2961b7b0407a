// Regular expressions in RE2's syntax, matched in time linear in the text: a set of states walks over it, and nothing
// is tried twice.
//
// Understood: literals and escapes (\n \t \x41 \x{1F600} \077 \Q...\E), '.', classes with ranges, negation, Perl's
// (\d \w \s \D \W \S) and POSIX's ([[:alpha:]]), groups ((...), (?:...), (?P<name>...), (?<name>...)), alternatives,
// repetition (* + ? {n} {n,} {n,m} and their lazy forms), anchors (^ $ \A \z \b \B) and flags ((?i) (?s) (?m) (?U)).
// Not understood, and refused: Unicode classes (\p, \P) and \C; look-around and references, which RE2 refuses too.
//
// Threads: a Regex never changes.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tenon::cpu::ref {

class Regex {
 public:
  // Errors: kInvalidArgument says what is wrong and where; kUnsupported for what is not understood;
  // kResourceExhausted for an expression whose program would be larger than RE2 allows.
  static Result<Regex> parse(std::string_view pattern);

  // Whether the whole of `text` matches. Text that is not UTF-8 is read byte by byte where it is not.
  bool full_match(std::string_view text) const;
  // The bytes of the longest match that begins at `begin`, a place in [0, text.size()]; nothing if none does. What is
  // before counts for anchors.
  std::optional<size_t> longest_match(std::string_view text, size_t begin) const;

  struct Range {
    char32_t first, last;
  };
  enum class Op : uint8_t { kRanges, kAssert, kSplit, kJump, kMatch };
  enum class Place : uint8_t { kTextBegin, kTextEnd, kLineBegin, kLineEnd, kWordEdge, kNoWordEdge };
  struct Instruction {
    Op op = Op::kMatch;
    Place place = Place::kTextBegin;  // kAssert
    uint32_t next = 0;
    uint32_t other = 0;              // kSplit
    uint32_t ranges = 0, count = 0;  // kRanges: in ranges_
  };

 private:
  friend class RegexCompiler;
  // Looks whether the program is a class some times or more ([a-z0-9]+): such text is read without states.
  void find_repeated_class();
  // Follows the sets of states that texts of ASCII lead through, where no assertion counts and there are few of them:
  // such texts are then matched by a look into a table for each character.
  void make_table();
  bool is_in(const Instruction& ranges, char32_t code) const;

  std::vector<Instruction> program_;
  std::vector<Range> ranges_;
  uint32_t start_ = 0;
  std::optional<Instruction> repeated_;  // that class
  size_t least_ = 0;                     // so many times
  std::bitset<128> repeated_ascii_;
  struct StateRow {
    bool matches = false;
    std::array<uint8_t, 128> next{};  // by the character: the number of a row, or kNoRow
  };
  static constexpr uint8_t kNoRow = 255;
  std::vector<StateRow> table_;  // empty: none was made
};

}  // namespace tenon::cpu::ref
