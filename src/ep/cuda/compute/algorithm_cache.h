// Measures the algorithms of a problem, and keeps the fastest in a file between sessions.
//
// The file is text: a line `device|libraries|problem<TAB>choice`. It is only ever a hint: a choice that does not fit is
// measured again, an unreadable file is an empty one, and a failed write loses nothing but time.
// Threads: any. Processes: a file is replaced as a whole.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/guarded.h"
#include "ep/cuda/driver/cuda_device.h"

namespace tenon::cuda {

// Problems that differ in one size alone, as those of a model do whose shapes vary; without a text, of no family.
struct ProblemFamily {
  std::string text;
  int64_t size = 0;
};

class AlgorithmCache {
 public:
  // `path` empty: nothing is kept. `environment` names the device and the versions that choices hold for.
  AlgorithmCache(std::string path, std::string environment);

  std::optional<std::string> find(const std::string& problem) const;
  // Whether choices are kept for problems whose text has `words`, and whether one of them begins with one of `ours`.
  enum class Kept : uint8_t { kNothing, kOthers, kOurs };
  Kept kept(std::string_view words, std::initializer_list<std::string_view> ours) const;
  void add(const std::string& problem, std::string choice);
  // A measured choice is remembered for the family, too, until the session ends; so is a found one that is used.
  void add_member(const ProblemFamily& family, const std::string& choice);
  // The choices for members of at most twice and at least half the size, the nearest first: three at most, and each
  // once.
  std::vector<std::string> near(const ProblemFamily& family) const;
  // Choices among those of near(), for the session alone: a session with that size in its model measures for itself.
  std::optional<std::string> find_borrowed(const std::string& problem) const;
  void borrow(const std::string& problem, std::string choice);
  // Writes what is new, merged with what other processes have written meanwhile.
  void save();
  size_t measured() const;

 private:
  struct State {
    std::map<std::string, std::string> choices, borrowed;
    std::map<std::string, std::map<int64_t, std::string>> families;
    bool changed = false;
    size_t measured = 0;
  };
  const std::string path_, environment_;
  mutable Guarded<State> state_;
};

// Nanoseconds that one call of `queue` takes on the device, from a captured run of several. Not concurrent with other
// work of the program on `stream`.
Result<double> measure_ns(const CudaDevice& device, CUstream stream, const std::function<Status(CUstream)>& queue);
// The same within a tenth of the time, and a few hundredths of the result: from two calls that are queued as they are.
Result<double> estimate_ns(const CudaDevice& device, CUstream stream, const std::function<Status(CUstream)>& queue);
// Of choices that are known to be fast the first stays, unless the estimate for another one is less than this part of
// it.
inline constexpr double kClearlyFaster = 0.95;

}  // namespace tenon::cuda
