// Which algorithm was fastest for a problem, kept in a file between sessions, and the measuring itself.
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

#include "base/guarded.h"
#include "ep/cuda/driver/cuda_device.h"

namespace tenon::cuda {

class AlgorithmCache {
 public:
  // `path` empty: nothing is kept. `environment` names the device and the versions that choices hold for.
  AlgorithmCache(std::string path, std::string environment);

  std::optional<std::string> find(const std::string& problem) const;
  // Whether choices are kept for problems whose text has `words`, and whether one of them begins with one of `ours`.
  enum class Kept : uint8_t { kNothing, kOthers, kOurs };
  Kept kept(std::string_view words, std::initializer_list<std::string_view> ours) const;
  void add(const std::string& problem, std::string choice);
  // Writes what is new, merged with what other processes have written meanwhile.
  void save();
  size_t measured() const;

 private:
  struct State {
    std::map<std::string, std::string> choices;
    bool changed = false;
    size_t measured = 0;
  };
  const std::string path_, environment_;
  mutable Guarded<State> state_;
};

// Nanoseconds that one call of `queue` takes on the device, from a captured run of several. Not concurrent with other
// work of the program on `stream`.
Result<double> measure_ns(const CudaDevice& device, CUstream stream, const std::function<Status(CUstream)>& queue);

}  // namespace tenon::cuda
