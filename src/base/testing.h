// Helpers that several test programs share, also those that see only libtenon's public symbols. Only tests include
// this.
#pragma once

#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "base/status.h"

namespace tenon {

inline const Status& status_of(const Status& status) { return status; }
const Status& status_of(Status&&) = delete;
template <typename T>
const Status& status_of(const Result<T>& result) {
  return result.status();
}

inline void PrintTo(const Status& status, std::ostream* out) { *out << status.to_string(); }
template <typename T>
void PrintTo(const Result<T>& result, std::ostream* out) {
  *out << result.status().to_string();
}

// EXPECT_THAT(result, has_status(StatusCode::kInvalidArgument, HasSubstr("4096")));
MATCHER_P2(has_status_, code, message,
           "has the code " + std::string(status_code_name(code)) + " and a fitting message") {
  const Status& status = status_of(arg);
  *result_listener << "which is " << status.to_string();
  return status.code() == code && ::testing::ExplainMatchResult(message, status.message(), result_listener);
}
inline auto has_status(StatusCode code) { return has_status_(code, ::testing::_); }
template <typename M>
auto has_status(StatusCode code, const M& message) {
  return has_status_(code, message);
}

MATCHER(is_ok, "") {
  const Status& status = status_of(arg);
  *result_listener << "which is " << status.to_string();
  return status.ok();
}

// A variable that only tests read (tests/README.md lists them); "" when it is not set.
inline std::string test_variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Open file descriptors of this process.
inline int count_open_fds() {
  int count = -1;  // the directory's own
  DIR* directory = ::opendir("/proc/self/fd");
  if (directory == nullptr) return -1;
  while (const dirent* entry = ::readdir(directory))
    if (entry->d_name[0] != '.') ++count;
  ::closedir(directory);
  return count;
}

// Mappings of this process whose line in /proc/self/maps contains `text` ("memfd:tenon-test", "/dev/shm/").
inline int count_mappings(const std::string& text) {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);)
    if (line.find(text) != std::string::npos) ++count;
  return count;
}

// The file descriptors opened since it was made, less those closed.
class FdCount {
 public:
  FdCount() : before_(count_open_fds()) {}
  int opened_since() const { return count_open_fds() - before_; }

 private:
  int before_;
};

}  // namespace tenon
