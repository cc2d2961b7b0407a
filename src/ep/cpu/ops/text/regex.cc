#include "ep/cpu/ops/text/regex.h"

#include <algorithm>
#include <deque>

#include "ep/cpu/ops/text/code_points.h"

namespace tenon::cpu::ref {

namespace {

bool is_word(char32_t code) {
  return (code >= '0' && code <= '9') || (code >= 'A' && code <= 'Z') || (code >= 'a' && code <= 'z') || code == '_';
}

constexpr char32_t kNone = UINT32_MAX;  // before the text and behind it

// A set of instructions that keeps the order in which they came, emptied at once.
class StateSet {
 public:
  explicit StateSet(size_t size) : place_(size, 0) {}
  bool add(uint32_t state) {
    if (place_[state] < states_.size() && states_[place_[state]] == state) return false;
    place_[state] = static_cast<uint32_t>(states_.size());
    states_.push_back(state);
    return true;
  }
  void clear() { states_.clear(); }
  bool empty() const { return states_.empty(); }
  const std::vector<uint32_t>& states() const { return states_; }

 private:
  std::vector<uint32_t> place_;
  std::vector<uint32_t> states_;
};

bool holds(Regex::Place place, char32_t before, char32_t after) {
  const bool edge = (before != kNone && is_word(before)) != (after != kNone && is_word(after));
  switch (place) {
    case Regex::Place::kTextBegin:
      return before == kNone;
    case Regex::Place::kTextEnd:
      return after == kNone;
    case Regex::Place::kLineBegin:
      return before == kNone || before == '\n';
    case Regex::Place::kLineEnd:
      return after == kNone || after == '\n';
    case Regex::Place::kWordEdge:
      return edge;
    case Regex::Place::kNoWordEdge:
      return !edge;
  }
  return false;
}

// The character that ends at `place`.
char32_t code_before(std::string_view text, size_t place) {
  if (place == 0) return kNone;
  size_t begin = place - 1;
  while (begin > 0 && place - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return next_code_point(text.substr(begin, place - begin)).code;
}

}  // namespace

bool Regex::is_in(const Instruction& ranges, char32_t code) const {
  for (uint32_t r = ranges.ranges; r < ranges.ranges + ranges.count; ++r)
    if (code >= ranges_[r].first && code <= ranges_[r].last) return true;
  return false;
}

void Regex::find_repeated_class() {
  const auto behind_jumps = [&](uint32_t at) {
    while (program_[at].op == Op::kJump) at = program_[at].next;
    return at;
  };
  // Each repetition has instructions of its own for the class.
  const auto is_class = [&](uint32_t at, const Instruction& first) {
    const Instruction& other = program_[at];
    return other.op == Op::kRanges && other.count == first.count &&
           std::equal(ranges_.begin() + first.ranges, ranges_.begin() + first.ranges + first.count,
                      ranges_.begin() + other.ranges,
                      [](const Range& a, const Range& b) { return a.first == b.first && a.last == b.last; });
  };
  const Instruction& first = program_[behind_jumps(start_)];
  if (first.op != Op::kRanges) return;
  size_t least = 0;
  uint32_t at = behind_jumps(start_);
  for (; is_class(at, first); at = behind_jumps(program_[at].next)) ++least;
  if (program_[at].op != Op::kSplit) return;
  const uint32_t again = behind_jumps(program_[at].next), end = behind_jumps(program_[at].other);
  if (!is_class(again, first) || behind_jumps(program_[again].next) != at || program_[end].op != Op::kMatch) return;
  repeated_ = first;
  least_ = least;
  for (char32_t code = 0; code < 128; ++code) repeated_ascii_[code] = is_in(first, code);
}

void Regex::make_table() {
  // A row takes a look at each state for each character, when a model is loaded.
  constexpr size_t kMostStates = 256, kMostRows = 64;
  if (repeated_ || program_.size() > kMostStates ||
      std::ranges::any_of(program_, [](const Instruction& one) { return one.op == Op::kAssert; }))
    return;
  std::deque<std::vector<uint32_t>> sets;  // stay where they are while others are added
  const auto row_of = [&](std::vector<uint32_t> pending) {
    std::vector<bool> seen(program_.size());
    std::vector<uint32_t> set;
    while (!pending.empty()) {
      const uint32_t at = pending.back();
      pending.pop_back();
      if (seen[at]) continue;
      seen[at] = true;
      const Instruction& one = program_[at];
      if (one.op == Op::kRanges || one.op == Op::kMatch) set.push_back(at);
      if (one.op == Op::kJump || one.op == Op::kSplit) pending.push_back(one.next);
      if (one.op == Op::kSplit) pending.push_back(one.other);
    }
    std::sort(set.begin(), set.end());
    const auto found = std::find(sets.begin(), sets.end(), set);
    const auto row = static_cast<uint8_t>(found - sets.begin());
    if (found == sets.end()) sets.push_back(std::move(set));
    return row;
  };
  row_of({start_});
  for (size_t row = 0; row < sets.size(); ++row) {
    if (sets.size() > kMostRows) return table_.clear();
    const std::vector<uint32_t>& set = sets[row];
    StateRow made;
    std::vector<uint32_t> before;
    uint8_t next_row = kNoRow;
    for (char32_t code = 0; code < made.next.size(); ++code) {
      std::vector<uint32_t> next;
      for (uint32_t state : set)
        if (program_[state].op == Op::kRanges && is_in(program_[state], code)) next.push_back(program_[state].next);
      // Most characters lead where their neighbour does.
      if (next != before) next_row = next.empty() ? kNoRow : row_of(next);
      made.next[code] = next_row;
      before = std::move(next);
    }
    made.matches = std::ranges::any_of(set, [&](uint32_t state) { return program_[state].op == Op::kMatch; });
    table_.push_back(made);
  }
}

bool Regex::full_match(std::string_view text) const { return longest_match(text, 0) == text.size(); }

std::optional<size_t> Regex::longest_match(std::string_view text, size_t begin) const {
  if (repeated_) {
    size_t end = begin, count = 0;
    for (; end < text.size(); ++count) {
      const CodePoint point = next_code_point(text.substr(end));
      if (point.code < 128 ? !repeated_ascii_[point.code] : !is_in(*repeated_, point.code)) break;
      end += point.length;
    }
    return count < least_ ? std::nullopt : std::optional(end - begin);
  }
  if (!table_.empty()) {
    std::optional<size_t> longest;
    const StateRow* row = &table_[0];
    for (size_t end = begin;; ++end) {
      if (row->matches) longest = end - begin;
      if (end == text.size()) return longest;
      const auto byte = static_cast<unsigned char>(text[end]);
      if (byte >= row->next.size()) break;  // the states read other characters
      if (row->next[byte] == kNoRow) return longest;
      row = &table_[row->next[byte]];
    }
  }
  StateSet now(program_.size()), next(program_.size());
  std::vector<uint32_t> pending;
  bool matched = false;
  // Everything that `state` reaches without reading a character.
  const auto follow = [&](StateSet& set, uint32_t state, char32_t before, char32_t after) {
    pending.assign(1, state);
    while (!pending.empty()) {
      const uint32_t at = pending.back();
      pending.pop_back();
      if (!set.add(at)) continue;
      const Instruction& instruction = program_[at];
      switch (instruction.op) {
        case Op::kJump:
          pending.push_back(instruction.next);
          break;
        case Op::kSplit:
          pending.push_back(instruction.next);
          pending.push_back(instruction.other);
          break;
        case Op::kAssert:
          if (holds(instruction.place, before, after)) pending.push_back(instruction.next);
          break;
        case Op::kMatch:
          matched = true;
          break;
        case Op::kRanges:
          break;
      }
    }
  };
  size_t end = begin;
  const auto code_at = [&] {
    return end == text.size() ? CodePoint{.code = kNone, .length = 0} : next_code_point(text.substr(end));
  };
  CodePoint here = code_at();
  follow(now, start_, code_before(text, begin), here.code);
  std::optional<size_t> longest;
  while (true) {
    if (matched) longest = end - begin;
    if (end == text.size() || now.empty()) return longest;
    const char32_t code = here.code;
    end += here.length;
    here = code_at();
    matched = false;
    next.clear();
    for (uint32_t state : now.states()) {
      const Instruction& instruction = program_[state];
      if (instruction.op != Op::kRanges) continue;
      if (is_in(instruction, code)) follow(next, instruction.next, code, here.code);
    }
    std::swap(now, next);
  }
}

}  // namespace tenon::cpu::ref
