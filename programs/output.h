// Prints text, JSON and progress. Results go to stdout, everything else to stderr.
#pragma once

#include <tenon/status.h>

#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "programs/format.h"

namespace tenon::programs {

// One object a command, pretty-printed. Text that is no UTF-8 (names out of a model) is replaced where it is wrong.
void print_json(const nlohmann::ordered_json& value);

template <typename... Args>
void print(fmt::format_string<Args...> text, Args&&... args) {
  const std::string line = format(text, std::forward<Args>(args)...);
  std::fwrite(line.data(), 1, line.size(), stdout);
}

// Writes the output of print() and print_json() that is still in memory. Errors, when any of it was lost:
// kResourceExhausted for a full disk, else kNotFound.
Status end_output();

// Errors: kNotFound when the file cannot be written.
Status write_text(const std::string& path, const std::string& text);

// "9.3 MiB", "512 bytes".
std::string bytes_text(uint64_t bytes);

// "12.34 ms", "345.6 us": below 1 ms in microseconds.
std::string time_text(double ms);

// The element nearest to the share `q` of them; there is at least one.
double quantile(const std::vector<double>& sorted, double q);

// A bar on stderr while a terminal looks at it.
class Progress {
 public:
  Progress(std::string what, uint64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void update(uint64_t done);

 private:
  std::string what_;
  uint64_t total_;
  bool visible_;
};

}  // namespace tenon::programs
