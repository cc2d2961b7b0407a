// A test of an operator as one line of text: `conv f32 n1c24h7w9 o48 k3 s2 act=relu`. docs/reference/problems.md has
// the grammar.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::problems {

struct Family;

using Dims = std::vector<int64_t>;

// A parsed line. Only the parser makes one, so sizes, shapes and options are those that the family knows, and numbers
// are numbers.
struct Problem {
  const Family* family = nullptr;
  DataType type = DataType::kUndefined;
  std::string op;                              // empty where the family is one operator
  std::map<std::string, Dims> sizes;           // "k": {3, 3}
  std::vector<Dims> shapes;                    // in the order of the line
  std::map<std::string, std::string> options;  // "act": "relu"; a flag: ""

  // The numbers of a size; empty without it.
  Dims size(std::string_view name) const;
  // The only number of a size.
  int64_t size(std::string_view name, int64_t otherwise) const;
  bool has(std::string_view option) const;
  std::string word(std::string_view option, std::string_view otherwise = "") const;
  int64_t integer(std::string_view option, int64_t otherwise) const;
  double number(std::string_view option, double otherwise) const;
  Dims integers(std::string_view option, const Dims& otherwise = {}) const;
  std::vector<double> numbers(std::string_view option, const std::vector<double>& otherwise = {}) const;
};

// Where a line stands, for messages: "conv.txt:12".
struct Source {
  std::string file;
  int line = 0;
};

// "f32"; "" for a type that lines do not name.
std::string_view type_word(DataType type);
std::optional<DataType> type_of(std::string_view word);

// The problems of one line of a file: none of a blank line or a comment, several of a line with braces or stars.
// Errors: kInvalidArgument names file, line, column and the word.
Result<std::vector<Problem>> parse_line(std::string_view line, const Source& source);
// All lines of `text`.
Result<std::vector<Problem>> parse_lines(std::string_view text, const std::string& file);
// `{a,b}c` as `ac`, `bc`, from left to right; the last brace changes fastest. Errors: kInvalidArgument for a brace
// without its partner.
Result<std::vector<std::string>> expand_braces(std::string_view line, const Source& source);

// The line in the order of the family's row. Parsing it gives the same problem.
std::string to_line(const Problem& problem);

}  // namespace tenon::problems
