#include "problems/problem.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>

#include "base/edit_distance.h"
#include "base/format.h"
#include "base/status.h"
#include "problems/family.h"

namespace tenon::problems {

namespace {

constexpr std::pair<std::string_view, DataType> kTypeWords[] = {
    {"f32", DataType::kFloat}, {"f16", DataType::kFloat16}, {"bf16", DataType::kBfloat16}, {"f64", DataType::kDouble},
    {"i8", DataType::kInt8},   {"u8", DataType::kUint8},    {"i16", DataType::kInt16},     {"u16", DataType::kUint16},
    {"i32", DataType::kInt32}, {"u32", DataType::kUint32},  {"i64", DataType::kInt64},     {"u64", DataType::kUint64},
    {"bool", DataType::kBool}};

// A line of which every character knows its column, counted from 1, in the line before braces were expanded.
struct Text {
  std::string text;
  std::vector<int> columns;

  void append(const Text& from, size_t begin, size_t end) {
    text.append(from.text, begin, end - begin);
    columns.insert(columns.end(), from.columns.begin() + static_cast<ptrdiff_t>(begin),
                   from.columns.begin() + static_cast<ptrdiff_t>(end));
  }
};

struct Word {
  std::string text;
  int column = 0;
};

Status failure(const Source& source, int column, const std::string& sentence) {
  return invalid_argument("{}:{}:{}: {}", source.file, source.line, column, sentence);
}

Status expand(const Text& line, const Source& source, std::vector<Text>& to) {
  const size_t open = line.text.find('{');
  const size_t stray = line.text.find('}');
  if (stray != std::string::npos && (open == std::string::npos || stray < open))
    return failure(source, line.columns[stray], "This \"}\" closes no brace.");
  if (open == std::string::npos) {
    to.push_back(line);
    return {};
  }
  std::vector<size_t> cuts = {open};
  int depth = 0;
  size_t close = open;
  for (; close < line.text.size(); ++close) {
    const char c = line.text[close];
    if (c == '{') ++depth;
    if (c == ',' && depth == 1) cuts.push_back(close);
    if (c == '}' && --depth == 0) break;
  }
  if (depth != 0) return failure(source, line.columns[open], "This \"{\" is not closed.");
  cuts.push_back(close);
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    Text one;
    one.append(line, 0, open);
    one.append(line, cuts[i] + 1, cuts[i + 1]);
    one.append(line, close + 1, line.text.size());
    TENON_TRY(expand(one, source, to));
  }
  return {};
}

Result<std::vector<Text>> expanded(std::string_view line, const Source& source) {
  Text whole{std::string(line.substr(0, line.find('#'))), {}};
  for (size_t i = 0; i < whole.text.size(); ++i) whole.columns.push_back(static_cast<int>(i) + 1);
  std::vector<Text> texts;
  TENON_TRY(expand(whole, source, texts));
  return texts;
}

std::vector<Word> words_of(const Text& line) {
  std::vector<Word> words;
  for (size_t i = 0; i < line.text.size();) {
    if (line.text[i] == ' ' || line.text[i] == '\t' || line.text[i] == '\r') {
      ++i;
      continue;
    }
    const size_t end = std::min(line.text.find_first_of(" \t\r", i), line.text.size());
    words.push_back({line.text.substr(i, end - i), line.columns[i]});
    i = end;
  }
  return words;
}

template <typename Range, typename Name>
std::string listed(const Range& range, const Name& name) {
  std::string text;
  for (const auto& one : range) text += format("{}{}", text.empty() ? "" : ", ", name(one));
  return text;
}

template <typename T>
bool parses(std::string_view text, T& value) {
  if constexpr (std::is_integral_v<T>) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  } else {
    const std::string held(text);
    char* end = nullptr;
    value = std::strtod(held.c_str(), &end);
    return !held.empty() && end == held.c_str() + held.size();
  }
}

template <typename T>
bool parses_list(std::string_view text, char separator, std::vector<T>& values) {
  while (true) {
    const size_t end = std::min(text.find(separator), text.size());
    if (!parses(text.substr(0, end), values.emplace_back())) return false;
    if (end == text.size()) return true;
    text.remove_prefix(end + 1);
  }
}

// "0,1,2", "0,2,1", ...
std::vector<std::string> permutations(size_t axes) {
  Dims order(axes);
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::string> texts;
  do {
    texts.push_back(listed(order, [](int64_t axis) { return axis; }));
    std::erase(texts.back(), ' ');
  } while (std::next_permutation(order.begin(), order.end()));
  return texts;
}

class LineParser {
 public:
  LineParser(const Source& source, const Text& line) : source_(source), words_(words_of(line)) {}

  Result<std::vector<Problem>> parse() {
    std::vector<Problem> problems;
    if (words_.empty()) return problems;
    Problem problem;
    problem.family = find_family(words_[0].text);
    if (problem.family == nullptr)
      return error(words_[0], format("There is no family \"{}\"; there are {}.", words_[0].text,
                                     listed(families(), [](const Family& one) { return one.name; })));
    const Family& family = *problem.family;
    if (words_.size() < 2) return error(words_[0], format("The type is missing; say {} f32 ...", family.name));
    TENON_TRY_ASSIGN(problem.type, type(words_[1], family));
    size_t next = 2;
    std::vector<std::string> operators = {""};
    if (!family.operators.empty()) {
      const auto one_of = [&] { return listed(family.operators, [](const std::string& op) { return op; }); };
      if (words_.size() < 3) return error(words_[1], format("The operator is missing, one of {}.", one_of()));
      const std::string& op = words_[next++].text;
      operators = {op};
      if (op == "*") {
        operators = family.operators;
      } else if (std::find(family.operators.begin(), family.operators.end(), op) == family.operators.end()) {
        return error(words_[2], format("{} has no operator \"{}\"; it has {}.", family.name, op, one_of()));
      }
    }
    for (; next < words_.size(); ++next) TENON_TRY(word(words_[next], problem));
    if (problem.shapes.size() < family.fewest_shapes || problem.shapes.size() > family.most_shapes)
      return error(words_.back(), format("The line has {} shapes; {} takes {}.", problem.shapes.size(), family.name,
                                         family.fewest_shapes == family.most_shapes
                                             ? format("{}", family.most_shapes)
                                             : format("{} to {}", family.fewest_shapes, family.most_shapes)));
    for (const std::string& op : operators) {
      // A star leaves out the operators that do not take the type.
      const auto opset = static_cast<int>(problem.integer("opset", Case::kNewestStock));
      if (operators.size() > 1 && !schema_takes(op, problem.type, opset)) continue;
      problem.op = op;
      add_with_stars(problem, problems);
    }
    return problems;
  }

 private:
  Status error(const Word& word, const std::string& sentence) const { return failure(source_, word.column, sentence); }

  Result<DataType> type(const Word& word, const Family& family) const {
    const std::optional<DataType> type = type_of(word.text);
    if (!type || std::find(family.types.begin(), family.types.end(), *type) == family.types.end())
      return error(word, format("\"{}\" is no type of {}; it takes {}.", word.text, family.name,
                                listed(family.types, [](DataType one) { return type_word(one); })));
    return *type;
  }

  static const Option* find_option(const Family& family, std::string_view name) {
    for (const std::span<const Option> options : {std::span<const Option>(family.options), common_options()})
      for (const Option& option : options)
        if (option.name == name) return &option;
    return nullptr;
  }

  Status word(const Word& word, Problem& problem) const {
    const size_t equals = word.text.find('=');
    if (equals != std::string::npos) return option(word, equals, problem);
    if (word.text == "scalar" || (word.text[0] >= '0' && word.text[0] <= '9')) {
      Dims dims;
      if (word.text != "scalar" && !parses_list(word.text, 'x', dims))
        return error(word, format("\"{}\" is no shape; a shape is 2x3x4, or scalar.", word.text));
      problem.shapes.push_back(dims);
      return {};
    }
    if (word.text.find_first_of("0123456789") == std::string::npos) {
      const Option* flag = find_option(*problem.family, word.text);
      if (flag == nullptr || flag->kind != Option::Kind::kFlag) return unknown(word, word.text, *problem.family);
      if (!problem.options.emplace(word.text, "").second) return error(word, format("\"{}\" comes twice.", word.text));
      return {};
    }
    return sizes(word, problem);
  }

  Status unknown(const Word& word, std::string_view name, const Family& family) const {
    std::vector<std::string_view> names;
    std::string_view close;
    for (const std::span<const Option> options : {std::span<const Option>(family.options), common_options()})
      for (const Option& one : options) {
        names.push_back(one.name);
        if (edit_distance(one.name, name) <= 2) close = one.name;
      }
    return error(word, format("{} has no option \"{}\"; {}.", family.name, name,
                              close.empty() ? format("it has {}", listed(names, [](std::string_view n) { return n; }))
                                            : format("did you mean {}?", close)));
  }

  Status option(const Word& word, size_t equals, Problem& problem) const {
    const std::string name = word.text.substr(0, equals), value = word.text.substr(equals + 1);
    const Option* option = find_option(*problem.family, name);
    if (option == nullptr) return unknown(word, name, *problem.family);
    Dims whole;
    std::vector<double> reals;
    int64_t one = 0;
    double real = 0;
    const char* wanted = nullptr;
    switch (option->kind) {
      case Option::Kind::kFlag:
        return error(word, format("{} is a flag and takes no value.", name));
      case Option::Kind::kInteger:
        if (!parses(value, one)) wanted = "a whole number";
        break;
      case Option::Kind::kNumber:
        if (!parses(value, real)) wanted = "a number";
        break;
      case Option::Kind::kPermutation:
        if (value == "*") break;
        [[fallthrough]];
      case Option::Kind::kIntegers:
        if (!parses_list(value, ',', whole)) wanted = "whole numbers with commas between them";
        break;
      case Option::Kind::kNumbers:
        if (!parses_list(value, ',', reals)) wanted = "numbers with commas between them";
        break;
      case Option::Kind::kWord: {
        const std::string first = value.substr(0, value.find(':'));
        if (option->words.empty()
                ? value.empty()
                : value != "*" && std::find(option->words.begin(), option->words.end(), first) == option->words.end())
          return error(word, format("{} is \"{}\"; it takes {}.", name, value,
                                    listed(option->words, [](const std::string& text) { return text; })));
      }
    }
    if (wanted != nullptr) return error(word, format("{} is \"{}\"; it takes {}.", name, value, wanted));
    if (!problem.options.emplace(name, value).second) return error(word, format("{} comes twice.", name));
    return {};
  }

  Status sizes(const Word& word, Problem& problem) const {
    const std::string& text = word.text;
    for (size_t i = 0; i < text.size();) {
      const size_t digits = text.find_first_of("0123456789", i);
      size_t end = digits == std::string::npos ? text.size() : digits;
      const std::string name = text.substr(i, end - i);
      bool known = false;
      for (const auto& group : problem.family->sizes)
        known = known || std::find(group.begin(), group.end(), name) != group.end();
      if (!known || end == text.size()) {
        std::vector<std::string> names;
        for (const auto& group : problem.family->sizes) names.insert(names.end(), group.begin(), group.end());
        const std::string column = i == 0 ? "" : format(" (in \"{}\")", text);
        return failure(source_, word.column + static_cast<int>(i),
                       format("\"{}\"{} is no size of {}; {}.", text.substr(i), column, problem.family->name,
                              names.empty() ? "it takes shapes, as 2x3x4"
                                            : format("it takes {}, each with a number",
                                                     listed(names, [](auto& n) { return n; }))));
      }
      while (end < text.size() &&
             ((text[end] >= '0' && text[end] <= '9') ||
              (text[end] == 'x' && end + 1 < text.size() && text[end + 1] >= '0' && text[end + 1] <= '9')))
        ++end;
      Dims values;
      if (!parses_list(std::string_view(text).substr(digits, end - digits), 'x', values))
        return error(word, format("\"{}\" is no number.", text.substr(digits, end - digits)));
      if (!problem.sizes.emplace(name, values).second) return error(word, format("The size {} comes twice.", name));
      i = end;
    }
    return {};
  }

  // Each word of an option whose value is a star.
  static void add_with_stars(const Problem& problem, std::vector<Problem>& to) {
    for (const auto& [name, value] : problem.options) {
      if (value != "*") continue;
      const Option* option = find_option(*problem.family, name);
      const bool orders = option->kind == Option::Kind::kPermutation;
      const std::vector<std::string> words = orders ? permutations(problem.shapes[0].size()) : option->words;
      for (const std::string& word : words) {
        Problem one = problem;
        one.options[name] = word;
        add_with_stars(one, to);
      }
      return;
    }
    to.push_back(problem);
  }

  const Source& source_;
  std::vector<Word> words_;
};

std::string dims_text(const Dims& dims) {
  std::string text;
  for (int64_t dim : dims) text += format("{}{}", text.empty() ? "" : "x", dim);
  return text;
}

}  // namespace

Dims Problem::size(std::string_view name) const {
  const auto found = sizes.find(std::string(name));
  return found == sizes.end() ? Dims{} : found->second;
}
int64_t Problem::size(std::string_view name, int64_t otherwise) const {
  const Dims found = size(name);
  return found.empty() ? otherwise : found[0];
}
bool Problem::has(std::string_view option) const { return options.count(std::string(option)) > 0; }
std::string Problem::word(std::string_view option, std::string_view otherwise) const {
  const auto found = options.find(std::string(option));
  return found == options.end() ? std::string(otherwise) : found->second;
}
int64_t Problem::integer(std::string_view option, int64_t otherwise) const {
  int64_t value = otherwise;
  if (has(option)) (void)parses(word(option), value);
  return value;
}
double Problem::number(std::string_view option, double otherwise) const {
  double value = otherwise;
  if (has(option)) (void)parses(word(option), value);
  return value;
}
Dims Problem::integers(std::string_view option, const Dims& otherwise) const {
  if (!has(option)) return otherwise;
  Dims values;
  (void)parses_list(word(option), ',', values);
  return values;
}
std::vector<double> Problem::numbers(std::string_view option, const std::vector<double>& otherwise) const {
  if (!has(option)) return otherwise;
  std::vector<double> values;
  (void)parses_list(word(option), ',', values);
  return values;
}

std::string_view type_word(DataType type) {
  for (const auto& [word, one] : kTypeWords)
    if (one == type) return word;
  return "";
}
std::optional<DataType> type_of(std::string_view word) {
  for (const auto& [text, type] : kTypeWords)
    if (text == word) return type;
  return std::nullopt;
}

Result<std::vector<std::string>> expand_braces(std::string_view line, const Source& source) {
  TENON_TRY_ASSIGN(const std::vector<Text> texts, expanded(line, source));
  std::vector<std::string> lines;
  for (const Text& text : texts) lines.push_back(text.text);
  return lines;
}

Result<std::vector<Problem>> parse_line(std::string_view line, const Source& source) {
  TENON_TRY_ASSIGN(const std::vector<Text> texts, expanded(line, source));
  std::vector<Problem> problems;
  for (const Text& text : texts) {
    TENON_TRY_ASSIGN(const std::vector<Problem> made, LineParser(source, text).parse());
    problems.insert(problems.end(), made.begin(), made.end());
  }
  return problems;
}

Result<std::vector<Problem>> parse_lines(std::string_view text, const std::string& file) {
  std::vector<Problem> problems;
  for (int line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    TENON_TRY_ASSIGN(const std::vector<Problem> made, parse_line(text.substr(0, end), {file, line}));
    problems.insert(problems.end(), made.begin(), made.end());
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return problems;
}

std::string to_line(const Problem& problem) {
  const Family& family = *problem.family;
  std::string line = format("{} {}", family.name, type_word(problem.type));
  if (!problem.op.empty()) line += " " + problem.op;
  for (const auto& group : family.sizes) {
    std::string word;
    for (const std::string& name : group)
      if (const Dims values = problem.size(name); !values.empty()) word += name + dims_text(values);
    if (!word.empty()) line += " " + word;
  }
  for (const Dims& shape : problem.shapes) line += shape.empty() ? " scalar" : " " + dims_text(shape);
  for (const std::span<const Option> options : {std::span<const Option>(family.options), common_options()})
    for (const Option& option : options) {
      if (!problem.has(option.name)) continue;
      line += format(" {}", option.name);
      if (option.kind != Option::Kind::kFlag) line += "=" + problem.word(option.name);
    }
  return line;
}

}  // namespace tenon::problems
