// Measures the algorithms of a problem, and keeps the fastest in a file between sessions.
//
// The file is text: a line `checksum<TAB>device|libraries|problem<TAB>choice`, the newest last, at most kMostLines of
// them. It is only ever a hint: a choice that does not fit is measured again, a line whose checksum is wrong is left
// out, an unreadable file is an empty one, and a failed write loses nothing but time. Threads: any. Processes: a file
// is replaced as a whole; who writes it holds the file `path.lock`, so that nobody's lines are lost.
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

  // `hasty`: also a choice that was made without trying all.
  std::optional<std::string> find(const std::string& problem, bool hasty = true) const;
  // Whether choices are kept for problems whose text has `words`, and whether one of them begins with one of `ours`.
  enum class Kept : uint8_t { kNothing, kOthers, kOurs };
  Kept kept(std::string_view words, std::initializer_list<std::string_view> ours) const;
  void add(const std::string& problem, std::string choice, bool hasty = false);
  // A measured choice is remembered for the family, too, until the session ends; so is a found one that is used.
  void add_member(const ProblemFamily& family, const std::string& choice);
  // The choices for members of at most `distance` times the size and as many times less, the nearest first: three at
  // most, and each once.
  static constexpr int64_t kAnyDistance = 1 << 20;
  std::vector<std::string> near(const ProblemFamily& family, int64_t distance = 2) const;
  // Choices among those of near(), for the session alone: a session with that size in its model measures for itself.
  std::optional<std::string> find_borrowed(const std::string& problem) const;
  void borrow(const std::string& problem, std::string choice);
  static constexpr size_t kMostLines = 16'384;
  // Writes what is new, merged with what other processes have written meanwhile.
  void save();
  size_t measured() const;

 private:
  struct State {
    std::map<std::string, std::string> choices, borrowed;
    std::vector<std::string> fresh;  // keys of choices that the file does not have, the oldest first
    std::map<std::string, std::map<int64_t, std::string>> families;
    size_t measured = 0;
  };
  const std::string path_, environment_;
  mutable Guarded<State> state_;
};

// How long a measurement takes: the best of `repeats` runs of `calls` counts, and one run more comes before them. A
// call that takes longer than `give_up_ns` in the first of them is not measured again; 0: there is no such limit.
struct MeasureEffort {
  int calls = 12, repeats = 3;
  double give_up_ns = 0;
};
// Nanoseconds that one call of `queue` takes on the device, from a captured run of several. Not concurrent with other
// work of the program on `stream`.
Result<double> measure_ns(const CudaDevice& device, CUstream stream, const std::function<Status(CUstream)>& queue,
                          const MeasureEffort& effort = {});
// The same within a tenth of the time, and a few hundredths of the result: from two calls that are queued as they are.
Result<double> estimate_ns(const CudaDevice& device, CUstream stream, const std::function<Status(CUstream)>& queue);
// Of choices that are known to be fast the first stays, unless the estimate for another one is less than this part of
// it.
inline constexpr double kClearlyFaster = 0.95;

}  // namespace tenon::cuda
