// tenon_problems [LINE...] [--file FILE]... [--ep cpu|sim|cuda|NAME=LIBRARY] [--ep-option KEY=VALUE]... [--threads 1,2]
// [--seed N] [--filter TEXT] [--every N] [--tf32] [--quiet] [--print] [--time] [--stock LIBRARY]: runs problem lines of
// the arguments, of files or of stdin. tests/README.md shows how to use it, docs/reference/problems.md has the grammar.
//
// Ends with 0 if all passed, 1 if one failed, 2 for bad arguments and lines, 77 (ctest's "skipped") without a device.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

#include "base/format.h"
#include "base/status.h"
#include "problems/family.h"
#include "problems/runner.h"

namespace tenon::problems {
namespace {

struct Arguments {
  RunnerOptions runner;
  std::vector<std::string> files;
  std::string line, filter;
  size_t every = 1;  // of the problems that the filter leaves each N-th is run
  bool print = false, quiet = false;
};

void say(const std::string& text) {
  std::fputs((text + "\n").c_str(), stdout);
  std::fflush(stdout);
}

Result<Arguments> read_arguments(int count, char** texts) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string name = texts[i];
    if (!name.starts_with("--")) {
      // An argument with blanks is a line; others are the words of one.
      const bool whole = name.find(' ') != std::string::npos;
      arguments.line += (arguments.line.empty() ? "" : whole ? "\n" : " ") + name;
      continue;
    }
    if (name == "--tf32") {
      allow_tf32();
      continue;
    }
    if (name == "--time" || name == "--print" || name == "--quiet") {
      (name == "--time" ? arguments.runner.time : name == "--print" ? arguments.print : arguments.quiet) = true;
      continue;
    }
    TENON_INVALID_IF(i + 1 == count, "{} needs a value.", name);
    const std::string value = texts[++i];
    if (name == "--file") {
      arguments.files.push_back(value);
    } else if (name == "--ep") {
      arguments.runner.ep = value;
      if (value != "cpu") allow_split_factors();
    } else if (name == "--ep-option") {
      const size_t equals = value.find('=');
      TENON_INVALID_IF(equals == std::string::npos, "--ep-option is \"{}\"; it takes KEY=VALUE.", value);
      arguments.runner.ep_options[value.substr(0, equals)] = value.substr(equals + 1);
    } else if (name == "--threads") {
      arguments.runner.threads.clear();
      std::istringstream list(value);
      for (std::string one; std::getline(list, one, ',');) {
        arguments.runner.threads.push_back(std::atoi(one.c_str()));
        TENON_INVALID_IF(arguments.runner.threads.back() < 1, "--threads is \"{}\"; it takes 1,2.", value);
      }
    } else if (name == "--seed") {
      arguments.runner.seed = std::strtoull(value.c_str(), nullptr, 10);
    } else if (name == "--filter") {
      arguments.filter = value;
    } else if (name == "--every") {
      arguments.every = std::strtoull(value.c_str(), nullptr, 10);
      TENON_INVALID_IF(arguments.every == 0, "--every is \"{}\"; it takes a number from 1 on.", value);
    } else if (name == "--stock") {
      arguments.runner.stock = value;
    } else {
      return invalid_argument("There is no argument {}.", name);
    }
  }
  return arguments;
}

Result<std::vector<Problem>> read_problems(const Arguments& arguments) {
  if (!arguments.line.empty()) return parse_lines(arguments.line, "arguments");
  if (arguments.files.empty()) {
    const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
    return parse_lines(text, "stdin");
  }
  std::vector<Problem> problems;
  for (const std::string& file : arguments.files) {
    std::ifstream stream(file);
    if (!stream) return not_found("The file {} cannot be read.", file);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    TENON_TRY_ASSIGN(const std::vector<Problem> more, parse_lines(text, file));
    problems.insert(problems.end(), more.begin(), more.end());
  }
  return problems;
}

int failure(const Status& status, int code) {
  std::fprintf(stderr, "tenon_problems: %s\n", std::string(status.message()).c_str());
  return code;
}

int run(int count, char** texts) {
  const Result<Arguments> arguments = read_arguments(count, texts);
  if (!arguments.ok()) return failure(arguments.status(), 2);
  const Result<std::vector<Problem>> problems = read_problems(*arguments);
  if (!problems.ok()) return failure(problems.status(), 2);
  if (arguments->print) {
    for (const Problem& problem : *problems) say(to_line(problem));
    return 0;
  }
  const Result<Runner> runner = Runner::create(arguments->runner);
  if (!runner.ok()) return failure(runner.status(), runner.status().code() == StatusCode::kNotFound ? 77 : 2);
  constexpr const char* kWords[] = {"passed", "FAILED", "elsewhere", "unsupported"};
  size_t counts[4] = {}, left = 0;
  for (const Problem& problem : *problems) {
    const std::string line = to_line(problem);
    if (line.find(arguments->filter) == std::string::npos || left++ % arguments->every != 0) continue;
    const Outcome outcome = runner->run(problem);
    const auto verdict = static_cast<size_t>(outcome.verdict);
    ++counts[verdict];
    const bool shown = !arguments->quiet || outcome.verdict == Verdict::kFailed ||
                       (outcome.verdict == Verdict::kUnsupported && arguments->runner.ep == "cpu");
    if (shown) say(format("{}: {}: {}", kWords[verdict], line, outcome.text));
  }
  say(format("{} passed, {} failed, {} not taken by the EP, {} without a kernel", counts[0], counts[1], counts[2],
             counts[3]));
  if (counts[0] == 0 && counts[1] == 0) return failure(invalid_argument("No problem was tested."), 1);
  // The CPU EP is the last resort: a line that it cannot run has no place in the lists that it is given.
  return counts[1] > 0 || (arguments->runner.ep == "cpu" && counts[3] > 0) ? 1 : 0;
}

}  // namespace
}  // namespace tenon::problems

int main(int count, char** texts) { return tenon::problems::run(count, texts); }
