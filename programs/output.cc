#include "programs/output.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "programs/status.h"

namespace tenon::programs {

void print_json(const nlohmann::ordered_json& value) {
  print("{}\n", value.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

double quantile(const std::vector<double>& sorted, double q) {
  return sorted[static_cast<size_t>(std::lround(q * static_cast<double>(sorted.size() - 1)))];
}

Status end_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return {};
  return io_failure("The output cannot be written to stdout", errno);
}

Status write_text(const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.flush();
  if (!file) return io_failure(format("The file \"{}\" cannot be written", path), errno);
  return {};
}

std::string bytes_text(uint64_t bytes) {
  if (bytes < 1024) return format("{} bytes", bytes);
  if (bytes < 1024 * 1024) return format("{:.1f} KiB", static_cast<double>(bytes) / 1024);
  if (bytes < uint64_t{1} << 30) return format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
  return format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

std::string time_text(double ms) { return ms < 1 ? format("{:.1f} us", ms * 1000) : format("{:.2f} ms", ms); }

Progress::Progress(std::string what, uint64_t total)
    : what_(std::move(what)), total_(total), visible_(isatty(STDERR_FILENO) == 1) {}

void Progress::update(uint64_t done) {
  if (!visible_ || total_ == 0) return;
  constexpr int kWidth = 30;
  const int filled = static_cast<int>(done * kWidth / total_);
  std::fprintf(stderr, "\r%s [%.*s%*s] %llu/%llu", what_.c_str(), filled, "##############################",
               kWidth - filled, "", static_cast<unsigned long long>(done), static_cast<unsigned long long>(total_));
}

Progress::~Progress() {
  if (visible_) std::fputs("\r\033[K", stderr);
}

}  // namespace tenon::programs
