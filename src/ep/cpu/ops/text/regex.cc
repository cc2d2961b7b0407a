#include "ep/cpu/ops/text/regex.h"

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

}  // namespace

bool Regex::full_match(std::string_view text) const {
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
          matched = matched || after == kNone;
          break;
        case Op::kRanges:
          break;
      }
    }
  };
  const auto code_at = [&] { return text.empty() ? CodePoint{.code = kNone, .length = 0} : next_code_point(text); };
  CodePoint here = code_at();
  follow(now, start_, kNone, here.code);
  while (!text.empty() && !now.empty()) {
    const char32_t code = here.code;
    text.remove_prefix(here.length);
    here = code_at();
    next.clear();
    for (uint32_t state : now.states()) {
      const Instruction& instruction = program_[state];
      if (instruction.op != Op::kRanges) continue;
      for (uint32_t r = instruction.ranges; r < instruction.ranges + instruction.count; ++r) {
        if (code < ranges_[r].first || code > ranges_[r].last) continue;
        follow(next, instruction.next, code, here.code);
        break;
      }
    }
    std::swap(now, next);
  }
  return matched && text.empty();
}

}  // namespace tenon::cpu::ref
