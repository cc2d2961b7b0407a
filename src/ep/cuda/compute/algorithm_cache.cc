#include "ep/cuda/compute/algorithm_cache.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "base/format.h"
#include "base/system.h"
#include "ep/cuda/compute/checksum.h"

namespace tenon::cuda {

namespace {

// In front of a choice that was made without trying all.
constexpr char kHasty = '~';
// Of a line or a file; longer ones are nobody's.
constexpr size_t kMostLineBytes = 4096;
constexpr uintmax_t kMostFileBytes = uintmax_t{32} << 20;

struct Line {
  std::string problem, choice;
};

// In the order of the file; of a problem that comes twice, the last counts.
std::vector<Line> read_lines(const std::string& path) {
  std::vector<Line> lines;
  std::error_code failed;
  if (const uintmax_t size = std::filesystem::file_size(path, failed); failed || size > kMostFileBytes) return lines;
  std::ifstream file(path, std::ios::binary);
  std::string line;
  while (std::getline(file, line)) {
    const size_t first = line.find('\t');
    if (line.size() > kMostLineBytes || first == std::string::npos) continue;
    const std::string_view rest = std::string_view(line).substr(first + 1);
    const size_t second = rest.find('\t');
    if (second == std::string_view::npos || line.compare(0, first, checksum(rest)) != 0) continue;
    lines.push_back({std::string(rest.substr(0, second)), std::string(rest.substr(second + 1))});
  }
  return lines;
}

// Held by the process that writes a file. Without the lock, because another one keeps it for long or the folder knows
// none, nothing is written.
class FileLock {
 public:
  explicit FileLock(const std::string& path) {
    constexpr int kTries = 100;
    for (int i = 0; i < kTries && fd_ < 0; ++i) {
      if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      fd_ = create_locked_file(path + ".lock");
      if (fd_ < 0 && errno != EWOULDBLOCK) return;
    }
  }
  ~FileLock() {
    if (fd_ >= 0) (void)::close(fd_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  bool held() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace

AlgorithmCache::AlgorithmCache(std::string path, std::string environment)
    : path_(std::move(path)), environment_(std::move(environment)) {
  if (path_.empty()) return;
  auto state = state_.lock();
  for (Line& line : read_lines(path_)) state->choices[std::move(line.problem)] = std::move(line.choice);
}

std::optional<std::string> AlgorithmCache::find(const std::string& problem, bool hasty) const {
  const auto state = state_.lock();
  const auto found = state->choices.find(environment_ + "|" + problem);
  if (found == state->choices.end()) return std::nullopt;
  if (!found->second.starts_with(kHasty)) return found->second;
  return hasty ? std::optional(found->second.substr(1)) : std::nullopt;
}

AlgorithmCache::Kept AlgorithmCache::kept(std::string_view words, std::initializer_list<std::string_view> ours) const {
  const auto state = state_.lock();
  const std::string prefix = environment_ + "|";
  Kept result = Kept::kNothing;
  for (const auto& [problem, choice] : state->choices) {
    if (!problem.starts_with(prefix) || problem.find(words, prefix.size()) == std::string::npos) continue;
    const std::string_view text = std::string_view(choice).substr(choice.starts_with(kHasty) ? 1 : 0);
    const auto begins = [&](std::string_view word) { return text.starts_with(word); };
    if (std::any_of(ours.begin(), ours.end(), begins)) return Kept::kOurs;
    result = Kept::kOthers;
  }
  return result;
}

void AlgorithmCache::add(const std::string& problem, std::string choice, bool hasty) {
  auto state = state_.lock();
  const std::string key = environment_ + "|" + problem;
  state->choices[key] = hasty ? kHasty + choice : std::move(choice);
  std::erase(state->fresh, key);
  state->fresh.push_back(key);
  ++state->measured;
}

void AlgorithmCache::add_member(const ProblemFamily& family, const std::string& choice) {
  if (!family.text.empty()) state_.lock()->families[family.text][family.size] = choice;
}

std::vector<std::string> AlgorithmCache::near(const ProblemFamily& family, int64_t distance) const {
  constexpr size_t kMost = 3;
  const auto state = state_.lock();
  const auto found = state->families.find(family.text);
  if (found == state->families.end()) return {};
  std::vector<std::pair<double, const std::string*>> members;  // by how many times they are larger or smaller
  for (auto member = found->second.lower_bound((family.size + distance - 1) / distance);
       member != found->second.end() && member->first / distance <= family.size &&
       member->first <= distance * family.size;
       ++member) {
    const double ratio = static_cast<double>(member->first) / static_cast<double>(std::max<int64_t>(family.size, 1));
    members.emplace_back(std::max(ratio, 1 / std::max(ratio, 1e-9)), &member->second);
  }
  std::stable_sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> choices;
  for (const auto& [distance, choice] : members)
    if (choices.size() < kMost && std::find(choices.begin(), choices.end(), *choice) == choices.end())
      choices.push_back(*choice);
  return choices;
}

std::optional<std::string> AlgorithmCache::find_borrowed(const std::string& problem) const {
  const auto state = state_.lock();
  const auto found = state->borrowed.find(problem);
  return found != state->borrowed.end() ? std::optional(found->second) : std::nullopt;
}

void AlgorithmCache::borrow(const std::string& problem, std::string choice) {
  state_.lock()->borrowed[problem] = std::move(choice);
}

size_t AlgorithmCache::measured() const { return state_.lock()->measured; }

void AlgorithmCache::save() {
  auto state = state_.lock();
  if (path_.empty() || state->fresh.empty()) return;
  std::error_code ignored;
  const std::filesystem::path path(path_);
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ignored);
  const FileLock lock(path_);
  if (!lock.held()) return;
  std::vector<Line> lines = read_lines(path_);
  for (const std::string& problem : state->fresh) lines.push_back({problem, state->choices[problem]});
  // The newest of each problem stays, and of all the newest.
  std::set<std::string_view> seen;
  std::vector<const Line*> kept;
  for (auto line = lines.rbegin(); line != lines.rend() && kept.size() < kMostLines; ++line)
    if (line->problem.size() + line->choice.size() < kMostLineBytes / 2 && seen.insert(line->problem).second)
      kept.push_back(&*line);
  const std::string temporary = path_ + ".new";
  {
    std::ofstream file(temporary, std::ios::trunc | std::ios::binary);
    for (auto line = kept.rbegin(); line != kept.rend(); ++line) {
      const std::string text = (*line)->problem + '\t' + (*line)->choice;
      file << checksum(text) << '\t' << text << '\n';
    }
    if (!file.good()) return;
  }
  std::filesystem::rename(temporary, path_, ignored);
  if (ignored) std::filesystem::remove(temporary, ignored);
  state->fresh.clear();
}

namespace {

struct Measurement {
  const CudaDriver& driver;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUevent begin = nullptr, end = nullptr;
  ~Measurement() {
    if (exec != nullptr) (void)driver.GraphExecDestroy(exec);
    if (graph != nullptr) (void)driver.GraphDestroy(graph);
    if (begin != nullptr) (void)driver.EventDestroy(begin);
    if (end != nullptr) (void)driver.EventDestroy(end);
  }
  // Of one of `calls`.
  Result<double> time_ns(CUstream stream, const std::function<Status(CUstream)>& queue, int calls) {
    for (CUevent* event : {&begin, &end})
      if (*event == nullptr) TENON_CUDA_TRY(driver, EventCreate, event, CU_EVENT_DEFAULT);
    TENON_CUDA_TRY(driver, EventRecord, begin, stream);
    for (int i = 0; i < calls; ++i) TENON_TRY(queue(stream));
    TENON_CUDA_TRY(driver, EventRecord, end, stream);
    TENON_CUDA_TRY(driver, EventSynchronize, end);
    float milliseconds = 0;
    TENON_CUDA_TRY(driver, EventElapsedTime, &milliseconds, begin, end);
    return static_cast<double>(milliseconds) * 1e6 / calls;
  }
};

}  // namespace

Result<double> measure_ns(const CudaDevice& device, CUstream stream, const std::function<Status(CUstream)>& queue,
                          const MeasureEffort& effort) {
  const CudaDriver& driver = device.driver();
  Measurement m{.driver = driver};
  TENON_CUDA_TRY(driver, StreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  Status queued;
  for (int i = 0; i < effort.calls && queued.ok(); ++i) queued = queue(stream);
  const CUresult ended = driver.StreamEndCapture(stream, &m.graph);
  TENON_TRY(std::move(queued));
  TENON_TRY(cuda_status(driver, ended, "cuStreamEndCapture"));
  TENON_CUDA_TRY(driver, GraphInstantiateWithFlags, &m.exec, m.graph, 0);
  TENON_CUDA_TRY(driver, GraphLaunch, m.exec, stream);
  const auto launch = [&](CUstream to) -> Status {
    TENON_CUDA_TRY(driver, GraphLaunch, m.exec, to);
    return Status();
  };
  double best = 0;
  for (int i = 0; i < effort.repeats; ++i) {
    TENON_TRY_ASSIGN(const double ns, m.time_ns(stream, launch, 1));
    best = i == 0 ? ns : std::min(best, ns);
    if (effort.give_up_ns > 0 && best > effort.give_up_ns * effort.calls) break;
  }
  return best / effort.calls;
}

Result<double> estimate_ns(const CudaDevice& device, CUstream stream, const std::function<Status(CUstream)>& queue) {
  Measurement m{.driver = device.driver()};
  TENON_TRY(queue(stream));
  return m.time_ns(stream, queue, 2);
}

}  // namespace tenon::cuda
